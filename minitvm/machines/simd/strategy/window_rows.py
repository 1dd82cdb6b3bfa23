"""Schedule windows over plain data whose rows are whole vectors (`simd.topi.window_rows`): depthwise convolutions and
pools.

    for <images, channels, outer axes>, (y_part, x_part) in parallel:
        copy the part of the image that the windows read, with its padding, to a patch      L1 cache
        for y_tile, x_tile of the part:
            acc[rows, vectors] = init                                                       registers
            for kz, kx, ky: acc[r, v] += patch[(y + r) * stride + ky, (x + v) * stride + kx] (* w[kz, ky, kx])
            out[rows, vectors] = epilogue(acc)

A patch has the same geometry for every image size, so that addresses are constant distances apart. If an extent is
symbolic, only the copy and the store depend on it. The taps of a column follow each other: the elements that one row
reads for a tap are read by another row for the next tap, and are still in a register.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

from ....expr import REDUCE, find
from ....strategy import blocks
from ....strategy.candidate import Candidate, Cost
from ....strategy.epilogues import inlined_forward
from ....strategy.registry import rule
from ....strategy.roles import LONG
from ....target import Target
from ....tir import Schedule
from ....tir.analysis.block_regions import buffers_written, regions_read
from ....tir.nodes import BufferLoad, PrimFunc
from ....tir.transform.affine import coefficient, linear
from .conv2d import schedule_other_blocks
from .generic import parallelized, work
from .register_tile import accumulators, window_cycles
from .tiling import cpu_of

_WINDOWS, _PADDED = "window_rows", "rows_pad"
_ENOUGH = 5  # vectors of accumulators that hide how long a term takes
_WRITTEN_OUT = 1024  # terms of a tile: more of them are many seconds to compile, and slower to fetch
_WIDE = 8  # vectors of a patch's row, where more would not be reused
OPS = ("nn.contrib_depthwise_conv2d_rows", "nn.contrib_max_pool_rows", "nn.contrib_avg_pool_rows")


@dataclass(frozen=True, slots=True)
class _Windows:
    """The facts that the schedule depends on: the extents of the whole result, and the reach of the windows along each
    axis.

    A symbolic extent is None. `steps` holds the strides of the windows, and `sizes` how many elements a window
    spans.
    """

    lanes: int
    tile: int
    itemsize: int
    shape: tuple[int | None, ...]
    steps: tuple[int, ...]
    sizes: tuple[int, ...]
    taps: int

    def patch(self, rows: int, vectors: int) -> int:
        """Return the bytes of the patch that `rows` rows of `vectors` vectors of windows read."""
        counts = [*(1 for _ in self.shape[2:-2]), rows, vectors * self.lanes][-len(self.sizes) :]
        spans = [(n - 1) * s + size for n, s, size in zip(counts, self.steps, self.sizes, strict=True)]
        spans[-1] = ceil(spans[-1] / self.lanes) * self.lanes
        return blocks.volume(spans) * self.itemsize


def _windows(func: PrimFunc) -> _Windows:
    block = blocks.block_named(func, _WINDOWS)
    padded = next(r.buffer for r in regions_read(block) if r.buffer.name == _PADDED)
    load = next(n for n in find(block.body, BufferLoad) if n.buffer is padded)
    spatial = [axis.var for axis in block.iter_vars if axis.kind != REDUCE]
    taps = [axis for axis in block.iter_vars if axis.kind == REDUCE]
    steps, sizes = [], []
    for index, place, tap in zip(load.indices[2:], spatial[2:], taps, strict=True):
        form = linear(index)
        steps.append(int(coefficient(form, place) or 1))
        sizes.append(((blocks.extents([tap.dom.extent])[0] or 1) - 1) * int(coefficient(form, tap.var) or 1) + 1)
    return _Windows(
        int(block.annotations["lanes"]), int(block.annotations["tile"]), padded.dtype.bytes,
        tuple(blocks.extents(buffers_written(block)[0].shape)), tuple(steps), tuple(sizes),
        blocks.volume(blocks.reduced(block)),
    )  # fmt: skip


@rule("cpu", blocks.computes(*OPS))
def window_rows(func: PrimFunc, target: Target) -> Iterator[Candidate]:
    """Yield tiles of `rows` by `vectors`. A patch has `patch_rows` tiles of rows and `patch_vectors` tiles of
    vectors.
    """
    what, cpu, kept = _windows(func), cpu_of(target), accumulators(target)
    height, width = (what.shape[-2] if len(what.shape) > 3 else 1), what.shape[-1]
    outer = blocks.volume(what.shape[: 2 if len(what.shape) < 5 else -2], LONG)
    row_vectors = None if width is None else ceil(width / what.lanes)
    steps = outer * (height or LONG) * (row_vectors or LONG // what.lanes) * what.taps

    def price(rows: int, vectors: int, patch_rows: int, patch_vectors: int) -> Cost:
        compute = window_cycles(steps, rows * vectors, kept, cpu)
        patches = ceil((height or LONG) / patch_rows) * ceil((row_vectors or LONG // what.lanes) / patch_vectors)
        return Cost(compute, outer * patches * what.patch(patch_rows, patch_vectors) * 2 / cpu.l2_rate)

    def apply(sch: Schedule, rows: int, vectors: int, patch_rows: int, patch_vectors: int) -> None:
        _schedule(sch, what, (rows, vectors), (patch_rows, patch_vectors), target)

    near = cpu.l1.size * 3 // 4
    most = height or LONG
    for rows in blocks.divisors(what.tile if height is None else height, min(cpu.chains, kept)):
        vectors = max(1, min(row_vectors or _ENOUGH, ceil(_ENOUGH / rows)))
        for wide in sorted({min(row_vectors or _WIDE, many) for many in (_WIDE, 2 * _WIDE, 4 * _WIDE)}):
            tall = rows
            while tall < most and what.patch(2 * tall, wide) <= near:
                tall *= 2
            knobs = {"rows": rows, "vectors": vectors, "patch_rows": tall, "patch_vectors": max(vectors, wide)}
            yield Candidate(knobs=knobs, price=price, apply=apply)


def _schedule(sch: Schedule, what: _Windows, tile: tuple[int, int], patch: tuple[int, int], target: Target) -> None:
    (rows, vectors), (patch_rows, patch_vectors) = tile, patch
    window = sch.get_block(_WINDOWS)
    amount = work(blocks.block_of(sch, window))
    blocks.inline_injective(sch, within=blocks.behind(sch.func, _WINDOWS))
    main = inlined_forward(sch, sch.get_consumers(window)[0])
    sch.set_scope(window, 0, "local")
    loops, rank = list(sch.get_loops(window)), len(what.steps)
    spatial, taps = loops[: 2 + rank], loops[2 + rank :]
    *outside, x = spatial
    over, within, inside = [], [], []
    if rank > 1:
        tiles, row = sch.split(outside.pop(), [None, rows])
        part, tile_loop = sch.split(tiles, [None, max(1, patch_rows // rows)])
        over, within, inside = [part], [tile_loop], [row]
    row_vectors, lane = sch.split(x, [None, what.lanes])
    part, tile_loop, vector = sch.split(row_vectors, [None, max(1, patch_vectors // vectors), vectors])
    over, within, inside = [*over, part], [*within, tile_loop], [*inside, vector, lane]
    if rank > 1:
        taps = [*taps[:-2], taps[-1], taps[-2]]
    sch.reorder(*outside, *over, *within, *taps, *inside)
    sch.reverse_compute_at(main, within[-1], preserve_unit_loops=True)
    # A row shorter than a vector is also stored as one, with a mask: it is read from the vectors that were accumulated.
    sch.split(sch.get_loops(main)[-1], [None, what.lanes])
    init = sch.decompose_reduction(window, taps[0])
    written = rows * vectors
    around, open_rows = len(outside) + len(over) + len(within), rank > 1 and what.shape[-2] is None
    for tap in reversed(taps[1:] if open_rows else taps):
        written *= blocks.constant_extent(sch, tap) or _WRITTEN_OUT
        if written > _WRITTEN_OUT:
            break
        sch.unroll(tap)
    for block in (window, init, main):
        *others, last = sch.get_loops(block)[around:]
        for position, loop in enumerate(others):
            # How many rows an open image has left is a bound of a loop: a branch for each row would be taken to compute
            # its sums, too.
            if loop not in taps and not (block is main and open_rows and position == len(outside)):
                sch.unroll(loop)
        sch.vectorize(last)
    pad = sch.get_block(_PADDED)
    sch.compute_at(pad, over[-1], preserve_unit_loops=True)
    copied = [pad]
    if None in what.shape[-len(what.steps) :]:
        # The copy of an open extent is of what is there alone: whether a row is, is asked once a row, not in each lane.
        filled = blocks.attempt(lambda: sch.decompose_padding(pad, sch.get_loops(pad)[len(outside) + len(over)]))
        copied += [filled] if filled is not None else []
    for block in copied:
        *others, x = list(sch.get_loops(block))[len(outside) + len(over) :]
        column, lane = sch.split(x, [None, what.lanes])
        if len(copied) > 1:
            # Few vectors make a row, of which masks depend on the vector alone: rows are the longer loop.
            sch.reorder(column, *others, lane)
        sch.vectorize(lane)
    parallelized(sch, [*outside, *over], amount)
    schedule_other_blocks(sch, target, {blocks.block_of(sch, block).name for block in (window, init, main, *copied)})
