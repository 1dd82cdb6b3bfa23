"""Writes into a copy, at places that are data."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ....expr import Expr
from ....topi.shapes import product
from ...operand import Operand
from ..context import NodeContext
from ..registry import converter
from .indexing import indexed_axes, points_of

_REDUCTIONS = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}


@converter("scatter.src")
def scatter(n: NodeContext) -> Any:
    return _scattered(n, n["src"], "none")


@converter("scatter.value")
def scatter_value(n: NodeContext) -> Any:
    value = n.of_dtype(n.attr("value"), n.dtype)
    return _scattered(n, n.op("broadcast_to", value, shape=n["index"].shape), "none")


@converter("scatter_add.default")
def scatter_add(n: NodeContext) -> Any:
    return _scattered(n, n["src"], "add")


@converter("scatter_reduce.two")
def scatter_reduce(n: NodeContext) -> Any:
    reduce = n.attr("reduce")
    if reduce not in _REDUCTIONS or not n.attr("include_self"):
        n.refuse(f"reduce={reduce!r} with include_self={n.attr('include_self')} is not supported")
    return _scattered(n, n["src"], _REDUCTIONS[reduce])


def _scattered(n: NodeContext, updates: Operand, reduction: str) -> Any:
    """The updates may be larger than the index: only their first elements are written."""
    x, index = n["self"], n["index"]
    axis = n.attr("dim") % max(x.ndim, 1)
    for a, (own, size) in enumerate(zip(updates.shape, index.shape, strict=True)):
        if isinstance(own, int) and isinstance(size, int) and own > size:
            updates = n.part(updates, a, 0, size)
    return n.op("scatter_elements", x, index, updates, axis=axis, reduction=reduction)


@converter("index_put.default")
def index_put(n: NodeContext) -> Any:
    """self with values at self[i, :, j, ...]; `accumulate` adds them."""
    x, values = n["self"], n.cast(n["values"], n.dtype)
    axes, indices = indexed_axes(n)
    points, shape = points_of(n, indices)
    rest = [a for a in range(x.ndim) if a not in axes]
    order = (*axes, *rest)
    straight = order == tuple(range(x.ndim))
    if not straight and len(shape) and values.ndim > len(rest) and axes[0] != 0:
        n.refuse(f"values {values} behind the axes {axes} of {x} are not supported")
    moved = x if straight else n.op("transpose", x, axes=order)
    wide = n.op("broadcast_to", values, shape=(*shape, *(x.shape[a] for a in rest)))
    written = n.op("scatter_nd", moved, points, wide, reduction="add" if n.attr("accumulate") else "none")
    back = tuple(order.index(a) for a in range(x.ndim))
    return written if straight else n.op("transpose", written, axes=back)


@converter("select_scatter.default")
def select_scatter(n: NodeContext) -> Any:
    x = n["self"]
    axis, index = n.attr("dim") % x.ndim, n.attr("index")
    extent = x.shape[axis]
    if isinstance(extent, Expr) or not isinstance(index, int):
        n.refuse(f"the place {index} of the dimension {extent} is symbolic")
    index %= extent
    return _replaced(n, axis, index, index + 1, 1, n.op("expand_dims", n["src"], axis=axis))


@converter("slice_scatter.default")
def slice_scatter(n: NodeContext) -> Any:
    x = n["self"]
    axis = n.attr("dim") % x.ndim
    begin, end, step = n.attr("start"), n.attr("end"), n.attr("step")
    extent = x.shape[axis]
    begin, end = 0 if begin is None else begin, sys.maxsize if end is None else end
    if isinstance(extent, Expr) or isinstance(begin, Expr) or isinstance(end, Expr):
        if isinstance(begin, int) and begin == 0 and step == 1 and not isinstance(end, Expr) and end == sys.maxsize:
            return n["src"]
        n.refuse(f"the slice {begin}:{end} of the dimension {extent} is symbolic")
    first, stop, _ = slice(begin, end, step).indices(extent)
    return _replaced(n, axis, first, stop, step, n["src"])


def _replaced(n: NodeContext, axis: int, begin: int, end: int, step: int, updates: Operand) -> Any:
    """x with other elements from `begin` to `end` along an axis."""
    x, updates = n["self"], n.cast(updates, n.dtype)
    extent = int(x.shape[axis])  # type: ignore[arg-type]
    if step != 1:
        order = np.full(extent, -1, np.int64)
        places = np.arange(begin, end, step)
        order[places] = extent + np.arange(len(places))
        order[order < 0] = np.flatnonzero(order < 0)
        return n.op("take", n.op("concatenate", x, updates, axis=axis), order, axis=axis)
    parts = [n.part(x, axis, 0, begin)] if begin else []
    parts.append(updates)
    parts += [n.part(x, axis, end, extent)] if end < extent else []
    return parts[0] if len(parts) == 1 else n.op("concatenate", *parts, axis=axis)


@converter("copy.default")
def copy(n: NodeContext) -> Any:
    """`src` in the place of `self`, in its dtype and shape."""
    n.ignore("self", "non_blocking")
    src = n.cast(n["src"], n.dtype)
    return src if src.shape == n.shape else n.op("broadcast_to", src, shape=n.shape)


@converter("masked_scatter.default")
def masked_scatter(n: NodeContext) -> Any:
    """The elements of `source`, one after the other, where the mask holds."""
    x, source = n["self"], n["source"]
    mask = n["mask"]
    mask = mask if mask.shape == x.shape else n.op("broadcast_to", mask, shape=x.shape)
    count = product(x.shape)
    held = n.cast(n.reshape(mask, (count,)), "int64")
    places = n.op("subtract", n.op("cumsum", held, axis=0), 1)
    written = n.op("take", n.reshape(source, (product(source.shape),)), n.op("maximum", places, 0), axis=0)
    return n.op("where", mask, n.reshape(written, x.shape), x)


_BAGS = ("sum", "mean", "max")


@converter("_embedding_bag.default", "_embedding_bag_forward_only.default")
def embedding_bag(n: NodeContext) -> Any:
    """Rows of the table at the indices, combined bag by bag; the bag b begins at offsets[b]. Empty bags are 0.

    Each row is scattered to its bag, of which there are as many as offsets that are not beyond it.
    """
    if any(n.wants(position) for position in (1, 2, 3)):
        n.refuse("what its derivative needs is not supported as a result")
    table, indices, offsets, mode = n["weight"], n["indices"], n["offsets"], _BAGS[n.attr("mode")]
    if n.attr("include_last_offset"):
        offsets = n.part(offsets, 0, 0, offsets.shape[0] - 1)
    rows = n.op("take", table, n.cast(indices, "int64"), axis=0)
    place = n.op("expand_dims", n.op("arange", start=0, stop=indices.shape[0], step=1, dtype="int64"), axis=1)
    begun = n.op("less_equal", n.op("expand_dims", n.cast(offsets, "int64"), axis=0), place)
    bag = n.op("subtract", n.op("sum", n.cast(begun, "int64"), axis=(1,), keepdims=True), 1)
    weights, absent = n.optional("per_sample_weights"), n.attr("padding_idx")
    if weights is not None:
        rows = n.op("multiply", rows, n.op("expand_dims", weights, axis=1))
    lowest = -np.inf if mode == "max" else 0.0
    counted = n.op("full", shape=(indices.shape[0], 1), fill_value=1.0, dtype=str(table.dtype))
    if absent >= 0:
        counts = n.op("expand_dims", n.op("not_equal", indices, n.of_dtype(absent, indices.dtype)), axis=1)
        rows, counted = n.op("where", counts, rows, n.of_dtype(lowest, rows.dtype)), n.cast(counts, table.dtype)
    shape = (offsets.shape[0], table.shape[1])
    start = n.op("full", shape=shape, fill_value=lowest, dtype=str(table.dtype))
    result = n.op("scatter_nd", start, bag, rows, reduction="max" if mode == "max" else "add")
    sizes = n.op("full", shape=(offsets.shape[0], 1), fill_value=0.0, dtype=str(table.dtype))
    sizes = n.op("scatter_nd", sizes, bag, counted, reduction="add")
    if mode == "mean":
        result = n.op("divide", result, n.op("maximum", sizes, 1.0))
    elif mode == "max":
        result = n.op("where", n.op("greater", sizes, 0.0), result, n.of_dtype(0.0, result.dtype))
    return [result, None, None, None]
