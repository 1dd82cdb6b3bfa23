"""Names for the nodes of an optimized graph, made of their operators: `conv2d_add_relu_3`."""

from __future__ import annotations

from ..expr.names import fresh, identifier
from .nodes import FUSED, Graph

MOST_PARTS = 4  # operators that a name lists; more become "etc"


def operator_names(graph: Graph) -> list[str]:
    """One unique name for each node of the graph, in order; `minitvm show` prints them and its --op takes them."""
    names: list[str] = []
    used: set[str] = set()
    for item in graph.nodes:
        inner = item.graph.nodes if item.op == FUSED else (item,)
        parts = list(dict.fromkeys(n.op.split(".")[-1].removeprefix("contrib_") for n in inner))
        name = identifier("_".join(parts[:MOST_PARTS])) + ("_etc" if len(parts) > MOST_PARTS else "")
        names.append(fresh(name, used))
    return names
