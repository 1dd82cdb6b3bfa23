"""Pooling with windows, and to a given size."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....graph.nodes import Dim
from ...operand import Operand
from ..context import NodeContext
from ..registry import converter
from .convolution import per_axis


def _windows(n: NodeContext, rank: int) -> dict[str, Any]:
    size = per_axis(n.attr("kernel_size"), rank)
    strides = n.attr("stride")
    return {
        "pool_size": size,
        "strides": per_axis(strides, rank) if strides else size,
        "padding": per_axis(n.attr("padding"), rank),
        "ceil_mode": bool(n.attr("ceil_mode")),
    }


def _max_pool(n: NodeContext, rank: int) -> Any:
    return _in_batch(n, rank, f"nn.max_pool{rank}d", dilation=per_axis(n.attr("dilation"), rank), **_windows(n, rank))


def _in_batch(n: NodeContext, rank: int, op: str, **attrs: Any) -> Any:
    """The operator on a batch; a single picture is a batch of one."""
    x = n["self"]
    if x.ndim == rank + 2:
        return n.op(op, x, **attrs)
    return n.op("squeeze", n.op(op, n.op("expand_dims", x, axis=0), **attrs), axis=(0,))


def _register(rank: int) -> None:
    @converter(f"max_pool{rank}d.default")
    def _(n: NodeContext) -> Any:
        return _max_pool(n, rank)

    @converter(f"max_pool{rank}d_with_indices.default")
    def _(n: NodeContext) -> Any:
        return [_max_pool(n, rank), None]

    @converter(f"avg_pool{rank}d.default")
    def _(n: NodeContext) -> Any:
        windows = _windows(n, rank)
        if rank > 1 and n.attr("divisor_override") is not None:
            n.refuse(f"divisor_override={n.attr('divisor_override')} is not supported")
        counted = bool(n.attr("count_include_pad"))
        return _in_batch(n, rank, f"nn.avg_pool{rank}d", count_include_pad=counted, **windows)

    @converter(f"adaptive_avg_pool{rank}d.default", *([f"_adaptive_avg_pool{rank}d.default"] if rank > 1 else []))
    def _(n: NodeContext) -> Any:
        return _adaptive(n, rank)


for _rank in (1, 2, 3):
    _register(_rank)


def _adaptive(n: NodeContext, rank: int) -> Any:
    """Means of as many windows as `output_size` says: a product with a matrix of shares along each axis."""
    x, sizes = n["self"], per_axis(n.attr("output_size"), rank)
    axes = tuple(range(x.ndim - rank, x.ndim))
    if all(size == 1 for size in sizes):
        return n.op("mean", x, axis=axes, keepdims=True)
    for axis, size in zip(axes, sizes, strict=True):
        extent = x.shape[axis]
        if isinstance(extent, int) and extent == size:
            continue
        x = _averaged(n, x, axis, _shares(n, extent, size))
    return x


def _register_adaptive_max(rank: int) -> None:
    @converter(f"adaptive_max_pool{rank}d.default")
    def _(n: NodeContext) -> Any:
        if n.wants(1):
            n.refuse("the places of the largest elements as results are not supported")
        return [_largest(n, rank), None]


for _rank in (2, 3):
    _register_adaptive_max(_rank)


def _largest(n: NodeContext, rank: int) -> Operand:
    """The largest of as many windows as `output_size` says: along one axis after the other, as a maximum allows."""
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


def _ranges(extent: int, size: int) -> list[tuple[int, int]]:
    """The windows from floor(k extent / size) to ceil((k + 1) extent / size)."""
    return [(k * extent // size, -(-(k + 1) * extent // size)) for k in range(size)]


def _averaged(n: NodeContext, x: Operand, axis: int, shares: np.ndarray) -> Operand:
    last = x.ndim - 1
    order = tuple(last if a == axis else axis if a == last else a for a in range(x.ndim))
    moved = x if axis == last else n.op("transpose", x, axes=order)
    means: Operand = n.op("nn.matmul", moved, shares.astype(x.dtype.numpy))
    return means if axis == last else n.op("transpose", means, axes=order)


def _shares(n: NodeContext, extent: Dim, size: int) -> np.ndarray:
    """The matrix whose column k averages the elements of the window k."""
    if not isinstance(extent, int):
        n.refuse(f"the dimension {extent} is symbolic; it is averaged to {size}")
    shares = np.zeros((extent, size))
    for k, (first, stop) in enumerate(_ranges(extent, size)):
        shares[first:stop, k] = 1 / (stop - first)
    return shares
