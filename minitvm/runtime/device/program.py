"""Programs on devices with their own memory, and the memory that an executable keeps there between runs.

Constants, arenas and states stay on the device; memory for kernels of the host stays on the host (`host`). `bound`
defines the program for one choice of dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import TargetError
from ...executable import Executable
from ..program import Program
from ..shapes import Bindings
from .arrays import Pool
from .bound import BoundProgram
from .device import Device, Place, as_bytes, reported
from .device_states import States
from .host import HostSide

if TYPE_CHECKING:
    from ..program import Progress


class DeviceProgram(Program):
    """An executable whose kernels are compiled for a device.

    Only one run at a time is allowed, so the owner must hold a lock.
    """

    def __init__(
        self,
        executable: Executable,
        threads: int | None = None,  # for the host's kernels; a device's number is fixed
        *,
        workers: int | None = None,  # noqa: ARG002 (the device's compiler decides)
        progress: Progress | None = None,
        kernels: Sequence[Any] | None = None,
        device: str = "",
    ) -> None:
        super().__init__(executable)
        self.device = self.open_device(device)
        self.threads = self.device.limits.units
        self.host = HostSide(executable, threads, kernels)
        self.hosted = self.host.kernels
        self.kernels = self._compiled(progress, kernels)
        self.pool = Pool(self.allocated)
        self.memory = States(self)
        self.states = self.memory.arrays
        used = self.host.device_constants
        self.constants = [self.filled(c.data) if k in used else None for k, c in enumerate(executable.constants)]
        self._arenas: list[tuple[Any, int]] = [(None, -1)] * len(executable.arenas)

    def _compiled(self, progress: Progress | None, codes: Sequence[Any] | None) -> dict[int, Any]:
        """Compile the kernels that run on the device, and return them by index."""
        numbers = [k for k in range(len(self.executable.kernels)) if k not in self.host.kernels]
        own = replace(self.executable, kernels=tuple(self.executable.kernels[k] for k in numbers))
        ready = None if codes is None else [codes[k] for k in numbers]
        loaded = self.device.compiled(own, progress, None if ready is None or None in ready else ready)
        return dict(zip(numbers, loaded, strict=True))

    def open_device(self, wanted: str) -> Device:
        """Open the device that `wanted` names by its number or name. "" means the default device for programs of this
        kind.

        Raises `TargetError` if there is no such device.
        """
        raise NotImplementedError

    def allocated(self, nbytes: int, what: str) -> Any:
        """Allocate memory on the device. Raises `TargetError` if the device does not have enough."""
        limit = self.device.limits.piece
        if nbytes > limit:
            raise _refused(what, nbytes, f"{self.device.name} allocates at most {limit} bytes at a time")
        try:
            return self.device.allocated(max(1, nbytes))
        except (MemoryError, *self.device.errors) as error:  # type: ignore[misc]
            raise _refused(what, nbytes, f"{self.device.name} has no room for them: {error}") from None

    def filled(self, data: np.ndarray[Any, Any]) -> Any:
        """Copy an array to newly allocated memory on the device, and return the buffer."""
        buffer = self.allocated(data.nbytes, "a constant")
        if data.nbytes:
            with reported(self.device, "a copy to the device"):
                self.device.write(Place(buffer), as_bytes(np.ascontiguousarray(data)))
                self.device.finish()
        return buffer

    def arena(self, index: int, size: int) -> Any:
        """Return memory of at least `size` bytes for arena `index`.

        If the current memory is too small, it is dropped together with the programs that are bound to it.
        """
        buffer, room = self._arenas[index]
        if room < size:
            self._bound.clear()
            name = self.executable.arenas[index].name
            buffer = self.host.arena(index, size) if self.host.has(index) else self.allocated(size, f"arena {name}")
            self._arenas[index] = (buffer, size)
        return buffer

    def bound_to(self, env: Bindings) -> BoundProgram:
        """Return a new bound program for the dimensions `env`. `bind` calls this."""
        return BoundProgram(self, env)


def _refused(what: str, nbytes: int, found: str) -> TargetError:
    """Return the error for memory that a device cannot allocate."""
    return TargetError(
        f"{what} needs {nbytes} bytes of the device's memory\n  found:  {found}\n"
        "  try:    a smaller batch, shorter dimensions, or weights of fewer bits; or --target cpu"
    )
