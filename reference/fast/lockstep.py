"""The fast mode: run independent iterations of loops all at once with NumPy, statement by statement.

Loops whose iterations look independent (`fast.dependence`) are the axes of a grid; every other loop runs in order,
inside or around them. A branch is a mask, and storage allocated inside has a copy for each point. At each point the
same operations happen in the same order as in the slow mode, so floats have the same bits, also in sums. The run
verifies that the iterations are independent (`fast.tracking`). If they are not, it starts again with that loop in
order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from minitvm import expr as x
from minitvm.errors import ExecutionError
from minitvm.tir import nodes as t

from ..meaning.scalar import Environment, Evaluate, Execute, Value
from ..meaning.settings import INDEPENDENT, Settings
from ..meaning.statements import Statements
from ..meaning.steps import POINTS, spend, statements
from ..meaning.storage import Memory, View, poison, row_major
from .dependence import Dependence
from .grid import GRID, MASK, inside, narrowed
from .grid_elements import GridElements, NeedsOrder
from .grid_run import GridNest, largest
from .grid_storage import GridMemory, GridView
from .level import Level
from .tracking import Counter


class LockstepCompiler(Statements, GridElements):
    """Compiles the statements of one function; `in_order` are the loops whose iterations turned out to be dependent."""

    def __init__(
        self, func: t.PrimFunc, settings: Settings, in_order: set[t.For], facts: Dependence | None = None
    ) -> None:
        super().__init__(settings, facts or Dependence(func), set(func.buffers))
        self.in_order = in_order
        self.reach = self.facts.reach
        self.rank = 0  # loops of the deepest grid; known when compilation is done, used when the program runs
        self.counter = Counter()

    def environment(self) -> Environment:
        """Return an environment in which nothing is bound and the grid has one point."""
        env: Environment = [None] * self.size
        env[GRID] = (1,) * self.rank
        return env

    def note_masks(self, buffer: t.Buffer) -> None:
        """Remember for the next try that a buffer is accessed under several masks."""
        self.facts.several_masks.add(buffer)

    def grid(self, loop: t.For) -> bool:
        """Return whether a loop becomes an axis of the grid."""
        return loop not in self.in_order and self.facts.candidate(loop)

    # --- control ---------------------------------------------------------------------------------------------------

    def loop(self, s: t.For) -> Execute:
        if self.grid(s):
            return self._level(s)
        one = isinstance(s.extent, x.IntImm) and s.extent.value <= 1
        if s.kind in INDEPENDENT and self.settings.shadow and not one:
            raise NeedsOrder(f"the iterations of {s.var.name} may conflict")
        start, extent = self.expr(s.start), self.expr(s.extent)
        slot = self.define(s.var)
        body, each = self.stmt(s.body), statements(s.body)

        def run(env: Environment) -> None:
            first, count = start(env), extent(env)
            at_once = each * (1 + math.prod(env[GRID]) // POINTS)
            if type(first) is not np.ndarray and type(count) is not np.ndarray:
                spend(count * at_once)
                for v in range(first, first + count):
                    env[slot] = v
                    body(env)
                return
            most = largest(count, env[MASK])
            spend(most * at_once)
            for k in range(most):
                env[slot] = first + k
                self.under(env, k < count, body)

        return run

    def _level(self, s: t.For) -> Execute:
        loops = self._together(s)
        outer, around = self.level, self.axes
        starts, extents = [self.expr(one.start) for one in loops], [self.expr(one.extent) for one in loops]
        slots = [self.define(one.var) for one in loops]
        key = (*loops, outer, frozenset(self.in_order))
        if key not in self.facts.levels:
            self.facts.levels[key] = Level(loops, outer, self.facts, self.grid)
        level = self.level = self.facts.levels[key]
        where = self.define(level)
        above = self.slot(outer) if outer is not None else None
        axes = self.axes = [*around, *loops]
        self.rank = max(self.rank, len(axes))
        body = self.stmt(level.body)
        self.level, self.axes = outer, around
        return GridNest(level, axes, starts, extents, slots, where, above, body, statements(level.body), self).run

    def _together(self, s: t.For) -> list[t.For]:
        """Return a loop of the grid and the loops directly inside it that run at once with it."""
        loops = [s]
        while True:
            below = loops[-1].body
            if not isinstance(below, t.For) or not self.grid(below):
                return loops
            if (below.thread or "")[:6] != (loops[-1].thread or "")[:6]:
                return loops  # barriers concern the threads of one block: they are a level of their own
            if (self.facts.variables(below.start) | self.facts.variables(below.extent)) & {one.var for one in loops}:
                return loops
            loops.append(below)

    def if_(self, s: t.If) -> Execute:
        condition, yes = self.expr(s.condition), self.stmt(s.then_case)
        no = self.stmt(s.else_case) if s.else_case is not None else None

        def run(env: Environment) -> None:
            holds = condition(env)
            self.under(env, holds, yes)
            if no is not None:
                self.under(env, ~holds if type(holds) is np.ndarray else not holds, no)

        return run

    def assert_(self, s: t.Assert) -> Execute:
        condition = self.expr(s.condition)

        def run(env: Environment) -> None:
            holds = condition(env)
            failed = not holds if type(holds) is not np.ndarray else narrowed(env[MASK], ~holds) is not False
            if failed:
                raise ExecutionError(f"assertion failed: {s.message}\n  wanted: {s.condition}")

        return run

    def begun(self, s: t.Async) -> Execute:
        """Compile an asynchronous copy that is done at once. With shadow memory, raise `NeedsOrder`: only the slow mode
        checks it.
        """
        if self.settings.shadow:
            raise NeedsOrder("copies are under way")
        return self.stmt(s.body)

    def opaque(self, e: x.Call) -> Evaluate:
        if e.op in ("ptx_commit_group", "ptx_wait_group"):
            return lambda env: 0
        return super().opaque(e)

    # --- storage and blocks ----------------------------------------------------------------------------------------

    def fresh(self, size: int, dtype: x.DType) -> np.ndarray:
        """Return storage that was not written yet."""
        return poison(size, dtype, self.domain)

    def allocation(self, buffer: t.Buffer) -> Callable[[Environment], GridView]:
        """Compile the allocation of a buffer, with one copy for each point of the grid."""
        dims, strides = [self.expr(d) for d in buffer.shape], [self.expr(d) for d in buffer.strides]
        offset, shadow = self.expr(buffer.elem_offset), self.settings.shadow

        def make(env: Environment) -> GridView:
            shape = tuple(_uniform(d(env), buffer) for d in dims)
            steps = tuple(_uniform(d(env), buffer) for d in strides) or row_major(shape)
            start = _uniform(offset(env), buffer)
            empty = Memory(buffer.name, np.empty(0), buffer.scope, None)
            low, high = View(empty, shape, steps, start).extent
            if low < 0 or min(shape, default=0) < 0:
                raise ExecutionError(f"{buffer.name} is allocated with shape {shape}, strides {steps}, offset {start}")
            points = math.prod(env[GRID])
            data = self.fresh(high * points, buffer.dtype)
            memory = GridMemory(buffer.name, data, buffer.scope, np.zeros(data.size, np.bool_) if shadow else None)
            base = (np.arange(points) * high).reshape((*env[GRID], 1)) if points > 1 else None
            return GridView(memory, shape, steps, start, base)

        return make

    def allocate(self, s: t.Allocate) -> Execute:
        make = self.allocation(s.buffer)
        slot = self.define(s.buffer)
        body = self.stmt(s.body)

        def run(env: Environment) -> None:
            env[slot] = make(env)
            body(env)

        return run

    def block(self, s: t.BlockRealize) -> Execute:
        block = s.block
        values = [self.expr(v) for v in s.iter_values]
        variables = [self.define(v.var) for v in block.iter_vars]
        bounds = [(self.expr(v.dom.start), self.expr(v.dom.extent)) for v in block.iter_vars]
        predicate = self.expr(s.predicate)
        reductions = [
            (slot, b[0]) for slot, b, v in zip(variables, bounds, block.iter_vars, strict=True) if v.kind == x.REDUCE
        ]
        opened = [(self.allocation(b), self.define(b)) for b in block.alloc_buffers]
        matches = [self._match(m) for m in block.match_buffers]
        init = self.stmt(block.init) if block.init is not None else None
        body = self.stmt(block.body)
        shadow = self.settings.shadow

        def at_start(env: Environment) -> Value:
            holds: Value = True
            for slot, first in reductions:
                holds = holds & np.equal(env[slot], first(env))
            return holds if isinstance(holds, np.ndarray) and holds.ndim else bool(holds)

        def enter(env: Environment) -> None:
            if shadow:
                for slot, (low, count) in zip(variables, bounds, strict=True):
                    first = low(env)
                    if _outside(env[slot], first, count(env), env[MASK]):
                        raise ExecutionError(f"block {block.name!r} runs outside its domain while its predicate holds")
            for make, slot in opened:
                env[slot] = make(env)
            for match in matches:
                match(env)
            if init is not None:
                self.under(env, at_start(env), init)
            body(env)

        def run(env: Environment) -> None:
            for slot, value in zip(variables, values, strict=True):
                env[slot] = value(env)
            self.under(env, predicate(env), enter)

        return run

    def _match(self, m: t.MatchBufferRegion) -> Execute:
        """Compile the binding of a buffer to a region. If the origin differs between points, the offset is an array."""
        source = self.slot(m.source.buffer)
        starts, extents = [self.expr(r.start) for r in m.source.region], [self.expr(r.extent) for r in m.source.region]
        unify: list[tuple[x.Expr, Callable[[GridView], Any], Evaluate | None, int]] = []
        described: list[tuple[x.Expr, Callable[[GridView], Any]]] = [
            *((d, lambda v, k=k: v.shape[k]) for k, d in enumerate(m.buffer.shape)),
            *((d, lambda v, k=k: v.strides[k]) for k, d in enumerate(m.buffer.strides)),
        ]
        if isinstance(m.buffer.elem_offset, x.Var):
            described.append((m.buffer.elem_offset, lambda v: v.offset))
        for e, actual in described:
            fresh = isinstance(e, x.Var) and e not in self.slots
            unify.append((e, actual, None if fresh else self.expr(e), self.define(e) if fresh else -1))
        slot, rank = self.define(m.buffer), len(m.buffer.shape)

        def bind(env: Environment) -> None:
            view: GridView = env[source]
            count = [_uniform(f(env), m.buffer) for f in extents]
            kept, offset = len(count) - rank, view.offset
            for f, n, limit, stride in zip(starts, count, view.shape, view.strides, strict=True):
                first, wrong = inside(f(env), limit - n + 1, env[MASK])
                if wrong is not None:
                    raise NeedsOrder(f"{m.buffer.name} views a region outside {view.memory.name}")
                offset = offset + first * stride
            if any(n != 1 for n in count[:kept]):
                raise ExecutionError(
                    f"{m.buffer.name} has {rank} dimensions and views a region of shape {tuple(count)}"
                )
            bound = env[slot] = GridView(view.memory, tuple(count[kept:]), view.strides[kept:], offset, view.base)
            for e, actual, expected, place in unify:
                if expected is None:
                    env[place] = actual(bound)
                elif np.any(expected(env) != actual(bound)):
                    raise ExecutionError(f"{m.buffer.name}: the view does not fit, {e} is wanted")

        return bind


def _uniform(value: Value, buffer: t.Buffer) -> int:
    if type(value) is np.ndarray:
        if value.size and (value == value.flat[0]).all():
            return int(value.flat[0])
        raise NeedsOrder(f"{buffer.name} has another shape in each iteration")
    return int(value)


def _outside(value: Value, first: Value, count: Value, mask: Any) -> bool:
    if type(value) is np.ndarray and type(first) is not np.ndarray and type(count) is not np.ndarray:
        if value.size == 0 or (value.min() >= first and value.max() < first + count):
            return False
    wrong = (value < first) | (value >= first + count)
    return bool(np.any(wrong if mask is None else wrong & mask))
