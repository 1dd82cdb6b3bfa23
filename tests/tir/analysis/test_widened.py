"""Stored integers of every dtype as indices: conditions on them count, and every machine reads the same elements."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitvm
from minitvm import expr as ex
from minitvm.errors import VerificationError
from minitvm.expr import DType, Expr
from minitvm.reference import tir as interpreter
from minitvm.reference.meaning.scalar import evaluate
from minitvm.script import from_source
from minitvm.tir.analysis.widened import compared, widened
from minitvm.tir.nodes import PrimFunc
from tests.export.c.programs import check, needs_gcc

DTYPES = tuple(DType(f"{kind}{bits}") for kind in ("int", "uint") for bits in (8, 16, 32, 64))
GUARDED = (
    "T.if_then_else(T.And(0 <= B[vi], B[vi] < 8), A[B[vi]], T.float32(0))",
    "A[T.max(T.min(B[vi], 7), 0)]",
)


def _gather(dtype: str, element: str, loop: str = "range(64)") -> PrimFunc:
    func: PrimFunc = from_source(f"""
    @T.prim_func
    def gather_{dtype}(A: T.Buffer((8,)), B: T.Buffer((64,), "{dtype}"), C: T.Buffer((64,))):
        for i in {loop}:
            with T.block("C"):
                vi = T.axis.remap("S", [i])
                C[vi] = {element}
    """)
    return func


def _arrays(dtype: DType) -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    edges = [e for e in (-1, 0, 7, 8, dtype.min, dtype.max, dtype.max // 2 + 1) if dtype.min <= e <= dtype.max]
    indices = np.array([*edges, *generator.integers(0, 8, 64 - len(edges))], dtype.numpy)
    return [generator.random(8, np.float32), indices, np.zeros(64, np.float32)]


@pytest.mark.parametrize("target", ["interpreter", "cpu", "cuda", "opencl"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_machines_read_the_elements_that_the_interpreter_reads(dtype: DType, target: str) -> None:
    if target in ("cuda", "opencl"):
        pytest.importorskip("cuda.core" if target == "cuda" else "pyopencl")
        loops = ['T.thread_binding(64, thread="threadIdx.x")']
    else:
        loops = ["range(64)", "T.vectorized(64)"]
    for element in GUARDED:
        for loop in loops:
            func = _gather(dtype, element, loop)
            expected, actual = _arrays(dtype), _arrays(dtype)
            interpreter.run(func, *expected)
            minitvm.build(func, target)(*actual)
            assert np.array_equal(actual[2], expected[2]), (element, loop)


@needs_gcc
@pytest.mark.alike(most=2)
@pytest.mark.parametrize("dtype", ["uint8", "uint64", "int8", "int16", "uint16", "uint32"])
def test_exported_programs_read_them_too(dtype: str, tmp_path: Path) -> None:
    func, arrays = _gather(dtype, GUARDED[1]), _arrays(DType(dtype))
    check(func, tmp_path, inputs={"A": arrays[0], "B": arrays[1]})


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_index_that_nothing_keeps_inside_is_refused(dtype: DType) -> None:
    half = "T.if_then_else(B[vi] <= 8, A[B[vi]], T.float32(0))"
    for element in ("A[B[vi]]", half, "A[T.min(B[vi], 8)]"):
        with pytest.raises(VerificationError, match=f"which may be any {dtype}"):
            minitvm.build(_gather(dtype, element))


def _of(dtype: DType) -> st.SearchStrategy[int]:
    least, most = int(dtype.min), int(dtype.max)
    return st.sampled_from([least, most, 0, 7, most // 2]) | st.integers(least, most)


@st.composite
def _integers(draw: Any, dtype: DType, depth: int = 2) -> Expr:
    """An integer of one dtype, from a variable, constants, extremes, choices, sums and conversions."""
    inner = _integers(dtype, depth - 1)
    kind = draw(st.sampled_from(["var", "const", "extreme", "select", "choice", "sum", "cast"][: 7 if depth else 2]))
    if kind == "const":
        return ex.const(draw(_of(dtype)), dtype)
    if kind == "extreme":
        return draw(st.sampled_from([ex.Min, ex.Max]))(draw(inner), draw(inner))
    if kind == "sum":
        return draw(inner) + draw(inner)
    if kind == "cast":
        return ex.Cast(dtype, draw(_integers(draw(st.sampled_from(DTYPES)), depth - 1)))
    if kind in ("select", "choice"):
        parts = (draw(_comparisons(dtype, depth - 1)), draw(inner), draw(inner))
        return ex.Select(*parts) if kind == "select" else ex.Call(dtype, "if_then_else", parts)
    return ex.DataVar("x", dtype)


@st.composite
def _comparisons(draw: Any, dtype: DType, depth: int = 2) -> ex.CompareOp:
    kind = draw(st.sampled_from([ex.LT, ex.LE, ex.GT, ex.GE, ex.EQ, ex.NE]))
    return kind(draw(_integers(dtype, depth)), draw(_integers(dtype, depth)))  # type: ignore[no-any-return]


@given(st.data())
def test_widened_integers_and_comparisons_have_the_same_values(data: Any) -> None:
    dtype = data.draw(st.sampled_from(DTYPES))
    number, condition = data.draw(_integers(dtype)), data.draw(_comparisons(dtype))
    env = {var: data.draw(_of(var.dtype)) for e in (number, condition) for var in ex.free_vars(e)}
    assert widened(number).dtype in ("int32", "int64")
    assert (int(evaluate(widened(number), env)) - int(evaluate(number, env))) % 2**64 == 0
    assert evaluate(compared(condition), env) == evaluate(condition, env)
