"""A loop of a negative extent does not run, whatever a pass or a primitive makes of it."""

from __future__ import annotations

import numpy as np
import pytest

from minitvm.errors import ScheduleError
from minitvm.expr import Max, walk
from minitvm.reference import kernel as kernel_reference
from minitvm.reference import tir as reference
from minitvm.script import from_source
from minitvm.tir import Schedule
from minitvm.tir.nodes import PrimFunc
from minitvm.tir.transform import lower
from tests.tir.schedule import programs

HEAD = "@T.prim_func\ndef main(A: T.Buffer((64,), 'float32'), n: T.int32):"
LOOPS = {
    "vectorized": """
    for i in T.vectorized(n - 5):
        A[i + 32] = A[i + 32] + T.float32(1)""",
    "parallel": """
    for i in T.parallel(n - 5):
        for j in T.parallel(n - 6):
            for k in T.parallel(n - 7):
                A[i * 8 + j * 2 + k + 32] = T.float32(1)""",
    "joined": """
    for i in T.parallel(n - 5):
        A[i * 2 + 32] = T.float32(1)
    for j in T.parallel(4):
        A[j * 2 + 33] = T.float32(2)""",
    "lanes": """
    for i in T.serial(n - 5, annotations={'vector_reduction': 4}):
        A[0] = A[0] + A[i + 32]""",
    "fused": """
    for i, j in T.grid(n - 5, n - 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi * 4 + vj + 32] = T.float32(1)""",
}


def program(name: str) -> PrimFunc:
    func: PrimFunc = from_source(HEAD + LOOPS[name])  # type: ignore[assignment]
    if name != "fused":
        return func
    sch = Schedule(func)
    sch.fuse(*sch.get_loops("B"))
    return sch.func


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("n", [2, 4, 5, 6, 9])
def test_loops_run_as_often_as_they_did(name: str, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINITVM_VERIFY", "")  # it asks for constant extents of vectorised loops
    before: PrimFunc = from_source(HEAD + LOOPS[name])  # type: ignore[assignment]
    expected = np.arange(64, dtype=np.float32)
    computed = expected.copy()
    reference.run(before, expected, n, inout=["A"])
    kernel_reference.run(lower(program(name)), computed, n, inout=["A"])
    np.testing.assert_array_equal(computed, expected)


def test_extents_that_are_not_negative_stay_as_they_are() -> None:
    func = from_source("""
@T.prim_func
def main(a: T.handle):
    n = T.int32(is_size_var=True)
    A = T.match_buffer(a, (n, 64))
    for t in T.parallel(n):
        for i in T.parallel(n):
            A[t, i] = A[t, i] + T.float32(1)
    for i in range(n):
        for j in T.serial(n + i, annotations={'vector_reduction': 4}):
            A[i, 0] = A[i, 0] + A[i, j]
""")
    for kernel in dict(lower(func).items()).values():  # type: ignore[arg-type]
        assert not any(isinstance(node, Max) for node in walk(kernel.body))


def test_a_product_of_extents_that_does_not_fit_is_refused() -> None:
    sch = Schedule(programs.matmul(70000, 70000))
    with pytest.raises(ScheduleError, match="product_fits"):
        sch.fuse(*sch.get_loops("C")[:2])
    for loop in sch.get_loops("C")[:2]:
        sch.parallel(loop)
    assert lower(sch.func)
