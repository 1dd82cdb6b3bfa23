"""Convert functions of one number, among them the activation that many operators apply to their result."""

from __future__ import annotations

import math
from typing import Any

from ..context import NodeContext
from ..layouts import Laid
from ..registry import converter

# The operators with the same meaning.
_SAME = {
    "ABS": "abs", "CEIL": "ceil", "COS": "cos", "ELU": "nn.elu", "EXP": "exp", "FLOOR": "floor",
    "HARD_SWISH": "nn.hard_swish", "LOG": "log", "LOGICAL_NOT": "logical_not", "LOGISTIC": "sigmoid", "NEG": "negative",
    "RELU": "nn.relu", "ROUND": "round", "RSQRT": "rsqrt", "SIGN": "sign", "SIN": "sin", "SQRT": "sqrt", "TANH": "tanh",
}  # fmt: skip
_CLIPPED = {"RELU_N1_TO_1": (-1.0, 1.0), "RELU6": (0.0, 6.0), "RELU_0_TO_1": (0.0, 1.0)}

# ActivationFunctionType by number.
_FUSED = {0: "", 1: "RELU", 2: "RELU_N1_TO_1", 3: "RELU6", 4: "TANH"}


@converter(*_SAME, *_CLIPPED)
def function(n: NodeContext) -> Any:
    return applied(n, n.node.name, n.laid(0))


def applied(n: NodeContext, name: str, x: Laid) -> Laid:
    """Return a function of TFLite of each element."""
    if name in _CLIPPED:
        low, high = _CLIPPED[name]
        return n.op_laid("clip", x, a_min=low, a_max=high)
    return n.op_laid(_SAME[name], x)


def activated(n: NodeContext, x: Laid) -> Laid:
    """Return the result of an operator after the activation function in its options."""
    number = n.option("FusedActivationFunction", 0)
    if number not in _FUSED:
        n.refuse(f"the activation function {number} is not supported")
    return applied(n, _FUSED[number], x) if number else x


def limits_of(n: NodeContext) -> tuple[float, float] | None:
    """Return the bounds of real numbers that the activation function in the options means; None for no function.

    Raises `NotBounds` for one that is not a bound.
    """
    name = _FUSED.get(n.option("FusedActivationFunction", 0))
    bounds = {"": None, "RELU": (0.0, math.inf), **_CLIPPED}
    if name not in bounds:
        raise NotBounds
    return bounds[name]


class NotBounds(Exception):
    """An activation function is not a bound."""


@converter("LEAKY_RELU")
def leaky_relu(n: NodeContext) -> Any:
    return n.op_laid("nn.leaky_relu", n.laid(0), alpha=float(n.option("Alpha", 0.0)))


@converter("GELU")
def gelu(n: NodeContext) -> Any:
    return n.op_laid("nn.gelu", n.laid(0), approximate="tanh" if n.option("Approximate", False) else "none")


@converter("SQUARE")
def square(n: NodeContext) -> Any:
    return n.op_laid("multiply", n.laid(0), n.laid(0))


@converter("PRELU")
def prelu(n: NodeContext) -> Any:
    """Return x where it is positive, and slope * x elsewhere. Slopes broadcast; usually there is one per channel."""
    (x, slope), order = n.aligned(n.laid(0), n.laid(1))
    long = [axis for axis in range(slope.ndim) if slope.shape[axis] != 1]
    axis = x.ndim - slope.ndim + (long[0] if long else slope.ndim - 1)
    if len(long) == 1 and slope.shape[long[0]] == x.shape[axis]:
        return Laid.of(n.op("nn.prelu", x, n.reshape(slope, (-1,)), axis=axis), order)
    zero = n.op("less", x, 0.0)
    return Laid.of(n.op("where", zero, n.op("multiply", x, slope), x), order)
