"""`sites`: the places at which a program's behaviour changes, each with the values of an operand at which it does.

These are comparisons, maxima and minima at equality, roundings half way between integers, casts at the ends of a narrow
range, integer divisions around multiples of the divisor, and functions where they overflow or are undefined.
`reference.judging.inputs.preimages` finds inputs that lead there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from minitvm import expr as x

from ..programs import Program, parameters
from .crossings import crossings, far_crossings
from .preimages import Preimages, Solution
from .signs import ORDERED, nodes

HALVES = frozenset(Fraction(k, 2) for k in (-5, -3, -2, -1, 1, 2, 3, 5))  # whole ones: ceil is not floor + 1
ROUNDINGS = ("floor", "ceil", "trunc", "round", "nearbyint")
GROWING = {"exp": math.e, "exp2": 2.0, "exp10": 10.0, "sinh": math.e, "cosh": math.e, "sigmoid": math.e, "tanh": math.e}
AT_ZERO = ("log", "log2", "log10", "log1p", "sqrt", "rsqrt", "pow", "atanh", "acosh", "asin", "acos", "hypot")
KNOWN = frozenset((*ROUNDINGS, *GROWING, *AT_ZERO, "abs", "shift_right"))
LARGEST = Fraction(2) ** 64
_EXPONENTS = {16: (16, 24), 32: (128, 149), 64: (1024, 1074)}  # of 2: where floats overflow, and where they underflow


@dataclass(frozen=True)
class Site:
    """An operand, and the values that it should take; it is a `pole` if floats change there but formulas do not."""

    operand: x.Expr
    values: frozenset[Fraction]
    pole: bool = False


def exponents(op: str, dtype: x.DType) -> list[int]:
    """Return the magnitudes of arguments at which an exponential overflows, and, if negative, becomes zero."""
    return [math.ceil(n / math.log2(GROWING[op])) + 1 for n in _EXPONENTS[dtype.bits]]


def solutions(program: Program) -> tuple[list[Solution], list[Solution]]:
    """Return the inputs that lead to the sites of a program: first to ordinary sites, then to poles."""
    back, beyond = Preimages(program), Preimages(program)
    for site in sites(program, back):
        (beyond if site.pole else back).solve(site.operand, site.values)
    return back.solutions(), beyond.solutions()


def sites(program: Program, back: Preimages) -> Iterator[Site]:
    """Yield every place at which a program's behaviour changes, as far as inputs lead there."""
    for n in nodes(program):
        if isinstance(n, ORDERED):
            yield from _compared(n, back)
        elif isinstance(n, x.Cast):
            yield from _cast(n, back)
        elif isinstance(n, x.Call):
            yield from _called(n, back)
        elif isinstance(n, x.Div | x.FloorDiv | x.Mod | x.FloorMod):
            yield from _divided(n, back)


def _compared(e: Any, back: Preimages) -> Iterator[Site]:
    both = back.reach(e.a), back.reach(e.b)
    if all(both):
        yield Site(x.Sub(e.a, e.b), frozenset((Fraction(0), Fraction(1), Fraction(-1))))
    elif any(both):
        operand, other = (e.a, e.b) if both[0] else (e.b, e.a)
        value = back.at(other, 0)
        plain = [n for n in x.walk(other) if isinstance(n, x.IntImm | x.FloatImm)]
        values = {Fraction(n.value) for n in plain if _plain(n)} | ({value} if value is not None else set())
        yield Site(operand, frozenset(v for v in values if abs(v) < LARGEST))


def _cast(e: x.Cast, back: Preimages) -> Iterator[Site]:
    source, target = e.value.dtype, e.dtype
    if not target.is_int or target.is_bool or not back.reach(e.value):
        return
    values: frozenset[Fraction] = frozenset()
    if source.is_float and not _whole(e.value):
        values = HALVES | _crossed(e.value, Fraction(1, 2), back)
    if target.bits <= 32 and (source.is_float or source.bits > target.bits or source.kind != target.kind):
        values |= {Fraction(int(target.min)), Fraction(int(target.max))}
    yield Site(e.value, values)


def _called(e: x.Call, back: Preimages) -> Iterator[Site]:
    if e.op not in KNOWN or not back.reach(e.args[0]):
        return
    first, dtype = e.args[0], e.args[0].dtype
    if e.op in ROUNDINGS:
        yield Site(first, HALVES | _crossed(first, Fraction(1, 2), back))
    elif e.op == "abs":
        yield Site(first, frozenset((Fraction(0), Fraction(1), Fraction(-1))))
    elif e.op == "shift_right":
        amount = e.args[1]
        if isinstance(amount, x.IntImm) and 0 < amount.value < 63:
            yield Site(first, _around(2**amount.value) | _crossed(first, Fraction(2**amount.value), back))
    elif e.op in GROWING and dtype.is_float:
        steps = exponents(e.op, dtype)
        yield Site(first, frozenset(Fraction(s * n) for n in steps for s in (-1, 1)), pole=True)
    elif e.op in AT_ZERO and dtype.is_float:
        large = Fraction(2) ** (_EXPONENTS[dtype.bits][0] * 2 // 3)
        yield Site(first, frozenset((Fraction(0), Fraction(-1), Fraction(1), large)), pole=True)


def _divided(e: Any, back: Preimages) -> Iterator[Site]:
    if e.a.dtype.is_float:
        if isinstance(e, x.Div):
            if back.reach(e.b):
                yield Site(e.b, frozenset((Fraction(0),)), pole=True)
        elif back.reach(e.a):
            yield Site(x.Div(e.a, e.b), HALVES)
    elif isinstance(e.b, x.IntImm) and e.b.value and back.reach(e.a):
        yield Site(e.a, _around(abs(e.b.value)) | _crossed(e.a, Fraction(abs(e.b.value)), back))


def _crossed(e: x.Expr, step: Fraction, back: Preimages) -> frozenset[Fraction]:
    """Return the multiples of `step` that an operand is equal to for some value of its parameter."""
    term, one = back.at(e, 0), back.at(e, 1)
    if term is None or one is None:
        return frozenset()
    values: set[Fraction] = set()
    for dtype in {parameters(back.program)[place].dtype for place in back.reach(e)}:
        values |= crossings(one - term, term, step, dtype)
        if dtype.is_int and e.dtype.is_int:
            values |= far_crossings(one - term, term, step, dtype)
    return frozenset(values)


def _whole(e: x.Expr) -> bool:
    """Return whether a float is always an integer, judged by its expression."""
    if isinstance(e, x.FloatImm):
        return Fraction(e.value).denominator == 1 if math.isfinite(e.value) else False
    if isinstance(e, x.Call):
        return e.op in ROUNDINGS
    if isinstance(e, x.Cast):
        return e.value.dtype.is_int or _whole(e.value)
    if isinstance(e, x.Min | x.Max | x.Add | x.Sub | x.Mul):
        return _whole(e.a) and _whole(e.b)
    return False


def _around(c: int) -> frozenset[Fraction]:
    return frozenset(Fraction(s * v) for v in (0, c // 2, c, c + c // 2) for s in (-1, 1))


def _plain(n: x.IntImm | x.FloatImm) -> bool:
    return not n.dtype.is_bool and math.isfinite(n.value)
