"""Convert index expressions to arith's normal form, and track the known ranges of the variables around a statement.

Passes use `linear` to find strides and compare indices, and `interval` and `bounds` to find ranges. For simplification
and proofs, they use `arith.Analyzer`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ...arith import Analyzer
from ...arith.affine import Affine, structural_key, variables
from ...arith.domain import Domain
from ...expr import GE, GT, LE, LT, Expr, Var
from ..nodes import For

Interval = tuple[int, int]
Ranges = Mapping[Var, Interval]

__all__ = [
    "Affine", "Interval", "Ranges", "bounds", "coefficient", "expr", "interval", "linear", "moves",
    "slack", "split", "structural_key", "with_loop",
]  # fmt: skip


# One analyzer for all calls: it knows nothing about any variable, and remembers the forms of repeated expressions.
_NOTHING_KNOWN = Analyzer()
_WRITTEN: dict[Any, Expr] = {}
_MOST_WRITTEN = 20_000


def linear(e: Expr) -> Affine:
    """Return a scalar integer expression as a sum of terms, without using the ranges of its variables.

    An expression that is not an integer becomes a single term.
    """
    return _NOTHING_KNOWN.affine(e)


def expr(form: Affine, dtype: Any) -> Expr:
    """Convert a normal form back to an expression. Equal forms give the same node, so that results cached with the node
    are reused.
    """
    key = (dtype, form.const, *form.terms.items())
    written = _WRITTEN.get(key)
    if written is None:
        written = _NOTHING_KNOWN.to_expr(form, dtype)
        if len(_WRITTEN) >= _MOST_WRITTEN:
            _WRITTEN.clear()
        _WRITTEN[key] = written
    return written


def coefficient(form: Affine, var: Var) -> int:
    """Return the coefficient of `var` in a form, counting only terms that consist of `var` alone."""
    return form.terms.get(var, 0)


def moves(form: Affine, inside: Collection[Var]) -> bool:
    """Return whether a form contains any of the variables in `inside`."""
    return any(v in inside for v in variables(form))


def split(form: Affine, inside: Collection[Var]) -> tuple[Affine, Affine]:
    """Split a form into the terms without the variables in `inside`, and the remaining terms plus the constant."""
    outer = {t: c for t, c in form.terms.items() if not moves(Affine.of(t), inside)}
    return Affine(outer), Affine({t: c for t, c in form.terms.items() if t not in outer}, form.const)


def interval(form: Affine, ranges: Ranges) -> Interval | None:
    """Return the smallest and largest value of a form over the ranges of its variables; None if either is unknown."""
    low, high = Domain(ranges).bounds(form)
    return None if low is None or high is None else (low, high)


def bounds(e: Expr, ranges: Ranges) -> Interval | None:
    """Return the smallest and largest value of an integer expression; None if either is unknown."""
    return interval(linear(e), ranges)


def with_loop(loop: For, ranges: Ranges) -> Ranges:
    """Return the ranges of variables inside a loop, given the ranges outside of it."""
    first, count = bounds(loop.start, ranges), bounds(loop.extent, ranges)
    if first is None or count is None or count[1] < 1:
        return {v: r for v, r in ranges.items() if v is not loop.var}
    return {**ranges, loop.var: (first[0], first[1] + count[1] - 1)}


def slack(condition: Expr) -> Affine | None:
    """Return the form f for which an integer inequality is equivalent to `f < 0`; None for any other condition."""
    if not isinstance(condition, LT | LE | GT | GE) or not condition.a.dtype.is_int:
        return None
    a, b = linear(condition.a), linear(condition.b)
    difference = a - b if isinstance(condition, LT | LE) else b - a
    return difference - 1 if isinstance(condition, LE | GE) else difference
