"""Indices of 32 bits on devices: where they fit, the device's code has no wider ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given

import minitvm
from minitvm.expr import walk
from minitvm.machines.cuda.codegen.numba_cuda import generate
from minitvm.script import tir as T
from minitvm.target import Target
from minitvm.tir.nodes import BufferStore, For, PrimFunc
from tests.codegen.test_index_width import all_points, kernels, value
from tests.machines.cuda.cuda_kernels import run_on_cuda
from tests.machines.cuda.runtime.test_cuda import matmul_of_tiles


def test_sizes_that_nobody_bounds_have_64_bits() -> None:
    @T.prim_func
    def doubled(x: T.handle, y: T.handle) -> None:
        n = T.int32()
        X, Y = T.match_buffer(x, (n,)), T.match_buffer(y, (n,))
        for i in range(n):
            with T.block("Y"):
                v = T.axis.spatial(n, i)
                Y[v] = X[v] * T.float32(2)

    (source,) = minitvm.lower(doubled, target="cuda", stop_at="source").values()
    assert "i32(" not in source
    x, y = np.arange(5, dtype=np.float32), np.zeros(5, np.float32)
    minitvm.build(doubled, target="cuda")(x, y)
    np.testing.assert_array_equal(y, x * 2)


def looked_up(length: int) -> PrimFunc:
    @T.prim_func
    def func(places: T.Buffer((4,), "int64"), x: T.Buffer((length,), "float32"), y: T.Buffer((4,), "float32")) -> None:  # type: ignore[valid-type]
        for i in range(4):
            with T.block("y"):
                v = T.axis.spatial(4, i)
                T.assume((places[v] >= 0) & (places[v] < length))
                y[v] = x[places[v]]  # type: ignore[index]

    return func


@pytest.mark.parametrize("target", ["cuda", "opencl"])
@pytest.mark.parametrize("length", [9, 2**31])
def test_data_of_64_bits_is_an_index_of_32_where_the_buffer_is_small(target: str, length: int) -> None:
    (source,) = minitvm.lower(looked_up(length), target=target, stop_at="source").values()
    narrow = {"cuda": "x[i32(places[i])]", "opencl": "x[(int)places["}[target]
    wide = {"cuda": "x[i64(places[i])]", "opencl": "x[(long)places["}[target]
    assert (narrow if length == 9 else wide) in source


@given(kernels())
def test_text_of_either_width_accesses_the_same(func: PrimFunc) -> None:
    """The simulator computes in NumPy's int32 where the text does: what wraps would lie elsewhere."""
    if any(isinstance(n, For) and n.extent.value > 9 for n in walk(func.body)):  # type: ignore[attr-defined]
        return
    zeros = [np.ones(1 << 20, np.float32)]
    wanted = {
        value(n.indices[0], env) for n in walk(func.body) if isinstance(n, BufferStore) for env in all_points(func)
    }
    if min(wanted) < 0 or max(wanted) >= 1 << 20:
        return
    (found,) = run_on_cuda(func, zeros)
    assert set(np.flatnonzero(found == 0).tolist()) == wanted


def test_addresses_are_computed_in_32_bits_on_the_device() -> None:
    pytest.importorskip("cuda.core")
    from minitvm.machines.cuda.runtime import compiler

    (kernel,) = minitvm.lower(matmul_of_tiles(), target="cuda", stop_at="executable").kernels
    ptx = compiler.ptx_of(kernel.source, kernel.entry)
    assert "i64" not in kernel.source and "mul.wide" in ptx
    assert not [line for line in ptx.splitlines() if "mul.lo.s64" in line or "mad.lo.s64" in line or "div.s64" in line]


def test_a_constant_that_is_added_last_is_the_offset_of_the_access() -> None:
    (kernel,) = minitvm.lower(matmul_of_tiles(), target="cuda", stop_at="executable").kernels
    assert "A[at_A + 64]" in generate_again(kernel)


def generate_again(kernel: Any) -> str:
    return generate(kernel.func(), Target("cuda"))
