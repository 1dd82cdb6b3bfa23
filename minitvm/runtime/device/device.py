"""The interface that a driver of devices implements: memory, copies and launches, which run in the order of their
calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ...errors import ExecutionError, TargetError
from ...executable import Executable, Kernel
from ..words import scalar_word

if TYPE_CHECKING:
    from ..program import Progress

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Launch = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Place:
    """A place in device memory: a buffer, a byte offset, and the number of bytes `nbytes` if it is known."""

    buffer: Any
    offset: int = 0
    nbytes: int | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a device: threads per block (in total and along each axis), bytes per piece of memory, compute
    units.

    `blocks` is the largest number of blocks in a grid along each axis; () allows any number.
    """

    threads: int
    axes: tuple[int, ...]
    piece: int
    units: int
    blocks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of a launch: the numbers of blocks along three axes, and of the threads in a block."""

    blocks: tuple[int, ...]
    threads: tuple[int, ...]


class Device(Protocol):
    """A device. Commands run in the order in which they are queued, and `finish` waits for all of them."""

    @property
    def name(self) -> str: ...
    @property
    def limits(self) -> Limits: ...
    @property
    def arch(self) -> str:
        """The architecture of the device, or "" if compilers have no name for it."""

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """The exceptions that are raised when a command fails on the device."""

    def enter(self) -> None:
        """Allow the current Python thread to issue commands to the device."""

    def compiled(self, executable: Executable, progress: Progress | None, codes: Sequence[Any] | None) -> list[Any]:
        """Compile the executable's kernels so that they are ready to launch. Raises `TargetError` if the compiler
        rejects a kernel.

        `codes` is the machine code from an artifact, as returned by `program.MachineCode.unpack`.
        """

    @property
    def dlpack(self) -> tuple[int, int]:
        """The kind and number of the device in DLPack's numbering."""

    @property
    def identity(self) -> Any:
        """A value that is equal for two device objects if each can use the other's memory."""

    @property
    def stream(self) -> int | None:
        """The command queue as a number for DLPack, or None if the queue has no such number."""

    @property
    def shares_host(self) -> bool:
        """Return whether kernels can use host memory in place, through `over_host`."""

    def over_host(self, address: int, nbytes: int) -> Any:
        """Return host memory as a buffer of the device, without a copy."""

    def adopted(self, address: int, nbytes: int) -> Any:
        """Return a buffer over device memory that another library owns. Raises `TargetError` if the device has no
        addresses.
        """

    @property
    def has_addresses(self) -> bool:
        """Return whether `address` is the real address of a buffer's first byte, so that the other bytes follow it."""

    def address(self, buffer: Any) -> int:
        """Return the address of a buffer. Different buffers have different addresses."""

    def is_aligned(self, buffer: Any) -> bool:
        """Return whether a buffer has the alignment that kernels assume, which is 64 bytes."""

    def allocated(self, nbytes: int) -> Any:
        """Allocate memory that is freed with the last reference to it.

        Raises one of `errors`, or `MemoryError`, if there is not enough memory.
        """

    def write(self, place: Place, data: Bytes) -> None:
        """Queue a copy from host memory to the device."""

    def read(self, data: Bytes, place: Place) -> None:
        """Queue a copy from the device to host memory."""

    def copy(self, to: Place, source: Place, nbytes: int) -> None:
        """Queue a copy within the device's memory."""

    def launch(self, kernel: Any, about: Kernel, values: Sequence[Any], shape: Shape) -> Launch:
        """Return a function that queues a kernel with the arguments `values` (places and numbers) each time you call
        it.
        """

    def finish(self) -> None:
        """Wait for all queued commands."""

    def recorded(self, queue: Callable[[], None]) -> Launch | None:
        """Record all commands that `queue` queues as one command (a graph), or return None if the device cannot
        record.
        """

    def timed(self, before: Callable[[], None], queue: Callable[[], None]) -> float:
        """Return the seconds, by the device's own clock, that the commands queued by `queue` take.

        `before` queues commands that keep the device busy in the meantime, so that the time that the host spends on
        queuing does not count.
        """


@contextmanager
def reported(device: Device, what: str) -> Iterator[None]:
    """Within this scope, turn a driver error into an `ExecutionError` that quotes it.

    `what` names the operation in the message.
    """
    try:
        yield
    except device.errors as error:
        raise ExecutionError(f"{what} failed on {device.name}: {error}") from None


def as_bytes(array: np.ndarray[Any, Any]) -> Bytes:
    """Return the bytes of a dense array as a flat view."""
    return array.reshape(-1).view(np.uint8)


def words_of(values: Sequence[Any], about: Kernel, address: Callable[[Place], int]) -> list[int]:
    """Return the arguments of a kernel as words, one per argument. `address` returns the word for a place."""
    return [
        address(value) if isinstance(value, Place) else scalar_word(value, param.dtype)
        for value, param in zip(values, about.params, strict=True)
    ]


def checked_shape(device: Device, name: str, extents: Sequence[int]) -> Shape:
    """Return the launch shape for a grid, given as three numbers of blocks and three numbers of threads.

    Raises `TargetError` if the shape exceeds the limits of the device.
    """
    blocks, threads = tuple(extents[:3]), tuple(extents[3:])
    limits = device.limits
    if int(np.prod(threads)) > limits.threads or any(n > most for n, most in zip(threads, limits.axes, strict=False)):
        raise TargetError(
            f"kernel {name} has groups of {' x '.join(map(str, threads))} work-items\n"
            f"  found:  {device.name} runs up to {limits.threads} in a group, "
            f"{' x '.join(map(str, limits.axes))} along its axes"
        )
    if any(n > most for n, most in zip(blocks, limits.blocks, strict=False)):
        raise TargetError(
            f"kernel {name} has a grid of {' x '.join(map(str, blocks))} groups\n"
            f"  found:  {device.name} runs up to {' x '.join(map(str, limits.blocks))} along its axes\n"
            "  try:    a smaller batch, or shorter dimensions"
        )
    return Shape(blocks, threads)
