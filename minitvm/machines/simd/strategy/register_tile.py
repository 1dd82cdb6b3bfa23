"""The register-blocked micro-kernel (`strategy.register_tile`) that convolutions and dense layers share.

The broadcast operand comes from the one input, the vector from the other; with `rows x columns` vectors of accumulators
each step of the reduction does rows*columns fused multiply-adds for rows + columns loads (Goto and van de Geijn,
"Anatomy of high-performance matrix multiplication").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ....strategy.blocks import block_of
from ....strategy.epilogues import epilogue
from ....strategy.register_tile import tile_reduction
from ....strategy.roles import Axis, join_axes
from ....tir import Schedule
from .model import KERNEL_EFFICIENCY
from .tasks import in_parallel
from .tiling import cpu_of

# Vectors that a micro-kernel needs beside its accumulators: some of the one operand, a broadcast of the other.
_SPARE_REGISTERS = 4

# Iterations of a micro-kernel, of 4 to 14 cycles, in which a line comes from memory. Measured on Zen 5: from 24 to 64
# it makes no difference; without, 7 x 7 images with 512 channels take a third longer. Of eight streams 32 iterations
# are 16 KB, a third or half of an L1 cache.
PREFETCH_AHEAD = 32


def tile_in_registers(
    sch: Schedule,
    block: Any,
    tiles: Mapping[int, int],
    parallel_axes: int,
    streams: bool = True,
    before: str = "",
    axes: Sequence[Axis] = (),
) -> set[str]:
    """Schedule the reduction `block` and the element-wise blocks behind it as a micro-kernel; gives its blocks' names.

    `tiles` gives the extent of the tile along some axes of the output; the last axis must be one vector long. The first
    `parallel_axes` outer loops are fused and run in parallel. Blocks that read the result element by element, up to the
    function's output or the block `before`, become the epilogue. Weights that stream through memory are asked for ahead
    of time; with `streams` false they are few, and it is not worth it. `axes` of the result are joined first, if given.
    """
    main = epilogue(sch, block, before)
    if axes:
        join_axes(sch, block, main, axes)
    ahead = PREFETCH_AHEAD if streams else 0
    outer, init = tile_reduction(sch, block, main, sch.get_loops(main), tiles, ahead)
    in_parallel(sch, outer[:parallel_axes])
    return {block_of(sch, part).name for part in (init, block, main)}


def accumulators(target: Any) -> int:
    """How many vectors of accumulators a micro-kernel may keep in registers."""
    return int(cpu_of(target).vector_registers) - _SPARE_REGISTERS


def chain_cycles(results: int, kept: int, cpu: Any) -> float:
    """Cycles a multiply-add of a step that updates `results` vectors, of which registers hold `kept`.

    Too few of them wait for one another; those that registers do not hold are loaded and stored in each step.
    """
    spilled = max(0, results - kept) * 2 / cpu.loads
    return (max(results / cpu.fma_ports, float(cpu.fma_latency)) + spilled) / results


def window_cycles(steps: int, results: int, kept: int, cpu: Any) -> float:
    """Cycles of so many terms of windows, vectors each with a load; a vector of weights serves `results` of them."""
    loads = (1 + 1 / results) / cpu.loads
    return steps * (chain_cycles(results, kept, cpu) + loads) / 2 / KERNEL_EFFICIENCY
