"""Programs on an OpenCL device: `runtime.device` with the commands of OpenCL."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ....errors import TargetError
from ....executable import Executable, Kernel, KernelParam
from ....executable.alignment import array_at
from ....expr import DType
from ....runtime import dlpack
from ....runtime.device.device import Bytes, Launch, Limits, Place, Shape
from ....runtime.device.program import DeviceProgram
from ....runtime.words import signed_word
from . import kernels as sources
from .devices import Device, current, pyopencl

if TYPE_CHECKING:
    from ....runtime.program import Progress


class OpenCLProgram(DeviceProgram):
    """An executable whose kernels the device's driver compiles."""

    def open_device(self, wanted: str) -> OpenCLDevice:
        return opened(wanted)


class OpenCLDevice:
    """A `runtime.device.Device` that uses an OpenCL device's queue."""

    arch = ""

    def __init__(self, opened: Device) -> None:
        self.opened, self.cl = opened, pyopencl()
        self._queue = opened.queue
        self._events: list[Any] = []  # of the commands that are timed
        self._is_timed = False
        self.identity = opened.context
        self.errors: tuple[type[Exception], ...] = (self.cl.Error,)
        self._ready: set[tuple[Any, ...]] = set()  # the kernels that the driver has compiled, with their groups
        handle = opened.handle
        self.limits = Limits(
            int(handle.max_work_group_size), tuple(handle.max_work_item_sizes), int(handle.max_mem_alloc_size),
            int(handle.max_compute_units),
        )  # fmt: skip

    @property
    def name(self) -> str:
        return self.opened.name

    def compiled(self, executable: Executable, progress: Progress | None, codes: Sequence[Any] | None) -> list[Any]:  # noqa: ARG002
        return sources.compiled(self.opened, executable.kernels, progress)

    dlpack = (dlpack.OPENCL, 0)
    stream = None
    has_addresses = False  # a buffer has a handle

    @property
    def shares_host(self) -> bool:
        """Return whether the device is a processor, which runs kernels in the host's memory."""
        return bool(self.opened.handle.type & self.cl.device_type.CPU) and not self.opened.is_simulator

    def enter(self) -> None:
        """Do nothing, because every thread may use the device. Raises `TargetError` if the driver no longer answers."""
        self.opened.require_usable()

    def over_host(self, address: int, nbytes: int) -> Any:
        flags = self.cl.mem_flags
        host = array_at(address, "uint8", (nbytes,))
        return self.cl.Buffer(self.opened.context, flags.READ_WRITE | flags.USE_HOST_PTR, hostbuf=host)

    def adopted(self, address: int, nbytes: int) -> Any:  # noqa: ARG002
        raise TargetError(f"{self.name} has no addresses that libraries share")

    def address(self, buffer: Any) -> int:
        return int(buffer.int_ptr)

    def is_aligned(self, buffer: Any) -> bool:  # noqa: ARG002 (a buffer of OpenCL always is)
        return True

    def allocated(self, nbytes: int) -> Any:
        return self.cl.Buffer(self.opened.context, self.cl.mem_flags.READ_WRITE, nbytes)

    def write(self, place: Place, data: Bytes) -> None:
        self._keep(self.cl.enqueue_copy(self._queue, place.buffer, data, dst_offset=place.offset, is_blocking=False))

    def read(self, data: Bytes, place: Place) -> None:
        self._keep(self.cl.enqueue_copy(self._queue, data, place.buffer, src_offset=place.offset, is_blocking=False))

    def copy(self, to: Place, source: Place, nbytes: int) -> None:
        offsets = {"src_offset": source.offset, "dst_offset": to.offset}
        self._keep(self.cl.enqueue_copy(self._queue, to.buffer, source.buffer, byte_count=nbytes, **offsets))

    def launch(self, kernel: Any, about: Kernel, values: Sequence[Any], shape: Shape) -> Launch:
        mine = self.cl.Kernel(kernel, about.entry)  # its own: it keeps its arguments
        arguments: list[Any] = []
        for value, param in zip(values, about.params, strict=True):
            arguments += [value.buffer, np.uint64(value.offset)] if isinstance(value, Place) else [scalar(value, param)]
        mine.set_args(*arguments)
        self._check_room(mine, about.name, shape)
        items = tuple(b * t for b, t in zip(shape.blocks, shape.threads, strict=True))

        def queue() -> Any:
            event = self.cl.enqueue_nd_range_kernel(self._queue, mine, items, shape.threads)
            self._keep(event)
            return event

        key = (id(kernel), about.entry, shape.threads)  # the caller keeps the program
        return lambda: queue() if key in self._ready else self._first(queue, about.name, key)

    def _first(self, queue: Callable[[], Any], name: str, key: tuple[Any, ...]) -> None:
        """Queue a kernel for the first time. PoCL compiles it only after all earlier commands."""
        if self.shares_host:
            self.finish()
            self._await_begin(queue(), name)
        else:
            queue()
        self._ready.add(key)

    def _await_begin(self, event: Any, name: str) -> None:
        """Wait until a kernel begins. Raises `TargetError` if that takes longer than the limit."""
        self._queue.flush()
        end, pause = time.monotonic() + sources.limit(), 1e-4
        while event.command_execution_status > self.cl.command_execution_status.RUNNING:
            if time.monotonic() > end:
                self.opened.stuck.append(name)
                raise sources.too_slow(self.opened, name)
            time.sleep(pause)
            pause = min(2 * pause, 0.02)

    def _check_room(self, kernel: Any, name: str, shape: Shape) -> None:
        """Raise `TargetError` for a group that needs more registers, or more local memory, than the device has for this
        kernel.
        """
        info, handle = self.cl.kernel_work_group_info, self.opened.handle
        most, items = int(kernel.get_work_group_info(info.WORK_GROUP_SIZE, handle)), math.prod(shape.threads)
        if items > most:
            raise TargetError(
                f"kernel {name} has groups of {items} work-items\n"
                f"  found:  {self.name} has the registers for {most} of this kernel in a group\n"
                "  try:    a target with fewer max_threads_per_block, or smaller tiles"
            )
        needed = int(kernel.get_work_group_info(info.LOCAL_MEM_SIZE, handle))
        if needed > int(handle.local_mem_size):
            raise TargetError(
                f"kernel {name} needs {needed} bytes of local memory a group\n"
                f"  found:  {self.name} has {int(handle.local_mem_size)}\n"
                f"  try:    a target with max_shared_memory_per_block={int(handle.local_mem_size)}"
            )

    def _keep(self, event: Any) -> None:
        if self._is_timed:
            self._events.append(event)

    def finish(self) -> None:
        self._queue.finish()

    def recorded(self, queue: Callable[[], None]) -> Launch | None:  # noqa: ARG002 (OpenCL 1.2 records nothing)
        return None

    def timed(self, before: Callable[[], None], queue: Callable[[], None]) -> float:
        """Return the seconds from the start of the first command to the end of the last one, measured by a profiling
        queue.
        """
        self.finish()
        profiling = self.cl.command_queue_properties.PROFILING_ENABLE
        self._queue = self.cl.CommandQueue(self.opened.context, self.opened.handle, properties=profiling)
        try:
            before()
            self._is_timed = True
            queue()
            self.finish()
            if not self._events:
                return 0.0
            return float(1e-9 * (self._events[-1].profile.end - self._events[0].profile.start))
        finally:
            self._queue, self._is_timed, self._events = self.opened.queue, False, []


def opened(wanted: str = "") -> OpenCLDevice:
    """Return the device on which programs run, or the one with this name. Raises `TargetError` if there is none."""
    return OpenCLDevice(current(wanted))


def scalar(value: Any, param: KernelParam) -> Any:
    """Return a number in the form that a kernel takes: integers as long, 16-bit floats as float32, other floats
    unchanged.
    """
    dtype = DType(param.dtype)
    if dtype.is_float:
        return np.float64(value) if dtype == "float64" else np.float32(dtype.numpy.type(value))
    return np.int64(signed_word(value))
