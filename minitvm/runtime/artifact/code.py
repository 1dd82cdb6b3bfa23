"""The machine code of an executable's kernels: one part for each machine whose back end can save code.

    [{"target": "cuda -arch=sm_80", "about": ..., "size": 4096}, {"target": "cpu", "about": ..., "size": 1024}]

Each back end defines the contents of `about` (`runtime.program.MachineCode`). The bytes of the parts follow each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...backend import get
from ...errors import InputError
from ...executable import Executable
from ..program import MachineCode, Progress

Index = list[dict[str, Any]]


def pack(executable: Executable, architectures: Sequence[str], progress: Progress | None) -> tuple[Index, bytes]:
    """Return the index and the machine code of an executable's kernels.

    `architectures` are architectures for the executable's own target. Raises `InputError` if you pass architectures and
    the target's back end cannot save code.
    """
    index, codes = list[dict[str, Any]](), []
    for target, numbers in _by_target(executable).items():
        own = target == executable.target
        code: MachineCode | None = get(target).part("machine_code")
        if code is None:
            if own and architectures:
                raise InputError(
                    f"code for {', '.join(architectures)}: an artifact for {target.split()[0]} holds sources, its "
                    "device compiles"
                )
            continue
        part = replace(executable, target=target, kernels=tuple(executable.kernels[k] for k in numbers))
        packed = code.pack(part, architectures if own else (), progress)
        if packed is None:
            continue
        about, data = packed
        index.append({"target": target, "about": about, "size": len(data)})
        codes.append(data)
    return index, b"".join(codes)


def unpack(executable: Executable, index: Sequence[Mapping[str, Any]], data: memoryview) -> list[Any]:
    """Return the code of each kernel, with None where the artifact has no code for this machine.

    Raises `ValueError` if the sizes of the parts do not add up to the size of the code.
    """
    if sum(part["size"] for part in index) != len(data):
        raise ValueError(f"the parts of {len(data)} bytes of code are {[part['size'] for part in index]}")
    codes: list[Any] = [None] * len(executable.kernels)
    numbers_of = _by_target(executable)
    for part in index:
        numbers = numbers_of[part["target"]]
        code: MachineCode = get(part["target"]).part("machine_code")
        ready = code.unpack(part["about"], data[: part["size"]], len(numbers))
        for number, its in zip(numbers, ready or (), strict=bool(ready)):
            codes[number] = its
        data = data[part["size"] :]
    return codes


def _by_target(executable: Executable) -> dict[str, list[int]]:
    """Return the indices of the kernels for each target, starting with the executable's own target."""
    numbers: dict[str, list[int]] = {executable.target: []}
    for number, kernel in enumerate(executable.kernels):
        numbers.setdefault(kernel.target or executable.target, []).append(number)
    return numbers
