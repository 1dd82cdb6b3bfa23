"""Run an executable by its reference interpreter, `reference.executable`.

There is no other such machine than that interpreter, so the runtime depends on it here. It also judges: a read of
memory that was never written, a race or a missing barrier is an `ExecutionError`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

from ...errors import TargetError, Unsupported
from ...events import Listener
from ...executable import CallExternal, Executable, Kernel, ScalarSpec
from ...executable.alignment import array_at
from ...runtime.program import Program
from ...runtime.shapes import Bindings, shape_of
from ...runtime.states import first_values
from ...runtime.steps import BoundSteps
from ...target import Target
from ...tir.nodes import PrimFunc

LANGUAGE = "tvmscript"


def generate(kernel: PrimFunc, _target: Target) -> str:
    """Return the kernel as text: the part `generate` of the back end."""
    from ...tir.script.printer import script

    return script(kernel)


class InterpreterProgram(Program):
    """An executable whose kernels are interpreted.

    Raises `TargetError` for kernels of other machines, and `Unsupported` for a call of an external engine.
    """

    def __init__(
        self,
        executable: Executable,
        threads: int | None = None,
        **compiling: Any,  # noqa: ARG002 (nothing is compiled)
    ) -> None:
        super().__init__(executable)
        engines = [step.engine for step in executable.steps if isinstance(step, CallExternal)]
        if engines:
            raise Unsupported(f"{executable.name}: the interpreter calls no external engine, found {engines[0]}")
        self.threads = threads or 1
        self.states = first_values(executable)
        self.interpreted = replace(executable, kernels=tuple(map(_with_function, executable.kernels)))

    def bound_to(self, env: Bindings) -> BoundInterpreter:
        """Return a program for the dimensions `env`. `bind` calls this."""
        return BoundInterpreter(self, env)


def _with_function(kernel: Kernel) -> Kernel:
    """Return a kernel with its program. A kernel from a file has only its text, which is read when it first runs."""
    if kernel.language != LANGUAGE:
        raise TargetError(f"kernel {kernel.name} is written in {kernel.language}; the interpreter runs {LANGUAGE}")
    return kernel if kernel.func is not None else replace(kernel, func=partial(_read, kernel.source))


def _read(source: str) -> Any:
    from ...script import from_source

    return from_source(source)


class BoundInterpreter(BoundSteps):
    """A program for one choice of dimensions."""

    def run(self, inputs: Sequence[int], outputs: Sequence[int], listeners: Sequence[Listener] = ()) -> None:
        """Run all steps, and copy the results to the memory of the outputs. If the run fails, they are unchanged."""
        from minitvm.reference import executable as interpreter

        x, program = self.executable, self.program
        written = zip(x.outputs, outputs, self.output_shapes, strict=True)
        rooms = [array_at(address, spec.dtype, shape) for spec, address, shape in written]
        arguments: dict[str, Any] = {spec.name: room for spec, room in zip(x.outputs, rooms, strict=True) if spec.inout}
        for spec, address in zip(x.inputs, inputs, strict=True):
            if isinstance(spec, ScalarSpec):
                arguments[spec.name] = self.env[spec.var]
            else:
                arguments[spec.name] = array_at(address, spec.dtype, shape_of(spec, self.env))
        states = {spec.name: state for spec, state in zip(x.states, program.states, strict=True)}
        results = interpreter.run(
            program.interpreted, arguments, threads=program.threads, listeners=listeners, states=states, sizes=self.env
        )
        for room, result in zip(rooms, results, strict=True):
            room.reshape(-1)[: prod(result.shape)] = result.reshape(-1)  # data may decide how much of it is used
        for state, spec in zip(program.states, x.states, strict=True):
            state[...] = states[spec.name]
