"""Sketches: any reduction is tiled, keeps its meaning, and costs what the formulas say of its accesses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from minitvm import reference, te, topi
from minitvm.errors import ScheduleError
from minitvm.strategy.blocks import blocks_of, is_reduction
from minitvm.strategy.candidate import Candidate
from minitvm.strategy.cpu.sketch import sketch
from minitvm.strategy.cpu.sketch_costs import CONTIGUOUS, SAME, SCATTERED, Reduction, reduction_of, tiling_cost
from minitvm.target import Target
from minitvm.tir.nodes import PrimFunc

CPU = Target("cpu -vector_bits=128 -vector_registers=16 -cores=2")
QUICK = settings(derandomize=True, deadline=None, max_examples=12, phases=[Phase.generate])


def product(m: int, n: int, k: int) -> PrimFunc:
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), name="k")
    return te.create_prim_func([a, b, te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")])


def nhwc(h: int, w: int, c: int, o: int) -> PrimFunc:
    x, k = te.placeholder((1, h, w, c), name="x"), te.placeholder((3, 3, c, o), name="k")
    y = topi.conv2d(x, k, padding=1, data_layout="NHWC", kernel_layout="HWIO")
    return te.create_prim_func([x, k, topi.relu(y)])


def largest(m: int, n: int, k: int) -> PrimFunc:
    """A reduction that is not a sum, along the rows of what is contiguous."""
    a, r = te.placeholder((m, k, n), name="A"), te.reduce_axis((0, k), name="k")
    return te.create_prim_func([a, te.compute((m, n), lambda i, j: te.max(a[i, r, j], axis=r), name="C")])


FAMILIES: dict[str, Any] = {
    "product": lambda draw: product(*(draw(st.integers(1, 9)) for _ in range(3))),
    "nhwc": lambda draw: nhwc(draw(st.integers(2, 5)), draw(st.integers(2, 5)), 2, draw(st.integers(1, 9))),
    "largest": lambda draw: largest(*(draw(st.integers(1, 9)) for _ in range(3))),
}


def reduction(func: PrimFunc) -> Reduction:
    found = reduction_of(next(block for block in blocks_of(func) if is_reduction(block)))
    assert found is not None
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_sketches_keep_the_meaning_or_are_refused(family: str) -> None:
    judged = 0

    @QUICK
    @given(st.data())
    def each(data: Any) -> None:
        nonlocal judged
        func = FAMILIES[family](data.draw)
        candidates = list(sketch(func, CPU))
        if not candidates:
            return
        candidate: Candidate = data.draw(st.sampled_from(candidates))
        tiles = {name: data.draw(st.integers(1, 5)) for name in candidate.knobs if name.startswith("tile_")}
        candidate = candidate.with_knobs(**tiles, unroll=data.draw(st.sampled_from([1, 2])))
        try:
            schedule = candidate.schedule(func)
        except ScheduleError:
            return
        verdict = reference.check(func, schedule.func, modes=["exact", "shadow"])
        assert verdict.equal, f"{dict(candidate.knobs)}\n{verdict}"
        judged += 1

    each()
    assert judged >= 5


@given(st.integers(1, 200), st.integers(1, 200), st.integers(1, 64), st.integers(1, 12), st.integers(1, 4))
@settings(QUICK, max_examples=60)
def test_the_formulas_of_a_product_are_those_of_its_accesses(m: int, n: int, k: int, rows: int, vectors: int) -> None:
    """Counted here with loops over tiles: steps, loads and bytes of a product of matrices."""
    if m == 1 or n == 1:
        return
    lanes, cpu = 4, CPU.description
    cost = tiling_cost(reduction(product(m, n, k)), "v_j", lanes, "v_i", cpu)
    compute, memory = cost.at({"tile_v_i": rows, "tile_v_j": vectors})
    row_tiles, column_tiles = math.ceil(m / rows), math.ceil(n / (vectors * lanes))
    registers = rows * vectors + vectors + 1
    step = max(rows * vectors / cpu.fma_ports, cpu.fma_latency, (rows + vectors) / 2)
    step += max(0, registers - cpu.vector_registers)
    rounds = math.ceil(row_tiles * column_tiles / cpu.cores) * cpu.cores
    assert compute == pytest.approx(rounds * step * k / 0.92)
    streamed = row_tiles * column_tiles * rows * k * 4 + column_tiles * vectors * lanes * k * 4
    distinct = 4 * (m * k + k * n)
    near = 64 if distinct <= cpu.l2.size // 2 else 16
    assert memory == pytest.approx(streamed / (4 * near) + distinct / 5.5)


def test_what_neighbours_read_is_told_apart() -> None:
    found = reduction(product(8, 8, 8))
    kinds = {(o.load.buffer.name, a.name): o.along(a) for o in found.operands for a in (*found.spatial, *found.summed)}
    assert kinds == {
        ("A", "v_i"): SCATTERED, ("A", "v_j"): SAME, ("A", "v_k"): CONTIGUOUS,
        ("B", "v_i"): SAME, ("B", "v_j"): CONTIGUOUS, ("B", "v_k"): SCATTERED,
    }  # fmt: skip
    assert [axis.name for axis in found.vector_axes()] == ["v_j"] and found.operations == 2 and found.depth == 8


def test_all_tiles_are_ranked_by_the_formulas_and_fit_the_registers() -> None:
    candidates = [one for one in sketch(nhwc(14, 14, 16, 32), CPU) if one.knobs["inner"] == "v_xx"]
    own = [one for one in candidates if one.knobs["producers"] == "apart" and one.knobs["last"] == "v_rc"]
    assert len(own) >= 8
    cycles = [one.cost.cycles for one in own]
    assert cycles == sorted(cycles)
    for one in own:
        tile = [one.knobs[name] for name in ("tile_v_yy", "tile_v_xx", "tile_v_ff")]
        assert int(np.prod(np.array(tile, int))) + int(one.knobs["tile_v_ff"]) + 1 <= 16
    assert set(own[0].formulas) == {"compute", "memory", "registers"}
    assert "tile_v_xx" in str(own[0].formulas["compute"]) and "//" in str(own[0].formulas["compute"])


def test_what_does_not_reduce_or_has_an_open_extent_has_no_sketch() -> None:
    n = te.size_var("n")
    x, r = te.placeholder((n, 4), name="x"), te.reduce_axis((0, 4), name="r")
    assert not list(sketch(te.create_prim_func([x, te.compute((n,), lambda i: te.sum(x[i, r], axis=r))]), CPU))
    y = te.placeholder((4, 4), name="y")
    assert not list(sketch(te.create_prim_func([y, topi.relu(y)]), CPU))
