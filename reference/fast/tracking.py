"""Check during a run that iterations which are run all at once are independent.

A level is a nest of loops that the fast mode runs together. Every point of its grid has a number. For each element of a
memory that the level writes, we keep the number of the last writer, and the smallest and largest number of its readers,
in this execution. If another point accesses a written element, or writes an element that another point has read, this
is a `Conflict`. It names the outermost loop in which the two points differ; that loop is then run in order.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minitvm.tir import nodes as t


class Conflict(Exception):
    """Two iterations of `loop` are not independent."""

    def __init__(self, loop: t.For) -> None:
        super().__init__(loop.var.name)
        self.loop = loop


class SeveralMasks(Exception):
    """A buffer is accessed under different conditions, so each execution of a level must verify it again."""

    def __init__(self, buffer: t.Buffer) -> None:
        super().__init__(buffer.name)
        self.buffer = buffer


class Track:
    """The last writer and the range of readers of each element, for one memory and one level; 0 means nobody yet.

    Zeros use no memory before they are first accessed, and most elements of a large storage never are.
    """

    __slots__ = ("high", "low", "owner")

    def __init__(self, size: int) -> None:
        self.owner = np.zeros(size, np.int64)
        self.low: np.ndarray | None = None
        self.high: np.ndarray | None = None

    def readers(self) -> tuple[np.ndarray, np.ndarray]:
        if self.low is None or self.high is None:
            self.low, self.high = np.zeros(self.owner.size, np.int64), np.zeros(self.owner.size, np.int64)
        return self.low, self.high


class Counter:
    """Gives numbers to points, from 1 on and never the same twice in a run, so old tracks need not be cleared."""

    __slots__ = ("next",)

    def __init__(self) -> None:
        self.next = 1

    def take(self, count: int) -> int:
        first = self.next
        self.next += count
        return first


class Execution:
    """One execution of a level; its points are numbered from `base`."""

    __slots__ = ("base", "extents", "ids", "loops", "verified", "whole")

    def __init__(self, base: int, loops: list[t.For], extents: list[int]) -> None:
        self.base, self.loops, self.extents = base, loops, extents
        self.ids: np.ndarray = np.zeros(1, np.int64)
        # (level, buffer) -> masks for which it was shown that only one point accesses each element; None: all points.
        self.verified: dict[tuple[Any, t.Buffer], list[Any]] = {}
        self.whole = True  # all points of the level run together, not in parts

    def advance(self, counter: Counter) -> None:
        """Renumber all points after a barrier, so that earlier accesses do not conflict with later ones."""
        base = counter.take(math.prod(self.extents))
        self.ids = self.ids + (base - self.base)
        self.base = base
        self.verified.clear()

    def knows(self, key: tuple[Any, t.Buffer], mask: Any) -> bool:
        """Return whether it is known that the points of this mask share no elements."""
        for one in self.verified.get(key, ()):
            if one is None or (mask is not None and one.shape == mask.shape and (one == mask).all()):
                return True
        return False

    def learn(self, key: tuple[Any, t.Buffer], mask: Any, inner: bool) -> None:
        """Remember a verified mask, from this level or (`inner`) from one execution of an inner level.

        An inner level forgets what it knows in each execution, so a second mask there raises `SeveralMasks`.
        """
        masks = self.verified.setdefault(key, [])
        if inner and masks:
            raise SeveralMasks(key[1])
        if len(masks) < 4:
            masks.append(mask)

    def loop_between(self, one: int, other: int) -> t.For:
        """Return the outermost loop in which two points differ."""
        a, b = one - self.base, other - self.base
        step = math.prod(self.extents)
        for loop, extent in zip(self.loops, self.extents, strict=False):
            step //= extent
            if a // step != b // step:
                return loop
            a, b = a % step, b % step
        return self.loops[-1]

    def _points(self, offsets: Any, mask: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the element and the point of each access, in the order of the points."""
        places = np.asarray(offsets)
        if mask is None:
            where, who = np.broadcast_arrays(places, self.ids)
            return where.reshape(-1), who.reshape(-1)
        where, who, needed = np.broadcast_arrays(places, self.ids, mask)
        return where[needed], who[needed]

    def _refuse(self, wrong: np.ndarray, others: np.ndarray, who: np.ndarray) -> None:
        if wrong.any():
            first = int(np.argmax(wrong))
            raise Conflict(self.loop_between(int(others[first]), int(who[first])))

    def own(self, track: Track, offsets: Any, mask: Any) -> None:
        """Refuse an element that two points access."""
        where, who = self._points(offsets, mask)
        prior = track.owner.take(where)
        self._refuse((prior >= self.base) & (prior != who), prior, who)
        track.owner[where] = who
        last = track.owner.take(where)
        self._refuse(last != who, last, who)

    def read(self, track: Track, offsets: Any, mask: Any) -> None:
        """Refuse a read of an element that another point wrote."""
        where, who = self._points(offsets, mask)
        prior = track.owner.take(where)
        self._refuse((prior >= self.base) & (prior != who), prior, who)
        low, high = track.readers()
        highest = high.take(where)
        fresh = highest < self.base
        least = np.where(fresh, who, np.minimum(low.take(where), who))
        # Points are in ascending order, so the last of several assignments for an element is the largest reader.
        high[where] = np.where(fresh, who, np.maximum(highest, who))
        low[where[::-1]] = least[::-1]

    def write(self, track: Track, offsets: Any, mask: Any) -> None:
        """Refuse a write to an element that another point wrote or read."""
        where, who = self._points(offsets, mask)
        if track.high is not None and track.low is not None:
            for bound in (track.high, track.low):
                reader = bound.take(where)
                self._refuse((reader >= self.base) & (reader != who), reader, who)
        self.own(track, offsets, mask)
