"""Graph operators on tensors of elements (convolutions, sums and pools), for accelerators with a matrix array."""

from __future__ import annotations

from typing import Any

from ...topi.registry import REQUIRED, Pattern, register
from . import topi as elements


@register("nn.contrib_conv2d_elements", pattern=Pattern.COMPLEX_OUT_FUSABLE)
def conv2d_elements(image: Any, filters: Any, *, stride: int = 1, padding: int = 0, out_dtype: str = "int32") -> Any:
    """Return the convolution of NCHW{b}n{i}c data with OIHW{k}o{i}i filters, summed in `out_dtype`."""
    return elements.conv2d_elements(image, filters, stride=stride, padding=padding, out_dtype=out_dtype)


@register("nn.contrib_requantize_elements", pattern=Pattern.ELEMENTWISE)
def requantize_elements(
    sums: Any, *, shift: int = REQUIRED, least: int = -128, most: int = 127, dtype: str = "int8",  # type: ignore[assignment]
    offset: int = 0,
) -> Any:  # fmt: skip
    """Add `offset` to sums, shift them right, clip them to [`least`, `most`], and convert them to `dtype`."""
    return elements.requantize_elements(sums, shift=shift, least=least, most=most, dtype=dtype, offset=offset)


# These three begin a separate function: the operators after them are computed in registers.


@register("nn.contrib_add_elements", pattern=Pattern.COMPLEX_OUT_FUSABLE)
def add_elements(a: Any, b: Any, *, left_a: int = 0, left_b: int = 0, out_dtype: str = "int32") -> Any:
    """Shift two tensors of elements left, and add them in `out_dtype`."""
    return elements.add_elements(a, b, left_a=left_a, left_b=left_b, out_dtype=out_dtype)


@register("nn.contrib_depthwise_conv2d_elements", pattern=Pattern.COMPLEX_OUT_FUSABLE)
def depthwise_conv2d_elements(
    image: Any, filters: Any, *, stride: int = 1, padding: int = 0, out_dtype: str = "int32"
) -> Any:
    """Return the depthwise convolution of NCHW{b}n{i}c data with filters [1, c/i, kh, kw, b, i]."""
    return elements.depthwise_conv2d_elements(image, filters, stride=stride, padding=padding, out_dtype=out_dtype)


@register("nn.contrib_max_pool2d_elements", pattern=Pattern.COMPLEX_OUT_FUSABLE)
def max_pool2d_elements(image: Any, *, size: int = REQUIRED, stride: int = 1, padding: int = 0) -> Any:  # type: ignore[assignment]
    """Return the largest number in each `size` x `size` square of NCHW{b}n{i}c data."""
    return elements.max_pool2d_elements(image, size=size, stride=stride, padding=padding)
