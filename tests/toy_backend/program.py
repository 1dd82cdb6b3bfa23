"""Running an executable: the steps in a loop, each kernel a Python function on flat arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from minitvm import executable as x
from minitvm.errors import Unsupported
from minitvm.events import Listener
from minitvm.executable.alignment import array_at
from minitvm.runtime.program import Program as Base
from minitvm.runtime.shapes import Bindings, shape_of
from minitvm.runtime.states import first_values
from minitvm.runtime.steps import BoundSteps


class Program(Base):
    """An executable whose kernels are Python functions."""

    def __init__(self, executable: x.Executable, threads: int | None = None, **compiling: Any) -> None:
        if any(isinstance(step, x.CallExternal) for step in executable.steps):
            raise Unsupported("the toy calls no external engines")
        super().__init__(executable)
        self.threads = 1
        self.states = first_values(executable)
        self.kernels = [_function(kernel) for kernel in executable.kernels]

    def bound_to(self, env: Bindings) -> Bound:
        """A program at the dimensions `env`, with arenas of its own."""
        return Bound(self, env)


def _function(kernel: x.Kernel) -> Callable[..., None]:
    names: dict[str, Any] = {}
    exec(compile(kernel.source, f"<{kernel.name}>", "exec"), names)
    function: Callable[..., None] = names[kernel.entry]
    return function


class Bound(BoundSteps):
    """A program with its dimensions and arenas: how a step is taken in NumPy's memory."""

    def __init__(self, program: Program, env: Bindings) -> None:
        super().__init__(program, env)
        self.arenas = [np.zeros(int(x.evaluate(arena.size, env)), np.uint8) for arena in program.executable.arenas]

    def run(self, inputs: Sequence[int], outputs: Sequence[int], listeners: Sequence[Listener] = ()) -> None:
        """Take all steps in order."""
        self.inputs, self.outputs = inputs, outputs
        if not self.run_heard(listeners):
            self.run_parts(self.one_by_one)

    def launch(self, number: int, step: x.CallKernel) -> None:
        """Call a kernel on its arguments."""
        params = self.executable.kernels[step.kernel].params
        with np.errstate(all="ignore"):
            self.program.kernels[step.kernel](*(self.argument(a, p.dtype) for a, p in zip(step.args, params)))

    def copy(self, number: int, step: x.Copy) -> None:
        """Copy bytes."""
        count = int(x.evaluate(step.nbytes, self.env))
        self.argument(step.dst, "uint8")[:count] = self.argument(step.src, "uint8")[:count]

    def read(self, place: x.Location, dtype: str) -> Any:
        """A number, which decides about loops and sizes."""
        return self.argument(place, dtype)[0]

    def write(self, place: x.Location, number: int) -> None:
        """The number of an iteration."""
        self.argument(place, "int64")[0] = number

    def argument(self, a: Any, dtype: str) -> Any:
        """A kernel's argument: a flat array of all elements of a place, or a number."""
        program = self.program.executable
        if isinstance(a, x.Input | x.Output):
            specs, places = (program.inputs, self.inputs) if isinstance(a, x.Input) else (program.outputs, self.outputs)
            spec: Any = specs[a.index]
            shape = shape_of(spec, self.env) if isinstance(a, x.Input) else self.output_shapes[a.index]
            count = prod(shape)
            return array_at(places[a.index], spec.dtype, (count,)).view(dtype)
        if isinstance(a, x.State):
            return self.program.states[a.index].reshape(-1).view(dtype)
        if isinstance(a, x.ConstantRef):
            return program.constants[a.index].data.reshape(-1).view(dtype)
        if isinstance(a, x.ArenaSlice):
            start, count = (int(x.evaluate(part, self.env)) for part in (a.offset, a.nbytes))
            return self.arenas[a.arena][start : start + count].view(dtype)
        return x.evaluate(a, self.env)
