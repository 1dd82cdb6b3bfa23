"""How functions are recognised that normalise rows: softmax, layer norm and their relatives."""

from __future__ import annotations

from ..expr import REDUCE, const
from ..tir.nodes import Block, BufferStore, PrimFunc
from ..tir.transform.affine import Affine, linear
from .blocks import blocks_of, contiguous_along_last, is_reduction, reduces_along_last, widest

_LONGEST = 1 << 17  # bytes of a row: several of them fit into an L2 cache


def normalizes_rows(func: PrimFunc) -> bool:
    """Whether the result's rows, along its last axis, depend on sums over the same rows, and on nothing between rows.

    So there are a result and sums of a row by whatever leads; each other block is a row's, element for element.
    """
    *before, result = blocks_of(func)
    sizes = [linear(axis.dom.extent) for axis in result.iter_vars]
    if not any(map(is_reduction, before)) or is_reduction(result) or len(sizes) < 2:
        return False
    if not isinstance(result.body, BufferStore) or not contiguous_along_last(result):
        return False
    length = sizes[-1]
    if length.is_const and not 1 < length.const <= _LONGEST // widest(result):
        return False
    return all(_of_a_row(block, sizes) for block in before)


def _of_a_row(block: Block, sizes: list[Affine]) -> bool:
    """Whether a block computes an element a row, from all of the row, or a row element for element."""
    spatial = [linear(axis.dom.extent) for axis in block.iter_vars if axis.kind != REDUCE]
    summed = [linear(axis.dom.extent) for axis in block.iter_vars if axis.kind == REDUCE]
    an_element = spatial in (sizes[:-1], [*sizes[:-1], linear(const(1))])
    if summed:
        return an_element and summed == sizes[-1:] and reduces_along_last(block)
    return (an_element or spatial == sizes) and isinstance(block.body, BufferStore)
