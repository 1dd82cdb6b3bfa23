"""The fast mode: independent iterations of loops run all at once, statement by statement, with NumPy.

Loops whose iterations look independent (`reference.dependence`) form the axes of a grid; every other loop runs in order
inside or around them. A branch is a mask, storage allocated inside is one copy a point. At each point of the grid the
same operations happen in the same order as in the slow mode, so floats have the same bits, sums included. That the
iterations were independent is verified while they run (`reference.tracking`); where they were not, the run starts again
with that loop in order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from minitvm import expr as x
from minitvm.errors import ExecutionError, Unsupported
from minitvm.tir import nodes as t

from . import shadow as checks
from .dependence import Dependence
from .grid import GRID, MASK, GridCompiler, axis_values, inside, narrowed
from .grid_storage import GridMemory, GridView
from .level import Level
from .scalar import Environment, Evaluate, Value
from .settings import INDEPENDENT, Settings
from .storage import Memory, View, poison, row_major
from .tracking import Conflict, Counter, Execution

Execute = Callable[[Environment], None]
POINTS = 1 << 18  # of a grid that is evaluated at once: large enough to hide Python, small enough for caches
PRIVATE = 1 << 24  # elements of storage that the points of a grid may have for themselves


class NeedsOrder(Exception):
    """The fast mode cannot tell what the slow one must: the run has to be repeated there."""


class LockstepCompiler(GridCompiler):
    """Compiles the statements of one function; `in_order` are the loops that turned out not to be independent."""

    def __init__(
        self, func: t.PrimFunc, settings: Settings, in_order: set[t.For], facts: Dependence | None = None
    ) -> None:
        super().__init__()
        self.settings, self.in_order = settings, in_order
        self.facts = facts or Dependence(func)
        self.outputs = set(func.buffers)
        self.rank = 0  # loops of the deepest grid; known when compilation is done, used when the program runs
        self.axes: list[t.For] = []
        self.level: Level | None = None
        self.counter = Counter()
        self._statements: dict[type, Callable[[Any], Execute]] = {
            t.BufferStore: self._store, t.For: self._for, t.While: self._while, t.If: self._if, t.Seq: self._seq,
            t.LetStmt: self._let_stmt, t.Assert: self._assert, t.Evaluate: self._evaluate,
            t.Allocate: self._allocate, t.BlockRealize: self._block, t.KernelCall: self.kernel_call,
        }  # fmt: skip

    def stmt(self, s: t.Stmt) -> Execute:
        """The closure that runs a statement at all points."""
        handler = self._statements.get(type(s))
        if handler is None:
            raise Unsupported(f"the reference interpreter has no meaning for {type(s).__name__}")
        return handler(s)

    def environment(self) -> Environment:
        """An environment in which nothing is bound and the grid has one point."""
        env: Environment = [None] * self.size
        env[GRID] = (1,) * self.rank
        return env

    def note_masks(self, buffer: t.Buffer) -> None:
        """Remember for the next try that a buffer is accessed under several masks."""
        self.facts.several_masks.add(buffer)

    def grid(self, loop: t.For) -> bool:
        """Whether a loop becomes an axis of the grid."""
        return loop not in self.in_order and self.facts.candidate(loop)

    # --- loads and stores ------------------------------------------------------------------------------------------

    def _places(self, buffer: t.Buffer, indices: tuple[x.Expr, ...], node: Any) -> Evaluate:
        """The flat offsets that an access touches, bounds checked where they matter."""
        slot, places = self.slot(buffer), [self.expr(i) for i in indices]

        def offsets(env: Environment) -> Value:
            view: GridView = env[slot]
            total, mask = view.offset, env[MASK]
            for place, extent, stride in zip(places, view.shape, view.strides):
                index, wrong = inside(place(env), extent, mask)
                if wrong is not None:
                    found = _at_first(wrong, [p(env) for p in places])
                    raise checks.out_of_bounds(buffer, indices, found, view.shape, node)
                total = total + (index.astype(np.intp) * stride if type(index) is np.ndarray else index * stride)
            return total if view.base is None else total + view.base

        return offsets

    def _watch(self, buffer: t.Buffer) -> list[tuple[Level, list[int] | None, int]]:
        """The levels, outermost first, that must see accesses to a buffer, each with its slot.

        Between them: None where accesses have to be tracked; where all are to the same element at the same point, the
        slots of the levels from the outermost of that kind to this one.
        """
        root, found = self.facts.root(buffer), []
        level = self.level
        while level is not None and root not in level.own:
            if root in level.plans:
                found.append(level)
            level = level.outer
        watched: list[tuple[Level, list[int] | None, int]] = []
        around: list[int] = []
        for level in reversed(found):
            once = level.plans[root] == "once"
            alone = root in self.facts.several_masks
            around = [*([] if alone else around), self.slot(level)] if once else []
            watched.append((level, around if once else None, self.slot(level)))
        return watched

    def load(self, e: x.Expr) -> Evaluate:
        if not isinstance(e, t.BufferLoad):
            return super().load(e)
        if e.dtype.lanes > 1 and (not e.indices or e.indices[-1].dtype.lanes == 1 or e.buffer.dtype.lanes > 1):
            raise Unsupported(f"a load from a buffer of vectors: {e}")
        read = self._plain_load(e)
        if e.predicate is None:
            return read
        predicate, numpy = self.expr(e.predicate), e.dtype.numpy

        def masked(env: Environment) -> Value:
            needed, outer = np.atleast_1d(np.asarray(predicate(env))), env[MASK]
            both = narrowed(outer, needed)
            if both is False:
                return numpy.type(0)
            env[MASK] = both
            value = read(env)
            env[MASK] = outer
            return np.where(needed, value, numpy.type(0))

        return masked

    def _plain_load(self, e: t.BufferLoad) -> Evaluate:
        offsets, slot, watched = self._places(e.buffer, e.indices, e), self.slot(e.buffer), self._watch(e.buffer)
        root, is_float, is_output = self.facts.root(e.buffer), e.dtype.is_float, e.buffer in self.outputs
        innermost = self.axes[-1] if self.axes else None

        def evaluate(env: Environment) -> Value:
            view: GridView = env[slot]
            places, memory = offsets(env), view.memory
            if not memory.complete and memory.init is not None:
                self._initialised(env, view, places, e, is_output, innermost if watched else None)
            for level, once, where in watched:
                if once is None:
                    env[where].read(memory.track(level), places, env[MASK])
                else:
                    _own(env, level, once, root, memory, places)
            if type(places) is np.ndarray:
                return view.data.take(places, mode="clip")
            return view.data[places] if is_float else view.data.item(places)

        return evaluate

    def _initialised(self, env: Environment, view: GridView, places: Value, e: t.BufferLoad, is_output: bool,
                     suspect: t.For | None) -> None:  # fmt: skip
        memory, mask = view.memory, env[MASK]
        assert memory.init is not None
        missing = np.atleast_1d(~memory.init.take(places, mode="clip"))
        if mask is not None:
            missing = missing & mask
        if not missing.any():
            return
        if suspect is not None:
            raise Conflict(suspect)  # perhaps another iteration should have written it before
        offset = int(np.broadcast_to(np.asarray(places), missing.shape)[missing].flat[0])
        raise checks.uninitialised(_named(memory), (offset,), e, is_output)

    def _store(self, s: t.BufferStore) -> Execute:
        lanes = s.value.dtype.lanes
        if lanes > 1 and (not s.indices or s.indices[-1].dtype.lanes == 1 or s.buffer.dtype.lanes > 1):
            raise Unsupported(f"a store to a buffer of vectors: {s.buffer.name}")
        value = self.expr(s.value)
        predicate = self.expr(s.predicate) if s.predicate is not None else None
        offsets, slot, watched = self._places(s.buffer, s.indices, s), self.slot(s.buffer), self._watch(s.buffer)
        root, shadow = self.facts.root(s.buffer), self.settings.shadow
        sure = lanes == 1 or any(isinstance(i, x.Ramp) and _nonzero(i.stride) for i in s.indices)

        def put(env: Environment) -> None:
            view: GridView = env[slot]
            result, places, memory, mask = value(env), offsets(env), view.memory, env[MASK]
            if shadow and not sure:
                _distinct_lanes(s, places, lanes, mask)
            for level, once, where in watched:
                if once is None:
                    env[where].write(memory.track(level), places, mask)
                else:
                    _own(env, level, once, root, memory, places)
            if mask is not None:
                shape = np.broadcast_shapes(np.shape(places), np.shape(result), mask.shape)
                needed = np.broadcast_to(mask, shape)
                places = np.broadcast_to(np.asarray(places), shape)[needed]
                result = np.broadcast_to(np.asarray(result), shape)[needed]
            elif type(result) is np.ndarray and np.shape(places) != result.shape:
                places = np.broadcast_to(np.asarray(places), np.broadcast_shapes(np.shape(places), result.shape))
            view.data[places] = result
            if not memory.complete and memory.init is not None:
                memory.init[places] = True

        if predicate is None:
            return put

        def masked(env: Environment) -> None:
            self.under(env, np.atleast_1d(np.asarray(predicate(env))), put)

        return masked

    # --- control ---------------------------------------------------------------------------------------------------

    def under(self, env: Environment, condition: Value, execute: Execute) -> None:
        """Run at the points where a condition holds."""
        if type(condition) is not np.ndarray:
            if condition:
                execute(env)
            return
        outer = env[MASK]
        both = narrowed(outer, condition)
        if both is False:
            return
        env[MASK] = both
        execute(env)
        env[MASK] = outer

    def _for(self, s: t.For) -> Execute:
        if self.grid(s):
            return self._level(s)
        one = isinstance(s.extent, x.IntImm) and s.extent.value <= 1
        if s.kind in INDEPENDENT and self.settings.shadow and not one:
            raise NeedsOrder(f"the iterations of {s.var.name} may conflict")
        start, extent = self.expr(s.start), self.expr(s.extent)
        slot = self.define(s.var)
        body = self.stmt(s.body)

        def run(env: Environment) -> None:
            first, count = start(env), extent(env)
            if type(first) is not np.ndarray and type(count) is not np.ndarray:
                for v in range(first, first + count):
                    env[slot] = v
                    body(env)
                return
            for k in range(_largest(count, env[MASK])):
                env[slot] = first + k
                self.under(env, k < count, body)

        return run

    def _level(self, s: t.For) -> Execute:
        loops = [s]
        while True:
            below = loops[-1].body
            if not isinstance(below, t.For) or not self.grid(below):
                break
            if (below.thread or "")[:6] != (loops[-1].thread or "")[:6]:
                break  # barriers concern the threads of one block: they are a level of their own
            if (self.facts.variables(below.start) | self.facts.variables(below.extent)) & {one.var for one in loops}:
                break
            loops.append(below)
        outer, axis = self.level, len(self.axes)
        starts, extents = [self.expr(one.start) for one in loops], [self.expr(one.extent) for one in loops]
        slots = [self.define(one.var) for one in loops]
        level = self.level = Level(loops, outer, self.facts, self.grid)
        where = self.define(level)
        above = self.slot(outer) if outer is not None else None
        self.axes = [*self.axes, *loops]
        self.rank = max(self.rank, len(self.axes))
        all_loops = self.axes
        body = self.stmt(level.body)
        self.level, self.axes = outer, self.axes[:axis]
        whole = [level.barrier and (one.thread or "").startswith("threadIdx") for one in loops]

        def run(env: Environment) -> None:
            firsts, counts = [f(env) for f in starts], [f(env) for f in extents]
            lengths = [_largest(c, env[MASK]) for c in counts]
            if min(lengths) <= 0:
                return
            around: Execution | None = env[above] if above is not None else None
            before = around.extents if around is not None else []
            every = [*before, *lengths]
            execution = env[where] = Execution(self.counter.take(math.prod(every)), all_loops, every)
            numbers = np.zeros((1,) * (self.rank + 1), np.int64) if around is None else around.ids - around.base
            outer_grid, outer_mask = env[GRID], env[MASK]

            def inner(depth: int, ids: np.ndarray, _: Environment) -> None:
                nest(depth, ids)

            def nest(depth: int, ids: np.ndarray) -> None:
                if depth == len(loops):
                    execution.ids = ids + execution.base
                    execution.verified.clear()
                    body(env)
                    return
                length, grid, mask = lengths[depth], env[GRID], env[MASK]
                points = max(1, math.prod(grid))
                rest = points * math.prod(lengths[depth + 1 :])
                room = min(POINTS // (rest * level.lanes), PRIVATE // (rest * level.private))
                step = length if whole[depth] else max(1, min(length, room))
                execution.whole = execution.whole and step == length
                for begin in range(0, length, step):
                    values = np.arange(begin, min(length, begin + step))
                    single = len(values) == 1 and type(firsts[depth]) is not np.ndarray
                    along = axis_values(0, values, axis + depth, self.rank, x.DType("int64"))
                    env[slots[depth]] = (
                        firsts[depth] + begin
                        if single
                        else axis_values(firsts[depth], values, axis + depth, self.rank, loops[depth].var.dtype)
                    )
                    env[GRID] = (*grid[: axis + depth], len(values), *grid[axis + depth + 1 :])
                    following = ids * length + along
                    if type(counts[depth]) is np.ndarray:
                        self.under(env, along < counts[depth], partial(inner, depth + 1, following))
                    else:
                        nest(depth + 1, following)
                env[GRID], env[MASK] = grid, mask

            nest(0, numbers)
            env[GRID], env[MASK] = outer_grid, outer_mask

        return run

    def _while(self, s: t.While) -> Execute:
        condition, body = self.expr(s.condition), self.stmt(s.body)

        def run(env: Environment) -> None:
            # No loop of the grid contains a `while`: the condition is one value.
            while bool(condition(env)):
                body(env)

        return run

    def _if(self, s: t.If) -> Execute:
        condition, yes = self.expr(s.condition), self.stmt(s.then_case)
        no = self.stmt(s.else_case) if s.else_case is not None else None

        def run(env: Environment) -> None:
            holds = condition(env)
            self.under(env, holds, yes)
            if no is not None:
                self.under(env, ~holds if type(holds) is np.ndarray else not holds, no)

        return run

    def _seq(self, s: t.Seq) -> Execute:
        parts = tuple(self.stmt(one) for one in s.stmts)

        def run(env: Environment) -> None:
            for part in parts:
                part(env)

        return run

    def _let_stmt(self, s: t.LetStmt) -> Execute:
        value = self.expr(s.value)
        slot = self.define(s.var)
        body = self.stmt(s.body)

        def run(env: Environment) -> None:
            env[slot] = value(env)
            body(env)

        return run

    def _assert(self, s: t.Assert) -> Execute:
        condition = self.expr(s.condition)

        def run(env: Environment) -> None:
            holds = condition(env)
            failed = not holds if type(holds) is not np.ndarray else narrowed(env[MASK], ~holds) is not False
            if failed:
                raise ExecutionError(f"assertion failed: {s.message}\n  wanted: {s.condition}")

        return run

    def _evaluate(self, s: t.Evaluate) -> Execute:
        value = self.expr(s.value)

        def run(env: Environment) -> None:
            value(env)

        return run

    def kernel_call(self, s: t.KernelCall) -> Execute:
        """Calls belong to host functions; `reference.kernel` gives them their meaning."""
        raise Unsupported(f"the call of {s.kernel} in a level-3 function; kernels are called by host functions")

    # --- storage and blocks ----------------------------------------------------------------------------------------

    def allocation(self, buffer: t.Buffer) -> Callable[[Environment], GridView]:
        """Fresh storage, one copy for each point of the grid."""
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
            data = poison(high * points, buffer.dtype)
            memory = GridMemory(buffer.name, data, buffer.scope, np.zeros(data.size, np.bool_) if shadow else None)
            base = (np.arange(points) * high).reshape((*env[GRID], 1)) if points > 1 else None
            return GridView(memory, shape, steps, start, base)

        return make

    def _allocate(self, s: t.Allocate) -> Execute:
        make = self.allocation(s.buffer)
        slot = self.define(s.buffer)
        body = self.stmt(s.body)

        def run(env: Environment) -> None:
            env[slot] = make(env)
            body(env)

        return run

    def _block(self, s: t.BlockRealize) -> Execute:
        block = s.block
        values = [self.expr(v) for v in s.iter_values]
        variables = [self.define(v.var) for v in block.iter_vars]
        bounds = [(self.expr(v.dom.start), self.expr(v.dom.extent)) for v in block.iter_vars]
        predicate = self.expr(s.predicate)
        reductions = [(slot, b[0]) for slot, b, v in zip(variables, bounds, block.iter_vars) if v.kind == x.REDUCE]
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
                for slot, (low, count) in zip(variables, bounds):
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
            for slot, value in zip(variables, values):
                env[slot] = value(env)
            self.under(env, predicate(env), enter)

        return run

    def _match(self, m: t.MatchBufferRegion) -> Execute:
        """Bind a buffer to a region; one with another origin at each point has an array as offset."""
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
            for f, n, limit, stride in zip(starts, count, view.shape, view.strides):
                first, wrong = inside(f(env), limit - n + 1, env[MASK])
                if wrong is not None:
                    raise ExecutionError(f"{m.buffer.name} views a region outside {view.memory.name}")
                offset = offset + first * stride
            if any(n != 1 for n in count[:kept]):
                raise ExecutionError(
                    f"{m.buffer.name} has {rank} dimensions and views a region of shape {tuple(count)}"
                )
            made = env[slot] = GridView(view.memory, tuple(count[kept:]), view.strides[kept:], offset, view.base)
            for e, actual, wanted, place in unify:
                if wanted is None:
                    env[place] = actual(made)
                elif np.any(wanted(env) != actual(made)):
                    raise ExecutionError(f"{m.buffer.name}: the view does not fit, {e} is wanted")

        return bind


def _own(env: Environment, level: Level, around: list[int], root: t.Buffer, memory: GridMemory, places: Value) -> None:
    """Verify that each point of a level has elements of its own; once, as all accesses are to the same elements.

    `around` are the slots of the levels for which that holds too, outermost first, this one last: what is found for a
    whole inner level stays true while the points of the outermost one stay the same.
    """
    key, mask = (level, root), env[MASK]
    if any(env[slot].knows(key, mask) for slot in around):
        return
    env[around[-1]].own(memory.track(level), places, mask)
    first = len(around) - 1
    while first > 0 and env[around[first]].whole:
        first -= 1
    env[around[first]].learn(key, mask, inner=first < len(around) - 1)


def _nonzero(e: x.Expr) -> bool:
    return isinstance(e, x.IntImm) and e.value != 0


def _named(memory: GridMemory) -> Memory:
    return Memory(memory.name, memory.data, memory.scope, None)


def _largest(count: Value, mask: Any) -> int:
    if type(count) is not np.ndarray:
        return int(count)
    needed = count if mask is None else np.where(mask, count, 0)
    return int(needed.max()) if needed.size else 0


def _uniform(value: Value, buffer: t.Buffer) -> int:
    if type(value) is np.ndarray:
        if value.size and (value == value.flat[0]).all():
            return int(value.flat[0])
        raise NeedsOrder(f"{buffer.name} has another shape in each iteration")
    return int(value)


def _outside(value: Value, first: Value, count: Value, mask: Any) -> bool:
    wrong = (value < first) | (value >= first + count)
    return bool(np.any(wrong if mask is None else wrong & mask))


def _at_first(wrong: np.ndarray, indices: Sequence[Value]) -> tuple[int, ...]:
    """The indices at the first point of a mask, in the order of the points."""
    shape = np.broadcast_shapes(wrong.shape, *(np.shape(i) for i in indices))
    where = np.unravel_index(int(np.argmax(np.broadcast_to(wrong, shape))), shape)
    return tuple(int(np.broadcast_to(np.asarray(i), shape)[where]) for i in indices)


def _distinct_lanes(s: t.BufferStore, places: Value, lanes: int, mask: Any) -> None:
    spread = np.sort(np.broadcast_to(np.asarray(places), (*np.shape(places)[:-1], lanes)), axis=-1)
    if (spread[..., 1:] == spread[..., :-1]).any() and mask is None:
        raise ExecutionError(
            f"two lanes of one store write the same element of {s.buffer.name}\n  in:     {checks.statement_text(s)}"
        )
    if mask is not None:
        raise NeedsOrder("masked lanes of a scatter")
