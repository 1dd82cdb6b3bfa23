"""Buffers with explicit strides: legal ones compute what compact ones do, aliasing ones are refused with the spot."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minitvm as tvm
from minitvm.errors import ParseError, VerificationError
from minitvm.expr import SizeVar, const
from minitvm.reference import check
from minitvm.reference.strategies import prim_funcs
from minitvm.reference.strategies.layouts import strided
from minitvm.script import from_source
from minitvm.tir.strides import row_major_text
from minitvm.tir.transform.pipeline import lower
from minitvm.tir.verifier import verify


@given(st.data())
@settings(max_examples=12)
def test_legal_strides_change_nothing(data: st.DataObject) -> None:
    func = data.draw(prim_funcs(max_blocks=2))
    spread = data.draw(strided(func))
    verify(spread)
    verdict = check(func, spread)
    assert verdict, verdict
    verdict = check(spread, lower(spread, None, "f"))
    assert verdict, verdict


@given(st.data())
@settings(max_examples=12)
def test_aliasing_strides_are_refused(data: st.DataObject) -> None:
    func = data.draw(prim_funcs(max_blocks=2))
    clashing = data.draw(strided(func, legal=False))
    if clashing.script() == func.script():
        return  # nothing in it has two elements
    with pytest.raises(VerificationError, match="strides_are_injective"):
        verify(clashing)
    with pytest.raises(VerificationError, match="strides_are_injective"):
        lower(clashing, None, "f")
    with pytest.raises(ParseError, match="every element has a place of its own"):
        from_source(clashing.script())


@pytest.mark.parametrize("strides", ["[5, 1]", "[1, 4]", "[7, 2]"])
def test_compiled_parameters_and_allocations_with_strides(strides: str) -> None:
    func = from_source(f"""
@T.prim_func
def f(A: T.Buffer((4, 4), "float32", strides={strides}), B: T.Buffer((4, 4), "float32", strides={strides})):
    C = T.alloc_buffer((4, 4), strides={strides})
    for i, j in T.grid(4, 4):
        C[i, j] = A[j, i]
    for i, j in T.grid(4, 4):
        B[i, j] = C[i, j] * T.float32(2)
""")
    a, b = np.arange(16, dtype="float32").reshape(4, 4), np.zeros((4, 4), "float32")
    tvm.build(func)(a, b)
    np.testing.assert_array_equal(b, a.T * 2)


IN_LOOPS = {
    "parallel": "T.parallel(4)",
    "vectorized": "T.vectorized(4)",
    "virtual": "T.thread_binding(4, thread='vthread')",
    "pipelined": "T.serial(4, annotations={'software_pipeline_stage': [0, 1], 'software_pipeline_order': [0, 1]})",
}


@pytest.mark.parametrize("strides", ["[1, 4]", "[1, 7]", "[-1, 9]", "[5, 1]"])
@pytest.mark.parametrize("loop", IN_LOOPS)
def test_parts_of_an_allocation_do_not_overlap(loop: str, strides: str) -> None:
    func = from_source(
        f"""
@T.prim_func
def f(A: T.Buffer((4, 4, 4), "float32"), C: T.Buffer((4, 4, 4), "float32")):
    for p in {IN_LOOPS[loop]}:
        with T.block("p"):
            vp = T.axis.spatial(4, p)
            B = T.alloc_buffer((4, 4), "float32", strides={strides}, elem_offset=3)
            for i, j in T.grid(4, 4):
                B[i, j] = A[vp, i, j] * T.float32(2)
            for i, j in T.grid(4, 4):
                C[vp, i, j] = B[3 - i, j] + B[i, 3 - j]
"""
        if loop != "pipelined"
        else f"""
@T.prim_func
def f(A: T.Buffer((4, 4, 4), "float32"), C: T.Buffer((4, 4, 4), "float32")):
    B = T.alloc_buffer((4, 4), "float32", strides={strides}, elem_offset=3)
    for p in {IN_LOOPS[loop]}:
        for i, j in T.grid(4, 4):
            with T.block("B"):
                vp, vi, vj = T.axis.remap("SSS", [p, i, j])
                B[vi, vj] = A[vp, vi, vj] * T.float32(2)
        for i, j in T.grid(4, 4):
            with T.block("C"):
                vp, vi, vj = T.axis.remap("SSS", [p, i, j])
                C[vp, vi, vj] = B[3 - vi, vj] + B[vi, 3 - vj]
"""
    )
    verdict = check(func, lower(func, None, "f"), modes=("exact", "shadow"))
    assert verdict, verdict


def test_the_suggestion_has_the_strides_of_rows_also_for_symbolic_sizes() -> None:
    m = SizeVar("m")
    assert row_major_text((const(2), m, const(4))) == "strides=[m * 4, 4, 1], or none: rows one after the other"
    assert row_major_text((m, m)) == "strides=[m, 1], or none: rows one after the other"
