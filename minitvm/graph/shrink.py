"""The same fused operator on smaller tensors, for interpreters that would take minutes on the full ones.

Dimensions shrink together: equal sizes stay equal, and sizes in proportion (112, 56, 28) stay in proportion as far as
possible. Small ones (kernels, vector blocks) stay. Attributes that hold sizes follow. Types are inferred anew, so a
group that does not allow the smaller sizes is simply left as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..errors import MinitvmError
from .builder import GraphBuilder
from .nodes import FUSED, Graph, OpNode, Value

KEPT = 8  # sizes up to this stay as they are
_SIZE_ATTRIBUTES = frozenset({"newshape", "shape", "size", "extent"})


def elements(node: OpNode) -> int:
    """How many elements a node reads and writes, an estimate of an interpreter's work; 0 if the sizes are symbolic."""
    total = 0
    for value in (*node.inputs, *node.outputs):
        count = 1
        for dim in value.shape:
            count *= dim if isinstance(dim, int) else 0
        total += count
    return total


def shrink(node: OpNode, factors: Iterable[int] = (16, 8, 7, 4, 2)) -> OpNode:
    """The fused operator at the smallest sizes that its operators accept; itself where none are accepted."""
    best = node
    for factor in factors:
        made = _at(node, lambda size, factor=factor: size if size <= KEPT else max(2, -(-size // factor)))  # type: ignore[misc]
        if made is not None and elements(made) < elements(best):
            best = made
    return best


def _at(node: OpNode, smaller: Callable[[int], int]) -> OpNode | None:
    graph = node.graph if node.op == FUSED else Graph(node.inputs, (), (node,), node.outputs)
    if graph.constants and any(c.value.ndim for c in graph.constants):
        return None
    builder = GraphBuilder(graph.name)
    new: dict[Value, Value] = {}

    def resize(size: Any) -> Any:
        return smaller(size) if isinstance(size, int) and not isinstance(size, bool) else size

    for value in graph.inputs:
        new[value] = builder.input(value.name, tuple(resize(d) for d in value.shape), value.dtype)
    for constant in graph.constants:
        new[constant.value] = builder.constant(constant.data, constant.value.name)
    try:
        for item in graph.nodes:
            attrs = {
                key: (tuple(resize(s) for s in value) if isinstance(value, tuple) else resize(value))
                if key in _SIZE_ATTRIBUTES
                else value
                for key, value in item.attrs.items()
            }
            made = builder.op(item.op, *(new[v] for v in item.inputs), name=item.outputs[0].name, **attrs)
            for old, fresh in zip(item.outputs, made if isinstance(made, tuple) else (made,), strict=True):
                new[old] = fresh
        small = builder.build([new[v] for v in graph.outputs])
    except (MinitvmError, ValueError, IndexError, ZeroDivisionError):
        return None
    if any(not isinstance(d, int) or d <= 0 for v in small.outputs for d in v.shape):
        return None
    if node.op != FUSED:
        return small.nodes[-1]
    return OpNode(FUSED, small.inputs, {**node.attrs, "graph": small}, small.outputs)
