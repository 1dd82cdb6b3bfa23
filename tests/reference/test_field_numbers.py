"""Arithmetic modulo two primes, and what constants mean."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm.expr import DType
from minitvm.reference.domains import field_numbers as f

residues = st.tuples(*(st.integers(0, p - 1) for p in f.PRIMES)).map(lambda v: np.array(v, np.uint64))
EDGES = [[0, 1, 2, p - 1, p - 2, 1 << 16, 1 << 30, 1 << 31] for p in f.PRIMES]


def by_hand(function: Callable[[int, int], int], a: np.ndarray, b: np.ndarray) -> list[list[int]]:
    rows = zip(a.reshape(-1, 2).tolist(), b.reshape(-1, 2).tolist())
    return [[function(v, w) % p for v, w, p in zip(one, other, f.PRIMES)] for one, other in rows]


OPERATIONS = [(f.plus, operator.add), (f.minus, operator.sub), (f.times, operator.mul)]


@given(residues, residues)
def test_operations_are_those_of_the_field(a: np.ndarray, b: np.ndarray) -> None:
    for ours, whole in OPERATIONS:
        assert [ours(a, b).tolist()] == by_hand(whole, a, b)


@pytest.mark.parametrize("shape", [(8, 8), (2, 1, 32), (64, 1)])
def test_operations_at_the_edges(shape: tuple[int, ...]) -> None:
    a, b = (np.stack([np.meshgrid(edges, edges)[k].reshape(-1) for edges in EDGES], -1) for k in (0, 1))
    a, b = (v.astype(np.uint64).reshape(*shape, 2) for v in (a, b))
    for ours, whole in OPERATIONS:
        assert ours(a, b).reshape(-1, 2).tolist() == by_hand(whole, a, b)
    with_one = [f.times(a, a[:1, ..., :]), f.plus(a, a[:1])]  # broadcast
    assert with_one[0].shape == with_one[1].shape == a.shape


@pytest.mark.parametrize("prime", f.PRIMES)
def test_small_numbers_have_large_orders(prime: int) -> None:
    """No power of a factor of quantisation is a small number in either field."""
    half = prime // 2
    for number in (prime, half):
        assert all(number % d for d in range(2, math.isqrt(number) + 1))
    assert all(pow(base, exponent, prime) != 1 for base in (2, 3, 5, 10) for exponent in (1, 2))


def test_powers_of_two_are_all_different() -> None:
    powers = [tuple(f.of_fraction(Fraction(2) ** k).tolist()) for k in range(-200, 200)]
    negative = [tuple(f.of_fraction(-(Fraction(2) ** k)).tolist()) for k in range(-200, 200)]
    small = [tuple(f.of_fraction(Fraction(k)).tolist()) for k in range(3, 1000) if k & (k - 1)]
    assert len({*powers, *negative, *small}) == 800 + len(small)


@given(residues)
def test_inverses(a: np.ndarray) -> None:
    assert f.times(a, f.inverse(a)).tolist() == [int(v != 0) for v in a]


@given(st.fractions(max_denominator=1000).filter(lambda v: abs(v.numerator) < 2**15))
def test_small_rationals_come_back(value: Fraction) -> None:
    assert f.as_rational(f.of_fraction(value)) == value


@given(st.integers(-(2**63), 2**64 - 1))
def test_integers(value: int) -> None:
    assert f.of_integers(value).tolist() == [value % p for p in f.PRIMES]


def test_random_residues_are_no_rationals() -> None:
    made = f.random_residues(np.random.default_rng(0), (50,))
    assert (made[:, 0] != made[:, 1]).all()
    assert f.as_rational(made[0]) is None


def test_hashes_tell_functions_and_arguments_apart() -> None:
    made = f.random_residues(np.random.default_rng(0), (1000,))
    values = [f.hashed(name, made) for name in ("exp", "tanh")] + [f.hashed("exp", f.plus(made, f.of_integers(1)))]
    assert len(np.unique(np.concatenate(values))) == 6000
    assert (f.hashed("pow", made, values[0]) != f.hashed("pow", values[0], made)).all()


@pytest.mark.parametrize(
    ("dtype", "value", "meant"),
    [
        ("float32", Fraction(1, 6), Fraction(1, 6)),
        ("float32", float(np.float32(1 / 6)), Fraction(1, 6)),
        ("float16", float(np.float16(1 / 24)), Fraction(1, 24)),
        ("float64", 0.1, Fraction(1, 10)),
        ("float32", 0.1, Fraction(1, 10)),
        ("float32", 1e-5, Fraction(1, 100000)),
        ("float32", 0.044715, Fraction(44715, 1000000)),
        ("float32", 2.0**-40, Fraction(1, 2**40)),
        ("float32", -0.375, Fraction(-3, 8)),
        ("float32", 3.0, Fraction(3)),
        ("float32", 16777217.0, Fraction(16777216)),
        ("float32", 0.0, Fraction(0)),
    ],
)
def test_what_constants_mean(dtype: str, value: float | Fraction, meant: Fraction) -> None:
    assert f.meaning_of(value, DType(dtype)) == meant


@given(st.floats(-1e6, 1e6, width=32), st.sampled_from(["float32", "float64"]))
def test_a_constant_rounds_to_itself(value: float, dtype: str) -> None:
    """So constants that differ never mean the same."""
    assert DType(dtype).numpy.type(float(f.meaning_of(value, DType(dtype)))) == value
