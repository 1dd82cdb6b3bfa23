"""Does an iteration of a block surely touch all of a region, and before it writes it? Read off the effects."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from ...arith import Analyzer
from ...expr import IntImm, structural_equal, walk
from ..nodes import Block, Buffer, BufferRegion, BufferStore
from .effects import effects, holds
from .touches import Box, Touch

_MOST_POINTS = 4096  # elements of a region that are looked at one by one


def reaches_all(block: Block, region: BufferRegion, write: bool) -> bool:
    """Whether an iteration of a block surely touches all of a region: declared regions are bounds."""
    touched = effects(block, frozenset([region.buffer]))
    return all_touched(touched.writes if write else touched.reads, region, _inside(block))


def reads_before_writing(block: Block, region: BufferRegion) -> bool:
    """Whether an iteration of a block surely reads all of a region, each element before it writes it."""
    return all_touched(first_reads(block, region.buffer), region, _inside(block))


def first_reads(block: Block, buffer: Buffer) -> list[Touch]:
    """The reads in an iteration of a block that find what stood in the buffer before that iteration."""
    touched = effects(block, frozenset([buffer]))
    latest: dict[int, int] = {}  # where a node stands in the program; one that stands twice is read last, written first
    earliest: dict[int, int] = {}
    for k, node in enumerate(walk(block)):
        after = k + sum(1 for _ in walk(node)) if isinstance(node, BufferStore) else k  # behind what it stores
        latest[id(node)] = after
        earliest.setdefault(id(node), after)
    return [
        read
        for read in touched.reads
        if all(
            latest[id(read.node)] < earliest[id(write.node)] and _comes_first(read, write) for write in touched.writes
        )
    ]


def _comes_first(read: Touch, write: Touch) -> bool:
    """Whether a read that stands before a write in the text finds no element of it, though loops around both go on.

    Each of their iterations reads the elements that it writes, so the first that touches an element reads it first.
    What a foreign call does has no place in the text but that of the call.
    """
    if isinstance(read.node, BufferRegion) is not isinstance(write.node, BufferRegion):
        return False
    shared = {l.var for l in read.loops} & {l.var for l in write.loops}
    return not shared or (None not in read.ranges and structural_equal(read.ranges, write.ranges))


def _inside(block: Block) -> Analyzer:
    return Analyzer({it.var: it.dom for it in block.iter_vars})


def all_touched(touches: Sequence[Touch], region: BufferRegion, analyzer: Analyzer) -> bool:
    """Whether every element of a region that lies in its buffer is surely touched: by one touch, or by several that
    each touch constant places beside the region's start."""
    boxes = [box for t in touches if (box := t.certain(analyzer)) is not None]
    if any(holds(box, region.region, region.buffer, analyzer) for box in boxes):
        return True
    sizes = [r.extent.value for r in region.region if isinstance(r.extent, IntImm)]
    if len(sizes) < len(region.region) or len(boxes) < 2 or math.prod(sizes) > _MOST_POINTS:
        return False
    places = {place for box in boxes for place in _places(box, region.region, sizes, analyzer)}
    return len(places) == math.prod(sizes)


def _places(box: Box, region: Box, sizes: Sequence[int], analyzer: Analyzer) -> Iterator[tuple[int, ...]]:
    """The elements of a box inside of a region, counted from the region's start; none where only a run tells."""
    sides = []
    for r, own, size in zip(box, region, sizes, strict=True):
        first = analyzer.affine(r.start) - analyzer.affine(own.start)
        if not first.is_const or not isinstance(r.extent, IntImm):
            return
        sides.append(range(max(first.const, 0), min(first.const + r.extent.value, size)))
    yield from itertools.product(*sides)
