"""Run one function on arrays: bind the arguments, choose the mode, check the outputs. For loop programs and kernels."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minitvm import expr as x
from minitvm.errors import ExecutionError, InputError
from minitvm.tir import nodes as t

from ..domains.domain_expressions import in_domain
from ..fast.dependence import facts_of
from ..fast.lockstep import GridView, LockstepCompiler, NeedsOrder
from ..fast.tracking import Conflict, SeveralMasks
from ..judging.coverage import watched
from .scalar import Environment, Execute
from .scalar import evaluate as evaluate_scalar
from .settings import INDEPENDENT, Settings, stored_buffers, written_elements
from .slow import StatementCompiler
from .steps import spend
from .storage import Argument, bind_dimensions, row_major
from .threads import written_out

MODES = ("fast", "slow")


@dataclass
class Run:
    """A run of a function: its arguments, the values of its variables, and the buffers that it writes."""

    func: t.PrimFunc
    args: Sequence[Any]
    values: dict[x.Var, Any]
    outputs: Sequence[t.Buffer]
    settings: Settings
    inout: Sequence[str]
    slow: Callable[[], StatementCompiler]
    fast: Callable[[set[t.For]], LockstepCompiler]
    keep: Hashable = None  # of what the code depends on, what settings do not say; None: it is compiled for one run

    def start(self, mode: str) -> None:
        """Run the function, in place on the arrays."""
        if mode not in MODES:
            raise InputError(f"mode {mode!r} is unknown; known: {', '.join(MODES)}")
        spend(facts_of(self.func).size)
        unknown = set(self.inout) - {p.name for p in self.func.buffers}
        if unknown:
            raise InputError(f"inout names {', '.join(sorted(unknown))}, which {self.func.name} does not have")
        with np.errstate(all="ignore"):
            if mode == "slow" or self.settings.listeners or not self._in_lockstep():
                self._one_by_one()

    def _one_by_one(self) -> None:
        """Run one element at a time, which defines the meaning."""
        compiler = self.slow()
        bound = self._bind()
        execute = _compile(compiler, self.values, bound, self.func.body)
        env: Environment = [None] * compiler.size
        for variable, value in self.values.items():
            env[compiler.slot(variable)] = value
        for argument in bound:
            env[compiler.slot(argument.param)] = argument.view
        execute(env)
        self.settings.flights.finish(self.settings.shadow)
        self._finish(bound)

    def _in_lockstep(self) -> bool:
        """Run in lockstep, and again with a loop in order after each conflict; return False if that does not help.

        Errors are left to the slow run: it reports the first one, with both iterations of a conflict.
        """
        before = {p: array.copy() for p, array in zip(self.func.params, self.args, strict=True) if p in self.outputs}
        remembered = facts_of(self.func).in_order
        in_order = set(remembered)
        while True:
            try:
                bound = self._bind()
                compiler, execute = self._code(in_order, bound)
                env = compiler.environment()
                for variable, value in self.values.items():
                    env[compiler.slot(variable)] = value
                for argument in bound:
                    env[compiler.slot(argument.param)] = GridView.of(argument.view)
                execute(env)
            except Conflict as conflict:
                self._restore(before)
                if self.settings.shadow and conflict.loop.kind in INDEPENDENT:
                    return False
                in_order.add(conflict.loop)
                if conflict.loop.kind not in INDEPENDENT:
                    remembered.add(conflict.loop)
            except SeveralMasks as masks:
                self._restore(before)
                compiler.note_masks(masks.buffer)
            except (NeedsOrder, ExecutionError):
                self._restore(before)
                return False
            else:
                self._finish(bound)
                return True

    def _code(self, in_order: set[t.For], bound: Sequence[Argument]) -> tuple[LockstepCompiler, Execute]:
        """Return the function compiled for lockstep. It is cached for runs that differ only in their arrays.

        A run only changes its environment, which is not part of the compiled function.
        """
        facts = facts_of(self.func)
        how = self.settings
        masks = frozenset(facts.several_masks)
        key = (self.keep, how.shadow, how.while_limit, how.coverage, how.domain, frozenset(in_order), masks)
        if self.keep is not None and key in facts.compiled:
            return facts.compiled[key]
        compiler = self.fast(in_order)
        code = compiler, _compile(compiler, self.values, bound, self.func.body)
        if self.keep is not None:
            facts.compiled[key] = code
        return code

    def _restore(self, before: dict[Any, np.ndarray]) -> None:
        for param, array in zip(self.func.params, self.args, strict=True):
            if param in before:
                array[...] = before[param]

    def _bind(self) -> list[Argument]:
        """Return views of the arrays with the layouts of their buffers. Symbolic strides and offsets are those of a
        dense array.
        """
        bound = []
        for param, array in zip(self.func.params, self.args, strict=True):
            if not isinstance(param, t.Buffer):
                continue
            dense = row_major(array.shape)
            for stride, value in zip(param.strides, dense, strict=False):
                if isinstance(stride, x.Var):
                    self.values.setdefault(stride, value)
            if isinstance(param.elem_offset, x.Var):
                self.values.setdefault(param.elem_offset, 0)
            strides = tuple(self._number(s) for s in param.strides) or dense
            offset = self._number(param.elem_offset)
            init = None if not self.settings.shadow else param not in self.outputs or param.name in self.inout
            bound.append(Argument(param, array, strides, offset, init, self.settings.domain))
        return bound

    def _number(self, e: x.Expr) -> int:
        if isinstance(e, x.IntImm):
            return e.value
        return int(evaluate_scalar(e, {v: self.values[v] for v in x.free_vars(e) if v in self.values}))

    def _finish(self, bound: Sequence[Argument]) -> None:
        """Write results back and, with shadow, refuse incomplete outputs."""
        for argument in bound:
            argument.write_back()
        for argument in bound:
            if self.settings.shadow and argument.param in self.outputs:
                written_elements(argument.param, argument.view.memory, argument.view)


def _compile(
    compiler: Any, values: dict[x.Var, Any], bound: Sequence[Argument], body: t.Stmt
) -> Callable[[Environment], None]:
    for key in (*values, *(a.param for a in bound)):
        compiler.define(key)
    return compiler.stmt(body)


def run_level_3(func: t.PrimFunc, args: Sequence[Any], settings: Settings, mode: str, inout: Sequence[str]) -> None:
    """Run a function that calls no kernels."""
    func = written_out(func)
    domain, written, facts = settings.domain, stored_buffers(func), facts_of(func)
    values = bind_dimensions(func, args, domain=domain)

    def lockstep(in_order: set[t.For]) -> LockstepCompiler:
        kind = watched(in_domain(LockstepCompiler, domain), settings.coverage)
        return kind(func, settings, in_order, facts)

    Run(
        func, args, values, [p for p in func.buffers if p in written], settings, inout,
        lambda: in_domain(StatementCompiler, domain)(func, settings),
        lockstep,
        keep=() if domain is None or domain.lasting else None,
    ).start(mode)  # fmt: skip
