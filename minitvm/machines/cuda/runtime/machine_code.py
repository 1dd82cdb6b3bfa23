"""Convert the cubins of an executable's kernels to bytes for an artifact, for several architectures, and back.

A JSON index lists the architectures, with the size of each distinct kernel's cubin for each of them. Loading needs
neither Numba nor a device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ....executable import Executable
from ....runtime.program import Progress
from ....target import Target
from .architectures import DEFAULT_ARCH, best_for, compiled_for


@dataclass(frozen=True, slots=True)
class Cubins:
    """The machine code of one kernel, by architecture."""

    code: Mapping[str, bytes]

    def for_device(self, arch: str) -> bytes | None:
        """Return the best code for a device of this architecture, or None if none of it runs there."""
        best = best_for(arch, self.code)
        return None if best is None else self.code[best]


def pack(
    executable: Executable, architectures: Sequence[str] = (), progress: Progress | None = None
) -> tuple[dict[str, Any], bytes]:
    """Return an index and the cubins, by default for the architecture of the executable's target.

    Raises `TargetError` for an architecture that the target's kernels do not run on.
    """
    from .compile_pool import cubins  # needed to save code, not to load it

    target = str(Target(executable.target).arch)
    chosen = list(dict.fromkeys(compiled_for(target, arch) for arch in architectures or [target or DEFAULT_ARCH]))
    kernels = [(k.source, k.entry) for k in executable.kernels]
    distinct = list(dict.fromkeys(kernels))
    codes = cubins([(*kernel, arch) for arch in chosen for kernel in distinct], None, progress)
    rows = [codes[n : n + len(distinct)] for n in range(0, len(codes), len(distinct) or 1)]
    about = {
        "kernels": [distinct.index(kernel) for kernel in kernels],
        "sizes": {arch: [len(code) for code in row] for arch, row in zip(chosen, rows, strict=False)},
    }
    return about, b"".join(codes)


def unpack(about: Mapping[str, Any], data: memoryview, count: int) -> list[Cubins] | None:
    """Return the cubins of `count` kernels, or None if the artifact has none."""
    if not about:
        return None
    numbers, distinct, end = about["kernels"], dict[int, dict[str, bytes]](), 0
    for arch, sizes in about["sizes"].items():
        for number, size in enumerate(sizes):
            distinct.setdefault(number, {})[arch] = bytes(data[end : end + size])
            end += size
    if len(numbers) != count or end != len(data):
        raise ValueError(f"cubins of {len(numbers)} kernels in {end} bytes; {count} in the program, {len(data)} bytes")
    return [Cubins(distinct[number]) for number in numbers]
