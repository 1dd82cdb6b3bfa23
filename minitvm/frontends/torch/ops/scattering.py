"""Convert writes into a copy at data-dependent places."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ....expr import DType, Expr
from ....graph.nodes import Dim
from ....topi.shapes import product, same, simple
from ...common.operand import Operand
from ..context import TorchNodeContext, by_lines
from ..registry import converter
from .indexing import are_neighbours, diagonal_places, indexed_axes, points_of, strided_places

_REDUCTIONS = {"sum": "add", "add": "add", "prod": "mul", "multiply": "mul", "amax": "max", "amin": "min"}


@converter("scatter.src")
@by_lines
def scatter(n: TorchNodeContext) -> Any:
    return _scattered(n, n["src"], "none")


@converter("scatter.value")
@by_lines
def scatter_value(n: TorchNodeContext) -> Any:
    value = n.of_dtype(n.attr("value"), n.dtype)
    return _scattered(n, n.op("broadcast_to", value, shape=n["index"].shape), "none")


@converter("scatter.reduce")
@by_lines
def scatter_onto(n: TorchNodeContext) -> Any:
    return _scattered(n, n["src"], _REDUCTIONS[n.attr("reduce")])


@converter("scatter.value_reduce")
@by_lines
def scatter_value_onto(n: TorchNodeContext) -> Any:
    value = n.op("broadcast_to", n.of_dtype(n.attr("value"), n.dtype), shape=n["index"].shape)
    return _scattered(n, value, _REDUCTIONS[n.attr("reduce")])


@converter("scatter_add.default")
@by_lines
def scatter_add(n: TorchNodeContext) -> Any:
    return _scattered(n, n["src"], "add")


@converter("scatter_reduce.two")
@by_lines
def scatter_reduce(n: TorchNodeContext) -> Any:
    return _reduced_onto(n)


def _reduced_onto(n: TorchNodeContext) -> Any:
    """Reduce updates onto a copy. Without `include_self`, elements that are written start from the neutral element."""
    x, reduce, includes = n["self"], n.attr("reduce"), n.attr("include_self")
    ones = n.op("full", shape=n["index"].shape, fill_value=1, dtype=str(x.dtype))
    start = x
    if not includes:
        is_written = _scattered(
            n, n.cast(ones, "bool"), "none", n.op("full", shape=x.shape, fill_value=0, dtype="bool")
        )
        start = n.op("where", is_written, _neutral(n, reduce, x.dtype), x)
    if reduce != "mean":
        return _scattered(n, n["src"], _REDUCTIONS[reduce], start)
    total = _scattered(n, n["src"], "add", start)
    count = _scattered(n, ones, "add", n.op("full", shape=x.shape, fill_value=int(includes), dtype=str(x.dtype)))
    count = n.op("maximum", count, n.of_dtype(1, x.dtype))
    return n.op("divide" if x.dtype.is_float else "floor_divide", total, count)


def _neutral(n: TorchNodeContext, reduce: str, dtype: DType) -> Operand:
    """Return the neutral element of a reduction."""
    if reduce in ("sum", "mean", "prod"):
        return n.of_dtype(int(reduce == "prod"), dtype)
    if dtype.is_float:
        return n.of_dtype(-np.inf if reduce == "amax" else np.inf, dtype)
    ends = np.iinfo(dtype.numpy)
    return n.of_dtype(int(ends.min if reduce == "amax" else ends.max), dtype)


def _scattered(n: TorchNodeContext, updates: Operand, reduction: str, onto: Operand | None = None) -> Any:
    """Return a scatter of updates. The updates may be larger than the index; then only their first elements are
    written.
    """
    x, index, axis = n["self"] if onto is None else onto, n["index"], n.axis()
    if product(index.shape) == 0:
        return x
    for a, (own, size) in enumerate(zip(updates.shape, index.shape, strict=True)):
        if isinstance(own, int) and isinstance(size, int) and own > size:
            updates = n.part(updates, a, 0, size)
    return n.op("scatter_elements", x, index, updates, axis=axis, reduction=reduction)


@converter("index_put.default")
def index_put(n: TorchNodeContext) -> Any:
    """Return self with `values` written to self[i, :, j, ...]; `accumulate` adds them."""
    x, values = n["self"], n.cast(n["values"], n.dtype)
    axes, indices = indexed_axes(n)
    points, shape = points_of(n, indices)
    rest = [a for a in range(x.ndim) if a not in axes]
    order = (*axes, *rest)
    straight = order == tuple(range(x.ndim))
    moved = x if straight else n.op("transpose", x, axes=order)
    lead = axes[0] if are_neighbours(axes) else 0  # the axes of x in front of those of the indices, as in a read
    outer, inner = ([x.shape[a] for a in part] for part in (rest[:lead], rest[lead:]))
    wide = n.op("broadcast_to", values, shape=(*outer, *shape, *inner))
    if lead:
        among = range(lead, lead + len(shape))
        wide = n.op("transpose", wide, axes=(*among, *range(lead), *range(lead + len(shape), wide.ndim)))
    written = n.op("scatter_nd", moved, points, wide, reduction="add" if n.attr("accumulate") else "none")
    back = tuple(order.index(a) for a in range(x.ndim))
    return written if straight else n.op("transpose", written, axes=back)


@converter("put.default")
def put(n: TorchNodeContext) -> Any:
    """Replace the elements of the flattened tensor at these indices."""
    x = n["self"]
    flat, index, source = (n.reshape(y, (product(y.shape),)) for y in (x, n["index"], n["source"]))
    reduction = "add" if n.attr("accumulate") else "none"
    return n.reshape(n.op("scatter_elements", flat, index, source, axis=0, reduction=reduction), x.shape)


@converter("index_reduce.default")
@by_lines
def index_reduce(n: TorchNodeContext) -> Any:
    """Reduce entries of `source` onto the entries of an axis at these indices."""
    source, axis = n["source"], n.axis()
    line = n.reshape(n["index"], tuple(d if a == axis else 1 for a, d in enumerate(source.shape)))
    n.values.update(index=n.op("broadcast_to", line, shape=source.shape), src=source)
    return _reduced_onto(n)


@converter("select_scatter.default")
def select_scatter(n: TorchNodeContext) -> Any:
    x = n["self"]
    axis, index = n.attr("dim") % x.ndim, n.attr("index")
    extent = x.shape[axis]
    if isinstance(extent, Expr) or not isinstance(index, int):
        n.refuse(f"the place {index} of the dimension {extent} is symbolic")
    index %= extent
    return _replaced(n, axis, index, index + 1, 1, n.op("expand_dims", n["src"], axis=axis))


@converter("slice_scatter.default")
def slice_scatter(n: TorchNodeContext) -> Any:
    x = n["self"]
    axis = n.attr("dim") % x.ndim
    begin, end, step = n.attr("start"), n.attr("end"), n.attr("step")
    extent = x.shape[axis]
    begin, end = 0 if begin is None else begin, sys.maxsize if end is None else end
    if isinstance(extent, Expr) or isinstance(begin, Expr) or isinstance(end, Expr):
        if step != 1:
            n.refuse(f"the slice {begin}:{end}:{step} of the dimension {extent} is symbolic")
        begin = extent + begin if isinstance(begin, int) and begin < 0 else begin
        return _replaced(n, axis, begin, simple(begin + n["src"].shape[axis]), 1, n["src"])
    first, stop, _ = slice(begin, end, step).indices(extent)
    return _replaced(n, axis, first, stop, step, n["src"])


def _replaced(n: TorchNodeContext, axis: int, begin: Dim, end: Dim, step: int, updates: Operand) -> Any:
    """Return x with the elements from `begin` to `end` along an axis replaced."""
    x, updates = n["self"], n.cast(updates, n.dtype)
    extent = x.shape[axis]
    if step != 1 and isinstance(begin, int) and isinstance(end, int):
        return _with_elements(n, x, axis, np.arange(begin, end, step), updates)
    parts = [] if same(begin, 0) else [n.part(x, axis, 0, begin)]
    parts.append(updates)
    parts += [] if same(end, extent) else [n.part(x, axis, end, extent)]
    return parts[0] if len(parts) == 1 else n.op("concatenate", *parts, axis=axis)


def _with_elements(n: TorchNodeContext, x: Operand, axis: int, places: np.ndarray, updates: Operand) -> Operand:
    """Return x with some entries of an axis replaced: each entry is gathered from x followed by the updates."""
    extent = n.size(x, axis)
    order = np.arange(extent)
    order[places.reshape(-1)] = extent + np.arange(places.size)
    entries: Operand = n.op("take", n.op("concatenate", x, updates, axis=axis), order, axis=axis)
    return entries


@converter("diagonal_scatter.default")
def diagonal_scatter(n: TorchNodeContext) -> Any:
    """Return `self` with `src` written to a diagonal."""
    x, src = n["self"], n.cast(n["src"], n.dtype)
    first, second = n.attr("dim1") % x.ndim, n.attr("dim2") % x.ndim
    order = [*(a for a in range(x.ndim) if a not in (first, second)), first, second]
    moved = n.op("transpose", x, axes=tuple(order))
    rows, columns = n.size(moved, x.ndim - 2), n.size(moved, x.ndim - 1)
    lead = moved.shape[:-2]
    places = diagonal_places(rows, columns, n.attr("offset"))
    written = _with_elements(n, n.reshape(moved, (*lead, rows * columns)), len(lead), places, src)
    back = tuple(order.index(a) for a in range(x.ndim))
    return n.op("transpose", n.reshape(written, (*lead, rows, columns)), axes=back)


@converter("as_strided_scatter.default")
def as_strided_scatter(n: TorchNodeContext) -> Any:
    """Return `self` with `src` written to positions given by sizes and strides."""
    x, src = n["self"], n.cast(n["src"], n.dtype)
    places = strided_places(n, x)
    flat = _with_elements(n, n.reshape(x, (product(x.shape),)), 0, places, n.reshape(src, (product(src.shape),)))
    return n.reshape(flat, x.shape)


@converter("copy.default")
def copy(n: TorchNodeContext) -> Any:
    """Return `src` in the dtype and shape of `self`."""
    n.ignore("self", "non_blocking")
    src = n.cast(n["src"], n.dtype)
    return src if src.shape == n.shape else n.op("broadcast_to", src, shape=n.shape)


@converter("masked_scatter.default")
def masked_scatter(n: TorchNodeContext) -> Any:
    """Return `self` with the elements of `source`, in order, written to the positions where the mask holds."""
    source = n["source"]
    x, mask = (y if y.shape == n.shape else n.op("broadcast_to", y, shape=n.shape) for y in (n["self"], n["mask"]))
    count = product(x.shape)
    held = n.cast(n.reshape(mask, (count,)), "int64")
    places = n.op("subtract", n.op("cumsum", held, axis=0), 1)
    written = n.op("take", n.reshape(source, (product(source.shape),)), n.op("maximum", places, 0), axis=0)
    return n.op("where", mask, n.reshape(written, x.shape), x)


_BAGS = ("sum", "mean", "max")


@converter("_embedding_bag.default", "_embedding_bag_forward_only.default")
def embedding_bag(n: TorchNodeContext) -> Any:
    """Return rows of the table at the indices, combined bag by bag. Bag b begins at offsets[b], and empty bags are 0.

    Each row is scattered to its bag, whose number follows from how many offsets are not beyond the row.
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
