"""Convert convolutions: their images have the channels first from here on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....errors import ModelError
from ....graph.nodes import Dim
from ...common.byte_products import integer_convolution, integer_product
from ...common.operand import Operand
from ...common.windows import explicitly_padded, same_padding, without_second_window
from ..context import NodeContext
from ..layouts import Laid
from ..quantized import in_floats, requantized, with_result
from ..registry import converter
from .activations import activated
from .integers import Quantised

SAME, VALID = 0, 1


def window_padding(
    n: NodeContext, spatial: Sequence[Dim], kernel: Sequence[Dim], strides: Sequence[int], dilations: Sequence[int]
) -> tuple[Dim, ...]:
    """Return all paddings before, then all after, that the option `Padding` means."""
    if n.option("Padding") == SAME:
        return same_padding(spatial, kernel, strides, dilations)
    return (0,) * (2 * len(spatial))


def steps(n: NodeContext, name: str, axes: str = "HW") -> tuple[int, ...]:
    """Return an option that has a number per spatial axis, such as StrideH and StrideW. Raises unless all are
    positive.
    """
    numbers = tuple(int(n.option(name.format(axis), 1)) for axis in axes)
    if min(numbers) < 1:
        raise ModelError(f"{n.where}: {name.format('')} is {numbers}, wanted numbers from 1")
    return numbers


@converter("CONV_2D", bytes="own")
def conv_2d(n: NodeContext) -> Any:
    """Convolve an image [n, h, w, c] with filters [o, kh, kw, c / groups]."""
    return _convolution(n, (0, 3, 1, 2))


@converter("DEPTHWISE_CONV_2D", bytes="own")
def depthwise_conv_2d(n: NodeContext) -> Any:
    """Convolve each channel of an image with its own filters [1, kh, kw, c * m]; the results of a channel are
    neighbours.
    """
    return _convolution(n, (3, 0, 1, 2))


def _convolution(n: NodeContext, axes: tuple[int, ...]) -> Laid:
    """Convolve an image with filters whose transpose with these axes is [o, c / groups, kh, kw]."""
    exact = Quantised.of(n)
    if exact is None:
        in_floats(n)
    image, filters = n.laid(0), n[1]
    if image.ndim != 4 or filters.ndim != 4:
        n.refuse(f"wanted an image and filters of 4 dimensions, found {image.operand} and {filters}")
    if _is_one_window(n, image, filters.shape[1:3]):
        total = _windows_sum(n, image, filters, axes, exact)
        if total is not None:
            return _finished(n, total, exact, channel=3)
    filters = n.moved(filters, axes)
    x, attrs = _windows(n, n.first(image), filters)
    if exact is None:
        return _finished(n, Laid(first=n.op("nn.conv2d", x, filters, **attrs)), exact, channel=1)
    zero = Operand.known(exact.weight_zero.reshape(-1, 1, 1, 1) if exact.weight_zero.ndim else exact.weight_zero)
    total = Laid(first=integer_convolution(n, x, Operand.known(exact.zero), filters, zero, attrs))
    return _finished(n, total, exact, channel=1)


def _finished(n: NodeContext, total: Laid, exact: Quantised | None, channel: int) -> Laid:
    """Return sums, whose channels are along an axis of `total.operand`, after bias, requantisation and activation."""
    x = total.operand
    if n.has(2):
        x = n.op("nn.bias_add", x, n[2], axis=channel)
    if exact is None:
        return with_result(n, activated(n, Laid.of(x, total.order)))
    factors = exact.factors.reshape(-1, 1, 1) if exact.factors.ndim and channel == 1 else exact.factors
    return Laid.of(requantized(n, x, factors, n.result(), exact.limits), total.order)


def _is_one_window(n: NodeContext, image: Laid, kernel: tuple[Dim, ...]) -> bool:
    """Return whether the filters are as large as the image, so that each has one result."""
    spatial, dilations = image.shape[1:3], steps(n, "Dilation{}Factor")
    if not all(isinstance(d, int) for d in (*spatial, *kernel)) or spatial != tuple(kernel):
        return False
    dense = all(d == 1 or k == 1 for d, k in zip(dilations, kernel, strict=True))
    return dense and (n.option("Padding") == VALID or spatial == (1, 1))


def _windows_sum(
    n: NodeContext, image: Laid, filters: Operand, axes: tuple[int, ...], exact: Quantised | None
) -> Laid | None:
    """Return the sums of filters that are as large as the image, as [n, 1, 1, o].

    They are products of matrices, in whichever order of axes the image has, or for a depthwise convolution products
    element by element. Returns None if a convolution is as good.
    """
    batch, channels = image.shape[0], image.shape[3]
    if axes[0] == 0 and filters.shape[3] == channels:
        weights = n.op("transpose", filters, axes=(0, *(a for a in image.order[1:])))
        weights = n.reshape(weights, (filters.shape[0], -1))
        rows = n.reshape(image.operand, (batch, weights.shape[1]))
        if exact is None:
            total = n.op("nn.dense", rows, weights)
        else:
            zeros = [Operand.known(zero) for zero in (exact.zero, exact.weight_zero)]
            total = integer_product(n, rows, zeros[0], n.moved(weights, (1, 0)), zeros[1])
        return Laid(n.reshape(total, (batch, 1, 1, filters.shape[0])))
    if axes[0] != 3 or image.is_image or filters.shape[3] != channels:
        return None
    x = image.operand
    if exact is not None:
        x = n.op("subtract", n.cast(x, "int32"), exact.zero.astype(np.int32))
        filters = n.op("subtract", n.cast(filters, "int32"), exact.weight_zero.astype(np.int32))
    return Laid(n.op("sum", n.op("multiply", x, filters), axis=(1, 2), keepdims=True))


def _windows(n: NodeContext, x: Operand, filters: Operand) -> tuple[Operand, dict[str, Any]]:
    """Return the image, padded if its size is symbolic, and the attributes of the convolution."""
    kernel, groups = filters.shape[2:], _groups(n, x, filters)
    strides, dilations = steps(n, "Stride{}"), steps(n, "Dilation{}Factor")
    padding = window_padding(n, x.shape[2:], kernel, strides, dilations)
    strides = without_second_window(strides, x.shape[2:], padding)
    x, pads = explicitly_padded(n, x, padding, 0.0 if x.dtype.is_float else None)
    return x, {"strides": strides, "padding": pads, "dilation": dilations, "groups": groups}


def _groups(n: NodeContext, x: Operand, filters: Operand) -> Dim:
    channels, own = x.shape[1], filters.shape[1]
    if not isinstance(channels, int) or not isinstance(own, int):
        return 1
    if own == 0 or channels % own:
        n.refuse(f"filters of {own} channels over an image of {channels} channels")
    return channels // own
