"""Schedule Winograd convolution: transform the input, one matrix product per place of the tile, transform the result.

for <some rows of tiles>:                       # parallel
    for <block of channels>:
        pad; for <tile>: columns; tiles         # both transforms unrolled, a vector of channels at a time
    for <panel of output channels>:
        for <place of the tile>, <some tiles>:  # products, their accumulators in registers
        for <block of channels>, <tile>:        # the result's transform, and the epilogue

If `winograd_plan` finds that too few rows would share the weights, a separate nest first transforms the whole input,
and panels run in parallel too.

If the image has symbolic sides, or the convolution is dilated, a separate nest pads the image. Each task then computes
a rectangle of tiles. Its buffers have the size of a whole rectangle, and tiles outside the image are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ....strategy.blocks import behind, block_named, computes, extents, inline_injective, output_shape, shape_written
from ....strategy.candidate import Candidate, Cost, Knob, Unfit
from ....strategy.epilogues import inlined_forward
from ....strategy.registry import rule
from ....target import Target
from ....tir import Schedule
from ....tir.analysis.block_regions import buffers_written, regions_read
from ....tir.nodes import Block, PrimFunc
from .generic import schedule_block
from .register_tile import PREFETCH_AHEAD, tile_reduction
from .tasks import in_parallel, task_order
from .tiling import cpu_of
from .winograd_plan import WinogradPlan, WinogradShape, winograd_cost, winograd_plans

OP = "nn.contrib_winograd_conv2d_NCHWc"


@rule("cpu", computes(OP))
def winograd_conv2d_nchwc(func: PrimFunc, target: Target) -> Iterator[Candidate]:
    """Yield schedules that compute a group of rows of tiles at a time, one panel of output channels after the other.

    The result is [N, O/y, OH, OW, y]. The packed weights determine the number of blocks in a panel.
    """
    cpu = cpu_of(target)
    shape, blocks = _shape(func)

    def plan_of(rows: int, pixels: int, apart: bool = False, across: int = 0) -> WinogradPlan:
        return WinogradPlan(rows, pixels, blocks, apart, across)

    def price(**knobs: Any) -> Cost:
        return winograd_cost(shape, plan_of(**knobs), cpu)

    def apply(sch: Schedule, **knobs: Any) -> None:
        schedule = _schedule if shape.whole else _schedule_grid
        schedule(sch, shape, plan_of(**knobs), target)

    plans = winograd_plans(shape, cpu, blocks)
    if not plans:
        raise Unfit(
            f"winograd: a register tile of {shape.in_channels} channels does not fit the stack; wanted fewer channels, "
            "or an image of constant extents without dilation"
        )
    for plan, _ in plans:
        kind: dict[str, Knob] = {"apart": plan.apart} if shape.whole else {"across": plan.across}
        yield Candidate(knobs={"rows": plan.rows, "pixels": plan.pixels, **kind}, price=price, apply=apply)


def _shape(func: PrimFunc) -> tuple[WinogradShape, int]:
    """Return the extents of the convolution, and the number of blocks per panel in the packed weights."""
    result, products = block_named(func, "winograd"), block_named(func, "products")
    tile = int(result.annotations["tile"])
    computed = {buffers_written(block_named(func, name))[0] for name in ("tiles", "products")}
    weights = next(r.buffer for r in regions_read(products) if r.buffer not in computed)
    panels, _, _, in_blocks, in_lanes, blocks, lanes = (extent or 1 for extent in extents(weights.shape))
    batch, _, *size, _ = shape_written(result)
    apart = _dilation(result)
    down, across = (None if n is None else -(-n // (tile * k)) for n, k in zip(size, apart, strict=True))
    channels = in_blocks * in_lanes
    return WinogradShape(tile, batch or 1, (down, across), channels, panels * blocks, lanes, apart), blocks


def _dilation(result: Block) -> tuple[int, int]:
    rows, columns = result.annotations.get("dilation", (1, 1))
    return int(rows), int(columns)


def _schedule(sch: Schedule, shape: WinogradShape, plan: WinogradPlan, _target: Any) -> None:
    tile, result = shape.tile, sch.get_block("winograd")
    inline_injective(sch, within=behind(sch.func, "winograd"))
    result = inlined_forward(sch, result)
    b, ob, y, x, oc = sch.get_loops(result)
    down, th, dy = sch.split(y, [None, plan.rows, tile])
    tw, dx = sch.split(x, [None, tile])
    panel, block = sch.split(ob, [None, plan.blocks])
    sch.reorder(b, down, panel, block, th, tw, dy, dx, oc)
    group = sch.fuse(b, down)
    _result(sch, tw, dx, oc)
    _products(sch, panel, {3: plan.blocks, 4: plan.pixels})

    if plan.apart:
        sch.parallel(_transformed(sch, plan, None))
        group = sch.fuse(group, panel)
    else:
        _transformed(sch, plan, group)
    sch.parallel(group)


def _schedule_grid(sch: Schedule, shape: WinogradShape, plan: WinogradPlan, target: Target) -> None:
    """Schedule tasks that are rectangles of `rows` x `across` tiles of a phase. Tiles outside the image are skipped."""
    result = sch.get_block("winograd")
    inline_injective(sch, within=behind(sch.func, "winograd"))
    result = inlined_forward(sch, result)
    tile, (row_phases, column_phases) = shape.tile, shape.dilation
    b, ob, y, x, oc = sch.get_loops(result)
    down, th, dy, py = sch.split(y, [None, plan.rows, tile, row_phases])
    right, tw, dx, px = sch.split(x, [None, plan.across, tile, column_phases])
    panel, block = sch.split(ob, [None, plan.blocks])
    fused, others = task_order(sch, [b, py, px, down, right])
    tasks = [*fused, *others]
    sch.reorder(*tasks, panel, block, th, tw, dy, dx, oc)
    _result(sch, tw, dx, oc)
    _products(sch, panel, {3: plan.blocks, 5: plan.pixels})

    tiles, columns = sch.get_block("tiles"), sch.get_block("columns")
    sch.compute_at(tiles, tasks[-1], preserve_unit_loops=True)
    n, u, v, ib, ty, tx, c = sch.get_loops(tiles)[-7:]
    sch.reorder(n, ib, ty, tx, u, v, c)
    sch.compute_at(columns, tx)
    _row_of_matrix(sch, columns, -3)
    _row_of_matrix(sch, tiles, -2)
    sch.transform_layout(tiles, ("write", 0), lambda n, u, v, ib, ty, tx, c: [n, ty, u, v, ib, tx, c])
    _odd_lines(sch, tiles, 3)
    in_parallel(sch, tasks)
    schedule_block(sch, "images", target)


def _result(sch: Schedule, at: Any, column: Any, lanes: Any) -> None:
    """Schedule the result's transform: its rows for each tile at the loop `at`, and the pixels of a row of the tile."""
    sch.unroll(column)
    sch.vectorize(lanes)
    rows = sch.get_block("rows")
    sch.compute_at(rows, at)
    _row_of_matrix(sch, rows, -3)


def _products(sch: Schedule, panel: Any, tile: Mapping[int, int]) -> None:
    """Schedule the products of a panel. `tile` gives the extents of a register tile along some of their axes."""
    products = sch.get_block("products")
    writer = sch.cache_write(products, 0, "local")
    sch.compute_at(writer, panel, preserve_unit_loops=True)
    loops = sch.get_loops(writer)[-len(output_shape(sch, writer)) :]
    tile_reduction(sch, products, writer, loops, tile, PREFETCH_AHEAD)
    _odd_lines(sch, writer, 2)


def _transformed(sch: Schedule, plan: WinogradPlan, group: Any) -> Any:
    """Compute the transform of the input in `group`, or separately if that is None. Return the loop over blocks of
    channels.

    The data that a micro-kernel reads at one place, for several tiles, are contiguous.
    """
    tiles, columns, strips = (sch.get_block(name) for name in ("tiles", "columns", "strips"))
    if group is not None:
        sch.compute_at(tiles, group, preserve_unit_loops=True)
    n, u, v, ib, p, c = sch.get_loops(tiles)[-6:]
    some, p = sch.split(p, [None, plan.pixels])
    sch.reorder(n, ib, some, p, u, v, c)
    channels = sch.fuse(n, ib)
    sch.compute_at(columns, p)
    _row_of_matrix(sch, columns, -3)
    _row_of_matrix(sch, tiles, -2)
    sch.compute_at(strips, channels)
    sch.vectorize(sch.get_loops(strips)[-1])
    pixels = plan.pixels
    sch.transform_layout(tiles, ("write", 0), lambda n, u, v, ib, p, c: [n, p // pixels, u, v, ib, p % pixels, c])
    _odd_lines(sch, tiles, 3)
    return channels


def _odd_lines(sch: Schedule, block: Any, axis: int) -> None:
    """Put the places of a tile an odd number of vectors apart, so that all of them fit in the sets of the L1 cache."""
    lanes = output_shape(sch, block)[-1] or 1
    sch.storage_align(block, 0, axis, 2 * lanes, lanes)


def _row_of_matrix(sch: Schedule, handle: Any, row: int) -> None:
    """Unroll the loop over a transform's rows and move it innermost, so that each row is one sum. The last loop is a
    vector.
    """
    loops = sch.get_loops(handle)
    inside = [loops[row], loops[-1]]
    sch.reorder(*[loop for loop in loops[-3:] if loop not in inside], *inside)
    sch.unroll(loops[row])
    sch.vectorize(loops[-1])
