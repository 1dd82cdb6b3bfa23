"""Convolutions and their padding rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....expr import Expr
from ....graph.nodes import Dim
from ..context import NodeContext
from ..registry import converter


def window_padding(
    n: NodeContext, spatial: Sequence[Dim], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> tuple[int, ...]:
    """All paddings before, then all after, from `pads` or `auto_pad`."""
    rank = len(spatial)
    mode = n.attr("auto_pad", "NOTSET")
    pads = n.attr("pads", (0,) * (2 * rank))
    if mode in ("NOTSET", ""):
        return tuple(pads)
    if mode == "VALID":
        return (0,) * (2 * rank)
    if mode not in ("SAME_UPPER", "SAME_LOWER"):
        n.refuse_attribute("auto_pad")
    before, after = [], []
    for extent, k, s, d in zip(spatial, kernel, strides, dilations, strict=False):
        if isinstance(extent, Expr) and s != 1:
            n.refuse(f"auto_pad={mode} with a stride on the symbolic dimension {extent}")
        # As many outputs as strides begin within the input.
        total = (
            (k - 1) * d if isinstance(extent, Expr) else max(0, (-(-extent // s) - 1) * s + (k - 1) * d + 1 - extent)
        )
        small = total // 2
        before.append(small if mode == "SAME_UPPER" else total - small)
        after.append(total - small if mode == "SAME_UPPER" else small)
    return (*before, *after)


def static_kernel(n: NodeContext, shape: Sequence[Dim]) -> tuple[int, ...]:
    """The extents of a kernel."""
    kernel = []
    for d in shape:
        if isinstance(d, Expr):
            n.refuse(f"the size {d} of the kernel is symbolic")
        kernel.append(d)
    return tuple(kernel)


@converter("Conv")
def conv(n: NodeContext) -> Any:
    x, w, bias = n[0], n[1], n.optional(2)
    rank = x.ndim - 2
    if rank not in (1, 2, 3):
        n.refuse(f"{rank} spatial dimensions are not supported")
    kernel = n.attr("kernel_shape", None) or static_kernel(n, w.shape[2:])
    strides, dilations = n.attr("strides", (1,) * rank), n.attr("dilations", (1,) * rank)
    padding = window_padding(n, x.shape[2:], kernel, strides, dilations)
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
    kernel = n.attr("kernel_shape", None) or static_kernel(n, w.shape[2:])
    strides, dilations = n.attr("strides", (1,) * rank), n.attr("dilations", (1,) * rank)
    extra = n.attr("output_padding", (0,) * rank)
    padding = _transposed_padding(n, x.shape[2:], kernel, strides, dilations, extra)
    convolved = n.op(
        f"nn.conv{rank}d_transpose", x, w, strides=strides, padding=padding, output_padding=extra, dilation=dilations,
        groups=n.attr("group", 1),
    )  # fmt: skip
    return convolved if bias is None else n.op("nn.bias_add", convolved, bias)


def _transposed_padding(
    n: NodeContext,
    spatial: Sequence[Dim],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    extra: Sequence[int],
) -> tuple[int, ...]:
    rank = len(spatial)
    mode, shape = n.attr("auto_pad", "NOTSET"), n.attr("output_shape", None)
    pads = n.attr("pads", (0,) * (2 * rank))
    if shape is None and mode in ("NOTSET", ""):
        return tuple(pads)
    if shape is None and mode == "VALID":
        return (0,) * (2 * rank)
    before, after = [], []
    for axis, (extent, k, s, d, e) in enumerate(zip(spatial, kernel, strides, dilations, extra, strict=False)):
        if isinstance(extent, Expr):
            n.refuse(f"output_shape and auto_pad with the symbolic dimension {extent}")
        size = extent * s if shape is None else shape[len(shape) - rank + axis]
        total = (extent - 1) * s + e + (k - 1) * d + 1 - size
        small = total // 2
        upper = mode == "SAME_UPPER"
        before.append(small if upper else total - small)
        after.append(total - small if upper else small)
    return (*before, *after)
