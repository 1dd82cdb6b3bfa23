"""Convolutions on tensors of elements, as accelerators with a matrix array take them (`topi.elements`)."""

from __future__ import annotations

from typing import Any

from ... import topi
from ..registry import REQUIRED, Pattern, register


@register("nn.contrib_conv2d_elements", pattern=Pattern.COMPLEX_OUT_FUSABLE)
def conv2d_elements(image: Any, filters: Any, *, stride: int = 1, padding: int = 0, out_dtype: str = "int32") -> Any:
    """Convolution of NCHW{b}n{i}c with OIHW{k}o{i}i, summed in `out_dtype`."""
    return topi.conv2d_elements(image, filters, stride=stride, padding=padding, out_dtype=out_dtype)


@register("nn.contrib_requantize_elements", pattern=Pattern.ELEMENTWISE)
def requantize_elements(
    sums: Any, *, shift: int = REQUIRED, least: int = -128, most: int = 127, dtype: str = "int8"  # type: ignore[assignment]
) -> Any:  # fmt: skip
    """Sums shifted right, kept between `least` and `most`, cast."""
    return topi.requantize_elements(sums, shift=shift, least=least, most=most, dtype=dtype)
