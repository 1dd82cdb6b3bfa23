"""Changes of layout by the layouts' letters; the pass `compat.tvm.convert_layout` puts them into a graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import topi
from ...topi.layouts import Layout, transformed_shape
from ..registry import REQUIRED, Pattern, register


def transformed(x: np.ndarray, src_layout: str, dst_layout: str) -> np.ndarray:
    """The array in the other layout, by way of one without blocks."""
    source, target = Layout.parse(src_layout), Layout.parse(dst_layout)
    shape = transformed_shape(x.shape, source, target)
    # Each block of the source goes right behind its axis, and becomes one with it.
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
def layout_transform(data: Any, *, src_layout: str = REQUIRED, dst_layout: str = REQUIRED) -> Any:  # type: ignore[assignment]
    """The axes in the order of `dst_layout`, its blocks split off and those of `src_layout` joined."""
    return topi.layout_transform(data, src_layout=src_layout, dst_layout=dst_layout)
