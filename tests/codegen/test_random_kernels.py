"""Machine code of random kernels and of random expressions of every dtype, beside the interpreter of kernels."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitvm.codegen.spelling import rounded
from minitvm.codegen.vector_pieces import in_pieces
from minitvm.expr import Cast, DType, Expr, FloatImm, Ramp, Select, Shuffle, Var, const, find
from minitvm.machines.opencl.codegen.statements import generate
from minitvm.reference import kernel as reference
from minitvm.reference.strategies.expressions import exprs
from minitvm.script import from_source
from minitvm.target import Target
from minitvm.tir.nodes import Buffer, BufferLoad, BufferStore, For, ForKind, LetStmt, PrimFunc, Seq, Stmt
from tests.codegen.masked_kernels import COUNT, FIRST, Run, compare, index, masks_alike, run_compiled
from tests.export.c.c_kernels import run_in_c
from tests.export.wasm.wasm_kernels import run_in_wasm
from tests.machines.cuda.cuda_kernels import run_on_cuda
from tests.machines.opencl.opencl_kernels import run_on_device, target
from tests.tir.transform.kernel_programs import UPDATED, kernel_arguments, kernel_program
from tests.tir.transform.test_kernel_passes import CPU, FLAT

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
UNSIGNED = INTEGERS[4:]


def run_in_pieces(func: PrimFunc, arrays: Sequence[np.ndarray], threads: int = 1) -> list[np.ndarray]:
    """The arrays after the interpreter has run the kernel with vectors of at most two lanes."""
    copies = [a.copy() for a in arrays]
    pieces = func.with_body(in_pieces(func.body, 2))
    assert all(e.dtype.lanes <= 2 or e.dtype.lanes % 2 for e in find(pieces.body, Expr))
    reference.run(pieces, *copies, inout=[param.name for param in func.params])
    return copies


RUNS = [
    pytest.param(run_in_pieces, id="pieces"),
    pytest.param(run_compiled, id="cpu"),
    pytest.param(run_on_device, id="opencl"),
    pytest.param(run_on_cuda, id="cuda"),
    pytest.param(run_in_c, id="c"),
    pytest.param(run_in_wasm, id="wasm"),
]
MACHINES = {
    run_compiled: lambda: CPU,
    run_in_pieces: lambda: CPU,
    run_in_c: lambda: CPU,
    run_in_wasm: lambda: CPU,
    run_on_device: target,
    run_on_cuda: lambda: Target("cuda"),
}


def kernel_alike(seed: int, run: Run = run_compiled) -> None:
    """A kernel, some of the passes on it, and those without which there is no code."""
    dtype = ("int32", "float32", "int8", "uint16", "int64", "float64")[seed % 6]
    func, random = kernel_program(seed, dtype), Random(seed)
    machine = MACHINES[run]()
    for p in FLAT:
        if p.name in ("vectorize", "unroll") or random.random() < 0.4:
            func = p.run(func, machine)
    compare(func, kernel_arguments(seed, dtype), inout=UPDATED, run=run)


@pytest.mark.alike("run", "seed")
@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("seed", range(6))
def test_kernels_compute_what_the_interpreter_does(seed: int, run: Run) -> None:
    kernel_alike(seed, run)


@pytest.mark.full
@pytest.mark.parametrize("run", RUNS)
def test_many_kernels_compute_what_the_interpreter_does(run: Run) -> None:
    for seed in range(100, 250):
        kernel_alike(seed, run)


def of_expressions(values: Sequence[Expr], data: Sequence[Buffer], i: Var) -> PrimFunc:
    """A parallel loop that starts below zero and stores one row of results an expression."""
    rows = [Buffer(f"R{k}", (const(COUNT),), str(e.dtype)) for k, e in enumerate(values)]
    stores: list[Stmt] = [BufferStore(r, e, (i - FIRST,)) for r, e in zip(rows, values, strict=True)]
    loop = For(i, const(FIRST), const(COUNT), ForKind.PARALLEL, Seq.of(*stores))
    return PrimFunc((*data, *rows), loop, {"global_symbol": "k"})


def ends(dtype: str, rng: np.random.Generator) -> np.ndarray:
    """Numbers from the ends of a dtype, and small ones."""
    info = np.iinfo(dtype)
    far = rng.integers(info.min, info.max, COUNT, dtype=dtype, endpoint=True)
    near = rng.integers(max(info.min, -9), 10, COUNT).astype(dtype)
    return np.where(rng.random(COUNT) < 0.5, far, near)


@pytest.mark.alike("run")
@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("seed", [0, 1])
def test_index_expressions_compute_what_the_interpreter_does(seed: int, run: Run) -> None:
    i, random = Var("i"), Random(seed)
    values = [Cast(DType("int64"), index(random, i, 3)) for _ in range(20)]  # indices are 64 bits wide
    compare(of_expressions(values, (), i), [np.zeros(COUNT, "int64") for _ in values], threads=3, run=run)


def loops_of_every_form() -> PrimFunc:
    """Loops whose start and extent are numbers, data, or a variable of the loop around them; each has its own row.

    The outer loop is parallel, and data decide where it starts and how often it runs.
    """
    places, rows = Buffer("P", (const(4),), "int32"), Buffer("B", (const(16 * 16 * 16),), "int32")
    i, (s, e, m, n) = Var("i"), (Var(name) for name in "semn")
    starts, extents = [const(0), const(2), m, i], [const(3), const(0), n, i + 2]
    stmts: list[Stmt] = []
    for kind in (ForKind.SERIAL, ForKind.UNROLLED):
        for start, extent in itertools.product(starts, extents):
            j, row = Var("j"), len(stmts) % 16
            at = (i + 6) * 256 + row * 16 + (j + 6)
            stored = BufferStore(rows, rows[at] * 2 + j + (11 if kind is ForKind.SERIAL else 5), (at,))
            stmts.append(For(j, start, extent, kind, stored))
    body: Stmt = For(i, s, e, ForKind.PARALLEL, Seq.of(*stmts))
    for number, var in enumerate((s, e, m, n)):
        body = LetStmt(var, places[number], body)
    return PrimFunc((places, rows), body, {"global_symbol": "k"})


@pytest.mark.parametrize("run", RUNS)
def test_loops_of_every_form_run_their_iterations(run: Run) -> None:
    places = np.array([-3, 7, -2, 4], "int32")
    func, rows = loops_of_every_form(), np.zeros(16 * 16 * 16, "int32")
    compare(func, [places, rows], threads=2 if run is run_compiled else 1, inout=["B"], run=run)


@pytest.mark.alike("run")
@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("seed", [0, 1])
def test_masks_of_every_form_keep_the_same_lanes_out(seed: int, run: Run) -> None:
    masks_alike(seed, run)


@pytest.mark.parametrize("run", RUNS)
@settings(max_examples=2)
@given(data=st.data())
def test_expressions_of_every_dtype_compute_what_the_interpreter_does(data: Any, run: Run) -> None:
    i, rng = Var("i"), np.random.default_rng(data.draw(st.integers(0, 99)))
    inputs = [Buffer(f"A_{d}", (const(COUNT),), d) for d in INTEGERS]
    loads = [b[i - FIRST] for b in inputs]
    values = [data.draw(exprs(loads, d, max_depth=2)) for d in (*INTEGERS, *INTEGERS)]
    func = of_expressions(values, inputs, i)
    arrays = [ends(d, rng) for d in INTEGERS]
    compare(func, [*arrays, *(np.zeros(COUNT, str(e.dtype)) for e in values)], threads=2, run=run)


def unsigned_alike(dtype: str, run: Run) -> None:
    """All that a sign bit would change: order, quotients, shifts and conversions of numbers in the upper half."""
    i, rng = Var("i"), np.random.default_rng(0)
    inputs = [Buffer(name, (const(COUNT),), dtype) for name in "AB"]
    a, b = (buffer[i - FIRST] for buffer in inputs)
    three = const(3, dtype)
    values = [
        a // three,
        a % three,
        a >> three,
        Cast(DType("int64"), a),
        Cast(DType("float64"), a),
        Select(a < b, a, b),
    ]
    arrays = [ends(dtype, rng) for _ in inputs]
    for array in arrays:
        array[::2] |= np.iinfo(dtype).max // 2 + 1
    compare(of_expressions(values, inputs, i), [*arrays, *(np.zeros(COUNT, str(e.dtype)) for e in values)], run=run)


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("dtype", ["uint8", "uint32"])
def test_unsigned_numbers_have_no_sign(dtype: str, run: Run) -> None:
    unsigned_alike(dtype, run)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_fractions_beside_the_middle_of_two_numbers_are_rounded_once(dtype: str) -> None:
    """A sliver above or below the middle decides, however small; what rounds on the way loses it."""
    kind = np.dtype(dtype).type
    for a in np.random.default_rng(0).uniform(-60, 60, 40).astype(dtype):
        b = np.nextafter(a, kind(np.inf))
        low, high = Fraction(float(a)), Fraction(float(b))
        for bits in (30, 50, 200):
            sliver = (high - low) / 2**bits
            middle = (low + high) / 2
            assert rounded(FloatImm(middle - sliver, dtype)) == float(a)  # type: ignore[arg-type]
            assert rounded(FloatImm(middle + sliver, dtype)) == float(b)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", ["uint16", "float16", "float32"])
@pytest.mark.parametrize("at", ["T.Ramp(4, 1, 4)", "T.Ramp(1, 2, 4)"])
def test_an_array_of_a_kernel_is_its_own_whatever_its_scope_is_called(dtype: str, at: str) -> None:
    """Vectors of it are read from private memory in OpenCL."""
    func = from_source(
        f"""
@T.prim_func(lowered=True)
def k(A: T.Buffer((8,), "{dtype}"), B: T.Buffer((4,), "{dtype}")):
    own = T.decl_buffer((8,), "{dtype}")
    for i in range(8):
        own[i] = A[7 - i]
    B[T.Ramp(0, 1, 4)] = own[{at}]
"""
    )
    a = np.arange(8).astype(dtype)
    _, found = run_on_device(func, [a, np.zeros(4, dtype)])
    np.testing.assert_array_equal(found, a[::-1][4:] if "4, 1" in at else a[::-1][1::2])


WIDE = """
@T.prim_func(lowered=True)
def k(A: T.Buffer((24,), "int32"), B: T.Buffer((16,), "int32"), C: T.Buffer((2,), "int32")):
    v: T.int32x8 = A[T.Ramp(0, 2, 8)]
    own = T.decl_buffer((8,), "int32", scope="local")
    own[T.Ramp(0, 1, 8)] = v * v - T.Broadcast(A[3], 8)
    B[T.Ramp(0, 1, 8)] = T.Shuffle([v, own[T.Ramp(0, 1, 8)]], [0, 9, 2, 11, 15, 6, 13, 7])
    least: T.int32x8 = T.Select(v < own[T.Ramp(0, 1, 8)], v, T.Ramp(5, 3, 8))
    B.vstore([T.Ramp(8, 1, 8)], least, predicate=T.Ramp(0, 1, 8) < T.Broadcast(6, 8))
    A[T.Ramp(1, 1, 8)] = A[T.Ramp(0, 1, 8)] + A[T.Ramp(1, 1, 8)]
    C[0] = T.vector_reduce_max(A[T.Ramp(2, 1, 8)] * v)
    C[1] = T.Shuffle([v], [5])
"""


def pieces_mean_the_same(lanes: int) -> None:
    """Names, registers, shuffles, masks and reductions; and a store that changes what a later piece would read."""
    func, found = from_source(WIDE), []
    assert isinstance(func, PrimFunc)
    for body in (func.body, in_pieces(func.body, lanes)):
        arrays = [np.arange(24, dtype="int32") * 3 - 20, np.full(16, 77, "int32"), np.zeros(2, "int32")]
        reference.run(func.with_body(body), *arrays, inout=["A", "B"])
        assert {e.dtype.lanes for e in find(body, Expr)} <= {1, lanes if found else 8}
        found.append(arrays)
    for expected, got in zip(*found, strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("lanes", [2, 4, 8])
def test_pieces_keep_what_every_form_of_a_vector_means(lanes: int) -> None:
    pieces_mean_the_same(lanes)


@pytest.mark.parametrize(("values", "bits", "lanes"), [
    ("float32", 256, 8), ("float16", 256, 8), ("float64", 256, 4), ("int8", 256, 16), ("float32", 512, 16),
    ("int64", 512, 8),
])  # fmt: skip
def test_no_value_of_an_opencl_kernel_is_wider_than_the_device_has(values: str, bits: int, lanes: int) -> None:
    """PoCL passes wider ones to its functions in another way than these expect, on processors it does not know."""
    func = from_source(f"""
@T.prim_func(lowered=True)
def k(A: T.Buffer((40,), "{values}"), B: T.Buffer((40,), "{values}"), n: T.int64):
    first: T.boolx16 = T.Ramp(0, 1, 16) < T.Broadcast(13, 16)
    B.vstore([T.Ramp(1, 1, 16)], A[T.Ramp(3, 1, 16)] + A[T.Ramp(0, 1, 16)], predicate=first)
""")
    assert isinstance(func, PrimFunc)
    source = generate(func, Target(f"opencl -device=pocl -vector_bits={bits}"))
    types = re.findall(r"\b(?:char|long|half|float|double)(\d+)\b", source.split("FP_CONTRACT OFF")[1])
    assert max(map(int, types)) == lanes


def test_a_store_may_read_narrower_vectors_of_its_buffer() -> None:
    """The pieces are read before they are written, since the two halves change places."""
    data = Buffer("data", (4,), "int32")
    halves = [BufferLoad(data, (Ramp(const(2 * k), const(1), 2),)) for k in (1, 0)]
    swap = BufferStore(data, Shuffle(halves, (0, 1, 2, 3)), (Ramp(const(0), const(1), 4),))
    compare(PrimFunc((data,), swap), [np.arange(4, dtype="int32")], inout=["data"], run=run_in_pieces)
