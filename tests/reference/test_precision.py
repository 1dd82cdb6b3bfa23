"""Where two programs round at other dtypes, an equal verdict says that no mode judged it."""

from __future__ import annotations

import pytest

from minitvm.reference import check
from minitvm.reference.judging.precision import unlike

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


HALF = "float16"
BOTH = ", ".join(f'{name}: T.Buffer(({n},), "float32")' for name, n in (("A", 8), ("B", 8), ("C", 1), ("D", 1)))


def sums(one: str, other: str, out: str = "C[0] = {K}\nD[0] = {L}", rows: tuple[str, str] = ("A[i]", "B[i]")) -> object:
    """A sum in each of two dtypes."""
    text = f"""
K = T.alloc_buffer((1,), "{one}")
L = T.alloc_buffer((1,), "{other}")
K[0] = T.{one}(0)
L[0] = T.{other}(0)
for i in range(8):
    K[0] = K[0] + T.Cast("{one}", {rows[0]})
    L[0] = L[0] + T.Cast("{other}", {rows[1]})
"""
    return function(text + out.format(K='T.Cast("float32", K[0])', L='T.Cast("float32", L[0])'), BOTH)


ONE_OUTPUT = "C[0] = {K} * {L}\nD[0] = T.float32(1)"
EXCHANGED = {
    "of two outputs": (sums(HALF, "float32"), sums("float32", HALF)),
    "of one output": (sums(HALF, "float32", ONE_OUTPUT), sums("float32", HALF, ONE_OUTPUT)),
    "the first and the last of one input": (
        sums(HALF, "float32", "C[0] = {K}\nD[0] = {K} + {L}", ("A[i % 4]", "A[4 + i % 4]")),
        sums(HALF, "float32", "C[0] = {K}\nD[0] = {K} + {L}", ("A[4 + i % 4]", "A[i % 4]")),
    ),
    "a product": (
        each('T.Cast("float32", T.Cast("float16", A[i]) * T.Cast("float16", A[i])) + A[i] * T.float32(3)'),
        each('A[i] * A[i] + T.Cast("float32", T.Cast("float16", A[i]) * T.float16(3))'),
    ),
    "through half": (
        each('T.Cast("float32", T.Cast("float16", A[i])) + A[7 - i]'),
        each('A[i] + T.Cast("float32", T.Cast("float16", A[7 - i]))'),
    ),
}
IN_OTHER_WORDS = {
    "the same": (sums(HALF, "float32"), sums(HALF, "float32")),
    "of one output": (
        sums(HALF, "float32", ONE_OUTPUT),
        sums("float32", HALF, "C[0] = {L} * {K}\nD[0] = T.float32(1)", ("B[i]", "A[i]")),
    ),
    "another order": (sums(HALF, "float32"), sums(HALF, "float32", rows=("A[7 - i]", "B[(i + 3) % 8]"))),
}


@pytest.mark.parametrize("name", EXCHANGED)
def test_other_values_in_the_same_dtypes(name: str) -> None:
    before, after = EXCHANGED[name]
    verdict = check(before, after)
    assert not verdict or verdict.unjudged, str(verdict)
    assert not verdict or "rounding was not judged" in str(verdict)


@pytest.mark.parametrize("name", IN_OTHER_WORDS)
def test_the_same_values_in_the_same_dtypes(name: str) -> None:
    before, after = IN_OTHER_WORDS[name]
    verdict = check(before, after)
    assert verdict, str(verdict)
    assert verdict.unjudged == ""


def test_exact_inputs_are_small_enough_for_a_narrower_float_on_the_way() -> None:
    """99 x**3 of the usual inputs is no number of float16: the inputs are smaller, and there is no false alarm."""
    value = "A[i] * A[i] * A[i] * T.float32(99)"
    verdict = check(each(f'T.Cast("float32", T.Cast("float16", {value}))'), each(value), shrink=False)
    assert verdict and "exact" in verdict.ran
