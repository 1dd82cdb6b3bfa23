"""Factors that a field, or a tolerance, may take for 1: the powers of two by which quantised numbers are scaled."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm.reference import check

from .written import each, function

TWO_INPUTS = 'A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")'


def both(formula: str) -> Any:
    return function(f"for i in range(8):\n    C[i] = {formula}", TWO_INPUTS)


def accumulated(scale: str) -> Any:
    """A sum of products of int8, scaled as TFLite does."""
    return function(
        f"""
        S = T.alloc_buffer((1,), "int32")
        S[0] = 0
        for k in range(16):
            S[0] = S[0] + T.Cast("int32", A[k]) * T.Cast("int32", A[15 - k])
        B[0] = T.Cast("float32", S[0]) * {scale} / T.float32(3.0)
        """,
        'A: T.Buffer((16,), "int8"), B: T.Buffer((1,), "float32")',
    )


PAIRS = {
    "a factor of 2^31": (each("A[i] / T.float32(3.0) * T.float32(2147483648.0)"), each("A[i] / T.float32(3.0)")),
    "a factor of 2^-31": (
        each("T.exp(A[i]) * T.float32(4.656612873077393e-10)"), each("T.exp(A[i])"),
    ),
    "a factor of 2^62": (
        each("A[i] / T.float32(7.0) * T.float32(4611686018427387904.0)"), each("A[i] / T.float32(7.0)"),
    ),
    "2^32 for 2": (
        each("A[i] / T.float32(3.0) * T.float32(4294967296.0)"), each("A[i] / T.float32(3.0) * T.float32(2.0)"),
    ),
    "inside of a function": (each("T.exp(A[i] * T.float32(2147483648.0))"), each("T.exp(A[i])")),
    "of one term": (
        both("A[i] / T.float32(3.0) + B[i] * T.float32(4.656612873077393e-10)"),
        both("A[i] / T.float32(3.0) + B[i]"),
    ),
    "requantised": (accumulated("T.float32(4.656612873077393e-10)"), accumulated("T.float32(1.0)")),
    "2^31 - 1 for 0": (
        each("A[i] / T.float32(3.0) + T.Cast('float32', T.Cast('float64', A[i]) * T.float64(2147483647.0))"),
        each("A[i] / T.float32(3.0)"),
    ),
}  # fmt: skip
EQUAL = {
    "twice": (
        each("A[i] / T.float32(3.0) * T.float32(65536.0) * T.float32(32768.0)"),
        each("A[i] / T.float32(3.0) * T.float32(2147483648.0)"),
    ),
    "there and back": (
        each("A[i] / T.float32(3.0) * T.float32(2147483648.0) * T.float32(4.656612873077393e-10)"),
        each("A[i] / T.float32(3.0)"),
    ),
    "a quotient": (
        each("T.exp(A[i]) / T.float32(2147483648.0)"), each("T.exp(A[i]) * T.float32(4.656612873077393e-10)"),
    ),
    "of a sum": (
        both("(A[i] + B[i]) / T.float32(3.0) * T.float32(4.656612873077393e-10)"),
        both("A[i] / T.float32(3.0) * T.float32(4.656612873077393e-10)"
             " + B[i] / T.float32(3.0) * T.float32(4.656612873077393e-10)"),
    ),
    "requantised": (
        accumulated("T.float32(4.656612873077393e-10)"),
        accumulated("T.float32(1.52587890625e-05) * T.float32(3.0517578125e-05)"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("modes", [("field",), ("exact", "field", "shadow")])
@pytest.mark.parametrize("name", PAIRS)
def test_a_factor_is_seen(name: str, modes: tuple[str, ...]) -> None:
    before, after = PAIRS[name]
    assert not check(before, after, modes=modes, shrink=False)
    assert not check(after, before, modes=modes, shrink=False)


@pytest.mark.parametrize("name", EQUAL)
def test_the_same_factor_in_other_words(name: str) -> None:
    verdict = check(*EQUAL[name])
    assert verdict, str(verdict)
    assert "field" in verdict.ran


@given(st.integers(-60, 60), st.integers(-60, 60), st.sampled_from((1, -1)))
def test_powers_of_two_are_told_apart(one: int, other: int, sign: int) -> None:
    def scaled(exponent: int, sign: int = 1) -> Any:
        return each(f"A[i] / T.float32(3.0) * T.float32({sign * 2.0**exponent!r})")

    assert bool(check(scaled(one), scaled(other, sign), modes="field", shrink=False)) == (one == other and sign == 1)
