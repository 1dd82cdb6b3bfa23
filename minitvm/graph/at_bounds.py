"""A graph at the largest sizes that its data may decide: static, so that its operators can be looked at one by one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..expr import Expr, Var, as_expr, replace, substitute
from .nodes import BIND_SIZE, FUSED, Constant, Graph, OpNode, Value


def at_bounds(graph: Graph) -> Graph:
    """The graph with each size that data decide (`bind_size`) written as its bound; its bindings become copies."""
    sizes: dict[Var, Expr] = {}
    for item in graph.nodes:
        for binding in item.graph.nodes if item.op == FUSED else (item,):
            if binding.op == BIND_SIZE:
                sizes[binding.attrs["size"]] = as_expr(_at(binding.attrs["most"], sizes))
    return _rewritten(graph, sizes) if sizes else graph


def _rewritten(graph: Graph, sizes: Mapping[Var, Expr]) -> Graph:
    new = {v: Value(v.name, tuple(_at(d, sizes) for d in v.shape), v.dtype) for v in graph.values()}

    def of(values: tuple[Value, ...]) -> tuple[Value, ...]:
        return tuple(new[v] for v in values)

    nodes = []
    for item in graph.nodes:
        op, attrs = item.op, {name: _at(value, sizes) for name, value in item.attrs.items()}
        if op == FUSED:
            attrs = {"graph": _rewritten(item.graph, sizes)}
        elif op == BIND_SIZE:
            op, attrs = "copy", {}
        nodes.append(OpNode(op, of(item.inputs), attrs, of(item.outputs)))
    constants = tuple(Constant(new[c.value], c.data) for c in graph.constants)
    return replace(graph, inputs=of(graph.inputs), constants=constants, nodes=tuple(nodes), outputs=of(graph.outputs))


def _at(value: Any, sizes: Mapping[Var, Expr]) -> Any:
    """A dimension, or an attribute that may hold some, at those sizes."""
    from ..topi.shapes import simple

    if isinstance(value, Expr):
        return simple(substitute(value, sizes))
    return tuple(_at(part, sizes) for part in value) if isinstance(value, tuple) else value
