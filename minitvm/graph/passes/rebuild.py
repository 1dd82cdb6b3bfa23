"""What the passes share: a graph from the nodes that remain, with some values standing in for others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from ...expr import DType, Expr, replace, structural_equal
from ..builder import GraphBuilder
from ..nodes import Constant, Graph, OpNode, Value


def rebuild(
    graph: Graph,
    nodes: Iterable[OpNode],
    constants: Iterable[Constant] = (),
    instead: Mapping[Value, Value] | None = None,
) -> Graph:
    """`graph` with other nodes and additional constants, every use of a key of `instead` replaced."""
    stand_in = dict(instead or {})

    def resolved(value: Value) -> Value:
        while value in stand_in:
            value = stand_in[value]
        return value

    renewed = tuple(
        OpNode(n.op, tuple(map(resolved, n.inputs)), n.attrs, n.outputs, n.where)
        if any(v in stand_in for v in n.inputs)
        else n
        for n in nodes
    )
    outputs = tuple(map(resolved, graph.outputs))
    return replace(graph, constants=(*graph.constants, *constants), nodes=renewed, outputs=outputs)


def with_replaced(
    graph: Graph,
    is_replaced: Callable[[OpNode], bool],
    make: Callable[[GraphBuilder, OpNode, list[Value]], Value],
    values: dict[Value, Value] | None = None,
) -> Graph:
    """The graph with some operators of one output replaced by what `make(builder, node, inputs)` adds.

    `values` is filled with the new value of each old one, for a `make` that needs others than the operator's inputs.
    """
    if not any(is_replaced(item) for item in graph.nodes):
        return graph
    b = GraphBuilder(graph.name)
    new: dict[Value, Value] = {} if values is None else values
    for value in graph.inputs:
        new[value] = b.input(value.name, value.shape, value.dtype)
    for constant in graph.constants:
        new[constant.value] = b.constant(constant.data, constant.value.name)
    for item in graph.nodes:
        inputs = [new[v] for v in item.inputs]
        if is_replaced(item):
            new[item.output] = make(b, item, inputs)
            continue
        b.where = item.where
        results: Any = b.op(item.op, *inputs, name=item.outputs[0].name, **item.attrs)
        new.update(zip(item.outputs, results if isinstance(results, tuple) else (results,), strict=True))
    return with_output_names(b.build([new[v] for v in graph.outputs]), graph)


def with_output_names(graph: Graph, like: Graph) -> Graph:
    """`graph`, built anew, with the states of `like` and its names of outputs: callers get outputs by name."""
    renamed: dict[Value, Value] = {}
    fixed = {*graph.inputs, *(c.value for c in graph.constants)}
    for own, other in zip(graph.outputs, like.outputs, strict=True):
        if own.name != other.name and own not in fixed:
            renamed.setdefault(own, Value(other.name, own.shape, own.dtype))

    def of(values: tuple[Value, ...]) -> tuple[Value, ...]:
        return tuple(renamed.get(v, v) for v in values)

    nodes = tuple(OpNode(n.op, of(n.inputs), n.attrs, of(n.outputs), n.where) for n in graph.nodes)
    return replace(graph, nodes=nodes, outputs=of(graph.outputs), states=like.states)


def new_constant(array: np.ndarray, name: str) -> Constant:
    """A constant of its own value."""
    data = np.ascontiguousarray(array).reshape(np.shape(array))
    return Constant(Value(name, data.shape, DType(data.dtype.name)), data)


def same_shape(a: Iterable[int | Expr], b: Iterable[int | Expr]) -> bool:
    """Whether two shapes are written alike; equal ones that are written differently count as different."""
    first, second = tuple(a), tuple(b)
    return len(first) == len(second) and all(
        x == y if isinstance(x, int) or isinstance(y, int) else structural_equal(x, y)
        for x, y in zip(first, second, strict=True)
    )
