"""Convert pooling, with windows or to a given size."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....graph.nodes import Dim
from ....topi.shapes import simple
from ...common.operand import Operand
from ..context import TorchNodeContext
from ..registry import converter
from .convolution import per_axis


def _windows(n: TorchNodeContext, rank: int) -> dict[str, Any]:
    size = per_axis(n.attr("kernel_size"), rank)
    strides = n.attr("stride")
    return {
        "pool_size": size,
        "strides": per_axis(strides, rank) if strides else size,
        "padding": per_axis(n.attr("padding"), rank),
        "ceil_mode": bool(n.attr("ceil_mode")),
    }


def _max_pool(n: TorchNodeContext, rank: int) -> Any:
    return _in_batch(n, rank, f"nn.max_pool{rank}d", dilation=per_axis(n.attr("dilation"), rank), **_windows(n, rank))


def _in_batch(n: TorchNodeContext, rank: int, op: str, x: Operand | None = None, **attrs: Any) -> Any:
    """Apply the operator to a batch. A single picture is treated as a batch of one."""
    x = n["self"] if x is None else x
    if x.ndim == rank + 2:
        return n.op(op, x, **attrs)
    return n.op("squeeze", n.op(op, n.op("expand_dims", x, axis=0), **attrs), axis=(0,))


def _register(rank: int) -> None:
    @converter(f"max_pool{rank}d.default")
    def _(n: TorchNodeContext) -> Any:
        return _max_pool(n, rank)

    @converter(f"max_pool{rank}d_with_indices.default")
    def _(n: TorchNodeContext) -> Any:
        return _largest_and_places(n, _tables(n, rank)) if n.wants(1) else [_max_pool(n, rank), None]

    @converter(f"avg_pool{rank}d.default")
    def _(n: TorchNodeContext) -> Any:
        windows = _windows(n, rank)
        if not n.dtype.is_float:
            n.refuse("means of integers are not supported\n  try:    x.float()")
        counted = bool(n.attr("count_include_pad"))
        if rank > 1 and n.attr("divisor_override") is not None:
            return _divided(n, rank, n.attr("divisor_override"), windows)
        return _in_batch(n, rank, f"nn.avg_pool{rank}d", count_include_pad=counted, **windows)

    @converter(f"adaptive_avg_pool{rank}d.default", *([f"_adaptive_avg_pool{rank}d.default"] if rank > 1 else []))
    def _(n: TorchNodeContext) -> Any:
        return _adaptive(n, rank)


for _rank in (1, 2, 3):
    _register(_rank)


def _divided(n: TorchNodeContext, rank: int, divisor: int, windows: dict[str, Any]) -> Any:
    """Return sums over windows divided by a number: means of whole windows of the padded picture, times their size."""
    x, first = n["self"], n["self"].ndim - rank
    widths: list[tuple[Dim, Dim]] = [(0, 0)] * x.ndim
    axes = zip(windows["pool_size"], windows["strides"], windows["padding"], strict=True)
    for axis, (size, step, before) in enumerate(axes, first):
        end = (n.shape[axis] - 1) * step + size
        widths[axis] = (before, simple(end - before - x.shape[axis]))
    padded = n.op("nn.pad", x, pad_width=tuple(widths))
    means = _in_batch(
        n, rank, f"nn.avg_pool{rank}d", padded, pool_size=windows["pool_size"], strides=windows["strides"]
    )
    return n.op("multiply", means, math.prod(windows["pool_size"]) / divisor)


def _adaptive(n: TorchNodeContext, rank: int) -> Any:
    """Return means of `output_size` windows: a product with a matrix of shares along each axis."""
    x, sizes = n["self"], per_axis(n.attr("output_size"), rank)
    axes = tuple(range(x.ndim - rank, x.ndim))
    if all(size == 1 for size in sizes):
        return n.op("mean", x, axis=axes, keepdims=True)
    for axis, size in zip(axes, sizes, strict=True):
        extent = x.shape[axis]
        if isinstance(extent, int) and extent == size:
            continue
        x = along(n, x, axis, _shares(n, extent, size))
    return x


def _register_adaptive_max(rank: int) -> None:
    @converter(f"adaptive_max_pool{rank}d.default")
    def _(n: TorchNodeContext) -> Any:
        if not n.wants(1):
            return [_largest(n, rank), None]
        sizes = per_axis(n.attr("output_size"), rank)
        extents = n.sizes(n["self"], n["self"].ndim - rank)
        ranges = [_ranges(extent, size) for extent, size in zip(extents, sizes, strict=True)]
        tables = [
            np.array([np.minimum(np.arange(a, a + max(e - s for s, e in of_axis)), b - 1) for a, b in of_axis])
            for of_axis in ranges
        ]
        return _largest_and_places(n, tables)


for _rank in (2, 3):
    _register_adaptive_max(_rank)


def _largest(n: TorchNodeContext, rank: int) -> Operand:
    """Return the maxima of `output_size` windows, computed along one axis after the other."""
    x, sizes = n["self"], per_axis(n.attr("output_size"), rank)
    axes = tuple(range(x.ndim - rank, x.ndim))
    if all(size == 1 for size in sizes):
        whole: Operand = n.op("max", x, axis=axes, keepdims=True)
        return whole
    for axis, size in zip(axes, sizes, strict=True):
        extent = x.shape[axis]
        if not isinstance(extent, int):
            n.refuse(f"the dimension {extent} is symbolic; it is brought to {size}")
        if extent != size:
            windows = [n.part(x, axis, first, stop) for first, stop in _ranges(extent, size)]
            x = n.op("concatenate", *(n.op("max", w, axis=(axis,), keepdims=True) for w in windows), axis=axis)
    return x


def _tables(n: TorchNodeContext, rank: int) -> list[np.ndarray]:
    """Return, for each axis, the entries in the windows of a maximum: [windows, size].

    An entry outside of the picture is replaced with another entry of its window, which does not change the maximum.
    """
    windows, x = _windows(n, rank), n["self"]
    dilations = per_axis(n.attr("dilation"), rank)
    counts = [n.fixed(size) for size in n.node.meta["val"][0].shape[-rank:]]
    axes = zip(windows["pool_size"], windows["strides"], windows["padding"], dilations, counts, strict=True)
    n.ignore("ceil_mode")
    tables = []
    for axis, (size, step, before, dilation, count) in enumerate(axes, x.ndim - rank):
        extent = n.size(x, axis)
        starts = np.arange(count)[:, None] * step - before
        first = starts + -(np.minimum(starts, 0) // dilation) * dilation
        last = starts + np.minimum(size - 1, (extent - 1 - starts) // dilation) * dilation
        tables.append(np.clip(starts + np.arange(size) * dilation, first, last))
    return tables


def _largest_and_places(n: TorchNodeContext, tables: list[np.ndarray]) -> list[Operand]:
    """Return the largest element of each window, and its position in the flattened picture. `tables` has the entries by
    axis.
    """
    x, rank = n["self"], len(tables)
    first, extents = x.ndim - rank, n.sizes(x, x.ndim - rank)
    for k, table in enumerate(tables):  # [..., windows, size, windows, size, ...]
        x = n.op("take", x, table.astype(np.int64), axis=first + 2 * k)
    order = (*range(first), *(first + 2 * k for k in range(rank)), *(first + 2 * k + 1 for k in range(rank)))
    counts, sizes = [len(table) for table in tables], [table.shape[1] for table in tables]
    windows = n.reshape(n.op("transpose", x, axes=order), (*x.shape[:first], *counts, math.prod(sizes)))
    flat: Any = np.zeros((), np.int64)
    for k, table in enumerate(tables):
        own = table.reshape([extent if j == k else 1 for extent in table.shape for j in range(rank)])
        flat = flat * extents[k] + own
    places = np.broadcast_to(flat, (*counts, *sizes)).reshape(*(1,) * first, *counts, -1)
    wide = n.op("broadcast_to", Operand.known(np.ascontiguousarray(places)), shape=windows.shape)
    largest = n.op("argmax", windows, axis=windows.ndim - 1, keepdims=True)
    return [
        n.op("squeeze", n.op("gather", y, n.cast(largest, "int64"), axis=windows.ndim - 1), axis=(windows.ndim - 1,))
        for y in (windows, wide)
    ]


def _ranges(extent: int, size: int) -> list[tuple[int, int]]:
    """Return the windows from floor(k extent / size) to ceil((k + 1) extent / size)."""
    return [(k * extent // size, -(-(k + 1) * extent // size)) for k in range(size)]


def along(n: TorchNodeContext, x: Operand, axis: int, shares: np.ndarray) -> Operand:
    """Return x with each line of an axis multiplied by a matrix [extent, new extent]."""
    last = x.ndim - 1
    order = tuple(last if a == axis else axis if a == last else a for a in range(x.ndim))
    moved = x if axis == last else n.op("transpose", x, axes=order)
    means: Operand = n.op("nn.matmul", moved, shares.astype(x.dtype.numpy))
    return means if axis == last else n.op("transpose", means, axes=order)


def _shares(n: TorchNodeContext, extent: Dim, size: int) -> np.ndarray:
    """Return the matrix whose column k averages the elements of window k."""
    if not isinstance(extent, int):
        n.refuse(f"the dimension {extent} is symbolic; it is averaged to {size}")
    shares = np.zeros((extent, size))
    for k, (first, stop) in enumerate(_ranges(extent, size)):
        shares[first:stop, k] = 1 / (stop - first)
    return shares
