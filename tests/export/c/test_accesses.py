"""Vectors in memory as C: neighbours, a stride apart, and at places; all lanes, those of a mask, and the first ones.

Processors have instructions for some of these, and access the others lane by lane. The results are those of the
reference interpreter. Each array ends where a page ends, and the next page may not be accessed.
"""

from __future__ import annotations

import numpy as np
import pytest

from minitvm.expr import Broadcast, Expr, Ramp, Var, const
from minitvm.reference import kernel as reference
from minitvm.tir.nodes import Buffer, BufferLoad, BufferStore, For, ForKind, PrimFunc, Seq, Stmt
from tests.export.c.c_kernels import FAST, run_many
from tests.export.c.test_operations import FLOATS, INTEGERS, special_values

ROWS = 7
LANES, MORE_LANES = (4, 7, 14, 16), (3, 8, 9)
AVX2, BASELINE = ("-O1", "-march=x86-64-v3"), ("-O1",)


def of_all_accesses(dtype: str, lanes: int) -> tuple[PrimFunc, list[np.ndarray]]:
    """A kernel that moves vectors, and its arrays: each access has a result of its own."""
    rng, i, size = np.random.default_rng(lanes), Var("i"), ROWS * lanes
    source, places, mask = (Buffer(n, (const(size),), d) for n, d in zip("APM", (dtype, "int32", "bool"), strict=True))
    counts = Buffer("N", (const(ROWS),), "int32")

    def row(buffer: Buffer) -> Expr:
        return BufferLoad(buffer, (neighbours,))

    neighbours = Ramp(i * lanes, const(1), lanes)
    columns = Ramp(i, const(ROWS), lanes)
    reverse = Ramp(const(size - 1) - i, const(-ROWS), lanes)
    first = Ramp(const(0), const(1), lanes) < Broadcast(BufferLoad(counts, (i,)), lanes)
    stores: list[Stmt] = []
    results = []
    for at in (neighbours, columns, reverse, row(places)):
        for predicate in (None, row(mask), first):
            for load in (True, False):
                results.append(Buffer(f"R{len(results)}", (const(size),), dtype))
                value = BufferLoad(source, (at if load else neighbours,), predicate if load else None)
                place, selected = (neighbours, None) if load else (at, predicate)
                stores.append(BufferStore(results[-1], value, (place,), selected))
    loop = For(i, const(0), const(ROWS), ForKind.SERIAL, Seq.of(*stores))
    func = PrimFunc((source, places, mask, counts, *results), loop, {"global_symbol": f"{dtype}_by_{lanes}"})
    values = special_values(dtype, rng, max(size, 64))[:size]
    inputs = [
        values, rng.permutation(size).astype("int32"), rng.random(size) < 0.5,
        np.array([-3, 0, 1, lanes - 1, lanes, lanes + 5, 2], "int32"),
    ]  # fmt: skip
    return func, [*inputs, *(np.zeros(size, values.dtype) for _ in results)]


def same_as_interpreted(
    dtypes: tuple[str, ...], all_lanes: tuple[int, ...], compiler: str, flags: tuple[str, ...]
) -> None:
    cases = [of_all_accesses(dtype, lanes) for dtype in dtypes for lanes in all_lanes]
    results = run_many([(func, arrays, 1) for func, arrays in cases], compiler, flags)
    for (func, arrays), got in zip(cases, results, strict=True):
        expected = [array.copy() for array in arrays]
        reference.run(func, *expected, inout=[buffer.name for buffer in func.params[4:]])
        for store, a, b in zip(func.body.body.stmts, got[4:], expected[4:], strict=True):
            assert a.tobytes() == b.tobytes(), f"{func.name}: {store}\n in C {a}\n interpreted {b}"


@pytest.mark.parametrize("flags", [FAST, AVX2], ids=["native", "avx2"])
def test_accesses_touch_the_lanes_that_they_should(flags: tuple[str, ...]) -> None:
    same_as_interpreted(("float32", "int64", "bfloat16"), LANES, "gcc", flags)


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_a_stored_part_of_a_wider_vector_touches_its_own_lanes(compiler: str) -> None:
    """GCC fused such a store with the extraction of the part, in an instruction that touches all lanes."""
    calls = []
    for source, target in (("float64", "uint32"), ("int64", "int32"), ("uint64", "float32")):
        for lanes in (3, 5, 6, 7):
            i, size = Var("i"), ROWS * lanes
            a, r = Buffer("A", (const(size),), source), Buffer("R", (const(size),), target)
            at = Ramp(i * lanes, const(1), lanes)
            store = BufferStore(r, BufferLoad(a, (at,)).astype(f"{target}x{lanes}"), (at,))
            loop = For(i, const(0), const(ROWS), ForKind.SERIAL, store)
            func = PrimFunc((a, r), loop, {"global_symbol": f"{source}_to_{target}_by_{lanes}"})
            calls.append((func, [np.arange(size).astype(source), np.zeros(size, target)], 1))
    for (_, (numbers, _), _), (_, result) in zip(calls, run_many(calls, compiler, FAST), strict=True):
        np.testing.assert_array_equal(result, numbers)


@pytest.mark.full
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("flags", [FAST, AVX2, BASELINE], ids=["native", "avx2", "baseline"])
@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS, "bool"])
def test_all_accesses_touch_the_lanes_that_they_should(dtype: str, flags: tuple[str, ...], compiler: str) -> None:
    same_as_interpreted((dtype,), LANES + MORE_LANES, compiler, flags)
