"""Replace each data-dependent size in a graph with its upper bound.

The resulting graph is static, so its operators can be run one by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..expr import Expr, Var, as_expr, replace, substitute
from .nodes import BIND_SIZE, FUSED, LOOP, Constant, Graph, OpNode, Value


def at_bounds(graph: Graph) -> Graph:
    """Replace each data-dependent size (`bind_size`) with its upper bound. The `bind_size` nodes become copies."""
    sizes: dict[Var, Expr] = {}
    _bind(graph, sizes)
    return with_sizes(graph, sizes) if sizes else graph


def _bind(graph: Graph, sizes: dict[Var, Expr]) -> None:
    """In `sizes`, map every size that a graph binds to its upper bound, including sizes that are bound in groups and
    loops.
    """
    for item in graph.nodes:
        if item.op == FUSED:
            _bind(item.graph, sizes)
        elif item.op == LOOP:
            _bind(item.body, sizes)
        elif item.op == BIND_SIZE:
            sizes[item.attrs["size"]] = as_expr(_at(item.attrs["most"], sizes))


def with_sizes(graph: Graph, sizes: Mapping[Var, Expr]) -> Graph:
    """Return the graph with sizes replaced by expressions. A `bind_size` becomes a copy."""
    new = {v: Value(v.name, tuple(_at(d, sizes) for d in v.shape), v.dtype) for v in graph.values()}

    def of(values: tuple[Value, ...]) -> tuple[Value, ...]:
        return tuple(new[v] for v in values)

    nodes = []
    for item in graph.nodes:
        op, attrs = item.op, {name: _at(value, sizes) for name, value in item.attrs.items()}
        if op == FUSED:
            attrs = {"graph": with_sizes(item.graph, sizes)}
        elif op == LOOP:
            attrs["body"] = with_sizes(item.body, sizes)
        elif op == BIND_SIZE:
            op, attrs = "copy", {}
        nodes.append(OpNode(op, of(item.inputs), attrs, of(item.outputs)))
    constants = tuple(Constant(new[c.value], c.data) for c in graph.constants)
    return replace(graph, inputs=of(graph.inputs), constants=constants, nodes=tuple(nodes), outputs=of(graph.outputs))


def _at(value: Any, sizes: Mapping[Var, Expr]) -> Any:
    """Replace the sizes in a dimension, or in an attribute that may contain dimensions, with their bounds."""
    from ..topi.shapes import simple

    if isinstance(value, Expr):
        return simple(substitute(value, sizes))
    return tuple(_at(part, sizes) for part in value) if isinstance(value, tuple) else value
