"""Loops over variables of every integer dtype."""

from __future__ import annotations

import pytest

from minitvm.arith import Analyzer
from minitvm.expr import Range, Var, const
from minitvm.reference import check
from minitvm.script import from_source
from minitvm.tir.transform import lower

DTYPES = [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]


@pytest.mark.parametrize("kind", ["serial", "parallel", "vectorized", "unroll"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_loops_of_every_integer_dtype(dtype: str, kind: str) -> None:
    func = from_source(f"""
@T.prim_func
def main(A: T.Buffer((128,), "float32"), C: T.Buffer((100,), "float32"), D: T.Buffer((100,), "int32")):
    for i in T.{kind}(T.{dtype}(100)):
        for j in T.serial(T.{dtype}(1), T.{dtype}(2)):
            C[i] = A[T.Cast("int32", i * T.{dtype}(3)) & 127] * T.Cast("float32", j)
    for i in T.{kind}(T.{dtype}(100)):
        D[T.Cast("int32", i)] = T.Cast("int32", i + T.{dtype}(100) > i)
""")
    verdict = check(func, lower(func), modes=("exact", "shadow"))
    assert verdict, verdict


def sums_that_wrap() -> None:
    """A loop that starts at uint8(i + 200) may start at 0."""
    analyzer, i, j = Analyzer(), Var("i", "uint8"), Var("j", "uint8")
    analyzer.bind(i, (0, 99))
    analyzer.bind(j, Range(i + const(200, "uint8"), const(3, "uint8")))
    low, _ = analyzer.domain.ranges[j]
    assert low == 0


def test_sums_that_wrap() -> None:
    sums_that_wrap()
