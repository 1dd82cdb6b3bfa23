"""Compute the regions that a block touches: for each buffer, one box around everything that the block's body touches.

The regions have the form that TVM uses. An index that does not depend on a loop inside the block is kept as written. An
index that depends only on data becomes the full dimension. A block with an init does not list its accumulator among its
reads.
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
    """Return the (reads, writes) of a block, computed from its init, its body and the blocks inside; the result is
    cached with the block.

    Buffers are listed in the order in which the block declares them, followed by the others in order of first access.
    The order matters because schedule steps refer to buffers by position. A declared region is used in two cases only:
    for foreign calls, and if the block has an annotation that the region is larger than its text shows
    ("explicit_read_region").
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
    """Return the box of a touch.

    If an index depends on data, but the block declares that same index, the index itself is kept. This is legal because
    the block does not write the memory that the index reads, so the index has the same value wherever the block
    computes it.
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
    """Return the regions that one iteration of a block reads, one box per buffer. The accumulator of a block with an
    init is left out.
    """
    return regions_touched(block)[0]


def regions_written(block: Block) -> Regions:
    """Return the regions that one iteration of a block writes, one box per buffer."""
    return regions_touched(block)[1]


def numbered_reads(block: Block) -> Regions:
    """Return the regions to which schedule steps refer as `("read", k)`: first the regions in `T.reads`, and then the
    undeclared ones.

    A declared region keeps its number even if the block does not read its buffer.
    """
    return _numbered(regions_read(block), block.reads)


def numbered_writes(block: Block) -> Regions:
    """Return the regions to which schedule steps refer as `("write", k)`, like `numbered_reads`."""
    return _numbered(regions_written(block), block.writes)


def _numbered(touched: Regions, declared: Regions) -> Regions:
    by_buffer = {region.buffer: region for region in touched}
    first = [by_buffer.pop(region.buffer, region) for region in declared]
    return (*first, *by_buffer.values())


def buffers_read(block: Block) -> tuple[Buffer, ...]:
    """Return the buffers of `regions_read`, in the same order."""
    return tuple(region.buffer for region in regions_read(block))


def buffers_written(block: Block) -> tuple[Buffer, ...]:
    """Return the buffers of `regions_written`, in the same order."""
    return tuple(region.buffer for region in regions_written(block))


def buffers_touched(block: Block) -> set[Buffer]:
    """Return the buffers that a block reads or writes."""
    return {*buffers_read(block), *buffers_written(block)}


def changed_buffers(func: PrimFunc) -> set[Buffer]:
    """Return the buffers that are written by the blocks of a function."""
    return {b for stmt in statements(func.body) if isinstance(stmt, Block) for b in buffers_written(stmt)}


def with_declared_regions(block: Block) -> Block:
    """Return the block with its declared regions replaced by the regions that its body touches."""
    reads, writes = regions_touched(block)
    return replace(block, reads=reads, writes=writes)


def with_merged_reads(block: Block) -> Block:
    """Return the block with one declared read for each buffer, after two of its buffers became one."""
    return replace(block, reads=union_regions(block.reads, Analyzer.inside(*block.iter_vars)))


def without_init(block: Block) -> Block:
    """Return the block without its init. It then continues from the old values of its accumulator, so the accumulator
    comes first among its declared reads.
    """
    block = replace(block, init=None)
    written = buffers_written(block)
    return replace(block, reads=tuple(sorted(regions_read(block), key=lambda r: r.buffer not in written)))


def union_regions(touched: Iterable[BufferRegion], analyzer: Analyzer | None = None) -> Regions:
    """Merge regions of the same buffer: return one region per buffer that contains all of its regions, in order of
    first appearance.
    """
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
    """Return a range that covers all `ranges` and starts where one of them starts. Return the full dimension `whole` if
    the extent would not be constant.
    """
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
