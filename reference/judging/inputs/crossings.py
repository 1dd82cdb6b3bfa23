"""`crossings`: find the values of an input at which a linear function of it is exactly a multiple of a step.

`round(x * 37.5 - 1.25)` has ties where the product is 1.75, 2.75, ...; but few of these x are floats, and their
neighbours give no tie. The first is x = 0.5, and the first below zero is x = -1.5. Likewise, few numerators `77 * x +
512` of an integer quotient are divisible by the divisor.
"""

from __future__ import annotations

import math
from fractions import Fraction

from minitvm import expr as x

BITS = {16: 11, 32: 24, 64: 53}  # of the significand of a float
BESIDE = (-2, -1, 0, 1, 2)  # periods from the first crossing; of both parities, as ties to even go two ways
PARTS = (1, 2, 3, 7)  # of the largest integer of a dtype


def crossings(factor: Fraction, term: Fraction, step: Fraction, dtype: x.DType) -> frozenset[Fraction]:
    """Return multiples of `step` that are equal to `factor * n + term` for a small n of the dtype."""
    if not factor:
        return frozenset()
    # n = (k * step - term) / factor = (k * p - q) * r / s, with integers p, q, r, s, and r / s in lowest terms.
    common = math.lcm(step.denominator, term.denominator)
    p, q = int(step * common), int(term * common)
    unit = 1 / (factor * common)
    period = unit.denominator if dtype.is_int else _odd(unit.denominator)
    if not dtype.is_int and period.bit_length() > BITS[dtype.bits]:
        return frozenset()
    # n is an integer of the dtype if `period` divides k * p - q.
    shared = math.gcd(p, period)
    if q % shared:
        return frozenset()
    period //= shared
    first = q // shared * pow(p // shared, -1, period) % period if period > 1 else 0
    return frozenset(k * step for k in (first + m * period for m in BESIDE) if _held((k * step - term) / factor, dtype))


def far_crossings(factor: Fraction, term: Fraction, step: Fraction, dtype: x.DType) -> frozenset[Fraction]:
    """Return the multiples of `step` just below the line at integers of large magnitude. There, factors that are nearly
    the same lead to other multiples.
    """
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
