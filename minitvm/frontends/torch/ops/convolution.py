"""Convert convolutions and transposed convolutions of one to three dimensions."""

from __future__ import annotations

from typing import Any

from ..context import TorchNodeContext
from ..registry import converter


@converter("convolution.default")
def convolution(n: TorchNodeContext) -> Any:
    x, weight, bias = n["input"], n["weight"], n.optional("bias")
    rank = weight.ndim - 2
    if rank not in (1, 2, 3) or x.ndim != weight.ndim:
        n.refuse(f"{x} with the weights {weight} is not supported")
    strides, padding, dilation = (per_axis(n.attr(name), rank) for name in ("stride", "padding", "dilation"))
    groups, extra = n.attr("groups"), per_axis(n.attr("output_padding"), rank)
    if n.attr("transposed"):
        convolved = n.op(
            f"nn.conv{rank}d_transpose", x, weight, strides=strides, padding=padding, output_padding=extra,
            dilation=dilation, groups=groups,
        )  # fmt: skip
    else:
        convolved = n.op(
            f"nn.conv{rank}d", x, weight, strides=strides, padding=padding, dilation=dilation, groups=groups
        )
    return convolved if bias is None else n.op("nn.bias_add", convolved, bias)


def per_axis(values: Any, rank: int) -> tuple[int, ...]:
    """Return one value per axis. A single value is used for all axes."""
    listed = (values,) if isinstance(values, int) else tuple(values)
    return listed * rank if len(listed) == 1 else listed
