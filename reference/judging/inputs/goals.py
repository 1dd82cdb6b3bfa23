"""Goals that inputs should reach in two formulas, and the distance of inputs from a goal (branch distance).

A goal is one side of a comparison, its equality, a number half way between two integers, a zero divisor, or an argument
at which a function overflows or is undefined. It includes every condition that must hold for this place to matter. The
distance of `a == b` is |a - b|, and that of `a < b` is the amount by which it fails (Korel, "Automated software test
data generation", 1990). The distance of a conjunction is the sum, and that of a disjunction the minimum (McMinn,
"Search-based software test data generation: a survey", 2004). Each distance d counts as log(1 + d), so that small
distances matter next to a large one. A goal is reached at distance 0.

For a pole of one program, the other program must not be at a pole, too: two infinities show nothing.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minitvm import expr as x

from .batch import Batch
from .sites import AT_ZERO, GROWING, ROUNDINGS, exponents

GUARDS = 12  # of one goal
JUST = 1e-3  # what lacks where two floats are equal and one should be greater
FAR = 1e30  # the distance of NaN

Guard = tuple[x.Expr, bool]
Distance = Callable[[Batch], np.ndarray]


@dataclass(frozen=True, eq=False)
class Goal:
    """A distance, the conditions around it, and the expressions that it looks at; `pole` is the program of a pole, if
    any.

    With `alike`, the two expressions that it looks at must be equal.
    """

    distance: Distance
    guards: tuple[Guard, ...]
    about: tuple[x.Expr, ...]
    pole: int | None = None
    alike: bool = False

    def equalities(self) -> list[tuple[x.Expr, x.Expr]]:
        """Return the pairs of expressions that must be equal."""
        pairs = [(self.about[0], self.about[1])] if self.alike else []
        rest = list(self.guards)
        while rest:
            e, holds = rest.pop(0)
            if isinstance(e, x.Not):
                rest.append((e.a, not holds))
            elif isinstance(e, x.And if holds else x.Or):
                rest += [(e.a, holds), (e.b, holds)]
            elif isinstance(e, x.EQ if holds else x.NE) and not e.a.dtype.is_bool:
                pairs.append((e.a, e.b))
        return pairs


def goals_of(roots: Sequence[x.Expr], program: int) -> Iterator[Goal]:
    """Yield the goals in the formulas of a program, those with few conditions first."""
    seen: set[int] = set()
    rest: deque[tuple[Any, tuple[Guard, ...]]] = deque((root, ()) for root in roots)
    while rest:
        e, guards = rest.popleft()
        if id(e) in seen:
            continue
        seen.add(id(e))
        for k, (distance, about, pole) in enumerate(_goals_at(e)):
            alike = not k and isinstance(e, x.CompareOp)
            yield Goal(distance, guards, about, program if pole else None, alike)
        rest.extend((child, (*guards, *more)[:GUARDS]) for child, more in _below(e))


def _below(e: Any) -> Iterator[tuple[x.Expr, tuple[Guard, ...]]]:
    """Yield the operands, each with the conditions under which it matters."""
    if isinstance(e, x.And | x.Or):
        holds = isinstance(e, x.And)
        yield e.a, ((e.b, holds),)
        yield e.b, ((e.a, holds),)
    elif isinstance(e, x.Select) or (isinstance(e, x.Call) and e.op == "if_then_else"):
        condition, yes, no = x.children(e)
        yield condition, ()  # type: ignore[misc]
        yield yes, ((condition, True),)  # type: ignore[misc]
        yield no, ((condition, False),)  # type: ignore[misc]
    else:
        for child in x.children(e):
            yield child, ()  # type: ignore[misc]


def _goals_at(e: Any) -> Iterator[tuple[Distance, tuple[x.Expr, ...], bool]]:
    if isinstance(e, x.CompareOp | x.Min | x.Max) and not (_is_constant(e.a) and _is_constant(e.b)):
        a, b, both = e.a, e.b, (e.a, e.b)
        yield lambda v: _apart(v[a], v[b]), both, False
        yield lambda v: _lacking(v[a], v[b]), both, False
        yield lambda v: _lacking(v[b], v[a]), both, False
    elif isinstance(e, x.Cast) and e.value.dtype.is_float and e.dtype.is_int and not e.dtype.is_bool:
        yield from _ties(e.value)
    elif isinstance(e, x.Call) and e.op in ROUNDINGS:
        yield from _ties(e.args[0])
    elif isinstance(e, x.Div) and e.dtype.is_float and not _is_constant(e.b):
        yield lambda v: _apart(v[e.b], np.zeros(1)), (e.b,), True
    elif isinstance(e, x.Call) and e.dtype.is_float and e.op in GROWING:
        most, least = exponents(e.op, e.dtype)
        yield lambda v: _lacking(np.float64(most), v[e.args[0]]), e.args, True
        yield lambda v: _lacking(v[e.args[0]], np.float64(-least)), e.args, True
    elif isinstance(e, x.Call) and e.dtype.is_float and e.op in AT_ZERO:
        yield lambda v: _apart(v[e.args[0]], np.zeros(1)), e.args, True
        yield lambda v: _lacking(v[e.args[0]], np.zeros(1)), e.args, True
        yield lambda v: _short_of_overflow(v[e.args[0]], e.dtype), e.args, True


def _ties(e: x.Expr) -> Iterator[tuple[Distance, tuple[x.Expr, ...], bool]]:
    zero = np.zeros(1)
    for sign in (1, -1):
        yield (lambda v, sign=sign: _half(v[e]) + _lacking(zero, sign * v[e])), (e,), False  # type: ignore[misc]


def distances(goals: Sequence[Goal], poles: Sequence[Sequence[Goal]], batch: Batch, roots: Sequence[x.Expr]) -> Any:
    """Return the distance of each goal at every point. `poles` are the poles of each program, `roots` the first one's
    results.
    """
    result = np.empty((len(goals), batch.count))
    guard_distances: dict[tuple[int, bool], np.ndarray] = {}
    at = [sum((1.0 * (goal.distance(batch) == 0) for goal in its), np.zeros(1)) for its in poles]
    usual = sum((1.0 * ~np.isfinite(batch[r]) for r in roots if r.dtype.is_float), np.zeros(1))
    for k, goal in enumerate(goals):
        total = np.log1p(goal.distance(batch))
        for guard, holds in goal.guards:
            if (id(guard), holds) not in guard_distances:
                guard_distances[id(guard), holds] = np.log1p(truth(guard, holds, batch))
            total = total + guard_distances[id(guard), holds]
        if goal.pole is not None:
            total = total + usual + (at[0] if goal.pole else 0.0)
        result[k] = total
    return np.where(np.isnan(result), FAR, result)


def all_but_one(goal: Goal, batch: Batch) -> list[int]:
    """Return points at which all conditions of a goal but one hold: for each condition, the nearest such point."""
    parts = [goal.distance(batch), *(truth(guard, holds, batch) for guard, holds in goal.guards)]
    whole = [np.broadcast_to(part, (batch.count,)) for part in parts]
    missing = sum((1 * (part > 0) for part in whole), np.zeros(batch.count, np.int64))
    points: list[int] = []
    for part in whole:
        only = np.flatnonzero((missing == 1) & (part > 0))
        if only.size:
            points.append(int(only[part[only].argmin()]))
    return points


def truth(e: Any, holds: bool, v: Batch) -> np.ndarray:
    """Return how far a condition is from being true (`holds`) or false."""
    if isinstance(e, x.Not):
        return truth(e.a, not holds, v)
    if isinstance(e, x.And | x.Or):
        both = truth(e.a, holds, v), truth(e.b, holds, v)
        if isinstance(e, x.And) == holds:
            return both[0] + both[1]
        return np.minimum(*both)
    if isinstance(e, x.CompareOp) and not e.a.dtype.is_bool:
        a, b = v[e.a], v[e.b]
        kind = type(e) if holds else _OPPOSITE[type(e)]
        if kind is x.EQ:
            return _apart(a, b)
        if kind is x.NE:
            return np.where(a != b, 0.0, 1.0)
        if kind in (x.LT, x.LE):
            a, b = b, a
        return _lacking(b, a) if kind in (x.LT, x.GT) else np.where(a >= b, 0.0, _lacking(b, a))
    return np.where(v[e] == holds, 0.0, 1.0)


_OPPOSITE = {x.EQ: x.NE, x.NE: x.EQ, x.LT: x.GE, x.GE: x.LT, x.GT: x.LE, x.LE: x.GT}


def _apart(a: Any, b: Any) -> np.ndarray:
    """Return how far two numbers are from being equal."""
    with np.errstate(all="ignore"):
        far = np.abs(np.asarray(a, np.float64) - np.asarray(b, np.float64))
    far = np.where(far == 0, JUST, np.where(np.isfinite(far), far, FAR))
    return np.where(a == b, 0.0, far)


def _lacking(low: Any, high: Any) -> np.ndarray:
    """Return how far `low` is from being less than `high`."""
    with np.errstate(all="ignore"):
        far = np.asarray(low, np.float64) - np.asarray(high, np.float64)
    least = 1.0 if np.asarray(low).dtype.kind in "iu" else JUST
    return np.where(low < high, 0.0, np.where(np.isfinite(far), far + least, FAR))


def _half(value: Any) -> np.ndarray:
    """Return how far a number is from being half way between two integers."""
    with np.errstate(all="ignore"):
        wide = np.asarray(value, np.float64)
        far = np.abs(wide - np.floor(wide) - 0.5)
    return np.where(np.isfinite(far), far, FAR)


def _short_of_overflow(value: Any, dtype: x.DType) -> np.ndarray:
    with np.errstate(all="ignore"):
        lack = math.log2(float(dtype.max)) - np.log2(np.abs(np.asarray(value, np.float64)))
    return np.where(np.isinf(value), 0.0, np.where(np.isfinite(lack), np.maximum(lack, 0.0) + JUST, FAR))


def _is_constant(e: x.Expr) -> bool:
    return isinstance(e, x.IntImm | x.FloatImm)
