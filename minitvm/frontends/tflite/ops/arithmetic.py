"""Convert functions of two numbers, with broadcasting."""

from __future__ import annotations

from typing import Any

from ..context import NodeContext
from ..layouts import Laid
from ..registry import converter
from .activations import activated

_ACTIVATED = {"ADD": "add", "SUB": "subtract", "MUL": "multiply", "DIV": "divide"}
_SAME = {
    "ATAN2": "atan2", "BITWISE_XOR": "bitwise_xor", "EQUAL": "equal", "FLOOR_MOD": "floor_mod", "GREATER": "greater",
    "GREATER_EQUAL": "greater_equal", "LESS": "less", "LESS_EQUAL": "less_equal", "LOGICAL_AND": "logical_and",
    "LOGICAL_OR": "logical_or", "MAXIMUM": "maximum", "MINIMUM": "minimum", "NOT_EQUAL": "not_equal", "POW": "power",
    "RIGHT_SHIFT": "right_shift",
}  # fmt: skip


@converter(*_ACTIVATED)
def with_activation(n: NodeContext) -> Any:
    return activated(n, n.op_laid(_ACTIVATED[n.node.name], n.laid(0), n.laid(1)))


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
