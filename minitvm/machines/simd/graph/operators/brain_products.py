"""Products of bfloat16 tensors, stored as words of two bfloat16 and summed in float32. A layout pass rewrites products
and convolutions to these operators.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .....topi.registry import Pattern, register
from ...topi import brain_products


@register("nn.contrib_conv2d_NCHWc_words", pattern=Pattern.COMPLEX_OUT_FUSABLE, absorbs=("layout.unblock_axis",))
def conv2d_nchwc(
    data: Any, weight: Any, *, strides: Any = (1, 1), padding: Any = (0, 0), dilation: Any = (1, 1),
    algorithm: Sequence[Any] = (),
) -> Any:  # fmt: skip
    """Return the convolution in float32 on words of NCHW[x]c channels, with weights packed as words."""
    return brain_products.brain_conv2d_nchwc(
        data, weight, strides=strides, padding=padding, dilation=dilation, algorithm=algorithm
    )


@register("nn.contrib_dense_packed_words", pattern=Pattern.COMPLEX_OUT_FUSABLE)
def dense_packed(data: Any, weight: Any, *, units: int = 0) -> Any:
    """Multiply words [.., K/2] by packed words [N/x, K/2, x] in float32, and return the first `units` columns (0:
    all).
    """
    return brain_products.brain_dense_packed(data, weight, units=units)


@register("nn.contrib_matmul_words", pattern=Pattern.COMPLEX_OUT_FUSABLE)
def matmul(a: Any, b: Any) -> Any:
    """Multiply words [.., m, k/2] by the transpose of words [.., n, k/2] in float32. Leading axes broadcast."""
    return brain_products.brain_matmul(a, b)
