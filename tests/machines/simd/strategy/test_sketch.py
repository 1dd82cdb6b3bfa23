"""Sketches: any reduction is tiled, keeps its meaning, and costs what the formulas say of its accesses."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from minitvm import reference, te, topi
from minitvm.arith.formula import formula
from minitvm.errors import ScheduleError
from minitvm.expr import walk
from minitvm.machines.simd.strategy.sketch import WHOLE, sketch
from minitvm.machines.simd.strategy.sketch_costs import (
    CONTIGUOUS,
    SAME,
    SCATTERED,
    Reduction,
    reduction_of,
    tiling_cost,
)
from minitvm.machines.simd.strategy.sketch_forms import forms
from minitvm.machines.simd.strategy.sketch_traffic import Dimension, into, merged, touched
from minitvm.strategy.blocks import blocks_of, is_reduction
from minitvm.strategy.candidate import Candidate
from minitvm.target import Target
from minitvm.tir.nodes import BufferLoad, ForKind, PrimFunc
from minitvm.tir.transform import lower
from minitvm.tir.work import count
from tests.fewer import number

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


def turned(m: int, n: int, k: int) -> PrimFunc:
    """Weights whose rows are contiguous: vectors of results read them scattered."""
    a, b = te.placeholder((m, k), name="A"), te.placeholder((n, k), name="B")
    r = te.reduce_axis((0, k), name="k")
    return te.create_prim_func([a, b, te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[j, r], axis=r), name="C")])


def nchw(h: int, w: int, o: int, kernel: int) -> PrimFunc:
    x, k = te.placeholder((1, 2, h, w), name="x"), te.placeholder((o, 2, kernel, kernel), name="k")
    return te.create_prim_func([x, k, topi.relu(topi.conv2d(x, k, padding=kernel // 2))])


def transposed(h: int, w: int, o: int, kernel: int, dtype: str = "float32") -> PrimFunc:
    """A convolution of data with zeros between their elements, in steps of two."""
    x, k = te.placeholder((1, 2, h, w), dtype, name="x"), te.placeholder((2, o, kernel, kernel), dtype, name="k")
    y = topi.conv2d_transpose(x, k, strides=2, padding=(kernel - 1) // 2, output_padding=kernel % 2)
    return te.create_prim_func([x, k, topi.relu(y)])


FAMILIES: dict[str, Any] = {
    "transposed": lambda draw: transposed(*(draw(st.integers(1, 3)) for _ in range(3)), draw(st.integers(2, 4))),
    "turned": lambda draw: turned(draw(st.integers(1, 6)), draw(st.integers(4, 9)), draw(st.sampled_from([3, 8, 10]))),
    "pixels": lambda draw: nchw(draw(st.integers(2, 4)), draw(st.integers(2, 5)), draw(st.integers(1, 5)), 1),
    "image": lambda draw: nchw(2, draw(st.integers(2, 3)), draw(st.integers(4, 5)), 3),
    "product": lambda draw: product(*(draw(st.integers(1, 9)) for _ in range(3))),
    "nhwc": lambda draw: nhwc(draw(st.integers(2, 5)), draw(st.integers(2, 5)), 2, draw(st.integers(1, 9))),
    "largest": lambda draw: largest(*(draw(st.integers(1, 9)) for _ in range(3))),
}


SLOW = ("image", "pixels", "nhwc", "transposed")  # hundreds of candidates each: half as many examples


def reduction(func: PrimFunc) -> Reduction:
    found = reduction_of(next(block for block in blocks_of(func) if is_reduction(block)))
    assert found is not None
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_sketches_keep_the_meaning_or_are_refused(family: str) -> None:
    judged = 0

    @settings(QUICK, max_examples=number(3, 5) if family in SLOW else number(6, 12))
    @given(st.data())
    def each(data: Any) -> None:
        nonlocal judged
        func = FAMILIES[family](data.draw)
        candidates = list(sketch(func, CPU))
        if not candidates:
            return
        form = data.draw(st.sampled_from(sorted({str(one.knobs["form"]) for one in candidates})))
        candidate: Candidate = data.draw(st.sampled_from([one for one in candidates if one.knobs["form"] == form]))
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
    assert judged >= 2


@pytest.mark.parametrize(("kernel", "taps"), [(4, 4), (3, 4), (2, 1)])
def test_no_zero_between_elements_is_multiplied(kernel: int, taps: int) -> None:
    """Of kernel * kernel terms `taps` are left: one in four, where 3 x 3 counts as 4 x 4."""
    func = transposed(4, 8, 4, kernel)
    found = [one for one in sketch(func, CPU) if str(one.knobs["form"]).startswith("phased")]
    best = min(found, key=lambda one: one.cost.cycles)
    lowered = lower(best.schedule(func).func, CPU, "kernel")
    done = sum(count(kernel).slots for name, kernel in lowered.items() if not kernel.attrs.get("host"))
    products = 4 * (2 * 4) * (2 * 8) * 2 * taps  # filters, rows, columns, channels
    assert products <= done < 1.5 * products + 4 * (2 * 4) * (2 * 8)


@given(
    st.integers(2, 200), st.integers(2, 200), st.integers(1, 64), st.integers(1, 12), st.integers(1, 4),
    st.sampled_from([
        {"l1_rate": 128}, {"l1_rate": 20}, {"l1_rate": 16}, {"l1_rate": 128, "fma_ports": 64, "fma_latency": 1},
    ]),
)  # fmt: skip
@settings(QUICK, max_examples=60)
def test_the_formulas_of_a_product_are_those_of_its_accesses(
    m: int, n: int, k: int, rows: int, vectors: int, machine: dict[str, int]
) -> None:
    """Counted here with loops over tiles: steps, loads and bytes of a product of matrices."""
    lanes, cpu = 4, replace(CPU.description, **machine)  # type: ignore[type-var]
    cost = tiling_cost(reduction(product(m, n, k)), "v_j", lanes, ("v_j", "v_i"), "v_k", cpu)
    compute, _ = cost.at({"tile_v_i": rows, "tile_v_j": vectors})
    row_tiles, column_tiles = math.ceil(m / rows), math.ceil(n / (vectors * lanes))
    registers = rows * vectors + 1 + (vectors if rows > 1 and vectors > 1 else 0)
    split = 0 if n % lanes == 0 else 12 / 64  # of the vectors that begin anywhere, so many lie in two lines
    loads, rate = rows + vectors, min(2.0, cpu.l1_rate / 16)  # bytes come at a rate, and two lines in a cycle
    step = max(rows * vectors / cpu.fma_ports, cpu.fma_latency, loads / rate, (rows + vectors * (1 + split)) / 2)
    step += max(0, registers - cpu.vector_registers) * 2 / rate
    rounds = math.ceil(row_tiles * column_tiles / cpu.cores) * cpu.cores
    assert compute == pytest.approx(rounds * step * k / 0.92)


def test_a_panel_is_shared_out_as_a_whole() -> None:
    """Of 3 x 4 tiles two cores take 6 each; of 3 panels of 4 tiles one takes two, and waits for the other."""
    found, tiles = reduction(product(16, 48, 8)), {"tile_v_i": 4, "tile_v_j": 4}
    all_tiles, _ = tiling_cost(found, "v_j", 4, ("v_j", "v_i"), "v_k", CPU.description).at(tiles)
    panels, _ = tiling_cost(found, "v_j", 4, ("v_j", "v_i"), "v_k", CPU.description, 1).at(tiles)
    assert panels == pytest.approx(all_tiles * 16 / 12)


def test_windows_that_slide_over_a_tile_are_kept_in_registers() -> None:
    """A row of 7 pixels whose kernel is written out shares 6 of them with the next step; a column shares none."""
    found = reduction(nhwc(8, 8, 16, 8))
    along, across = (
        tiling_cost(found, "v_ff", 4, ("v_nn", "v_yy", "v_xx", "v_ff"), last, CPU.description).registers.at(
            {"tile_v_yy": 1, "tile_v_xx": 7, "tile_v_ff": 1}
        )
        for last in ("v_rx", "v_rc")
    )
    assert (along, across) == (7 + 1 + 6, 7 + 1)


def test_windows_that_slide_over_a_tile_are_loaded_once() -> None:
    """Three steps along a row of 7 pixels load 9 of them, along the channels 21; and a vector of weights each."""
    found, slow = reduction(nhwc(8, 8, 16, 8)), replace(CPU.description, l1_rate=4)
    along, across = (
        tiling_cost(found, "v_ff", 4, ("v_nn", "v_yy", "v_xx", "v_ff"), last, slow).at(
            {"tile_v_yy": 1, "tile_v_xx": 7, "tile_v_ff": 1}
        )[0]
        for last in ("v_rx", "v_rc")
    )
    assert along / across == pytest.approx((9 / 3 + 1) / (7 + 1))


@given(st.integers(1, 8), st.integers(2, 6), st.integers(1, 24))
@settings(QUICK, max_examples=60)
def test_a_nest_of_a_group_touches_what_all_of_it_share(group: int, groups: int, rows: int) -> None:
    """Rows of x of 64 bytes, each for `group` results: of tiles that end where groups do, the lines are counted."""
    x, w = te.placeholder((groups, 16), name="x"), te.placeholder((group * groups, 16), name="w")
    k = te.reduce_axis((0, 16), name="k")
    y = te.compute((group * groups,), lambda f: te.sum(x[f // group, k] * w[f, k], axis=k), name="y")
    found = next(one for one in reduction(te.create_prim_func([x, w, y])).operands if one.load.buffer.name == "x")
    ends_with_groups = group % rows == 0 or rows % group == 0
    apart = max(1, rows // group) if ends_with_groups and group > 1 else rows
    nbytes = touched(found.dimensions, 4, {"v_f": formula(rows), "v_k": formula(16)}, 64).at({})
    assert nbytes == 64 * apart + 60  # wherever in a line it begins


@given(st.integers(1, 8), st.integers(1, 8), st.integers(1, 40))
@settings(QUICK, max_examples=80)
def test_a_tile_of_a_group_reads_what_all_of_it_share(group: int, groups: int, rows: int) -> None:
    """Counted for all tiles: those that end where groups do read one element a group, others one a row."""
    x = te.placeholder((groups, 64, 9), name="x")
    w = te.placeholder((group * groups, 9), name="w")
    k = te.reduce_axis((0, 9), name="k")
    y = te.compute((group * groups, 64), lambda f, j: te.sum(x[f // group, j, k] * w[f, k], axis=k), name="y")
    found = next(one for one in reduction(te.create_prim_func([x, w, y])).operands if one.load.buffer.name == "x")
    ends = [[f // group for f in range(t, t + rows)] for t in range(0, group * rows, rows)]
    read = {len(set(one)) for one in ends} if group % rows == 0 or rows % group == 0 else {rows}
    along, _ = found.read({"v_f": formula(rows), "v_j": formula(1)}, ("v_f", "v_j"))
    assert {along.at({})} == read if group > 1 else along.at({}) == rows


def test_edges_along_three_axes_have_no_versions() -> None:
    found = reduction(nhwc(9, 9, 16, 9))
    cost = tiling_cost(found, "v_ff", 4, ("v_nn", "v_yy", "v_xx", "v_ff"), "v_rc", CPU.description)
    sizes = (1, 1), (1, 2), (2, 2)
    whole, two, three = (
        cost.at({"tile_v_yy": rows, "tile_v_xx": columns, "tile_v_ff": 1})[0] for rows, columns in sizes
    )
    assert two < whole and three > 1.5 * two


@given(st.data())
@settings(QUICK, max_examples=40)
def test_lines_that_a_nest_touches_are_those_of_its_elements(data: Any) -> None:
    """Counted element by element, in the mean over where in a line the buffer begins; no less, and not twice as many
    where rows do not share lines."""
    names = ["a", "b", "c"]
    shape = [data.draw(st.integers(1, 9)), data.draw(st.integers(1, 100))]
    sizes = {name: data.draw(st.integers(1, 4)) for name in names}
    steps = [[data.draw(st.integers(0, 2)) for _ in names] for _ in shape]
    dims = tuple(
        Dimension(stride, extent, tuple((n, s) for n, s in zip(names, row, strict=True) if s), ())
        for stride, extent, row in zip((shape[1], 1), shape, steps, strict=True)
    )
    elements = {
        sum(d.stride * sum(at[n] * s for n, s in d.moves) for d in dims)
        for at in (dict(zip(names, p, strict=True)) for p in itertools.product(*(range(sizes[n]) for n in names)))
    }
    lines = [len({(4 * e + begin) // 64 for e in elements}) for begin in range(0, 64, 4)]
    found = touched(dims, 4, {name: formula(size) for name, size in sizes.items()}, 64).at({})
    assert found >= 64 * np.mean(lines) - 1e-9
    rows = sum(sizes[n] * s for n, s in dims[0].moves)
    if rows == 0 or (shape[1] * 4 >= 192 and all(s < 2 for s in steps[1])):
        assert found <= 2 * 64 * np.mean(lines)


def test_a_cache_is_filled_once_by_what_fits_and_again_by_each_loop_around_what_does_not() -> None:
    bytes_of, trips = np.array([[10.0], [40.0], [50.0], [400.0]]), np.array([[1.0], [8.0], [5.0], [16.0]])
    assert into(1000, bytes_of, trips) == [400.0]  # all fits
    assert into(100, bytes_of, trips) == [400.0]  # the third nest fits: the fourth brings new lines once
    assert into(60, bytes_of, trips) == [50.0 * 16]  # the second fits: the third runs 16 times
    assert into(20, bytes_of, trips) == [40.0 * 5 * 16]
    assert into(1, bytes_of, trips) == [10.0 * 8 * 5 * 16]  # nothing is used again


def test_what_fits_the_last_cache_does_not_come_from_memory() -> None:
    cost = tiling_cost(reduction(product(8, 8, 8)), "v_j", 4, ("v_j", "v_i"), "v_k", CPU.description)
    near, middle, far = cost.moved({"tile_v_i": 4, "tile_v_j": 1})
    assert near == 512 and middle == 512 + 2 * 256 and far == 0  # two operands; the result comes and goes


def test_quotients_and_rests_on_neighbouring_dimensions_are_one_index() -> None:
    x = te.placeholder((2, 3, 4), name="x")
    func = te.create_prim_func([x, te.compute((2, 12), lambda i, j: x[i, j // 4, j % 4], name="y")])
    (block,) = blocks_of(func)
    load = next(n for n in walk(block.body) if isinstance(n, BufferLoad))
    indices, shape = merged(load)
    assert [str(index) for index in indices] == [str(axis.var) for axis in block.iter_vars] and shape == (2, 12)


def test_forms_follow_from_the_accesses() -> None:
    """Pixels of a 1x1 kernel are one axis; an image is packed; rows of weights are turned around, or split."""

    def names(func: PrimFunc, lanes: int = 4) -> list[str]:
        return [form.name for form in forms(func, reduction(func), lanes)]

    assert names(nchw(6, 6, 8, 1)) == ["plain", "joined", "packed x"]
    assert names(nchw(6, 6, 8, 3)) == ["plain", "packed pad_temp"]
    assert names(turned(8, 8, 16)) == ["plain", "packed B", "split"]
    assert names(product(8, 8, 16)) == ["plain"]
    assert names(largest(8, 8, 16)) == ["plain"]


@pytest.mark.parametrize(
    "func", [turned(24, 20, 16), nchw(5, 6, 8, 1), nchw(6, 6, 8, 3)], ids=["turned", "pixels", "image"]
)
def test_what_is_copied_as_a_whole_is_copied_in_vectors_by_all_cores(func: PrimFunc) -> None:
    copied = {str(one.knobs["form"]): one for one in sketch(func, CPU) if one.knobs["pack"] == WHOLE}
    assert copied
    for candidate in copied.values():
        schedule = candidate.schedule(func)
        copies = [
            block for block in blocks_of(schedule.func) if block.name.endswith("_local") and not is_reduction(block)
        ]
        copies = [block for block in copies if block.writes[0].buffer not in schedule.func.params]
        kinds = [[schedule.get(loop).kind for loop in schedule.get_loops(block.name)] for block in copies]
        assert any(one[0] is ForKind.PARALLEL and one[-1] is ForKind.VECTORIZED for one in kinds), (
            schedule.func.script()
        )


def test_what_neighbours_read_is_told_apart() -> None:
    found = reduction(product(8, 8, 8))
    kinds = {(o.load.buffer.name, a.name): o.along(a) for o in found.operands for a in (*found.spatial, *found.summed)}
    assert kinds == {
        ("A", "v_i"): SCATTERED, ("A", "v_j"): SAME, ("A", "v_k"): CONTIGUOUS,
        ("B", "v_i"): SAME, ("B", "v_j"): CONTIGUOUS, ("B", "v_k"): SCATTERED,
    }  # fmt: skip
    assert [axis.name for axis in found.vector_axes()] == ["v_j"] and found.operations == 2 and found.depth == 8


def test_all_tiles_are_ranked_by_the_formulas_and_fit_the_registers() -> None:
    wanted = {"form": "plain", "inner": "v_xx", "producers": "apart", "last": "v_rc"}
    own = [one for one in sketch(nhwc(14, 14, 16, 32), CPU) if wanted.items() <= one.knobs.items()]
    assert len(own) >= 8
    cycles = [one.cost.cycles for one in own]
    assert cycles == sorted(cycles)
    for one in own:
        tile = {name: one.knobs[name] for name in ("tile_v_yy", "tile_v_xx", "tile_v_ff")}
        assert int(np.prod(np.array(list(tile.values()), int))) < one.formulas["registers"].at(tile) <= 16  # type: ignore[attr-defined]
    nests = [f"in {name}" for name in ("a step", "v_rc", "v_rx", "v_ry", "v_xx", "v_ff", "v_yy")]
    assert set(own[0].formulas) == {"compute", "registers", *nests}
    assert "tile_v_xx" in str(own[0].formulas["compute"]) and "//" in str(own[0].formulas["compute"])


def test_what_does_not_reduce_or_has_an_open_extent_has_no_sketch() -> None:
    n = te.size_var("n")
    x, r = te.placeholder((n, 4), name="x"), te.reduce_axis((0, 4), name="r")
    assert not list(sketch(te.create_prim_func([x, te.compute((n,), lambda i: te.sum(x[i, r], axis=r))]), CPU))
    y = te.placeholder((4, 4), name="y")
    assert not list(sketch(te.create_prim_func([y, topi.relu(y)]), CPU))
