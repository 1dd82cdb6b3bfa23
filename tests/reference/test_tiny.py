"""The smallest interpreter of kernels, against the one that checks each access: the same bits."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitvm
from minitvm import expr as x
from minitvm.errors import ExecutionError, InputError, Unsupported
from minitvm.reference import kernel, tiny
from minitvm.reference.strategies import arguments, exprs, prim_funcs
from minitvm.script import from_source
from minitvm.tir import nodes as t
from minitvm.tir.transform.pipeline import lower
from tests.fewer import examples
from tests.tir.transform.kernel_programs import UPDATED, kernel_arguments, kernel_program
from tests.tir.transform.test_kernel_passes import CPU, FLAT

SCALARS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32",
           "float64", "bool")  # fmt: skip
COUNT = 9


def alike(
    module: t.IRModule | t.PrimFunc, arrays: Sequence[Any], sizes: Mapping[str, int] | None = None,
    inout: Sequence[str] = (),
) -> None:  # fmt: skip
    """Both interpreters leave the same bits in the arrays."""
    expected, actual = ([np.array(a) for a in arrays] for _ in range(2))
    kernel.run(module, *expected, mode="slow", sizes=sizes, inout=inout)
    tiny.run(module, *actual, sizes=sizes)
    for k, (a, b) in enumerate(zip(actual, expected, strict=True)):
        assert a.tobytes() == b.tobytes(), f"argument {k}: {a}, and kernel.run leaves {b}, of\n{module}"


@examples(25)
@given(st.data())
def test_random_functions_lowered(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(["float32", "int32", "float16", "int8"]))
    symbolic = data.draw(st.booleans())
    func = data.draw(prim_funcs(dtypes=[dtype], symbolic=symbolic))
    arrays = data.draw(arguments(func))
    sizes = {d.name: n for p, a in zip(func.buffers, arrays, strict=True)
             for d, n in zip(p.shape, a.shape, strict=True) if isinstance(d, x.Var)}  # fmt: skip
    alike(lower(func, CPU, "f"), arrays, sizes)


@examples(25)
@given(st.integers(0, 9999), st.sampled_from(["int32", "float32", "int8", "uint16", "int64", "float64"]))
def test_random_kernels(seed: int, dtype: str) -> None:
    """Masked and strided vectors, lets, gathers, allocations, loops without iterations; and some passes on these."""
    func, random = kernel_program(seed, dtype), Random(seed)
    for step in FLAT:
        if step.name in ("vectorize", "unroll") or random.random() < 0.4:
            func = step.run(func, CPU)
    alike(func, kernel_arguments(seed, dtype), inout=UPDATED)


@examples(60)
@given(st.data(), st.sampled_from(SCALARS))
def test_random_expressions_of_every_dtype(data: st.DataObject, dtype: str) -> None:
    """Both compute the same, or both refuse what is undefined: a cast of -7.0 to uint8."""
    i, rng = x.Var("i"), np.random.default_rng(data.draw(st.integers(0, 99)))
    inputs = [t.Buffer(f"A_{d}", (x.const(COUNT),), d) for d in SCALARS]
    result = data.draw(exprs([b[i] for b in inputs], dtype, intrinsics=True))
    output = t.Buffer("R", (x.const(COUNT),), dtype)
    loop = t.For(i, x.const(0), x.const(COUNT), t.ForKind.PARALLEL, t.BufferStore(output, result, (i,)))
    func = t.PrimFunc((*inputs, output), loop, {"global_symbol": "k"})
    arrays = [*(numbers(d, rng) for d in SCALARS), np.zeros(COUNT, output.dtype.numpy)]
    try:
        kernel.run(func, *(a.copy() for a in arrays), mode="slow")
    except ExecutionError:
        with pytest.raises(ExecutionError):
            tiny.run(func, *arrays)
    else:
        alike(func, arrays)


def numbers(dtype: str, rng: np.random.Generator) -> np.ndarray:
    """Small numbers, and integers from the ends of the dtype too: sums of these wrap."""
    kind = x.DType(dtype)
    small = rng.integers(-9 if kind.kind in ("int", "float") else 0, 10, COUNT)
    if kind.is_int:
        far = rng.integers(int(kind.min), int(kind.max), COUNT, dtype=kind.numpy, endpoint=True)
        return np.where(rng.random(COUNT) < 0.5, far, small.astype(kind.numpy))
    return (small % 2 if kind.is_bool else small).astype(kind.numpy)


FUNCTIONS = [name for name, row in x.INTRINSICS.items() if row.pure and name not in ("if_then_else", "reinterpret")]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function(name: str) -> None:
    """Scalars and vectors of each dtype that it takes."""
    row, rng = x.INTRINSICS[name], np.random.default_rng(0)
    kinds = {"float": ["float16", "bfloat16", "float32", "float64"], "int": ["int8", "int64", "uint32"]}
    if row.operands:
        dtypes = [row.operands]
    else:
        dtypes = [(d,) * row.arity for d in kinds.get(row.domain, kinds["float"] + kinds["int"])]
    for operands in dtypes:
        inputs = [t.Buffer(f"A{k}", (x.const(8),), d) for k, d in enumerate(operands)]
        arrays = [rng.integers(1, 9, 8).astype(x.DType(d).numpy) for d in operands]
        for places in (x.Var("i"), x.Ramp(x.const(0), x.const(1), 8)):
            result = x.call(name, *(b[places] for b in inputs))
            output = t.Buffer("B", (x.const(8),), str(result.dtype.scalar))
            body: t.Stmt = t.BufferStore(output, result, (places,))
            if isinstance(places, x.Var):
                body = t.For(places, x.const(0), x.const(8), t.ForKind.SERIAL, body)
            alike(t.PrimFunc((*inputs, output), body, {}), [*arrays, np.zeros(8, result.dtype.numpy)])


def test_vectors() -> None:
    """Masked lanes, shuffles, reductions over lanes, branches by lane, lets of vectors, broadcasts of vectors."""
    func = from_source(
        """
@T.prim_func(lowered=True)
def k(A: T.Buffer((16,), "float32"), B: T.Buffer((64,), "float32"), S: T.Buffer((4,), "float32")):
    ramp = T.Ramp(0, 1, 8)
    v = A[T.Ramp(8, 1, 8)]
    B[T.Ramp(0, 2, 8)] = T.Select(v > T.Broadcast(T.float32(0), 8), v, A[T.Ramp(7, -1, 8)])
    B[T.Ramp(16, 1, 8)] = T.if_then_else(ramp < T.Broadcast(4, 8), A[T.Ramp(12, 1, 8)], T.Broadcast(T.float32(7), 8))
    B[T.Ramp(24, 1, 8)] = T.Shuffle([v, A[T.Ramp(0, 1, 8)]], [0, 8, 1, 9, 2, 10, 3, 11])
    B[T.Ramp(32, 1, 8)] = T.Cast("float32x8", T.Cast("int32x8", v * T.Broadcast(T.float32(3.7), 8)))
    B.vstore([T.Ramp(40, 1, 8)], v, predicate=ramp < T.Broadcast(3, 8))
    B[T.Ramp(48, 1, 8)] = A.vload([T.Ramp(0, 1, 8)], predicate=ramp >= T.Broadcast(5, 8))
    S[0] = T.vector_reduce_add(v)
    S[1] = T.vector_reduce_max(v)
    S[2] = T.Shuffle([v], [3])
"""
    )
    a = np.random.default_rng(0).standard_normal(16).astype("float32")
    alike(func, [a, np.zeros(64, "float32"), np.zeros(4, "float32")], inout=["B", "S"])


def test_an_integer_becomes_a_float_of_16_bits_by_way_of_float64() -> None:
    func = from_source(
        """
@T.prim_func(lowered=True)
def k(A: T.Buffer((1,), "int64"), B: T.Buffer((1,), "bfloat16")):
    B[0] = T.Cast("bfloat16", A[0])
"""
    )
    number, result = 2**62 + 2**54 + 2**38 + 1, np.zeros(1, "bfloat16")  # by way of float32 alone: 2**62 + 2**55
    tiny.run(func, np.array([number]), result)
    assert float(result[0]) == 2**62
    alike(func, [np.array([number]), result])


def matmul_relu(dtype: str = "float32") -> Any:
    from minitvm.graph import GraphBuilder

    b = GraphBuilder("matmul_relu")
    y = b.op("nn.matmul", b.input("x", (6, 20), dtype), b.input("w", (20, 24), dtype))
    return b.build(b.op("nn.relu", y))


def softmax() -> Any:
    from minitvm.graph import GraphBuilder

    b = GraphBuilder("softmax")
    return b.build(b.op("nn.softmax", b.input("x", (5, 19), "float32")))


def convolution() -> Any:
    from minitvm.graph import GraphBuilder

    b = GraphBuilder("convolution")
    x, w = b.input("x", (1, 4, 5, 5), "float32"), b.input("w", (8, 4, 3, 3), "float32")
    return b.build(b.op("nn.relu", b.op("nn.conv2d", x, w, padding=(1, 1, 1, 1))))


MODELS: list[Callable[[], Any]] = [
    matmul_relu, lambda: matmul_relu("bfloat16"), lambda: matmul_relu("float16"), lambda: matmul_relu("int32"), softmax,
    convolution,
]  # fmt: skip


@pytest.mark.parametrize("model", MODELS)
def test_real_operators(model: Callable[[], Any]) -> None:
    modules = minitvm.lower(model(), "cpu -vector_bits=256 -vector_registers=16 -cores=2", stop_at="kernel")
    for module in modules.values():
        rng = np.random.default_rng(0)
        params = kernel.host_function(module).buffers
        alike(module, [rng.integers(-4, 5, p.shape[0].value).astype(p.dtype.numpy) for p in params])  # type: ignore[attr-defined]


def test_a_kernel_of_a_symbolic_size_reads_it_from_the_array() -> None:
    n, i, factor = x.SizeVar("n"), x.Var("i"), x.DataVar("s", "int32")
    source, output = t.Buffer("A", (n,), "int32"), t.Buffer("B", (n * 2,), "int32")
    store = t.BufferStore(output, source[i] * factor, (i * 2 + 1,))
    loop = t.For(i, x.const(0), n, t.ForKind.SERIAL, store)
    func = t.PrimFunc((source, output, factor), loop, {"global_symbol": "k"})
    a, b = np.arange(5, dtype="int32"), np.zeros(10, "int32")
    tiny.run(func, a, b, 3)
    assert b.tolist() == [0, 0, 0, 3, 0, 6, 0, 9, 0, 12]
    tiny.run(func, a, b, -1, sizes={"n": 2})
    assert b.tolist() == [0, 0, 0, -1, 0, 6, 0, 9, 0, 12]


HEAD = '@T.prim_func(lowered=True)\ndef k(A: T.Buffer((4,), "int32")):\n'
REFUSED = [
    (
        '    T.tvm_storage_sync("shared")',
        Unsupported,
        r"reference\.tiny has no intrinsic tvm_storage_sync: .*kernel\.run",
    ),
    (
        "    with T.async_scope():\n        A[0] = A[1]",
        Unsupported,
        r"reference\.tiny has no Async\n  try:    reference",
    ),
    ("    A[A[0]] = 1", ExecutionError, r"A\[A\[0\]\] is element -3, and A has 4"),
    ("    A[0] = A[3] // A[3]", ExecutionError, r"division by zero: A\[3\] // A\[3\]"),
    ("    assert A[0] == 1, 'one'", ExecutionError, r"assertion failed: one\n  wanted: A\[0\] == 1"),
]


@pytest.mark.parametrize(("body", "error", "message"), REFUSED)
def test_errors(body: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match="(?s)" + message):
        tiny.run(from_source(f"{HEAD}{body}\n"), np.array([-3, 0, 0, 0], "int32"))


@pytest.mark.parametrize("layout", [{"strides": (2,)}, {"elem_offset": 1}, {"shape": (2, 2)}])
def test_buffers_that_are_not_flat_are_refused(layout: dict[str, Any]) -> None:
    buffer = t.Buffer("A", **{"shape": (4,), "dtype": x.DType("int32"), **layout})
    store = t.BufferStore(buffer, x.const(1), tuple(x.const(0) for _ in buffer.shape))
    with pytest.raises(Unsupported, match="A is not flat: .*\n  wanted: a lowered program\n  try:    minitvm.lower"):
        tiny.run(t.PrimFunc((buffer,), store, {"global_symbol": "k"}), np.zeros(4, "int32"))


def test_arguments_that_do_not_fit() -> None:
    func = from_source(f"{HEAD}    A[0] = 1\n")
    with pytest.raises(InputError, match="k: wanted 1 arguments, found 0"):
        tiny.run(func)
    with pytest.raises(InputError, match="A: wanted a contiguous array of int32, found one of float32"):
        tiny.run(func, np.zeros(4, "float32"))
    with pytest.raises(InputError, match="A has 3 elements, wanted 4, which is 4"):
        tiny.run(func, np.zeros(3, "int32"))


def test_it_is_short_and_shares_no_interpreter() -> None:
    text = Path(tiny.__file__).read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 310
    imported = {node.module for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom) and node.level}
    assert imported == {"meaning.intrinsics", "meaning.operations"}
