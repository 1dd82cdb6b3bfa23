"""Bounds of bitwise operations on indices."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from minitvm.arith import Analyzer
from minitvm.expr import Range, Var, call, const

RANGES = st.tuples(st.integers(0, 9), st.integers(1, 9))
MEANING = {"bitwise_xor": int.__xor__, "bitwise_or": int.__or__}


def bounds_hold(op: str, first: tuple[int, int], second: tuple[int, int]) -> None:
    i, j = Var("i", "int32"), Var("j", "int32")
    analyzer = Analyzer({v: Range(const(low), const(n)) for v, (low, n) in ((i, first), (j, second))})
    low, high = analyzer.bounds(call(op, i, j))
    values = [MEANING[op](a, b) for a, b in product(*(range(low, low + n) for low, n in (first, second)))]
    assert low is not None and high is not None and low <= min(values) and max(values) <= high
    assert low >= 0 and high < 2 * max(first[0] + first[1], second[0] + second[1])


@given(st.sampled_from(list(MEANING)), RANGES, RANGES)
def test_bounds_hold_all_values(op: str, first: tuple[int, int], second: tuple[int, int]) -> None:
    bounds_hold(op, first, second)


CHECKS = [lambda: bounds_hold("bitwise_xor", (3, 2), (3, 2)), lambda: bounds_hold("bitwise_or", (0, 9), (0, 9))]
