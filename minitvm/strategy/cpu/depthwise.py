"""Depthwise convolution: no sum over channels, so that little is computed with what is loaded.

What counts is that the padded copy of the input stays in the cache between being written and being read: it is made
tile by tile, next to its use, in the iteration that uses it.
"""

from __future__ import annotations

from typing import Any

from ...expr import IntImm
from ...tir import Schedule
from ..registry import rule
from .blocks import behind, blocks_of, computes, inline_injective
from .conv2d import schedule_other_blocks
from .register_tile import (
    accumulators,
    block_of,
    epilogue,
    inlined_forward,
    largest_divisor,
    output_shape,
    tile_in_registers,
    tile_reduction,
)
from .tiling import cpu_of

_PADDED = "data_pad"


@rule("cpu", computes("nn.contrib_depthwise_conv2d_NCHWc"))
def depthwise_conv2d_nchwc(sch: Schedule, target: Any) -> None:
    """[N, C/x, OH, OW, x]: tiles of pixels along a row; a weight vector serves all of them."""
    conv = sch.get_block("depthwise_conv2d")
    shape = output_shape(sch, conv)
    pixels = largest_divisor(shape[3], accumulators(target) // 2)
    rows = _rows_in_cache(sch, shape, target)
    if rows is None:
        used = tile_in_registers(sch, conv, {3: pixels}, parallel_axes=3, streams=False)
        schedule_other_blocks(sch, target, used)
        return
    main = epilogue(sch, conv)
    batch, channel, y, *row = sch.get_loops(main)
    over, y = sch.split(y, [None, rows])
    sch.reorder(over, batch, channel, y, *row)
    outer, init = tile_reduction(sch, conv, main, [batch, channel, y, *row], {3: pixels}, streams=False)
    sch.reorder(*outer[:2], over)
    pad = sch.get_block(_PADDED)
    sch.compute_at(pad, over, preserve_unit_loops=True)
    sch.vectorize(sch.get_loops(pad)[-1])
    sch.parallel(sch.fuse(*outer[:2]))
    schedule_other_blocks(sch, target, {block_of(sch, part).name for part in (conv, init, main, pad)})


def _rows_in_cache(sch: Schedule, shape: list[int | None], target: Any) -> int | None:
    """Rows of the result whose padded input fills a quarter of the L2 cache at most; a small image whole.

    None where there is no padded copy, where its size is not known, or where the images and blocks of channels, which
    are then all that runs in parallel (tiles of rows share a halo), are fewer than the cores.
    """
    padded = next((b.writes[0].buffer for b in blocks_of(sch.func) if b.name == _PADDED), None)
    cpu = cpu_of(target)
    if padded is None or any(d is None for d in shape) or shape[0] * shape[1] < cpu.cores:  # type: ignore[operator]
        return None
    line = padded.dtype.bytes
    for extent in padded.shape[3:]:
        line *= extent.value if isinstance(extent, IntImm) else 1
    return largest_divisor(shape[2], max(1, cpu.l2.size // 4 // line))


@rule("cpu", computes("nn.contrib_depthwise_conv2d_rows"))
def depthwise_conv2d_rows(sch: Schedule, target: Any) -> None:
    """[N, C, OH, OW]: tiles of rows by one vector; the padded copy of a channel is made next to its use."""
    conv = sch.get_block("depthwise_rows")
    lanes = int(block_of(sch, conv).annotations["lanes"])
    inline_injective(sch, within=behind(sch.func, "depthwise_rows"))
    main = inlined_forward(sch, sch.get_consumers(conv)[0])
    sch.set_scope(conv, 0, "local")
    batch, channel, y, x, *taps = sch.get_loops(conv)
    most = min(cpu_of(target).chains, accumulators(target))
    over, rows = sch.split(y, [None, largest_divisor(output_shape(sch, conv)[2], most)])
    vectors, vector = sch.split(x, [None, lanes])
    sch.reorder(batch, channel, over, vectors, *taps, rows, vector)
    sch.reverse_compute_at(main, vectors, preserve_unit_loops=True)
    # A row shorter than a vector is stored as one too, masked: it is read from where vectors were accumulated.
    sch.split(sch.get_loops(main)[-1], [None, lanes])
    init = sch.decompose_reduction(conv, taps[0])
    for tap in taps:
        sch.unroll(tap)
    for part in (conv, init, main):
        *others, last = sch.get_loops(part)[4:]
        for loop in others:
            if loop not in taps:
                sch.unroll(loop)
        sch.vectorize(last)
    pad = sch.get_block("rows_pad")
    sch.compute_at(pad, over, preserve_unit_loops=True)
    _, lane = sch.split(sch.get_loops(pad)[-1], [None, lanes])
    sch.vectorize(lane)
    sch.parallel(sch.fuse(batch, channel))
    schedule_other_blocks(sch, target, {block_of(sch, part).name for part in (conv, init, main, pad)})
