"""Index expressions as linear forms: what the lowering passes ask about an index, in microseconds.

`linear(e)` writes an integer expression as `sum(coefficient * atom) + constant`, where an atom is a variable or a
sub-expression that is not linear (a floor division, a load). Passes use it to find strides, to compare indices and to
bound them; simplification proper is `arith`'s business.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from ...expr import (
    Add,
    Cast,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Node,
    Sub,
    Var,
    const,
    walk,
)  # fmt: skip

Interval = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Linear:
    """`sum(coefficient * atom) + constant`; `terms` maps the atom's structural key to (atom, coefficient)."""

    terms: Mapping[Any, tuple[Expr, int]]
    constant: int

    def coefficient(self, var: Var) -> int:
        """How often `var` occurs as an atom of its own."""
        entry = self.terms.get(id(var))
        return entry[1] if entry else 0

    def without(self, var: Var) -> Linear:
        """The rest of the form once the term of `var` is taken away."""
        return Linear({k: t for k, t in self.terms.items() if k != id(var)}, self.constant)

    def split(self, inside: Collection[Var]) -> tuple[Linear, Linear]:
        """(terms free of `inside`, the others and the constant)."""
        names = set(inside)
        outer = {k: t for k, t in self.terms.items() if not uses(t[0], names)}
        inner = {k: t for k, t in self.terms.items() if k not in outer}
        return Linear(outer, 0), Linear(inner, self.constant)

    def minus(self, other: Linear) -> Linear:
        """The difference of two forms."""
        return _combine(self, other, -1)

    def same_as(self, other: Linear) -> bool:
        """Whether both forms are equal for all values of their atoms."""
        return self.constant == other.constant and _coefficients(self) == _coefficients(other)

    def expr(self, dtype: str) -> Expr:
        """The form as an expression, its constant last."""
        total: Expr | None = None
        for atom, factor in self.terms.values():
            positive = abs(factor)
            cast = atom.astype(dtype)
            piece = cast if positive == 1 else Mul(cast, const(positive, dtype))
            if total is None:
                total = piece if factor > 0 else Mul(cast, const(factor, dtype))
            else:
                total = Add(total, piece) if factor > 0 else Sub(total, piece)
        if total is None:
            return const(self.constant, dtype)
        if self.constant == 0:
            return total
        return (
            Add(total, const(self.constant, dtype)) if self.constant > 0 else Sub(total, const(-self.constant, dtype))
        )


def _coefficients(form: Linear) -> dict[Any, int]:
    return {k: c for k, (_, c) in form.terms.items()}


def _combine(a: Linear, b: Linear, sign: int) -> Linear:
    terms = dict(a.terms)
    for k, (atom, factor) in b.terms.items():
        total = (terms[k][1] if k in terms else 0) + sign * factor
        if total:
            terms[k] = (atom, total)
        else:
            terms.pop(k, None)
    return Linear(terms, a.constant + sign * b.constant)


def scaled(form: Linear, factor: int) -> Linear:
    """The form times a number."""
    if factor == 0:
        return Linear({}, 0)
    return Linear({k: (a, c * factor) for k, (a, c) in form.terms.items()}, form.constant * factor)


def linear(e: Expr) -> Linear:
    """The linear form of a scalar integer expression; what is not linear becomes an atom."""
    if isinstance(e, IntImm):
        return Linear({}, e.value)
    if isinstance(e, Var):
        return Linear({id(e): (e, 1)}, 0)
    if isinstance(e, Add):
        return _combine(linear(e.a), linear(e.b), 1)
    if isinstance(e, Sub):
        return _combine(linear(e.a), linear(e.b), -1)
    if isinstance(e, Mul):
        a, b = linear(e.a), linear(e.b)
        if not b.terms:
            return scaled(a, b.constant)
        if not a.terms:
            return scaled(b, a.constant)
    if isinstance(e, Cast) and e.dtype in ("int32", "int64") and e.value.dtype in ("int32", "int64"):
        return linear(e.value)
    return Linear({structural_key(e): (e, 1)}, 0)


def structural_key(e: Any) -> Any:
    """A hashable value that two expressions share exactly when they are the same over the same variables."""
    if isinstance(e, Var):
        return id(e)
    if isinstance(e, tuple):
        return tuple(map(structural_key, e))
    if isinstance(e, Expr):
        names = [f.name for f in fields(e)]  # type: ignore[arg-type]
        return (type(e).__name__, *(structural_key(getattr(e, name)) for name in names))
    return id(e) if isinstance(e, Node) else (type(e).__name__, repr(e))


def uses(node: Node, variables: Collection[Var]) -> bool:
    """Whether any of the variables occurs in the tree."""
    return bool(variables) and any(isinstance(item, Var) and item in variables for item in walk(node))


def interval(form: Linear, ranges: Mapping[Var, Interval]) -> Interval | None:
    """Least and greatest value of a form over the ranges of its variables; None where an atom has no bound."""
    low = high = form.constant
    for atom, factor in form.terms.values():
        found = bounds(atom, ranges)
        if found is None:
            return None
        ends = (found[0] * factor, found[1] * factor)
        low, high = low + min(ends), high + max(ends)
    return low, high


def bounds(e: Expr, ranges: Mapping[Var, Interval]) -> Interval | None:
    """Least and greatest value of an integer expression, or None where that is not known."""
    if isinstance(e, IntImm):
        return e.value, e.value
    if isinstance(e, Var):
        return ranges.get(e)
    if isinstance(e, FloorDiv | FloorMod) and isinstance(e.b, IntImm) and e.b.value > 0:
        inner = bounds(e.a, ranges)
        if isinstance(e, FloorDiv):
            return None if inner is None else (inner[0] // e.b.value, inner[1] // e.b.value)
        fits = inner is not None and inner[0] >= 0 and inner[1] < e.b.value
        return inner if fits else (0, e.b.value - 1)
    if isinstance(e, Min | Max):
        a, b = bounds(e.a, ranges), bounds(e.b, ranges)
        pick = min if isinstance(e, Min) else max
        return None if a is None or b is None else (pick(a[0], b[0]), pick(a[1], b[1]))
    if isinstance(e, Add | Sub | Mul | Cast):
        form = linear(e)
        lone = next(iter(form.terms.values()))[0] if len(form.terms) == 1 else None
        if lone is e:
            return None
        return interval(form, ranges)
    return None


def loop_interval(start: Expr, extent: Expr, ranges: Mapping[Var, Interval]) -> Interval | None:
    """The values that a loop variable takes, or None when its bounds are not known."""
    first, count = bounds(start, ranges), bounds(extent, ranges)
    if first is None or count is None or count[1] < 1:
        return None
    return first[0], first[1] + count[1] - 1


def product(factors: Iterable[Expr], dtype: str = "int32") -> Expr:
    """The product of dimensions, constants multiplied out."""
    number, symbols = 1, []
    for f in factors:
        if isinstance(f, IntImm):
            number *= f.value
        else:
            symbols.append(f)
    if not symbols:
        return const(number, "int64" if number > 2**31 - 1 else dtype)
    total = symbols[0]
    for s in symbols[1:]:
        total = total * s
    return total if number == 1 else total * number
