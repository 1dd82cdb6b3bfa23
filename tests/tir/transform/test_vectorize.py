"""Vectorised loops read and write nothing that their iterations did not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm.expr import walk
from minitvm.reference import check
from minitvm.reference import kernel as kernel_reference
from minitvm.reference import tir as reference
from minitvm.script import from_source
from minitvm.tir import Schedule
from minitvm.tir.nodes import BufferLoad, PrimFunc
from minitvm.tir.transform import lower

OUTSIDE = 500_000_000
BODIES = {
    "value": "C[vv] = C[vv] + A[I[0]]",
    "two steps": "C[vv] = C[vv] + A[A[I[0]]]",
    "index of a load": "C[vv] = C[vv] + A[vv + A[I[0]]]",
    "index of a store": "C[(vv + A[I[0]]) % 12] = 7",
    "condition": "if A[I[0]] > 0:\n                C[vv] = 3\n            else:\n                C[vv] = 4",
    "choice": "C[vv] = T.if_then_else(A[I[0]] > 0, vv, A[I[0]])",
    "extent": "for k in range(A[I[0]]):\n                C[vv] = C[vv] + k",
    "parameter": "x = A[n * 100 - 477]\n            C[vv] = x + vv * x",
    "let": "x = A[I[0]]\n            C[vv] = x + vv * x",
}


OPEN: PrimFunc = from_source("""
@T.prim_func
def main(A: T.Buffer((80,)), n: T.int32, start: T.int32, C: T.Buffer((80,))):
    for v in T.vectorized(n):
        with T.block("C"):
            vv = T.axis.opaque(80, v + start)
            C[vv] = A[vv] * 2.0
""")  # type: ignore[assignment]
OPEN_KERNELS = lower(OPEN)


def vectorized(body: str, where: str = "v < n") -> PrimFunc:
    func = from_source(f"""
@T.prim_func
def main(A: T.Buffer((24,), "int32"), I: T.Buffer((1,), "int32"), n: T.int32, C: T.Buffer((12,), "int32")):
    for v in range(12):
        with T.block("C"):
            vv = T.axis.opaque(12, v)
            T.where({where})
            {body}
""")
    return func  # type: ignore[return-value]


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("n", [0, 5])
def test_what_lanes_share_is_read_only_if_one_of_them_runs(body: str, n: int) -> None:
    func = vectorized(BODIES[body])
    text = func.script().replace("in range(12)", "in T.vectorized(12)")
    module = lower(from_source(text))  # type: ignore[arg-type]
    arrays = np.arange(24, dtype=np.int32) % 5, np.array([3 if n else OUTSIDE], np.int32)
    expected, computed = np.zeros(12, np.int32), np.zeros(12, np.int32)
    reference.run(func, *arrays, n, expected, inout=["C"])
    kernel_reference.run(module, *arrays, n, computed, inout=["C"])
    np.testing.assert_array_equal(computed, expected)


@pytest.mark.parametrize("where", ["v < n", "v <= n", "v < n and n < 9"])
@pytest.mark.parametrize("n", [-1, 0, 1, 5])
def test_what_lanes_share_is_one_load_under_the_first_lanes_condition(where: str, n: int) -> None:
    func = vectorized("C[vv] = C[vv] + A[(n - 1) * (n - 5) * 100 + 3]", where)
    module = lower(from_source(func.script().replace("in range(12)", "in T.vectorized(12)")))  # type: ignore[arg-type]
    nodes = [node for kernel in dict(module.items()).values() for node in walk(kernel.body)]
    assert {node.dtype.lanes for node in nodes if isinstance(node, BufferLoad) and node.buffer.name == "A"} == {1}
    expected, computed = np.zeros(12, np.int32), np.zeros(12, np.int32)
    arrays = np.arange(24, dtype=np.int32), np.zeros(1, np.int32)
    if n != 0 or where != "v <= n":  # there the program itself reads outside
        reference.run(func, *arrays, n, expected, inout=["C"])
        kernel_reference.run(module, *arrays, n, computed, inout=["C"])
        np.testing.assert_array_equal(computed, expected)


CONDITIONS = {
    "A[vv] > 3 or (A[vv] < 1 and A[vv] != n)": True,  # the left operand reads it
    "vv > 2 and A[vv] > 1": True,  # what is chosen reads it
    "vv < n and A[vv * 4] > 0": False,  # there is no such element for the others
    "A[vv] > 1 and A[vv] < A[vv + 6 * (vv // n)]": False,  # one of the two is
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_only_a_load_that_is_not_done_anyway_is_masked(condition: str) -> None:
    func = vectorized(f"C[vv] = T.Select({condition}, A[vv], 2)", "v < 12")
    module = lower(from_source(func.script().replace("in range(12)", "in T.vectorized(12)")))  # type: ignore[arg-type]
    loads = [n for kernel in dict(module.items()).values() for n in walk(kernel.body) if isinstance(n, BufferLoad)]
    assert all(load.predicate is None for load in loads) == CONDITIONS[condition]
    arrays = np.arange(24, dtype=np.int32) % 5, np.zeros(1, np.int32)
    expected, computed = np.zeros(12, np.int32), np.zeros(12, np.int32)
    reference.run(func, *arrays, 6, expected)
    kernel_reference.run(module, *arrays, 6, computed)
    np.testing.assert_array_equal(computed, expected)


@given(st.integers(0, 70), st.integers(0, 3))
def test_an_open_extent_becomes_vectors_and_a_rest(n: int, start: int) -> None:
    """At each number of iterations, also with the verifier behind the schedule and every pass."""
    values = np.arange(80, dtype=np.float32)
    expected, computed = np.zeros(80, np.float32), np.zeros(80, np.float32)
    reference.run(OPEN, values, n, start, expected, inout=["C"])
    kernel_reference.run(OPEN_KERNELS, values, n, start, computed, inout=["C"])
    np.testing.assert_array_equal(computed, expected)
    np.testing.assert_array_equal(expected[start : start + n], 2 * values[start : start + n])


def test_what_is_in_its_buffer_is_loaded_once() -> None:
    func = from_source("""
@T.prim_func
def main(a: T.handle, n: T.int32, C: T.Buffer((12,), "int32")):
    m = T.int32(is_size_var=True)
    A = T.match_buffer(a, (m, 12), "int32")
    for i, k in T.grid(m, 12):
        for v in range(12):
            with T.block("C"):
                vi, vk, vv = T.axis.remap("SRS", [i, k, v])
                T.where(v < n)
                C[vv] = C[vv] + A[vi, vk]
""")
    sch = Schedule(func)  # type: ignore[arg-type]
    sch.vectorize(sch.get_loops("C")[2])
    module = lower(sch.func)
    nodes = [node for kernel in dict(module.items()).values() for node in walk(kernel.body)]
    assert {n.dtype.lanes for n in nodes if isinstance(n, BufferLoad) and n.buffer.name == "A"} == {1}
    assert check(func, module)
