"""Dense layers on weights packed by output channels: [M, K] x [N/x, K, x] -> [M, N/x, x]."""

from __future__ import annotations

from typing import Any

from ...tir import Schedule
from ..registry import rule
from .blocks import computes
from .conv2d import schedule_other_blocks
from .register_tile import accumulators, largest_divisor, output_shape, tile_in_registers
from .tiling import cpu_of


@rule("cpu", computes("nn.contrib_dense_packed"))
def dense_packed(sch: Schedule, target: Any) -> None:
    """A tile of rows by blocks; a single row (batch 1) is bound by reading the weights, and takes more blocks."""
    dense = sch.get_block("dense")
    rows, blocks, _ = output_shape(sch, dense)
    kept = accumulators(target)
    row_tile = largest_divisor(rows, kept // 4)
    block_tile = largest_divisor(blocks, min(cpu_of(target).chains, kept) if row_tile == 1 else 4)
    used = tile_in_registers(sch, dense, {0: row_tile, 1: block_tile}, parallel_axes=2)
    schedule_other_blocks(sch, target, used)
