"""Remove nodes and constants that no output needs. The inputs stay: they are the graph's signature.

A node that binds a size is needed if a shape or an attribute contains the size, even if no node reads its output. A
node that is a check stays, because it may end a run.
"""

from __future__ import annotations

from ...expr import Expr, Var, free_vars, replace
from ..nodes import Graph, OpNode, Value


def dead_code(graph: Graph) -> Graph:
    """Remove the nodes and constants that no output needs. Inputs are kept, and so are checks that may stop a run.

    before:
        x = b.input("x", (2, 3))
        y = b.op("nn.relu", x)
        z = b.op("exp", x)
        return y
    after:
        def main(x: float32[2, 3]):
            relu: float32[2, 3] = nn.relu(x)
            return relu
    """
    needed: set[Value] = set(graph.outputs)
    sizes: set[Var] = {v for value in graph.outputs for d in value.shape if isinstance(d, Expr) for v in free_vars(d)}
    binds = any(item.bound_sizes() for item in graph.nodes)
    kept: list[OpNode] = []
    for item in reversed(graph.nodes):
        used = any(value in needed for value in item.outputs) or any(size in sizes for size in item.bound_sizes())
        if used or item.stops_runs():
            kept.append(item)
            needed.update(item.inputs)
            if binds:
                sizes.update(item.mentioned())
    constants = tuple(c for c in graph.constants if c.value in needed)
    return replace(graph, constants=constants, nodes=tuple(reversed(kept)))
