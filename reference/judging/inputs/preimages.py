"""Solve backwards for the inputs that give an expression somewhere in a program a certain value.

From a comparison, a clip or a rounding, the search goes back to the parameters: through sums, products, quotients,
casts, roundings, choices, names, and the values stored in intermediate buffers. If both operands depend on data, one is
solved for and the other is assumed to be at its `ground`: 0 in a sum, 1 in a product. A solution is a hint, never a
proof: programs run on it as on any other input, and inputs on which a program is undefined are left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from minitvm import expr as x
from minitvm.te import nodes as te
from minitvm.tir import nodes as t

from ...domains.exact import is_identity
from ...domains.field_numbers import meaning_of
from ..programs import Program, entry, parameters
from .signs import nodes

STEPS = 4000  # of one search through a program: longer chains are cut off
VALUES = 64  # of one parameter on one way down
FARTHEST = 2**120

Values = frozenset[Fraction]
Ground = tuple[tuple[int, int], ...]  # (place of a parameter, 0 or 1): what it holds beside the planted values


@dataclass(frozen=True)
class Solution:
    """Values for the parameter at `place`, if the parameters of `ground` are 0 or 1 everywhere."""

    place: int
    ground: Ground
    values: Values


class Preimages:
    """The ways from the expressions of one program back to its parameters."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.places: dict[Any, int] = {}
        for k, (key, p) in enumerate(zip(_keys(program), parameters(program), strict=True)):
            if p.is_input and not p.dtype.is_bool:
                self.places[key] = k
        self.preimages: dict[tuple[int, Ground], set[Fraction]] = {}
        self._steps = STEPS
        self._reached: dict[Any, frozenset[int]] = {}
        self._names: dict[x.Node, frozenset[Any]] = {}

    @cached_property
    def sources(self) -> dict[Any, list[x.Expr]]:
        """The expressions that may be the value of an element of a buffer or tensor, or of a name."""
        sources: dict[Any, list[x.Expr]] = {}
        for n in nodes(self.program):
            if isinstance(n, t.BufferStore):
                sources.setdefault(self.root(n.buffer), []).append(n.value)
            elif isinstance(n, t.LetStmt | x.Let):
                sources.setdefault(n.var, []).append(n.value)
        return sources

    @cached_property
    def _same(self) -> dict[Any, Any]:
        """A map from views and kernel parameters to the buffer or value that they represent."""
        originals: dict[Any, Any] = {}
        for n in nodes(self.program):
            if isinstance(n, t.MatchBufferRegion):
                originals[n.buffer] = n.source.buffer
            elif isinstance(n, t.KernelCall) and isinstance(self.program, t.IRModule):
                if n.kernel in self.program:
                    originals.update(
                        {p: a for p, a in zip(self.program[n.kernel].params, n.args, strict=True) if p is not a}
                    )
        return originals

    def root(self, key: Any) -> Any:
        """Return the original buffer of a view or of a kernel's parameter."""
        for _ in range(20):
            if key not in self._same:
                break
            key = self._same[key]
        return key

    def solve(self, e: x.Expr, values: Iterable[Fraction]) -> None:
        """Record the inputs for which `e` has one of these values."""
        self._down(e, frozenset(values), {}, frozenset())

    def solutions(self) -> list[Solution]:
        """Return all recorded solutions, first those that need no ground."""
        every = [Solution(place, ground, frozenset(v)) for (place, ground), v in self.preimages.items()]
        return sorted(every, key=lambda s: (len(s.ground), s.place, s.ground))

    # --- down to the parameters ------------------------------------------------------------------------------------

    def behind(self, e: x.Expr) -> tuple[Any, list[x.Expr]]:
        """Return the key of a load or variable, and the expressions that may be its value."""
        if isinstance(e, te.TensorLoad):
            key = e.tensor
        else:
            key = self.root(e.buffer if isinstance(e, t.BufferLoad) else e)
        return key, self._behind(key)

    def _behind(self, key: Any) -> list[x.Expr]:
        if isinstance(key, te.Tensor):
            return [key.op.body[key.value_index]] if isinstance(key.op, te.ComputeOp) else []
        return self.sources.get(key, [])

    def _down(self, e: x.Expr, values: Values, ground: Mapping[int, int], seen: frozenset[Any]) -> None:
        self._steps -= 1
        # Compare integers of the fraction: `abs(v) <= FARTHEST` would make two more fractions.
        values = frozenset(v for v in values if abs(v.numerator) <= FARTHEST * v.denominator)
        if self._steps < 0 or not values:
            return
        if isinstance(e, t.BufferLoad | te.TensorLoad | x.Var):
            key, sources = self.behind(e)
            if key in self.places:
                place = self.places[key]
                mine = self.preimages.setdefault((place, tuple(sorted(ground.items()))), set())
                mine |= set(sorted(values, key=abs)[: max(0, VALUES - len(mine))])
            if key not in seen:
                for source in sources:
                    self._down(source, values, ground, seen | {key})
        elif isinstance(e, x.Add | x.Sub | x.Mul) and (line := affine(e)) is not None:
            self._down(line.of, line.solved(values, e.dtype), ground, seen)
        elif isinstance(e, x.Mul) and (power := _power(e)) is not None:
            base, n = power
            self._down(base, frozenset(r for v in values for r in _roots(v, n)), ground, seen)
            self._through(e, values, ground, seen)  # what is large itself overflows on the way
        elif isinstance(e, x.Add | x.Sub | x.Mul | x.Div | x.FloorDiv):
            self._through(e, values, ground, seen)
        elif isinstance(e, x.Min | x.Max):
            self._down(e.a, values, ground, seen)
            self._down(e.b, values, ground, seen)
        elif isinstance(e, x.FloorMod | x.Mod):
            c = self.at(e.b, 0)
            self._down(e.a, frozenset(w for v in values for w in ((v, v + c, v - c) if c else (v,))), ground, seen)
        elif isinstance(e, x.Select):
            self._down(e.true_value, values, ground, seen)
            self._down(e.false_value, values, ground, seen)
        elif isinstance(e, x.Let):
            self._down(e.body, values, ground, seen)
        elif isinstance(e, x.Broadcast | x.Cast):
            self._down(e.value, values, ground, seen)
        elif isinstance(e, x.Shuffle):
            for vector in e.vectors:
                self._down(vector, values, ground, seen)
        elif isinstance(e, x.Reduce):
            others = {**ground, **dict.fromkeys(self.reach(e.sources[e.value_index]), 0)}
            one = any(isinstance(n, x.Min | x.Max) for n in x.walk(e.combiner))
            self._down(e.sources[e.value_index], values, ground if one else others, seen)
        elif isinstance(e, x.Call) and e.op == "fma":
            factor, other, term = e.args
            self._down(x.Add(x.Mul(factor, other), term), values, ground, seen)
        elif isinstance(e, x.Call):
            for arg, preimage in _inverse(e, values):
                self._down(arg, preimage, ground, seen)

    def _through(self, e: Any, values: Values, ground: Mapping[int, int], seen: frozenset[Any]) -> None:
        """Solve for each operand in turn, with the other one at its ground."""
        product = isinstance(e, x.Mul | x.Div | x.FloorDiv)
        for mine, other, left in ((e.a, e.b, True), (e.b, e.a, False)):
            reached = self.reach(mine)
            if not reached:
                continue
            at = int(product)
            beside = self.reach(other)
            c = self.at(other, at)
            if c is None or (product and c == 0):
                continue
            preimage = _undone(e, values, c, left)
            self._down(mine, preimage, {**ground, **dict.fromkeys(beside, at)}, seen)

    # --- values at a ground ----------------------------------------------------------------------------------------

    def reach(self, e: x.Expr, seen: frozenset[Any] = frozenset()) -> frozenset[int]:
        """Return the parameters that an expression depends on, by position."""
        places: set[int] = set()
        for key in self._named(e):
            if key in self.places:
                places.add(self.places[key])
            if key in self._reached:
                places |= self._reached[key]
            elif key not in seen:
                sources = self._behind(key)
                inner: frozenset[int] = frozenset().union(*(self.reach(s, seen | {key}) for s in sources))
                if not seen:
                    self._reached[key] = inner
                places |= inner
        return frozenset(places)

    def _named(self, e: x.Node) -> frozenset[Any]:
        """Return the keys of the loads and variables whose values an expression uses, except those in indices.

        The result is cached for each node, because a chain of maxima asks for each of them, and nodes may be shared.
        """
        stack = [e]
        while stack:
            n: Any = stack[-1]
            if n in self._names:
                stack.pop()
            elif isinstance(n, t.BufferLoad | te.TensorLoad | x.Var):
                self._names[n] = frozenset((self.behind(n)[0],))
            else:
                below = n.sources if isinstance(n, x.Reduce) else tuple(x.children(n))
                unknown = [inner for inner in below if inner not in self._names]
                if unknown:
                    stack += unknown
                else:
                    self._names[n] = frozenset().union(*(self._names[inner] for inner in below))
        return self._names[e]

    def at(self, e: x.Expr, ground: int, depth: int = 8) -> Fraction | None:
        """Return the value of an expression if all data is `ground`; None if it is not simple."""
        if isinstance(e, x.IntImm | x.FloatImm):
            return _number(e)
        if depth == 0:
            return Fraction(ground)
        if isinstance(e, t.BufferLoad | te.TensorLoad | x.Var):
            key, sources = self.behind(e)
            if key in self.places or not sources:
                return Fraction(ground)
            constants = [s for s in sources if isinstance(s, x.IntImm | x.FloatImm)] or sources
            return self.at(constants[0], ground, depth - 1)
        if isinstance(e, x.Cast | x.Broadcast):
            return self.at(e.value, ground, depth)
        if isinstance(e, x.Add | x.Sub | x.Mul | x.Div | x.FloorDiv):
            a, b = self.at(e.a, ground, depth - 1), self.at(e.b, ground, depth - 1)
            if a is None or b is None:
                return None
            if isinstance(e, x.Add | x.Sub):
                return a + b if isinstance(e, x.Add) else a - b
            if isinstance(e, x.Mul):
                return a * b
            return a / b if b else None
        if isinstance(e, x.Reduce):
            return Fraction(0)
        return Fraction(ground)


@dataclass(frozen=True)
class Line:
    """The expression factor * of + term, where `of` is a load."""

    of: x.Expr
    factor: Fraction
    term: Fraction

    def solved(self, values: Values, dtype: x.DType) -> Values:
        """Return the loads for which the line has one of these values; for integers, also those that wrap around to
        it.
        """
        plain = {(v - self.term) / self.factor for v in values}
        if not dtype.is_int or self.factor.denominator != 1 or self.term.denominator != 1:
            return frozenset(plain)
        for v in values:
            if v.denominator == 1:
                plain |= _modular(int(v - self.term), int(self.factor), dtype)
        return frozenset(plain)


def affine(e: x.Expr) -> Line | None:
    """Return an expression as a line of one load, or None if it is not one."""
    if isinstance(e, t.BufferLoad | te.TensorLoad):
        return Line(e, Fraction(1), Fraction(0))
    if isinstance(e, x.Add | x.Sub):
        a, b = _term(e.a), _term(e.b)
        sign = 1 if isinstance(e, x.Add) else -1
        if isinstance(a, Fraction) and isinstance(b, Line):
            return Line(b.of, sign * b.factor, a + sign * b.term)
        if isinstance(a, Line) and isinstance(b, Fraction):
            return Line(a.of, a.factor, a.term + sign * b)
        if isinstance(a, Line) and isinstance(b, Line) and x.structural_equal(a.of, b.of):
            factor = a.factor + sign * b.factor
            return Line(a.of, factor, a.term + sign * b.term) if factor else None
    if isinstance(e, x.Mul):
        a, b = _term(e.a), _term(e.b)
        line, c = (a, b) if isinstance(a, Line) else (b, a)
        if isinstance(line, Line) and isinstance(c, Fraction) and c:
            return Line(line.of, line.factor * c, line.term * c)
    return None


def _term(e: x.Expr) -> Line | Fraction | None:
    if isinstance(e, x.IntImm | x.FloatImm):
        return _number(e)
    return affine(e)


def _number(e: x.IntImm | x.FloatImm) -> Fraction | None:
    """Return a constant as the field mode reads it: 0.1 is exactly a tenth, so that ten times it may be an integer."""
    if is_identity(e) or not math.isfinite(e.value):
        return None
    return Fraction(e.value) if isinstance(e, x.IntImm) else meaning_of(e.value, e.dtype)


def _power(e: x.Expr) -> tuple[x.Expr, int] | None:
    """Return the base and the exponent of a product of equal factors, or None."""
    factors, stack = [], [e]
    while stack:
        n = stack.pop()
        if isinstance(n, x.Mul):
            stack += [n.a, n.b]
        else:
            factors.append(n)
    first = factors[0]
    return (first, len(factors)) if all(x.structural_equal(first, f) for f in factors[1:]) else None


def _roots(value: Fraction, n: int) -> list[Fraction]:
    """Return the real n-th roots of a number, exact if they are rational with few digits."""
    if value < 0 and n % 2 == 0:
        return []
    near = Fraction(abs(float(value)) ** (1 / n))
    simple = near.limit_denominator(1 << 12)
    root = simple if simple**n == abs(value) else near
    return [root, -root] if n % 2 == 0 else [root if value >= 0 else -root]


def _modular(value: int, factor: int, dtype: x.DType) -> set[Fraction]:
    """Return up to four integers of a dtype whose product with `factor` wraps around to `value`."""
    modulus = 1 << dtype.bits
    common = math.gcd(factor, modulus)
    if value % common:
        return set()
    period = modulus // common
    first = value // common * pow(factor // common, -1, period) % period if period > 1 else 0
    low = int(dtype.min)
    return {Fraction((first + k * period - low) % modulus + low) for k in range(min(common, 4))}


def _keys(program: Program) -> list[Any]:
    if isinstance(program, t.PrimFunc | t.IRModule):
        return list(entry(program).params)
    return list(program)


def _undone(e: Any, values: Values, c: Fraction, left: bool) -> Values:
    """Return the operands for which `operand op c` (or `c op operand` unless `left`) is one of these values."""
    if isinstance(e, x.Add):
        return frozenset(v - c for v in values)
    if isinstance(e, x.Sub):
        return frozenset(v + c if left else c - v for v in values)
    if isinstance(e, x.Mul):
        return frozenset(v / c for v in values)
    if not left:
        return frozenset(c / v for v in values if v)
    if isinstance(e, x.FloorDiv) or e.a.dtype.is_int:
        return frozenset(w for v in values for w in (v * c, v * c + c - 1))
    return frozenset(v * c for v in values)


_NEAR = ("floor", "ceil", "trunc", "round", "nearbyint")
_INVERSE = {
    "sqrt": lambda v: v * v if v >= 0 else None,
    "exp": lambda v: math.log(v) if v > 0 else None,
    "exp2": lambda v: math.log2(v) if v > 0 else None,
    "exp10": lambda v: math.log10(v) if v > 0 else None,
    "log": lambda v: math.exp(v) if abs(v) < 80 else None,
    "log2": lambda v: Fraction(2) ** int(v) if v.denominator == 1 and abs(v) < 100 else None,
    "tanh": lambda v: math.atanh(v) if abs(v) < 1 else None,
    "sigmoid": lambda v: -math.log(1 / v - 1) if 0 < v < 1 else None,
    "rsqrt": lambda v: 1 / (v * v) if v > 0 else None,
}


def _inverse(e: x.Call, values: Values) -> Iterator[tuple[x.Expr, Values]]:
    """Yield the arguments of a call that must have certain values, with these values."""
    if e.op in _INVERSE:
        undone = (_INVERSE[e.op](v) for v in values)
        yield e.args[0], frozenset(Fraction(v) for v in undone if v is not None)
    elif e.op in _NEAR:
        yield e.args[0], values | {v + half for v in values for half in (Fraction(-1, 2), Fraction(1, 2))}
    elif e.op == "abs":
        yield e.args[0], values | {-v for v in values}
    elif e.op == "if_then_else":
        yield e.args[1], values
        yield e.args[2], values
    elif e.op in ("shift_right", "shift_left") and isinstance(e.args[1], x.IntImm) and 0 <= e.args[1].value < 64:
        c = Fraction(2) ** (e.args[1].value if e.op == "shift_right" else -e.args[1].value)
        yield e.args[0], frozenset(w for v in values for w in ((v * c, v * c + c - 1) if c > 1 else (v * c,)))
    elif e.args:
        yield e.args[0], values
