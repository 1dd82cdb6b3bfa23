"""Convert operators that read a part of a tensor."""

from __future__ import annotations

from typing import Any

from ....errors import ModelError
from ....graph.nodes import Dim
from ..context import NodeContext
from ..layouts import Laid
from ..registry import converter


@converter("SLICE", bytes="stored")
def slice_(n: NodeContext) -> Any:
    """Return `size` entries of each axis from `begin` on; -1 means all that follow."""
    x = n.laid(0)
    begin, size = n.dims(n[1], "the begin"), n.dims(n[2], "the size")
    if len(begin) != x.ndim or len(size) != x.ndim:
        raise ModelError(f"{n.where}: wanted {x.ndim} numbers, found begin {begin} and size {size}")
    end = [
        x.shape[a] if isinstance(s, int) and s == -1 else b + s
        for a, (b, s) in enumerate(zip(begin, size, strict=True))
    ]
    return _cut(n, x, begin, end, (1,) * x.ndim)


def _cut(n: NodeContext, x: Laid, begin: Any, end: Any, strides: Any) -> Laid:
    axes = tuple(x.order.index(axis) for axis in range(x.ndim))
    cut = n.op("strided_slice", x.operand, begin=tuple(begin), end=tuple(end), strides=tuple(strides), axes=axes)
    return Laid.of(cut, x.order)


@converter("STRIDED_SLICE", bytes="stored")
def strided_slice(n: NodeContext) -> Any:
    """Return a slice as in Python: x[begin:end:stride, ...]. Bit k of a mask is about position k of the slice.

    begin_mask, end_mask   the whole axis from its begin, or up to its end
    ellipsis_mask          as many whole axes as are missing
    new_axis_mask          a new axis of extent 1
    shrink_axis_mask       one entry of an axis, which disappears
    """
    x = n.laid(0)
    begin, end = n.dims(n[1], "the begin"), n.dims(n[2], "the end")
    strides = n.ints(n[3], "the strides")
    masks = {name: int(n.option(f"{name}Mask", 0)) for name in ("Begin", "End", "Ellipsis", "NewAxis", "ShrinkAxis")}
    offset = bool(n.option("Offset", False))
    axis, cuts = 0, []
    new: list[int] = []
    gone: list[int] = []
    fresh = sum(1 for k in range(len(begin)) if masks["NewAxis"] >> k & 1 and not masks["Ellipsis"] >> k & 1)
    hidden = x.ndim - (len(begin) - fresh - (1 if masks["Ellipsis"] else 0))
    for k in range(len(begin)):
        if masks["Ellipsis"] >> k & 1:
            axis += hidden
        elif masks["NewAxis"] >> k & 1:
            new.append(axis + len(new))
        elif axis >= x.ndim:
            raise ModelError(f"{n.where}: {len(begin)} slices of {x.ndim} axes")
        else:
            first, last, step = begin[k], end[k], strides[k]
            last = first + last if offset else last
            if masks["ShrinkAxis"] >> k & 1:
                gone.append(axis)
                first, last, step = _entry(n, first, x.shape[axis])
            else:
                first = (0 if step > 0 else -1) if masks["Begin"] >> k & 1 else first
                last = _end(x.shape[axis], step) if masks["End"] >> k & 1 else last
            cuts.append((axis, first, last, step))
            axis += 1
    return _reshaped(n, _sliced(n, x, cuts), gone, new)


def _entry(n: NodeContext, place: Dim, extent: Dim) -> tuple[Dim, Dim, int]:
    if isinstance(place, int) and isinstance(extent, int) and not -extent <= place < extent:
        n.refuse(f"the entry {place} of {extent} entries")
    return place, (2**31 - 1 if isinstance(place, int) and place == -1 else place + 1), 1


def _end(extent: Dim, step: int) -> Dim:
    return extent if step > 0 else -(2**31)


def _sliced(n: NodeContext, x: Laid, cuts: list[tuple[int, Dim, Dim, int]]) -> Laid:
    if not cuts:
        return x
    axes, begin, end, strides = zip(*cuts, strict=True)
    places = tuple(x.order.index(axis) for axis in axes)
    return Laid.of(n.op("strided_slice", x.operand, begin=begin, end=end, strides=strides, axes=places), x.order)


def _reshaped(n: NodeContext, x: Laid, gone: list[int], new: list[int]) -> Laid:
    """Return a tensor without the axes `gone`, and then with new ones. Positions in `new` count the axes before
    `gone` are removed.
    """
    if not gone and not new:
        return x
    shape: list[Dim | None] = [None if axis in gone else extent for axis, extent in enumerate(x.shape)]
    for place in new:
        shape.insert(place, 1)
    return Laid(n.reshape(n.last(x), [extent for extent in shape if extent is not None]))
