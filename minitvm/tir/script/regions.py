"""The regions that a block reads and writes, worked out from its body: one box a buffer.

Indices are split into an affine part over the loops inside the block, and a base that does not depend on them:
`A[vi * 4 + k]` with k in [0, 4) accesses `A[vi * 4:vi * 4 + 4]`. What cannot be split is taken as the whole dimension,
so a box may be too large, never too small.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ...arith import Analyzer
from ...arith.affine import Affine, variables
from ...expr import (
    Expr,
    IntImm,
    Range,
    Var,
    const,
    structural_equal,
    substitute,
    walk,
)
from ..analysis.accesses import accesses, addresses
from ..conditions import uses
from ..nodes import Block, Buffer, BufferLoad, BufferRegion


@dataclass(frozen=True, slots=True)
class Interval:
    """`[base, base + extent)`; the expression is kept where the index is a single point as it was written."""

    base: Affine
    extent: int
    written: Expr | None = None

    def offset(self, origin: Affine) -> int | None:
        """`base - origin` where that is a constant."""
        rest = self.base - origin
        return rest.const if rest.is_const else None


Box = list[Interval | None]  # None: the whole dimension


def accessed_regions(block: Block) -> tuple[tuple[BufferRegion, ...], tuple[BufferRegion, ...]]:
    """(reads, writes) of a block by its body and init, buffers in order of first access.

    As in TVM, a block with an `init` does not list what it updates among its reads.
    """
    boxes: tuple[dict[Buffer, Box], dict[Buffer, Box]] = ({}, {})
    local = set(block.alloc_buffers)
    for match in block.match_buffers:
        boxes[0].setdefault(match.source.buffer, [None] * match.source.buffer.ndim)
        boxes[1].setdefault(match.source.buffer, [None] * match.source.buffer.ndim)
        local.add(match.buffer)
    for access in (a for part in (block.init, block.body) if part is not None for a in accesses(part)):
        if access.buffer in local:
            continue
        box = box_of(access.ranges, access.loops, access.lets)
        known = boxes[access.write].get(access.buffer)
        boxes[access.write][access.buffer] = box if known is None else [_union(a, b) for a, b in zip(known, box)]
    for address in (a for part in (block.init, block.body) if part is not None for a in addresses(part)):
        if address.buffer not in local:  # as TVM takes it: all of the buffer
            for write in [kind for kind, happens in ((False, address.read), (True, address.write)) if happens]:
                boxes[write][address.buffer] = [None] * address.buffer.ndim
    reads = [_region(buffer, box) for buffer, box in boxes[0].items()]
    writes = [_region(buffer, box) for buffer, box in boxes[1].items()]
    if block.init is not None:
        reads = [r for r in reads if not any(structural_equal(r, w) for w in writes)]
    return tuple(reads), tuple(writes)


def box_of(ranges: Iterable[Range], loops: Mapping[Var, Range], lets: Mapping[Var, Expr]) -> Box:
    """What the ranges cover over all iterations of the loops; None for a dimension that cannot be worked out."""
    return [_interval(r, loops, lets) for r in ranges]


def _interval(r: Range, loops: Mapping[Var, Range], lets: Mapping[Var, Expr]) -> Interval | None:
    start = substitute(r.start, lets)
    if not isinstance(r.extent, IntImm) or start.dtype.lanes > 1:
        return None
    if not uses(start, loops):
        if any(isinstance(item, BufferLoad) for item in walk(start)):
            return None  # depends on data
        return Interval(_affine(start), r.extent.value, start)
    base, extent = _affine(start), r.extent.value
    # Inner loops first: the start of an inner loop may depend on an outer one.
    for variable, interval in reversed(list(loops.items())):
        factor = base.terms.get(variable, 0)
        if factor == 0:
            continue
        if not isinstance(interval.extent, IntImm):
            return None
        reach = factor * (interval.extent.value - 1)
        base = base.without(variable) + _affine(interval.start).scaled(factor) + min(0, reach)
        extent += abs(reach)
    if any(v in loops for v in variables(base)):
        return None
    return Interval(base, extent)


def _affine(e: Expr) -> Affine:
    return Analyzer().affine(e)


def _union(a: Interval | None, b: Interval | None) -> Interval | None:
    if a is None or b is None:
        return None
    shift = b.offset(a.base)
    if shift is None:
        return None
    if shift == 0 and a.extent == b.extent:
        return a
    first = a.base if shift >= 0 else b.base
    low, high = min(0, shift), max(a.extent, shift + b.extent)
    return Interval(first, high - low)


def _region(buffer: Buffer, box: Box) -> BufferRegion:
    ranges = []
    for interval, dimension in zip(box, buffer.shape):
        if interval is None:
            ranges.append(Range(const(0, dimension.dtype), dimension))
            continue
        base = Analyzer().to_expr(interval.base, dimension.dtype)
        start = base if interval.written is None else interval.written
        ranges.append(Range(start, const(interval.extent, start.dtype)))
    return BufferRegion(buffer, tuple(ranges))
