"""The runtime: programs run on the interpreter, in the memory of the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...executable import Kernel
from ...runtime.device.program import DeviceProgram
from ...target import Target
from ..scratchpad.simulated_device import Array, SimulatedAccelerator, hosted_on
from ..scratchpad.timeline import Timeline
from . import interpreter
from .isa import Program, assemble
from .timing import simulate


class GemminiProgram(DeviceProgram):
    """An executable whose kernels are programs of the machine."""

    def open_device(self, wanted: str) -> GemminiDevice:  # noqa: ARG002 (there is one of a configuration)
        return GemminiDevice(Target(self.executable.target).config)


class GemminiDevice(SimulatedAccelerator):
    """The machine."""

    def program(self, kernel: Kernel) -> Program:
        return assemble(kernel.source, kernel.name)

    def run(self, program: Program, arguments: Sequence[Array]) -> None:
        memory = {b.name: a[: b.nbytes] for b, a in zip(program.buffers, arguments, strict=False)}
        inputs = {b.name: memory[b.name] for b in program.buffers if b.role == "input"}
        for name, result in interpreter.run(program, self.config, inputs).items():
            memory[name][:] = result

    def seconds(self, program: Program) -> float:
        return simulate(program, self.config).milliseconds * 1e-3


def hosted(kernel: Kernel, _threads: int | None) -> Callable[[Sequence[Any], bool], None]:
    """The part "hosted" of the back end."""
    return hosted_on(GemminiDevice, kernel)


def timed(kernel: Kernel, target: Target) -> Timeline:
    """The part "timed" of the back end."""
    return simulate(assemble(kernel.source, kernel.name), target.config)
