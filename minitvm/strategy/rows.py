"""Recognise functions that normalise: softmax, layer norm, instance norm, group norm and similar ones."""

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
    """Return whether each row of the result (along its last axis) depends only on that row and on sums over it.

    In that case the last block computes the result, and each earlier block computes either one element for each row
    from the whole row, or a row element by element.
    """
    blocks = list(blocks_of(func))
    if not blocks:  # no block computes a result without elements
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
    """Return whether a block computes one element per row from the whole row, or a row element by element."""
    spatial = [linear(axis.dom.extent) for axis in block.iter_vars if axis.kind != REDUCE]
    summed = [linear(axis.dom.extent) for axis in block.iter_vars if axis.kind == REDUCE]
    an_element = spatial in (sizes[:-1], [*sizes[:-1], linear(const(1))])
    if summed:
        return an_element and summed == sizes[-1:] and reduces_along_last(block)
    return (an_element or spatial == sizes) and isinstance(block.body, BufferStore)


@dataclass(frozen=True, slots=True)
class Normalized:
    """The axes of a result over which sums are taken: all axes after the first `outside`, possibly except the last.

    `lanes` means that there are separate sums for each element of the last axis. `together` is the number of neighbours
    along the last outside axis that share sums.
    """

    outside: int
    together: int = 1
    lanes: bool = False


def normalized(func: PrimFunc) -> Normalized | None:
    """Describe how the result depends on sums over some of its axes. Returns None if the function does not have this
    form.

    A *sum* is a reduction that reads a tensor of the result's shape, in iteration (i, j, ..) the element (i, j, ..).
    All sums must keep the same axes: the first ones, and perhaps the last. All extents except the first must be known.
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
    """Return the axes that remain in a sum over elements of a tensor of this shape, or None for any other reduction."""
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
    """Return the smallest size of groups along an axis such that no quotient in a block, for example i // 4, has the
    same value in two groups.
    """
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
