"""Dense layers on weights packed by output channels: [M, K] x [N/x, K, x] -> [M, N/x, x]."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import Any

from ...tir import Schedule
from ...tir.nodes import PrimFunc
from ..candidate import Candidate, Cost
from ..registry import rule
from .blocks import block_named, computes, reduced, volume
from .conv2d import schedule_other_blocks
from .model import KERNEL_EFFICIENCY, L3_BYTES, LOADS, MEMORY_STALL
from .register_tile import accumulators, chain_cycles, divisors, shape_written, tile_in_registers
from .tiling import cpu_of

_FEW_BLOCKS = 4  # where a tile has several rows


@rule("cpu", computes("nn.contrib_dense_packed"))
def dense_packed(func: PrimFunc, target: Any) -> Iterator[Candidate]:
    """A tile of rows by blocks; a single row (batch 1) is bound by reading the weights, and takes more blocks."""
    dense, cpu = block_named(func, "dense"), cpu_of(target)
    shape, kept = shape_written(dense), accumulators(target)
    all_rows, all_blocks, lanes = (extent or 1 for extent in shape)
    depth = volume(reduced(dense))
    weights = dense.writes[0].buffer.dtype.bytes * depth * all_blocks * lanes

    def price(rows: int, blocks: int) -> Cost:
        row_tiles = ceil(all_rows / rows)
        steps = row_tiles * rows * ceil(all_blocks / blocks) * blocks * depth
        step = chain_cycles(rows * blocks, kept, cpu) + (rows + blocks) / (rows * blocks * LOADS)
        # Weights come from memory, and for the next rows from the L3 cache.
        held = weights * (1 / MEMORY_STALL + (row_tiles - 1) / L3_BYTES)
        return Cost(steps * step / 2 / KERNEL_EFFICIENCY, held)

    def apply(sch: Schedule, rows: int, blocks: int) -> None:
        used = tile_in_registers(sch, sch.get_block("dense"), {0: rows, 1: blocks}, parallel_axes=2)
        schedule_other_blocks(sch, target, used)

    for rows in divisors(shape[0], kept // 4):
        for blocks in divisors(shape[1], min(cpu.chains, kept) if rows == 1 else _FEW_BLOCKS):
            yield Candidate(knobs={"rows": rows, "blocks": blocks}, price=price, apply=apply)
