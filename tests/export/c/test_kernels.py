"""Kernels as C: bit-equal to the CPU back end's kernels, without a report of a sanitizer or a warning of a compiler."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm.codegen.index_width import index_dtype
from minitvm.codegen.spelling import is_index
from minitvm.export.c.kernels import generate
from minitvm.expr import Expr, replace, walk
from minitvm.script import from_source
from minitvm.target import Target
from minitvm.tir.nodes import BufferStore, For, PrimFunc
from tests.codegen.masked_kernels import run_compiled
from tests.codegen.test_index_width import SIZE, all_points, kernels, value
from tests.codegen.test_random_kernels import WIDE
from tests.export.c.c_kernels import FAST, SANITIZERS, run_many
from tests.fewer import examples


def wide() -> tuple[PrimFunc, list[np.ndarray]]:
    """Names, registers, shuffles, masks and reductions of vectors."""
    func = from_source(WIDE)
    assert isinstance(func, PrimFunc)
    return func, [np.arange(24, dtype="int32") * 3 - 20, np.full(16, 77, "int32"), np.zeros(2, "int32")]


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("flags", [(*FAST, *SANITIZERS), ("-O2",)], ids=["sanitized", "x86-64"])
def test_every_form_of_a_vector_is_that_of_the_cpu(compiler: str, flags: tuple[str, ...]) -> None:
    func, arrays = wide()
    for got, expected in zip(
        run_many([(func, arrays, 1)], compiler, flags)[0], run_compiled(func, arrays), strict=True
    ):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_conditions_are_written_without_warnings(compiler: str) -> None:
    func = from_source(
        """
@T.prim_func(lowered=True)
def k(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
    for i in range(4):
        if A[i] == 1:
            B[i] = 5
        while A[i] == 3:
            A[i] = 2
"""
    )
    assert isinstance(func, PrimFunc)
    (got,) = run_many([(func, [np.arange(4, dtype="int32"), np.zeros(4, "int32")], 1)], compiler)
    np.testing.assert_array_equal(got, [[0, 1, 2, 2], [0, 5, 0, 0]])


def test_a_kernel_without_vectors_is_plain_c99() -> None:
    func = from_source(
        """
@T.prim_func(lowered=True)
def k(A: T.Buffer((24,), "float32"), B: T.Buffer((24,), "int32"), n: T.int64):
    own = T.decl_buffer((8,), "float32", scope="local")
    for i in range(8):
        own[i] = T.exp(A[i]) * A[i] + T.sin(A[7 - i])
    for j in T.parallel(n):
        B[j] = T.Cast("int32", own[j % 8]) // 3
"""
    )
    assert isinstance(func, PrimFunc)
    kernel = generate(func)
    text = "\n".join([*kernel.definitions.values(), kernel.text])
    assert "vector_size" not in text
    arrays = [np.linspace(12, -12, 24).astype("float32"), np.zeros(24, "int32"), np.array([24], "int64")]
    (got,) = run_many([(func, arrays, 3)], flags=("-std=c99", "-O1", *SANITIZERS))
    np.testing.assert_array_equal(got[1][:8], got[1][8:16])
    assert np.abs(got[1]).max() > 100


def _inside(stmt: Any) -> Any:
    """Return the nest with the remainder of its index: an element of the buffer."""
    if isinstance(stmt, For):
        return replace(stmt, body=_inside(stmt.body))
    return replace(stmt, indices=(stmt.indices[0] % SIZE,))


@given(st.lists(kernels(), min_size=30, max_size=30))
@examples(3, 8)  # the first one has the simplest kernels only
def test_indices_of_32_bits_reach_the_elements_that_they_should(funcs: list[PrimFunc]) -> None:
    """The sanitizer reports a step that does not fit."""
    calls, reached = [], []
    for number, func in enumerate(funcs):
        if math.prod(node.extent.value for node in walk(func.body) if isinstance(node, For)) > 1e4:  # type: ignore[attr-defined]
            continue
        nest = PrimFunc(func.params, _inside(func.body), {"global_symbol": f"k{number}"})
        points = all_points(nest)
        steps = [node for node in walk(nest.body) if isinstance(node, Expr) and is_index(node)]
        if index_dtype(nest) != "int32" and any(abs(value(x, env)) >= 2**63 for env in points for x in steps):
            continue
        (store,) = (node for node in walk(nest.body) if isinstance(node, BufferStore))
        calls.append((nest, [np.ones(SIZE, np.float32)], 1))
        reached.append({value(store.indices[0], env) for env in points})
    assert calls
    for (array,), places in zip(run_many(calls, target=Target("cpu -arch=cortex-m4")), reached, strict=True):
        assert set(np.flatnonzero(array == 0).tolist()) == places
