"""Schedule products with weights of a few bits, in blocks that share a scale. For one token, each weight is read once.

    for panels of columns in parallel:
        for blocks: acc[rows, vectors] += (sums of bytes) * scales      # vectors along the columns

With one row, the time is that of reading the weights from memory. With several rows, the 4-bit values in a vector of
words are unpacked once for all rows. This follows the decode kernels of llama.cpp.
"""

from __future__ import annotations

from collections.abc import Iterator

from ....expr import REDUCE, Call, find
from ....strategy.blocks import block_of, blocks_of, computes, extents, volume
from ....strategy.candidate import Candidate, Cost
from ....strategy.epilogues import epilogue
from ....strategy.registry import rule
from ....strategy.roles import LONG
from ....target import Target
from ....tir import Schedule
from ....tir.nodes import BufferLoad, PrimFunc
from .conv2d import schedule_other_blocks
from .model import stall_rate
from .panels import PanelPlan, schedule_panels
from .tiling import RegisterTile, cpu_of

_OP = "qnn.contrib_dense_of_blocks"
_TILES = ((1, 4), (1, 2), (2, 4), (4, 2), (4, 4), (2, 2), (8, 2), (1, 1), (4, 1))  # rows, vectors
_CYCLES = 3.0  # a vector of a word's products: two masks, a shift, two products; half of it for each further row


@rule("cpu", computes(_OP))
def block_weights(func: PrimFunc, target: Target) -> Iterator[Candidate]:
    """Yield schedules that keep a tile in registers: `rows` of the data by `vectors` of columns."""
    block = next(b for b in blocks_of(func) if b.annotations.get("op") == _OP)
    cpu = cpu_of(target)
    *rows, columns = extents(axis.dom.extent for axis in block.iter_vars if axis.kind != REDUCE)
    product = next(n for n in find(block.body, Call) if n.op == "dot4_u8i8")
    weight = next(find(product.args[0], BufferLoad)).buffer
    lanes = extents(weight.shape)[-1] or 1
    m = LONG if rows and rows[-1] is None else rows[-1] if rows else 1
    words = volume(weight.shape) / lanes

    def price(rows: int, vectors: int) -> Cost:
        assert m is not None
        passes = -(-m // rows)
        spilled = max(0, rows * vectors - cpu.vector_registers // 2) * 0.5
        chain = 4.0 / (rows * vectors)  # the products of a block wait for each other
        compute = words * passes * (_CYCLES + chain + spilled + (rows - 1) * _CYCLES / 2)
        return Cost(compute, words * lanes * 4 / stall_rate(cpu))

    def apply(sch: Schedule, rows: int, vectors: int) -> None:
        handle = sch.get_block(block.name)
        main = epilogue(sch, handle)
        loops = list(sch.get_loops(main))
        row = len(loops) - 2 if len(loops) > 1 else None
        tile = RegisterTile(rows, vectors, lanes)
        init = schedule_panels(sch, handle, loops, row, len(loops) - 1, PanelPlan(tile, m or rows), streams=rows == 1)
        schedule_other_blocks(sch, target, {block_of(sch, part).name for part in (init, handle, main)})

    for tile_rows, vectors in _TILES:
        if tile_rows <= (m or 1) and vectors * lanes <= max(lanes, columns or LONG):
            yield Candidate(knobs={"rows": tile_rows, "vectors": vectors}, price=price, apply=apply)
