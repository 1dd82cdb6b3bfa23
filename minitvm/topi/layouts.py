"""Layouts written in letters: the order of the axes of an image or of filters in memory.

`NCHW`, `NHWC`, ... name the axes of data (batch, channel, height, width), `OIHW`, `HWIO`, ... the axes of filters. A
number and a small letter denote a block of an axis: in `NCHW8c` the channels are split into blocks of 8, which are
innermost.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from .. import te
from ..errors import InputError
from ..expr import Expr
from ..te import Tensor
from .registry import Pattern, register
from .shapes import dims, plus, times

T = TypeVar("T")

_PARTS = re.compile(r"([A-Z])|([1-9]\d*)([a-z])")


@dataclass(frozen=True, slots=True)
class Layout:
    """The axes of a tensor in memory order, outermost first.

    Each axis is a letter and a block length (0 for the axis itself). `parse` reads a layout from text. Capital letters
    are axes; each may also appear once as a small letter further to the right, for its block.
    """

    axes: tuple[tuple[str, int], ...]

    @staticmethod
    def parse(text: str) -> Layout:
        """Read a layout from text. Raises `InputError` if the text is not a layout."""
        axes: list[tuple[str, int]] = []
        end = 0
        for match in _PARTS.finditer(text):
            if match.start() != end:
                break
            axes.append((match[1], 0) if match[1] else (match[3].upper(), int(match[2])))
            end = match.end()
        plain = [letter for letter, block in axes if not block]
        blocks = [letter for letter, block in axes if block]
        bad = end != len(text) or not axes
        if bad or len(set(plain)) < len(plain) or len(set(blocks)) < len(blocks) or set(blocks) - set(plain):
            raise InputError(
                f"{text!r} is no layout\n  wanted: each axis once, a block behind its axis, as in NCHW, NHWC or NCHW8c"
            )
        return Layout(tuple(axes))

    @property
    def plain(self) -> str:
        """The letters of all axes in order, leaving out the blocks: "NCHW" for NCHW8c."""
        return "".join(letter for letter, block in self.axes if not block)

    @property
    def is_plain(self) -> bool:
        """Return whether no axis is split into blocks."""
        return all(not block for _, block in self.axes)

    def block(self, letter: str) -> int:
        """Return the block length of an axis, or 1 if the axis is not split."""
        return next((block for name, block in self.axes if block and name == letter), 1)

    def __str__(self) -> str:
        return "".join(f"{block}{letter.lower()}" if block else letter for letter, block in self.axes)


@dataclass(frozen=True, slots=True)
class AxisOrder:
    """Converts tuples between the order of axes in memory and the order in which an operator is defined."""

    stored: str
    defined: str

    @staticmethod
    def of(layout: str, defined: str, what: str) -> AxisOrder:
        """Return the conversion between the memory order `layout` and the order `defined` of an operator's definition.

        Raises `InputError` unless `layout` has exactly the axes of `defined`. `what` names the layout in the error.
        """
        if sorted(layout) != sorted(defined):
            example = defined[0] + defined[2:] + defined[1]
            raise InputError(
                f"{what}: {layout!r} is no layout of the axes {', '.join(defined)}"
                f"\n  wanted: each of them once, as in {defined} or {example}"
            )
        return AxisOrder(layout, defined)

    @property
    def is_default(self) -> bool:
        """Return whether the two orders are equal."""
        return self.stored == self.defined

    def as_defined(self, values: Sequence[T]) -> tuple[T, ...]:
        """Reorder values, one for each axis, from memory order to the order of the definition."""
        return tuple(values[self.stored.index(letter)] for letter in self.defined)

    def as_stored(self, values: Sequence[T]) -> tuple[T, ...]:
        """Reorder values, one for each axis, from the order of the definition to memory order."""
        return tuple(values[self.defined.index(letter)] for letter in self.stored)


def transformed_shape(shape: Sequence[Any], source: Layout, target: Layout) -> tuple[Any, ...]:
    """Return the shape in the layout `target` of data that has `shape` in the layout `source`.

    Raises `InputError` if the axes of the layouts differ or the blocks do not fit.
    """
    if sorted(source.plain) != sorted(target.plain):
        raise InputError(f"layout_transform: {source} and {target} have different axes")
    if len(shape) != len(source.axes):
        raise InputError(f"layout_transform: {source} has {len(source.axes)} axes, found a shape of {len(shape)}")
    whole: dict[str, Any] = {}
    for (letter, block), extent in zip(source.axes, shape, strict=True):
        if not block:
            whole[letter] = times(extent, source.block(letter))
        elif extent != block:
            raise InputError(f"layout_transform: the block {block}{letter.lower()} of {source} has the extent {extent}")
    extents = []
    for letter, block in target.axes:
        extent, split = whole[letter], target.block(letter)
        if not block and split > 1 and (not isinstance(extent, int) or extent % split):
            raise InputError(f"layout_transform: the axis {letter} of {extent} does not divide into blocks of {split}")
        extents.append(block or (extent // split if split > 1 else extent))
    return tuple(extents)


def transformed(x: np.ndarray, src_layout: str, dst_layout: str) -> np.ndarray:
    """Convert an array to another layout by way of the unblocked layout."""
    source, target = Layout.parse(src_layout), Layout.parse(dst_layout)
    shape = transformed_shape(x.shape, source, target)
    # Each block of the source moves to the place right after its axis, and is joined with it.
    places = {axis: place for place, axis in enumerate(source.axes)}
    order, extents = [], []
    for letter in target.plain:
        parts = [places[letter, 0]] + [places[a] for a in source.axes if a[0] == letter and a[1]]
        order += parts
        extents.append(int(np.prod([x.shape[p] for p in parts], dtype=np.int64)))
    plain = x.transpose(order).reshape(extents)
    # Then each axis is split into the target's axis and block.
    split = [n for letter, n in zip(target.plain, extents, strict=True) for n in _pieces(target, letter, n)]
    in_plain_order = [axis for letter in target.plain for axis in target.axes if axis[0] == letter]
    in_plain_order.sort(key=lambda axis: (target.plain.index(axis[0]), axis[1] > 0))
    places = {axis: place for place, axis in enumerate(in_plain_order)}
    return np.ascontiguousarray(plain.reshape(split).transpose([places[a] for a in target.axes])).reshape(shape)


def _pieces(layout: Layout, letter: str, extent: int) -> tuple[int, ...]:
    blocks = [block for name, block in layout.axes if name == letter and block]
    return (extent // blocks[0], blocks[0]) if blocks else (extent,)


@register("layout_transform", pattern=Pattern.INJECTIVE, fold=transformed)
def layout_transform(data: Tensor, *, src_layout: str, dst_layout: str) -> Tensor:
    """Reorder the axes as in `dst_layout`, splitting off its blocks and joining those of `src_layout`."""
    source, target = Layout.parse(src_layout), Layout.parse(dst_layout)
    shape = transformed_shape(dims(data), source, target)

    def element(*index: Expr) -> Expr:
        at = dict(zip(target.axes, index, strict=True))
        point = []
        for letter, block in source.axes:
            outer, inner = at[letter, 0], at.get((letter, target.block(letter)))
            # The place along the whole axis, then its block, or its place in the block.
            place = outer if inner is None else plus(times(outer, target.block(letter)), inner)
            split = source.block(letter)
            point.append(place if split == 1 else place % split if block else place // split)
        return data[tuple(point)]

    return te.compute(shape, element, name="layout_transform", attrs={"op": "layout_transform"})
