"""Names for the nodes of an optimized graph, made from the names of their operators, such as `conv2d_add_relu_3`."""

from __future__ import annotations

from ..expr.printer import fresh, identifier
from .nodes import CALL_PACKED, CALL_TIR, LOOP, Graph, OpNode

MOST_PARTS = 4  # operators that a name lists; more become "etc"


def operator_names(graph: Graph, within: str = "") -> list[str]:
    """Return a unique name for each node of the graph, in order.

    `minitvm show` prints these names, and its option --op accepts them. If the graph is the body of a loop, `within` is
    the name of the loop, and the names begin with it.
    """
    names: list[str] = []
    used: set[str] = set()
    for item in graph.nodes:
        if item.engine:
            names.append(fresh(identifier(item.graph.name), used))
            continue
        parts = list(dict.fromkeys(_word(n) for n in item.operators))
        name = identifier("_".join(parts[:MOST_PARTS])) + ("_etc" if len(parts) > MOST_PARTS else "")
        names.append(fresh(f"{within}_{name}" if within else name, used))
    return names


def _word(item: OpNode) -> str:
    """Return the operator's name without its namespace. For a call of a loop program, it is the program's name.

    For a pool, the number in the name is the number of axes along which its windows have several elements. For example,
    a pool over an image with blocked channels is a `pool3d` whose windows have one element along the axis inside a
    block; it is called `2d`.
    """
    if item.op == CALL_TIR:
        return str(item.attrs["func"].name)
    name = item.op.split(".")[-1].removeprefix("contrib_")
    if name.endswith("_pool3d") and item.attrs["pool_size"][-1] == 1:
        return f"{name.removesuffix('3d')}2d"
    return name


def functions(graph: Graph, within: str = "") -> list[tuple[str, OpNode]]:
    """Return the names and nodes of an optimized graph that become functions, including those in loop bodies.

    An engine computes a region, and a run calls Python functions, so these are not listed.
    """
    listed: list[tuple[str, OpNode]] = []
    for name, item in zip(operator_names(graph, within), graph.nodes, strict=True):
        if not item.engine and item.op != CALL_PACKED:
            listed += functions(item.body, name) if item.op == LOOP else [(name, item)]
    return listed
