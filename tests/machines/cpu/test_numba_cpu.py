"""The Numba dialect: how things are spelled, and that every dtype and intrinsic computes what it means."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from minitvm import build, te
from minitvm.codegen.spelling import rounded
from minitvm.errors import InternalError, Unsupported
from minitvm.expr import Broadcast, FloatImm, Ramp, SizeVar, Var, call, const
from minitvm.machines.cpu.codegen.numba_cpu import generate
from minitvm.reference import tir as reference
from minitvm.reference.domains import bound
from minitvm.te import create_prim_func
from minitvm.tir import Schedule
from minitvm.tir.nodes import Allocate, Buffer, BufferLoad, BufferStore, For, ForKind, PrimFunc, Seq

UNARY = [
    "exp",
    "sqrt",
    "tanh",
    "sigmoid",
    "erf",
    "floor",
    "ceil",
    "trunc",
    "round",
    "nearbyint",
    "log",
    "abs",
    "sin",
    "isnan",
]


def kernel(body: Any, *params: Any) -> str:
    return generate(PrimFunc(params, body, {"global_symbol": "k"}))


def test_multiply_add_is_fused_and_registers_are_variables() -> None:
    A, C = Buffer("A", (const(32),)), Buffer("C", (const(16),))
    T = Buffer("T", (const(16),), scope="local")
    whole, i = Ramp(const(0), const(1), 16), Var("i")
    step = BufferStore(T, T[whole] + Broadcast(A[i], 16) * BufferLoad(A, (Ramp(i, const(1), 16),)), (whole,))
    body = Allocate(T, Seq((
        BufferStore(T, const(0.0, "float32x16"), (whole,)),
        For(i, const(0), const(8), ForKind.SERIAL, step),
        BufferStore(C, T[whole], (whole,)),
    )))  # fmt: skip
    text = kernel(body, A, C)
    assert "T_0 = fma(A[i], load(A, i, 16), T_0)" in text
    assert "stack_" not in text


def test_local_buffer_with_variable_index_is_a_stack_array() -> None:
    T, C = Buffer("T", (const(4),), scope="local"), Buffer("C", (const(4),))
    i = Var("i")
    body = Allocate(
        T, For(i, const(0), const(4), ForKind.SERIAL, Seq((BufferStore(T, C[i], (i,)), BufferStore(C, T[i], (i,)))))
    )
    assert "T = stack_f32(4)" in kernel(body, C)


@pytest.mark.parametrize(
    ("table", "entries", "place", "operation"),
    [("uint8", 256, "uint8", "lookup"), ("int8", 256, "uint8", "lookup"), ("uint8", 255, "uint8", "gather"),
     ("float32", 256, "uint8", "gather"), ("uint8", 256, "int8", "gather")],
)  # fmt: skip
def test_only_tables_of_all_bytes_are_looked_up(table: str, entries: int, place: str, operation: str) -> None:
    A, X, C = (
        Buffer(name, (const(size),), dtype)
        for name, size, dtype in (("A", entries, table), ("X", 16, place), ("C", 16, table))
    )
    whole = Ramp(const(0), const(1), 16)
    text = kernel(BufferStore(C, A[X[whole].astype("int32x16")], (whole,)), A, X, C)
    assert f" {operation}(A, " in text


def test_divisions_are_cheap_where_the_sign_is_known() -> None:
    A, i, n = Buffer("A", (const(64),)), Var("i"), SizeVar("n")
    loop = For(i, const(0), n, ForKind.SERIAL, BufferStore(A, const(1.0), (i // 4 + i % 3 + (i - 5) // 3,)))
    text = kernel(loop, A, n)
    assert "(i >> 2)" in text and "truncmod(i, 3)" in text and "floordiv(i - 5, 3)" in text


def test_a_prefix_mask_is_spelled_first() -> None:
    A, n = Buffer("A", (const(64),)), SizeVar("n")
    index = Ramp(const(0), const(1), 8)
    text = kernel(BufferStore(A, const(1.0, "float32x8"), (index,), index < Broadcast(n, 8)), A, n)
    assert "store_masked(A, 0, f32x8(1.0), first(n, 8))" in text


def test_parallel_loop_is_cut_among_threads() -> None:
    A, i = Buffer("A", (const(64),)), Var("i")
    text = kernel(For(i, const(0), const(64), ForKind.PARALLEL, BufferStore(A, const(1.0), (i,))), A)
    assert "for i in range(64 * thread // threads, 64 * (thread + 1) // threads):" in text


def test_names_that_python_or_the_library_takes_are_avoided() -> None:
    A, i = Buffer("lambda", (const(4),)), Var("load")
    text = kernel(For(i, const(0), const(4), ForKind.SERIAL, BufferStore(A, const(1.0), (i,))), A)
    assert "for load_1 in" in text and "lambda_1[load_1]" in text


def test_what_a_kernel_cannot_say_is_refused() -> None:
    A = Buffer("A", (SizeVar("n"),), scope="local")
    with pytest.raises(InternalError, match="constant sizes"):
        kernel(Allocate(A, BufferStore(A, const(1.0), (Var("i"),))))
    B, i = Buffer("B", (const(4),)), Var("i")
    with pytest.raises(Unsupported, match="vectorized"):
        kernel(For(i, const(0), const(4), ForKind.VECTORIZED, BufferStore(B, const(1.0), (i,))), B)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_fractions_are_rounded_once(dtype: str) -> None:
    value = Fraction(1, 3)
    got = Fraction(rounded(FloatImm(value, dtype)))  # type: ignore[arg-type]
    kind = np.dtype(dtype).type
    near = [Fraction(float(np.nextafter(kind(float(got)), kind(end)))) for end in (-1, 1)]
    assert all(abs(got - value) <= abs(other - value) for other in near)


def computed(func: PrimFunc, arrays: list[np.ndarray], out: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    expected = out.copy()
    reference.run(func, *[a.copy() for a in arrays], expected)
    build(func)(*arrays, out)
    return out, expected


@pytest.mark.parametrize("vector", [False, True], ids=["scalar", "vector"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("op", UNARY)
def test_intrinsics(op: str, dtype: str, vector: bool, rng: np.random.Generator) -> None:
    A = te.placeholder((37,), dtype=dtype, name="A")
    B = te.compute((37,), lambda i: call(op, A[i]), name="B")
    sch = Schedule(create_prim_func([A, B]))
    if vector:
        sch.vectorize(sch.get_loops(sch.get_block("B"))[0])
    a = (rng.standard_normal(37) * 3).astype(dtype)
    out = np.zeros(37, B.dtype)
    got, _ = computed(sch.func, [a], out.copy())
    verdict = bound.compare(sch.func, [a, out], [a, got])
    assert verdict, verdict


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64", "uint32"])
def test_integer_arithmetic_wraps_and_rounds_as_declared(dtype: str, rng: np.random.Generator) -> None:
    A = te.placeholder((37,), dtype=dtype, name="A")
    B = te.compute(
        (37,), lambda i: A[i] * const(77, dtype) + A[i] // const(3, dtype) - A[i] % const(5, dtype), name="B"
    )
    sch = Schedule(create_prim_func([A, B]))
    sch.vectorize(sch.get_loops(sch.get_block("B"))[0])
    info = np.iinfo(dtype)
    a = rng.integers(max(info.min, -(2**31)), min(info.max, 2**31), 37).astype(dtype)
    for func in (create_prim_func([A, B]), sch.func):
        got, expected = computed(func, [a], np.zeros(37, dtype))
        np.testing.assert_array_equal(got, expected)
