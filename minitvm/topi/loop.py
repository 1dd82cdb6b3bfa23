"""The operator `loop`, which contains a graph. `graph.loop_bodies` describes its meaning."""

from __future__ import annotations

from typing import Any, NoReturn

from ..errors import UnsupportedOperator
from ..expr import DType
from .registry import TensorType, register


def _types(*inputs: TensorType, carried: int, **_: Any) -> list[TensorType]:
    """Return the types of a loop's results: a count, and the carried values with their initial types."""
    return [((), DType("int64")), *inputs[2 : 2 + carried]]


@register("loop", infer=_types)
def loop(*inputs: Any, body: Any, carried: int, most: Any = None, where: str = "") -> NoReturn:  # noqa: ARG001
    """Run a graph as long as a count and a condition hold. `graph.loop_bodies` describes its inputs and outputs.

    As a te function it always raises `UnsupportedOperator`, because the body is compiled to separate functions.
    """
    raise UnsupportedOperator("a loop is no tensor expression: its body has functions of its own")
