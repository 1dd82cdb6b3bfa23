"""Graphs: operators on whole tensors.

b = GraphBuilder()
x = b.input("x", (1, 3, 32, 32))
w = b.constant(weights)
y = b.op("nn.relu", b.op("nn.conv2d", x, w, padding=(1, 1)))
graph = b.build(y)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .nodes import Constant, Dim, Graph, GraphState, OpNode, Value

if TYPE_CHECKING:
    from ..topi.registry import Operator, Pattern, register
    from .builder import GraphBuilder
    from .lower import to_prim_func
    from .passes.pipeline import optimize
    from .verify import verify_graph

_DEFINED_IN = {
    "GraphBuilder": ".builder",
    "Operator": "..topi.registry",
    "Pattern": "..topi.registry",
    "optimize": ".passes.pipeline",
    "register": "..topi.registry",
    "to_prim_func": ".lower",
    "verify_graph": ".verify",
}

__all__ = [
    "Constant",
    "Dim",
    "Graph",
    "GraphBuilder",
    "GraphState",
    "OpNode",
    "Operator",
    "Pattern",
    "Value",
    "optimize",
    "register",
    "to_prim_func",
    "verify_graph",
]


def __getattr__(name: str) -> Any:
    # On first use only: the oracle reads the nodes and must not load operators, passes or arith for them.
    if name in _DEFINED_IN:
        import importlib

        return getattr(importlib.import_module(_DEFINED_IN[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
