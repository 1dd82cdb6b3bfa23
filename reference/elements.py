"""Loads and stores of the slow mode: one element at a time, or one lane after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from minitvm import events
from minitvm import expr as x
from minitvm.errors import ExecutionError, Unsupported
from minitvm.tir import nodes as t

from . import shadow as checks
from .scalar import ITERATION, LANES, Environment, Evaluate, ScalarCompiler, Value
from .settings import Settings, stored_buffers
from .storage import View

Execute = Callable[[Environment], None]
_REPORTS = (
    "load", "store", "operation", "loop_enter", "loop_iteration", "loop_exit", "block", "barrier", "allocate", "free"
)  # fmt: skip


class ElementCompiler(ScalarCompiler):
    """Expressions with loads, and stores."""

    def __init__(self, func: t.PrimFunc, settings: Settings, module: t.IRModule | None = None) -> None:
        super().__init__()
        self.settings = settings
        self.stored = stored_buffers(func, module)
        self.outputs = {p for p in func.buffers if p in self.stored}
        self.hear = {name: events.heard(settings.listeners, name) for name in _REPORTS}
        self._in_data = False

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
            for place, extent, stride in zip(places, view.shape, view.strides):
                i = place(env)
                if not 0 <= i < extent:
                    raise refuse(env)
                offset += i * stride
            return offset

        return address

    def _indices(self, indices: Sequence[x.Expr]) -> list[Evaluate]:
        # Index arithmetic is not what a ledger of operations counts.
        outer, self._in_data = self._in_data, False
        places = [self.expr(i) for i in indices]
        self._in_data = outer
        return places

    def _vector_places(
        self, buffer: t.Buffer, indices: tuple[x.Expr, ...], node: Any
    ) -> Callable[[Environment], list[int]]:
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
        numpy, lanes = self.cells(e.dtype), e.dtype.lanes

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


def _active(env: Environment, lanes: int, predicate: Evaluate | None) -> Sequence[int]:
    """The lanes that a vector access touches."""
    needed = env[LANES]
    if predicate is not None:
        held = np.broadcast_to(predicate(env), lanes)
        needed = held if needed is None else held & needed
    return range(lanes) if needed is None else np.flatnonzero(needed).tolist()


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
