"""The matmul schedule: right for any shape, with and without an epilogue, and shaped as its docstring says."""

from __future__ import annotations

import numpy as np
import pytest

import minitvm
from minitvm import strategy, te
from minitvm.expr import walk
from minitvm.machines.simd.strategy.tiling import depth_block, register_tile
from minitvm.target import Target
from minitvm.te import create_prim_func
from minitvm.tir.nodes import For, ForKind, PrimFunc


def product(m: int, n: int, k: int, epilogue: bool) -> PrimFunc:
    a, b, d = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B"), te.placeholder((n,), name="D")
    r = te.reduce_axis((0, k), "k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    if not epilogue:
        return create_prim_func([a, b, c])
    e = te.compute((m, n), lambda i, j: c[i, j] * 2.0 + d[j], name="E")
    return create_prim_func([a, b, d, e])


@pytest.mark.parametrize(
    "shape",
    [(1, 1, 1), (7, 5, 3), (64, 64, 64), (61, 257, 33), (40, 70, 1500), (1, 900, 20), (37, 1, 300), (5, 1, 40)],
)
@pytest.mark.parametrize(
    "machine", ["cpu -vector_bits=512 -vector_registers=32 -cores=2", "cpu -vector_bits=256 -cores=1"]
)
def test_scheduled_matmul_is_exact_on_integers(
    machine: str, shape: tuple[int, int, int], rng: np.random.Generator
) -> None:
    """With an epilogue on the first machine where m + n is odd, and on the other one where it is even."""
    m, n, k = shape
    epilogue = bool((m + n) % 2) == ("512" in machine)
    target = Target(machine)
    a, b = (rng.integers(-4, 5, s).astype(np.float32) for s in ((m, k), (k, n)))
    d, got = rng.integers(-4, 5, n).astype(np.float32), np.full((m, n), np.nan, np.float32)
    sch = strategy.schedule(product(m, n, k, epilogue), target)
    function = minitvm.build(sch.mod, target, threads=2)
    function(*([a, b, d, got] if epilogue else [a, b, got]))
    np.testing.assert_array_equal(got, a @ b * 2 + d if epilogue else a @ b)


def test_one_column_is_summed_along_the_rows() -> None:
    from minitvm.strategy.registry import chosen

    target = Target("cpu -vector_bits=512")
    found = chosen(product(64, 1, 512, True), target)
    assert found.rule == "matvec"
    assert "vector_reduce_add" in str(minitvm.lower(found.schedule.func, target))


def test_one_row_takes_all_registers_for_its_result() -> None:
    tile = register_tile(1, 4096, "float32", Target("cpu -vector_bits=512 -vector_registers=32"))
    assert tile.rows == 1 and tile.vectors > 15


def test_large_products_pack_panels_and_run_them_in_parallel() -> None:
    sch = strategy.schedule(product(512, 512, 128, True), Target("cpu -vector_bits=512 -vector_registers=32 -cores=2"))
    kinds = [node.kind for node in walk(sch.func.body) if isinstance(node, For)]
    assert ForKind.PARALLEL in kinds and ForKind.VECTORIZED in kinds and ForKind.UNROLLED in kinds
    assert sch.get_block("B_local") is not None


@pytest.mark.parametrize(("bits", "registers"), [(256, 16), (512, 32), (128, 32)])
def test_register_tile_fits_the_registers_and_keeps_the_units_busy(bits: int, registers: int) -> None:
    tile = register_tile(1000, 1000, "float32", Target(f"cpu -vector_bits={bits} -vector_registers={registers}"))
    assert tile.rows * tile.vectors + tile.vectors + 1 <= registers
    assert tile.rows * tile.vectors >= 8  # latency 4 x 2 ports
    assert tile.columns == tile.vectors * bits // 32


def test_depth_block_divides_evenly_and_fits_the_cache() -> None:
    target = Target("cpu")
    tile = register_tile(1000, 1000, "float32", target)
    for k in (1, 64, 1000, 5000):
        depth = depth_block(k, tile, 4, target)
        assert depth * -(-k // depth) >= k
        assert depth <= 64 or depth * tile.columns * 4 <= target.description.l2.size // 4
