"""Programs on the simulated accelerator: `machines.scratchpad.simulated_device` with the machine of `reference.accel`.

A launch brings its arguments into the machine's DRAM, runs the program on the interpreter, and takes the results back.
There is no other such machine than that interpreter, so the runtime leans on it here. It also judges: two instructions
that no tokens order are an error, whatever the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...executable import Kernel
from ...runtime.device.program import DeviceProgram
from ...target import Target
from ..scratchpad.simulated_device import Array, SimulatedAccelerator, hosted_on
from ..scratchpad.timeline import Timeline
from .assembler import assemble
from .config import AccelConfig
from .isa import Program
from .timing import simulate
from .verifier import verify


class AccelProgram(DeviceProgram):
    """An executable whose kernels are programs of the accelerator."""

    def open_device(self, wanted: str) -> AccelDevice:  # noqa: ARG002 (there is one of a configuration)
        return AccelDevice(Target(self.executable.target).config)


class AccelDevice(SimulatedAccelerator):
    """The accelerator: programs are verified before they run."""

    def program(self, kernel: Kernel) -> Program:
        return verified(kernel, self.config)

    def run(self, program: Program, arguments: Sequence[Array]) -> None:
        from minitvm.reference import accel

        memory = {}
        for buffer, argument in zip(program.buffers, arguments, strict=False):
            memory[buffer.name] = argument[: buffer.count * self.config.element_bytes(buffer.kind)]
        inputs = {b.name: memory[b.name].view(self.config.dtype(b.kind)) for b in program.buffers if b.role == "input"}
        for name, result in accel.run(program, self.config, inputs).items():
            memory[name][:] = result.reshape(-1).view(np.uint8)

    def seconds(self, program: Program) -> float:
        return simulate(program, self.config, verified=True).milliseconds * 1e-3


def verified(kernel: Kernel, config: AccelConfig) -> Program:
    """The program of a kernel; raises `VerificationError` for one that the machine cannot run."""
    program = assemble(kernel.source, config, kernel.name)
    verify(program, config)
    return program


def hosted(kernel: Kernel, _threads: int | None) -> Callable[[Sequence[Any], bool], None]:
    """What runs a kernel in the middle of a program of the host, on arrays in its memory."""
    return hosted_on(AccelDevice, kernel)


def timed(kernel: Kernel, target: Target) -> Timeline:
    """The cycles of a kernel, as the simulator counts them: the part "timed" of the back end."""
    config: AccelConfig = target.config
    return simulate(verified(kernel, config), config, verified=True)
