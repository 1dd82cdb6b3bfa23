"""Dense layers on weights packed by output channels: [M, K] x [N/x, K, x] -> [M, N/x, x]."""

from __future__ import annotations

from ...target import Target
from ...tir.nodes import PrimFunc
from ...tir.schedule import Schedule
from .register_tile import largest_divisor, register_tile


def schedule_dense(func: PrimFunc, target: Target) -> Schedule:
    """A tile of rows by blocks; a single row (batch 1) is bound by reading the weights, and takes more blocks."""
    sch = Schedule(func)
    dense = sch.get_block("dense")
    rows, blocks, _ = (int(d) for d in sch.get(dense).writes[0].buffer.shape)
    row_tile = largest_divisor(rows, target.vector_registers // 4)
    # As many independent chains of multiply-adds as the latency of one needs: 4 cycles, 2 a cycle.
    block_tile = largest_divisor(blocks, max(1, 8 // row_tile) if row_tile > 1 else 8)
    register_tile(sch, dense, {0: row_tile, 1: block_tile}, parallel_axes=2)
    return sch
