"""The definition of loop programs: run one iteration and one element at a time.

`StatementCompiler` turns statements into Python closures over an environment (one slot per variable or buffer; slot 0
is the current parallel iteration). `reference.tir` runs programs with blocks with it, and `reference.kernel` adds the
nodes of lowered programs. Tests compare `reference.fast.lockstep`, which runs the same programs faster, with it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from minitvm import events
from minitvm import expr as x
from minitvm.errors import ExecutionError
from minitvm.tir import nodes as t

from . import shadow as checks
from .elements import ElementCompiler
from .scalar import ITERATION, Environment, Evaluate, Execute
from .settings import INDEPENDENT
from .statements import Statements
from .steps import spend, statements
from .storage import View, allocator, integers


class StatementCompiler(Statements, ElementCompiler):
    """Compiles the statements of one function."""

    # --- control ---------------------------------------------------------------------------------------------------

    def loop(self, s: t.For) -> Execute:
        start, extent = self.expr(s.start), self.expr(s.extent)
        with self.inside(s) as slot:
            body, each = self.loop_body(s), statements(s.body)
        execute = self._independent(s, slot, start, extent, body) if s.kind in INDEPENDENT else None
        if execute is not None:
            return execute

        def run(env: Environment) -> None:
            first, count = start(env), extent(env)
            spend(each * max(0, count))
            for value in range(first, first + count):
                env[slot] = value
                body(env)

        return self._heard_loop(s, start, extent, run)

    def loop_body(self, s: t.For) -> Execute:
        """Compile the body of a loop, which reports each iteration to listeners."""
        body = self.stmt(s.body)
        report = self.hear["loop_iteration"]
        if report is None:
            return body
        slot, record = self.slot(s.var), events.Loop(s.var.name, 0, -1, s.kind.value, s)

        def heard(env: Environment) -> None:
            report(record, env[slot])
            body(env)

        return heard

    def _heard_loop(self, s: t.For, start: Evaluate, extent: Evaluate, run: Execute) -> Execute:
        enter, leave = self.hear["loop_enter"], self.hear["loop_exit"]
        if enter is None and leave is None:
            return run

        def heard(env: Environment) -> None:
            loop = events.Loop(s.var.name, start(env), extent(env), s.kind.value, s)
            if enter is not None:
                enter(loop)
            run(env)
            if leave is not None:
                leave(loop)

        return heard

    def _independent(self, s: t.For, slot: int, start: Evaluate, extent: Evaluate, body: Execute) -> Execute:
        executions, name, settings = self.settings.executions, s.var.name, self.settings
        shared = settings.threads > 1 and s.kind == t.ForKind.PARALLEL
        each = statements(s.body)
        is_thread = s.thread is not None and s.thread.startswith("threadIdx")

        def run(env: Environment) -> None:
            first, outer, execution = start(env), env[ITERATION], next(executions)
            count = max(0, extent(env))
            spend(each * count)
            with settings.suspecting(outermost=outer is None):
                for k in settings.partitioned(count) if shared else settings.iterations(count):
                    env[slot] = first + k
                    if settings.shadow:
                        env[ITERATION] = checks.Iteration.inside(outer, execution, first + k, name, is_thread)
                    body(env)
            env[ITERATION] = outer

        return self._heard_loop(s, start, extent, run)

    def if_(self, s: t.If) -> Execute:
        condition, yes = self.expr(s.condition), self.stmt(s.then_case)
        no = self.stmt(s.else_case) if s.else_case is not None else None

        def run(env: Environment) -> None:
            if condition(env):
                yes(env)
            elif no is not None:
                no(env)

        return run

    def assert_(self, s: t.Assert) -> Execute:
        condition = self.expr(s.condition)

        def run(env: Environment) -> None:
            if not condition(env):
                raise ExecutionError(f"assertion failed: {s.message}\n  wanted: {s.condition}")

        return run

    def allocate(self, s: t.Allocate) -> Execute:
        make = allocator(self, s.buffer, self.settings.shadow)
        slot = self.define(s.buffer)
        body = self.stmt(s.body)
        allocated, freed = self.hear["allocate"], self.hear["free"]

        def run(env: Environment) -> None:
            view = env[slot] = make(env)
            report = (s.buffer.name, s.buffer.scope, view.data.nbytes)
            if allocated is not None:
                allocated(*report)
            body(env)
            if freed is not None:
                freed(*report)

        return run

    # --- blocks ----------------------------------------------------------------------------------------------------

    def block(self, s: t.BlockRealize) -> Execute:
        block = s.block
        values = [self.expr(v) for v in s.iter_values]
        variables = [self.define(v.var) for v in block.iter_vars]
        bounds = [(self.expr(v.dom.start), self.expr(v.dom.extent)) for v in block.iter_vars]
        always = isinstance(s.predicate, x.IntImm) and s.predicate.value == 1
        predicate = self.expr(s.predicate)
        reductions = [
            (slot, b[0]) for slot, b, v in zip(variables, bounds, block.iter_vars, strict=True) if v.kind == x.REDUCE
        ]
        opened = [(allocator(self, b, self.settings.shadow), self.define(b), b) for b in block.alloc_buffers]
        matches = [self.match_buffer(m) for m in block.match_buffers]
        init = self.stmt(block.init) if block.init is not None else None
        body = self.stmt(block.body)
        shadow, report, allocated, freed = (
            self.settings.shadow, self.hear["block"], self.hear["allocate"], self.hear["free"]
        )  # fmt: skip

        def run(env: Environment) -> None:
            for slot, value in zip(variables, values, strict=True):
                env[slot] = value(env)
            if not always and not predicate(env):
                return
            if shadow:
                for slot, (low, count) in zip(variables, bounds, strict=True):
                    first = low(env)
                    if not first <= env[slot] < first + count(env):
                        raise _outside_domain(block, env, variables)
            if report is not None:
                report(block.name)
            for make, slot, buffer in opened:
                env[slot] = make(env)
                if allocated is not None:
                    allocated(buffer.name, buffer.scope, env[slot].data.nbytes)
            for match in matches:
                match(env)
            if init is not None and all(env[slot] == first(env) for slot, first in reductions):
                init(env)
            body(env)
            if freed is not None:
                for _, slot, buffer in opened:
                    freed(buffer.name, buffer.scope, env[slot].data.nbytes)

        return run

    def match_buffer(self, m: t.MatchBufferRegion) -> Execute:
        """Compile the binding of a buffer to a region of another one, with the layout of that region.

        A region that is partly outside has no elements.
        """
        source = self.slot(m.source.buffer)
        starts = [self.expr(r.start) for r in m.source.region]
        extents = [self.expr(r.extent) for r in m.source.region]
        unify: list[Callable[[Environment, View], None]] = []
        for axis, dim in enumerate(m.buffer.shape):
            unify.append(self._unify(dim, partial(_extent, axis), f"dimension {axis}", m))
        for axis, stride in enumerate(m.buffer.strides):
            unify.append(self._unify(stride, partial(_stride, axis), f"stride {axis}", m))
        if isinstance(m.buffer.elem_offset, x.Var):
            unify.append(self._unify(m.buffer.elem_offset, lambda view: view.offset, "offset", m))
        slot, rank = self.define(m.buffer), len(m.buffer.shape)

        def bind(env: Environment) -> None:
            view: View = env[source]
            first, count = integers(starts, env), integers(extents, env)
            outside = any(i < 0 or i + n > limit for i, n, limit in zip(first, count, view.shape, strict=False))
            if any(n != 1 for n in count[: len(count) - rank]):
                raise ExecutionError(f"{m.buffer.name} has {rank} dimensions and views a region of shape {count}")
            offset = view.offset + sum(i * s for i, s in zip(first, view.strides, strict=False))
            kept = len(count) - rank
            bound = env[slot] = View(view.memory, count[kept:], view.strides[kept:], offset)
            for check in unify:
                check(env, bound)
            if (
                outside
            ):  # it has no elements: whoever accesses one is out of bounds, a condition may see that nobody does
                env[slot] = View(view.memory, (0,) * rank, view.strides[kept:], offset)

        return bind

    def _unify(
        self, e: x.Expr, actual: Callable[[View], int], what: str, m: t.MatchBufferRegion
    ) -> Callable[[Environment, View], None]:
        """Return a function that gives a variable without a value the actual one, and checks that any other expression
        equals it.
        """
        if isinstance(e, x.Var) and e not in self.slots:
            slot = self.define(e)

            def bind(env: Environment, view: View) -> None:
                env[slot] = actual(view)

            return bind
        expected = self.expr(e)

        def check(env: Environment, view: View) -> None:
            if expected(env) != actual(view):
                raise ExecutionError(
                    f"{m.buffer.name}: {what} of the view does not fit\n"
                    f"  wanted: {expected(env)}\n  found:  {actual(view)}, in a region of {m.source.buffer.name}"
                )

        return check


def _extent(axis: int, view: View) -> int:
    return view.shape[axis]


def _stride(axis: int, view: View) -> int:
    return view.strides[axis]


def _outside_domain(block: t.Block, env: Environment, variables: list[int]) -> ExecutionError:
    point = ", ".join(f"{v.var.name} = {env[slot]}" for v, slot in zip(block.iter_vars, variables, strict=False))
    domains = ", ".join(f"{v.var.name} in [{v.dom.start}, {v.dom.start} + {v.dom.extent})" for v in block.iter_vars)
    return ExecutionError(
        f"block {block.name!r} runs outside its domain while its predicate holds\n"
        f"  wanted: {domains}\n  found:  {point}"
    )
