"""Convert reads at data-dependent places."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....graph.nodes import Dim
from ....topi.shapes import broadcast_shapes, product
from ...common.blocks import blocks_to_picture
from ...common.operand import Operand
from ..context import TorchNodeContext, by_lines
from ..registry import converter
from .counted import places_of
from .shaping import reshaped


@converter("embedding.default")
def embedding(n: TorchNodeContext) -> Any:
    n.ignore("padding_idx")  # its row gets no gradient
    return n.op("take", n["weight"], n["indices"], axis=0)


@converter("take.default")
def take(n: TorchNodeContext) -> Any:
    """Return the elements of the flattened tensor at these indices."""
    x = n["self"]
    return n.op("take", reshaped(n, x, (product(x.shape),)), n["index"], axis=0)


@converter("index_select.default")
@by_lines
def index_select(n: TorchNodeContext) -> Any:
    return n.op("take", n["self"], n["index"], axis=n.axis())


@converter("gather.default")
@by_lines
def gather(n: TorchNodeContext) -> Any:
    """Return out[i, j, k] = self[index[i, j, k], j, k] for dim 0, and so on."""
    x, index, axis = n["self"], n["index"], n.axis()
    n.ignore("sparse_grad")
    if product(index.shape) == 0:
        return n.op("full", shape=index.shape, fill_value=0, dtype=str(x.dtype))
    return n.op("gather", x, index, axis=axis)


@converter("index.Tensor")
def index(n: TorchNodeContext) -> Any:
    """Return self[i, :, j, ...]: the common shape of the indices replaces the indexed axes.

    It is at their position if they are neighbours, and comes first otherwise, as in NumPy.
    """
    x = n["self"]
    axes, indices = indexed_axes(n)
    if len(axes) == 1 and indices[0].dtype.is_int:
        return n.op("take", x, indices[0], axis=axes[0])
    points, shape = points_of(n, indices)
    order = (*axes, *(a for a in range(x.ndim) if a not in axes))
    moved = x if order == tuple(range(x.ndim)) else n.op("transpose", x, axes=order)
    picked = n.op("gather_nd", moved, points)
    if not are_neighbours(axes) or axes[0] == 0:
        return picked
    lead = len(shape)
    back = (*range(lead, lead + axes[0]), *range(lead), *range(lead + axes[0], picked.ndim))
    return n.op("transpose", picked, axes=back)


def are_neighbours(axes: list[int]) -> bool:
    """Return whether axes follow each other, so that the shape of their indices stays at their position."""
    return axes == list(range(axes[0], axes[0] + len(axes)))


def indexed_axes(n: TorchNodeContext) -> tuple[list[int], list[Operand]]:
    """Return the axes for which `indices` has an entry, and the indices.

    A mask is replaced with one vector of indices per axis of the mask, whose length depends on data.
    """
    axes: list[int] = []
    indices: list[Operand] = []
    axis = 0
    for given in n.attr("indices"):
        if given is None:
            axis += 1
            continue
        masked = given.dtype.is_bool
        if masked and given.ndim == 0:
            n.refuse("a mask without dimensions")
        places = places_of(n, given, n.node.meta["val"].shape) if masked else None
        for k in range(given.ndim if masked else 1):
            indices.append(n.cast(given, "int64") if places is None else n.entry(places, k, 1))
            axes.append(axis)
            axis += 1
    return axes, indices


def points_of(n: TorchNodeContext, indices: list[Operand]) -> tuple[Operand, tuple[Dim, ...]]:
    """Return the indices, broadcast to their common shape, as points along a last axis; and that shape."""
    shape = broadcast_shapes(*(i.shape for i in indices))
    wide = [i if i.shape == shape else n.op("broadcast_to", i, shape=shape) for i in indices]
    if len(wide) == 1:
        return n.op("expand_dims", wide[0], axis=len(shape)), shape
    return n.op("stack", *wide, axis=len(shape)), shape


@converter("diagonal.default", "diagonal_copy.default")
def diagonal(n: TorchNodeContext) -> Any:
    """Return the elements of two axes whose indices differ by `offset`, along a new last axis."""
    x, offset = n["self"], n.attr("offset")
    first, second = n.attr("dim1") % x.ndim, n.attr("dim2") % x.ndim
    rows, columns = x.shape[first], x.shape[second]
    rest = [a for a in range(x.ndim) if a not in (first, second)]
    moved = n.op("transpose", x, axes=(*rest, first, second))
    flat = reshaped(n, moved, (*(x.shape[a] for a in rest), rows * columns))
    if isinstance(rows, int) and isinstance(columns, int):
        return n.op("take", flat, diagonal_places(rows, columns, offset), axis=len(rest))
    number = n.numbers(n.shape[-1], 0, 1)
    step, start = n.number(columns + 1), n.number(max(0, -offset) * columns + max(0, offset))
    return n.op("take", flat, n.op("add", n.op("multiply", number, step), start), axis=len(rest))


def diagonal_places(rows: int, columns: int, offset: int) -> np.ndarray:
    """Return the positions of a diagonal's elements in a flattened matrix."""
    row = max(0, -offset)
    count = max(0, min(rows - row, columns - row - offset))
    steps = np.arange(count, dtype=np.int64)
    return (row + steps) * columns + row + offset + steps


@converter("unfold.default")
def unfold(n: TorchNodeContext) -> Any:
    """Return all windows of an axis, with the positions within a window along a new last axis."""
    x, size, step = n["self"], n.attr("size"), n.attr("step")
    axis = n.attr("dimension") % x.ndim
    if not isinstance(size, int) or not isinstance(step, int):
        n.refuse(f"windows of {size} elements by {step} are symbolic")
    starts = n.op("multiply", n.numbers(n.shape[axis], 0, 2), n.of_dtype(step, "int64"))
    windows = n.op("take", x, n.op("add", starts, n.numbers(size, 1, 2)), axis=axis)
    order = (*range(axis + 1), *range(axis + 2, windows.ndim), axis + 1)
    return n.op("transpose", windows, axes=order)


@converter("as_strided.default", "as_strided_copy.default")
def as_strided(n: TorchNodeContext) -> Any:
    """Return the elements of a dense tensor at positions given by sizes and strides."""
    x = n["self"]
    places = strided_places(n, x)
    return n.op("take", reshaped(n, x, (product(x.shape),)), places, axis=0)


def strided_places(n: TorchNodeContext, x: Operand) -> np.ndarray:
    """Return the positions of a view's elements in the flattened tensor."""
    sizes, strides = n.attr("size"), n.attr("stride")
    offset = n.attr("storage_offset") or 0
    contiguous = n.importer.argument(n.node, "self").meta["val"].is_contiguous()
    if not contiguous or not x.is_static or not all(isinstance(v, int) for v in (*sizes, *strides, offset)):
        n.refuse(f"strides {strides} of {x} are not supported")
    places = np.full((1,) * len(sizes), offset, np.int64)
    for axis, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        steps = np.arange(size, dtype=np.int64) * stride
        places = places + steps.reshape([size if a == axis else 1 for a in range(len(sizes))])
    return places


@converter("col2im.default")
def col2im(n: TorchNodeContext) -> Any:
    """Assemble blocks into a picture, adding overlapping elements."""
    x = n["self"]
    before = tuple(n.attr("padding"))
    blocks = x if x.ndim == 3 else n.op("expand_dims", x, axis=0)
    picture = blocks_to_picture(
        n, blocks, n.attr("output_size"), n.attr("kernel_size"), n.attr("stride"), n.attr("dilation"), before * 2
    )
    return picture if x.ndim == 3 else n.op("squeeze", picture, axis=(0,))


@converter("bucketize.Tensor", "bucketize.Scalar", "searchsorted.Tensor", "searchsorted.Scalar")
def bucketize(n: TorchNodeContext) -> Any:
    """Return the number of boundaries below an element. `right` also counts boundaries that are equal to it.

    Boundaries with several axes have a row for each row of elements. All boundaries are below NaN.
    """
    bounds, x = n.promoted("boundaries" if "boundaries" in n.declared else "sorted_sequence", "self")
    right = n.attr("right") or n.attr("side") == "right" if "side" in n.declared else n.attr("right")
    n.ignore("out_int32", "sorter")
    if bounds.ndim > 1:
        bounds = n.op("expand_dims", bounds, axis=bounds.ndim - 1)
    above = n.op("greater" if right else "greater_equal", bounds, n.op("expand_dims", x, axis=x.ndim))
    return n.op("sum", n.cast(n.op("logical_not", above), str(n.dtype)), axis=(x.ndim,))
