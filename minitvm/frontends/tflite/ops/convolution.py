"""Convert convolutions: their images have the channels first from here on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....errors import ModelError
from ....graph.nodes import Dim
from ...common.operand import Operand
from ...common.windows import explicitly_padded, same_padding, without_second_window
from ..context import NodeContext
from ..layouts import Laid
from ..registry import converter
from .activations import activated

_SAME, _VALID = 0, 1


def window_padding(
    n: NodeContext, spatial: Sequence[Dim], kernel: Sequence[Dim], strides: Sequence[int], dilations: Sequence[int]
) -> tuple[Dim, ...]:
    """Return all paddings before, then all after, that the option `Padding` means."""
    if n.option("Padding") == _SAME:
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


@converter("CONV_2D")
def conv_2d(n: NodeContext) -> Any:
    """Convolve an image [n, h, w, c] with filters [o, kh, kw, c / groups]."""
    image, filters = n.laid(0), n.moved(n[1], (0, 3, 1, 2))
    return _convolved(n, image, filters, _groups(n, image, filters))


@converter("DEPTHWISE_CONV_2D")
def depthwise_conv_2d(n: NodeContext) -> Any:
    """Convolve each channel of an image with its own filters [1, kh, kw, c * m]; the results of a channel are
    neighbours.
    """
    image, filters = n.laid(0), n.moved(n[1], (3, 0, 1, 2))
    return _convolved(n, image, filters, image.shape[-1])


def _groups(n: NodeContext, image: Laid, filters: Operand) -> Dim:
    channels, own = image.shape[-1], filters.shape[1]
    if not isinstance(channels, int) or not isinstance(own, int):
        return 1
    if own == 0 or channels % own:
        n.refuse(f"filters of {own} channels over an image of {channels} channels")
    return channels // own


def _convolved(n: NodeContext, image: Laid, filters: Operand, groups: Dim) -> Laid:
    if image.ndim != 4 or filters.ndim != 4:
        n.refuse(f"wanted an image and filters of 4 dimensions, found {image.operand} and {filters}")
    x, kernel = n.first(image), filters.shape[2:]
    strides, dilations = steps(n, "Stride{}"), steps(n, "Dilation{}Factor")
    padding = window_padding(n, x.shape[2:], kernel, strides, dilations)
    strides = without_second_window(strides, x.shape[2:], padding)
    x, known = explicitly_padded(n, x, padding, 0.0)
    result: Operand = n.op("nn.conv2d", x, filters, strides=strides, padding=known, dilation=dilations, groups=groups)
    if n.has(2):
        result = n.op("nn.bias_add", result, n[2])
    return activated(n, Laid(first=result))
