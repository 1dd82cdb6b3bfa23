"""A function at each level, and how it is run there: the table that `minitvm check` and its tests use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ...errors import InternalError
from ...target import Target

if TYPE_CHECKING:
    from ...executable import Executable
    from ...lowering import LoweredFunc
    from ...tir import IRModule, PrimFunc


class Descent:
    """A function, or an operator and its function, with its forms at all levels, each computed at its first use.

    The target's strategy schedules the function of an operator; a function without an operator is lowered as it is. A
    program that is lowered already has only the level "kernel".
    """

    def __init__(self, program: PrimFunc | IRModule, target: Target, operator: Any = None) -> None:
        self.program, self.target, self.operator = program, target, operator

    @cached_property
    def scheduled(self) -> PrimFunc:
        """The function with the schedule that it is lowered with."""
        from ...lowering import schedule_function
        from ...tir import PrimFunc

        func = self.program
        assert isinstance(func, PrimFunc)
        return func if self.operator is None else schedule_function(func, self.target)

    @cached_property
    def lowered(self) -> LoweredFunc:
        """The kernels of the scheduled function and their sources."""
        from ...lowering import lower_function
        from ...tir import PrimFunc

        before = self.program if isinstance(self.program, PrimFunc) else None
        return lower_function(self.scheduled, self.target, before=before)

    @cached_property
    def executable(self) -> Executable:
        """The function as a program by itself."""
        from ...link import link_function

        return link_function(self.lowered, self.target.brief)


def _te(descent: Descent, args: Sequence[Any]) -> None:
    from ...graph.lower import to_te
    from ...reference import te

    tensors, count = to_te(descent.operator), len(descent.operator.inputs)
    results = te.evaluate(tensors[count:], dict(zip(tensors[:count], args[:count], strict=True)))
    for tensor, result, output in zip(tensors[count:], results, args[count:], strict=True):
        if (result.shape, result.dtype) != (output.shape, output.dtype):
            actual = f"{result.dtype.name}{list(result.shape)}"
            raise InternalError(f"{tensor.name}: wanted {output.dtype.name}{list(output.shape)}, found {actual}")
        output[...] = result


def _tir(descent: Descent, args: Sequence[Any], **options: Any) -> None:
    from ...reference import tir

    tir.run(descent.program, *args, **options)


def _schedule(descent: Descent, args: Sequence[Any], **options: Any) -> None:
    from ...reference import tir

    tir.run(descent.scheduled, *args, **options)


def _kernel(descent: Descent, args: Sequence[Any], threads: int = 2, **options: Any) -> None:
    from ...reference import kernel
    from ...reference.judging.inputs.arguments import sizes_from_shapes
    from ...reference.judging.programs import is_lowered

    module = descent.program if is_lowered(descent.program) else descent.lowered.module
    # The shapes of flat buffers do not determine symbolic dimensions.
    kernel.run(module, *args, sizes=sizes_from_shapes(descent.program, args), threads=threads, **options)


def _executable(descent: Descent, args: Sequence[Any]) -> None:
    from ...executable import Input
    from ...reference import executable

    program = descent.executable
    order = list(zip(program.calling_order, args, strict=True))
    inputs = {program.inputs[p.index].name: a for p, a in order if isinstance(p, Input)}
    outputs = [(program.outputs[p.index], a) for p, a in order if not isinstance(p, Input)]
    results = executable.run(program, inputs | {spec.name: a for spec, a in outputs if spec.inout})
    for place, array in order:
        if not isinstance(place, Input):
            array[...] = results[place.index]


def _compiled(descent: Descent, args: Sequence[Any]) -> None:
    from ...runtime import Function

    Function(descent.executable)(*args)


# Each runs a function in the interpreter of its level, on arguments in the order of its parameters, outputs in place;
# "compiled" runs the machine code. Options go to the interpreter.
LEVELS: dict[str, Callable[..., None]] = {
    "te": _te, "tir": _tir, "schedule": _schedule, "kernel": _kernel, "executable": _executable, "compiled": _compiled,
}  # fmt: skip
