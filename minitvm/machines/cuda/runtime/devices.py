"""The CUDA devices of this machine, and the device on which programs run.

MINITVM_CUDA_DEVICE selects it by its number or by a part of its name. "simulator" runs kernels in Python, without a
device: each thread of a grid runs the kernel's text (`simulator`). The default is the first device. You can open a
module on another device with `minitvm.build(..., device=1)`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from ....errors import TargetError
from ....executable import Executable, Kernel
from ....executable.alignment import ALIGNMENT, array_at
from ....runtime import dlpack
from ....runtime.device.device import Bytes, Launch, Limits, Place, Shape, words_of
from ....target import Target
from .faults import Address, KernelFault

if TYPE_CHECKING:
    from ....runtime.program import Progress

VARIABLE = "MINITVM_CUDA_DEVICE"
SIMULATOR = "simulator"
_OPENED: dict[str, Any] = {}  # devices, by their numbers


def names() -> list[str]:
    """Return readable names of the devices that the driver finds. The list is empty if there is no driver."""
    from .driver import found

    return found()


def current(wanted: str = "") -> Any:
    """Return the device on which programs run, as a `runtime.device.Device`. Raises `TargetError` if there is none.

    `wanted` is its number or a part of its name; "" selects the device that the environment variable names, or the
    first. If the driver accepts no commands after a kernel has failed, the device is reset and opened again.
    """
    name = (wanted or os.environ.get(VARIABLE, "")).strip().lower()
    key = SIMULATOR if name == SIMULATOR else str(_number(name))
    if key in _OPENED and _OPENED[key].lost:
        _OPENED.pop(key).reset()
    if key not in _OPENED:
        _OPENED[key] = _opened(key)
    return _OPENED[key]


def memory(where: tuple[int, int]) -> Any:
    """Return the device with this number in DLPack's numbering if programs run on it, or None for another kind of
    device.

    Raises `TargetError` for a CUDA device on which no programs run.
    """
    if where[0] != dlpack.CUDA:
        return None
    device = current()
    if device.dlpack != where and device.dlpack[0] == dlpack.CUDA:
        with suppress(TargetError):
            device = current(str(where[1]))
    if device.dlpack != where:
        raise TargetError(
            f"it is on {dlpack.place_name(where)}, and programs run on {device.name}\n  try:    {VARIABLE}={where[1]}"
        )
    return device


def _opened(key: str) -> Any:
    if key == SIMULATOR:
        return SimulatedDevice()
    from .driver import CudaDevice

    return CudaDevice(int(key))


def at_hand(target: Target) -> Target:
    """Return the target of the device on which programs run, if `target` names no architecture and there is a device.

    Otherwise return `target`.
    """
    wanted = os.environ.get(VARIABLE, "").strip().lower()
    if target.arch or wanted == SIMULATOR:
        return target
    from .driver import described

    try:
        return target.on(described(_number(wanted)))
    except TargetError:  # whoever runs the code is told that there is no device
        return target


def _number(wanted: str) -> int:
    """Return the number of the selected device. Raises `TargetError` if there is none."""
    from .driver import found

    devices = found()
    if not devices:
        raise TargetError(
            "there is no CUDA device: no driver of NVIDIA was found, or it has no device\n"
            f"  try:    {VARIABLE}={SIMULATOR}, which runs kernels in Python, slowly; or --target opencl"
        )
    if wanted.isdigit() and int(wanted) < len(devices):
        return int(wanted)
    number = next((n for n, name in enumerate(devices) if wanted in name.lower()), None)
    if number is None:
        listed = "\n          ".join(devices)
        raise TargetError(f"no CUDA device is called {wanted!r}, as {VARIABLE} or device= says\n  found:  {listed}")
    return number


class SimulatedDevice:
    """A device that runs kernels in Python, in the memory of this process."""

    name, target = "simulator of CUDA", "cuda"
    arch = lost = ""
    limits = Limits(1024, (1024, 1024, 64), piece=1 << 40, units=1, blocks=(2**31 - 1, 65535, 65535))
    errors: tuple[type[Exception], ...] = (KernelFault,)

    def compiled(self, executable: Executable, progress: Progress | None, codes: Sequence[Any] | None) -> list[Any]:  # noqa: ARG002
        from .simulator import simulated

        runs, kernels = [], executable.kernels
        for number, kernel in enumerate(kernels):
            runs.append(simulated(kernel.source, kernel.entry))
            if progress is not None:
                progress(number + 1, len(kernels), kernel.name)
        return runs

    identity = dlpack = (dlpack.CPU, 0)
    stream = None
    shares_host = True
    has_addresses = True

    def enter(self) -> None:
        """Do nothing: every thread may use the device."""

    def over_host(self, address: int, nbytes: int) -> Any:
        return array_at(address, "uint8", (nbytes,))

    adopted = over_host

    def address(self, buffer: Any) -> int:
        return int(buffer.ctypes.data)

    def is_aligned(self, buffer: Any) -> bool:
        return self.address(buffer) % ALIGNMENT == 0

    def allocated(self, nbytes: int) -> Any:
        """Allocate memory with the driver's alignment."""
        room = np.empty(nbytes + 256, np.uint8)
        begin = -room.ctypes.data % 256
        return room[begin : begin + nbytes]

    def write(self, place: Place, data: Bytes) -> None:
        place.buffer[place.offset : place.offset + data.size] = data

    def read(self, data: Bytes, place: Place) -> None:
        data[:] = place.buffer[place.offset : place.offset + data.size]

    def copy(self, to: Place, source: Place, nbytes: int) -> None:
        to.buffer[to.offset : to.offset + nbytes] = source.buffer[source.offset : source.offset + nbytes].copy()

    def launch(self, kernel: Any, about: Kernel, values: Sequence[Any], shape: Shape) -> Launch:
        words = words_of(values, about, lambda place: int(place.buffer.ctypes.data) + place.offset)
        for k, (value, param) in enumerate(zip(values, about.params, strict=True)):
            if isinstance(value, Place):
                words[k] = Address(words[k], param.name, value.nbytes)

        def run() -> None:
            try:
                kernel(shape.blocks, shape.threads, words, about.shared_bytes)
            except KernelFault as fault:
                raise KernelFault(f"kernel {about.name}: {fault}") from None

        return run

    def finish(self) -> None:
        """Do nothing: commands are done when they return."""

    def recorded(self, queue: Callable[[], None]) -> Launch | None:
        """Return `queue`, which runs the commands again."""
        return queue

    def timed(self, before: Callable[[], None], queue: Callable[[], None]) -> float:  # noqa: ARG002
        """Return the seconds by the host's clock. Commands are done when they return, so `before` is not needed."""
        start = time.perf_counter()
        queue()
        return time.perf_counter() - start
