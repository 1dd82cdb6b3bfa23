"""Sorts: each way of sorting, compiled, is NumPy's stable sort; keys are in the order of the elements."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import minitvm
from minitvm import te
from minitvm.expr import SizeVar
from minitvm.graph import GraphBuilder
from minitvm.topi.sort_keys import key_of, placed_key, unsigned_key
from minitvm.topi.sort_lanes import exchanges

FLOATS = ("float16", "bfloat16", "float32", "float64")
DTYPES = (*FLOATS, "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


def numpy_dtype(name: str) -> Any:
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def any_bits(dtype: str, count: int, rng: np.random.Generator) -> np.ndarray:
    """Elements of all kinds: any bits, zeros of both signs, infinities, NaN of both signs, and many equal ones."""
    kind = numpy_dtype(dtype)
    x = rng.integers(0, 256, count * kind.itemsize).astype("uint8").view(kind)
    values = [0, 1, 1, 2] if kind.kind in "iu" else [0.0, -0.0, np.inf, -np.inf, np.nan]
    special = np.array(values).astype(kind)
    x[: count // 2] = rng.choice(special, count // 2)
    if kind.kind not in "iu":
        x[0] = -special[-1]
    return rng.permutation(x)


def places(x: np.ndarray, axis: int, ascending: bool) -> np.ndarray:
    """The stable order, in which NaN is the greatest."""
    with np.errstate(invalid="ignore"):  # a signalling NaN
        wide = x.astype("float64") if x.dtype.kind not in "iu" else x
    if ascending:
        return np.argsort(wide, axis, kind="stable")
    turned = np.argsort(np.flip(wide, axis), axis, kind="stable")
    return np.flip(x.shape[axis] - 1 - turned, axis)


@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
def test_keys_are_in_the_order_of_the_elements(
    run_compute: Any, dtype: str, ascending: bool, rng: np.random.Generator
) -> None:
    x = any_bits(dtype, 200, rng)
    data = te.placeholder(x.shape, dtype, name="x")
    key = te.compute(x.shape, lambda i: key_of(data[i], ascending), name="key")
    digits = te.compute(x.shape, lambda i: unsigned_key(data[i], ascending), name="digits")
    keys, unsigned = run_compute(data, x, [key, digits])
    order = places(x, 0, ascending)
    same = (x[order][1:] == x[order][:-1]) | ((x[order] != x[order])[1:] & (x[order] != x[order])[:-1])
    ranks = np.concatenate([[0], np.cumsum(~same)])
    np.testing.assert_array_equal(np.unique(keys[order], return_inverse=True)[1], ranks)
    bits = min(8 * x.itemsize if x.dtype.kind in "iu" and x.itemsize < 4 else 64, 8 * unsigned.itemsize)
    low = unsigned.view(f"uint{8 * unsigned.itemsize}") & np.uint64(2**bits - 1).astype(f"uint{8 * unsigned.itemsize}")
    np.testing.assert_array_equal(np.unique(low[order], return_inverse=True)[1], ranks)


def test_keys_with_places_keep_the_order_of_equal_elements(run_compute: Any, rng: np.random.Generator) -> None:
    x = any_bits("float32", 200, rng)
    data = te.placeholder(x.shape, "float32", name="x")
    (placed,) = run_compute(data, x, [te.compute(x.shape, lambda i: placed_key(data[i], i, False), name="placed")])
    np.testing.assert_array_equal(np.argsort(placed), places(x, 0, False))
    np.testing.assert_array_equal(placed & 0xFFFFFFFF, np.arange(200))


@pytest.fixture
def run_compute() -> Any:
    def run(data: Any, x: np.ndarray, results: list[Any]) -> list[np.ndarray]:
        found = [np.zeros(x.shape, t.dtype.numpy) for t in results]
        minitvm.build(te.create_prim_func([data, *results]))(x, *found)
        return found

    return run


@pytest.mark.parametrize("extent", [1, 2, 3, 8, 13, 64, 100])
def test_exchanges_are_counted_as_they_are_listed(extent: int) -> None:
    """The algorithm's own words (Knuth, 5.2.2, M), with its pairs in a list: they sort, and are as many as counted."""
    pairs: list[tuple[int, int]] = []
    top = 1 << max((extent - 1).bit_length() - 1, 0)
    step = top
    while step > 0 and extent > 1:
        farthest, side, distance = top, 0, step
        while True:
            pairs += [(i, i + distance) for i in range(extent - distance) if i & step == side]
            if farthest == step:
                break
            distance, farthest, side = farthest - step, farthest // 2, step
        step //= 2
    assert len(pairs) == exchanges(extent)


# What is known of the shape decides how it is sorted: (shape, axis, k, what the function's block is called).
WAYS = [
    ((37, 8), 1, 2, "insertion"), ((3, 5, 9), 1, 1, "insertion"), ((2, 2000, 9), 1, 3, "insertion"),
    ((19, 40), 1, 40, "merge_exchange"), ((40, 3, 7), 0, 30, "merge_exchange"), ((2, 33), 1, 33, "merge_exchange"),
    ((170, 9), 0, 20, "insertion"), ((40, 900), 1, 60, "merge_exchange"), ((9, 9000), 1, 20, "top"),
    ((2, 900), 1, 700, "by_digits"), ((5000,), 0, 5000, "by_digits"), ((600, 2), 0, 600, "by_digits"),
    ((2, 900), 1, 20, "top"), ((2, 900, 3), 1, 20, "top"),
]  # fmt: skip


# Ways are sorted up and down in turn, the other way round in `make test-full`.
BOTH = [(way, (number + turn) % 2 == 0, turn) for turn in (0, 1) for number, way in enumerate(WAYS)]


@pytest.mark.parametrize(
    ("way", "ascending"),
    [pytest.param(way, up, id=f"{way}-{up}", marks=[pytest.mark.full] * turn) for way, up, turn in BOTH],
)
def test_every_way_is_a_stable_sort(way: Any, ascending: bool, rng: np.random.Generator) -> None:
    shape, axis, k, name = way
    for dtype in ("float32", "int64" if ascending else "uint16"):
        x = any_bits(dtype, int(np.prod(shape)), rng).reshape(shape)
        b = GraphBuilder()
        graph = b.build(list(b.op("topk", b.input("x", shape, dtype), k=k, axis=axis, is_ascend=ascending)))
        if dtype == "float32":
            assert f'T.block("{name}")' in minitvm.lower(graph, stop_at="tir")["topk"].script()
        wanted = places(x, axis, ascending).take(np.arange(k), axis)
        values, indices = (np.asarray(r) for r in minitvm.build(graph)(x=x))
        np.testing.assert_array_equal(indices, wanted)
        np.testing.assert_array_equal(
            values.view(f"uint{8 * x.itemsize}"), np.take_along_axis(x, wanted, axis).view(f"uint{8 * x.itemsize}")
        )


@pytest.mark.parametrize(("k", "extent"), [(2, 8), (40, 40), (3, 3000)])
def test_lines_of_an_open_number_are_lanes(k: int, extent: int, rng: np.random.Generator) -> None:
    b = GraphBuilder()
    graph = b.build(list(b.op("topk", b.input("x", (SizeVar("n"), extent)), k=k)))
    run = minitvm.build(graph)
    for rows in (1, 3, 8, 21):
        x = rng.integers(-9, 9, (rows, extent)).astype("float32")
        np.testing.assert_array_equal(np.asarray(run(x=x)[1]), places(x, 1, False)[:, :k])


@pytest.mark.parametrize("extent", [0, 1, 2, 300])
def test_an_open_extent(extent: int, rng: np.random.Generator) -> None:
    b = GraphBuilder()
    run = minitvm.build(b.build(b.op("argsort", b.input("x", (2, SizeVar("n"))), axis=1)))
    x = rng.integers(-9, 9, (2, extent)).astype("float32")
    np.testing.assert_array_equal(np.asarray(run(x=x)), places(x, 1, True))


def test_lanes_have_no_branches_and_their_storage_is_vectors() -> None:
    b = GraphBuilder()
    (source,) = minitvm.lower(b.build(b.op("argsort", b.input("x", (64, 40)))), "cpu", stop_at="source").values()
    assert "minimum(load(keys" in source and "while" not in source and "gather(keys" not in source


@pytest.mark.parametrize("dtype", ["int8", "int16", "uint8", "uint32", "uint64", "int32", "int64"])
@pytest.mark.parametrize("shape", [(1, 3), (40, 7), (2, 100)])
@pytest.mark.parametrize("k", [2, None])
def test_indices_of_every_dtype(shape: tuple[int, int], k: int | None, dtype: str, rng: np.random.Generator) -> None:
    x = rng.standard_normal(shape).astype("float32")
    b = GraphBuilder()
    data = b.input("x", shape)
    results = [b.op("argsort", data, dtype=dtype)] if k is None else list(b.op("topk", data, k=k, dtype=dtype))
    indices = minitvm.build(b.build(results[-1]))(x)
    expected = np.argsort(x if k is None else -x, axis=-1, kind="stable")[:, :k]
    assert indices.dtype == dtype
    np.testing.assert_array_equal(indices, expected)
