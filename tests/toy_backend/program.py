"""Running an executable: the steps in a loop, each kernel a Python function on flat arrays."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from minitvm import executable as x
from minitvm.errors import Unsupported
from minitvm.events import Listener, Step, heard
from minitvm.executable.alignment import array_at
from minitvm.runtime.loops import Memory, in_order
from minitvm.runtime.shapes import Bindings, SizeChecks, rooms, shape_of
from minitvm.runtime.states import zeros_of


class Program:
    """An executable whose kernels are Python functions."""

    def __init__(self, executable: x.Executable, threads: int | None = None, **compiling: Any) -> None:
        if any(isinstance(step, x.CallExternal) for step in executable.steps):
            raise Unsupported("the toy calls no external engines")
        self.executable = executable
        self.threads = 1
        self.states = [zeros_of(spec) for spec in executable.states]
        self.kernels = [_function(kernel) for kernel in executable.kernels]

    def bind(self, key: Any, env: Bindings) -> Bound:
        """The program at the dimensions `env`."""
        return Bound(self, env)

    def holds(self, bound: Bound) -> bool:
        """Each program has arenas of its own."""
        return bound.program is self


def _function(kernel: x.Kernel) -> Callable[..., None]:
    names: dict[str, Any] = {}
    exec(compile(kernel.source, f"<{kernel.name}>", "exec"), names)
    function: Callable[..., None] = names[kernel.entry]
    return function


class Bound:
    """A program with its dimensions and arenas."""

    def __init__(self, program: Program, env: Bindings) -> None:
        self.program, self.env = program, env
        self.output_shapes = rooms(program.executable, env)
        self.arenas = [np.zeros(int(x.evaluate(arena.size, env)), np.uint8) for arena in program.executable.arenas]

    def run(self, inputs: Sequence[int], outputs: Sequence[int], listeners: Sequence[Listener] = ()) -> None:
        """Take all steps in order."""
        begin, end = heard(listeners, "step_begin"), heard(listeners, "step_end")

        def count(place: Any, done: int) -> None:
            self.argument(place, "int64", inputs, outputs)[0] = done

        memory = Memory(
            lambda place: int(self.argument(place, "int64", inputs, outputs)[0]),
            lambda place: bool(self.argument(place, "bool", inputs, outputs)[0]),
            count,
        )
        for number, step in in_order(self.program.executable, memory, self.env):
            event = Step(number, type(step).__name__, getattr(step, "operator", ""))
            if begin is not None:
                begin(event, time.perf_counter())
            if isinstance(step, x.CallKernel):
                params = self.program.executable.kernels[step.kernel].params
                args = [self.argument(a, p.dtype, inputs, outputs) for a, p in zip(step.args, params)]
                with np.errstate(all="ignore"):
                    self.program.kernels[step.kernel](*args)
            elif isinstance(step, x.Copy):
                count = int(x.evaluate(step.nbytes, self.env))
                read, written = (self.argument(place, "uint8", inputs, outputs) for place in (step.src, step.dst))
                written[:count] = read[:count]
            elif isinstance(step, x.BindSize):
                count = int(self.argument(step.place, "int64", inputs, outputs)[0])
                SizeChecks(self.program.executable).bind(step, count, self.env)
            if end is not None:
                end(event, time.perf_counter())

    def argument(self, a: Any, dtype: str, inputs: Sequence[int], outputs: Sequence[int]) -> Any:
        """A kernel's argument: a flat array of all elements of a place, or a number."""
        program = self.program.executable
        if isinstance(a, x.Input | x.Output):
            specs, places = (program.inputs, inputs) if isinstance(a, x.Input) else (program.outputs, outputs)
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
