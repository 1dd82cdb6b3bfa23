"""Record which sides of comparisons and clips the inputs of a check took: `Coverage`, filled during runs.

A verdict is about the inputs that were tried. If a comparison of data was always true, or a clip never clipped, the
check saw nothing of the other side, and the verdict says so. The runs of `reference.check` on plain numbers are watched
in the fast mode; anything that was not watched is not reported.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from minitvm import expr as x
from minitvm.te import nodes as te
from minitvm.tir import nodes as t

from ..fast.grid import MASK, GridCompiler
from ..meaning import operations
from ..meaning.scalar import Environment, Evaluate, ScalarCompiler, Value

Compiler = TypeVar("Compiler", bound=ScalarCompiler)
SHOWN = 3  # places that a verdict lists
_CLIPS = (x.Min, x.Max)
_ORDERS = (x.LT, x.LE, x.GT, x.GE)
_COMPARISONS = (x.LT, x.LE, x.GT, x.GE, x.EQ, x.NE)
BOTH = 3  # both sides were taken
EQUAL = 4  # the two operands of an order were equal
BELOW, ABOVE = 1, 2  # a dividend was a multiple of its constant divisor, below zero and above
_DIVISIONS = (x.Div, x.Mod, x.FloorDiv, x.FloorMod)


class Coverage:
    """The sides that each evaluated comparison and clip took, as bits: 1 for no, 2 for yes.

    The side of a comparison is its result; the side of a maximum or minimum is whether its constant is the result.
    Inside `measured`, each run also records how close the operands came to each other, and whether they were equal. For
    an integer that is divided by a constant, or shifted, it records how far it was from a multiple.
    """

    def __init__(self) -> None:
        self.sides: dict[x.Expr, int] = {}
        self.multiples: dict[x.Expr, int] = {}  # of divisions: bits, BELOW and ABOVE
        self.gaps: dict[x.Expr, float] | None = None

    @contextmanager
    def measured(self) -> Iterator[dict[x.Expr, float]]:
        """Give the smallest signed difference of the operands of each comparison, in the runs inside a `with` block."""
        self.gaps = {}
        try:
            yield self.gaps
        finally:
            self.gaps = None

    def measure(self, site: x.Expr, first: Value, second: Value, mask: Any) -> None:
        """Record how far apart two operands are, at the points of a mask."""
        assert self.gaps is not None
        with np.errstate(all="ignore"):
            apart = np.atleast_1d(np.asarray(first, np.float64) - np.asarray(second, np.float64))
        if mask is not None:
            shape = np.broadcast_shapes(apart.shape, np.shape(mask))
            apart = np.broadcast_to(apart, shape)[np.broadcast_to(mask, shape)]
        least = self._nearest(site, apart[np.isfinite(apart)])
        if least == 0.0 and isinstance(site, _ORDERS):
            self.sides[site] |= EQUAL

    def measure_multiple(self, site: x.Expr, dividend: Value, divisor: int, mask: Any) -> None:
        """Record how far dividends are from nonzero multiples of a divisor, at the points of a mask."""
        values = np.atleast_1d(np.asarray(dividend, np.int64))
        if mask is not None:
            shape = np.broadcast_shapes(values.shape, np.shape(mask))
            values = np.broadcast_to(values, shape)[np.broadcast_to(mask, shape)]
        multiples = (values + divisor // 2) // divisor
        apart = values - np.where(multiples == 0, np.where(values < 0, -1, 1), multiples) * divisor
        self._nearest(site, apart)
        exact = values[apart == 0]
        self.multiples[site] |= (BELOW if (exact < 0).any() else 0) | (ABOVE if (exact > 0).any() else 0)

    def _nearest(self, site: x.Expr, apart: np.ndarray) -> float | None:
        assert self.gaps is not None
        if not apart.size:
            return None
        least = float(apart.flat[np.abs(apart).argmin()])
        if abs(least) <= abs(self.gaps.get(site, math.inf)):
            self.gaps[site] = least
        return least

    def taken(self, site: x.Expr) -> int:
        """Return the bits of a comparison, clip or division."""
        return self.multiples[site] if site in self.multiples else self.sides[site]

    def open_divisions(self) -> list[Any]:
        """Return the divisions whose dividend was never a multiple below zero, or never one above."""
        return [site for site, sides in self.multiples.items() if sides != BOTH]

    def open_sites(self, equality: bool) -> list[Any]:
        """Return the comparisons and clips with a side that was not taken; with `equality`, also those whose operands
        were never equal.
        """
        missing = [site for site, sides in self.sides.items() if sides & BOTH not in (0, BOTH)]
        if equality:
            missing += [site for site, sides in self.sides.items() if sides == BOTH and isinstance(site, _ORDERS)]
        return missing

    def note(self, site: x.Expr, condition: Value, mask: Any) -> None:
        """Add the sides taken at the points of a mask."""
        if type(condition) is not np.ndarray:
            self.sides[site] |= 2 if condition else 1
            return
        if mask is not None:
            condition = np.broadcast_to(condition, np.broadcast_shapes(condition.shape, mask.shape))
            condition = condition[np.broadcast_to(mask, condition.shape)]
        if condition.size:
            yes = np.count_nonzero(condition)
            self.sides[site] |= (2 if yes else 0) | (1 if yes < condition.size else 0)

    def forget(self) -> None:
        """Reset: no side was taken."""
        self.sides.update(dict.fromkeys(self.sides, 0))
        self.multiples = {site: _no_multiple(site) for site in self.multiples}

    @property
    def complete(self) -> bool:
        """Return whether each comparison and clip took both sides."""
        return all(sides & BOTH in (0, BOTH) for sides in self.sides.values())

    def never(self) -> list[str]:
        """Return the sides that were never taken, as text."""
        texts: dict[str, None] = {}
        for site, sides in self.sides.items():
            if sides & BOTH in (1, 2):
                texts[_side_text(site, sides & BOTH == 2)] = None
        return list(texts)


def _side_text(site: x.Expr, yes: bool) -> str:
    if isinstance(site, _CLIPS):
        return f"{site} {'always' if yes else 'never'} clips"
    return f"{site} {'always' if yes else 'never'} holds"


def coverage_of(program: Any) -> Coverage:
    """Return a reset coverage of the program; it is always the same object, because compiled code reports to it."""
    if not isinstance(program, t.PrimFunc | t.IRModule):
        return Coverage()
    coverage = _KNOWN.setdefault(program, Coverage())
    coverage.forget()
    return coverage


_KNOWN: WeakKeyDictionary[t.PrimFunc | t.IRModule, Coverage] = WeakKeyDictionary()


def watched(kind: type[Compiler], coverage: Coverage | None) -> type[Compiler]:
    """Return the compiler class whose code reports to a coverage; without a coverage, the class itself."""
    if coverage is None:
        return kind
    return type(f"Watched{kind.__name__}", (Watching, kind), {"coverage": coverage})


class Watching(GridCompiler):
    """Mixed into a compiler of the fast mode; see `watched`."""

    coverage: Coverage

    def _binary(self, e: x.BinaryOp) -> Evaluate:
        if not is_site(e):
            return super()._binary(e)
        a, b = self.expr(e.a), self.expr(e.b)
        on_arrays = operations.on_arrays(type(e), e.a.dtype)
        on_values = operations.on_values(type(e), e.a.dtype.scalar)
        coverage, sides = self.coverage, self.coverage.sides
        clip = _clipping(e) if isinstance(e, _CLIPS) else None
        sides.setdefault(e, 0)

        def evaluate(env: Environment) -> Value:
            first, second = a(env), b(env)
            if type(first) is np.ndarray or type(second) is np.ndarray:
                result = on_arrays(first, second, env[MASK])
            else:
                result = on_values(first, second)
            if coverage.gaps is not None:
                coverage.measure(e, first, second, env[MASK])
            if sides[e] & BOTH != BOTH:
                coverage.note(e, result if clip is None else clip(first, second), env[MASK])
            return result

        return evaluate

    def _operation(self, e: x.BinaryOp, a: Evaluate, b: Evaluate) -> Evaluate:
        return super()._operation(e, self._dividend(e, a), b)

    def _function(self, e: x.Call, args: list[Evaluate]) -> Evaluate:
        return super()._function(e, [self._dividend(e, args[0]), *args[1:]] if args else args)

    def _dividend(self, e: Any, value: Evaluate) -> Evaluate:
        divisor = _divisor(e)
        if not divisor:
            return value
        coverage = self.coverage
        coverage.multiples.setdefault(e, _no_multiple(e))

        def evaluate(env: Environment) -> Value:
            result = value(env)
            if coverage.gaps is not None:
                coverage.measure_multiple(e, result, divisor, env[MASK])
            return result

        return evaluate


def _divisor(e: Any) -> int:
    """Return the constant, at least 2, by which an operation divides an integer of data; 0 for any other operation."""
    if isinstance(e, x.Call) and e.op == "shift_right":
        dividend, amount = e.args
        divisor = 1 << amount.value if isinstance(amount, x.IntImm) and 0 <= amount.value < 62 else 0
    elif isinstance(e, _DIVISIONS):
        dividend, divisor = e.a, e.b.value if isinstance(e.b, x.IntImm) else 0
    else:
        return 0
    return divisor if divisor > 1 and dividend.dtype.is_int and dividend.dtype.lanes == 1 and _reads(dividend) else 0


def _no_multiple(e: Any) -> int:
    """Return the initial bits of a division; an unsigned number is never below zero."""
    return BELOW if e.dtype.kind == "uint" else 0


def _clipping(e: Any) -> Callable[[Value, Value], Value]:
    """Return a function that tells whether the constant of a maximum or minimum is the result, and not the other
    operand.
    """
    least = isinstance(e, x.Min) != (not _reads(e.a))
    return (lambda a, b: a > b) if least else (lambda a, b: a < b)


def is_site(e: x.BinaryOp) -> bool:
    """Return whether a node compares data, or clips data at a constant."""
    if not isinstance(e, (*_CLIPS, *_COMPARISONS)):
        return False
    both = _reads(e.a), _reads(e.b)
    return both[0] != both[1] if isinstance(e, _CLIPS) else any(both)


def _reads(e: x.Expr) -> bool:
    return any(isinstance(n, t.BufferLoad | te.TensorLoad) or (isinstance(n, x.Var) and n.dtype.is_float)
               for n in x.walk(e))  # fmt: skip
