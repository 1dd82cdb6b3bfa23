"""The padding of windows over one or more spatial axes: convolutions and pools."""

from __future__ import annotations

from collections.abc import Sequence

from ...graph.nodes import Dim
from ...te import maximum
from ...topi.shapes import simple
from .conversion import Conversion
from .operand import Operand


def same_padding(
    spatial: Sequence[Dim], kernel: Sequence[Dim], strides: Sequence[int], dilations: Sequence[int], lower: bool = False
) -> tuple[Dim, ...]:
    """Return all paddings before, then all after, with which each stride that begins within the input has one output.

    An odd element is added at the end, or with `lower` at the beginning. Paddings are symbolic if an extent is.
    """
    before, after = [], []
    for extent, k, s, d in zip(spatial, kernel, strides, dilations, strict=False):
        needed = simple(((extent + (s - 1)) // s - 1) * s + ((k - 1) * d + 1) - extent)
        total = max(0, needed) if isinstance(needed, int) else simple(maximum(needed, 0))
        small = simple(total // 2)
        large = simple(total - small)
        before.append(large if lower else small)
        after.append(small if lower else large)
    return (*before, *after)


def without_second_window(strides: Sequence[int], spatial: Sequence[Dim], padding: Sequence[Dim]) -> tuple[int, ...]:
    """Return strides no longer than the padded data. Legal: with a stride of at least its length, there is no second
    window.
    """
    rank = len(strides)
    sizes = [simple(n + padding[a] + padding[rank + a]) for a, n in enumerate(spatial)]
    return tuple(min(s, max(n, 1)) if isinstance(n, int) else s for s, n in zip(strides, sizes, strict=True))


def explicitly_padded(
    n: Conversion, x: Operand, padding: tuple[Dim, ...], fill: float | None
) -> tuple[Operand, tuple[int, ...]]:
    """Return the data and paddings of windows. If paddings are symbolic and there is a `fill`, an operator pads the
    data first.
    """
    numbers = tuple(p for p in padding if isinstance(p, int))
    if len(numbers) == len(padding):
        return x, numbers
    if fill is None:
        n.refuse(f"auto_pad with a stride on the open sizes of {x} is not supported")
    rank = len(padding) // 2
    widths = [(0, 0), (0, 0), *zip(padding[:rank], padding[rank:], strict=True)]
    return n.op("nn.pad", x, pad_width=widths, pad_value=fill), (0,) * len(padding)
