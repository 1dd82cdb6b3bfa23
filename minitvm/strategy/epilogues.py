"""What follows a reduction element by element, and is computed where its result still is in registers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..expr import IterVar, Range, structural_equal
from ..expr.conditions import is_const
from ..tir import Schedule
from .blocks import behind, block_of, inline_injective


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
