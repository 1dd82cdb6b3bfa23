"""The register-blocked micro-kernel of convolutions: a tile of results, with vectors along the last axis.

    for <outer tiles>:
        acc[tile] = 0                           # registers
        for <reduction>:
            for <tile>:                         # unrolled; the last axis is one vector
                acc[tile] += a * b
        out[tile] = epilogue(acc[tile])         # bias, activation, residual: while still in registers

One input provides the broadcast operands, the other the vectors. With `rows x columns` vectors of accumulators, each
step of the reduction does rows*columns fused multiply-adds and rows + columns loads (Goto and van de Geijn, "Anatomy of
high-performance matrix multiplication").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ....expr import REDUCE
from ....strategy.blocks import block_of
from ....strategy.epilogues import epilogue
from ....strategy.roles import Axis, join_axes, operands, panel_along
from ....strategy.tile_nest import TileNest
from ....target import CPU, Target
from ....tir import Schedule
from ....tir.annotations import PREFETCH
from ....tir.nodes import BufferLoad
from .model import KERNEL_EFFICIENCY
from .tasks import in_parallel
from .tiling import cpu_of

# Registers that a micro-kernel needs besides its accumulators: some vectors of one operand, a broadcast of the other.
_SPARE_REGISTERS = 4

# Iterations of a micro-kernel, each of 4 to 14 cycles, in which a line arrives from memory. Measured on Zen 5: values
# from 24 to 64 make no difference; without prefetching, 7 x 7 images with 512 channels take a third longer. With eight
# streams, 32 iterations are 16 KB, a third or half of an L1 cache.
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
    """Schedule the reduction `block` and the element-wise blocks after it as a micro-kernel. Return the names of these
    blocks.

    `tiles` gives the extent of the tile along some axes of the output; the last axis must be one vector long. The first
    `parallel_axes` outer loops are fused and run in parallel. Blocks that read the result element by element, up to the
    function's output or the block `before`, become the epilogue. Weights that stream from memory are prefetched; pass
    `streams=False` if there are few weights. If `axes` of the result are given, they are joined first.
    """
    main = epilogue(sch, block, before)
    if axes:
        join_axes(sch, block, main, axes)
    ahead = PREFETCH_AHEAD if streams else 0
    nest = tile_reduction(sch, block, main, sch.get_loops(main), tiles, ahead)
    in_parallel(sch, nest.tiles[:parallel_axes])
    return nest.names()


def tile_reduction(
    sch: Schedule, block: Any, main: Any, loops: Sequence[Any], tiles: Mapping[int, int], prefetch: int = 0
) -> TileNest:
    """Tile `loops`, the loops of `main` over the result's axes, and compute the reduction `block` in each tile.

    The last loop must be one vector long. Loops around these stay where they are. Operands are prefetched `prefetch`
    iterations ahead (0: never).
    """
    nest = TileNest(sch, block, main, loops)
    *axes, last = nest.axes
    for axis in axes:
        nest.cut(axis, registers=tiles.get(axis, 1))
    nest.one_vector(last)
    nest.order()
    own, steps = nest.axes_and_steps(nest.sum_in_tile())
    steps = _by_panels(sch, block, steps)
    sch.reorder(*steps, *own)
    nest.start(steps[0])
    if prefetch:
        sch.annotate(steps[-1], PREFETCH, prefetch)
    nest.in_registers(own)
    return nest


def _by_panels(sch: Schedule, block: Any, loops: Sequence[Any]) -> list[Any]:
    """Return the loops of a reduction after splitting a loop over panels: the panels go outside the other loops, their
    lanes inside.

    For example, channels that do not fill their blocks of 16 have such a loop: `x[c // 16, .., c % 16]`.
    """
    summed = [axis.var for axis in block_of(sch, block).iter_vars if axis.kind == REDUCE]
    accesses: Sequence[BufferLoad] = operands(block_of(sch, block)) or ()
    for var, loop in zip(summed, loops, strict=True):
        width = max((panel_along(access, var) for access in accesses), default=0)
        if width:
            panel, lane = sch.split(loop, [None, width])
            return [panel, *(other for other in loops if other is not loop), lane]
    return list(loops)


def accumulators(target: Target, dtype: str = "float32") -> int:
    """Return how many vectors of accumulators a micro-kernel may keep in registers."""
    return int(cpu_of(target, dtype).vector_registers) - _SPARE_REGISTERS


def chain_cycles(results: int, kept: int, cpu: CPU) -> float:
    """Return the cycles per multiply-add of a step that updates `results` vectors, of which `kept` are in registers.

    With too few results, multiply-adds wait for each other. Results that are not in registers are loaded and stored in
    each step.
    """
    spilled = max(0, results - kept) * 2 / cpu.loads
    return (max(results / cpu.fma_ports, float(cpu.fma_latency)) + spilled) / results


def window_cycles(steps: int, results: int, kept: int, cpu: CPU) -> float:
    """Return the cycles of `steps` terms of windows, each with a load. One vector of weights serves `results` of
    them.
    """
    loads = (1 + 1 / results) / cpu.loads
    return steps * (chain_cycles(results, kept, cpu) + loads) / 2 / KERNEL_EFFICIENCY
