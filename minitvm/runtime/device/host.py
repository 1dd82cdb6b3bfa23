"""The host's part of a program on a device: the kernels that run on the host, and their memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import InternalError
from ...executable import ArenaSlice, CallKernel, ConstantRef, Copy, Executable, Location, evaluate
from ...executable.alignment import aligned, aligned_empty
from ...expr import DType
from ..hosted import Run, hosted
from ..shapes import Bindings
from .device import Bytes, as_bytes


@dataclass(frozen=True, slots=True)
class HostPlace:
    """A place in host memory."""

    data: Bytes


class HostSide:
    """The parts of a program that stay on the host. There are none if all kernels run on the device."""

    def __init__(self, executable: Executable, threads: int | None = None, codes: Sequence[Any] | None = None) -> None:
        """Prepare the kernels and constants of the host.

        `threads` is the number of threads that the host's kernels may use; None leaves it to them. `codes[k]` is the
        machine code of kernel k from an artifact, or None if the artifact has none.
        """
        self.executable = executable
        self.kernels: dict[int, Run] = {
            number: hosted(kernel, executable.target, threads, None if codes is None else codes[number])
            for number, kernel in enumerate(executable.kernels)
            if kernel.target
        }
        self._constants = {k: aligned(executable.constants[k].data) for k in self._constants_read(by_host=True)}
        self.device_constants = self._constants_read(by_host=False)

    def _constants_read(self, by_host: bool) -> set[int]:
        """Return the indices of the constants that host steps read (with `by_host`), or that all other steps read."""
        steps = [step for step in self.executable.steps if self.runs(step) == by_host]
        places = [(step.src,) if isinstance(step, Copy) else getattr(step, "args", ()) for step in steps]
        return {a.index for args in places for a in args if isinstance(a, ConstantRef)}

    def runs(self, step: Any) -> bool:
        """Return whether a step calls a kernel that runs on the host."""
        return isinstance(step, CallKernel) and step.kernel in self.kernels

    def has(self, arena: int) -> bool:
        """Return whether an arena is in host memory."""
        return bool(self.executable.arenas[arena].target)

    def arena(self, index: int, size: int) -> Bytes:
        """Allocate host memory for an arena."""
        return aligned_empty(size, self.executable.arenas[index].alignment)

    def flat(self, at: Location, dtype: DType, env: Bindings, arenas: Sequence[Any]) -> np.ndarray[Any, Any]:
        """Return a flat array over the elements of a location in host memory. `arenas` holds the memory of the
        arenas.
        """
        data = self._bytes(at, env, arenas)
        return data[: data.size // dtype.bytes * dtype.bytes].view(dtype.numpy)

    def _bytes(self, at: Location, env: Bindings, arenas: Sequence[Any]) -> Bytes:
        if isinstance(at, ConstantRef):
            return as_bytes(self._constants[at.index])
        if not isinstance(at, ArenaSlice) or not self.has(at.arena):
            raise InternalError(f"a kernel of the host works on {at}, which is in the device's memory")
        return slice_of(arenas[at.arena], at, env).data


def slice_of(arena: Bytes, at: ArenaSlice, env: Bindings) -> HostPlace:
    """Return the place of an arena slice in host memory."""
    begin, nbytes = (int(evaluate(n, env)) for n in (at.offset, at.nbytes))
    return HostPlace(arena[begin : begin + nbytes])
