"""Convert operators that give a tensor another shape, join tensors, or cut them apart."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from ....errors import ModelError
from ...common.operand import Operand
from ..context import NodeContext
from ..layouts import Laid
from ..quantized import in_floats, quantization, same_scale, with_result
from ..registry import converter
from .activations import activated


@converter("RESHAPE", bytes="stored")
def reshape(n: NodeContext) -> Any:
    """The shape is the second input, or an option of old files."""
    if n.has(1):
        return n.reshape(n[0], n.dims(n[1], "the shape"))
    return n.reshape(n[0], n.option("NewShape"))


@converter("SQUEEZE", bytes="stored")
def squeeze(n: NodeContext) -> Any:
    x = n[0]
    axes = tuple(n.axis(axis, x.ndim) for axis in n.option("SqueezeDims", ()))
    if not axes:
        axes = tuple(axis for axis, extent in enumerate(x.shape) if isinstance(extent, int) and extent == 1)
    return n.op("squeeze", x, axis=axes) if axes else x


@converter("EXPAND_DIMS", bytes="stored")
def expand_dims(n: NodeContext) -> Any:
    x = n[0]
    return n.op("expand_dims", x, axis=(n.axis(int(n.scalar(n[1], "the axis")), x.ndim + 1),))


@converter("TRANSPOSE", bytes="stored")
def transpose(n: NodeContext) -> Any:
    """Return a transpose, in one step from the order of axes in memory."""
    x, axes = n.laid(0), n.ints(n[1], "the permutation")
    if sorted(n.axis(axis, x.ndim) for axis in axes) != list(range(x.ndim)):
        raise ModelError(f"{n.where}: {list(axes)} is no permutation of {x.ndim} axes")
    return n.moved(x.operand, [x.order.index(axis % x.ndim) for axis in axes])


@converter("CONCATENATION", bytes="own")
def concatenation(n: NodeContext) -> Any:
    """Join tensors along an axis. Quantised parts are rescaled, unless all of them have the scale of the result."""
    if not n.option("FusedActivationFunction", 0) and all(
        same_scale(n.info(k), n.result()) for k in range(len(n.inputs))
    ):
        return _joined(n)
    in_floats(n)
    return with_result(n, activated(n, _joined(n)))


def _joined(n: NodeContext) -> Laid:
    parts, order = n.aligned(*(n.laid(k) for k in range(len(n.inputs))))
    axis = n.axis(int(n.option("Axis", 0)), len(order))
    return Laid.of(n.op("concatenate", *parts, axis=order.index(axis)), order)


@converter("PACK", bytes="stored")
def pack(n: NodeContext) -> Any:
    parts = [n[k] for k in range(len(n.inputs))]
    return n.op("stack", *parts, axis=n.axis(int(n.option("Axis", 0)), parts[0].ndim + 1))


@converter("UNPACK", bytes="stored")
def unpack(n: NodeContext) -> Any:
    x = n[0]
    axis = n.axis(int(n.option("Axis", 0)), x.ndim)
    return [n.entry(x, k, axis) for k in range(len(n.node.outputs))]


@converter("SPLIT", bytes="stored")
def split(n: NodeContext) -> Any:
    x, count = n.laid(1), len(n.node.outputs)
    axis = n.axis(int(n.scalar(n[0], "the axis")), x.ndim)
    extent = x.shape[axis]
    if not isinstance(extent, int) or extent % count:
        n.refuse(f"{count} equal parts of the axis {axis} of {x.operand}")
    return _parts(n, x, axis, [extent // count] * count)


@converter("SPLIT_V", bytes="stored")
def split_v(n: NodeContext) -> Any:
    x, sizes = n.laid(0), list(n.ints(n[1], "the sizes"))
    axis = n.axis(int(n.scalar(n[2], "the axis")), x.ndim)
    extent = x.shape[axis]
    if -1 in sizes and isinstance(extent, int):
        sizes[sizes.index(-1)] = extent - sum(size for size in sizes if size != -1)
    if min(sizes, default=0) < 0 or (isinstance(extent, int) and sum(sizes) != extent):
        raise ModelError(f"{n.where}: the sizes {sizes} of parts of {extent} entries")
    return _parts(n, x, axis, sizes)


def _parts(n: NodeContext, x: Laid, axis: int, sizes: list[int]) -> list[Laid]:
    ends = np.cumsum([0, *sizes]).tolist()
    place = x.order.index(axis)
    return [Laid.of(n.part(x.operand, place, *pair), x.order) for pair in itertools.pairwise(ends)]


@converter("PAD", "PADV2", bytes="own")
def pad(n: NodeContext) -> Any:
    """Pad with zeros, or with the third input. A quantised zero is stored as the zero point."""
    x = n.laid(0)
    widths = _widths(n, x)
    if n.has(2):
        value = n.reshape(n[2], ())
        padded: Operand = n.op("nn.pad", x.operand, value, pad_width=widths)
        return Laid.of(padded, x.order)
    parameters = quantization(n.info(0))
    fill = 0 if parameters is None else int(parameters.zero_point[0])
    return Laid.of(n.op("nn.pad", x.operand, pad_width=widths, pad_value=fill), x.order)


def _widths(n: NodeContext, x: Laid) -> list[tuple[int, int]]:
    """Return the pairs (before, after) of the second input, in the order of the axes of x."""
    pairs = n.static(n[1], "the paddings")
    if pairs.shape != (x.ndim, 2) or pairs.min(initial=0) < 0:
        raise ModelError(f"{n.where}: wanted {x.ndim} pairs of paddings from 0, found {pairs.tolist()}")
    return [(int(pairs[axis, 0]), int(pairs[axis, 1])) for axis in x.order]
