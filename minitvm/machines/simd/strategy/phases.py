"""Operands that are read with a step (a strided convolution reads every second column), stored phase by phase.

    x[.., s*column + k]   ->   phased[.., k % s, column + k // s]

Element s*q + p of a line becomes element q of phase p. What neighbours of a column read is contiguous then, for every
k, and each element is copied once: packing panels copies it once for each k.
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
    """How many elements are stored phase by phase; None where the operand's vectors have no step."""
    return volume(way.vectors.buffer.shape, LONG) if way.step > 1 else None


def store_phases(sch: Schedule, block: Any, way: Roles) -> None:
    """Store the vectors' operand phase by phase: where it is computed, if `block` alone reads it, else in a copy."""
    step = way.step
    maker = _maker(sch, block_of(sch, block), way)
    copy = sch.cache_read(block, way.read, "global") if maker is None else sch.get_block(maker.name)
    *_, last = extents(way.vectors.buffer.shape)
    # A line that the step does not divide ends in elements that nobody reads.
    padded = last is None or last % step != 0

    def phased(*at: Any) -> tuple[Any, ...]:
        return (*at[:-1], at[-1] % step, at[-1] // step)

    sch.transform_layout(block, ("read", way.read), phased, pad_value=0 if padded else None)
    if not padded:
        sch.transform_block_layout(copy, phased)


def _maker(sch: Schedule, block: Block, way: Roles) -> Block | None:
    """The block that computes the operand element by element, for `block` alone."""
    buffer = way.vectors.buffer
    for producer in (block_of(sch, one) for one in sch.get_producers(sch.get_block(block.name))):
        if buffers_written(producer)[0] is buffer and not is_reduction(producer):
            alone = [reader.name for reader in readers(sch.func, producer)] == [block.name]
            axes = [axis.var for axis in producer.iter_vars]
            point = [r.start for r in regions_written(producer)[0].region]
            whole = len(axes) == len(point) and all(a is b for a, b in zip(axes, point, strict=True))
            return producer if alone and whole and len(buffers_written(producer)) == 1 else None
    return None
