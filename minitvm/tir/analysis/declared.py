"""The regions that a block declares: one box a buffer around all that its body touches, as the effects show it.

The form is TVM's: an index that no loop inside the block moves is kept as it was written, what only data tells is the
whole dimension, and a block with an init does not list what it accumulates into among its reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...arith import Analyzer, regions
from ...expr import IntImm, Range, const, replace, structural_equal
from ...expr.node import kept_with_node
from ..nodes import Block, Buffer, BufferRegion
from .effects import effects
from .touches import Box

Regions = tuple[BufferRegion, ...]


@kept_with_node
def declared_regions(block: Block) -> tuple[Regions, Regions]:
    """(reads, writes) of a block by its init, its body and the blocks inside; buffers in order of first access.

    The regions that the block has already count only for foreign calls. Kept with the block.
    """
    analyzer = Analyzer.inside(*block.iter_vars)
    touched = effects(block)
    reads, writes = (
        union_regions([BufferRegion(t.buffer, t.box(analyzer)) for t in touches if not t.accumulated], analyzer)
        for touches in (touched.reads, touched.writes)
    )
    return reads, writes


def with_declared_regions(block: Block) -> Block:
    """The block with the regions that its body touches."""
    reads, writes = declared_regions(block)
    return replace(block, reads=reads, writes=writes)


def union_regions(touched: Iterable[BufferRegion], analyzer: Analyzer | None = None) -> Regions:
    """One region for each buffer, in order of first appearance: the hull of its regions."""
    analyzer = analyzer or Analyzer()
    boxes: dict[Buffer, list[Box]] = {}
    for region in touched:
        boxes.setdefault(region.buffer, []).append(region.region)
    merged = []
    for buffer, own in boxes.items():
        sides = zip(*own, buffer.full_region().region, strict=True)
        merged.append(BufferRegion(buffer, tuple(_hull(ranges, whole, analyzer) for *ranges, whole in sides)))
    return tuple(merged)


def _hull(ranges: Sequence[Range], whole: Range, analyzer: Analyzer) -> Range:
    """The hull of ranges, its start as one of them has it; the whole dimension where it would not be constant."""
    hull = ranges[0]
    for r in ranges[1:]:
        if structural_equal(r, hull):
            continue
        a, b = hull.extent, r.extent
        shift = analyzer.affine(r.start) - analyzer.affine(hull.start)
        if shift.is_const and isinstance(a, IntImm) and isinstance(b, IntImm):
            first, low = (r if shift.const < 0 else hull), min(0, shift.const)
            hull = Range(first.start, const(max(a.value, shift.const + b.value) - low, a.dtype))
            continue
        (around,) = regions.hull((hull,), (r,), analyzer)
        if isinstance(a, IntImm) and isinstance(b, IntImm) and not isinstance(around.extent, IntImm):
            return whole
        hull = around
    return hull
