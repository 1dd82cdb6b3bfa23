"""Tile registers: sums of products of bytes in tiles, on CPUs that have them and, in vectors, on all others."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import minitvm
from minitvm import reference, te, tir
from minitvm.errors import ScheduleError, Unsupported
from minitvm.graph import GraphBuilder
from minitvm.machines.simd import tile_intrinsics as tiles
from minitvm.machines.simd.topi.brain_products import brain_dense_packed
from minitvm.machines.simd.topi.byte_products import byte_conv2d_nchwc, byte_dense_packed
from minitvm.strategy.registry import chosen
from minitvm.target import Target
from minitvm.tir import TensorIntrin
from minitvm.tir.nodes import PrimFunc
from tests.strategy.families import TARGET

WIDE = {**Target(TARGET).export(), "vector_bits": 512, "vector_registers": 32}
CPU, OTHER = (Target({**WIDE, "features": names}) for names in (("amx_int8", "amx_bf16", "avx512_bf16"), ()))
QUICK = settings(derandomize=True, deadline=None, max_examples=4, phases=[Phase.generate])


def convolution(size: int = 4, kernel: int = 3, stride: int = 1, inner: int = 1, outer: int = 1) -> PrimFunc:
    """Blocks of 64 channels, as words of four, at so many by so many pixels."""
    x = te.placeholder((1, inner, size, size, 16), "int32", name="x")
    w = te.placeholder((outer, inner, kernel, kernel, 16, 64), "int32", name="w")
    y = byte_conv2d_nchwc(x, w, padding=kernel // 2, strides=stride, pad_value=3)
    return te.create_prim_func([x, w, te.compute(y.shape, lambda *i: y[i] * 2 + 1, name="y")])


def dense(rows: int = 8, depth: int = 32, panels: int = 2) -> PrimFunc:
    x, w = te.placeholder((rows, depth), "int32", name="x"), te.placeholder((panels, depth, 16), "int32", name="w")
    return te.create_prim_func([x, w, byte_dense_packed(x, w)])


def in_tiles(func: PrimFunc, target: Any = CPU) -> tir.Schedule:
    """The schedule of the rule; all its candidates are legal."""
    taken = chosen(func, target)
    assert taken.rule == "tile_registers" and not taken.choice.refused, taken.choice
    return taken.schedule


def runs_alike(func: PrimFunc, changed: PrimFunc) -> None:
    rng = np.random.default_rng(0)
    shapes = [tuple(int(d.value) for d in p.shape) for p in func.params]  # type: ignore[union-attr,attr-defined]
    *given_, _ = [rng.integers(-(2**31), 2**31, shape).astype("int32") for shape in shapes]
    results = [np.zeros(shapes[-1], "int32") for _ in range(2)]
    minitvm.build(changed, target="cpu")(*given_, results[0])
    reference.tir.run(func, *given_, results[1])
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("rows", [1, 7, 16])
def test_each_instruction_is_what_it_says(rows: int) -> None:
    """Loads, of every row and of every third, products and stores, in the middle of larger matrices."""
    names = [tiles.zero(rows), tiles.load(rows), tiles.load(rows, 3), tiles.dot(rows), tiles.store(rows),
             tiles.zero(rows, "float32"), tiles.dot(rows, "bf16")]  # fmt: skip
    for name in (*names, tiles.store(rows, "float32", "local")):
        intrin = TensorIntrin.get(name)
        assert intrin is not None and intrin.check()


@pytest.mark.parametrize(
    "name", ["tile_dot_17x16x16_u8i8", "tile_load_0x16_i32", "tile_zero_4x16_i32_local", "tile_store_4x16_i32_by2"]
)
def test_there_is_no_other_instruction(name: str) -> None:
    assert TensorIntrin.get(name, allow_missing=True) is None


@QUICK
@given(
    size=st.sampled_from([3, 4, 6]), kernel=st.sampled_from([1, 3]), stride=st.integers(1, 2),
    inner=st.integers(1, 2), outer=st.integers(1, 2),
)  # fmt: skip
def test_convolutions_in_tiles(size: int, kernel: int, stride: int, inner: int, outer: int) -> None:
    func = convolution(size, kernel, stride, inner, outer)
    taken = chosen(func, CPU)
    if taken.rule == "tile_registers":  # one of few products is left to vectors
        runs_alike(func, taken.schedule.func)
    else:
        assert kernel == 1 or -(-size // stride) == 3, taken.choice


@pytest.mark.parametrize("func", [convolution(4, 3), convolution(8, 3, 2), dense()], ids=["conv", "apart", "dense"])
def test_every_level_agrees(func: PrimFunc) -> None:
    changed = in_tiles(func).func
    assert reference.check(func, changed)
    runs_alike(func, changed)
    assert tiles.SCOPE in changed.script()


@pytest.mark.parametrize("knobs", [{"row_tiles": 1, "column_tiles": 1}, {"row_tiles": 2, "column_tiles": 2}])
def test_any_plan_is_right(knobs: dict[str, int]) -> None:
    func = convolution(4, 3, outer=2)
    runs_alike(func, chosen(func, CPU, {**knobs, "rows": 2, "lines": 2}).schedule.func)


def test_products_of_bfloat16() -> None:
    """Sums in float32: on this machine, whose order of adding up is its own, and by the interpreters."""
    x, w = te.placeholder((8, 32), "int32", name="x"), te.placeholder((2, 32, 16), "int32", name="w")
    func = te.create_prim_func([x, w, brain_dense_packed(x, w)])
    changed = in_tiles(func).func
    assert reference.check(func, changed)
    rng = np.random.default_rng(0)
    floats = [rng.standard_normal(shape).astype("float32") for shape in ((8, 64), (64, 32))]
    rounded = [array.astype(ml_dtypes.bfloat16) for array in floats]
    columns = rounded[1].reshape(32, 2, 2, 16).transpose(2, 0, 3, 1)  # [panel, word, column, half]
    y = np.zeros((8, 32), "float32")
    minitvm.build(changed, target="cpu")(
        rounded[0].view("int32"), np.ascontiguousarray(columns).view("int32")[..., 0], y
    )
    np.testing.assert_allclose(y, rounded[0].astype("float64") @ rounded[1].astype("float64"), rtol=1e-4, atol=1e-4)


def test_a_network_of_bfloat16_has_blocks_of_tiles() -> None:
    rng = np.random.default_rng(0)
    b = GraphBuilder("brain")
    x = b.input("x", (1, 32, 4, 4), "bfloat16")
    weight = b.constant((rng.standard_normal((32, 32, 3, 3)) / 9).astype(ml_dtypes.bfloat16), "w")
    graph = b.build(b.op("nn.conv2d", x, weight, padding=1, out_dtype="float32"))
    assert "float32[1, 1, 4, 4, 32]" in str(minitvm.lower(graph, target=CPU, stop_at="fused"))
    assert "float32[1, 1, 4, 4, 32]" not in str(minitvm.lower(graph, target=OTHER, stop_at="fused"))


def test_tiles_of_four_rows_apart() -> None:
    """Two tiles of rows by two of columns, of every second pixel; each task has some of the columns."""
    func = convolution(8, 3, 2, outer=2)
    runs_alike(func, chosen(func, CPU, {"rows": 2, "row_tiles": 2, "column_tiles": 2, "lines": 2}).schedule.func)


@pytest.mark.parametrize("rows", [17, 37])
def test_rows_without_a_divisor_are_padded(rows: int) -> None:
    """And what follows the sum is computed for those that there are, in two matrices of a batch."""
    x, w = te.placeholder((2, rows, 32), "int32", name="x"), te.placeholder((2, 32, 16), "int32", name="w")
    y = byte_dense_packed(x, w)
    func = te.create_prim_func([x, w, te.compute(y.shape, lambda *i: te.maximum(y[i], 3) * 2, name="y")])
    changed = in_tiles(func).func
    assert "16x16x16" in changed.script() and reference.check(func, changed)
    runs_alike(func, changed)


def test_what_tiles_do_not_hold_is_left_to_vectors() -> None:
    """Other CPUs; a sum whose words are not sixteen at a time; rows of an open number; a single row of results."""
    n = te.var("n")
    x, w = te.placeholder((n, 32), "int32", name="x"), te.placeholder((2, 32, 16), "int32", name="w")
    for func, target in (
        (dense(), OTHER),
        (dense(depth=24), CPU),
        (te.create_prim_func([x, w, byte_dense_packed(x, w)]), CPU),
        (dense(rows=1), CPU),
    ):
        assert chosen(func, target).rule != "tile_registers"


def test_a_network_of_bytes_has_blocks_of_tiles() -> None:
    """Channels that fill the rows of tiles lie together, 64 of them; results are those of the graph interpreter."""
    rng = np.random.default_rng(0)
    b = GraphBuilder("bytes")
    value = b.input("x", (1, 64, 4, 4), "uint8")
    for k in range(2):
        weight = b.constant(rng.integers(-128, 128, (64, 64, 3, 3), dtype="int8"), f"w{k}")
        total = b.op("qnn.conv2d", value, weight, zero_point=3, padding=1)
        value = b.op("cast", b.op("clip", b.op("right_shift", total, b.constant(np.int32(9))), a_min=0, a_max=255),
                     dtype="uint8")  # fmt: skip
    graph = b.build(value)
    x = rng.integers(0, 256, (1, 64, 4, 4), dtype="uint8")
    fused = minitvm.lower(graph, target=CPU, stop_at="fused")
    assert "int32[1, 1, 4, 4, 64]" in str(fused)
    got = minitvm.build(graph, target=CPU)(x)
    np.testing.assert_array_equal(np.asarray(got), np.asarray(reference.graph.run(graph, [x])[0]))


def kernel(func: PrimFunc) -> tuple[str, str]:
    executable = minitvm.lower(func, target="cpu", stop_at="executable")
    found = next(k for k in executable.kernels if "tile_dot" in k.source)
    return found.source, found.name


def test_a_cpu_with_tile_registers_keeps_sums_in_them(monkeypatch: Any) -> None:
    """Compiled for Sapphire Rapids on any machine: no tile is stored in the loop over the sum, none is copied."""
    from minitvm.machines.cpu.runtime.compiler import kernel_assembly

    knobs = {"rows": 4, "row_tiles": 2, "column_tiles": 2}
    source, name = kernel(chosen(convolution(8, 3, 1, 2), CPU, knobs).schedule.func)
    monkeypatch.setenv("NUMBA_CPU_NAME", "sapphirerapids")
    monkeypatch.setenv(
        "NUMBA_CPU_FEATURES", "+amx-tile,+amx-int8,+amx-bf16,+avx512f,+avx512vl,+avx512bw,+avx512dq,+fma,+avx2"
    )
    lines = kernel_assembly(source, name).splitlines()
    assert sum("ldtilecfg" in line for line in lines) == 1
    products = [k for k, line in enumerate(lines) if "tdpbusd" in line]
    stores = [k for k, line in enumerate(lines) if "tilestored" in line]
    assert len(products) % 4 == 0 and len(stores) == 4
    assert not any(products[0] < k < products[-1] for k in stores)


def test_other_cpus_multiply_vectors(monkeypatch: Any) -> None:
    from minitvm.machines.cpu.runtime.compiler import kernel_assembly

    source, name = kernel(in_tiles(dense()).func)
    monkeypatch.setenv("NUMBA_CPU_NAME", "haswell")
    monkeypatch.setenv("NUMBA_CPU_FEATURES", "+avx2,+fma")
    assembly = kernel_assembly(source, name)
    assert "tdpbusd" not in assembly and "pmadd" in assembly


# --- what only instructions touch


def by_hand(unrolled: bool = True, stored: bool = True) -> tir.Schedule:
    """Two tiles of zeros, stored; or left in their registers by one who reads them element by element."""
    func = te.create_prim_func([y := te.compute((8, 16), lambda *i: te.const(0, "int32"), name="y")])
    del y
    sch = tir.Schedule(func)
    store = sch.cache_write("y", 0, tiles.SCOPE)
    row, _ = sch.get_loops("y")
    outer, inner = sch.split(row, [None, 4])
    sch.tensorize(inner, tiles.zero(4))
    if unrolled:
        sch.unroll(outer)
    if stored:
        outer, inner = sch.split(sch.get_loops(store)[0], [None, 4])
        sch.unroll(outer)
        sch.tensorize(inner, tiles.store(4))
    return sch


def test_tiles_by_hand() -> None:
    y = np.ones((8, 16), "int32")
    minitvm.build(by_hand().func, target="cpu")(y)
    assert not y.any()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"stored": False}, "is held in tile registers, which only instructions touch"),
        ({"unrolled": False}, "a tile is held in a register, which has no address"),
    ],
)
def test_other_accesses_are_refused(given: dict[str, bool], said: str) -> None:
    with pytest.raises(Unsupported, match=said):
        minitvm.build(by_hand(**given).func, target="cpu")


def staged(scope: str) -> tir.Schedule:
    """A copy whose index says nothing of the loop around it."""
    x = te.placeholder((4, 16), "int32", name="x")
    func = te.create_prim_func([x, te.compute((3, 4, 16), lambda a, i, j: x[i, j] + a, name="y")])
    sch = tir.Schedule(func)
    copy = sch.cache_read("y", 0, scope)
    sch.compute_at(copy, sch.get_loops("y")[0])
    return sch


def test_each_iteration_has_its_own_registers() -> None:
    """Iterations of a parallel loop may fill the same registers: each has its own. Storage on the stack is one."""
    sch = staged(tiles.SCOPE)
    before = sch.func
    sch.parallel(sch.get_loops("y")[0])
    assert reference.check(before, sch.func)
    other = staged("local")
    with pytest.raises(ScheduleError, match="run in no order"):
        other.parallel(other.get_loops("y")[0])
