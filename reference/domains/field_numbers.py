"""Arithmetic modulo two primes, with one random evaluation in each of the two fields.

An array of residues has the shape of the values and a last axis of length 2. A random evaluation of a nonzero
polynomial is zero with a probability of at most degree / p (Schwartz 1980, Zippel 1979); here both evaluations must be
zero.

Each prime confuses some numbers: modulo 2^31 - 1, the factor 2^31 would be 1. So there are two primes, and each is 2 q
+ 1 with q prime: the powers of 2, or of any small number, repeat only after q steps or more.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from minitvm import expr as x
from minitvm.errors import Unsupported

# The largest such primes below pi * 2^30 and below sqrt(3) * 2^31. Products of residues fit into 64 bits.
PRIMES = (3373258619, 3719550287)
SEEDS = len(PRIMES)
P = np.array(PRIMES, np.uint64)
Residues = np.ndarray

_SMALL = 64  # residues up to which NumPy broadcasts a pair of primes as quickly as it reads an array of them


def _moduli(like: Residues) -> Residues:
    """Return the primes, repeated to the shape of an array (because an inner loop over two numbers is slow)."""
    if like.size <= _SMALL:
        return P
    return _tiled(1 << (like.size - 1).bit_length())[: like.size].reshape(like.shape)


@cache
def _tiled(size: int) -> Residues:
    return np.tile(P, size // SEEDS)


def plus(a: Residues, b: Residues) -> Residues:
    total = a + b
    return np.minimum(total, total - _moduli(total))  # below p the difference wraps around and is the larger


def minus(a: Residues, b: Residues) -> Residues:
    difference = a - b
    return np.minimum(difference, difference + _moduli(difference))


def times(a: Residues, b: Residues) -> Residues:
    product = a * b
    return np.asarray(product % _moduli(product))


def inverse(a: Residues) -> Residues:
    """Return 1 / a by Fermat's little theorem; 0 where a is 0."""
    return np.stack([_power(a[..., k], p - 2, np.uint64(p)) for k, p in enumerate(PRIMES)], axis=-1)


def _power(a: np.ndarray, exponent: int, modulus: np.uint64) -> np.ndarray:
    """Return a to the power of a nonnegative exponent, by squaring."""
    result, base = np.ones_like(a), a
    while exponent:
        if exponent & 1:
            result = result * base % modulus
        base, exponent = base * base % modulus, exponent >> 1
    return result


def of_integers(values: Any) -> Residues:
    """Return the residues of integers or bools."""
    whole = np.asarray(values)
    wide = np.int64 if whole.dtype != np.uint64 else np.uint64
    return np.remainder(whole.astype(wide)[..., None], P.astype(wide)).astype(np.uint64)


def of_fraction(value: Fraction) -> Residues:
    """Return the residues of a rational; raises `ValueError` if a prime divides the denominator."""
    return np.array([value.numerator * pow(value.denominator, -1, p) % p for p in PRIMES], np.uint64)


def of_floats(values: np.ndarray) -> Residues:
    """Return the residues of floats as exact binary fractions; raises `Unsupported` for infinities and NaN."""
    if not np.isfinite(np.asarray(values, np.float64)).all():
        raise Unsupported("field mode: an input is infinite or NaN, which no element stands for")
    flat = [of_fraction(Fraction(float(v))) for v in np.asarray(values).reshape(-1)]
    return np.array(flat, np.uint64).reshape((*np.shape(values), SEEDS))


def random_residues(rng: np.random.Generator, shape: Sequence[int]) -> Residues:
    return rng.integers(0, P, (*shape, SEEDS), dtype=np.uint64)


def hashed(name: str, *args: Residues) -> Residues:
    """Return the result of an unknown function: a hash of its name and its arguments."""
    state = np.uint64(zlib.crc32(name.encode()) + (1 << 32))
    total: Any = state
    for arg in args:
        # The finalizer of SplitMix64 (Steele, Lea, Flood 2014).
        total = (arg ^ total) * np.uint64(0xBF58476D1CE4E5B9)
        total = (total ^ (total >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        total = total ^ (total >> np.uint64(31))
    return np.asarray(total % _moduli(total))


def as_rational(residues: Residues, limit: int = 1 << 15) -> Fraction | None:
    """Return the fraction with a small numerator and denominator that has these residues, or None (Wang 1981)."""
    low, high, v_low, v_high = int(residues[0]), PRIMES[0], 1, 0
    while low >= limit:
        quotient = high // low
        high, low = low, high - quotient * low
        v_high, v_low = v_low, v_high - quotient * v_low
    if not 0 < abs(v_low) < limit:
        return None
    value = Fraction(low, v_low)
    return value if of_fraction(value).tolist() == list(residues) else None


# --- the meaning of constants -------------------------------------------------------------------------------------

# Denominators up to which a float is read as the rational that it rounds. The square is far below the number of floats
# between two powers of two, so that few other floats are near such a rational.
_DENOMINATORS = {"bfloat16": 4, "float16": 32, "float32": 1 << 10, "float64": 1 << 24}
_DIGITS = {"bfloat16": 2, "float16": 3, "float32": 6, "float64": 12}


@cache
def meaning_of(value: float | Fraction, dtype: x.DType) -> Fraction:
    """Return the rational number that a float constant means.

    A `Fraction` is exact. A float is the rounded form of the intended number: of the rational with a small denominator
    that rounds to it (so a float32 1/6 means 1/6), else of the decimal with few digits (1e-05), else it is itself.
    Different constants of one dtype have different meanings, because a number has only one nearest float.
    """
    if isinstance(value, Fraction):
        return value
    scalar = dtype.scalar
    numpy: Any = scalar.numpy.type
    rounded = numpy(value)
    exact = Fraction(float(rounded))
    # Binary fractions with few bits mean themselves, whatever their size.
    if exact.numerator.bit_length() <= 8:
        return exact
    simple = exact.limit_denominator(_DENOMINATORS.get(str(scalar), 1))
    if simple and numpy(float(simple)) == rounded:
        return simple
    decimal = str(rounded)
    digits = decimal.split("e")[0].replace(".", "").replace("-", "").strip("0")
    return Fraction(decimal) if len(digits) <= _DIGITS.get(str(scalar), 0) else exact
