"""Find the loop nest in which a kernel does most of its work, from the outermost loop to its micro-kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...expr import Expr, Var, children
from ..nodes import For, LetStmt, PrimFunc, Stmt
from ..values import NotAnIndex, values
from .count import Work, count_statement
from .walk import known_before_running


@dataclass(frozen=True, slots=True)
class HottestNest:
    """A loop nest: `loops` from the outside in, each with the values of the variables around it at the middle
    iterations of the outer loops.
    """

    loops: tuple[tuple[For, Mapping[Var, int]], ...]

    @property
    def inner(self) -> tuple[Stmt, Mapping[Var, int]]:
        """The body of the innermost loop, and the variable values at its middle iteration."""
        loop, outer = self.loops[-1]
        return loop.body, {**outer, **_middle(loop, outer)}


def hottest(func: PrimFunc, sizes: Mapping[Var, int] | None = None) -> HottestNest:
    """Return the nest that you reach by entering, at each level, the loop with the most work.

    Raises `NotAnIndex` if an extent is known only at run time.
    """
    loops: list[tuple[For, Mapping[Var, int]]] = []
    stmt, outer = func.body, dict(sizes or {})
    while True:
        nested = _loops(stmt, outer)
        if not nested:
            return HottestNest(tuple(loops))
        loop, around = nested[0] if len(nested) == 1 else max(nested, key=lambda pair: _amount(count_statement(*pair)))
        loops.append((loop, around))
        stmt, outer = loop.body, {**around, **_middle(loop, around)}


def _loops(stmt: Stmt, outer: dict[Var, int]) -> list[tuple[For, dict[Var, int]]]:
    """Return the outermost loops in a statement, each with the values of the variables around it, including lets."""
    if isinstance(stmt, For):
        return [(stmt, outer)]
    if isinstance(stmt, LetStmt) and known_before_running(stmt.value):
        outer = {**outer, stmt.var: _number(stmt.value, outer)}
    return [pair for child in children(stmt) if isinstance(child, Stmt) for pair in _loops(child, outer)]


def _middle(loop: For, outer: Mapping[Var, int]) -> dict[Var, int]:
    # The first and last iterations may be edge cases, so take one in the middle.
    return {loop.var: _number(loop.start, outer) + _number(loop.extent, outer) // 2}


def _number(x: Expr, outer: Mapping[Var, int]) -> int:
    distinct = np.unique(values(x, outer))
    if len(distinct) != 1:
        raise NotAnIndex(str(x))
    return int(distinct[0])


def _amount(work: Work) -> int:
    return 4 * work.slots + sum(work.loads.values()) + sum(work.stores.values())
