"""Stores that fill one another's gaps as one store of neighbours: the same elements, in an order that shows nowhere."""

from __future__ import annotations

import numpy as np
import pytest

import minitvm
from minitvm import te
from minitvm.expr import Ramp, const, walk
from minitvm.machines.simd.transform.strided_stores import strided_stores
from minitvm.reference import check
from minitvm.reference import kernel as reference
from minitvm.target import Target
from minitvm.tir import Schedule
from minitvm.tir.nodes import Buffer, BufferLoad, BufferStore, PrimFunc, Seq
from minitvm.tir.transform.pipeline import lower


def rows_in_turn(rows: int, lanes: int, dtype: str) -> PrimFunc:
    """B[rows * i + p] = A[p, i], a vector of one row after that of another."""
    a = te.placeholder((rows, 3 * lanes), dtype, name="A")
    b = te.compute((rows * 3 * lanes,), lambda i: a[i % rows, i // rows], name="B")
    sch = Schedule(te.create_prim_func([a, b]))
    sch.transform_block_layout("B", lambda i: (i // rows, i % rows))
    point, row = sch.get_loops("B")
    outer, lane = sch.split(point, [None, lanes])
    sch.reorder(outer, row, lane)
    sch.unroll(row)
    sch.vectorize(lane)
    return sch.func


@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize(("rows", "lanes"), [(2, 16), (3, 8)])
def test_rows_in_turn(dtype: str, rows: int, lanes: int) -> None:
    func = rows_in_turn(rows, lanes, dtype)
    module = lower(func, Target("cpu"))
    assert "Shuffle" in str(module)
    assert check(func, module, modes=("exact", "shadow"))
    a = np.arange(rows * 3 * lanes).reshape(rows, -1).astype(dtype)
    found = np.zeros(rows * 3 * lanes, dtype)
    minitvm.build(func, target="cpu")(a, found)
    np.testing.assert_array_equal(found, a.T.reshape(-1))


LANES = 4
A, B = Buffer("A", (const(64),), "float32"), Buffer("B", (const(64),), "float32")


def store(start: int, value: int | BufferLoad, stride: int = 2, buffer: Buffer = B) -> BufferStore:
    """Every `stride`-th element of a buffer, from A or as given."""
    vector = BufferLoad(A, (Ramp(const(value), const(1), LANES),)) if isinstance(value, int) else value
    return BufferStore(buffer, vector, (Ramp(const(start), const(stride), LANES),))


def read(buffer: Buffer, start: int, stride: int = 1) -> BufferLoad:
    return BufferLoad(buffer, (Ramp(const(start), const(stride), LANES),))


TOGETHER = {
    "one behind the other": [store(0, 0), store(1, 4)],
    "the later element first": [store(1, 0), store(0, 4)],
    "not at an even place": [store(3, 0), store(4, 4)],
    "others that are apart between": [store(0, 0), store(16, 8), store(1, 4), store(17, 12)],
    "another buffer between": [store(0, 0), store(40, 8, 1, Buffer("C", (const(64),), "float32")), store(1, 4)],
}
APART = {
    "one is missing": [store(0, 0), store(2, 4)],
    "an element is stored twice": [store(0, 0), store(1, 4), store(0, 8)],
    "elements are stored again between": [store(0, 0), store(2, 8, 3), store(1, 4)],
    "what was stored is read between": [store(0, 0), store(32, read(B, 0), 1), store(1, 4)],
    "a store reads what the other writes": [store(0, 0), store(1, read(B, 0, 2))],
    "what is read is written between": [store(0, 0), store(0, read(B, 40), 1, A), store(1, 4)],
}


def program(stores: list[BufferStore]) -> PrimFunc:
    buffers = {n.buffer: None for s in stores for n in walk(s) if isinstance(n, BufferLoad | BufferStore)}
    return PrimFunc(tuple(dict.fromkeys((A, B, *buffers))), Seq.of(*stores))


def results(func: PrimFunc) -> list[np.ndarray]:
    arrays = [np.arange(64, dtype="float32") + 100 * k for k in range(len(func.params))]
    reference.run(func, *arrays, inout=[p.name for p in func.params])
    return arrays


def stores_of(func: PrimFunc) -> int:
    return sum(isinstance(node, BufferStore) for node in walk(func.body))


def gaps_are_filled() -> None:
    for case, stores in (*TOGETHER.items(), *APART.items()):
        func = program(stores)
        after = strided_stores(func)
        assert (stores_of(after) < len(stores)) == (case in TOGETHER), case
        for found, wanted in zip(results(after), results(func), strict=True):
            np.testing.assert_array_equal(found, wanted, case)


def test_gaps_are_filled() -> None:
    gaps_are_filled()
