"""How functions are recognised that normalise: softmax, layer norm, instance norm, group norm and their relatives."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, lcm

from ..expr import REDUCE, FloorDiv, IntImm, Var, const, find, walk
from ..expr.conditions import is_const
from ..tir.nodes import Block, BufferLoad, BufferStore, PrimFunc
from ..tir.transform.affine import Affine, coefficient, linear
from .blocks import blocks_of, contiguous_along_last, extents, is_reduction, reduces_along_last, widest

_LONGEST = 1 << 17  # bytes of a row: several of them fit into an L2 cache


def normalizes_rows(func: PrimFunc) -> bool:
    """Whether the result's rows, along its last axis, depend on sums over the same rows, and on nothing between rows.

    So there are a result and sums of a row by whatever leads; each other block is a row's, element for element.
    """
    blocks = list(blocks_of(func))
    if not blocks:  # a result without elements is computed by nothing
        return False
    *before, result = blocks
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


@dataclass(frozen=True, slots=True)
class Normalized:
    """Along which axes of a result there is nothing but sums: all behind the first `outside`, or all but the last.

    The last axis is one of `lanes` if it has sums of its own for each element. So many neighbours along the last axis
    outside are `together`: they share sums.
    """

    outside: int
    together: int = 1
    lanes: bool = False


def normalized(func: PrimFunc) -> Normalized | None:
    """How the result depends on sums over some of its axes; None for any other function.

    A *sum* is a reduction that reads elements of the result's shape, element (i, j, ..) in iteration (i, j, ..). All
    sums keep the same axes: the first ones, and perhaps the last. All extents but the first are known.
    """
    if normalizes_rows(func):
        *_, result = blocks_of(func)
        return Normalized(len(result.iter_vars) - 1)
    if not list(blocks_of(func)):
        return None
    *before, result = blocks_of(func)
    if is_reduction(result) or not all(isinstance(block.body, BufferStore) for block in (*before, result)):
        return None
    sizes = extents(axis.dom.extent for axis in result.iter_vars)
    kept = {axes for block in before if is_reduction(block) and (axes := _kept(block, sizes)) is not None}
    if len(kept) != 1 or None in sizes[1:]:
        return None
    (axes,) = kept
    lanes = bool(axes) and axes[-1] == len(sizes) - 1
    outside = len(axes) - lanes
    if axes[:outside] != tuple(range(outside)) or outside == 0:
        return None
    together = _together([*before, result], outside - 1, sizes)
    extent = sizes[outside - 1]
    if extent is None or extent % together:
        return Normalized(outside - 1, 1, lanes) if outside > 1 else None
    return Normalized(outside, together, lanes)


def _kept(block: Block, sizes: list[int | None]) -> tuple[int, ...] | None:
    """The axes that a sum over elements of that shape keeps, and has no others; None for any other reduction."""
    axes = {axis.var: axis for axis in block.iter_vars}
    own = [axis for axis in block.iter_vars if axis.kind != REDUCE and not is_const(axis.dom.extent, 1)]
    for load in (n for n in find(block.body, BufferLoad)):
        places = [axes.get(index) if isinstance(index, Var) else None for index in load.indices]
        if len(places) != len(sizes) or None in places or len(set(load.indices)) != len(sizes):
            continue
        if any(axis not in places for axis in own):
            continue  # a product of matrices, for example: each element of the result has a sum of its own
        summed = [axis for axis in places if axis is not None and axis.kind == REDUCE]
        if extents(load.buffer.shape) == sizes and len(summed) == len([a for a in axes.values() if a.kind == REDUCE]):
            return tuple(p for p, axis in enumerate(places) if axis is not None and axis.kind != REDUCE)
    return None


def _together(blocks: list[Block], position: int, sizes: list[int | None]) -> int:
    """The least number of neighbours along an axis such that no block's quotient of it is shared by others."""
    together = 1
    for block in blocks:
        if len(block.iter_vars) <= position or extents([block.iter_vars[position].dom.extent]) != [sizes[position]]:
            continue
        var = block.iter_vars[position].var
        for part in walk(block.body):
            if isinstance(part, FloorDiv) and isinstance(part.b, IntImm):
                step = coefficient(linear(part.a), var)
                together = lcm(together, part.b.value // gcd(step, part.b.value)) if step else together
    return together
