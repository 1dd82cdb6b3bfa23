"""Products of bytes summed in int32: `qnn.conv2d` and `qnn.dense`, and the operators that a layout pass replaces them
with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .....topi.registry import Pattern, register
from ...topi import byte_products

register("qnn.conv2d", pattern=Pattern.COMPLEX_OUT_FUSABLE)(byte_products.byte_conv2d)
register("qnn.dense", pattern=Pattern.COMPLEX_OUT_FUSABLE)(byte_products.byte_dense)


@register("qnn.contrib_conv2d_NCHWc", pattern=Pattern.COMPLEX_OUT_FUSABLE, absorbs=("layout.unblock_axis",))
def conv2d_nchwc(
    data: Any, weight: Any, *, pad_value: int = 0, strides: Any = (1, 1), padding: Any = (0, 0),
    dilation: Any = (1, 1), algorithm: Sequence[Any] = (),
) -> Any:  # fmt: skip
    """Return the convolution on words of NCHW[x]c bytes, with weights packed as words."""
    return byte_products.byte_conv2d_nchwc(
        data, weight, pad_value=pad_value, strides=strides, padding=padding, dilation=dilation, algorithm=algorithm
    )


@register("qnn.contrib_depthwise_conv2d_NCHWc", pattern=Pattern.COMPLEX_OUT_FUSABLE)
def depthwise_conv2d_nchwc(
    data: Any, weight: Any, *, zero_point: int = 0, strides: Any = (1, 1), padding: Any = (0, 0), dilation: Any = (1, 1)
) -> Any:
    """Return the depthwise convolution in int32: each channel of NCHW[x]c bytes, minus the zero point, with its own
    filter of bytes.
    """
    return byte_products.byte_depthwise_conv2d_nchwc(
        data, weight, zero_point=zero_point, strides=strides, padding=padding, dilation=dilation
    )


@register("qnn.contrib_dense_packed", pattern=Pattern.COMPLEX_OUT_FUSABLE)
def dense_packed(data: Any, weight: Any, *, units: int = 0) -> Any:
    """Multiply words [.., K/4] by packed words [N/x, K/4, x], and return the first `units` columns (0: all)."""
    return byte_products.byte_dense_packed(data, weight, units=units)


@register("qnn.contrib_dense_of_blocks", pattern=Pattern.COMPLEX_OUT_FUSABLE)
def dense_of_blocks(
    data: Any, scale: Any, shift: Any, weight: Any, *parameters: Any, bits: int = 4, units: int = 0
) -> Any:
    """Multiply data by weights of 4, 5, 6 or 8 bits, both in blocks that share a scale; see
    `byte_products.dense_of_blocks`.
    """
    return byte_products.dense_of_blocks(data, scale, shift, weight, *parameters, bits=bits, units=units)
