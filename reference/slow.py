"""The definition of what a loop program does, one iteration and one element at a time.

`StatementCompiler` turns statements into Python closures over an environment (one slot a variable or buffer; slot 0 is
the current parallel iteration). `reference.tir` runs level-3 programs with it, `reference.kernel` adds what lowered
programs have. It is the judge of `reference.lockstep`, which runs the same programs faster.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minitvm import events
from minitvm import expr as x
from minitvm.errors import ExecutionError, InputError, Unsupported
from minitvm.tir import nodes as t

from . import shadow as checks
from .scalar import ITERATION, LANES, Environment, Evaluate, ScalarCompiler, Value
from .storage import Memory, View, allocator, integers

Execute = Callable[[Environment], None]
ORDERS = ("forward", "backward", "shuffled")
_INDEPENDENT = (t.ForKind.PARALLEL, t.ForKind.VECTORIZED, t.ForKind.THREAD)


@dataclass
class Settings:
    """How to run: what is checked, in which order independent iterations come, and who listens."""

    shadow: bool = True
    order: str = "forward"
    seed: int = 0
    listeners: Sequence[events.Listener] = ()
    threads: int = 1
    random: random.Random = field(init=False)
    executions: Iterator[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        if self.order not in ORDERS:
            raise InputError(f"order {self.order!r} is unknown; known: {', '.join(ORDERS)}")
        self.random = random.Random(self.seed)

    def iterations(self, count: int) -> Sequence[int]:
        """The iterations of an independent loop in the order in which they run."""
        if self.order == "forward":
            return range(count)
        if self.order == "backward":
            return range(count - 1, -1, -1)
        return self.random.sample(range(count), count)

    def partitioned(self, count: int) -> list[int]:
        """The iterations of a PARALLEL loop: each thread its share in order, the threads as `order` says."""
        n = self.threads
        shares = [range(count * k // n, count * (k + 1) // n) for k in range(n)]
        return [i for k in self.iterations(n) for i in shares[k]]


def stored_buffers(func: t.PrimFunc, module: t.IRModule | None = None) -> set[t.Buffer]:
    """The buffers that a function may write: itself, through views, or through the kernels that it calls."""
    nodes = list(x.walk(func.body))
    stored = {s.buffer for s in nodes if isinstance(s, t.BufferStore)}
    views = [m for b in nodes if isinstance(b, t.Block) for m in b.match_buffers]
    grown = True
    while grown:
        sources = {m.source.buffer for m in views if m.buffer in stored}
        grown = not sources <= stored
        stored |= sources
    for call in nodes:
        if isinstance(call, t.KernelCall) and module is not None and call.kernel in module:
            kernel = module[call.kernel]
            inner = stored_buffers(kernel, module)
            stored |= {a for p, a in zip(kernel.params, call.args) if p in inner and isinstance(a, t.Buffer)}
    return stored


def written_elements(buffer: t.Buffer, memory: Memory, view: View) -> None:
    """ExecutionError unless every element of an output was written."""
    if memory.init is None or 0 in view.shape:
        return
    done = np.frombuffer(memory.init, np.uint8)[view.offsets()]
    if not done.all():
        first = tuple(int(i) for i in np.argwhere(done == 0)[0])
        raise checks.never_written(buffer, first, int((done == 0).sum()), done.size)


class StatementCompiler(ScalarCompiler):
    """Compiles the statements of one function."""

    def __init__(self, func: t.PrimFunc, settings: Settings, module: t.IRModule | None = None) -> None:
        super().__init__()
        self.settings = settings
        self.stored = stored_buffers(func, module)
        self.outputs = {p for p in func.buffers if p in self.stored}
        self.hear = {
            name: events.heard(settings.listeners, name)
            for name in ("load", "store", "operation", "loop_enter", "loop_iteration", "loop_exit", "block", "barrier",
                         "allocate", "free")
        }  # fmt: skip
        self._in_data = False
        self._statements: dict[type, Callable[[Any], Execute]] = {
            t.BufferStore: self._store, t.For: self._for, t.While: self._while, t.If: self._if, t.Seq: self._seq,
            t.LetStmt: self._let_stmt, t.Assert: self._assert, t.Evaluate: self._evaluate,
            t.Allocate: self._allocate, t.BlockRealize: self._block, t.KernelCall: self.kernel_call,
        }  # fmt: skip

    def stmt(self, s: t.Stmt) -> Execute:
        """The closure that runs a statement."""
        handler = self._statements.get(type(s))
        if handler is None:
            raise Unsupported(f"the reference interpreter has no meaning for {type(s).__name__}")
        return handler(s)

    # --- loads and stores ------------------------------------------------------------------------------------------

    def load(self, e: x.Expr) -> Evaluate:
        if not isinstance(e, t.BufferLoad):
            return super().load(e)
        if e.dtype.lanes > 1:
            return self._vector_load(e)
        if e.predicate is not None:
            raise Unsupported(f"a predicate on a scalar load: {e}")
        return self._element_load(e)

    def _element_load(self, e: t.BufferLoad) -> Evaluate:
        address = self._address(e.buffer, e.indices, e)
        slot, fetch = self.slot(e.buffer), self._fetch(e.buffer, e)
        return lambda env: fetch(env, env[slot], address(env))

    def _fetch(self, buffer: t.Buffer, node: Any) -> Callable[[Environment, View, int], Value]:
        """How one element is read: (environment, view, flat offset) -> value."""
        single_float = buffer.dtype.is_float

        def plain(env: Environment, view: View, offset: int) -> Value:
            return view.data[offset] if single_float else view.data.item(offset)

        read = plain
        if self.settings.shadow:
            tracked, is_output = buffer in self.stored, buffer in self.outputs

            def checked(env: Environment, view: View, offset: int) -> Value:
                memory = view.memory
                if memory.init is not None and not memory.init[offset]:
                    raise checks.uninitialised(memory, _indices_of(view, offset), node, is_output)
                now = env[ITERATION]
                if tracked and now is not None:
                    checks.note_read(memory, offset, now, node)
                return view.data[offset] if single_float else view.data.item(offset)

            read = checked
        report = self.hear["load"]
        if report is None:
            return read
        inner, size = read, buffer.dtype.scalar.bytes

        def heard(env: Environment, view: View, offset: int) -> Value:
            report(events.Access(view.memory.name, view.memory.scope, offset, size))
            return inner(env, view, offset)

        return heard

    def _put(self, buffer: t.Buffer, node: Any) -> Callable[[Environment, View, int, Value], None]:
        """How one element is written: (environment, view, flat offset, value)."""

        def plain(env: Environment, view: View, offset: int, value: Value) -> None:
            view.data[offset] = value

        write = plain
        if self.settings.shadow:

            def checked(env: Environment, view: View, offset: int, value: Value) -> None:
                memory = view.memory
                if memory.init is not None:
                    memory.init[offset] = 1
                now = env[ITERATION]
                if now is not None:
                    checks.note_write(memory, offset, now, node)
                view.data[offset] = value

            write = checked
        report = self.hear["store"]
        if report is None:
            return write
        inner, size = write, buffer.dtype.scalar.bytes

        def heard(env: Environment, view: View, offset: int, value: Value) -> None:
            report(events.Access(view.memory.name, view.memory.scope, offset, size))
            inner(env, view, offset, value)

        return heard

    def _address(self, buffer: t.Buffer, indices: tuple[x.Expr, ...], node: Any) -> Callable[[Environment], int]:
        """The flat offset of an element, bounds checked."""
        slot = self.slot(buffer)
        places = self._indices(indices)

        def refuse(env: Environment) -> ExecutionError:
            found = tuple(int(p(env)) for p in places)
            return checks.out_of_bounds(buffer, indices, found, env[slot].shape, node)

        if len(places) == 1:
            (only,) = places

            def address_1(env: Environment) -> int:
                view, i = env[slot], only(env)
                if 0 <= i < view.shape[0]:
                    return view.offset + i * view.strides[0]  # type: ignore[no-any-return]
                raise refuse(env)

            return address_1
        if len(places) == 2:
            first, second = places

            def address_2(env: Environment) -> int:
                view, i, j = env[slot], first(env), second(env)
                (n, m), (s, r) = view.shape, view.strides
                if 0 <= i < n and 0 <= j < m:
                    return view.offset + i * s + j * r  # type: ignore[no-any-return]
                raise refuse(env)

            return address_2

        def address(env: Environment) -> int:
            view = env[slot]
            offset = view.offset
            for place, extent, stride in zip(places, view.shape, view.strides):
                i = place(env)
                if not 0 <= i < extent:
                    raise refuse(env)
                offset += i * stride
            return offset  # type: ignore[no-any-return]

        return address

    def _indices(self, indices: Sequence[x.Expr]) -> list[Evaluate]:
        # Index arithmetic is not what a ledger of operations counts.
        outer, self._in_data = self._in_data, False
        places = [self.expr(i) for i in indices]
        self._in_data = outer
        return places

    def _vector_places(self, buffer: t.Buffer, indices: tuple[x.Expr, ...], node: Any) -> Callable[[Environment], list[int]]:
        slot, places = self.slot(buffer), self._indices(indices)
        lanes = indices[-1].dtype.lanes

        def offsets(env: Environment) -> list[int]:
            view: View = env[slot]
            columns = [np.broadcast_to(p(env), lanes).tolist() for p in places]
            found = []
            for index in zip(*columns):
                inside = all(0 <= i < n for i, n in zip(index, view.shape))
                found.append(view.offset + sum(i * s for i, s in zip(index, view.strides)) if inside else -1)
            return found

        def explain(env: Environment, lane: int) -> ExecutionError:
            index = tuple(int(np.broadcast_to(p(env), lanes)[lane]) for p in places)
            return checks.out_of_bounds(buffer, indices, index, env[slot].shape, node)

        self._explain = explain
        return offsets

    def _vector_load(self, e: t.BufferLoad) -> Evaluate:
        if not e.indices or e.indices[-1].dtype.lanes == 1 or e.buffer.dtype.lanes > 1:
            raise Unsupported(f"a load from a buffer of vectors: {e}")
        offsets = self._vector_places(e.buffer, e.indices, e)
        explain, fetch, slot = self._explain, self._fetch(e.buffer, e), self.slot(e.buffer)
        mask = self._indices([e.predicate])[0] if e.predicate is not None else None
        numpy, lanes = e.dtype.numpy, e.dtype.lanes

        def evaluate(env: Environment) -> Value:
            view: View = env[slot]
            active = _active(env, lanes, mask)
            places = offsets(env)
            result = np.zeros(lanes, numpy)  # a lane that is masked out is zero, as in the masked loads of hardware
            for lane in active:
                if places[lane] < 0:
                    raise explain(env, lane)
                result[lane] = fetch(env, view, places[lane])
            return result

        return evaluate

    def _store(self, s: t.BufferStore) -> Execute:
        self._in_data = True
        value = self.expr(s.value)
        self._in_data = False
        if s.value.dtype.lanes > 1:
            return self._vector_store(s, value)
        if s.predicate is not None:
            raise Unsupported(f"a predicate on a scalar store to {s.buffer.name}")
        address, slot, put = self._address(s.buffer, s.indices, s), self.slot(s.buffer), self._put(s.buffer, s)

        def execute(env: Environment) -> None:
            result = value(env)
            put(env, env[slot], address(env), result)

        return execute

    def _vector_store(self, s: t.BufferStore, value: Evaluate) -> Execute:
        if not s.indices or s.indices[-1].dtype.lanes == 1 or s.buffer.dtype.lanes > 1:
            raise Unsupported(f"a store to a buffer of vectors: {s.buffer.name}")
        offsets = self._vector_places(s.buffer, s.indices, s)
        explain, put, slot = self._explain, self._put(s.buffer, s), self.slot(s.buffer)
        mask = self._indices([s.predicate])[0] if s.predicate is not None else None
        lanes, shadow = s.value.dtype.lanes, self.settings.shadow

        def execute(env: Environment) -> None:
            vector = value(env)
            view: View = env[slot]
            active = _active(env, lanes, mask)
            places = offsets(env)
            if shadow and len({places[lane] for lane in active}) < len(active):
                raise ExecutionError(
                    f"two lanes of one store write the same element of {view.memory.name}\n"
                    f"  in:     {checks.statement_text(s)}"
                )
            for lane in active:
                if places[lane] < 0:
                    raise explain(env, lane)
                put(env, view, places[lane], vector[lane])

        return execute

    def operation(self, name: str, dtype: x.DType, evaluate: Evaluate) -> Evaluate:
        report = self.hear["operation"]
        if report is None or not self._in_data:
            return evaluate
        text = str(dtype)

        def heard(env: Environment) -> Value:
            report(name, text)
            return evaluate(env)

        return heard

    # --- control ---------------------------------------------------------------------------------------------------

    def _for(self, s: t.For) -> Execute:
        start, extent = self.expr(s.start), self.expr(s.extent)
        slot = self.define(s.var)
        body = self.loop_body(s)
        execute = self._independent(s, slot, start, extent, body) if s.kind in _INDEPENDENT else None
        if execute is not None:
            return execute

        def run(env: Environment) -> None:
            first = start(env)
            for value in range(first, first + extent(env)):
                env[slot] = value
                body(env)

        return self._heard_loop(s, start, extent, run)

    def loop_body(self, s: t.For) -> Execute:
        """The body of a loop, reporting each iteration to those who listen."""
        body = self.stmt(s.body)
        report = self.hear["loop_iteration"]
        if report is None:
            return body
        slot, record = self.slot(s.var), events.Loop(s.var.name, 0, -1, s.kind.value)

        def heard(env: Environment) -> None:
            report(record, env[slot])
            body(env)

        return heard

    def _heard_loop(self, s: t.For, start: Evaluate, extent: Evaluate, run: Execute) -> Execute:
        enter, leave = self.hear["loop_enter"], self.hear["loop_exit"]
        if enter is None and leave is None:
            return run

        def heard(env: Environment) -> None:
            loop = events.Loop(s.var.name, start(env), extent(env), s.kind.value)
            if enter is not None:
                enter(loop)
            run(env)
            if leave is not None:
                leave(loop)

        return heard

    def _independent(self, s: t.For, slot: int, start: Evaluate, extent: Evaluate, body: Execute) -> Execute:
        executions, name, settings = self.settings.executions, s.var.name, self.settings
        shared = settings.threads > 1 and s.kind == t.ForKind.PARALLEL
        is_thread = s.thread is not None and s.thread.startswith("threadIdx")

        def run(env: Environment) -> None:
            first, outer, execution = start(env), env[ITERATION], next(executions)
            count = max(0, extent(env))
            for k in settings.partitioned(count) if shared else settings.iterations(count):
                env[slot] = first + k
                if settings.shadow:
                    env[ITERATION] = checks.Iteration.inside(outer, execution, first + k, name, is_thread)
                body(env)
            env[ITERATION] = outer

        return self._heard_loop(s, start, extent, run)

    def _while(self, s: t.While) -> Execute:
        condition, body = self.expr(s.condition), self.stmt(s.body)

        def run(env: Environment) -> None:
            while condition(env):
                body(env)

        return run

    def _if(self, s: t.If) -> Execute:
        condition, yes = self.expr(s.condition), self.stmt(s.then_case)
        no = self.stmt(s.else_case) if s.else_case is not None else None

        def run(env: Environment) -> None:
            if condition(env):
                yes(env)
            elif no is not None:
                no(env)

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
            if not condition(env):
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

    def _allocate(self, s: t.Allocate) -> Execute:
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

    def _block(self, s: t.BlockRealize) -> Execute:
        block = s.block
        values = [self.expr(v) for v in s.iter_values]
        variables = [self.define(v.var) for v in block.iter_vars]
        bounds = [(self.expr(v.dom.start), self.expr(v.dom.extent)) for v in block.iter_vars]
        always = isinstance(s.predicate, x.IntImm) and s.predicate.value == 1
        predicate = self.expr(s.predicate)
        reductions = [(slot, b[0]) for slot, b, v in zip(variables, bounds, block.iter_vars) if v.kind == x.REDUCE]
        opened = [(allocator(self, b, self.settings.shadow), self.define(b), b) for b in block.alloc_buffers]
        matches = [self.match_buffer(m) for m in block.match_buffers]
        init = self.stmt(block.init) if block.init is not None else None
        body = self.stmt(block.body)
        shadow, report, allocated, freed = (
            self.settings.shadow, self.hear["block"], self.hear["allocate"], self.hear["free"]
        )  # fmt: skip

        def run(env: Environment) -> None:
            for slot, value in zip(variables, values):
                env[slot] = value(env)
            if not always and not predicate(env):
                return
            if shadow:
                for slot, (low, count) in zip(variables, bounds):
                    first = low(env)
                    if not first <= env[slot] < first + count(env):
                        raise _outside_domain(s, block, env, variables)
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
        """Bind a buffer to a region of another one, with the layout that the region has there."""
        source = self.slot(m.source.buffer)
        starts = [self.expr(r.start) for r in m.source.region]
        extents = [self.expr(r.extent) for r in m.source.region]
        unify: list[Callable[[Environment, View], None]] = []
        for axis, dim in enumerate(m.buffer.shape):
            unify.append(self._unify(dim, lambda view, axis=axis: view.shape[axis], f"dimension {axis}", m))
        for axis, stride in enumerate(m.buffer.strides):
            unify.append(self._unify(stride, lambda view, axis=axis: view.strides[axis], f"stride {axis}", m))
        if isinstance(m.buffer.elem_offset, x.Var):
            unify.append(self._unify(m.buffer.elem_offset, lambda view: view.offset, "offset", m))
        slot, rank = self.define(m.buffer), len(m.buffer.shape)

        def bind(env: Environment) -> None:
            view: View = env[source]
            first, count = integers(starts, env), integers(extents, env)
            for i, n, limit in zip(first, count, view.shape):
                if i < 0 or i + n > limit:
                    raise ExecutionError(
                        f"{m.buffer.name} views a region outside {view.memory.name}: [{i}, {i + n}) of {limit}"
                    )
            if any(n != 1 for n in count[: len(count) - rank]):
                raise ExecutionError(f"{m.buffer.name} has {rank} dimensions and views a region of shape {count}")
            offset = view.offset + sum(i * s for i, s in zip(first, view.strides))
            kept = len(count) - rank
            made = env[slot] = View(view.memory, count[kept:], view.strides[kept:], offset)
            for check in unify:
                check(env, made)

        return bind

    def _unify(self, e: x.Expr, actual: Callable[[View], int], what: str, m: t.MatchBufferRegion) -> Callable[[Environment, View], None]:
        """A variable without a value takes the actual one; anything else must be equal to it."""
        if isinstance(e, x.Var) and e not in self.slots:
            slot = self.define(e)

            def bind(env: Environment, view: View) -> None:
                env[slot] = actual(view)

            return bind
        wanted = self.expr(e)

        def check(env: Environment, view: View) -> None:
            if wanted(env) != actual(view):
                raise ExecutionError(
                    f"{m.buffer.name}: {what} of the view does not fit\n"
                    f"  wanted: {wanted(env)}\n  found:  {actual(view)}, in a region of {m.source.buffer.name}"
                )

        return check


def _active(env: Environment, lanes: int, predicate: Evaluate | None) -> Sequence[int]:
    """The lanes that a vector access touches."""
    needed = env[LANES]
    if predicate is not None:
        held = np.broadcast_to(predicate(env), lanes)
        needed = held if needed is None else held & needed
    return range(lanes) if needed is None else np.flatnonzero(needed).tolist()  # type: ignore[no-any-return]


def _outside_domain(s: t.BlockRealize, block: t.Block, env: Environment, variables: list[int]) -> ExecutionError:
    found = ", ".join(f"{v.var.name} = {env[slot]}" for v, slot in zip(block.iter_vars, variables))
    domains = ", ".join(f"{v.var.name} in [{v.dom.start}, {v.dom.start} + {v.dom.extent})" for v in block.iter_vars)
    return ExecutionError(
        f"block {block.name!r} runs outside its domain while its predicate holds\n  wanted: {domains}\n  found:  {found}"
    )


def _indices_of(view: View, offset: int) -> tuple[int, ...]:
    """The indices of an element, from its flat offset; for messages."""
    rest, found = offset - view.offset, []
    for n, stride in sorted(zip(view.shape, view.strides), key=lambda p: -p[1]):
        index = rest // stride if stride and n > 1 else 0
        found.append((stride, index))
        rest -= index * stride
    by_stride: Iterator[int] = (i for _, i in found)
    order = sorted(range(len(view.shape)), key=lambda k: -view.strides[k])
    placed = dict(zip(order, by_stride))
    return tuple(placed[k] for k in range(len(view.shape)))
