"""Run functions in which floats have another meaning: bounds of magnitudes, or values with errors.

All these runs begin here, so that a program means the same as in the interpreters: a grid of threads is written out,
the buffers of a lowered program are flat, and the caller's arrays are not changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from minitvm.errors import Unsupported
from minitvm.tir import nodes as t

from ..fast.dependence import Dependence, facts_of
from ..fast.lockstep import LockstepCompiler
from ..judging.inputs.arguments import copies
from ..judging.programs import entry, is_lowered
from ..kernel import LockstepKernels, flattened
from ..meaning.runner import Run
from ..meaning.settings import Settings, stored_buffers
from ..meaning.slow import StatementCompiler
from ..meaning.storage import bind_dimensions
from ..meaning.threads import written_out

R = TypeVar("R", bound=Run)


def prepared(kind: type[R], program: t.PrimFunc | t.IRModule, args: Sequence[Any], sizes: Mapping[str, int] | None,
             compilers: tuple[type[LockstepCompiler], type[LockstepKernels]], refusal: str,
             lasting: bool = False) -> R:  # fmt: skip
    """Return a run of a function on copies of its arguments, without shadow memory (checks for uninitialised reads).

    `compilers` give floats their meaning, in loop programs and in lowered ones. They have only a fast mode; if it is
    not enough, the run raises `Unsupported` with the text `refusal`.
    """
    func, own, settings = entry(program), copies(args), Settings(shadow=False)
    module = program if isinstance(program, t.IRModule) else None
    statements, kernels = compilers
    if is_lowered(program):
        # The cached facts live as long as the function, so they must not refer to it; the module does.
        others = {name: f for name, f in module.items() if f is not func} if module is not None else {}
        own = [flattened(p, a) for p, a in zip(func.params, own, strict=True)]
        facts_of_kernels: dict[str, Dependence] = {}

        def compiler(in_order: set[t.For]) -> LockstepCompiler:
            return kernels(func, settings, in_order, others, facts_of_kernels)
    else:
        func = written_out(func)
        facts = facts_of(func)

        def compiler(in_order: set[t.For]) -> LockstepCompiler:
            return statements(func, settings, in_order, facts)

    def slow() -> StatementCompiler:
        raise Unsupported(refusal)

    written = stored_buffers(func, module)
    outputs = [p for p in func.buffers if p in written]
    called = [(name, id(f)) for name, f in module.items()] if module is not None else []
    keep = (statements.__name__, *called) if lasting else None
    return kind(func, own, bind_dimensions(func, own, sizes), outputs, settings, (), slow, compiler, keep)
