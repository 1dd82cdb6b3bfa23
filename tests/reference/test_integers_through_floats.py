"""An integer that goes through a float and back is never excused as rounding, and what is excused is counted."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from minitvm.reference import check

from .written import each, function


def two(formula: str, dtype: str = "int32") -> Any:
    return function(f"for i in range(8):\n    C[i] = {formula}",
                    ", ".join(f'{name}: T.Buffer((8,), "{dtype}")' for name in "ABC"))  # fmt: skip


def through(dtype: str, wide: str, formula: str = "A[i]") -> str:
    return f'T.Cast("{dtype}", T.Cast("{wide}", {formula}))'


PAIRS = {
    "int64 through float64": (each("A[i]", "int64"), each(through("int64", "float64"), "int64")),
    "int32 through float32": (each("A[i]", "int32"), each(through("int32", "float32"), "int32")),
    "int16 through float16": (each("A[i]", "int16"), each(through("int16", "float16"), "int16")),
    "a sum": (two("A[i] + B[i]"), two('T.Cast("int32", T.Cast("float32", A[i]) + T.Cast("float32", B[i]))')),
    "a product": (two("A[i] * B[i]", "int16"),
                  two('T.Cast("int16", T.Cast("float16", A[i]) * T.Cast("float16", B[i]))', "int16")),
    "a quotient": (
        each("T.floordiv(A[i], T.int64(3))", "int64"),
        each('T.Cast("int64", T.floor(T.Cast("float64", A[i]) / T.float64(3)))', "int64"),
    ),
    "a shift": (
        each("T.shift_right(A[i], 1)", "int32"),
        each('T.Cast("int32", T.floor(T.Cast("float32", A[i]) * T.float32(0.5)))', "int32"),
    ),
    "a comparison": (
        each("T.Cast('int32', A[i] > 16777216)", "int32"),
        each("T.Cast('int32', T.Cast('float32', A[i]) > T.float32(16777216))", "int32"),
    ),
    "a maximum": (
        two("T.max(A[i], B[i])"),
        two('T.Cast("int32", T.max(T.Cast("float32", A[i]), T.Cast("float32", B[i])))'),
    ),
}  # fmt: skip
EQUAL = {
    "int32 through float64": (each("A[i]", "int32"), each(through("int32", "float64"), "int32")),
    "int16 through float32": (each("A[i]", "int16"), each(through("int16", "float32"), "int16")),
    "int8 through float16": (each("A[i]", "int8"), each(through("int8", "float16"), "int8")),
    "both go through": (each(through("int64", "float64"), "int64"), each(through("int64", "float64"), "int64")),
    "a sum that is exact": (
        two("A[i] + B[i]", "int8"),
        two('T.Cast("int8", T.Cast("int32", T.Cast("float32", A[i]) + T.Cast("float32", B[i])))', "int8"),
    ),
    "a product by two": (
        each('T.Cast("int64", T.Cast("float64", A[i]) + T.Cast("float64", A[i]))', "int32", "int64"),
        each('T.Cast("int64", T.Cast("float64", A[i]) * T.float64(2))', "int32", "int64"),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_it_is_a_difference(name: str) -> None:
    before, after = PAIRS[name]
    for seed in range(3):
        assert not check(before, after, seed=seed, shrink=False)
        assert not check(after, before, seed=seed, shrink=False)


@pytest.mark.parametrize("name", EQUAL)
def test_a_float_that_holds_them_is_none(name: str) -> None:
    before, after = EQUAL[name]
    for one, other in ((before, after), (after, before)):
        verdict = check(one, other)
        assert verdict, str(verdict)
        assert verdict.excused == 0


def summed(formula: str, out: str) -> Any:
    parameters = [f'{name}: T.Buffer((8,), "int32")' for name in "ABC"] + [f'D: T.Buffer((8,), "{out}")']
    formula = re.sub(r"([ABC])", r'T.Cast("float32", \1[i])', formula)
    return function(f"for i in range(8):\n    D[i] = {formula}", ", ".join(parameters))


def test_what_is_excused_is_counted() -> None:
    """Sums of floats in another order: on large integers they differ, and error bounds account for it."""
    verdict = check(summed("A + B + C", "float32"), summed("A + (B + C)", "float32"))
    assert verdict
    assert (verdict.ran, verdict.excused) == (("exact", "field", "shadow"), 0)
    text = str(replace(verdict, excused=2))
    assert "  on 2 inputs they differ where one of them rounds, which was not judged (mode bound does)" in text
