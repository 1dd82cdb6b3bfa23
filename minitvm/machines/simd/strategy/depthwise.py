"""Schedule depthwise convolution, which has no sum over channels, so that little is computed with each loaded element.

The padded copy of the input must stay in the cache between being written and being read. So it is computed tile by
tile, in the iteration that uses it. `machines.simd.graph.blocked_layout` decides which convolutions become the
operators that these rules are for.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from ....strategy.blocks import block_named, block_of, blocks_of, computes, divisors, reduced, shape_written, volume
from ....strategy.candidate import Candidate, Cost
from ....strategy.epilogues import epilogue
from ....strategy.registry import rule
from ....strategy.tile_nest import TileNest
from ....target import CPU, Target
from ....tir import Schedule
from ....tir.analysis.block_regions import buffers_written
from ....tir.nodes import Block, PrimFunc
from .conv2d import schedule_other_blocks
from .register_tile import accumulators, tile_in_registers, tile_reduction, window_cycles
from .tasks import in_parallel
from .tiling import cpu_of

_PADDED, _PLAIN_PADDED = "data_pad", "pad_temp"


@rule("cpu", computes("nn.contrib_depthwise_conv2d_NCHWc"))
def depthwise_conv2d_nchwc(func: PrimFunc, target: Target) -> Iterator[Candidate]:
    """Yield tiles of pixels along a row, for results [N, C/x, OH, OW, x]. One weight vector serves a whole tile.

    The padded copy for `cached_rows` rows of the result is computed next to its use (`near`), or before the
    convolution. With `near`, only images and blocks of channels run in parallel, because tiles of rows share a halo.
    """
    conv, cpu, kept = block_named(func, "depthwise_conv2d"), cpu_of(target), accumulators(target)
    shape = shape_written(conv)
    padded = next((b for b in blocks_of(func) if b.name == _PADDED), None)
    near_ones = None if padded is None or None in shape[1:] else _rows_in_cache(shape, padded, cpu)
    steps, line = volume(shape[:-1]) * volume(reduced(conv)), 0 if padded is None else _line(padded)
    height, copied, taps = shape[2] or 1, 0 if padded is None else volume(shape_written(padded)[2:3]), reduced(conv)
    stride = max(1, (copied - volume(taps[:1])) // max(1, height - 1))

    def price(pixels: int, near: bool = False, cached_rows: int = 1) -> Cost:
        compute = window_cycles(steps, pixels, kept, cpu)
        if not line:
            return Cost(compute)
        planes = volume(shape[:2])
        if not near:
            return Cost(compute, planes * copied * line * 2 / cpu.l3_rate)
        halo = max(0, volume(taps[:1]) - stride)  # rows that the next tile makes again
        touched = planes * line * (copied + (ceil(height / cached_rows) - 1) * halo)
        fits = (cached_rows * stride + halo) * line <= cpu.l2.size // 2
        return Cost(compute, touched / (cpu.l2_rate if fits else cpu.l3_rate))

    def apply(sch: Schedule, pixels: int, near: bool = False, cached_rows: int = 1) -> None:
        if near:
            used = _near(sch, pixels, cached_rows)
        else:
            block = sch.get_block("depthwise_conv2d")
            used = tile_in_registers(sch, block, {3: pixels}, parallel_axes=3, streams=False)
        schedule_other_blocks(sch, target, used)

    for pixels in divisors(shape[3], kept // 2):
        if near_ones is None:
            yield Candidate(knobs={"pixels": pixels}, price=price, apply=apply)
            continue
        for rows in near_ones:
            yield Candidate(knobs={"pixels": pixels, "near": True, "cached_rows": rows}, price=price, apply=apply)
        yield Candidate(knobs={"pixels": pixels, "near": False, "cached_rows": 1}, price=price, apply=apply)


@rule("cpu", computes("nn.depthwise_conv2d"))
def depthwise_conv2d_of_elements(func: PrimFunc, target: Target) -> Iterator[Candidate]:
    """On a scalar CPU, yield tiles of pixels along a row, for results [N, C, OH, OW].

    The padded copy is that of one channel: it needs a small array instead of as much memory as the input.

        for n, c:
            copy the image of the channel, with its padding
            for y, <pixels>:
                acc[pixels] = 0                             # registers
                for ky, kx: acc[pixels] += patch[..] * w[c, ky, kx]
                out[n, c, y, pixels] = epilogue(acc)
    """
    conv = next(b for b in blocks_of(func) if b.annotations.get("op") == "nn.depthwise_conv2d")
    if not target.is_scalar or "data_layout" in conv.annotations or None in shape_written(conv):
        return
    cpu, kept = cpu_of(target, buffers_written(conv)[0].dtype), accumulators(target, buffers_written(conv)[0].dtype)
    shape, steps = shape_written(conv), volume(shape_written(conv)) * volume(reduced(conv))

    def price(pixels: int) -> Cost:
        return Cost(window_cycles(steps, pixels, kept, cpu))

    def apply(sch: Schedule, pixels: int) -> None:
        block = sch.get_block(conv.name)
        nest = TileNest(sch, block, epilogue(sch, block))
        nest.cut(3, registers=pixels)
        nest.order()
        own, taps = nest.axes_and_steps(nest.sum_in_tile())
        sch.reorder(*taps, *own)
        nest.start(taps[0])
        nest.in_registers(own, vectors=False)
        copied = [pad for pad in sch.get_producers(block) if block_of(sch, pad).name == _PLAIN_PADDED]
        for pad in copied:
            sch.compute_at(pad, nest.tiles[1], preserve_unit_loops=True)
        if target.has_threads:
            in_parallel(sch, nest.tiles[:2])
        schedule_other_blocks(sch, target, nest.names(*copied))

    for pixels in divisors(shape[3], kept):
        yield Candidate(knobs={"pixels": pixels}, price=price, apply=apply)


def _near(sch: Schedule, pixels: int, cached_rows: int) -> set[str]:
    """Schedule the convolution with the padded copy next to it, and return the names of both blocks."""
    conv = sch.get_block("depthwise_conv2d")
    main = epilogue(sch, conv)
    batch, channel, y, *row = sch.get_loops(main)
    over, y = sch.split(y, [None, cached_rows])
    sch.reorder(over, batch, channel, y, *row)
    nest = tile_reduction(sch, conv, main, [batch, channel, y, *row], {3: pixels})
    sch.reorder(*nest.tiles[:2], over)
    pad = sch.get_block(_PADDED)
    sch.compute_at(pad, over, preserve_unit_loops=True)
    sch.vectorize(sch.get_loops(pad)[-1])
    in_parallel(sch, nest.tiles[:2])
    return nest.names(pad)


def _rows_in_cache(shape: list[int | None], padded: Block, cpu: CPU) -> list[int] | None:
    """Return the numbers of result rows whose padded input fills at most a quarter of the L2 cache, largest first.

    Returns None if there are fewer images and blocks of channels than cores.
    """
    if volume(shape[:2]) < cpu.cores:
        return None
    return divisors(shape[2], max(1, cpu.l2.size // 4 // _line(padded)))


def _line(padded: Block) -> int:
    """Return the number of bytes in a row of the padded copy."""
    return buffers_written(padded)[0].dtype.bytes * volume(shape_written(padded)[3:])
