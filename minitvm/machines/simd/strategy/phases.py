"""Store operands that are read with a step phase by phase. For example, a strided convolution reads every second
column.

    x[.., s*column + k]   ->   phased[.., k % s, column + k // s]

Element s*q + p of a line becomes element q of phase p. Neighbouring columns then read contiguous elements, for every k.
Each element is copied once, while packing panels would copy it once for each k.
"""

from __future__ import annotations

from typing import Any

from ....strategy.blocks import block_of, extents, is_reduction, readers, volume
from ....strategy.roles import LONG, Roles
from ....tir import Schedule
from ....tir.analysis.block_regions import buffers_written, regions_written
from ....tir.nodes import Block

PHASED = 0.5  # cycles an element that is stored phase by phase takes


def phase_elements(way: Roles) -> int | None:
    """Return the size of the vector operand if it must be stored by phases, or None if its vectors have step 1."""
    return volume(way.vectors.buffer.shape, LONG) if way.step > 1 else None


def store_phases(sch: Schedule, block: Any, way: Roles) -> None:
    """Store the vector operand phase by phase: where it is computed if only `block` reads it, or else in a copy."""
    step = way.step
    maker = _maker(sch, block_of(sch, block), way)
    copy = sch.cache_read(block, way.read, "global") if maker is None else sch.get_block(maker.name)
    *_, last = extents(way.vectors.buffer.shape)
    # If the step does not divide a line, it ends in elements that are never read.
    padded = last is None or last % step != 0

    def phased(*at: Any) -> tuple[Any, ...]:
        return (*at[:-1], at[-1] % step, at[-1] // step)

    sch.transform_layout(block, ("read", way.read), phased, pad_value=0 if padded else None)
    if not padded:
        sch.transform_block_layout(copy, phased)


def _maker(sch: Schedule, block: Block, way: Roles) -> Block | None:
    """Return the block that computes the operand element by element for `block` alone, or None."""
    buffer = way.vectors.buffer
    for producer in (block_of(sch, one) for one in sch.get_producers(sch.get_block(block.name))):
        if buffers_written(producer)[0] is buffer and not is_reduction(producer):
            alone = [reader.name for reader in readers(sch.func, producer)] == [block.name]
            axes = [axis.var for axis in producer.iter_vars]
            point = [r.start for r in regions_written(producer)[0].region]
            whole = len(axes) == len(point) and all(a is b for a, b in zip(axes, point, strict=True))
            return producer if alone and whole and len(buffers_written(producer)) == 1 else None
    return None
