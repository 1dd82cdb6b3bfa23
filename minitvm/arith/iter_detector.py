"""Convert expressions to sums of splits of iterators. `iter_map` describes this form."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .. import expr as ex
from ..expr.visitor import variables
from .affine import Affine, divide_monomial, multiply
from .analyzer import Analyzer

ONE, NOTHING = Affine({}, 1), Affine({})


class NotAffine(Exception):
    """Raised when an expression is not a quasi-affine map. The message becomes an entry of `IterMap.errors`."""


@dataclass(frozen=True, slots=True, eq=False)
class IterMark:
    """An iterator with values in [0, extent): a loop variable minus its start, or a fused sum."""

    source: ex.Var | IterSum
    extent: Affine
    start: Affine = NOTHING

    def __repr__(self) -> str:
        return self.source.name if isinstance(self.source, ex.Var) else f"({self.source})"


@dataclass(frozen=True, slots=True, eq=False)
class IterSplit:
    """A part of an iterator: `(mark // lower_factor) % extent * scale`."""

    mark: IterMark
    lower_factor: Affine
    extent: Affine
    scale: Affine = ONE

    def __repr__(self) -> str:
        text = repr(self.mark)
        if self.lower_factor != ONE:
            text += f" // {_text(self.lower_factor)}"
        if multiply(self.lower_factor, self.extent) != self.mark.extent:
            text += f" % {_text(self.extent)}"
        return text if self.scale == ONE else f"{text} * {_text(self.scale)}"


@dataclass(frozen=True, slots=True, eq=False)
class IterSum:
    """The sum of `base` and the splits in `args`. `base` does not depend on the loops."""

    args: tuple[IterSplit, ...]
    base: Affine = NOTHING

    def __repr__(self) -> str:
        parts = [str(a) for a in self.args]
        if self.base != NOTHING or not parts:
            parts.append(_text(self.base))
        return " + ".join(parts)


@dataclass(frozen=True, slots=True)
class IterMap:
    """The result of `detect`: one sum per binding (or none if there are `errors`), and the requested level."""

    sums: tuple[IterSum, ...]
    errors: tuple[str, ...] = ()
    level: str = "none"
    padded: bool = False  # some split does not divide its iterator: the last tile is not full
    repeats: int | None = None  # the binding that has the same value at several points, if that is the error
    bindings: tuple[ex.Expr, ...] = field(default=(), repr=False)

    def __bool__(self) -> bool:
        return not self.errors


def _text(x: Affine) -> str:
    return str(Analyzer().to_expr(x, "int32")) if not x.is_const else str(x.const)


class Detector:
    """Converts expressions to sums of splits, using a single analyzer."""

    def __init__(
        self, iters: Mapping[ex.Var, ex.Range], analyzer: Analyzer, keep_unit: bool, fuse_first: bool = False
    ) -> None:
        self.fuse_first = fuse_first
        self.analyzer = analyzer
        self.domain = analyzer.domain
        self.marks: dict[ex.Var, IterMark] = {}
        self.fused: dict[Any, IterMark] = {}
        self.limits: list[tuple[dict[Any, Affine], Affine]] = []  # a sum's steps and the extent that a predicate gives
        self.padded = False
        self.keep_unit = keep_unit
        self.iters = iters
        for var, r in iters.items():
            self.marks[var] = IterMark(var, self.affine(r.extent), self.affine(r.start))

    def affine(self, e: Any) -> Affine:
        form = self.analyzer.normal_form(ex.as_expr(e))
        if form is None:
            raise NotAffine(f"{e} is not an index expression")
        return form

    # -- sizes ------------------------------------------------------------------------------------------------------

    def equal(self, a: Affine, b: Affine) -> bool:
        return a == b or (self.domain.nonnegative(a - b) and self.domain.nonnegative(b - a))

    def at_most(self, a: Affine, b: Affine) -> bool:
        return self.domain.nonnegative(b - a)

    def times(self, a: Affine, b: Affine) -> Affine:
        result = multiply(a, b)
        if result is None:
            raise NotAffine("a product of symbolic sizes is too long")
        return result

    def divide(self, a: Affine, b: Affine) -> Affine | None:
        """Return a / b if b divides a, or None otherwise."""
        if a == b:
            return ONE
        if b.is_const:
            if b.const == 0 or a.const % b.const or any(c % b.const for c in a.terms.values()):
                return None
            return a.divided(b.const)
        division = divide_monomial(a, b)
        if division is not None:
            return division[0] if division[1] == NOTHING else None
        from .sympy_bridge import divide

        division = divide(a, b)
        return division[0] if division is not None and division[1] == NOTHING else None

    # -- reading ----------------------------------------------------------------------------------------------------

    def moves(self, e: ex.Expr) -> bool:
        return not variables(e).isdisjoint(self.marks)

    def parse(self, e: ex.Expr) -> IterSum:
        if isinstance(e, ex.Var) and e in self.marks:
            mark = self.marks[e]
            if mark.extent == ONE and not self.keep_unit:
                return IterSum((), mark.start)
            return IterSum((IterSplit(mark, ONE, mark.extent),), mark.start)
        if not self.moves(e):
            return IterSum((), self.affine(e))
        if isinstance(e, ex.Add | ex.Sub):
            a, b = self.parse(e.a), self.parse(e.b)
            return self.added(a, b if isinstance(e, ex.Add) else self.scaled(b, Affine({}, -1)))
        if isinstance(e, ex.Mul):
            moving, factor = (e.a, e.b) if self.moves(e.a) else (e.b, e.a)
            if self.moves(factor):
                raise NotAffine(f"{e} multiplies two iterators")
            return self.scaled(self.parse(moving), self.affine(factor))
        if isinstance(e, ex.FloorDiv | ex.FloorMod):
            if self.moves(e.b):
                raise NotAffine(f"{e} divides by an iterator")
            by = self.affine(e.b)
            if not self.domain.nonnegative(by - 1) and not (len(by.terms) == 1 and self.domain.nonnegative(by)):
                raise NotAffine(f"{e}: the divisor is not known to be positive")
            inner = self.parse(e.a)
            return self.quotient(e, inner, by) if isinstance(e, ex.FloorDiv) else self.remainder(e, inner, by)
        from ..expr import Cast

        if isinstance(e, Cast) and self.keeps_value(e):
            return self.parse(e.value)
        raise NotAffine(f"{e} is not a sum of iterators, their quotients and remainders")

    def keeps_value(self, e: Any) -> bool:
        """Return whether a conversion between integer dtypes preserves every value that the expression takes over
        the iterators.
        """
        source, target = e.value.dtype, e.dtype
        if not (source.is_int and target.is_int):
            return False
        if target.min <= source.min and source.max <= target.max:
            return True
        low, high = Analyzer(self.iters).bounds(e.value)
        return low is not None and high is not None and bool(target.min <= low and high <= target.max)

    def added(self, a: IterSum, b: IterSum) -> IterSum:
        args = list(a.args)
        for arg in b.args:
            for i, mine in enumerate(args):
                if mine.mark is arg.mark and mine.lower_factor == arg.lower_factor and mine.extent == arg.extent:
                    args[i] = IterSplit(mine.mark, mine.lower_factor, mine.extent, mine.scale + arg.scale)
                    break
            else:
                args.append(arg)
        return IterSum(tuple(x for x in args if x.scale != NOTHING), a.base + b.base)

    def scaled(self, a: IterSum, factor: Affine) -> IterSum:
        if factor == NOTHING:
            return IterSum(())
        args = tuple(IterSplit(x.mark, x.lower_factor, x.extent, self.times(x.scale, factor)) for x in a.args)
        return IterSum(args, self.times(a.base, factor))

    def quotient(self, e: ex.Expr, x: IterSum, by: Affine) -> IterSum:
        if by == ONE:
            return x
        high, low = self.divided(e, x, by)
        if low is None:
            return high
        split = self.fuse(low)
        cut = self.cut(e, split, by)
        return self.added(high, IterSum(cut[1]))

    def remainder(self, e: ex.Expr, x: IterSum, by: Affine) -> IterSum:
        if by == ONE:
            return IterSum(())
        _, low = self.divided(e, x, by)
        return IterSum(()) if low is None else IterSum(self.cut(e, self.fuse(low), by)[0])

    def divided(self, e: ex.Expr, x: IterSum, by: Affine) -> tuple[IterSum, IterSum | None]:
        """Split x into by * first + second, as far as its terms are divisible by `by`; `second` is None if nothing is
        left.

        With `fuse_first`, a sum that can be fused into one iterator is divided as a whole: (i0*256 + i1) // 128, and
        not i0*2 + i1//128.
        """
        if self.fuse_first and len(x.args) > 1:
            base = self.divide(x.base, by)
            with contextlib.suppress(NotAffine):
                self.fuse(IterSum(x.args))
                if base is not None:
                    return IterSum((), base), IterSum(x.args)
        high, low = [], []
        for arg in x.args:
            scale = self.divide(arg.scale, by)
            if scale is None:
                low.append(arg)
            else:
                high.append(IterSplit(arg.mark, arg.lower_factor, arg.extent, scale))
        base = self.divide(x.base, by)
        if base is None:
            raise NotAffine(f"{e}: {_text(by)} does not divide the offset {_text(x.base)}")
        # Divisible terms may still belong to a fused iterator, whose lower part consists of the others: i0*128 + i1.
        whole = self.limited(x)
        if whole is not None and high and low:
            return IterSum((), base), IterSum(x.args)
        return IterSum(tuple(high), base), IterSum(tuple(low)) if low else None

    def limited(self, x: IterSum) -> Affine | None:
        """Return the smaller extent that a predicate sets for splits of this sum, or None if there is no such
        predicate.
        """
        for steps, extent in self.limits:
            mine = {self.key(a): a.scale for a in x.args}
            if set(steps) <= set(mine) and len(steps) > 1:
                return extent
        return None

    def key(self, split: IterSplit) -> Any:
        return id(split.mark), split.lower_factor, split.extent

    def cut(self, e: ex.Expr, split: IterSplit, by: Affine) -> tuple[tuple[IterSplit, ...], tuple[IterSplit, ...]]:
        """Divide a split by `by`, and return (remainder, quotient) as tuples of splits. Raises `NotAffine` if the steps
        straddle multiples of `by`, or if `by` does not divide the extent of a split that is not the topmost one of its
        iterator.
        """
        scale = split.scale
        if scale != ONE:
            rest = self.divide(by, scale)
            if rest is None:
                raise NotAffine(f"{e}: steps of {_text(scale)} straddle multiples of {_text(by)}")
            by = rest
        if self.at_most(split.extent, by):
            return (split,), ()
        above = self.divide(split.extent, by)
        lower = self.times(split.lower_factor, by)
        if above is None:
            top = self.equal(self.times(split.lower_factor, split.extent), split.mark.extent) or self.is_top(split)
            if not top:
                raise NotAffine(f"{e}: {_text(by)} does not divide the extent {_text(split.extent)}")
            self.padded = True
            above = self.ceil(split.extent, by)
        remainder = IterSplit(split.mark, split.lower_factor, by, scale)
        return (remainder,), (IterSplit(split.mark, lower, above),)

    def is_top(self, split: IterSplit) -> bool:
        return self.at_most(split.mark.extent, self.times(split.lower_factor, split.extent))

    def ceil(self, a: Affine, b: Affine) -> Affine:
        from . import rules, symbolic
        from .affine import FLOORDIV, Atom

        if b.is_const:
            return rules.floordiv(self.domain, a + b.const - 1, b.const)
        x = a + b - 1
        return symbolic.floordiv(self.domain, x, b) or Affine.of(Atom(FLOORDIV, (x, b)))

    # -- fusing -----------------------------------------------------------------------------------------------------

    def fuse(self, x: IterSum) -> IterSplit:
        """Fuse a sum without a base into one split: the split of its only iterator, or of a new iterator that fuses
        several.
        """
        args = self.ordered(self.with_limits(x.args))
        if not args:
            raise NotAffine(f"{x} does not move with the loops")
        if len(args) == 1:
            return args[0]
        unit = args[0].scale
        expected = unit
        for arg in args:
            if not self.equal(arg.scale, expected):
                lower = " + ".join(map(str, args[: args.index(arg)]))
                relation = "overlap" if not self.at_most(expected, arg.scale) else "leave a gap"
                raise NotAffine(
                    f"{arg} and {lower} {relation}: wanted a step of {_text(expected)}, found {_text(arg.scale)}"
                )
            expected = self.times(arg.scale, arg.extent)
        extent = self.divide(expected, unit)
        if extent is None:
            raise NotAffine(f"the extent of {x} is not known")
        inner = tuple(IterSplit(a.mark, a.lower_factor, a.extent, self.divide(a.scale, unit) or ONE) for a in args)
        key = tuple((self.key(a), a.scale) for a in inner)
        if key not in self.fused:
            self.fused[key] = IterMark(IterSum(inner), extent)
        return IterSplit(self.fused[key], ONE, extent, unit)

    def ordered(self, args: Sequence[IterSplit]) -> list[IterSplit]:
        """Sort splits by step, smallest first.

        Raises `NotAffine` if a step is not known to be positive, or if two steps cannot be compared.
        """
        rest, result = list(args), []
        for arg in rest:
            if not self.domain.nonnegative(arg.scale - 1) and not self.domain.nonnegative(arg.scale):
                raise NotAffine(f"{arg} has a step that is not known to be positive")
        while rest:
            least = next((a for a in rest if all(b is a or self.at_most(a.scale, b.scale) for b in rest)), None)
            if least is None:
                raise NotAffine(f"the steps of {' + '.join(map(str, rest))} cannot be put in order")
            # If steps are equal, one with a single iteration comes first. Otherwise they overlap and are refused later.
            equal = [a for a in rest if a.scale == least.scale]
            least = min(equal, key=lambda a: 0 if a.extent == ONE else 1)
            rest.remove(least)
            result.append(least)
        return result

    def with_limits(self, args: tuple[IterSplit, ...]) -> tuple[IterSplit, ...]:
        """Return the splits of a sum after fusing those that a predicate bounds together. For example, under `i*4 + j <
        30`, the splits of i and j become one iterator with the extent 30.
        """
        for steps, extent in self.limits:
            parts = [a for a in args if self.key(a) in steps]
            if len(parts) != len(steps) or len(parts) < 1:
                continue
            factor = self.divide(parts[0].scale, steps[self.key(parts[0])])
            if factor is None or any(self.times(steps[self.key(a)], factor) != a.scale for a in parts):
                continue
            key = tuple(sorted((hash(k), str(v)) for k, v in steps.items()))
            if key not in self.fused:
                inner = tuple(IterSplit(a.mark, a.lower_factor, a.extent, steps[self.key(a)]) for a in parts)
                self.fused[key] = IterMark(IterSum(inner), extent)
            others = tuple(a for a in args if a not in parts)
            return self.with_limits((*others, IterSplit(self.fused[key], ONE, extent, factor)))
        return args

    def assume(self, condition: ex.Expr) -> bool:
        """Record a predicate that bounds a fused sum, such as `i*4 + j < 30`. Returns False if its form is not
        supported.
        """
        if isinstance(condition, ex.And):
            first, second = self.assume(condition.a), self.assume(condition.b)
            return first and second
        if isinstance(condition, ex.Call) and condition.op == "likely":
            return self.assume(condition.args[0])
        if isinstance(condition, ex.Not):
            simple = self.analyzer.simplify(condition)
            return not isinstance(simple, ex.Not) and self.assume(simple)
        if isinstance(condition, ex.IntImm):
            return condition.value != 0
        if isinstance(condition, ex.GT | ex.GE):
            kind = ex.LT if isinstance(condition, ex.GT) else ex.LE
            return self.assume(kind(condition.b, condition.a))
        if not isinstance(condition, ex.LT | ex.LE):
            return False
        if self.analyzer.can_prove(condition):
            return True
        try:
            both = self.parse(condition.b - condition.a)
            moved = IterSum(tuple(IterSplit(a.mark, a.lower_factor, a.extent, -a.scale) for a in both.args))
            limit = both.base + (0 if isinstance(condition, ex.LT) else 1)
            split = self.fuse(moved)
        except NotAffine:
            return False
        if isinstance(split.mark.source, ex.Var) and split.lower_factor != ONE:
            return False
        whole = split.scale
        extent = self.ceil(limit, whole)
        # A bound beyond the loops' own range has no effect, and one below 1 leaves no iteration.
        if not self.at_most(extent, split.extent) or not self.domain.nonnegative(extent):
            return False
        steps = {}
        parts = (
            split.mark.source.args
            if isinstance(split.mark.source, IterSum)
            else (IterSplit(split.mark, ONE, split.extent),)
        )
        for arg in parts:
            steps[self.key(arg)] = arg.scale
        self.limits.append((steps, extent))
        return True
