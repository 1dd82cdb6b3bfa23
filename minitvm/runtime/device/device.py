"""What a driver of devices provides to programs: memory, copies, launches, all in the order in which they are asked."""

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
    """Memory of the device from a byte of a buffer on: `nbytes` of it, where that is known."""

    buffer: Any
    offset: int = 0
    nbytes: int | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a device: threads in a block (in all, along each axis), bytes in one piece of memory, its units.

    `blocks` are those of a grid along each axis, () for any number.
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
        """Its architecture, where compilers have names for them; else ""."""

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """What a command raises that fails on the device."""

    def enter(self) -> None:
        """Let this thread of Python give commands."""

    def compiled(self, executable: Executable, progress: Progress | None, codes: Sequence[Any] | None) -> list[Any]:
        """The executable's kernels, ready to launch; raises `TargetError` for what its compiler rejects.

        `codes` are what an artifact holds of them: `program.MachineCode.unpack`.
        """

    @property
    def dlpack(self) -> tuple[int, int]:
        """Its kind and number, as DLPack has them."""

    @property
    def identity(self) -> Any:
        """Equal for two objects whose memory each of them can use."""

    @property
    def stream(self) -> int | None:
        """The queue of its commands, as DLPack names it; None where that has no name."""

    @property
    def shares_host(self) -> bool:
        """Whether kernels use the host's memory in place: `over_host`."""

    def over_host(self, address: int, nbytes: int) -> Any:
        """The host's memory, as the device's."""

    def adopted(self, address: int, nbytes: int) -> Any:
        """Memory of the device that another library has; raises `TargetError` where the device has no addresses."""

    @property
    def has_addresses(self) -> bool:
        """Whether `address` is that of a first byte, which those of the others follow."""

    def address(self, buffer: Any) -> int:
        """Where memory lies; no two pieces have the same."""

    def is_aligned(self, buffer: Any) -> bool:
        """Whether memory begins where kernels take it for granted: at a multiple of 64 bytes."""

    def allocated(self, nbytes: int) -> Any:
        """Memory, freed when nobody has it any more; raises one of `errors`, or MemoryError, where there is none."""

    def write(self, place: Place, data: Bytes) -> None:
        """Queue a copy of host memory to the device."""

    def read(self, data: Bytes, place: Place) -> None:
        """Queue a copy from the device to host memory."""

    def copy(self, to: Place, source: Place, nbytes: int) -> None:
        """Queue a copy inside of the device's memory."""

    def launch(self, kernel: Any, about: Kernel, values: Sequence[Any], shape: Shape) -> Launch:
        """What queues a kernel with these arguments (places and numbers), as often as it is called."""

    def finish(self) -> None:
        """Wait for all that was queued."""

    def recorded(self, queue: Callable[[], None]) -> Launch | None:
        """One command for all that `queue` queues (a graph); None on devices that cannot record."""

    def timed(self, before: Callable[[], None], queue: Callable[[], None]) -> float:
        """Seconds that the device takes for what `queue` queues, by its own clock.

        `before` queues what keeps it busy until then: the time in which the host hands over commands does not count.
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
    """A dense array's bytes."""
    return array.reshape(-1).view(np.uint8)


def words_of(values: Sequence[Any], about: Kernel, address: Callable[[Place], int]) -> list[int]:
    """The arguments of a kernel that takes words: one each, `address` gives that of a place."""
    return [
        address(value) if isinstance(value, Place) else scalar_word(value, param.dtype)
        for value, param in zip(values, about.params, strict=True)
    ]


def checked_shape(device: Device, name: str, extents: Sequence[int]) -> Shape:
    """The launch of a grid of (blocks, threads), three axes each; raises `TargetError` beyond the device's limits."""
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
