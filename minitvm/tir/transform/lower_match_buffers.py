"""Replace accesses through matched buffers by accesses to the buffers that they are views of."""

from __future__ import annotations

from typing import Any

from ...expr import Expr, Var, find, map_children, replace, substitute
from ..analysis.views import Views, resolved, strides_of
from ..nodes import Block, BufferLoad, BufferRegion, BufferStore, MatchBufferRegion, PrimFunc


def lower_match_buffers(func: PrimFunc) -> PrimFunc:
    """Replace views by their sources: `V = match_buffer(A[i:i+4, j:j+4])`, `V[a, b]` -> `A[i + a, j + b]`.

    before:
        for i in range(8):
            with T.block("B"):
                W = T.match_buffer(A[vi, 0:4], (4,))
                B[vi] = W[1] + W[2]
    after:
        for i in range(8):
            with T.block("B"):
                vi = T.axis.remap("S", [i])
                B[vi] = A[vi, T.int32(0) + 1] + A[vi, T.int32(0) + 2]

    Strides and offsets that the view declares as variables get the values of the source. Constant strides and offsets
    equal those of the source, because `dense_parameters` refuses views that do not fit.
    """
    viewed = any(block.match_buffers for block in find(func.body, Block))
    return func.with_body(_lower(func.body, {})) if viewed else func


def _lower(node: Any, views: Views) -> Any:
    if isinstance(node, Block):
        inner = dict(views)
        values: dict[Var, Expr] = {}
        for match in node.match_buffers:
            source = resolved(match.source, inner)
            inner[match.buffer] = source
            values.update(_layout_variables(match, source))
        changed = map_children(
            node, lambda child: child if isinstance(child, MatchBufferRegion) else _lower(child, inner)
        )
        return substitute(_without_matches(changed), values) if values else _without_matches(changed)
    new = map_children(node, lambda child: _lower(child, views))
    # Legal: a view is another name for a region. Its element p is the source's element start + p, in every run of its
    # block.
    if isinstance(new, BufferLoad) and new.buffer in views:
        region = views[new.buffer]
        return BufferLoad(region.buffer, _indices(region, new.indices), new.predicate)
    if isinstance(new, BufferStore) and new.buffer in views:
        region = views[new.buffer]
        return BufferStore(region.buffer, new.value, _indices(region, new.indices), new.predicate)
    if isinstance(new, BufferRegion) and new.buffer in views:
        return resolved(new, views)
    return new


def _without_matches(block: Block) -> Block:
    return replace(block, match_buffers=()) if block.match_buffers else block


def _indices(region: BufferRegion, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
    # A view with fewer dimensions covers the last ones; the dimensions before them are single points.
    lead = len(region.region) - len(indices)
    front = tuple(r.start for r in region.region[:lead])
    return front + tuple(r.start + i for r, i in zip(region.region[lead:], indices, strict=True))


def _layout_variables(match: MatchBufferRegion, source: BufferRegion) -> dict[Var, Expr]:
    """Return the values of the variables in a view's strides, offset and shape."""
    view, base = match.buffer, source.buffer
    strides = strides_of(base)
    lead = base.ndim - view.ndim
    values: dict[Var, Expr] = {}
    for declared, actual in zip(view.strides, strides[lead:], strict=False):
        if isinstance(declared, Var):
            values[declared] = actual
    if isinstance(view.elem_offset, Var):
        offset: Expr = base.elem_offset
        for r, stride in zip(source.region, strides, strict=False):
            offset = offset + r.start * stride
        values[view.elem_offset] = offset
    for declared, actual_range in zip(view.shape, source.region[lead:], strict=True):
        if isinstance(declared, Var):
            values[declared] = actual_range.extent
    return values
