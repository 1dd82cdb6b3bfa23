"""Winograd convolution: transform of the input, a matrix product a place of the tile, transform of the result.

for <some rows of tiles>:                       # parallel
    for <block of channels>:
        pad; for <tile>: columns; tiles         # both transforms unrolled, a vector of channels at a time
    for <panel of output channels>:
        for <place of the tile>, <some tiles>:  # products, their accumulators in registers
        for <block of channels>, <tile>:        # the result's transform, and the epilogue

Where `winograd_plan` finds that too few rows would share the weights, the transform of the whole input is a nest of its
own in front, and panels run in parallel too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...tir import Schedule
from ...tir.nodes import PrimFunc
from ..blocks import behind, block_named, computes, extents, inline_injective, output_shape, shape_written
from ..candidate import Candidate, Cost
from ..epilogues import inlined_forward
from ..register_tile import tile_reduction
from ..registry import rule
from .register_tile import PREFETCH_AHEAD
from .tiling import cpu_of
from .winograd_plan import WinogradPlan, WinogradShape, winograd_cost, winograd_plans

OP = "nn.contrib_winograd_conv2d_NCHWc"


@rule("cpu", computes(OP))
def winograd_conv2d_nchwc(func: PrimFunc, target: Any) -> Iterator[Candidate]:
    """[N, O/y, OH, OW, y], a group of rows of tiles at a time, and of that a panel of output channels.

    How many blocks are a panel, the packed weights say.
    """
    cpu = cpu_of(target)
    shape, blocks = _shape(func)

    def price(rows: int, pixels: int, apart: bool) -> Cost:
        return winograd_cost(shape, WinogradPlan(rows, pixels, blocks, apart), cpu)

    def apply(sch: Schedule, rows: int, pixels: int, apart: bool) -> None:
        _schedule(sch, shape.tile, WinogradPlan(rows, pixels, blocks, apart))

    for plan, _ in winograd_plans(shape, cpu, blocks):
        knobs = {"rows": plan.rows, "pixels": plan.pixels, "apart": plan.apart}
        yield Candidate(knobs=knobs, price=price, apply=apply)


def _shape(func: PrimFunc) -> tuple[WinogradShape, int]:
    """The extents of the convolution, and the blocks of a panel in which the weights are packed."""
    result, products = block_named(func, "winograd"), block_named(func, "products")
    tile = int(result.annotations["tile"])
    weights = next(r.buffer for r in products.reads if r.buffer.ndim == 7)
    panels, _, _, in_blocks, in_lanes, blocks, lanes = (extent or 1 for extent in extents(weights.shape))
    batch, _, height, width, _ = (extent or 1 for extent in shape_written(result))
    image = (-(-height // tile), -(-width // tile))
    return WinogradShape(tile, batch, image, in_blocks * in_lanes, panels * blocks, lanes), blocks


def _schedule(sch: Schedule, tile: int, plan: WinogradPlan) -> None:
    result = sch.get_block("winograd")
    inline_injective(sch, within=behind(sch.func, "winograd"))
    result = inlined_forward(sch, result)
    b, ob, y, x, oc = sch.get_loops(result)
    down, th, dy = sch.split(y, [None, plan.rows, tile])
    tw, dx = sch.split(x, [None, tile])
    panel, block = sch.split(ob, [None, plan.blocks])
    sch.reorder(b, down, panel, block, th, tw, dy, dx, oc)
    group = sch.fuse(b, down)
    sch.unroll(dx)
    sch.vectorize(oc)
    rows = sch.get_block("rows")
    sch.compute_at(rows, tw)
    _row_of_matrix(sch, rows, -3)

    products = sch.get_block("products")
    writer = sch.cache_write(products, 0, "local")
    sch.compute_at(writer, panel, preserve_unit_loops=True)
    tile_reduction(sch, products, writer, sch.get_loops(writer)[2:], {3: plan.blocks, 4: plan.pixels}, PREFETCH_AHEAD)
    _odd_lines(sch, writer, 2)

    if plan.apart:
        sch.parallel(_transformed(sch, plan, None))
        group = sch.fuse(group, panel)
    else:
        _transformed(sch, plan, group)
    sch.parallel(group)


def _transformed(sch: Schedule, plan: WinogradPlan, group: Any) -> Any:
    """Compute the transform of the input in `group`, or by itself; gives the loop over blocks of channels.

    What a micro-kernel reads at a place, of some tiles, is one stretch of memory.
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
    """Put the places of a tile an odd number of vectors apart: all of them fit the L1 cache's sets at once."""
    lanes = output_shape(sch, block)[-1] or 1
    sch.storage_align(block, 0, axis, 2 * lanes, lanes)


def _row_of_matrix(sch: Schedule, handle: Any, row: int) -> None:
    """Unroll the loop over a transform's rows, innermost, so that each is one sum; the last loop is a vector."""
    loops = sch.get_loops(handle)
    inside = [loops[row], loops[-1]]
    sch.reorder(*[loop for loop in loops[-3:] if loop not in inside], *inside)
    sch.unroll(loops[row])
    sch.vectorize(loops[-1])
