"""Convert convolutions and their padding rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....errors import ModelError
from ....expr import GT, as_expr, match
from ....graph.nodes import Dim
from ....te import maximum
from ....topi.shapes import simple
from ...common.operand import Operand
from ...common.windows import explicitly_padded, same_padding, without_second_window
from ..context import NodeContext
from ..registry import converter


def window_padding(
    n: NodeContext, spatial: Sequence[Dim], kernel: Sequence[Dim], strides: Sequence[int], dilations: Sequence[int]
) -> tuple[Dim, ...]:
    """Return all paddings before, then all after, from `pads` or `auto_pad`. They may be symbolic for `auto_pad` of a
    symbolic size.
    """
    rank = len(spatial)
    mode = n.attr("auto_pad", "NOTSET")
    pads = n.attr("pads", (0,) * (2 * rank))
    if mode in ("NOTSET", ""):
        if len(pads) != 2 * rank:
            raise ModelError(f"{n.where}: wanted {2 * rank} pads, found {len(pads)}")
        if min(pads, default=0) < 0:
            raise ModelError(f"{n.where}: attribute pads={pads!r}: wanted integers from 0")
        return tuple(pads)
    if mode == "VALID":
        return (0,) * (2 * rank)
    if mode not in ("SAME_UPPER", "SAME_LOWER"):
        n.refuse_attribute("auto_pad")
    return same_padding(spatial, kernel, strides, dilations, lower=mode == "SAME_LOWER")


def with_kernel(n: NodeContext, w: Operand) -> tuple[Operand, tuple[Dim, ...]]:
    """Return the weights of a convolution, and the extents of its kernel, which the node may state again."""
    kernel, shape = n.attr("kernel_shape", None), w.shape[2:]
    for d in shape:
        w = n.enough(w, d, 1, f"a kernel of {' x '.join(map(str, shape))} has no taps")
    if not kernel:
        return w, tuple(shape)
    if len(kernel) != len(shape) or any(isinstance(d, int) and d != k for k, d in zip(kernel, shape, strict=True)):
        raise ModelError(f"{n.where}: kernel_shape is {list(kernel)}, the weight's {list(shape)}")
    return n.fit(w, (*w.shape[:2], *kernel), "the weight"), tuple(kernel)


@converter("Conv")
def conv(n: NodeContext) -> Any:
    x, w, bias = n[0], n[1], n.optional(2)
    rank = x.ndim - 2
    if rank not in (1, 2, 3):
        n.refuse(f"{rank} spatial dimensions are not supported")
    w, kernel = with_kernel(n, w)
    strides, dilations = n.attr("strides", (1,) * rank), n.attr("dilations", (1,) * rank)
    padding = window_padding(n, x.shape[2:], kernel, strides, dilations)
    strides = without_second_window(strides, x.shape[2:], padding)
    x, padding = explicitly_padded(n, x, padding, 0.0)
    convolved = n.op(
        f"nn.conv{rank}d", x, w, strides=strides, padding=padding, dilation=dilations, groups=n.attr("group", 1)
    )
    return convolved if bias is None else n.op("nn.bias_add", convolved, bias)


@converter("ConvTranspose")
def conv_transpose(n: NodeContext) -> Any:
    x, w, bias = n[0], n[1], n.optional(2)
    rank = x.ndim - 2
    if rank not in (1, 2, 3):
        n.refuse(f"{rank} spatial dimensions are not supported")
    w, kernel = with_kernel(n, w)
    strides, dilations = n.attr("strides", (1,) * rank), n.attr("dilations", (1,) * rank)
    extra = n.attr("output_padding", (0,) * rank)
    x, padding, missing = _transposed_padding(n, x, kernel, strides, dilations, extra)
    known = all(isinstance(p, int) for p in padding)
    convolved = n.op(
        f"nn.conv{rank}d_transpose", x, w, strides=strides, padding=padding if known else (0,) * (2 * rank),
        output_padding=extra, dilation=dilations, groups=n.attr("group", 1),
    )  # fmt: skip
    if not known:
        convolved = n.op("nn.pad", convolved, pad_width=[(0, 0), (0, 0), *((0, m) for m in missing)])
        convolved = _cropped(n, convolved, padding[:rank], n.attr("output_shape")[-rank:])
    return convolved if bias is None else n.op("nn.bias_add", convolved, bias)


def _transposed_padding(
    n: NodeContext,
    x: Operand,
    kernel: Sequence[Dim],
    strides: Sequence[int],
    dilations: Sequence[int],
    extra: Sequence[int],
) -> tuple[Operand, tuple[Dim, ...], list[Dim]]:
    """Return x under the conditions that `output_shape` requires, all paddings before and then after, and missing
    elements.

    `output_shape` may include fewer than a stride of elements that no element of x reaches. These are zeros at the end.
    """
    spatial = x.shape[2:]
    rank = len(spatial)
    mode, shape = n.attr("auto_pad", "NOTSET"), n.attr("output_shape", None)
    pads = n.attr("pads", (0,) * (2 * rank))
    if shape is None and mode in ("NOTSET", ""):
        return x, tuple(pads), [0] * rank
    if shape is None and mode == "VALID":
        return x, (0,) * (2 * rank), [0] * rank
    before, after, missing = [], [], []
    for axis, (extent, k, s, d, e) in enumerate(zip(spatial, kernel, strides, dilations, extra, strict=False)):
        size = extent * s if shape is None else shape[len(shape) - rank + axis]
        total = simple((extent - 1) * s + e + (k - 1) * d + 1 - size)  # with auto_pad independent of the extent
        cut = total
        if shape is not None:
            fits = GT(*match(as_expr(total), as_expr(-s)))
            x = n.require(x, fits, f"output_shape {size} is too large for {extent} elements")
            cut = simple(maximum(total, 0))
        upper = mode == "SAME_UPPER"
        before.append(simple(cut // 2 if upper else cut - cut // 2))
        after.append(simple(total - before[-1]))
        missing.append(simple(maximum(-total, 0)))
    return x, (*before, *after), missing


def _cropped(n: NodeContext, x: Operand, begin: Sequence[Dim], sizes: Sequence[int]) -> Operand:
    """Return `sizes` elements from `begin` of each spatial axis of a result that was computed without padding."""
    ends = tuple(simple(b + s) for b, s in zip(begin, sizes, strict=True))
    axes = tuple(range(2, x.ndim))
    part = n.op("strided_slice", x, begin=tuple(begin), end=ends, strides=(1,) * len(axes), axes=axes)
    cut: Operand = n.op("broadcast_to", part, shape=(*x.shape[:2], *sizes))
    return cut
