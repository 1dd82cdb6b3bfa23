"""Arithmetic modulo the prime 2^31 - 1, on two independent evaluations ("seeds") side by side.

An array of residues has the shape of the values and a last axis of length 2. A random evaluation of a polynomial that
is not zero is zero with probability at most degree / p (Schwartz 1980, Zippel 1979), here on both seeds at once.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from minitvm import expr as x

PRIME = 2**31 - 1
SEEDS = 2
P = np.uint64(PRIME)
Residues = np.ndarray


def plus(a: Residues, b: Residues) -> Residues:
    total = a + b
    return np.minimum(total, total - P)  # below p the difference wraps around and is the larger


def minus(a: Residues, b: Residues) -> Residues:
    difference = a - b
    return np.minimum(difference, difference + P)


def times(a: Residues, b: Residues) -> Residues:
    return np.asarray((a * b) % P)


def power(a: Residues, exponent: int) -> Residues:
    """a to a power from 0 up, by squaring."""
    result, base = np.ones_like(a), a
    while exponent:
        if exponent & 1:
            result = times(result, base)
        base, exponent = times(base, base), exponent >> 1
    return result


def inverse(a: Residues) -> Residues:
    """1 / a by Fermat; 0 where a is 0."""
    return power(a, PRIME - 2)


def of_integers(values: Any) -> Residues:
    """The residues of integers or bools, the same on both seeds."""
    whole = np.asarray(values)
    reduced = np.remainder(whole.astype(np.int64) if whole.dtype != np.uint64 else whole, PRIME).astype(np.uint64)
    return np.repeat(reduced[..., None], SEEDS, axis=-1)


def of_fraction(value: Fraction) -> Residues:
    """The residue of a rational: an exact quotient, unless p divides the denominator."""
    residue = value.numerator * pow(value.denominator, -1, PRIME) % PRIME
    return np.full(SEEDS, residue, np.uint64)


def of_floats(values: np.ndarray) -> Residues:
    """The residues of finite floats, each the binary fraction that it is."""
    flat = [of_fraction(Fraction(float(v))) for v in np.asarray(values).reshape(-1)]
    return np.array(flat, np.uint64).reshape((*np.shape(values), SEEDS))


def random_residues(rng: np.random.Generator, shape: Sequence[int]) -> Residues:
    return rng.integers(0, PRIME, (*shape, SEEDS), dtype=np.uint64)


def hashed(name: str, *args: Residues) -> Residues:
    """A function about which nothing is known but that equal arguments give equal results."""
    state = np.uint64(zlib.crc32(name.encode()) + (1 << 32))
    total: Any = state
    for arg in args:
        # The finalizer of SplitMix64 (Steele, Lea, Flood 2014).
        total = (arg ^ total) * np.uint64(0xBF58476D1CE4E5B9)
        total = (total ^ (total >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        total = total ^ (total >> np.uint64(31))
    return np.asarray(total % P)


def as_rational(residues: Residues, limit: int = 1 << 15) -> Fraction | None:
    """The fraction of small numerator and denominator with that residue on both seeds, or None (Wang 1981)."""
    first, second = (int(r) for r in residues)
    if first != second:
        return None
    low, high, v_low, v_high = first, PRIME, 1, 0
    while low >= limit:
        quotient = high // low
        high, low = low, high - quotient * low
        v_high, v_low = v_low, v_high - quotient * v_low
    return Fraction(low, v_low) if 0 < abs(v_low) < limit else None


# --- what a constant means ----------------------------------------------------------------------------------------

# Denominators up to which a float is read as the rational that it rounds. The square is far below the number of floats
# between two powers of two, so that few other floats are near such a rational.
_DENOMINATORS = {"float16": 32, "float32": 1 << 10, "float64": 1 << 24}
_DIGITS = {"float16": 3, "float32": 6, "float64": 12}


@cache
def meaning_of(value: float | Fraction, dtype: x.DType) -> Fraction:
    """The rational that a float constant stands for.

    A `Fraction` is meant as it is. A float is the rounded form of what somebody meant: the rational of small
    denominator that rounds to it (so that a float32 1/6 is 1/6), else the decimal of few digits that does (1e-05), else
    the binary fraction that it is. Different constants of one dtype stay different, as only one float is nearest.
    """
    if isinstance(value, Fraction):
        return value
    scalar = dtype.scalar
    numpy: Any = scalar.numpy.type
    rounded = numpy(value)
    exact = Fraction(float(rounded))
    # Binary fractions of few bits are meant as they are, whatever their size.
    if exact.numerator.bit_length() <= 8:
        return exact
    simple = exact.limit_denominator(_DENOMINATORS.get(str(scalar), 1))
    if simple and numpy(float(simple)) == rounded:
        return simple
    decimal = str(rounded)
    digits = decimal.split("e")[0].replace(".", "").replace("-", "").strip("0")
    return Fraction(decimal) if len(digits) <= _DIGITS.get(str(scalar), 0) else exact
