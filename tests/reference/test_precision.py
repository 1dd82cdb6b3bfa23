"""Where two programs round at other dtypes, an equal verdict says that no mode judged it."""

from __future__ import annotations

import pytest

from minitvm.reference import check
from minitvm.reference.precision import unlike

from .written import each, function


def accumulated(dtype: str) -> object:
    return function(
        f"""
        L = T.alloc_buffer((1,), "{dtype}")
        L[0] = T.{dtype}(0)
        for i in range(64):
            L[0] = L[0] + T.Cast("{dtype}", A[i])
        B[0] = T.Cast("float32", L[0])
        """,
        'A: T.Buffer((64,), "float32"), B: T.Buffer((1,), "float32")',
    )


LOSSES = {
    "conversions in float16 for none": (each("A[i]"), each('T.Cast("float32", T.Cast("float16", A[i]))')),
    "conversions in float16 for none, sums in float16 for float32": (accumulated("float32"), accumulated("float16")),
    "conversions in float32 for none, products in float64 for float32": (
        each("A[i] * A[i]"), each('T.Cast("float32", T.Cast("float64", A[i]) * T.Cast("float64", A[i]))'),
    ),
}  # fmt: skip


@pytest.mark.parametrize("told", LOSSES)
def test_a_verdict_says_what_was_not_judged(told: str) -> None:
    before, after = LOSSES[told]
    verdict = check(before, after)
    assert verdict
    assert verdict.unjudged == told
    assert f"  rounding was not judged: {told} (mode bound does)" in str(verdict)


def test_bounds_judge_it() -> None:
    before, after = LOSSES["conversions in float16 for none"]
    assert not check(before, after, modes=("bound",))
    before, after = LOSSES["conversions in float16 for none, sums in float16 for float32"]
    assert not check(before, after, modes=("bound",))
    assert check(after, before, modes=("bound",)).unjudged == ""


def test_other_algebra_is_no_other_precision() -> None:
    assert unlike(each("A[i] * T.float32(2)"), each("A[i] + A[i]")) == ""
    assert "rounding" not in str(check(each("A[i] * T.float32(2)"), each("A[i] + A[i]")))
    assert unlike(accumulated("float16"), accumulated("float16")) == ""
