"""Convolutions, sums and pools on tensors of elements, for accelerators with a matrix array."""

from __future__ import annotations

from typing import Any

from ...topi.registry import REQUIRED, Pattern, register
from . import topi as elements


@register("nn.contrib_conv2d_elements", pattern=Pattern.COMPLEX_OUT_FUSABLE)
def conv2d_elements(image: Any, filters: Any, *, stride: int = 1, padding: int = 0, out_dtype: str = "int32") -> Any:
    """Convolution of NCHW{b}n{i}c with OIHW{k}o{i}i, summed in `out_dtype`."""
    return elements.conv2d_elements(image, filters, stride=stride, padding=padding, out_dtype=out_dtype)


@register("nn.contrib_requantize_elements", pattern=Pattern.ELEMENTWISE)
def requantize_elements(
    sums: Any, *, shift: int = REQUIRED, least: int = -128, most: int = 127, dtype: str = "int8",  # type: ignore[assignment]
    offset: int = 0,
) -> Any:  # fmt: skip
    """Sums and `offset` shifted right, kept between `least` and `most`, cast."""
    return elements.requantize_elements(sums, shift=shift, least=least, most=most, dtype=dtype, offset=offset)


# These three begin a function of their own: a machine with registers alone computes what is behind one of them.


@register("nn.contrib_add_elements", pattern=Pattern.COMPLEX_OUT_FUSABLE)
def add_elements(a: Any, b: Any, *, left_a: int = 0, left_b: int = 0, out_dtype: str = "int32") -> Any:
    """Two tensors of elements, shifted left, added in `out_dtype`."""
    return elements.add_elements(a, b, left_a=left_a, left_b=left_b, out_dtype=out_dtype)


@register("nn.contrib_depthwise_conv2d_elements", pattern=Pattern.COMPLEX_OUT_FUSABLE)
def depthwise_conv2d_elements(
    image: Any, filters: Any, *, stride: int = 1, padding: int = 0, out_dtype: str = "int32"
) -> Any:
    """Convolution of each channel of NCHW{b}n{i}c with a filter of its own, [1, c/i, kh, kw, b, i]."""
    return elements.depthwise_conv2d_elements(image, filters, stride=stride, padding=padding, out_dtype=out_dtype)


@register("nn.contrib_max_pool2d_elements", pattern=Pattern.COMPLEX_OUT_FUSABLE)
def max_pool2d_elements(image: Any, *, size: int = REQUIRED, stride: int = 1, padding: int = 0) -> Any:  # type: ignore[assignment]
    """The greatest number of each square of `size`, of NCHW{b}n{i}c."""
    return elements.max_pool2d_elements(image, size=size, stride=stride, padding=padding)
