"""Convert operators of StableHLO, which newer converters write beside TFLite's own."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....errors import ModelError
from ...common.operand import Operand
from ..context import NodeContext
from ..layouts import Laid
from ..registry import converter
from .control import while_

_SAME = {
    "ABS": "abs", "ADD": "add", "COSINE": "cos", "DIVIDE": "divide", "EXPONENTIAL": "exp", "FLOOR": "floor",
    "LOG": "log", "LOGISTIC": "sigmoid", "MAXIMUM": "maximum", "MINIMUM": "minimum", "MULTIPLY": "multiply",
    "NEGATE": "negative", "POWER": "power", "REMAINDER": "mod", "RSQRT": "rsqrt", "SELECT": "where",
    "SHIFT_LEFT": "left_shift", "SUBTRACT": "subtract", "TANH": "tanh",
}  # fmt: skip
_PREFIX = "STABLEHLO_"
_COMPARISONS = ("equal", "not_equal", "greater_equal", "greater", "less_equal", "less")  # by their number


@converter(*(_PREFIX + name for name in _SAME))
def same(n: NodeContext) -> Any:
    return n.op_laid(_SAME[n.node.name.removeprefix(_PREFIX)], *(n.laid(k) for k in range(len(n.inputs))))


@converter("STABLEHLO_AND", "STABLEHLO_OR")
def bits(n: NodeContext) -> Any:
    name = n.node.name.removeprefix(_PREFIX).lower()
    kind = "logical" if n.laid(0).operand.dtype.is_bool else "bitwise"
    return n.op_laid(f"{kind}_{name}", n.laid(0), n.laid(1))


@converter("STABLEHLO_CBRT")
def cube_root(n: NodeContext) -> Any:
    x = n.laid(0)
    root = n.op("power", n.op("abs", x.operand), 1 / 3)
    return Laid.of(n.op("multiply", n.op("sign", x.operand), root), x.order)


@converter("STABLEHLO_CLAMP")
def clamp(n: NodeContext) -> Any:
    """Return an operand (input 1) that is at least input 0 and at most input 2."""
    return n.op_laid("minimum", n.op_laid("maximum", n.laid(1), n.laid(0)), n.laid(2))


@converter("STABLEHLO_COMPARE")
def compare(n: NodeContext) -> Any:
    return n.op_laid(_COMPARISONS[n.option("ComparisonDirection")], n.laid(0), n.laid(1))


@converter("STABLEHLO_CONVERT")
def convert(n: NodeContext) -> Any:
    x = n.laid(0)
    return Laid.of(n.cast(x.operand, str(n.result_dtype())), x.order)


@converter("STABLEHLO_CONCATENATE", bytes="stored")
def concatenate(n: NodeContext) -> Any:
    parts, order = n.aligned(*(n.laid(k) for k in range(len(n.inputs))))
    return Laid.of(n.op("concatenate", *parts, axis=order.index(n.axis(n.option("Dimension"), len(order)))), order)


@converter("STABLEHLO_RESHAPE", bytes="stored")
def reshape(n: NodeContext) -> Any:
    return n.reshape(n[0], n.result().shape)


@converter("STABLEHLO_TRANSPOSE", bytes="stored")
def transpose(n: NodeContext) -> Any:
    x = n.laid(0)
    return n.moved(x.operand, [x.order.index(axis) for axis in n.option("Permutation")])


@converter("STABLEHLO_BROADCAST_IN_DIM", bytes="stored")
def broadcast_in_dim(n: NodeContext) -> Any:
    """Spread x over the shape of the result; its axes become those that the option names."""
    x, axes, shape = n[0], n.ints(n[1], "the axes"), n.result().shape
    if len(axes) != x.ndim:
        raise ModelError(f"{n.where}: wanted {x.ndim} axes, found {axes}")
    spread = dict(zip(axes, x.shape, strict=True))
    return n.op("broadcast_to", n.reshape(x, [spread.get(axis, 1) for axis in range(len(shape))]), shape=shape)


@converter("STABLEHLO_SLICE", bytes="stored")
def slice_(n: NodeContext) -> Any:
    x = n.laid(0)
    begin, end, strides = (n.option(name) for name in ("StartIndices", "LimitIndices", "Strides"))
    axes = tuple(x.order.index(axis) for axis in range(x.ndim))
    return Laid.of(n.op("strided_slice", x.operand, begin=begin, end=end, strides=strides, axes=axes), x.order)


@converter("STABLEHLO_IOTA")
def iota(n: NodeContext) -> Any:
    """Return numbers 0, 1, ... along one axis of the result's shape."""
    shape, axis = n.result().shape, n.axis(n.option("IotaDimension"), len(n.result().shape))
    line = np.arange(shape[axis]).reshape([-1 if a == axis else 1 for a in range(len(shape))])
    return Operand.known(np.broadcast_to(line, shape).astype(n.result_dtype().numpy))


@converter("STABLEHLO_PAD", bytes="stored")
def pad(n: NodeContext) -> Any:
    """Pad with input 1, also between the elements of an axis."""
    x, value = n[0], n.reshape(n[1], ())
    low, high, inner = (n.option(name) for name in ("EdgePaddingLow", "EdgePaddingHigh", "InteriorPadding"))
    for axis, gap in enumerate(inner):
        if gap:
            extent = n.size(x, axis)
            apart = n.op("expand_dims", x, axis=(axis + 1,))
            widths = [(0, gap) if a == axis + 1 else (0, 0) for a in range(x.ndim + 1)]
            apart = n.op("nn.pad", apart, value, pad_width=widths)
            wide = n.reshape(apart, [*x.shape[:axis], extent * (gap + 1), *x.shape[axis + 1 :]])
            x = n.part(wide, axis, 0, max(extent * (gap + 1) - gap, 0))
    return n.op("nn.pad", x, value, pad_width=list(zip(low, high, strict=True)))


@converter("STABLEHLO_WHILE", bytes="own")
def loop(n: NodeContext) -> Any:
    return while_(n)
