"""Names for the nodes of an optimized graph, made of their operators: `conv2d_add_relu_3`."""

from __future__ import annotations

from ..expr.printer import fresh, identifier
from .nodes import LOOP, Graph, OpNode

MOST_PARTS = 4  # operators that a name lists; more become "etc"


def operator_names(graph: Graph, within: str = "") -> list[str]:
    """One unique name for each node of the graph, in order; `minitvm show` prints them and its --op takes them.

    `within` is the name of the loop whose body the graph is: the names begin with it.
    """
    names: list[str] = []
    used: set[str] = set()
    for item in graph.nodes:
        parts = list(dict.fromkeys(_word(n) for n in item.operators))
        name = identifier("_".join(parts[:MOST_PARTS])) + ("_etc" if len(parts) > MOST_PARTS else "")
        names.append(fresh(f"{within}_{name}" if within else name, used))
    return names


def _word(item: OpNode) -> str:
    """An operator's name without where it is registered; that of a pool says over how many axes its windows reach.

    A pool over an image in blocks is one of three axes, with windows of one element along the axis inside of a block.
    """
    name = item.op.split(".")[-1].removeprefix("contrib_")
    if name.endswith("_pool3d") and item.attrs["pool_size"][-1] == 1:
        return f"{name.removesuffix('3d')}2d"
    return name


def functions(graph: Graph, within: str = "") -> list[tuple[str, OpNode]]:
    """The nodes of an optimized graph that are functions, by name, with those in the bodies of its loops."""
    listed: list[tuple[str, OpNode]] = []
    for name, item in zip(operator_names(graph, within), graph.nodes, strict=True):
        listed += functions(item.body, name) if item.op == LOOP else [(name, item)]
    return listed
