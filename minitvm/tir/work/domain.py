"""The iterations of a statement, as a list of points combined with free loops.

The numbers of iterations of loops that no condition depends on are only multiplied. The other loops are listed, with
one point per iteration, and conditions remove points. The count is therefore exact, and its cost depends on the
conditions, not on the amount of work.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...expr import Expr, Node, Var, find, substitute
from ..values import NotAnIndex, values

_MOST = 1 << 22  # the most points that are listed

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True, eq=False)
class PointDomain:
    """`size` listed points with the values of their variables, and `free` loops that map a variable to (first value,
    iterations).

    `lets` maps variables to the expressions that they stand for. `exact` is False after a condition or bound that is
    known only at run time.
    """

    size: int = 1
    points: dict[Var, Any] = field(default_factory=dict)
    free: dict[Var, tuple[int, int]] = field(default_factory=dict)
    lets: dict[Var, Expr] = field(default_factory=dict)
    exact: bool = True

    @property
    def iterations(self) -> int:
        """The number of times that a statement in this domain runs."""
        total = self.size
        for _, extent in self.free.values():
            total *= extent
        return total

    def resolved(self, x: Expr) -> Expr:
        """Return `x` in terms of loop variables and sizes."""
        return substitute(x, self.lets) if self.lets else x

    def listing(self, loops: Collection[Var]) -> PointDomain:
        """Return this domain with the iterations of the loops enumerated; raise `NotAnIndex` if there are too many."""
        listed = [v for v in self.free if v in loops]
        if not listed:
            return self
        size, points, free = self.size, dict(self.points), dict(self.free)
        for var in listed:
            start, extent = free.pop(var)
            if size * extent > _MOST:
                raise NotAnIndex(f"{size * extent} iterations")
            points = {v: np.repeat(p, extent) if isinstance(p, np.ndarray) else p for v, p in points.items()}
            points[var] = np.tile(np.arange(start, start + extent, dtype=np.int64), size)
            size *= extent
        return PointDomain(size, points, free, self.lets, self.exact)

    def where(self, condition: Expr, holds: bool = True) -> PointDomain:
        """Return the iterations in which a condition holds (or does not hold, if `holds` is False)."""
        resolved = self.resolved(condition)
        try:
            domain = self.listing(variables(resolved))
            kept = np.broadcast_to(np.asarray(values(resolved, domain.points), bool), domain.size) == holds
        except NotAnIndex:
            return PointDomain(self.size, self.points, self.free, self.lets, False)
        if kept.all():
            return self
        points = {v: p[kept] if isinstance(p, np.ndarray) else p for v, p in domain.points.items()}
        return PointDomain(int(kept.sum()), points, domain.free, self.lets, self.exact)

    def loop(self, var: Var, start: Expr, extent: Expr) -> PointDomain:
        """Return the domain inside a loop."""
        first, count = self.resolved(start), self.resolved(extent)
        try:
            domain = self.listing({*variables(first), *variables(count)})
            begins = values(first, domain.points)
            counts = values(count, domain.points)
        except NotAnIndex:
            return PointDomain(self.size, self.points, {**self.free, var: (0, 1)}, self.lets, False)
        if not isinstance(begins, np.ndarray) and not isinstance(counts, np.ndarray):
            return PointDomain(
                domain.size,
                domain.points,
                {**domain.free, var: (int(begins), max(int(counts), 0))},
                self.lets,
                self.exact,
            )
        times = np.maximum(np.broadcast_to(counts, domain.size), 0)
        size = int(times.sum())
        if size > _MOST:
            return PointDomain(self.size, self.points, {**self.free, var: (0, 1)}, self.lets, False)
        within = np.arange(size, dtype=np.int64) - np.repeat(np.cumsum(times) - times, times)
        points = {v: np.repeat(p, times) if isinstance(p, np.ndarray) else p for v, p in domain.points.items()}
        points[var] = np.repeat(np.broadcast_to(begins, domain.size), times) + within
        return PointDomain(size, points, domain.free, self.lets, self.exact)

    def let(self, var: Var, value: Expr) -> PointDomain:
        """Return the domain in which `var` stands for `value`."""
        return PointDomain(self.size, self.points, self.free, {**self.lets, var: self.resolved(value)}, self.exact)


def variables(x: Node) -> set[Var]:
    """Return the variables in an expression."""
    return set(find(x, Var))
