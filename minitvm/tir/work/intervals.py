"""Sets of elements of a flat buffer as sorted, disjoint intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

_MOST = 1 << 23  # intervals that are worth the memory

Array = np.ndarray[Any, Any]


class TooMany(Exception):
    """The set has too many holes to be listed."""


@dataclass(frozen=True, slots=True, eq=False)
class Intervals:
    """The elements `starts[k] <= i < ends[k]`; the intervals are sorted and do not touch."""

    starts: Array
    ends: Array

    @property
    def count(self) -> int:
        """How many elements there are."""
        return int((self.ends - self.starts).sum())

    @staticmethod
    def at(offsets: Any) -> Intervals:
        """Single elements."""
        starts = np.unique(np.asarray(offsets, np.int64).reshape(-1))
        return merged(starts, starts + 1)

    def repeated(self, step: int, times: int) -> Intervals:
        """The union of the set moved by 0, step, 2 * step, ... (`times` of them). Raises `TooMany`."""
        if times <= 1 or step == 0:
            return self
        if len(self.starts) * times > _MOST:
            raise TooMany
        shifts = step * np.arange(times, dtype=np.int64)
        starts = (self.starts + shifts[:, None]).reshape(-1)
        return merged(starts, (self.ends + shifts[:, None]).reshape(-1))


def union(parts: Sequence[Intervals]) -> Intervals:
    """All elements of all parts."""
    if len(parts) == 1:
        return parts[0]
    return merged(np.concatenate([p.starts for p in parts]), np.concatenate([p.ends for p in parts]))


def merged(starts: Array, ends: Array) -> Intervals:
    """Intervals in any order, overlapping ones included, as a set."""
    if not len(starts):
        return Intervals(starts, ends)
    order = np.argsort(starts, kind="stable")
    starts, reach = starts[order], np.maximum.accumulate(ends[order])
    first = np.concatenate([[True], starts[1:] > reach[:-1]])
    last = np.concatenate([first[1:], [True]])
    return Intervals(starts[first], reach[last])
