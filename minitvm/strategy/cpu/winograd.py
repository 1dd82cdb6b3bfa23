"""Winograd convolution: transform of the input, a matrix product a place of the tile, transform of the result.

for <a row of tiles>:                       # parallel
    for <block of channels>:                # the row's input in L1
        pad; for <tile>: columns; tiles     # both transforms unrolled, a vector of channels at a time
    for <place of the tile>:                # products of the row, its accumulators in registers
    for <block of channels>, <tile>:        # the result's transform, and the epilogue
"""

from __future__ import annotations

from typing import Any

from ...tir import Schedule
from ..registry import rule
from .blocks import behind, computes, inline_injective
from .conv2d import conv_tiles, weighed_tiles
from .register_tile import block_of, inlined_forward, output_shape, tile_reduction
from .tiling import cpu_of

OP = "nn.contrib_winograd_conv2d_NCHWc"


@rule("cpu", computes(OP))
def winograd_conv2d_nchwc(sch: Schedule, target: Any) -> list[str]:
    """[N, O/y, OH, OW, y], a row of tiles at a time."""
    result = sch.get_block("winograd")
    tile = block_of(sch, result).annotations["tile"]
    inline_injective(sch, within=behind(sch.func, "winograd"))
    result = inlined_forward(sch, result)
    b, ob, y, x, oc = sch.get_loops(result)
    th, dy = sch.split(y, [None, tile])
    tw, dx = sch.split(x, [None, tile])
    sch.reorder(b, th, ob, tw, dy, dx, oc)
    row = sch.fuse(b, th)
    sch.unroll(dx)
    sch.vectorize(oc)

    rows = sch.get_block("rows")
    sch.compute_at(rows, tw)
    _row_of_matrix(sch, rows, -3)

    products = sch.get_block("products")
    _, _, _, blocks, _, _ = output_shape(sch, products)
    across = -(-(output_shape(sch, result)[3] or 1) // tile)
    writer = sch.cache_write(products, 0, "local")
    sch.compute_at(writer, row, preserve_unit_loops=True)
    tile_loops = sch.get_loops(writer)[1:]
    weighed = conv_tiles(across, blocks, cpu_of(target).vector_registers, whole=True)
    pixels, blocks = weighed[0][0]
    tile_reduction(sch, products, writer, tile_loops, {3: blocks, 4: pixels})

    tiles = sch.get_block("tiles")
    sch.compute_at(tiles, row, preserve_unit_loops=True)
    n, u, v, ib, p, c = sch.get_loops(tiles)[1:]
    sch.reorder(n, ib, p, u, v, c)
    columns = sch.get_block("columns")
    sch.compute_at(columns, p)
    _row_of_matrix(sch, columns, -3)
    _row_of_matrix(sch, tiles, -2)
    strips = sch.get_block("strips")
    sch.compute_at(strips, ib)
    sch.vectorize(sch.get_loops(strips)[-1])
    sch.parallel(row)
    return weighed_tiles(weighed)


def _row_of_matrix(sch: Schedule, handle: Any, row: int) -> None:
    """Unroll the loop over a transform's rows, innermost, so that each is one sum; the last loop is a vector."""
    loops = sch.get_loops(handle)
    inside = [loops[row], loops[-1]]
    sch.reorder(*[loop for loop in loops[-3:] if loop not in inside], *inside)
    sch.unroll(loops[row])
    sch.vectorize(loops[-1])
