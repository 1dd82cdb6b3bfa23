"""Convert convolutions of volumes, and transposed convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...common.operand import Operand
from ...common.windows import explicitly_padded, without_second_window
from ..context import NodeContext
from ..layouts import Laid
from ..quantized import in_floats, with_result
from ..registry import converter
from .activations import activated
from .convolution import SAME, steps, window_padding


@converter("CONV_3D")
def conv_3d(n: NodeContext) -> Any:
    """Convolve a volume [n, d, h, w, c] with filters [kd, kh, kw, c / groups, o]."""
    x, filters = n.first(n.laid(0)), n.moved(n[1], (4, 3, 0, 1, 2))
    strides, dilations = steps(n, "Stride{}", "DHW"), steps(n, "Dilation{}Factor", "DHW")
    padding = window_padding(n, x.shape[2:], filters.shape[2:], strides, dilations)
    strides = without_second_window(strides, x.shape[2:], padding)
    x, pads = explicitly_padded(n, x, padding, 0.0)
    channels, own = n.size(x, 1), n.size(filters, 1)
    if own == 0 or channels % own:
        n.refuse(f"filters of {own} channels over a volume of {channels} channels")
    result: Operand = n.op(
        "nn.conv3d", x, filters, strides=strides, padding=pads, dilation=dilations, groups=channels // own
    )
    return activated(n, Laid(first=_with_bias(n, result, 2)))


@converter("TRANSPOSE_CONV", bytes="own")
def transpose_conv(n: NodeContext) -> Any:
    """The transposed convolution of an image (input 2) with filters [o, kh, kw, c], of the shape that input 0 gives."""
    in_floats(n)
    result = _transposed(n, n.moved(n[1], (3, 0, 1, 2)), steps(n, "Stride{}"))
    return with_result(n, activated(n, Laid(first=_with_bias(n, result, 3))))


@converter("CONV_3D_TRANSPOSE")
def conv_3d_transpose(n: NodeContext) -> Any:
    """The transposed convolution of a volume (input 2) with filters [kd, kh, kw, o, c]."""
    if any(step != 1 for step in steps(n, "Dilation{}Factor", "DHW")):
        n.refuse("a dilated transposed convolution is not supported")
    result = _transposed(n, n.moved(n[1], (4, 3, 0, 1, 2)), steps(n, "Stride{}", "DHW"))
    return activated(n, Laid(first=_with_bias(n, result, 3)))


def _transposed(n: NodeContext, filters: Operand, strides: Sequence[int]) -> Operand:
    """Return a transposed convolution. What its result has less than the shape that the node gives is cut off, half of
    it at the beginning; what it has more is zeros at the end.
    """
    x, rank = n.first(n.laid(2)), filters.ndim - 2
    target = n.ints(n[0], "the shape of the result")[1:-1]
    before, after, extra = [], [], []
    for extent, kernel, stride, size in zip(n.sizes(x, 2), n.sizes(filters, 2), strides, target, strict=True):
        whole = (extent - 1) * stride + kernel
        cut = max(whole - size, 0) if n.option("Padding") == SAME else 0
        before.append(cut // 2)
        after.append(cut - cut // 2)
        extra.append(size - (whole - cut))
    # More or fewer elements than the windows reach: TFLite only uses the shape.
    result: Operand = n.op(f"nn.conv{rank}d_transpose", x, filters, strides=tuple(strides), padding=(*before, *after))
    if any(extra):
        widths = [(0, 0), (0, 0), *((0, more) for more in extra)]
        result = n.op("nn.pad", result, pad_width=widths)
    return result


def _with_bias(n: NodeContext, x: Operand, position: int) -> Operand:
    if not n.has(position):
        return x
    biased: Operand = n.op("nn.bias_add", x, n[position])
    return biased
