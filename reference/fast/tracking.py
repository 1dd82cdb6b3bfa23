"""The proof, at run time, that iterations which were run all at once were independent.

A level is a nest of loops that the fast mode runs together. Every point of its grid has a number, and for each element
of a memory that the level writes we keep the number of the last writer and the least and largest number of its readers
in this execution. Another point's access to a written element, or a write to an element that another point read, is a
`Conflict`: it names the outermost loop in which the two points differ, and that loop is then run in order instead.
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
    """A buffer is accessed under different conditions: each execution of a level has to verify it anew."""

    def __init__(self, buffer: t.Buffer) -> None:
        super().__init__(buffer.name)
        self.buffer = buffer


class Track:
    """For one memory and one level: the last writer and the range of readers of each element; 0 for nobody yet.

    Zeros take no memory before they are touched, and most elements of a large storage never are.
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
    """Hands out numbers from 1 on for points; never the same twice in a run, so that old tracks need no clearing."""

    __slots__ = ("next",)

    def __init__(self) -> None:
        self.next = 1

    def take(self, count: int) -> int:
        first = self.next
        self.next += count
        return first


class Execution:
    """One execution of a level: the points that run now, numbered from `base`."""

    __slots__ = ("base", "extents", "ids", "loops", "verified", "whole")

    def __init__(self, base: int, loops: list[t.For], extents: list[int]) -> None:
        self.base, self.loops, self.extents = base, loops, extents
        self.ids: np.ndarray = np.zeros(1, np.int64)
        # For (level, buffer): the masks at whose points each element was shown to be touched by one point; None: all.
        self.verified: dict[tuple[Any, t.Buffer], list[Any]] = {}
        self.whole = True  # all points of the level run together, not in parts

    def advance(self, counter: Counter) -> None:
        """All points met at a barrier: what they did before it conflicts with nothing after it."""
        base = counter.take(math.prod(self.extents))
        self.ids = self.ids + (base - self.base)
        self.base = base
        self.verified.clear()

    def knows(self, key: tuple[Any, t.Buffer], mask: Any) -> bool:
        """Whether elements are known not to be shared by points of this mask."""
        for one in self.verified.get(key, ()):
            if one is None or (mask is not None and one.shape == mask.shape and (one == mask).all()):
                return True
        return False

    def learn(self, key: tuple[Any, t.Buffer], mask: Any, inner: bool) -> None:
        """Remember what was verified, here or (`inner`) in one execution of a level inside.

        Another execution inside starts without marks, so there a second mask would not be held against the first.
        """
        masks = self.verified.setdefault(key, [])
        if inner and masks:
            raise SeveralMasks(key[1])
        if len(masks) < 4:
            masks.append(mask)

    def loop_between(self, one: int, other: int) -> t.For:
        """The outermost loop in which two points differ."""
        a, b = one - self.base, other - self.base
        step = math.prod(self.extents)
        for loop, extent in zip(self.loops, self.extents, strict=False):
            step //= extent
            if a // step != b // step:
                return loop
            a, b = a % step, b % step
        return self.loops[-1]

    def _points(self, offsets: Any, mask: Any) -> tuple[np.ndarray, np.ndarray]:
        """Element and point of each access, in the order of the points."""
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
        """No element may be touched by two points."""
        where, who = self._points(offsets, mask)
        prior = track.owner.take(where)
        self._refuse((prior >= self.base) & (prior != who), prior, who)
        track.owner[where] = who
        last = track.owner.take(where)
        self._refuse(last != who, last, who)

    def read(self, track: Track, offsets: Any, mask: Any) -> None:
        """No element may be read that another point wrote."""
        where, who = self._points(offsets, mask)
        prior = track.owner.take(where)
        self._refuse((prior >= self.base) & (prior != who), prior, who)
        low, high = track.readers()
        highest = high.take(where)
        fresh = highest < self.base
        least = np.where(fresh, who, np.minimum(low.take(where), who))
        # Points come in ascending order: of several readers of one element the last assignment is the largest.
        high[where] = np.where(fresh, who, np.maximum(highest, who))
        low[where[::-1]] = least[::-1]

    def write(self, track: Track, offsets: Any, mask: Any) -> None:
        """No element may be written that another point wrote or read."""
        where, who = self._points(offsets, mask)
        if track.high is not None and track.low is not None:
            for bound in (track.high, track.low):
                reader = bound.take(where)
                self._refuse((reader >= self.base) & (reader != who), reader, who)
        self.own(track, offsets, mask)
