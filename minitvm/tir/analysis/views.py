"""Matched buffers: which region of storage each one is a view of, and whether its declaration fits this region."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...arith import Analyzer
from ...expr import Expr, IntImm, Range, Var, find
from ..nodes import Block, Buffer, BufferRegion, MatchBufferRegion, PrimFunc
from ..strides import row_major

Views = Mapping[Buffer, BufferRegion]


def views(func: PrimFunc) -> Iterator[tuple[MatchBufferRegion, BufferRegion]]:
    """Yield each matched buffer of a function, with the region that it views in an actual (not matched) buffer."""
    regions: dict[Buffer, BufferRegion] = {}
    for node in find(func.body, Block):
        for match in node.match_buffers:
            regions[match.buffer] = resolved(match.source, regions)
            yield match, regions[match.buffer]


def resolved(source: BufferRegion, views: Views) -> BufferRegion:
    """Convert a region of a view to a region of the underlying buffer. If `source` is not a region of one of `views`,
    it is returned unchanged.
    """
    if source.buffer not in views:
        return source
    outer = views[source.buffer]
    lead = len(outer.region) - len(source.region)
    ranges = tuple(Range(o.start + r.start, r.extent) for o, r in zip(outer.region[lead:], source.region, strict=True))
    return BufferRegion(outer.buffer, outer.region[:lead] + ranges)


def strides_of(buffer: Buffer) -> list[Expr]:
    """Return the stride of each dimension, in elements."""
    return list(buffer.strides) or row_major(buffer.shape)


def why_not_view(match: MatchBufferRegion, source: BufferRegion) -> str:
    """Return an error in the declaration of a matched buffer, or "" if none is found; `source` is the region that it
    resolves to.

    A view covers the last dimensions of its region, and the dimensions before them must be single points. The view's
    dimensions and strides must equal those of the region. A variable takes the first value that it is matched with.
    """
    view, region = match.buffer, match.source.region
    lead = len(region) - view.ndim
    found = ", ".join(str(r.extent) for r in region)
    if lead < 0 or any(isinstance(r.extent, IntImm) and r.extent.value != 1 for r in region[:lead]):
        return f"{view.name} has {view.ndim} dimensions and views a region of shape ({found})"
    pairs = [(f"dimension {axis}", dim, region[lead + axis].extent) for axis, dim in enumerate(view.shape)]
    strides = strides_of(source.buffer)[source.buffer.ndim - view.ndim :]
    if view.strides:
        pairs += [(f"stride {axis}", *both) for axis, both in enumerate(zip(view.strides, strides, strict=True))]
    values: dict[Var, Expr] = {}
    for what, declared, actual in pairs:
        expected = values.setdefault(declared, actual) if isinstance(declared, Var) else declared
        difference = Analyzer().simplify(expected.astype("int64") - actual.astype("int64"))
        if isinstance(difference, IntImm) and difference.value != 0:
            return f"{what} of {view.name} is {expected}, that of its region {actual}"
    return ""
