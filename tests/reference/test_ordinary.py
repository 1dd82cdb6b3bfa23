"""Field mode asks ordinary floats: whether a hash disagrees for a reason, and what equal formulas make of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minitvm import reference, te
from minitvm.reference import check
from minitvm.reference.judging import ordinary
from minitvm.reference.judging.modes import field
from minitvm.reference.judging.ordinary import SPANS, apart
from minitvm.reference.judging.programs import execute
from minitvm.script import from_source

from .written import BY_MAXIMUM, BY_ZERO, each, softmax

SHIFTED = softmax(*BY_MAXIMUM)
LAWS = {
    "log of exp": (each("T.log(T.exp(A[i]))"), each("A[i]")),
    "a sum of exponents": (each("T.exp(A[i]) * T.exp(A[7 - i])"), each("T.exp(A[i] + A[7 - i])")),
    "an odd function": (each("T.sin(T.float32(0) - A[i])"), each("T.float32(0) - T.sin(A[i])")),
    "sigmoid by tanh": (
        each("T.sigmoid(A[i])"), each("T.float32(0.5) * T.tanh(A[i] * T.float32(0.5)) + T.float32(0.5)"),
    ),
    "exp by exp2": (each("T.exp(A[i])"), each("T.exp2(A[i] * T.float32(1.4426950408889634))")),
}  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", LAWS)
def test_laws_of_functions_make_no_difference(name: str, seed: int) -> None:
    verdict = check(*LAWS[name], seed=seed)
    assert verdict, verdict
    assert "a field knows no laws of" in verdict.refused["field"]
    assert "ordinary floats agree within their bounds" in verdict.refused["field"]


def test_the_same_inputs_are_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []

    def listening(case: Any, inputs: Any, values: bool = True) -> Any:
        asked.append(b"".join(a.tobytes() for a in inputs))
        return apart(case, inputs, values)

    monkeypatch.setattr(field, "apart", listening)
    monkeypatch.setattr(ordinary, "apart", listening)
    assert check(*LAWS["log of exp"])
    assert len(asked) == len(set(asked)) > 1 + len(SPANS)


def test_a_softmax_needs_its_maximum() -> None:
    """The same formula; but large numbers overflow."""
    assert check(SHIFTED, SHIFTED)
    verdict = check(SHIFTED, softmax(*BY_ZERO))
    assert not verdict
    assert not np.isfinite(verdict.after)


FAULTS = {
    "another factor": (each("T.exp(A[i] * T.float32(2))"), each("T.exp(A[i] * T.float32(2.001))")),
    "another element": (each("T.exp(A[i])"), each("T.exp(A[7 - i])")),
    "another function": (each("T.tanh(A[i])"), each("T.erf(A[i])")),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_difference_is_one_of_floats(name: str) -> None:
    before, after = FAULTS[name]
    verdict = check(before, after)
    assert not verdict
    assert verdict.mode == "field"
    results = []
    for program in (before, after):
        args = [np.array(a) for a in verdict.inputs]
        execute(program, args)
        results.append(args[1][verdict.index])
    assert results == [verdict.before, verdict.after]
    assert results[0] != results[1]


NEVER = {
    "a root of -1": each("A[i] + T.float32(0) * T.sqrt(T.float32(-1))"),
    "an overflow": each("A[i] * T.exp(T.float32(1000)) / T.exp(T.float32(1000))"),
    "a product that overflows": each("A[i] * T.float32(2e30) * T.float32(1e30) / T.float32(2e30) / T.float32(1e30)"),
}


@pytest.mark.parametrize("name", NEVER)
def test_what_is_never_a_number_is_a_difference(name: str) -> None:
    verdict = check(each("A[i]"), NEVER[name])
    assert not verdict
    assert not np.isfinite(float(verdict.after))
    assert np.isfinite(float(verdict.before))


def test_a_lost_saturation_is_undefined() -> None:
    scaled = "T.round(A[i] * T.float32(7.5))"
    right = each(f"T.Cast('int8', T.max(T.min({scaled}, T.float32(127)), T.float32(-128)))", out="int8")
    wrong = each(f"T.Cast('int8', {scaled})", out="int8")
    assert check(right, right)
    assert "cast of" in check(right, wrong).message


def test_other_algebra_with_rounded_constants_is_no_difference() -> None:
    third = "T.float32(0.3333333333333333)"
    both = each(f"(A[i] + A[7 - i]) * {third}"), each(f"A[i] * {third} + A[7 - i] / T.float32(3)")
    assert check(*both).ran == ("field", "shadow")


def test_floats_without_a_dimension() -> None:
    y = te.placeholder((), name="y")
    tensors = [y, te.compute((), lambda: y() * 2.0, name="o")]
    assert check(tensors, tensors).ran == ("exact", "field", "shadow")
    signature = 'A: T.Buffer((), "float32"), B: T.Buffer((), "float32")'
    once, twice = (
        from_source(f"@T.prim_func\ndef main({signature}):\n    B[()] = {value}\n")
        for value in ("A[()]", "A[()] + A[()]")
    )
    for modes in (("field",), ("exact", "field", "bound", "special", "shadow", "order")):
        assert check(once, once, modes=modes)
        assert not check(once, twice, modes=modes)
    top = from_source(f"@T.prim_func\ndef main({signature}):\n    B[()] = T.max(A[()], T.float32(0.5))\n")
    assert check(top, top, modes=("field",))
    assert reference.random_inputs(top)[0].shape == ()
