"""For an access that is not proved to be in bounds: find a condition on sizes, or an out-of-bounds example.

`condition_of` turns "this access is in bounds" into a condition on sizes only. It replaces each loop variable by the
relevant end of its range. Sizes for which a loop around the access has no iterations always satisfy the condition. The
condition is sufficient, but may not be necessary. `example_of` enumerates the iterations for given sizes, which gives
an exact answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import expr as ex
from ...arith import Analyzer
from ...arith.affine import structural_key, term_variables
from ...expr.conditions import all_of, is_const
from ...expr.visitor import accessed, variables
from ..values import NotAnIndex, values
from .in_bounds import Unshown

_POINTS = 2_000_000  # the most iterations that are listed: a tenth of a second
_NO_VALUE = (NotAnIndex, ZeroDivisionError, FloatingPointError)
_Ends = tuple[ex.Expr | None, ex.Expr | None]
_NONE: _Ends = (None, None)


@dataclass(frozen=True, slots=True)
class SizeCondition:
    """A condition on sizes under which an access stays inside its buffer.

    It is met if `inside` holds, or if one of `idle` holds. Each condition in `idle` means that the access never runs,
    for example because a loop around it has no iterations.
    """

    inside: ex.Expr
    idle: tuple[ex.Expr, ...] = ()

    @property
    def whole(self) -> ex.Expr:
        """The complete condition: `inside` or any of `idle`."""
        whole = self.inside
        for idle in self.idle:
            whole = ex.Or(whole, idle)
        return whole


def condition_of(access: Unshown, sizes: Iterable[ex.Var]) -> SizeCondition | None:
    """Return a condition on sizes under which an access is in bounds; None if the index depends on data or has no known
    bounds.

    If the axis has no elements, no access can be in bounds; then the condition only holds if a loop has no iterations.
    """
    ends = _Sizes(frozenset(sizes), access)
    condition = access.condition
    assert isinstance(condition, ex.GE | ex.LT)
    low, high = ends.of(condition.a)
    other_low, other_high = ends.of(condition.b)
    inside: ex.Expr | None
    if isinstance(condition, ex.GE):
        inside = None if low is None or other_high is None else ex.GE(low, other_high)
    else:
        inside = None if high is None or other_low is None else ex.LT(high, other_low)
    if is_const(access.buffer.shape[access.axis], 0):
        inside = ex.const(False)
    if inside is None:
        return None
    simple = ends.analyzer.simplify
    idle: list[ex.Expr] = [ex.LE(extent, ends.number(0)) for extent in ends.extents()]
    idle += [ex.Not(c) for c in access.conditions if variables(c) <= ends.sizes and not accessed(c)]
    simpler = [e for e in map(simple, idle) if not is_const(e, 0)]
    different = {structural_key(e): e for e in simpler}
    whole = simple(all_of([*ends.needed, inside]))
    return SizeCondition(whole, tuple(e for e in different.values() if not _implies(ends.analyzer, e, whole)))


def _implies(analyzer: Analyzer, premise: ex.Expr, conclusion: ex.Expr) -> bool:
    with analyzer.constraint(premise):
        return analyzer.can_prove(conclusion)


class _Sizes:
    """Computes the smallest and largest values of expressions while the loops run, as functions of sizes."""

    def __init__(self, sizes: frozenset[ex.Var], access: Unshown) -> None:
        self.sizes = sizes
        self.access = access
        self.analyzer = Analyzer({v: (0, None) for v in sizes if v in access.positive})
        self.ranges = dict(access.loops)
        self.running: set[ex.Var] = set()
        self.known: dict[ex.Var, _Ends] = {}
        self.needed: list[ex.Expr] = []  # divisors are positive
        wide = [e for e in (*sizes, *ex.find(access.condition, ex.IntImm)) if e.dtype.bits > 32]
        self.dtype = "int64" if any(isinstance(e, ex.Var) or abs(e.value) >= 1 << 31 for e in wide) else "int32"

    def number(self, value: int) -> Any:
        dtype = ex.DType(self.dtype)
        return ex.const(value, dtype) if dtype.min <= value <= dtype.max else None

    def exact(self, e: Any) -> Any:
        """Return an expression over sizes in one wide dtype, so that it is computed without overflow. Executables
        compute it this way too.
        """
        if isinstance(e, ex.Cast) and e.dtype.is_int and e.dtype.bits >= 32 and e.value.dtype.is_int:
            return self.exact(e.value)
        if isinstance(e, ex.IntImm) and not e.dtype.is_bool:
            return self.number(e.value)
        if isinstance(e, ex.Var):
            return e.astype(self.dtype)
        return ex.map_children(e, self.exact)

    def extents(self) -> list[ex.Expr]:
        """Return the largest extents of the loops around the access. Constant extents are left out."""
        found = [self.of(r.extent)[1] for _, r in self.access.loops if not isinstance(r.extent, ex.IntImm)]
        return [e for e in found if e is not None and not isinstance(e, ex.IntImm)]

    def simple(self, e: ex.Expr | None) -> ex.Expr | None:
        return None if e is None else self.analyzer.simplify(e)

    def of(self, e: ex.Expr) -> _Ends:
        if variables(e) <= self.sizes and not accessed(e):
            value = self.simple(self.exact(e).astype(self.dtype))
            return value, value
        if isinstance(e, ex.Var):
            return self.of_variable(e)
        low, high = self.of_operation(e)
        least, most = self.analyzer.bounds(e) if low is None or high is None else (None, None)
        low = self.number(least) if low is None and least is not None else low
        high = self.number(most) if high is None and most is not None else high
        return self.simple(low), self.simple(high)

    def of_operation(self, e: ex.Expr) -> _Ends:
        if isinstance(e, ex.Cast):
            return self.of_cast(e)
        if isinstance(e, ex.Add | ex.Sub | ex.Mul | ex.Min | ex.Max | ex.FloorDiv | ex.FloorMod):
            return self.of_binary(e)
        if isinstance(e, ex.Select) or (isinstance(e, ex.Call) and e.op == "if_then_else"):
            condition, first, second = e.args if isinstance(e, ex.Call) else (e.condition, e.true_value, e.false_value)
            return self.of_choice(condition, self.of(first), self.of(second))
        if isinstance(e, ex.Div | ex.Mod):
            a, b = self.of(e.a), self.of(e.b)
            if self.shown(a[0], 0) and self.shown(b[0], 0):
                return self.of_binary((ex.FloorDiv if isinstance(e, ex.Div) else ex.FloorMod)(e.a, e.b))
        return _NONE

    def of_variable(self, var: ex.Var) -> _Ends:
        if var in self.known:
            return self.known[var]
        if var in self.access.data:
            return self.of_data(var)
        if var not in self.ranges or var in self.running:
            return _NONE
        self.running.add(var)
        r = self.ranges[var]
        (start, start_high), (_, extent) = self.of(r.start), self.of(r.extent)
        high: ex.Expr | None = (
            None if start_high is None or extent is None else ex.Sub(ex.Add(start_high, extent), self.number(1))
        )
        low, high = self.refined(var, start, high)
        self.running.discard(var)
        self.known[var] = self.simple(low), self.simple(high)
        return self.known[var]

    def of_data(self, var: ex.Var) -> _Ends:
        """Return the bounds on a loaded value: those that all stores preserve, or else the limits of its dtype."""
        low, high = self.access.stored.get(self.access.data[var].buffer, _NONE)
        return None if low is None else self.of(low)[0], None if high is None else self.of(high)[1]

    def refined(self, var: ex.Var, low: ex.Expr | None, high: ex.Expr | None) -> _Ends:
        """Narrow the bounds `low` and `high` of a loop variable using the conditions that guard the access, and return
        them.
        """
        for fact in self.access.facts:
            c = fact.terms.get(var, 0)
            rest = fact.without(var)
            if abs(c) != 1 or any(v is var for t in rest.terms for v in term_variables(t)):
                continue
            ends = self.of(self.analyzer.to_expr(rest, ex.DType("int64")))
            if c == 1 and ends[1] is not None:  # var + rest >= 0
                low = ex.Sub(self.number(0), ends[1]) if low is None else ex.Max(low, ex.Sub(self.number(0), ends[1]))
            if c == -1 and ends[1] is not None:
                high = ends[1] if high is None else ex.Min(high, ends[1])
        return low, high

    def of_cast(self, e: ex.Cast) -> _Ends:
        source = e.value.dtype
        if source.is_int and source.bits <= e.dtype.bits and not (source.kind == "uint" and source.bits == 64):
            return self.of(e.value)
        return _NONE

    def of_choice(self, condition: ex.Expr, first: _Ends, second: _Ends) -> _Ends:
        by_size = variables(condition) <= self.sizes and not accessed(condition)

        def joined(a: ex.Expr | None, b: ex.Expr | None, extreme: Any) -> ex.Expr | None:
            if a is None or b is None:
                return None
            return ex.Select(condition, a, b) if by_size else extreme(a, b)

        return joined(first[0], second[0], ex.Min), joined(first[1], second[1], ex.Max)

    def shown(self, e: ex.Expr | None, least: int) -> bool:
        return e is not None and self.analyzer.can_prove(e >= self.number(least))

    def of_binary(self, e: ex.BinaryOp) -> _Ends:
        (a, b), (c, d) = self.of(e.a), self.of(e.b)
        if isinstance(e, ex.Add):
            return _both(ex.Add, a, c), _both(ex.Add, b, d)
        if isinstance(e, ex.Sub):
            return _both(ex.Sub, a, d), _both(ex.Sub, b, c)
        if isinstance(e, ex.Mul):
            return self.of_product((a, b), (c, d))
        if isinstance(e, ex.Min):
            return _both(ex.Min, a, c), _both(ex.Min, b, d) if b is not None and d is not None else (
                d if b is None else b
            )
        if isinstance(e, ex.Max):
            return _both(ex.Max, a, c) if a is not None and c is not None else (c if a is None else a), _both(
                ex.Max, b, d
            )
        if c is None or d is None:
            return _NONE
        if not self.shown(c, 1):
            self.needed.append(ex.GE(c, self.number(1)))
            c, d = ex.Max(c, self.number(1)), ex.Max(d, self.number(1))
        if isinstance(e, ex.FloorMod):
            short = self.shown(a, 0) and b is not None
            return self.number(0), ex.Min(b, ex.Sub(d, self.number(1))) if short else ex.Sub(d, self.number(1))  # type: ignore[arg-type]
        low = (
            None
            if a is None
            else ex.FloorDiv(a, d)
            if self.shown(a, 0)
            else ex.Min(ex.FloorDiv(a, c), ex.FloorDiv(a, d))
        )
        high = (
            None
            if b is None
            else ex.FloorDiv(b, c)
            if self.shown(b, 0)
            else ex.Max(ex.FloorDiv(b, c), ex.FloorDiv(b, d))
        )
        return low, high

    def of_product(self, x: _Ends, y: _Ends) -> _Ends:
        (a, b), (c, d) = x, y
        for (low, high), factor in ((x, y), (y, x)):
            value = factor[0]
            if isinstance(value, ex.IntImm) and factor[0] is factor[1]:
                ends = (_both(ex.Mul, low, value), _both(ex.Mul, high, value))
                return ends if value.value >= 0 else ends[::-1]
        if self.shown(a, 0) and self.shown(c, 0):
            return _both(ex.Mul, a, c), _both(ex.Mul, b, d)
        if None in (a, b, c, d):
            return _NONE
        corners = [ex.Mul(p, q) for p in x for q in y if p is not None and q is not None]
        low, high = corners[0], corners[0]
        for corner in corners[1:]:
            low, high = ex.Min(low, corner), ex.Max(high, corner)
        return low, high


def _both(kind: Any, a: ex.Expr | None, b: ex.Expr | None) -> ex.Expr | None:
    return None if a is None or b is None else kind(a, b)


# -- where all sizes are numbers ------------------------------------------------------------------------------------


def example_of(access: Unshown, sizes: Mapping[ex.Var, int]) -> tuple[bool, dict[ex.Var, int] | None]:
    """Return (whether the question is decided, an iteration that accesses memory outside of the buffer or None).

    Conditions that read memory are assumed to be true: if no other condition prevents the access, some data leads it
    out of bounds.
    """
    conditions = [c for c in access.conditions if not _by_data(c, access)]
    names = {v for v, _ in access.loops}
    needed = _closed(variables(access.condition), access)
    every = _closed(needed.union(*(variables(c) for c in conditions)), access)
    try:
        env, count = _points(access, every, sizes)
        if env is None:
            env, count = _points(access, needed, sizes)
        if env is None:
            return False, None
        if not count:  # no iteration, no access
            return True, None
        kept = np.ones(count, bool)
        certain = True
        for condition in conditions:
            if variables(condition) <= env.keys():
                kept &= np.asarray(_value(condition, env), bool)
            else:
                certain = False
        outside = kept & ~np.broadcast_to(np.asarray(_value(access.condition, env), bool), (count,))
    except _NO_VALUE:
        return False, None
    where = np.flatnonzero(outside)
    if not len(where):
        return True, None
    return certain, {v: int(values[where[0]]) for v, values in env.items() if v in names}


def value_at(e: ex.Expr, values: Mapping[ex.Var, int]) -> int | None:
    """Return the value of an index if the variables have `values`; None if the index depends on other variables."""
    try:
        return int(_value(e, values))
    except _NO_VALUE:
        return None


def needs_no_size(access: Unshown) -> bool:
    """Return whether sizes play no role: neither the index, nor its bound, nor the ranges of the loops that it uses
    contain a size.
    """
    needed = _closed(variables(access.condition), access)
    ranges = [r for v, r in access.loops if v in needed]
    used = {v for e in (access.condition, *(e for r in ranges for e in (r.start, r.extent))) for v in variables(e)}
    return used <= needed


def _by_data(e: ex.Expr, access: Unshown) -> bool:
    return bool(accessed(e)) or any(v in access.data for v in variables(e))


def _closed(used: Iterable[ex.Var], access: Unshown) -> set[ex.Var]:
    """Return the loop variables in `used`, and all loop variables on which their ranges depend."""
    ranges = dict(access.loops)
    needed: set[ex.Var] = set()
    pending = [v for v in used if v in ranges]
    while pending:
        var = pending.pop()
        if var not in needed:
            needed.add(var)
            r = ranges[var]
            pending += [v for part in (r.start, r.extent) for v in ex.free_vars(part) if v in ranges]
    return needed


def _points(access: Unshown, needed: set[ex.Var], sizes: Mapping[ex.Var, int]) -> tuple[dict[ex.Var, Any] | None, int]:
    """Return the iterations of the loops whose variables are in `needed` as arrays, and their number. The arrays are
    None if there are too many iterations.
    """
    env: dict[ex.Var, Any] = {v: np.array([n], np.int64) for v, n in sizes.items()}
    count = 1
    for var, r in access.loops:
        if var not in needed:
            if isinstance(r.extent, ex.IntImm) and r.extent.value <= 0:
                return {**env, **{v: np.zeros(0, np.int64) for v in needed}}, 0
            continue
        start, extent = (np.broadcast_to(np.asarray(_value(e, env)), (count,)) for e in (r.start, r.extent))
        runs = np.maximum(extent, 0)
        total = int(runs.sum())
        if total > _POINTS:
            return None, 0
        env = {v: np.repeat(np.broadcast_to(a, (count,)), runs) for v, a in env.items()}
        first = np.repeat(np.cumsum(runs) - runs, runs)
        env[var] = np.repeat(start, runs) + np.arange(total) - first
        count = total
    return {v: np.broadcast_to(a, (count,)) for v, a in env.items()}, count


def _value(e: ex.Expr, env: Mapping[ex.Var, Any]) -> Any:
    """Evaluate an expression as `values` does, but raise an error on division by zero."""
    with np.errstate(divide="raise"):
        return values(e, env)
