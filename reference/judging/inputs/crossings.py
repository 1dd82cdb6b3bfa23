"""Where a line through an input meets a multiple of a step, at a number that the input can hold: `crossings`.

`round(x * 37.5 - 1.25)` has its ties where the product is 1.75, 2.75, ...; yet of the x that lead there few are floats,
and at their neighbours there is no tie. The first is x = 0.5, the first below zero is x = -1.5. A quotient of integers
likewise has few numerators `77 * x + 512` that its divisor divides.
"""

from __future__ import annotations

import math
from fractions import Fraction

from minitvm import expr as x

BITS = {16: 11, 32: 24, 64: 53}  # of the significand of a float
BESIDE = (-2, -1, 0, 1, 2)  # periods from the first crossing; of both parities, as ties to even go two ways
PARTS = (1, 2, 3, 7)  # of the largest integer of a dtype


def crossings(factor: Fraction, term: Fraction, step: Fraction, dtype: x.DType) -> frozenset[Fraction]:
    """Multiples of `step` that `factor * n + term` takes for some n of a dtype, those of small n."""
    if not factor:
        return frozenset()
    # n = (k * step - term) / factor = (k * p - q) * r / s, with integers p, q, r, s, and r / s in lowest terms.
    common = math.lcm(step.denominator, term.denominator)
    p, q = int(step * common), int(term * common)
    unit = 1 / (factor * common)
    period = unit.denominator if dtype.is_int else _odd(unit.denominator)
    if not dtype.is_int and period.bit_length() > BITS[dtype.bits]:
        return frozenset()
    # n is held if `period` divides k * p - q.
    shared = math.gcd(p, period)
    if q % shared:
        return frozenset()
    period //= shared
    first = q // shared * pow(p // shared, -1, period) % period if period > 1 else 0
    return frozenset(k * step for k in (first + m * period for m in BESIDE) if _held((k * step - term) / factor, dtype))


def far_crossings(factor: Fraction, term: Fraction, step: Fraction, dtype: x.DType) -> frozenset[Fraction]:
    """The multiples of `step` next below the line at integers of large magnitude, where factors that are nearly the
    same lead to other multiples."""
    ends = [int(end) // part for end in (dtype.min, dtype.max) for part in PARTS]
    return frozenset(math.floor((factor * end + term) / step) * step for end in ends)


def _held(n: Fraction, dtype: x.DType) -> bool:
    if dtype.is_int:
        return n.denominator == 1 and int(dtype.min) <= n <= int(dtype.max)
    return abs(n.numerator).bit_length() <= BITS[dtype.bits] + _twos(abs(n.numerator)) and n.denominator <= 1 << 24


def _odd(n: int) -> int:
    return n >> _twos(n)


def _twos(n: int) -> int:
    return (n & -n).bit_length() - 1 if n else 0
