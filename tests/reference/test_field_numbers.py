"""Arithmetic modulo 2^31 - 1, and what constants mean."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm.expr import DType
from minitvm.reference import field_numbers as f

residues = st.lists(st.integers(0, f.PRIME - 1), min_size=2, max_size=2).map(lambda v: np.array(v, np.uint64))
EDGES = [0, 1, 2, f.PRIME - 1, f.PRIME - 2, 1 << 16, 1 << 30]


@given(residues, residues)
def test_operations_are_those_of_the_field(a: np.ndarray, b: np.ndarray) -> None:
    pairs = list(zip(a.tolist(), b.tolist()))
    assert f.plus(a, b).tolist() == [(p + q) % f.PRIME for p, q in pairs]
    assert f.minus(a, b).tolist() == [(p - q) % f.PRIME for p, q in pairs]
    assert f.times(a, b).tolist() == [p * q % f.PRIME for p, q in pairs]


def test_operations_at_the_edges() -> None:
    a, b = (m.reshape(-1) for m in np.meshgrid(np.array(EDGES, np.uint64), np.array(EDGES, np.uint64)))
    pairs = list(zip(a.tolist(), b.tolist()))
    assert f.plus(a, b).tolist() == [(p + q) % f.PRIME for p, q in pairs]
    assert f.minus(a, b).tolist() == [(p - q) % f.PRIME for p, q in pairs]
    assert f.times(a, b).tolist() == [p * q % f.PRIME for p, q in pairs]


@given(residues)
def test_inverses(a: np.ndarray) -> None:
    assert f.times(a, f.inverse(a)).tolist() == [int(v != 0) for v in a]


@given(st.fractions(max_denominator=1000).filter(lambda v: abs(v.numerator) < 2**15))
def test_small_rationals_come_back(value: Fraction) -> None:
    assert f.as_rational(f.of_fraction(value)) == value


@given(st.integers(-(2**63), 2**64 - 1))
def test_integers(value: int) -> None:
    assert f.of_integers(value).tolist() == [value % f.PRIME] * 2


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
