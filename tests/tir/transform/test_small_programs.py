"""Programs of ten lines, each about one thing, on their way down: lowered, compiled, and as executables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm import build
from minitvm.reference import check
from minitvm.reference.strategies.small import SMALL, small_programs
from minitvm.script import from_source
from minitvm.tir.transform import lower
from tests.fewer import examples
from tests.mutants.workloads import beside_the_interpreter

SERIAL = tuple(kind for kind in SMALL if kind not in ("thread_sums", "shared"))  # what a CPU runs


@pytest.mark.parametrize("kind", SMALL)
@examples(8, 200)
@given(data=st.data())
def test_lowering_keeps_the_meaning(kind: str, data: Any) -> None:
    func = data.draw(small_programs((kind,)))
    verdict = check(func, lower(func, None, "main"))
    assert verdict, f"{verdict}\n{func}"


@examples(4, 100)
@given(func=small_programs(SERIAL))
def test_machine_code_keeps_the_meaning(func: Any) -> None:
    beside_the_interpreter(func, build(func, threads=2))


def test_parallel_loops_of_a_triangle_stay_apart() -> None:
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((12,), "float32"), B: T.Buffer((12,), "float32")):
    for x in range(12):
        B[x] = A[x]
    for i in T.parallel(3):
        for j in T.parallel(i + 2):
            B[i * 4 + j] = A[i * 4 + j] * T.float32(5)
""")
    verdict = check(func, lower(func, None, "main"), modes=("exact", "shadow", "order"))
    assert verdict, verdict


@pytest.mark.parametrize("relation", ["<", "<=", ">", ">=", "==", "!="])
def test_the_opposite_of_a_comparison_is_not_its_reverse_for_nan(relation: str) -> None:
    func = from_source(f"""
@T.prim_func
def main(A: T.Buffer((4,), "float32"), W: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        B[i] = T.Select(not (A[i] {relation} W[i]), T.float32(1), T.float32(2))
""")
    a = np.array([1, np.nan, 3, np.nan], "float32")
    w = np.array([np.nan, 1, 3, np.nan], "float32")
    result = np.zeros(4, "float32")
    build(func)(a, w, result)
    compared = {"<": a < w, "<=": a <= w, ">": a > w, ">=": a >= w, "==": a == w, "!=": a != w}[relation]
    np.testing.assert_array_equal(result, np.where(~compared, 1, 2))
