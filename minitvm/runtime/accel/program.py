"""Programs on the simulated accelerator: `runtime.device` with NumPy arrays for its memory.

A kernel's source is assembly. A launch brings its arguments into the machine's DRAM, runs the program on the
interpreter (`reference.accel`), and takes the results back. There is no other such machine than that interpreter, so
the runtime leans on it here. It also judges: two instructions that no tokens order are an error, whatever the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...accel.assembler import assemble
from ...accel.config import AccelConfig
from ...accel.isa import Program
from ...accel.timeline import Timeline
from ...accel.timing import simulate
from ...accel.verifier import verify
from ...errors import MinitvmError, TargetError
from ...executable import Executable, Kernel
from ...executable.alignment import array_at
from ...target import Target
from ..device.device import Bytes, Launch, Limits, Place, Shape
from ..device.program import DeviceProgram

if TYPE_CHECKING:
    from ..program import Progress

_EXTENDED = 12  # DLPack's kDLExtDev: a device of an extension


class AccelProgram(DeviceProgram):
    """An executable whose kernels are programs of the accelerator."""

    def open_device(self) -> AccelDevice:
        return AccelDevice(Target(self.executable.target).config)


class AccelDevice:
    """`runtime.device.Device`: each command is done at once."""

    dlpack = (_EXTENDED, 0)
    stream = None
    shares_host = False
    errors: tuple[type[Exception], ...] = (MinitvmError,)
    limits = Limits(threads=1, axes=(1, 1, 1), piece=1 << 31, units=1)

    def __init__(self, config: AccelConfig) -> None:
        self.config, self.identity = config, config

    @property
    def name(self) -> str:
        return f"the simulated accelerator {self.config.name}"

    def enter(self) -> None:
        """Every thread may."""

    def compiled(self, executable: Executable, progress: Progress | None, codes: Sequence[Any] | None) -> list[Any]:  # noqa: ARG002
        programs = []
        for number, kernel in enumerate(executable.kernels):
            programs.append(verified(kernel, self.config))
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

    def launch(self, kernel: Program, about: Kernel, values: Sequence[Any], shape: Shape) -> Launch:  # noqa: ARG002
        def launch() -> None:
            from minitvm.reference import accel

            memory = {}
            for buffer, place in zip(kernel.buffers, values, strict=False):
                nbytes = buffer.count * self.config.element_bytes(buffer.kind)
                memory[buffer.name] = place.buffer[place.offset : place.offset + nbytes]
            inputs = {
                b.name: memory[b.name].view(self.config.dtype(b.kind)) for b in kernel.buffers if b.role == "input"
            }
            for name, result in accel.run(kernel, self.config, inputs).items():
                memory[name][:] = result.reshape(-1).view(np.uint8)

        return launch

    def finish(self) -> None:
        """Nothing is under way."""

    def recorded(self, queue: Callable[[], None]) -> Launch | None:  # noqa: ARG002
        return None


def verified(kernel: Kernel, config: AccelConfig) -> Program:
    """The program of a kernel; raises `VerificationError` for one that the machine cannot run."""
    program = assemble(kernel.source, config, kernel.name)
    verify(program, config)
    return program


def timelines(executable: Executable) -> dict[str, Timeline]:
    """The cycles of each kernel of an executable for the accelerator, by its name, as the simulator counts them."""
    config: AccelConfig = Target(executable.target).config
    return {k.name: simulate(verified(k, config), config, verified=True) for k in executable.kernels}
