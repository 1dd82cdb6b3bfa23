"""Sets of elements of a flat buffer, stored as sorted, disjoint intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

_MOST = 1 << 23  # the most intervals for which memory is used

Array = np.ndarray[Any, Any]


class TooMany(Exception):
    """Raised if a set has too many gaps to be listed."""


@dataclass(frozen=True, slots=True, eq=False)
class Intervals:
    """The elements i with `starts[k] <= i < ends[k]` for some k. The intervals are sorted, with gaps in between."""

    starts: Array
    ends: Array

    @property
    def count(self) -> int:
        """The number of elements."""
        return int((self.ends - self.starts).sum())

    @staticmethod
    def at(offsets: Any) -> Intervals:
        """Return the set of the elements at these offsets."""
        starts = np.unique(np.asarray(offsets, np.int64).reshape(-1))
        return merged(starts, starts + 1)

    def repeated(self, step: int, times: int) -> Intervals:
        """Return the union of the set shifted by 0, step, 2 * step, ... (`times` copies); raise `TooMany` if it has too
        many intervals.
        """
        if times <= 1 or step == 0:
            return self
        if len(self.starts) * times > _MOST:
            raise TooMany
        shifts = step * np.arange(times, dtype=np.int64)
        starts = (self.starts + shifts[:, None]).reshape(-1)
        return merged(starts, (self.ends + shifts[:, None]).reshape(-1))


def union(parts: Sequence[Intervals]) -> Intervals:
    """Return the union of several sets."""
    if len(parts) == 1:
        return parts[0]
    return merged(np.concatenate([p.starts for p in parts]), np.concatenate([p.ends for p in parts]))


def merged(starts: Array, ends: Array) -> Intervals:
    """Return the set of elements in some intervals, which may overlap and may be in any order."""
    if not len(starts):
        return Intervals(starts, ends)
    order = np.argsort(starts, kind="stable")
    starts, reach = starts[order], np.maximum.accumulate(ends[order])
    first = np.concatenate([[True], starts[1:] > reach[:-1]])
    last = np.concatenate([first[1:], [True]])
    return Intervals(starts[first], reach[last])
