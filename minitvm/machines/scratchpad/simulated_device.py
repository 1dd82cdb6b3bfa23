"""Run programs on simulated machines: an implementation of `runtime.device` whose memory is NumPy arrays.

A kernel's source is the machine's assembly, and a launch runs an interpreter on the bytes of the arguments. No hardware
is involved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...backend import lookup
from ...errors import MinitvmError, TargetError
from ...executable import Executable, Kernel
from ...executable.alignment import array_at
from ...runtime.device.device import Bytes, Launch, Limits, Place, Shape
from ...target import Target

if TYPE_CHECKING:
    from ...runtime.program import Progress

Array = np.ndarray[Any, Any]
_EXTENDED = 12  # DLPack's kDLExtDev: a device of an extension


class SimulatedAccelerator:
    """A `runtime.device.Device` that executes each command immediately.

    A machine's device is a subclass that defines `program`, which parses a kernel, `run`, which runs the result, and
    `seconds`, which returns its time. `config` has the machine's `name`.
    """

    dlpack = (_EXTENDED, 0)
    stream = None
    shares_host = False
    arch = ""
    has_addresses = True
    errors: tuple[type[Exception], ...] = (MinitvmError,)
    limits = Limits(threads=1, axes=(1, 1, 1), piece=1 << 31, units=1)

    def __init__(self, config: Any) -> None:
        self.config, self.identity = config, config
        self._counted: list[Any] | None = None  # the programs that are queued to be timed; None: they are run
        self._seconds: dict[int, tuple[Any, float]] = {}  # each program with its time, by its identity

    def program(self, kernel: Kernel) -> Any:
        """Return the program of a kernel. Raises a `MinitvmError` if the machine cannot run it."""
        raise NotImplementedError

    def run(self, program: Any, arguments: Sequence[Array]) -> None:
        """Run a program on the bytes of its kernel's arguments. Results are written there."""
        raise NotImplementedError

    def seconds(self, program: Any) -> float:
        """Return the seconds that the machine needs for a program, computed from its cycles."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        return f"the simulated accelerator {self.config.name}"

    def enter(self) -> None:
        """Do nothing: every thread may use the device."""

    def compiled(self, executable: Executable, progress: Progress | None, codes: Sequence[Any] | None) -> list[Any]:  # noqa: ARG002
        programs = []
        for number, kernel in enumerate(executable.kernels):
            programs.append(self.program(kernel))
            if progress:
                progress(number + 1, len(executable.kernels), kernel.name)
        return programs

    def over_host(self, address: int, nbytes: int) -> Any:
        return array_at(address, "uint8", (nbytes,))

    def adopted(self, address: int, nbytes: int) -> Any:  # noqa: ARG002
        raise TargetError(f"{self.name} has no addresses that libraries share")

    def address(self, buffer: Any) -> int:
        return int(buffer.ctypes.data)

    def is_aligned(self, buffer: Any) -> bool:  # noqa: ARG002 (arguments are copied into its DRAM)
        return True

    def allocated(self, nbytes: int) -> Any:
        return np.zeros(nbytes, np.uint8)

    def write(self, place: Place, data: Bytes) -> None:
        place.buffer[place.offset : place.offset + data.nbytes] = data

    def read(self, data: Bytes, place: Place) -> None:
        data[:] = place.buffer[place.offset : place.offset + data.nbytes]

    def copy(self, to: Place, source: Place, nbytes: int) -> None:
        to.buffer[to.offset : to.offset + nbytes] = source.buffer[source.offset : source.offset + nbytes]

    def launch(self, kernel: Any, about: Kernel, values: Sequence[Any], shape: Shape) -> Launch:  # noqa: ARG002
        def command() -> None:
            if self._counted is None:
                self.run(kernel, [place.buffer[place.offset :] for place in values])
            else:
                self._counted.append(kernel)

        return command

    def finish(self) -> None:
        """Do nothing: commands are already complete."""

    def recorded(self, queue: Callable[[], None]) -> Launch | None:  # noqa: ARG002
        return None

    def timed(self, before: Callable[[], None], queue: Callable[[], None]) -> float:  # noqa: ARG002
        """Return the seconds of the queued programs by the machine's cycles. The programs are not run."""
        self._counted = []
        try:
            queue()
            return sum(map(self._seconds_of, self._counted))
        finally:
            self._counted = None

    def _seconds_of(self, program: Any) -> float:
        if id(program) not in self._seconds:
            self._seconds[id(program)] = program, self.seconds(program)
        return self._seconds[id(program)][1]


def hosted_on(device: Callable[[Any], SimulatedAccelerator], kernel: Kernel) -> Callable[[Sequence[Any], bool], None]:
    """Return a function that runs a kernel on arrays in host memory. This is the part "hosted" of such back ends."""
    machine = device(Target(kernel.target).config)
    program = machine.program(kernel)
    return lambda arguments, parallel: machine.run(program, [array.view(np.uint8) for array in arguments])


def timelines(executable: Executable) -> dict[str, Any]:
    """Return a `timeline.Timeline` for each kernel of a simulated machine, by the kernel's name."""
    counted = {}
    for kernel in executable.kernels:
        target = Target(kernel.target or executable.target)
        timed = lookup(target, "timed")
        if timed is not None:
            counted[kernel.name] = timed(kernel, target)
    return counted
