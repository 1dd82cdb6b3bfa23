"""Fuse operators into groups that become one function each, by the operators' pattern classes.

A node takes a producer into its group when it is the only reader of the producer's only output, and

    element-wise, broadcast  takes  element-wise, broadcast, injective, and at most one complex-out-fusable producer
                                    (bias, activation and residual addition join the convolution)
    injective                takes  element-wise, broadcast, injective
    reduction                takes  element-wise, broadcast, injective
    complex-out-fusable, opaque     take nothing

Nothing is computed twice for it: a producer that is smaller than what its reader makes of it stays on its own. As the
only reader of its output is in the group, a group that takes a producer never gets a path out of and back into it.
Of TVM's fusion (Chen et al., OSDI'18) this is the part without recomputation.
"""

from __future__ import annotations

import numpy as np

from .. import registry
from ..nodes import FUSED, Constant, Graph, OpNode, Value
from ..registry import Pattern
from .rebuild import same_shape

_MAPS = (Pattern.ELEMENTWISE, Pattern.BROADCAST)
_INJECTIVE = (*_MAPS, Pattern.INJECTIVE)

# These read an element of their input several times.
_REPEATING = {"tile", "repeat", "broadcast_to", "take", "gather", "gather_nd", "one_hot"}

# A group is one kernel: the compiler's time grows with it.
_LARGEST_GROUP = 32


class _Group:
    def __init__(self, node: OpNode, pattern: Pattern) -> None:
        self.nodes = [node]
        self.pattern = pattern

    @property
    def output(self) -> Value:
        return self.nodes[-1].output


def fuse(graph: Graph) -> Graph:
    """The graph as fused groups, each a node "fused" in the place of its last operator.

    Constants of one element go into the groups that read them; all others stay inputs, so that groups that differ in
    weights alone can share one function.
    """
    consumers = graph.consumers()
    returned = set(graph.outputs)
    position = {item: number for number, item in enumerate(graph.nodes)}
    group_of: dict[Value, _Group] = {}
    groups: dict[_Group, None] = {}
    for item in graph.nodes:
        group = _Group(item, Pattern.OPAQUE if item.op == FUSED else registry.get(item.op).pattern)
        for producer in _taken(item, group, group_of, consumers, returned, position):
            group.nodes = [*producer.nodes, *group.nodes]
            group.pattern = max(group.pattern, producer.pattern)
            del groups[producer]
        groups[group] = None
        for value in item.outputs:
            group_of[value] = group
    for group in groups:
        group.nodes.sort(key=lambda item: position[item])
    constants = graph.arrays()
    nodes = [_fused(group, constants) for group in groups]
    read = {v for n in nodes for v in n.inputs} | returned
    kept = tuple(c for c in graph.constants if c.value in read)
    return Graph(graph.inputs, kept, tuple(nodes), graph.outputs, graph.name)


def _taken(
    item: OpNode, group: _Group, group_of: dict[Value, _Group], consumers: dict[Value, list[OpNode]],
    returned: set[Value], position: dict[OpNode, int],
) -> list[_Group]:  # fmt: skip
    """The producers that join `item`."""
    if item.op == FUSED or group.pattern in (Pattern.COMPLEX_OUT_FUSABLE, Pattern.OPAQUE, Pattern.TUPLE):
        return []
    ready: list[_Group] = []
    for value in dict.fromkeys(item.inputs):
        producer = group_of.get(value)
        private = producer is not None and len(consumers[value]) == 1 and value not in returned
        if producer is not None and private and len(producer.nodes[-1].outputs) == 1 and _not_repeated(item, value):
            ready.append(producer)
    epilogue = group.pattern in _MAPS
    complex_ones = [p for p in ready if p.pattern == Pattern.COMPLEX_OUT_FUSABLE]
    # Of two convolutions that are added, the one computed last takes the sum: the other's result is there by then.
    anchor = max(complex_ones, key=lambda p: position[p.nodes[-1]]) if epilogue and complex_ones else None
    allowed = _MAPS if anchor is not None else _INJECTIVE
    chosen: list[_Group] = []
    count = 1
    for producer in ([anchor] if anchor is not None else []) + ready:
        fits = producer is anchor or producer.pattern in allowed
        if fits and producer not in chosen and count + len(producer.nodes) <= _LARGEST_GROUP:
            chosen.append(producer)
            count += len(producer.nodes)
    return chosen


def _not_repeated(item: OpNode, value: Value) -> bool:
    """Whether `item` uses each element of `value` about once."""
    pattern = registry.get(item.op).pattern
    if pattern in _MAPS:
        return all(same_shape(value.shape, output.shape) for output in item.outputs)
    return item.op not in _REPEATING


def _fused(group: _Group, arrays: dict[Value, np.ndarray]) -> OpNode:
    """The node of a group: its inner graph has values of its own."""
    inner: dict[Value, Value] = {}
    inputs: list[Value] = []
    constants: list[Constant] = []
    made = {value for item in group.nodes for value in item.outputs}
    for item in group.nodes:
        for value in item.inputs:
            if value in inner or value in made:
                continue
            inner[value] = Value(value.name, value.shape, value.dtype)
            if value in arrays and arrays[value].size == 1:
                constants.append(Constant(inner[value], arrays[value]))
            else:
                inputs.append(value)
    nodes: list[OpNode] = []
    for item in group.nodes:
        for value in item.outputs:
            inner[value] = Value(value.name, value.shape, value.dtype)
        nodes.append(
            OpNode(item.op, tuple(inner[v] for v in item.inputs), item.attrs, tuple(inner[v] for v in item.outputs))
        )
    outputs = group.nodes[-1].outputs
    body = Graph(
        tuple(inner[v] for v in inputs), tuple(constants), tuple(nodes), tuple(inner[v] for v in outputs), "fused"
    )
    return OpNode(FUSED, tuple(inputs), {"graph": body}, outputs)
