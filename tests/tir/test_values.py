"""The values of an expression on many points are those on each, conversions included."""

from __future__ import annotations

import numpy as np
import pytest

from minitvm.expr import Expr, FloorMod, Var, const
from minitvm.reference.meaning.scalar import evaluate
from minitvm.tir.nodes import Buffer
from minitvm.tir.values import NotAnIndex, values

I = Var("i")
CASES = [
    I * 3 // 4 - 5,
    FloorMod(I - 7, const(4)),
    (I * 40).astype("int8").astype("int32") + 1,  # wraps
    (I - 9).astype("uint8").astype("int32"),
    (I < 3).astype("int32") + (I < 5).astype("int32"),  # numbers, not truth values
]


@pytest.mark.parametrize("e", CASES, ids=str)
def test_values_are_those_of_the_interpreter(e: Expr) -> None:
    points = np.arange(12)
    assert values(e, {I: points}).tolist() == [int(evaluate(e, {I: int(p)})) for p in points]


def test_what_is_in_memory_is_not_known() -> None:
    with pytest.raises(NotAnIndex):
        values(Buffer("A", (const(4),), "int32")[I] + 1, {I: np.arange(4)})
