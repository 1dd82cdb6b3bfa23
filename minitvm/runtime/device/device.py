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
    """A place in the memory of the device: a buffer, a byte offset, and the number of bytes `nbytes` if it is known."""

    buffer: Any
    offset: int = 0
    nbytes: int | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a device: threads in a block (in total and along each axis), bytes in one piece of memory, and its
    units.

    `blocks` is the largest number of blocks of a grid along each axis; () allows any number.
    """

    threads: int
    axes: tuple[int, ...]
    piece: int
    units: int
    blocks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of a launch: blocks along three axes, and threads of a block."""

    blocks: tuple[int, ...]
    threads: tuple[int, ...]


class Device(Protocol):
    """A device. Commands run in the order in which they are queued; `finish` waits for all of them."""

    @property
    def name(self) -> str: ...
    @property
    def limits(self) -> Limits: ...
    @property
    def arch(self) -> str:
        """The architecture of the device, if compilers have names for it; otherwise ""."""

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """The exceptions that a command raises if it fails on the device."""

    def enter(self) -> None:
        """Allow the current Python thread to give commands to the device."""

    def compiled(self, executable: Executable, progress: Progress | None, codes: Sequence[Any] | None) -> list[Any]:
        """Compile the executable's kernels, ready to launch; raises `TargetError` if the device's compiler rejects one.

        `codes` is the machine code from an artifact, as `program.MachineCode.unpack` returns it.
        """

    @property
    def dlpack(self) -> tuple[int, int]:
        """The kind and number of the device in DLPack's numbering."""

    @property
    def identity(self) -> Any:
        """A value that is equal for two objects if each can use the other's memory."""

    @property
    def stream(self) -> int | None:
        """The queue of commands, as a number for DLPack; None if the queue has no such number."""

    @property
    def shares_host(self) -> bool:
        """Return whether kernels can use the host's memory in place, by `over_host`."""

    def over_host(self, address: int, nbytes: int) -> Any:
        """The host's memory as a buffer of the device."""

    def adopted(self, address: int, nbytes: int) -> Any:
        """A buffer for device memory that another library owns; raises `TargetError` if the device has no addresses."""

    @property
    def has_addresses(self) -> bool:
        """Return whether `address` is the real address of the first byte, so that the other bytes follow it."""

    def address(self, buffer: Any) -> int:
        """The address of a buffer. Different buffers have different addresses."""

    def is_aligned(self, buffer: Any) -> bool:
        """Return whether a buffer has the alignment that kernels assume: 64 bytes."""

    def allocated(self, nbytes: int) -> Any:
        """Allocate memory, which is freed with its last reference; raises one of `errors` or MemoryError if there is
        none.
        """

    def write(self, place: Place, data: Bytes) -> None:
        """Queue a copy of host memory to the device."""

    def read(self, data: Bytes, place: Place) -> None:
        """Queue a copy from the device to host memory."""

    def copy(self, to: Place, source: Place, nbytes: int) -> None:
        """Queue a copy inside of the device's memory."""

    def launch(self, kernel: Any, about: Kernel, values: Sequence[Any], shape: Shape) -> Launch:
        """A function that queues a kernel with these arguments (places and numbers) each time it is called."""

    def finish(self) -> None:
        """Wait for all queued commands."""

    def recorded(self, queue: Callable[[], None]) -> Launch | None:
        """Record all commands that `queue` queues as one command (a graph); None if the device cannot record."""

    def timed(self, before: Callable[[], None], queue: Callable[[], None]) -> float:
        """The seconds that the device needs for the commands that `queue` queues, by its own clock.

        `before` queues commands that keep the device busy meanwhile, so that the time in which the host queues commands
        does not count.
        """


@contextmanager
def reported(device: Device, what: str) -> Iterator[None]:
    """Within the scope, turn an error of the driver into an `ExecutionError` that quotes it.

    `what` names the operation, for the message.
    """
    try:
        yield
    except device.errors as error:
        raise ExecutionError(f"{what} failed on {device.name}: {error}") from None


def as_bytes(array: np.ndarray[Any, Any]) -> Bytes:
    """The bytes of a dense array."""
    return array.reshape(-1).view(np.uint8)


def words_of(values: Sequence[Any], about: Kernel, address: Callable[[Place], int]) -> list[int]:
    """The arguments of a kernel as words, one for each; `address` returns the word for a place."""
    return [
        address(value) if isinstance(value, Place) else scalar_word(value, param.dtype)
        for value, param in zip(values, about.params, strict=True)
    ]


def checked_shape(device: Device, name: str, extents: Sequence[int]) -> Shape:
    """The shape of a launch for a grid of (blocks, threads) with three axes each; raises `TargetError` beyond the
    limits.
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
