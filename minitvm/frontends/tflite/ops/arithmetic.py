"""Convert functions of two numbers, with broadcasting."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes
from ..context import NodeContext
from ..layouts import Laid
from ..quantized import in_floats, quantization, requantized, scaled, with_result
from ..registry import converter
from .activations import NotBounds, activated, limits_of

_MORE_BITS = 20

_ACTIVATED = {"ADD": "add", "SUB": "subtract", "MUL": "multiply", "DIV": "divide"}
_SAME = {
    "ATAN2": "atan2", "BITWISE_XOR": "bitwise_xor", "EQUAL": "equal", "FLOOR_MOD": "floor_mod", "GREATER": "greater",
    "GREATER_EQUAL": "greater_equal", "LESS": "less", "LESS_EQUAL": "less_equal", "LOGICAL_AND": "logical_and",
    "LOGICAL_OR": "logical_or", "MAXIMUM": "maximum", "MINIMUM": "minimum", "NOT_EQUAL": "not_equal", "POW": "power",
    "RIGHT_SHIFT": "right_shift",
}  # fmt: skip


@converter(*_ACTIVATED, bytes="own")
def with_activation(n: NodeContext) -> Any:
    exact = _in_integers(n)
    if exact is not None:
        return exact
    in_floats(n)
    return with_result(n, activated(n, n.op_laid(_ACTIVATED[n.node.name], n.laid(0), n.laid(1))))


def _in_integers(n: NodeContext) -> Laid | None:
    """Return a sum, difference or product of 8-bit tensors to the bit, or None if it is computed in floats.

    Summands are brought to the same scale, the larger one doubled, with 20 bits more than the stored numbers.
    """
    infos = (n.info(0), n.info(1), n.result())
    parameters = [quantization(info) for info in infos]
    if n.node.name not in ("ADD", "SUB", "MUL") or any(p is None or p.per_channel for p in parameters):
        return None
    if any(dtypes.DTYPES[info.type] not in ("int8", "uint8") for info in infos):
        return None
    try:
        limits = limits_of(n)
    except NotBounds:
        return None
    (a, b), order = n.aligned(n.laid(0), n.laid(1))
    first, second, result = (p.scale[0] for p in parameters if p is not None)
    steps = [
        n.op("subtract", n.cast(x, "int32"), p.zero_point[0].astype(np.int32))
        for x, p in zip((a, b), parameters, strict=False) if p is not None
    ]  # fmt: skip
    if n.node.name == "MUL":
        factor = np.asarray(np.float32(first * second) / result, np.float64)
        return Laid.of(requantized(n, n.op("multiply", *steps), factor, n.result(), limits), order)
    twice = 2.0 * max(float(first), float(second))
    wide = [
        scaled(n, n.op("left_shift", x, np.array(_MORE_BITS, np.int32)), np.asarray(float(scale) / twice))
        for x, scale in zip(steps, (first, second), strict=True)
    ]
    total = n.op("add" if n.node.name == "ADD" else "subtract", *wide)
    factor = np.asarray(twice / ((1 << _MORE_BITS) * float(result)))
    return Laid.of(requantized(n, total, factor, n.result(), limits), order)


@converter(*_SAME)
def binary(n: NodeContext) -> Any:
    return n.op_laid(_SAME[n.node.name], n.laid(0), n.laid(1))


@converter("FLOOR_DIV")
def floor_div(n: NodeContext) -> Any:
    if not n.laid(0).operand.dtype.is_float:
        return n.op_laid("floor_divide", n.laid(0), n.laid(1))
    return n.op_laid("floor", n.op_laid("divide", n.laid(0), n.laid(1)))


@converter("SQUARED_DIFFERENCE")
def squared_difference(n: NodeContext) -> Any:
    difference = n.op_laid("subtract", n.laid(0), n.laid(1))
    return n.op_laid("multiply", difference, difference)


@converter("ADD_N")
def add_n(n: NodeContext) -> Any:
    total = n.laid(0)
    for position in range(1, len(n.inputs)):
        total = n.op_laid("add", total, n.laid(position))
    return total


@converter("SELECT", "SELECT_V2")
def select(n: NodeContext) -> Any:
    """Return x where the condition holds, and y elsewhere. In SELECT, a vector of conditions selects whole rows."""
    condition, x, y = (n.laid(k) for k in range(3))
    if n.node.name == "SELECT" and condition.ndim == 1 and x.ndim > 1:
        condition = Laid(n.reshape(n.last(condition), (-1, *(1,) * (x.ndim - 1))))
    return n.op_laid("where", condition, x, y)
