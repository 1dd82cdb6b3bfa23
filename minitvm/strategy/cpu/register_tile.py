"""The register-blocked micro-kernel that convolutions and dense layers share.

    for <outer tiles>:                          # parallel, fused
        acc[tile] = 0                           # registers
        for <reduction>:                        # rolled
            for <tile>:                         # unrolled; the last axis is one vector
                acc[tile] += a * b
        out[tile] = epilogue(acc[tile])         # bias, activation, residual: while still in registers

The broadcast operand comes from the one input, the vector from the other; with `rows x columns` vectors of accumulators
each step of the reduction does rows*columns fused multiply-adds for rows + columns loads (Goto and van de Geijn,
"Anatomy of high-performance matrix multiplication").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...expr import IterVar, Range, structural_equal
from ...expr.conditions import is_const
from ...tir import Schedule
from ...tir.annotations import PREFETCH
from ...tir.nodes import Block
from ..blocks import behind, extents, inline_injective
from .model import LOADS
from .tasks import in_parallel
from .tiling import cpu_of

# Vectors that a micro-kernel needs beside its accumulators: some of the one operand, a broadcast of the other.
_SPARE_REGISTERS = 4

# Iterations of a micro-kernel, of 4 to 14 cycles, in which a line comes from memory. Measured on Zen 5: from 24 to 64
# it makes no difference; without, 7 x 7 images with 512 channels take a third longer.
PREFETCH_AHEAD = 48


def tile_in_registers(
    sch: Schedule, block: Any, tiles: Mapping[int, int], parallel_axes: int, streams: bool = True, before: str = ""
) -> set[str]:
    """Schedule the reduction `block` and the element-wise blocks behind it as a micro-kernel; gives its blocks' names.

    `tiles` gives the extent of the tile along some axes of the output; the last axis must be one vector long. The first
    `parallel_axes` outer loops are fused and run in parallel. Blocks that read the result element by element, up to the
    function's output or the block `before`, become the epilogue.
    """
    main = epilogue(sch, block, before)
    outer, init = tile_reduction(sch, block, main, sch.get_loops(main), tiles, streams)
    in_parallel(sch, outer[:parallel_axes])
    return {block_of(sch, part).name for part in (init, block, main)}


def tile_reduction(
    sch: Schedule, block: Any, main: Any, loops: Sequence[Any], tiles: Mapping[int, int], streams: bool = True
) -> tuple[list[Any], Any]:
    """Tile `loops`, those of `main` over the axes of the result, and compute the reduction `block` in each tile.

    What is around the loops stays there. Gives the loops over the tiles and the block that starts the accumulators.
    Weights that stream through memory are asked for ahead of time; with `streams` false they are few, and it is not
    worth it.
    """
    axes, around = len(loops), len(sch.get_loops(main)) - len(loops)
    outer, inner = [], []
    for axis, loop in enumerate(loops[:-1]):
        over, tile = sch.split(loop, factors=[None, tiles.get(axis, 1)])
        outer.append(over)
        inner.append(tile)
    vector = loops[-1]
    sch.reorder(*outer, *inner, vector)
    # The block moves below all outer loops; its own loops over the tile keep one loop an axis.
    sch.compute_at(block, outer[-1], preserve_unit_loops=True)
    depth = around + len(outer)
    own = sch.get_loops(block)[depth:]
    tile_loops, reduction = own[:axes], own[axes:]
    sch.reorder(*reduction, *tile_loops)
    init = sch.decompose_reduction(block, reduction[0])
    if streams:
        sch.annotate(reduction[-1], PREFETCH, PREFETCH_AHEAD)
    for nest in (tile_loops, sch.get_loops(init)[depth:], [*inner, vector]):
        for loop in nest[:-1]:
            sch.unroll(loop)
        sch.vectorize(nest[-1])
    return outer, init


def epilogue(sch: Schedule, block: Any, before: str = "") -> Any:
    """Let `block` accumulate in registers; returns the block that writes what it computed, epilogue included.

    The epilogue ends in front of the block of the name `before`, where there is one.
    """
    # Branches of the epilogue (hard-swish reads the result twice) become one block with one reader of the result.
    inlined = behind(sch.func, block_of(sch, block).name)
    if before:
        inlined -= {before, *(block_of(sch, maker).name for maker in sch.get_producers(before))}
    inline_injective(sch, within=inlined)
    return inlined_forward(sch, sch.cache_write(block, 0, "local"))


def inlined_forward(sch: Schedule, writer: Any) -> Any:
    """Inline a block into its only reader, as long as that reads it element by element; gives the last."""
    while True:
        consumers = sch.get_consumers(writer)
        if len(consumers) != 1 or not _elementwise(sch, writer, consumers[0]):
            return writer
        sch.compute_inline(writer)
        writer = consumers[0]


def _elementwise(sch: Schedule, producer: Any, consumer: Any) -> bool:
    """Whether `consumer` writes at a point what it makes of `producer` at that point, the shapes being equal."""
    made, uses = block_of(sch, producer), block_of(sch, consumer)
    if any(v.kind != "S" for v in uses.iter_vars) or len(uses.writes) != 1:
        return False
    source, result = made.writes[0].buffer, uses.writes[0].buffer
    if len(source.shape) != len(result.shape) or not all(map(structural_equal, source.shape, result.shape)):
        return False
    if len(uses.iter_vars) != len(result.shape):
        return False
    reads = [r for r in uses.reads if r.buffer is source]
    regions = [*reads, uses.writes[0]]
    return bool(reads) and all(_is_point(region.region, uses.iter_vars) for region in regions)


def _is_point(region: Sequence[Range], point: Sequence[IterVar]) -> bool:
    # Of an iterator that is always 0 a region may say 0 in its place.
    return all(
        is_const(part.extent, 1)
        and (part.start is axis.var or (is_const(part.start, 0) and is_const(axis.dom.extent, 1)))
        for part, axis in zip(region, point, strict=True)
    )


def shape_written(block: Block) -> list[int | None]:
    """The shape of what a block writes; None where a dimension is symbolic."""
    return extents(block.writes[0].buffer.shape)


def output_shape(sch: Schedule, block: Any) -> list[int | None]:
    """The same for a block of a schedule."""
    return shape_written(block_of(sch, block))


def block_of(sch: Schedule, handle: Any) -> Block:
    """The block that a handle stands for."""
    found = sch.get(handle)
    assert isinstance(found, Block)
    return found


def accumulators(target: Any) -> int:
    """How many vectors of accumulators a micro-kernel may keep in registers."""
    return int(cpu_of(target).vector_registers) - _SPARE_REGISTERS


def largest_divisor(extent: int | None, limit: int) -> int:
    """The largest divisor of `extent` that is at most `limit`; 1 where the extent is symbolic."""
    return divisors(extent, limit)[0]


def divisors(extent: int | None, limit: int) -> list[int]:
    """The divisors of `extent` that are at most `limit`, the largest first; only 1 where the extent is symbolic."""
    return [d for d in range(min(extent or 1, max(limit, 1)), 0, -1) if (extent or 1) % d == 0]


def chain_cycles(results: int, kept: int, cpu: Any) -> float:
    """Cycles a multiply-add of a step that updates `results` vectors, of which registers hold `kept`.

    Too few of them wait for one another; those that registers do not hold are loaded and stored in each step.
    """
    spilled = max(0, results - kept) * 2 / LOADS
    return (max(results / cpu.fma_ports, float(cpu.fma_latency)) + spilled) / results
