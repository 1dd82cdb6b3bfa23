"""A verdict says which sides of comparisons no input took; where one is missing other magnitudes are tried."""

from __future__ import annotations

import numpy as np

from minitvm import te
from minitvm.reference import check
from minitvm.tir.transform import lower

from .written import each


def test_a_side_that_no_input_can_take_is_told() -> None:
    square = each("T.max(A[i] * A[i], T.float32(-1))")
    verdict = check(square, square)
    assert verdict.untaken == ("max(A[i] * A[i], float32(-1.0)) never clips",)
    assert "one side only: max(A[i] * A[i], float32(-1.0)) never clips" in str(verdict)
    selected = each("T.Select(A[i] * A[i] < T.float32(-1), A[i], T.float32(2))")
    assert check(selected, selected).untaken == ("A[i] * A[i] < float32(-1.0) never holds",)


def test_the_lowered_program_and_tensor_expressions_are_watched_too() -> None:
    square = each("T.max(A[i] * A[i], T.float32(-1))")
    assert any("never clips" in text for text in check(square, lower(square)).untaken)
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: te.if_then_else(a[i] * a[i] < -1.0, a[i], 2.0), name="B")
    assert check([a, b], [a, b]).untaken


def test_both_sides_are_taken_behind_scales_and_squares() -> None:
    for formula in (
        "T.min(A[i] * T.float32(1e-7), T.float32(6))",
        "T.min(A[i] * A[i], T.float32(1e9))",
        "T.Select(A[i] * A[i] * A[i] < T.float32(1e7), A[i], T.float32(2))",
    ):
        program = each(formula)
        assert check(program, program).untaken == (), formula


def test_what_was_taken_in_another_check_does_not_count() -> None:
    clip = each("T.min(A[i], T.float32(6))")
    assert check(clip, clip).untaken == ()
    inputs = [np.ones(8, "float32"), np.zeros(8, "float32")]
    assert check(clip, clip, inputs=inputs).untaken == ("min(A[i], float32(6.0)) never clips",)
