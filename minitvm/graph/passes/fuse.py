"""Fuse operators into groups that become one function each, by the operators' pattern classes.

A node takes a producer into its group if all readers of the producer's only output are in that group, and if their
pattern classes allow it:

    element-wise, broadcast  takes  element-wise, broadcast, and then one complex-out-fusable or injective producers
                                    (bias, activation and residual addition join the convolution)
    injective                takes  element-wise, broadcast, injective (but a transpose takes no concatenation)
    any absorbed operator    takes  a complex-out-fusable producer as well; the group then ends, unless it is
                                    complex-out-fusable itself: then others may take it
    reduction                takes  element-wise, broadcast, injective
    complex-out-fusable, opaque     take nothing else

An operator that widens its elements (a cast, `qnn.dequantize`) joins the groups of its readers, if they take it, and
takes no producers itself. So the value that is stored between two groups has the narrow dtype.

A diamond such as x * sigmoid(x) joins the producer of x after its two branches have joined. No value is computed twice:
a producer is not taken if its output is smaller than the output of its reader. Since all readers of a producer's output
are in the group that takes it, no path leaves the group and comes back into it. This is the part of TVM's fusion (Chen
et al., OSDI'18) that computes no value twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...expr import replace
from ...expr.printer import fresh
from ...topi import registry
from ...topi.fusion_class import fusion_class
from ...topi.registry import MAPS, Pattern
from ..nodes import BIND_SIZE, CALL_PACKED, CALL_TIR, FUSED, LOOP, MATCH_CAST, Constant, Graph, OpNode, Value
from ..rewrite import same_shape

_INJECTIVE = (*MAPS, Pattern.INJECTIVE)

# These read an element of their input several times. For a `gather` this is the data: each index is read once.
_REPEATING = {"tile", "repeat", "broadcast_to", "take", "gather", "gather_nd", "one_hot"}

_WIDENING = {"cast", "qnn.dequantize"}

# A group is one kernel, and the compile time grows with its size.
_LARGEST_GROUP = 32


# Each diamond in a group doubles the expression below it when everything is inlined.
_MOST_DIAMONDS = 3


class _Group:
    def __init__(self, node: OpNode, pattern: Pattern) -> None:
        self.nodes = [node]
        self.members = {node}
        self.pattern = pattern
        self.diamonds = 0

    @property
    def takes_nothing(self) -> bool:
        return self.pattern in (Pattern.COMPLEX_OUT_FUSABLE, Pattern.OPAQUE, Pattern.TUPLE)

    def join(self, producer: _Group, readers: int) -> None:
        """Merge `producer` into this group. `readers` is the number of operators of this group that read the producer's
        output.
        """
        self.nodes = [*producer.nodes, *self.nodes]
        self.members |= producer.members
        self.pattern = max(self.pattern, producer.pattern)
        self.diamonds += producer.diamonds + (readers > 1)


class _Fusion:
    """Combines the operators of a graph into groups, in program order.

    It keeps the groups formed so far, the group that produces each value, and the readers of each value.
    """

    def __init__(self, graph: Graph) -> None:
        self.consumers = graph.consumers()
        self.returned = set(graph.outputs)
        self.position = {item: number for number, item in enumerate(graph.nodes)}
        self.group_of: dict[Value, _Group] = {}
        self.groups: dict[_Group, None] = {}
        for item in graph.nodes:
            self.add(item)
        for group in [group for group in self.groups if len(group.nodes) == 1 and self.waits(group.nodes[0])]:
            self.take_producers(group)  # its readers did not take it
            self.own(group)

    def add(self, item: OpNode) -> None:
        """Create a group for `item`, and merge into it the producers that it may take."""
        group = _Group(item, _pattern_of(item))
        if not self.waits(item):
            self.take_producers(group)
        self.groups[group] = None
        self.own(group)

    def own(self, group: _Group) -> None:
        """Record that this group produces the outputs of its members."""
        for member in group.nodes:
            for value in member.outputs:
                self.group_of[value] = group

    def waits(self, item: OpNode) -> bool:
        """Return whether an operator only widens its elements and should be left to its readers, which then read the
        narrow value.
        """
        if item.op not in _WIDENING or item.inputs[0].dtype.bytes >= item.output.dtype.bytes:
            return False
        readers = self.consumers.get(item.output, ())
        return item.output not in self.returned and bool(readers) and all(_takes(r, item.output) for r in readers)

    def take_producers(self, group: _Group) -> None:
        """Merge into a group the producers that the pattern classes of the operators allow."""
        item = group.nodes[-1]
        if group.pattern == Pattern.COMPLEX_OUT_FUSABLE:
            self.take_anchor(group, absorbing=item.op)
        if not group.takes_nothing:
            self.take_all(group, MAPS)
            if group.pattern in MAPS:
                self.take_anchor(group)
            else:
                self.take_anchor(group, absorbing=item.op)
            if not group.takes_nothing:
                self.take_all(group, _INJECTIVE)

    def take_all(self, group: _Group, patterns: tuple[Pattern, ...]) -> None:
        """Merge into a group the producers whose pattern classes are in `patterns`, until there are none left."""
        while True:
            value = next((v for v, producer in self.candidates(group) if producer.pattern in patterns), None)
            if value is None:
                return
            self.take(group, value)

    def take_anchor(self, group: _Group, absorbing: str = "") -> None:
        """Merge into a group one complex-out-fusable producer, and the element-wise producers of the other inputs of
        its readers.

        If `absorbing` names an operator, the producer must contain an operator that absorbs it, and the group then
        takes no other producers.
        """
        anchors = [v for v, producer in self.candidates(group) if producer.pattern == Pattern.COMPLEX_OUT_FUSABLE]
        if absorbing:
            anchors = [v for v in anchors if any(_absorbs(n, absorbing) for n in self.group_of[v].nodes)]
        if not anchors:
            return
        # If two convolutions are added, the later one takes the sum: by then the other's result exists.
        fusable = group.pattern
        self.take(group, max(anchors, key=lambda v: self.position[self.group_of[v].nodes[-1]]))
        if absorbing:
            group.pattern = fusable if fusable == Pattern.COMPLEX_OUT_FUSABLE else Pattern.OPAQUE
        else:
            self.take_all(group, MAPS)

    def take(self, group: _Group, value: Value) -> None:
        producer = self.group_of[value]
        group.join(producer, len(self.consumers[value]))
        del self.groups[producer]

    def candidates(self, group: _Group) -> list[tuple[Value, _Group]]:
        """Return the values that only this group reads and whose producers may join it, each with the group that
        produces it.
        """
        candidates: dict[Value, _Group] = {}
        for item in reversed(group.nodes):
            for value in item.inputs:
                producer = self.group_of.get(value)
                if producer is None or value in candidates or value in self.returned:
                    continue
                if self.may_join(group, producer, value):
                    candidates[value] = producer
        return list(candidates.items())

    def may_join(self, group: _Group, producer: _Group, value: Value) -> bool:
        readers = self.consumers[value]
        if producer not in self.groups or producer.nodes[-1].outputs != (value,):
            return False
        if len(group.nodes) + len(producer.nodes) > _LARGEST_GROUP:
            return False
        if group.diamonds + producer.diamonds + (len(readers) > 1) > _MOST_DIAMONDS:
            return False
        maker = producer.nodes[-1]
        absorbed = {reader for reader in readers if any(_absorbs(n, reader.op) for n in producer.nodes)}
        if any(_stays_apart(maker, reader) for reader in readers if reader not in absorbed):
            return False
        return all(reader in group.members and (_takes(reader, value) or reader in absorbed) for reader in readers)


def fuse(graph: Graph) -> Graph:
    """Return the graph with its operators combined into fused groups.

    Each group becomes a node "fused" at the position of its last operator; a loop, a call of a Python function or an
    existing group stays as it is. Constants with one element are moved into the groups that read them, except the count
    of a `bind_size`, which is read from memory. All other constants stay inputs, so that groups that differ only in
    weights can share one function.

    before:
        x = b.input("x", (2, 8))
        w = b.input("w", (4, 8))
        c = b.input("c", (4,))
        y = b.op("nn.dense", x, w)
        z = b.op("nn.bias_add", y, c)
        return b.op("nn.relu", z)
    after:
        def dense_bias_add_relu(x: float32[2, 8], w: float32[4, 8], c: float32[4]):
            dense: float32[2, 4] = nn.dense(x, w)
            bias_add: float32[2, 4] = nn.bias_add(dense, c)
            relu: float32[2, 4] = nn.relu(bias_add)
            return relu

        def main(x: float32[2, 8], w: float32[4, 8], c: float32[4]):
            relu: float32[2, 4] = dense_bias_add_relu(x, w, c)
            return relu
    """
    fusion = _Fusion(graph)
    for group in fusion.groups:
        group.nodes.sort(key=lambda item: fusion.position[item])
    constants = graph.arrays()
    nodes = [
        group.nodes[0] if group.nodes[0].op in (CALL_PACKED, FUSED, LOOP) else fused_node(group.nodes, constants)
        for group in fusion.groups
    ]  # a loop and a Python function are no functions of ours
    read = {v for n in nodes for v in n.inputs} | fusion.returned
    kept = tuple(c for c in graph.constants if c.value in read)
    return replace(graph, constants=kept, nodes=tuple(nodes))


def _pattern_of(item: OpNode) -> Pattern:
    """Return the pattern class of a node. That of a call follows from the loop program that it calls."""
    if item.op == CALL_TIR:
        return fusion_class(item.attrs["func"], len(item.outputs))
    return Pattern.OPAQUE if item.op == FUSED else registry.get(item.op).pattern


def _turns(item: OpNode) -> bool:
    """Return whether an operator changes which axis is contiguous in memory, as a transpose does."""
    if item.op == "transpose":
        axes = item.attrs["axes"]
        return bool(axes) and axes[-1] not in (-1, len(axes) - 1)
    if item.op not in ("layout.block_axis", "layout.unblock_axis"):
        return False
    shape = item.inputs[0].shape
    end = len(shape) - (item.op == "layout.unblock_axis")
    return any(not isinstance(n, int) or n > 1 for n in shape[item.attrs["axis"] + 1 : end])


def _stays_apart(maker: OpNode, reader: OpNode) -> bool:
    """Return whether two operators must not be fused, because one changes the contiguous axis and would slow down the
    other.

    Alone, a transpose copies square by square from one tensor to another (`machines.simd.strategy.turned`). Fused with
    a concatenation, it would have to choose among the inputs at each element, while the concatenation alone is a few
    copies, or none (`link.in_place`). After an operator that narrows its elements, there are fewer bytes to transpose.
    An operator that reads several tensors, fused with a transpose, would read one tensor across the rows in memory and
    the others along them.
    """
    if maker.op == "concatenate" or _narrows(maker):
        return _turns(reader)
    return _turns(maker) and (reader.op == "concatenate" or len(set(reader.inputs)) > 1)


def _narrows(item: OpNode) -> bool:
    """Return whether an element-wise operator's results have fewer bytes than its input."""
    if _pattern_of(item) not in MAPS or len(item.outputs) != 1:
        return False
    return item.inputs[0].dtype.bytes > item.output.dtype.bytes


def _absorbs(item: OpNode, op: str) -> bool:
    return item.op != FUSED and op in registry.get(item.op).absorbs


def _takes(item: OpNode, value: Value) -> bool:
    """Return whether `item` may absorb producers and reads each element of `value` about once."""
    pattern = _pattern_of(item)
    if pattern not in (*_INJECTIVE, Pattern.COMM_REDUCE):
        return False
    if item.op == MATCH_CAST:
        return True
    if pattern in MAPS:
        return all(same_shape(value.shape, output.shape) for output in item.outputs)
    return item.op not in _REPEATING or (item.op == "gather" and value is not item.inputs[0])


def fused_node(operators: Sequence[OpNode], arrays: Mapping[Value, np.ndarray]) -> OpNode:
    """Return a fused node that contains `operators`, the last of which computes the result. The inner graph has its own
    values.
    """
    inner: dict[Value, Value] = {}
    inputs: list[Value] = []
    constants: list[Constant] = []
    defined = {value for item in operators for value in item.outputs}
    names: set[str] = set()  # a value and its copy in another layout may have the same name
    for item in operators:
        for value in item.inputs:
            if value in inner or value in defined:
                continue
            inner[value] = Value(fresh(value.name, names), value.shape, value.dtype)
            if value in arrays and arrays[value].size == 1 and item.op != BIND_SIZE:
                constants.append(Constant(inner[value], arrays[value]))
            else:
                inputs.append(value)
    nodes: list[OpNode] = []
    for item in operators:
        for value in item.outputs:
            inner[value] = Value(value.name, value.shape, value.dtype)
        nodes.append(
            OpNode(item.op, tuple(inner[v] for v in item.inputs), item.attrs, tuple(inner[v] for v in item.outputs))
        )
    outputs = operators[-1].outputs
    body = Graph(
        tuple(inner[v] for v in inputs), tuple(constants), tuple(nodes), tuple(inner[v] for v in outputs), "fused"
    )
    return OpNode(FUSED, tuple(inputs), {"graph": body}, outputs)
