"""Sums and extremes over windows of plain data [N, C, .., H, W], computed in rows of whole vectors.

    padded[n, c, .., y, x]   data with padding, as far as the windows of whole vectors and tiles of rows reach
    whole[n, c, .., y, x]    the window at each point, for more points than the result has
    result                   the first points of `whole`

So vectors of windows have no tail and loads need no mask, for any width. The first two stages stay in the cache, so the
surplus costs little. `lanes` is the length of vectors, and `tile` is the number of rows that are computed together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .... import te
from ....expr import Expr, const
from ....te import Tensor
from ....tir.op import lowest
from ....topi.pool import Ints, Windows
from ....topi.shapes import Dim, constant, dims, may_exceed, paddings, per_axis, plus, simple, times

__all__ = ["avg_pool_rows", "depthwise_conv2d_rows", "max_pool_rows"]

_AXES = ("z", "y", "x")


def depthwise_conv2d_rows(
    data: Tensor,
    weight: Tensor,
    *,
    strides: Ints = 1,
    padding: Ints = 0,
    dilation: Ints = 1,
    lanes: int = 1,
    tile: int = 1,
) -> Tensor:
    """Return the depthwise convolution of `data` [N, C, H, W] with `weight` [C, 1, kh, kw], giving [N, C, OH, OW]."""
    n, channels, *image = dims(data, "N, C, H, W")
    _, _, *size = (constant(d, "a dimension of depthwise weights") for d in dims(weight))
    steps, dilate = per_axis(strides, 2, "strides"), per_axis(dilation, 2, "dilation")
    before, after = paddings(padding, 2)
    out = tuple(
        (extent + b + a - d * (k - 1) - 1) // s + 1
        for extent, b, a, d, k, s in zip(image, before, after, dilate, size, steps, strict=True)
    )
    padded = _padded_rows(data, out, size, steps, before, dilate, const(0, data.dtype), lanes, tile)
    taps = [te.reduce_axis((0, k), name=f"k{axis}") for k, axis in zip(size, _AXES[1:], strict=True)]

    def element(b: Expr, c: Expr, *at: Expr) -> Expr:
        pixel = padded[(b, c, *_seen(at, steps, taps, dilate))]
        return te.sum(pixel * weight[(c, 0, *taps)], axis=taps)

    attrs = {"op": "nn.contrib_depthwise_conv2d_rows", "lanes": lanes, "tile": tile}
    whole = te.compute((n, channels, *_whole(out, lanes, tile)), element, name="window_rows", attrs=attrs)
    return te.compute((n, channels, *out), lambda *i: whole[i], name="rows_cut")


def max_pool_rows(
    data: Tensor, *, pool_size: Ints, strides: Ints = 1, padding: Ints = 0, dilation: Ints = 1,
    ceil_mode: bool = False, lanes: int = 1, tile: int = 1,
) -> Tensor:  # fmt: skip
    """Return the largest element of each window over one to three axes, ignoring padding."""
    op = "nn.contrib_max_pool_rows"
    w = Windows(op, data, pool_size, strides, padding, dilation, ceil_mode)
    whole = _pooled(op, data, w, lowest(data.dtype), te.max, lanes, tile)
    return te.compute((*w.outer, *w.out), lambda *i: whole[i], name="rows_cut")


def avg_pool_rows(
    data: Tensor, *, pool_size: Ints, strides: Ints = 1, padding: Ints = 0, dilation: Ints = 1,
    ceil_mode: bool = False, count_include_pad: bool = False, lanes: int = 1, tile: int = 1,
) -> Tensor:  # fmt: skip
    """Return the mean of each window over one to three axes of floats. `count_include_pad` counts declared padding as
    zeros.
    """
    op = "nn.contrib_avg_pool_rows"
    w = Windows(op, data, pool_size, strides, padding, dilation, ceil_mode)
    whole = _pooled(op, data, w, const(0, data.dtype), te.sum, lanes, tile)

    def average(n: Any, c: Any, *i: Any) -> Expr:
        count = w.counted(i, count_include_pad)
        divisor = const(count, data.dtype) if isinstance(count, int) else count.astype(data.dtype)
        return whole[(n, c, *i)] / divisor

    return te.compute((*w.outer, *w.out), average, name="rows_cut")


def _pooled(
    op: str, data: Tensor, w: Windows, fill: Expr, reducer: Callable[..., Expr], lanes: int, tile: int
) -> Tensor:
    padded = _padded_rows(data, w.out, w.size, w.stride, w.before, w.dilate, fill, lanes, tile)

    def element(n: Expr, c: Expr, *at: Expr) -> Expr:
        return reducer(padded[(n, c, *_seen(at, w.stride, w.taps, w.dilate))], axis=w.taps)

    attrs = {"op": op, "lanes": lanes, "tile": tile}
    return te.compute((*w.outer, *_whole(w.out, lanes, tile)), element, name="window_rows", attrs=attrs)


def _seen(at: Sequence[Expr], strides: Sequence[int], taps: Sequence[Any], dilation: Sequence[int]) -> list[Any]:
    """Return the indices of the element under the taps of the window at a point."""
    return [plus(times(i, s), times(t.var, d)) for i, s, t, d in zip(at, strides, taps, dilation, strict=True)]


def _whole(out: Sequence[Dim], lanes: int, tile: int) -> tuple[Dim, ...]:
    """Return the extents of a result, rounded up to whole vectors and whole tiles of rows."""
    sizes = [*([1] * (len(out) - 2)), tile, lanes][-len(out) :]
    return tuple(extent if size == 1 else -(-extent // size) * size for extent, size in zip(out, sizes, strict=True))


def _padded_rows(
    data: Tensor, out: Sequence[Dim], size: Sequence[int], strides: Sequence[int], before: Sequence[Dim],
    dilation: Sequence[int], fill: Expr, lanes: int, tile: int,
) -> Tensor:  # fmt: skip
    """Return `data` with enough padding for all windows, and with rows that are whole vectors."""
    n, channels, *image = dims(data)
    windows = zip(_whole(out, lanes, tile), size, strides, dilation, strict=True)
    reached = [simple((count - 1) * s + d * (k - 1) + 1) for count, k, s, d in windows]
    reached[-1] = -(-reached[-1] // lanes) * lanes

    def element(b: Expr, c: Expr, *at: Expr) -> Expr:
        inside: list[Expr] = []
        for i, extent, margin, end in reversed(list(zip(at, image, before, reached, strict=True))):
            inside += [i < extent + margin] if may_exceed(end, extent + margin) else []
            inside += [i >= margin] if not isinstance(margin, int) or margin else []
        value = data[(b, c, *(plus(i, -margin) for i, margin in zip(at, before, strict=True)))]
        return te.if_then_else(te.all(*inside), value, fill) if inside else value

    return te.compute((n, channels, *reached), element, name="rows_pad")
