"""Sums of the input bytes from which each result of an integer product is computed.

If the weights have an offset, the product must add the offset times these sums.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from ..topi.shapes import paddings, per_axis


def sums_of_rows(op: Callable[..., Any], data: Any, zero_point: int, depth: int) -> Any:
    """Return the int32 sums of `data` - `zero_point` along rows [.., depth], with shape [.., 1].

    `op(name, *inputs, **attrs)` adds an operator, as `GraphBuilder.op` does.
    """
    return _sums(op, data, zero_point, depth, -1)


def sums_of_windows(
    op: Callable[..., Any], data: Any, zero_point: int, depth: int, kernel: Sequence[int], attrs: Mapping[str, Any]
) -> Any:
    """Return the int32 sums of `data` - `zero_point` over the window of each output pixel of a convolution.

    The result is [N, 1, OH, OW]. `attrs` are the convolution's strides, padding and dilation; padding counts as the
    zero point.
    """
    pixels = _sums(op, data, zero_point, depth, 1)
    before, after = paddings(attrs["padding"], 2)
    if prod(kernel) == prod(per_axis(attrs["strides"], 2, "strides")) == 1 and not any((*before, *after)):
        return pixels
    window = {name: attrs[name] for name in ("strides", "padding", "dilation")}
    return op("nn.conv2d", pixels, np.ones((1, 1, *kernel), np.int32), **window, out_dtype="int32")


def _sums(op: Callable[..., Any], data: Any, zero_point: int, depth: int, axis: int) -> Any:
    sums = op("sum", op("cast", data, dtype="int32"), axis=(axis,), keepdims=True)
    return op("subtract", sums, np.int32(zero_point * depth)) if zero_point else sums
