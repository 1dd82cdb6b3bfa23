"""Loads and stores of the slow mode: one element at a time, or one lane after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np

from minitvm import events
from minitvm import expr as x
from minitvm.errors import ExecutionError, Unsupported
from minitvm.tir import nodes as t

from . import shadow as checks
from .findings import Access
from .flights import Flight, under_way
from .index_arithmetic import reaches
from .scalar import ITERATION, LANES, Environment, Evaluate, Execute, ScalarCompiler, Value
from .settings import Settings, stored_buffers
from .storage import Memory, View

_REPORTS = (
    "load", "store", "thread_access", "operation", "loop_enter", "loop_iteration", "loop_exit", "block", "barrier",
    "allocate", "free",
)  # fmt: skip


class ElementCompiler(ScalarCompiler):
    """Compiles expressions with loads, and stores."""

    def __init__(self, func: t.PrimFunc, settings: Settings, module: t.IRModule | None = None) -> None:
        super().__init__()
        self.settings = settings
        self.reach = reaches(func)
        self.stored = stored_buffers(func, module)
        self.outputs = {p for p in func.buffers if p in self.stored}
        self.hear = {name: events.heard(settings.listeners, name) for name in _REPORTS}
        self._in_data = False
        self.around: tuple[tuple[str, int], ...] = ()  # the loops around what is compiled now, each with its slot
        self.threads: tuple[tuple[str, int], ...] = ()  # those that are threads, by their axis

    @contextmanager
    def inside(self, loop: t.For) -> Iterator[int]:
        """Compile the body of a loop inside a `with` block, which gives the slot of the loop variable."""
        outer, threads, slot = self.around, self.threads, self.define(loop.var)
        self.around = (*outer, (loop.var.name, slot))
        if loop.kind in (t.ForKind.THREAD, t.ForKind.PARALLEL):
            self.threads = (*threads, (loop.thread or loop.var.name, slot))
        yield slot
        self.around, self.threads = outer, threads

    def owner(self) -> Callable[[Environment], frozenset[tuple[str, int]]]:
        """Return a function that tells which thread is running the code that is being compiled."""
        threads = self.threads
        return lambda env: frozenset((axis, int(env[slot])) for axis, slot in threads)

    def site(self, verb: str, node: Any) -> Callable[[Environment], Access]:
        """Return a function that describes the access for messages: the node, and the values of the loops around it."""
        around = self.around
        return lambda env: Access(verb, node, tuple((name, int(env[slot])) for name, slot in around))

    def sighting(self, verb: str, node: Any) -> Callable[[Environment], Callable[[], Access]]:
        """Like `site`, but describe the access only on demand: of a million recorded accesses, a message shows two."""
        names, slots = [name for name, _ in self.around], [slot for _, slot in self.around]

        def access(*values: Value) -> Access:
            return Access(verb, node, tuple(zip(names, map(int, values), strict=True)))

        if len(slots) < 2:
            return lambda env: partial(access, *[env[slot] for slot in slots])
        values_of = itemgetter(*slots)
        return lambda env: partial(access, *values_of(env))

    def load(self, e: x.Expr) -> Evaluate:
        if not isinstance(e, t.BufferLoad):
            return super().load(e)
        if e.dtype.lanes > 1:
            return self._vector_load(e, None)
        if e.predicate is not None:
            raise Unsupported(f"a predicate on a scalar load: {e}")
        return self._element_load(e)

    def picked(self, e: x.Expr, lanes: np.ndarray) -> Evaluate:
        return self._vector_load(e, lanes) if isinstance(e, t.BufferLoad) and e.dtype.lanes > 1 else self.expr(e)

    def _element_load(self, e: t.BufferLoad) -> Evaluate:
        address = self._address(e.buffer, e.indices, e)
        slot, fetch = self.slot(e.buffer), self._fetch(e.buffer, e)
        return lambda env: fetch(env, env[slot], address(env))

    def _fetch(self, buffer: t.Buffer, node: Any) -> Callable[[Environment, View, int], Value]:
        """Return the function (environment, view, flat offset) -> value that reads one element."""
        single_float = buffer.dtype.is_float

        def plain(env: Environment, view: View, offset: int) -> Value:
            return view.data[offset] if single_float else view.data.item(offset)

        read = plain
        if self.settings.shadow:
            tracked, is_output, site = buffer in self.stored, buffer in self.outputs, self.site("read", node)
            settings, sighting = self.settings, self.sighting("read", node)

            def checked(env: Environment, view: View, offset: int) -> Value:
                memory = view.memory
                now = env[ITERATION]
                if offset in memory.arriving:
                    raise under_way(memory, _indices_of(view, offset), memory.arriving[offset], site(env))
                if memory.init is not None and not memory.init[offset]:
                    error = checks.uninitialised(memory, _indices_of(view, offset), site(env), is_output)
                    if now is None or not tracked:
                        raise error
                    # A concurrent iteration may write it later: that would be a conflict, which is a better message.
                    settings.suspected = settings.suspected or error
                if tracked and now is not None:
                    try:
                        checks.note_read(memory, offset, now, sighting(env))
                    except checks.Concurrent as both:
                        raise checks.conflict(memory, _indices_of(view, offset), both.accesses) from None
                return view.data[offset] if single_float else view.data.item(offset)

            read = checked
        touch, inner = self._touch(buffer, node), read
        if touch is None:
            return read

        def heard(env: Environment, view: View, offset: int) -> Value:
            touch(env, view, offset)
            return inner(env, view, offset)

        return heard

    def _touch(self, buffer: t.Buffer, node: Any) -> Callable[[Environment, View, int], None] | None:
        """Return the function that reports a load to listeners; None if there are none."""
        report, by_thread, size = self.hear["load"], self._by_thread("read", buffer, node), buffer.dtype.scalar.bytes
        if report is None:
            return by_thread

        def touch(env: Environment, view: View, offset: int) -> None:
            report(events.Access(view.memory.name, view.memory.scope, offset, size, node))
            if by_thread is not None:
                by_thread(env, view, offset)

        return touch

    def _by_thread(self, verb: str, buffer: t.Buffer, node: Any) -> Callable[[Environment, View, int], None] | None:
        """Return the function that reports to listeners which thread accesses shared storage; None if it is not
        needed.
        """
        report, size, threads = self.hear["thread_access"], buffer.dtype.scalar.bytes, self.threads
        if report is None or not buffer.scope.startswith("shared"):
            return None
        parallel = {slot for _, slot in threads}
        serial = [slot for _, slot in self.around if slot not in parallel]

        def tell(env: Environment, view: View, offset: int) -> None:
            moment = tuple(int(env[slot]) for slot in serial)
            own = tuple((axis, int(env[slot])) for axis, slot in threads)
            report(events.ThreadAccess(verb, node, moment, own, view.memory.name, offset, size))

        return tell

    def _put(self, buffer: t.Buffer, node: Any) -> Callable[[Environment, View, int, Value], None]:
        """Return the function (environment, view, flat offset, value) that writes one element."""

        def plain(env: Environment, view: View, offset: int, value: Value) -> None:
            view.data[offset] = value

        write = plain
        if self.settings.shadow:
            site, sighting = self.site("written", node), self.sighting("written", node)

            def checked(env: Environment, view: View, offset: int, value: Value) -> None:
                memory = view.memory
                if offset in memory.arriving or offset in memory.leaving:
                    copy = memory.arriving.get(offset) or memory.leaving[offset][0]
                    raise under_way(memory, _indices_of(view, offset), copy, site(env))
                if memory.init is not None:
                    memory.init[offset] = 1
                now = env[ITERATION]
                if now is not None:
                    try:
                        checks.note_write(memory, offset, now, sighting(env))
                    except checks.Concurrent as both:
                        raise checks.conflict(memory, _indices_of(view, offset), both.accesses) from None
                view.data[offset] = value

            write = checked
        report, by_thread = self.hear["store"], self._by_thread("written", buffer, node)
        if report is None and by_thread is None:
            return write
        inner, size = write, buffer.dtype.scalar.bytes

        def heard(env: Environment, view: View, offset: int, value: Value) -> None:
            if report is not None:
                report(events.Access(view.memory.name, view.memory.scope, offset, size, node))
            if by_thread is not None:
                by_thread(env, view, offset)
            inner(env, view, offset, value)

        return heard

    def _address(self, buffer: t.Buffer, indices: tuple[x.Expr, ...], node: Any) -> Callable[[Environment], int]:
        """Return a function that computes the flat offset of an element, with checks of its bounds."""
        slot = self.slot(buffer)
        places, site = self._indices(indices), self.site(_verb(node), node)

        def refuse(env: Environment) -> ExecutionError:
            point = tuple(int(p(env)) for p in places)
            return checks.out_of_bounds(buffer, indices, point, env[slot].shape, site(env))

        if len(places) == 1:
            (only,) = places

            def address_1(env: Environment) -> int:
                view, i = env[slot], only(env)
                if 0 <= i < view.shape[0]:
                    return view.offset + i * view.strides[0]
                raise refuse(env)

            return address_1
        if len(places) == 2:
            first, second = places

            def address_2(env: Environment) -> int:
                view, i, j = env[slot], first(env), second(env)
                (n, m), (s, r) = view.shape, view.strides
                if 0 <= i < n and 0 <= j < m:
                    return view.offset + i * s + j * r
                raise refuse(env)

            return address_2

        def address(env: Environment) -> int:
            view = env[slot]
            offset = view.offset
            for place, extent, stride in zip(places, view.shape, view.strides, strict=True):
                i = place(env)
                if not 0 <= i < extent:
                    raise refuse(env)
                offset += i * stride
            return offset

        return address

    def _indices(self, indices: Sequence[x.Expr]) -> list[Evaluate]:
        # A ledger does not count index arithmetic.
        outer, self._in_data = self._in_data, False
        places = [self.expr(i) for i in indices]
        self._in_data = outer
        return places

    def _vector_places(
        self, buffer: t.Buffer, indices: tuple[x.Expr, ...], node: Any
    ) -> Callable[[Environment], list[int]]:
        slot, places = self.slot(buffer), self._indices(indices)
        lanes, site = indices[-1].dtype.lanes, self.site(_verb(node), node)

        def offsets(env: Environment) -> list[int]:
            view: View = env[slot]
            columns = [np.broadcast_to(p(env), lanes).tolist() for p in places]
            places_of_lanes = []
            for index in zip(*columns, strict=True):
                inside = all(0 <= i < n for i, n in zip(index, view.shape, strict=True))
                places_of_lanes.append(
                    view.offset + sum(i * s for i, s in zip(index, view.strides, strict=True)) if inside else -1
                )
            return places_of_lanes

        def explain(env: Environment, lane: int) -> ExecutionError:
            index = tuple(int(np.broadcast_to(p(env), lanes)[lane]) for p in places)
            return checks.out_of_bounds(buffer, indices, index, env[slot].shape, site(env))

        self._explain = explain
        return offsets

    def _vector_load(self, e: t.BufferLoad, picked: np.ndarray | None) -> Evaluate:
        """Compile a vector load, lane by lane; lanes that are not picked are only checked."""
        if not e.indices or e.indices[-1].dtype.lanes == 1 or e.buffer.dtype.lanes > 1:
            raise Unsupported(f"a load from a buffer of vectors: {e}")
        offsets = self._vector_places(e.buffer, e.indices, e)
        explain, fetch, slot = self._explain, self._fetch(e.buffer, e), self.slot(e.buffer)
        mask = self._indices([e.predicate])[0] if e.predicate is not None else None
        numpy, lanes, touch = self.cells(e.dtype), e.dtype.lanes, self._touch(e.buffer, e)
        is_picked = [True] * lanes if picked is None else picked.tolist()

        def evaluate(env: Environment) -> Value:
            view: View = env[slot]
            active = _active(env, lanes, mask)
            places = offsets(env)
            result = np.zeros(lanes, numpy)  # a lane that is masked out is zero, as in the masked loads of hardware
            for lane in active:
                if places[lane] < 0:
                    raise explain(env, lane)
                if is_picked[lane]:
                    result[lane] = fetch(env, view, places[lane])
                elif touch is not None:
                    touch(env, view, places[lane])
            return result

        return evaluate

    def begun(self, s: t.Async) -> Execute:
        """Compile the begin of an asynchronous copy: each element of the store is in flight until its thread waits for
        it.
        """
        settings, owner, site, put = self.settings, self.owner(), self.site("written", s), self._put
        arrival = put(s.body.buffer, s.body)
        source = next((node for node in x.walk(s.body.value) if isinstance(node, t.BufferLoad)), None)
        taken: list[tuple[Memory, int, Access]] = []  # what the copy of one element read
        fetch, read_site = self._fetch, self.site("read", s)

        def taking(buffer: t.Buffer, node: Any) -> Callable[[Environment, View, int], Value]:
            read = fetch(buffer, node)

            def take(env: Environment, view: View, offset: int) -> Value:
                if node is source:
                    taken.append((view.memory, offset, read_site(env)))
                return read(env, view, offset)

            return take

        def beginning(buffer: t.Buffer, node: Any) -> Callable[[Environment, View, int, Value], None]:
            def begin(env: Environment, view: View, offset: int, value: Value) -> None:
                access = site(env)
                if settings.shadow:
                    self._may_write(env, view, offset, access)
                own = list(env)

                def arrive(now: Any) -> None:
                    own[ITERATION] = now
                    arrival(own, view, offset, value)

                # A vector is read before any of its lanes is written; the reads belong to the first lane.
                settings.flights.begin(owner(env), Flight(arrive, (view.memory, offset, access), tuple(taken)))
                taken.clear()
                if settings.arrives_early:
                    view.data[offset] = value

            return begin

        self._put, self._fetch = beginning, taking  # type: ignore[method-assign]
        try:
            return self.store(s.body)
        finally:
            del self._put, self._fetch

    def _may_write(self, env: Environment, view: View, offset: int, access: Access) -> None:
        """Refuse a copy whose destination is in use; it may write the destination at once, so this is a conflict."""
        memory, now = view.memory, env[ITERATION]
        if offset in memory.arriving or offset in memory.leaving:
            copy = memory.arriving.get(offset) or memory.leaving[offset][0]
            raise under_way(memory, _indices_of(view, offset), copy, access)
        if now is None:
            return
        try:
            checks.note_write(memory, offset, now, lambda: access)
        except checks.Concurrent as both:
            raise checks.conflict(memory, _indices_of(view, offset), both.accesses) from None

    def opaque(self, e: x.Call) -> Evaluate:
        flights, owner = self.settings.flights, self.owner()
        if e.op == "ptx_commit_group":
            return lambda env: flights.commit(owner(env))
        if e.op == "ptx_wait_group":
            pending = self.expr(e.args[0])
            return lambda env: flights.wait(owner(env), int(pending(env)), env[ITERATION])
        return super().opaque(e)

    def store(self, s: t.BufferStore) -> Execute:
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
        lanes, shadow, site = s.value.dtype.lanes, self.settings.shadow, self.site("written", s)

        def execute(env: Environment) -> None:
            vector = value(env)
            view: View = env[slot]
            active = _active(env, lanes, mask)
            places = offsets(env)
            touched = [places[lane] for lane in active]
            if shadow and len(set(touched)) < len(touched):
                twice = next(p for k, p in enumerate(touched) if p in touched[:k])
                raise checks.lanes_meet(view.memory.name, _indices_of(view, twice), site(env))
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


def _active(env: Environment, lanes: int, predicate: Evaluate | None) -> Sequence[int]:
    """Return the lanes that a vector access uses."""
    needed = env[LANES]
    if predicate is not None:
        held = np.broadcast_to(predicate(env), lanes)
        needed = held if needed is None else held & needed
    return range(lanes) if needed is None else np.flatnonzero(needed).tolist()


def _verb(node: Any) -> str:
    return "written" if isinstance(node, t.BufferStore) else "read"


def _indices_of(view: View, offset: int) -> tuple[int, ...]:
    """Return the indices of an element for messages, from its flat offset."""
    rest, by_size = offset - view.offset, []
    for n, stride in sorted(zip(view.shape, view.strides, strict=True), key=lambda p: -p[1]):
        index = rest // stride if stride and n > 1 else 0
        by_size.append((stride, index))
        rest -= index * stride
    by_stride: Iterator[int] = (i for _, i in by_size)
    order = sorted(range(len(view.shape)), key=lambda k: -view.strides[k])
    placed = dict(zip(order, by_stride, strict=True))
    return tuple(placed[k] for k in range(len(view.shape)))
