"""The schedule of what has none of its own: sums of all elements are tasks, and what is apart is in vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import minitvm
from minitvm import reference, strategy, te, topi
from minitvm.expr import walk
from minitvm.machines.simd.topi.window_rows import depthwise_conv2d_rows
from minitvm.strategy.registry import chosen
from minitvm.target import Target
from minitvm.tir.annotations import LANES
from minitvm.tir.nodes import For, ForKind, PrimFunc
from tests.strategy.families import TARGET

CPU = Target(TARGET)
WIDE = Target("cpu -vector_bits=512 -cores=1")
EXACT = ("exact", "shadow")  # sums of integers, and what is taken as it is: nothing rounds
ALL = {"sum": np.sum, "max": np.max, "min": np.min, "prod": np.prod}


def total(op: str, shape: tuple[Any, ...], dtype: str = "float32") -> PrimFunc:
    x = te.placeholder(shape, dtype, name="x")
    return te.create_prim_func([x, getattr(topi, op)(x)])


@pytest.mark.alike("dtype", "op", "shape", most=2)
@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("op", ALL)
@pytest.mark.parametrize("shape", [(4, 5000), (17, 1031), (20011,), (6000, 3), (7,)])
def test_totals(op: str, shape: tuple[int, ...], dtype: str) -> None:
    """Long and short rows, numbers without divisors, and fewer elements than a vector has lanes."""
    func = total(op, shape, dtype)
    x = np.random.default_rng(0).integers(-1, 2, shape).astype(dtype)
    x[x == 0] = 1
    y = np.zeros((), dtype)
    minitvm.build(chosen(func, CPU).schedule.func, target="cpu")(x, y)
    assert y == ALL[op](x)


def test_a_long_total_has_tasks_and_lanes() -> None:
    loops = [n for n in walk(chosen(total("max", (128, 3072)), CPU).schedule.func) if isinstance(n, For)]
    assert any(loop.kind is ForKind.PARALLEL for loop in loops)
    assert any(LANES in loop.annotations for loop in loops)


@pytest.mark.parametrize("op", ["max", "sum"])
def test_the_schedule_keeps_the_meaning(op: str) -> None:
    func = total(op, (64, 260))
    assert reference.check(func, chosen(func, CPU).schedule.func, modes=EXACT)


def test_a_total_of_open_extent() -> None:
    n = te.var("n")
    module = minitvm.build(chosen(total("sum", (n, 40), "int32"), CPU).schedule.func, target="cpu")
    for rows in (0, 1, 7, 600):
        x, y = np.arange(rows * 40, dtype="int32").reshape(rows, 40), np.zeros((), "int32")
        module(x, y)
        assert y == x.sum()


def source(func: PrimFunc) -> str:
    """Its kernels, after a check that the schedule kept the meaning."""
    sch = strategy.schedule(func, WIDE)
    assert reference.check(func, sch.func, modes=EXACT)
    return "".join(minitvm.lower(sch.func, WIDE, stop_at="source").values())


def test_rows_of_a_scatter_are_written_in_vectors() -> None:
    """Elements of a slice are apart, so they need no order; slices may meet, so they come one after the other."""
    data, points = te.placeholder((20, 48), name="data"), te.placeholder((30, 1), "int64", name="points")
    updates = te.placeholder((30, 48), name="updates")
    func = te.create_prim_func([data, points, updates, topi.scatter_nd(data, points, updates, reduction="add")])
    kernel = source(func)
    assert "for v0" not in kernel and "store(scatter_nd" in kernel, kernel


@pytest.mark.parametrize("op", [topi.argmax, topi.argmin])
@pytest.mark.parametrize("width", [8, 21])
def test_places_of_the_largest_are_vectors(op: Any, width: int) -> None:
    """Both results of the reduction are registers, and no condition masks what is read anyway."""
    x = te.placeholder((2, 5, width), name="x")
    kernel = source(te.create_prim_func([x, op(x, axis=1)]))
    assert f"f32x{8 if width == 8 else 16}" in kernel and "load_masked(p" not in kernel, kernel
    assert kernel.count("invert(") == 0, kernel


def test_large_depthwise_windows_are_loops() -> None:
    """Written out, a window of 31 x 31 is 7,688 statements: half a minute to compile, and slower than a loop."""
    for size, lines in ((3, 1), (31, 31)):
        x, w = te.placeholder((1, 2, 32, 32), name="x"), te.placeholder((2, 1, size, size), name="w")
        func = te.create_prim_func([x, w, depthwise_conv2d_rows(x, w, lanes=16, padding=size // 2)])
        multiply_adds = source(func).count("fma(")
        assert multiply_adds == 8 * size * size // lines, (size, multiply_adds)


@pytest.mark.parametrize("op", [topi.argmax, topi.argmin])
def test_places_along_the_last_axis_are_found_for_lines_in_lanes(op: Any) -> None:
    """A maximum and its place make no sum of lanes; few lines are searched one by one."""
    for lines, vectors in ((40, True), (3, False)):
        x = te.placeholder((lines, 12), name="x")
        kernel = source(te.create_prim_func([x, op(x, axis=1)]))
        assert ("gather(x, ramp(" in kernel) == vectors, kernel


@pytest.mark.alike("method", "width")
@pytest.mark.parametrize("width", [40, 7])
@pytest.mark.parametrize(("method", "padding"), [("linear", "zeros"), ("nearest", "border"), ("cubic", "reflection")])
def test_what_data_place_is_gathered_in_vectors(method: str, padding: str, width: int) -> None:
    x, grid = te.placeholder((1, 2, 5, 6), name="x"), te.placeholder((1, 2, width, 2), name="grid")
    func = te.create_prim_func([x, grid, topi.grid_sample(x, grid, method=method, padding_mode=padding)])
    scheduled = chosen(func, CPU).schedule.func
    loops = [n for n in walk(scheduled) if isinstance(n, For)]
    assert any(loop.kind is ForKind.VECTORIZED for loop in loops)
    if method != "cubic":  # sums of 16 products take the oracle ten seconds
        assert reference.check(func, scheduled)
    rng = np.random.default_rng(0)
    arrays = rng.standard_normal((1, 2, 5, 6), "float32"), rng.uniform(-1.2, 1.2, (1, 2, width, 2)).astype("float32")
    compiled, interpreted = np.empty((2, 1, 2, 2, width), "float32")
    minitvm.build(scheduled, target="cpu")(*arrays, compiled)
    reference.tir.run(func, *arrays, interpreted)
    np.testing.assert_allclose(compiled, interpreted, rtol=1e-5, atol=1e-5)


def test_a_batch_of_matrices_times_columns_is_read_row_by_row() -> None:
    x, y = te.placeholder((3, 5, 130), name="x"), te.placeholder((3, 130, 1), name="y")
    func = te.create_prim_func([x, y, topi.matmul(x, y)])
    choice = chosen(func, CPU)
    assert any(LANES in n.annotations for n in walk(choice.schedule.func) if isinstance(n, For))
    a, b = (np.random.default_rng(0).integers(-3, 4, shape).astype("float32") for shape in ((3, 5, 130), (3, 130, 1)))
    result = np.empty((3, 5, 1), "float32")
    minitvm.build(choice.schedule.func, target="cpu")(a, b, result)
    np.testing.assert_array_equal(result, a @ b)


def test_open_matrices_times_columns_are_read_row_by_row() -> None:
    """Whatever is open: the batch, the rows, or the sum itself."""
    b, m, k = te.size_var("b"), te.size_var("m"), te.size_var("k")
    for shape in ((b, 20, 48), (2, m, 48), (2, 20, k), (b, m, k)):
        x, y = te.placeholder(shape, name="x"), te.placeholder((shape[0], shape[2], 1), name="y")
        func = te.create_prim_func([x, y, topi.matmul(x, y)])
        assert strategy.candidates(func, Target("cpu"))[0].rule == "matvec"
        compiled = minitvm.build(func, target="cpu")
        for rows, depth in ((1, 1), (5, 17), (7, 48)):
            sizes = [{b: 2, m: rows, k: depth}.get(d, d) for d in shape]
            left = np.random.default_rng(0).integers(-3, 4, sizes).astype("float32")
            right = np.random.default_rng(1).integers(-3, 4, (sizes[0], sizes[2], 1)).astype("float32")
            found = np.zeros((sizes[0], sizes[1], 1), "float32")
            compiled(left, right, found)
            np.testing.assert_array_equal(found, left @ right)


@pytest.mark.parametrize("op", ["sum", "max"])
def test_open_axes_that_are_one_in_memory_are_summed_as_one(op: str) -> None:
    """An image of open size: its rows may be short, all of it is long."""
    h, w = te.size_var("h"), te.size_var("w")
    x = te.placeholder((3, h, w), name="x")
    func = te.create_prim_func([x, getattr(topi, op)(x, axis=(1, 2))])
    text = source(func)
    assert "h * w" in text and "lanes" in text, text
    compiled = minitvm.build(func, target="cpu")
    for shape in ((3, 1, 1), (3, 5, 3), (3, 40, 7)):
        data = np.random.default_rng(0).integers(-9, 9, shape).astype("float32")
        found = np.zeros(3, "float32")
        compiled(data, found)
        np.testing.assert_array_equal(found, getattr(data, op)(axis=(1, 2)))


def test_open_rows_that_read_within_a_row_are_vectors() -> None:
    """Nearest neighbours of a row of open length; what reads along another axis stays as it is."""
    n, m = te.size_var("n"), te.size_var("m")
    x = te.placeholder((m, n), name="x")
    twice = te.create_prim_func([x, te.compute((m, n * 2), lambda i, j: x[i, j // 2], name="T")])
    assert "shuffle(" in source(twice) or "gather(" in source(twice)
    compiled = minitvm.build(twice, target="cpu")
    for shape in ((1, 1), (2, 9), (3, 40)):
        data = np.random.default_rng(0).integers(-9, 9, shape).astype("float32")
        found = np.zeros((shape[0], 2 * shape[1]), "float32")
        compiled(data, found)
        np.testing.assert_array_equal(found, np.repeat(data, 2, axis=1))


def test_of_three_open_axes_the_inner_two_are_one() -> None:
    """Quotients by a product of sizes, and by one of them, are not put together again: no element may be gathered."""
    sizes = [te.size_var(name) for name in "dhw"]
    x = te.placeholder((3, *sizes), name="x")
    func = te.create_prim_func([x, topi.sum(x, axis=(1, 2, 3))])
    text = source(func)
    assert "h * w" in text and "gather(" not in text, text
    data = np.random.default_rng(0).integers(-9, 9, (3, 4, 5, 30)).astype("float32")
    found = np.zeros(3, "float32")
    minitvm.build(func, target="cpu")(data, found)
    np.testing.assert_array_equal(found, data.sum((1, 2, 3)))
