"""Solve equations for one variable at many points: `a * b == c` for b, given the other variables.

A search changes the other variables, and one variable of each equation follows them, so that the equation keeps holding
(substitute, then solve the next one). A solution is a hint: an integer quotient may have a remainder, and a float may
round.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minitvm import expr as x

from .batch import Batch, in_order, values_of

EQUATIONS = 3  # of one goal

Values = np.ndarray


@dataclass(frozen=True, eq=False)
class Equation:
    """left == right, to be solved for `variable`, which occurs in only one of the sides, and only once there."""

    left: x.Expr
    right: x.Expr
    variable: x.Var

    def solved(self, leaves: Mapping[x.Var, Values], count: int) -> Values:
        """Return the values of the variable at some points."""
        batch = values_of([self.left, self.right], leaves, count)
        inside, other = (self.left, self.right) if _holds(self.left, self.variable) else (self.right, self.left)
        with np.errstate(all="ignore"):
            target = np.broadcast_to(batch[other].astype(np.float64), (count,))
            wanted_value = np.broadcast_to(_solved(inside, target, self.variable, batch), (count,))
        return _as(wanted_value, self.variable.dtype, leaves[self.variable])


def equations(pairs: Sequence[tuple[x.Expr, x.Expr]], others: Sequence[x.Expr] = ()) -> list[Equation]:
    """Return equations in an order in which they can be solved, preferring variables that are a side by themselves.

    Of several variables, the equation is solved for the one that is used in the fewest other conditions. If possible,
    it does not depend on variables that are solved for later.
    """
    result: list[Equation] = []
    taken: set[x.Var] = set()
    uses = Counter(n for e in (*others, *(e for pair in pairs for e in pair)) for n in in_order([e]))
    for left, right in sorted(pairs, key=lambda pair: not any(isinstance(e, x.Var) for e in pair))[:EQUATIONS]:
        for variable in sorted(dict.fromkeys(_variables(left, right)), key=lambda v: uses[v]):
            if variable not in taken:
                taken.add(variable)
                result.append(Equation(left, right, variable))
                break
    solved = {one.variable for one in result}

    def needs(one: Equation) -> int:
        return len({v for v in in_order([one.left, one.right]) if isinstance(v, x.Var)} & (solved - {one.variable}))

    return sorted(result, key=needs)


def _variables(left: x.Expr, right: x.Expr) -> Iterator[x.Var]:
    """Yield the variables that an equation can be solved for; first a variable that is a whole side."""
    for e in (left, right):
        if isinstance(e, x.Var):
            other = right if e is left else left
            if not _holds(other, e):
                yield e
    for e, other in ((left, right), (right, left)):
        for v in reversed(in_order([e])):
            if isinstance(v, x.Var) and not _holds(other, v) and _places(e, v) == 1 and not v.dtype.is_bool:
                yield v


def _holds(e: x.Node, variable: x.Var) -> bool:
    return any(n is variable for n in in_order([e]))  # type: ignore[list-item]


def _places(e: x.Node, variable: x.Var) -> int:
    """Return the number of occurrences of a variable in an expression, 2 for two or more; a square counts once.

    Each shared node is visited once, because the tree of a formula may be exponentially large.
    """
    places: dict[x.Node, int] = {variable: 1}
    for node in in_order([e]):  # type: ignore[list-item]
        if node is not variable:
            below = (node.a,) if _is_square(node) else x.children(node)  # type: ignore[attr-defined]
            places[node] = min(2, sum(places.get(child, 0) for child in below))
    return places.get(e, 0)


def _is_square(e: x.Node) -> bool:
    return isinstance(e, x.Mul) and (e.a is e.b or x.structural_equal(e.a, e.b))


def _solved(e: Any, target: Values, variable: x.Var, batch: Batch) -> Values:
    """Return the value of the variable for which `e` is the target; its current value if this is not simple."""
    while e is not variable:
        if isinstance(e, x.Cast | x.Broadcast):
            e = e.value
            continue
        if isinstance(e, x.Call) and e.op in ("shift_right", "shift_left") and _holds(e.args[0], variable):
            scale = np.exp2(batch[e.args[1]].astype(np.float64))
            target, e = target * scale if e.op == "shift_right" else target / scale, e.args[0]
            continue
        if _is_square(e):
            target, e = np.sqrt(np.maximum(target, 0.0)), e.a
            continue
        if not isinstance(e, x.BinaryOp):
            return np.broadcast_to(batch[variable].astype(np.float64), target.shape)
        left = _holds(e.a, variable)
        inner, other = (e.a, e.b) if left else (e.b, e.a)
        beside = np.broadcast_to(batch[other].astype(np.float64), target.shape)
        if isinstance(e, x.Add):
            target = target - beside
        elif isinstance(e, x.Sub):
            target = target + beside if left else beside - target
        elif isinstance(e, x.Mul):
            target = np.where(beside == 0, 0.0, target / np.where(beside == 0, 1.0, beside))
        elif isinstance(e, x.Div | x.FloorDiv):
            target = target * beside if left else np.where(target == 0, 0.0, beside / np.where(target == 0, 1, target))
        elif isinstance(e, x.Mod | x.FloorMod) and left:
            period = np.where(beside == 0, 1.0, beside)
            now = np.broadcast_to(batch[inner].astype(np.float64), target.shape)
            target = np.floor(now / period) * period + target
        elif not isinstance(e, x.Min | x.Max):
            return np.broadcast_to(batch[variable].astype(np.float64), target.shape)
        e = inner
    return target


def _as(values: Values, dtype: x.DType, otherwise: Values) -> Values:
    """Convert numbers to a dtype, and keep the values `otherwise` where it does not hold them."""
    fits = np.isfinite(values) & (np.abs(values) <= float(dtype.max)) & (values >= float(dtype.min))
    if dtype.bits == 64 and dtype.is_int:
        fits &= np.abs(values) < 2.0**62
    near = np.where(fits, np.rint(values) if dtype.is_int else values, 0.0).astype(dtype.numpy)
    return np.where(fits, near, otherwise)
