"""The regions that a block touches: one box per buffer around everything that its body touches, found from its effects.

The form is TVM's. An index that does not depend on a loop inside the block is kept as it was written. An index that
depends only on data becomes the whole dimension. A block with an init does not list the buffer into which it
accumulates among its reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...arith import Analyzer, regions
from ...expr import Expr, IntImm, Range, const, replace, structural_equal
from ...expr.node import kept_with_node
from ...expr.visitor import accessed
from ..conditions import is_const
from ..nodes import Block, Buffer, BufferLoad, BufferRegion, BufferStore, PrimFunc
from .effects import effects
from .touches import Box, Touch
from .tree import statements

Regions = tuple[BufferRegion, ...]


@kept_with_node
def regions_touched(block: Block) -> tuple[Regions, Regions]:
    """(reads, writes) of a block by its init, its body and the blocks inside; the result is stored with the block.

    Buffers are in the order in which the block declares them, then in the order of first access: steps refer to them by
    their numbers. A region that the block declares counts only for foreign calls, and if the block notes that the
    region is larger than its text shows ("explicit_read_region").
    """
    touched = effects(block)
    return _regions(block, touched.reads, block.reads, "read"), _regions(block, touched.writes, block.writes, "write")


def _regions(block: Block, touches: Iterable[Touch], declared: Regions, side: str) -> Regions:
    analyzer = Analyzer.inside(*block.iter_vars)
    place = {region.buffer: k for k, region in enumerate(declared)}
    listed = [t for t in touches if not t.accumulated or t.buffer in place]
    boxes = [BufferRegion(t.buffer, _box(block, t, declared, analyzer)) for t in listed]
    explicit, buffers = block.annotations.get(f"explicit_{side}_region", ()), {region.buffer for region in boxes}
    boxes += [region for k, region in enumerate(declared) if k in explicit and region.buffer in buffers]
    shown = sorted(union_regions(boxes, analyzer), key=lambda r: place.get(r.buffer, len(place)))
    # A region that the block declares as it is stays that node: messages point at it.
    return tuple(next((d for d in declared if structural_equal(d, r)), r) for r in shown)


def _box(block: Block, touch: Touch, declared: Regions, analyzer: Analyzer) -> Box:
    """The box of a touch.

    If an index depends only on data, it is that index itself if the block declares the same index. Legal: the block
    does not write the memory that the index reads, so the index is the same wherever the block computes it.
    """
    box = touch.box(analyzer)
    said = next((r.region for r in declared if r.buffer is touch.buffer), None)
    if said is None or None not in touch.ranges or not isinstance(touch.node, BufferLoad | BufferStore):
        return box
    if touch.node.buffer is not touch.buffer:
        return box  # through a view
    written = {t.buffer for t in effects(block).writes}

    def is_said(word: Range, index: Expr) -> bool:
        return is_const(word.extent, 1) and structural_equal(word.start, index) and written.isdisjoint(accessed(index))

    return tuple(
        word if known is None and is_said(word, index) else side
        for side, known, word, index in zip(box, touch.ranges, said, touch.node.indices, strict=True)
    )


def regions_read(block: Block) -> Regions:
    """The regions that a block's iteration reads, one box per buffer; without the accumulator of a block with an
    init.
    """
    return regions_touched(block)[0]


def regions_written(block: Block) -> Regions:
    """The regions that an iteration of a block writes: one box per buffer."""
    return regions_touched(block)[1]


def buffers_read(block: Block) -> tuple[Buffer, ...]:
    """The buffers of `regions_read`, in that order."""
    return tuple(region.buffer for region in regions_read(block))


def buffers_written(block: Block) -> tuple[Buffer, ...]:
    """The buffers of `regions_written`, in that order."""
    return tuple(region.buffer for region in regions_written(block))


def buffers_touched(block: Block) -> set[Buffer]:
    """The buffers that a block reads or writes."""
    return {*buffers_read(block), *buffers_written(block)}


def changed_buffers(func: PrimFunc) -> set[Buffer]:
    """The buffers that the blocks of a function write."""
    return {b for stmt in statements(func.body) if isinstance(stmt, Block) for b in buffers_written(stmt)}


def with_declared_regions(block: Block) -> Block:
    """The block with the regions that its body touches as its declared regions."""
    reads, writes = regions_touched(block)
    return replace(block, reads=reads, writes=writes)


def without_init(block: Block) -> Block:
    """The block without its init: it goes on from what it accumulates into, and so declares first to read that."""
    block = replace(block, init=None)
    written = buffers_written(block)
    return replace(block, reads=tuple(sorted(regions_read(block), key=lambda r: r.buffer not in written)))


def union_regions(touched: Iterable[BufferRegion], analyzer: Analyzer | None = None) -> Regions:
    """One region for each buffer, the hull of its regions; buffers in order of first appearance."""
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
    """The hull of ranges, whose start is the start of one of them; the whole dimension if it would not be constant."""
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
