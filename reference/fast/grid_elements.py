"""Loads and stores of the fast mode: they access all points of a grid at once, and each access is checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minitvm import expr as x
from minitvm.errors import Unsupported
from minitvm.tir import nodes as t

from ..meaning import shadow as checks
from ..meaning.findings import Access
from ..meaning.scalar import Environment, Evaluate, Execute, Value
from ..meaning.settings import Settings
from ..meaning.storage import Memory
from .dependence import Dependence
from .grid import MASK, GridCompiler, inside, narrowed
from .grid_storage import GridMemory, GridView
from .level import Level
from .tracking import Conflict


class NeedsOrder(Exception):
    """The fast mode cannot decide something that the slow mode can: the run must be repeated in the slow mode."""


class GridElements(GridCompiler):
    """Compiles loads and stores. `axes` and `level` are the loops around the code that is being compiled."""

    def __init__(self, settings: Settings, facts: Dependence, outputs: set[t.Buffer]) -> None:
        super().__init__()
        self.settings, self.facts, self.outputs = settings, facts, outputs
        self.axes: list[t.For] = []
        self.level: Level | None = None

    def under(self, env: Environment, condition: Value, execute: Execute) -> None:
        """Run something at the points where a condition holds."""
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

    def _places(self, buffer: t.Buffer, indices: tuple[x.Expr, ...], node: Any) -> Evaluate:
        """Compile the flat offsets of an access, with checks of its bounds."""
        slot, places = self.slot(buffer), [self.expr(i) for i in indices]

        def offsets(env: Environment) -> Value:
            view: GridView = env[slot]
            total, mask = view.offset, env[MASK]
            for place, extent, stride in zip(places, view.shape, view.strides, strict=True):
                index, wrong = inside(place(env), extent, mask)
                if wrong is not None:
                    point = _at_first(wrong, [p(env) for p in places])
                    raise checks.out_of_bounds(buffer, indices, point, view.shape, Access("accessed", node))
                total = total + (index.astype(np.intp) * stride if type(index) is np.ndarray else index * stride)
            return total if view.base is None else total + view.base

        return offsets

    def _watch(self, buffer: t.Buffer) -> list[tuple[Level, list[int] | None, int]]:
        """Return the levels, outermost first, that must check accesses to a buffer, each with its slot.

        The middle value is None if the accesses must be tracked. If all accesses touch the same element at the same
        point, it is the list of the slots from the outermost level where this holds to this level.
        """
        root, levels = self.facts.root(buffer), []
        level = self.level
        while level is not None and root not in level.own:
            if root in level.plans:
                levels.append(level)
            level = level.outer
        watched: list[tuple[Level, list[int] | None, int]] = []
        around: list[int] = []
        for level in reversed(levels):
            once = level.plans[root] == "once"
            alone = root in self.facts.several_masks
            around = [*([] if alone else around), self.slot(level)] if once else []
            watched.append((level, around if once else None, self.slot(level)))
        return watched

    def load(self, e: x.Expr) -> Evaluate:
        return self._load(e, None) if isinstance(e, t.BufferLoad) else super().load(e)

    def picked(self, e: x.Expr, lanes: np.ndarray) -> Evaluate:
        every = e.dtype.lanes == 1 or bool(lanes.all())
        return self._load(e, None if every else lanes) if isinstance(e, t.BufferLoad) else self.expr(e)

    def _load(self, e: t.BufferLoad, picked: np.ndarray | None) -> Evaluate:
        if e.dtype.lanes > 1 and (not e.indices or e.indices[-1].dtype.lanes == 1 or e.buffer.dtype.lanes > 1):
            raise Unsupported(f"a load from a buffer of vectors: {e}")
        read = self._plain_load(e, picked)
        if e.predicate is None:
            return read
        predicate, zero = self.expr(e.predicate), np.zeros((), self.cells(e.dtype))[()]

        def masked(env: Environment) -> Value:
            needed, outer = np.atleast_1d(np.asarray(predicate(env))), env[MASK]
            both = narrowed(outer, needed)
            if both is False:
                return zero
            env[MASK] = both
            value = read(env)
            env[MASK] = outer
            return np.where(needed, value, zero)

        return masked

    def _plain_load(self, e: t.BufferLoad, picked: np.ndarray | None) -> Evaluate:
        offsets, slot, watched = self._places(e.buffer, e.indices, e), self.slot(e.buffer), self._watch(e.buffer)
        root, is_float, is_output = self.facts.root(e.buffer), e.dtype.is_float, e.buffer in self.outputs
        innermost = self.axes[-1] if self.axes else None

        def evaluate(env: Environment) -> Value:
            view: GridView = env[slot]
            places, memory, outer = offsets(env), view.memory, env[MASK]
            if picked is not None:  # the bounds of all lanes, what was written of these
                env[MASK] = picked if outer is None else picked & outer
            if not memory.complete and memory.init is not None:
                self._initialised(env, view, places, e, is_output, innermost if watched else None)
            for level, once, where in watched:
                if once is None:
                    env[where].read(memory.track(level), places, env[MASK])
                else:
                    _own(env, level, once, root, memory, places)
            env[MASK] = outer
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
        raise checks.uninitialised(_named(memory), (offset,), Access("read", e), is_output)

    def store(self, s: t.BufferStore) -> Execute:
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


def _own(env: Environment, level: Level, around: list[int], root: t.Buffer, memory: GridMemory, places: Value) -> None:
    """Verify that each point of a level accesses its own elements; once is enough, as all accesses use the same
    elements.

    `around` are the slots of the levels for which the same holds, outermost first, ending with this one. A result for a
    whole inner level stays valid while the points of the outermost level stay the same.
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


def _at_first(wrong: np.ndarray, indices: Sequence[Value]) -> tuple[int, ...]:
    """Return the indices at the first point of a mask."""
    shape = np.broadcast_shapes(wrong.shape, *(np.shape(i) for i in indices))
    where = np.unravel_index(int(np.argmax(np.broadcast_to(wrong, shape))), shape)
    return tuple(int(np.broadcast_to(np.asarray(i), shape)[where]) for i in indices)


def _distinct_lanes(s: t.BufferStore, places: Value, lanes: int, mask: Any) -> None:
    spread = np.sort(np.broadcast_to(np.asarray(places), (*np.shape(places)[:-1], lanes)), axis=-1)
    if (spread[..., 1:] == spread[..., :-1]).any() and mask is None:
        raise checks.lanes_meet(s.buffer.name, (), Access("written", s))
    if mask is not None:
        raise NeedsOrder("masked lanes of a scatter")
