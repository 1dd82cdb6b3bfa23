"""Annotated reductions: the same result in lanes, for every operation, length and dtype; refused where not plain."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from minitvm import build, strategy, te, topi
from minitvm.codegen.vector_pieces import in_pieces
from minitvm.expr import Call, Expr, walk
from minitvm.reference import kernel as kernel_reference
from minitvm.target import Target
from minitvm.te import create_prim_func
from minitvm.tir import Schedule
from minitvm.tir.nodes import BufferLoad, IRModule, PrimFunc
from minitvm.tir.transform import lower


def annotated(reducer: Any, n: Any, dtype: str, lanes: int) -> PrimFunc:
    a = te.placeholder((3, n), dtype=dtype, name="A")
    k = te.reduce_axis((0, n), "k")
    sch = Schedule(create_prim_func([a, te.compute((3,), lambda i: reducer(a[i, k] * a[i, k], axis=k), name="B")]))
    sch.annotate(sch.get_loops(sch.get_block("B"))[-1], "vector_reduction", lanes)
    return sch.func


@pytest.mark.parametrize("reducer", ["sum", "max", "min"])
@pytest.mark.parametrize(("n", "lanes"), [(16, 8), (19, 8), (8, 8), (100, 32), (5, 8)])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_lanes_give_the_same_result(reducer: str, n: int, lanes: int, dtype: str, rng: np.random.Generator) -> None:
    func = annotated(getattr(te, reducer), n, dtype, lanes)
    a = rng.integers(-5, 6, (3, n)).astype(dtype)
    expected = getattr(np, reducer)(a * a, axis=1)
    module = lower(func, None, "main")
    uses_lanes = any(
        isinstance(e, Call) and e.op.startswith("vector_reduce") for e in walk(module["main_kernel_0"].body)
    )
    assert uses_lanes is (n >= lanes)
    got = np.full(3, 77, dtype)
    kernel_reference.run(module, a.reshape(-1), got)
    np.testing.assert_array_equal(got, expected)
    got[...] = 77
    build(func)(a, got)
    np.testing.assert_array_equal(got, expected)


def wider_than_opencl_has(reducer: str, bits: int) -> None:
    """Sums in 64 lanes, which are eight vectors of 256 bits: text of vectors of 8, with the interpreter's results."""
    func, rng = annotated(getattr(te, reducer), 300, "float32", 64), np.random.default_rng(0)
    a, got = rng.integers(-5, 6, (3, 300)).astype("float32"), np.full(3, 77, "float32")
    module = lower(func, Target(f"opencl -device=pocl -vector_bits={bits}"), "main")
    kernel = module["main_kernel_0"]
    assert any(e.dtype.lanes == 64 for e in walk(kernel.body) if isinstance(e, BufferLoad))
    pieces = in_pieces(kernel.body, 8)
    assert {e.dtype.lanes for e in walk(pieces) if isinstance(e, Expr)} <= {1, 8}
    module = IRModule({**dict(module.items()), "main_kernel_0": kernel.with_body(pieces)})
    kernel_reference.run(module, a.reshape(-1), got)
    np.testing.assert_array_equal(got, getattr(np, reducer)(a * a, axis=1))


CHECKS = [partial(wider_than_opencl_has, reducer, 512) for reducer in ("sum", "max", "min")]


@pytest.mark.parametrize("bits", [256, 512])
@pytest.mark.parametrize("reducer", ["sum", "max", "min"])
def test_vectors_wider_than_a_language_has_are_pieces(reducer: str, bits: int) -> None:
    wider_than_opencl_has(reducer, bits)


def test_long_rows_on_pocl(rng: np.random.Generator) -> None:
    pytest.importorskip("pyopencl")
    x = te.placeholder((2, 300), name="x")
    func = te.create_prim_func([x, topi.softmax(x, axis=-1)])
    a = rng.standard_normal((2, 300), dtype=np.float32)
    found = [np.zeros_like(a) for _ in "ab"]
    for target, out in zip(("opencl -device=pocl", "cpu"), found, strict=True):
        build(strategy.schedule(func, Target(target)).func, target=target)(a, out)
    np.testing.assert_allclose(*found, rtol=1e-5)


@pytest.mark.parametrize("reducer", ["sum", "max"])
def test_lanes_of_an_open_length(reducer: str, rng: np.random.Generator) -> None:
    func = annotated(getattr(te, reducer), te.size_var("n"), "float32", 8)
    module, run = lower(func, None, "main"), build(func)
    assert any(isinstance(e, Call) and e.op.startswith("vector_reduce") for e in walk(module["main_kernel_0"].body))
    for n in (1, 7, 8, 9, 31, 64):
        a = rng.integers(-5, 6, (3, n)).astype("float32")
        got, compiled = np.full(3, 77, "float32"), np.full(3, 77, "float32")
        kernel_reference.run(module, a.reshape(-1), got, sizes={"n": n})
        run(a, compiled)
        expected = getattr(np, reducer)(a * a, axis=1)
        np.testing.assert_array_equal(got, expected)
        np.testing.assert_array_equal(compiled, expected)


def test_a_body_that_is_not_a_plain_reduction_is_left_alone() -> None:
    a = te.placeholder((64,), name="A")
    k = te.reduce_axis((0, 64), "k")
    larger = te.comm_reducer(lambda x, y: te.select(x > y, x, y), lambda dtype: te.min_value(dtype), name="larger")
    sch = Schedule(create_prim_func([a, te.compute((1,), lambda i: larger(a[k], axis=k), name="B")]))
    sch.annotate(sch.get_loops(sch.get_block("B"))[-1], "vector_reduction", 8)
    module = lower(sch.func, None, "main")
    assert not any(isinstance(e, Call) for e in walk(module["main_kernel_0"].body))
