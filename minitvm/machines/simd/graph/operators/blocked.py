"""Operators on blocked layouts. Only the pass `blocked_layout` adds them to a graph; models do not contain them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .....topi.registry import REQUIRED, Pattern, register
from ...topi import blocked, window_rows, winograd
from ...topi import words as word_views


def _block(x: Any, axis: int, block: int) -> Any:
    extent = x.shape[axis]
    blocks = -(-extent // block)
    widths = [(0, 0)] * x.ndim
    widths[axis] = (0, blocks * block - extent)
    whole = np.pad(x, widths)
    split = whole.reshape((*x.shape[:axis], blocks, block, *x.shape[axis + 1 :]))
    return np.ascontiguousarray(np.moveaxis(split, axis + 1, -1))


def _unblock(x: Any, axis: int, extent: int) -> Any:
    moved = np.moveaxis(x, -1, axis + 1)
    shape = (*x.shape[:axis], x.shape[axis] * x.shape[-1], *x.shape[axis + 1 : -1])
    return np.ascontiguousarray(np.take(moved.reshape(shape), range(extent), axis))


def _pack(w: Any, in_block: int, out_block: int) -> Any:
    return _block(_block(w, 1, in_block), 0, out_block)


@register("layout.block_axis", pattern=Pattern.INJECTIVE, fold=_block)
def block_axis(x: Any, *, axis: int = REQUIRED, block: int = REQUIRED) -> Any:  # type: ignore[assignment]
    """Split `axis` into blocks of `block`, with the position in a block as the last axis. Zeros fill an incomplete
    block.
    """
    return blocked.block_axis(x, axis=axis, block=block)


@register("layout.unblock_axis", pattern=Pattern.INJECTIVE, fold=_unblock)
def unblock_axis(x: Any, *, axis: int = REQUIRED, extent: int = REQUIRED) -> Any:  # type: ignore[assignment]
    """Undo `layout.block_axis`, and cut the axis to `extent`."""
    return blocked.unblock_axis(x, axis=axis, extent=extent)


@register("layout.pack_weights", pattern=Pattern.INJECTIVE, fold=_pack)
def pack_weights(w: Any, *, in_block: int = REQUIRED, out_block: int = REQUIRED) -> Any:  # type: ignore[assignment]
    """Pack weights [O, I, k..] as [O/out, I/in, k.., in, out]."""
    return blocked.pack_weights(w, in_block=in_block, out_block=out_block)


_ABSORBED = ("layout.unblock_axis", "nn.interleave")


@register("nn.contrib_conv2d_NCHWc", pattern=Pattern.COMPLEX_OUT_FUSABLE, absorbs=_ABSORBED)
def conv2d_nchwc(
    data: Any, weight: Any, *, strides: Any = (1, 1), padding: Any = (0, 0), dilation: Any = (1, 1),
    out_dtype: str = "", algorithm: Sequence[Any] = (), channels: int = 0, groups: int = 1,
) -> Any:  # fmt: skip
    """Return the convolution of the first `channels` (0: all) of NCHW[x]c data. `algorithm` records why this algorithm
    was chosen.

    Each of the `groups` consists of whole blocks.
    """
    return blocked.conv2d_nchwc(
        data, weight, strides=strides, padding=padding, dilation=dilation, out_dtype=out_dtype, algorithm=algorithm,
        channels=channels, groups=groups,
    )  # fmt: skip


@register("nn.contrib_conv3d_NCHWc", pattern=Pattern.COMPLEX_OUT_FUSABLE, absorbs=_ABSORBED)
def conv3d_nchwc(
    data: Any, weight: Any, *, strides: Any = (1, 1, 1), padding: Any = (0, 0, 0), dilation: Any = (1, 1, 1),
    out_dtype: str = "", algorithm: Sequence[Any] = (), channels: int = 0, groups: int = 1,
) -> Any:  # fmt: skip
    """Return the convolution of the first `channels` (0: all) of NCDHW[x]c data. `algorithm` records why this algorithm
    was chosen.

    Each of the `groups` consists of whole blocks.
    """
    return blocked.conv3d_nchwc(
        data, weight, strides=strides, padding=padding, dilation=dilation, out_dtype=out_dtype, algorithm=algorithm,
        channels=channels, groups=groups,
    )  # fmt: skip


@register("nn.contrib_winograd_conv2d_NCHWc", pattern=Pattern.COMPLEX_OUT_FUSABLE)
def winograd_conv2d_nchwc(
    data: Any,
    weight: Any,
    *,
    tile: int = REQUIRED,  # type: ignore[assignment]
    padding: Any = (0, 0),
    dilation: Any = (1, 1),
    algorithm: Sequence[Any] = (),
    channels: int = 0,
) -> Any:
    """Return the 3x3 convolution of stride 1 of NCHW[x]c data, with weights that were transformed for F(tile x tile,
    3x3).
    """
    return winograd.winograd_conv2d_nchwc(
        data, weight, tile=tile, padding=padding, dilation=dilation, algorithm=algorithm, channels=channels
    )


@register("nn.contrib_depthwise_conv2d_NCHWc", pattern=Pattern.COMPLEX_OUT_FUSABLE)
def depthwise_conv2d_nchwc(
    data: Any, weight: Any, *, strides: Any = (1, 1), padding: Any = (0, 0), dilation: Any = (1, 1), out_dtype: str = ""
) -> Any:
    """Return the depthwise convolution of NCHW[x]c data."""
    return blocked.depthwise_conv2d_nchwc(
        data, weight, strides=strides, padding=padding, dilation=dilation, out_dtype=out_dtype
    )


@register("nn.contrib_depthwise_conv2d_rows", pattern=Pattern.COMPLEX_OUT_FUSABLE)
def depthwise_conv2d_rows(
    data: Any, weight: Any, *, strides: Any = (1, 1), padding: Any = (0, 0), dilation: Any = (1, 1),
    lanes: int = REQUIRED,  # type: ignore[assignment]
    tile: int = 1,
) -> Any:  # fmt: skip
    """Return the depthwise convolution of plain NCHW data. Rows are vectors of `lanes`, and `tile` rows are computed
    together.
    """
    return window_rows.depthwise_conv2d_rows(
        data, weight, strides=strides, padding=padding, dilation=dilation, lanes=lanes, tile=tile
    )


@register("nn.contrib_max_pool_rows", pattern=Pattern.COMPLEX_OUT_FUSABLE)
def max_pool_rows(
    data: Any, *, pool_size: Any = REQUIRED, strides: Any = 1, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False,
    lanes: int = REQUIRED,  # type: ignore[assignment]
    tile: int = 1,
) -> Any:  # fmt: skip
    """Return the maximum pool of plain data. Rows are vectors of `lanes`, and `tile` rows are computed together."""
    return window_rows.max_pool_rows(
        data, pool_size=pool_size, strides=strides, padding=padding, dilation=dilation, ceil_mode=ceil_mode,
        lanes=lanes, tile=tile,
    )  # fmt: skip


@register("nn.contrib_avg_pool_rows", pattern=Pattern.COMPLEX_OUT_FUSABLE)
def avg_pool_rows(
    data: Any, *, pool_size: Any = REQUIRED, strides: Any = 1, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, count_include_pad: bool = False,
    lanes: int = REQUIRED,  # type: ignore[assignment]
    tile: int = 1,
) -> Any:  # fmt: skip
    """Return the mean pool of plain data. Rows are vectors of `lanes`, and `tile` rows are computed together."""
    return window_rows.avg_pool_rows(
        data, pool_size=pool_size, strides=strides, padding=padding, dilation=dilation, ceil_mode=ceil_mode,
        count_include_pad=count_include_pad, lanes=lanes, tile=tile,
    )  # fmt: skip


@register("nn.contrib_dense_packed", pattern=Pattern.COMPLEX_OUT_FUSABLE)
def dense_packed(data: Any, weight: Any, *, units: int = 0, out_dtype: str = "") -> Any:
    """Multiply [.., K] by weights packed as [N/x, K, x], or by one such matrix per batch; return the first `units`
    columns (0: all).
    """
    return blocked.dense_packed(data, weight, units=units, out_dtype=out_dtype)


def _words(x: Any) -> Any:
    return np.ascontiguousarray(x).view(np.int32)


@register("layout.words", pattern=Pattern.OPAQUE, fold=_words, view=True)
def words(x: Any) -> Any:
    """View four bytes, or two bfloat16, along the last axis as one int32 in the same memory. The first is the lowest
    part.
    """
    return word_views.words(x)
