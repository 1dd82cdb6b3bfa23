"""Find the operators of an optimized graph that may update a state, or another input, in place instead of in a copy.

A state begins a run as an input of the graph and ends it as an output. If every operator on the path from the input to
the output returns its first argument with some elements replaced (`Operator.updates`), they can all work on the state's
own memory. An operator U that updates a value v may overwrite the memory of v if after U nothing reads that memory as
v:

    no operator after U, and U through none of its other arguments, reads v or a view of v,
    and neither v nor a view of it is an output.

The value need not be a state: an operator may also update the result of another operator in that result's memory, if a
kernel computes the result.

This is legal because operators run in the order of the graph: an operator before U reads v before it is overwritten,
and the condition excludes readers of v after U.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

from ..graph.nodes import FUSED
from ..topi import registry


@dataclass(frozen=True, slots=True)
class InPlace:
    """The operators that update an input in place, with the index of that input, and the values that share memory.

    `states` maps each value in the memory of a state to the index of the state: the state's input, and its updates. For
    the states in `kept` this includes the last update, the output. Each entry of `groups` lists other values that share
    one memory: a function computes the first one, and the others are updates of it in program order.
    """

    nodes: Mapping[Any, int] = field(default_factory=dict)
    states: Mapping[Any, int] = field(default_factory=dict)
    kept: frozenset[int] = frozenset()
    groups: tuple[tuple[Any, ...], ...] = ()

    @property
    def placed(self) -> list[Any]:
        """The values that already have a place."""
        return [*self.states, *(value for group in self.groups for value in group)]


def in_place(fused: Any, is_view: Callable[[Any], bool], computes: Callable[[Any], bool] = lambda _: False) -> InPlace:
    """Find the updates of an optimized graph that need no copy.

    `is_view(node)` returns whether a node only reshapes its input. `computes(node)` returns whether kernels write the
    output of a node, which may then be placed anywhere.
    """
    values = _Values(fused, is_view)
    nodes: dict[Any, int] = {}
    states = {old: number for number, (old, _) in enumerate(fused.state_pairs())}
    kept = set()
    for number, (old, new) in enumerate(fused.state_pairs()):
        way = values.way(old, new)
        if way is not None:
            kept.add(number)
            for node in way:
                nodes[node] = _updated(node)  # type: ignore[assignment]
                states[node.output] = number
    groups: dict[Any, list[Any]] = {}  # by the value that is in the memory at the end
    for node in fused.nodes:
        position = None if node in nodes else _updated(node)
        if position is None or not values.may_overwrite(node, position):
            continue
        memory = values.root(node.inputs[position])
        producer = values.producers.get(memory)
        if memory in groups:
            group = groups.pop(memory)
        elif memory not in states and producer is not None and computes(producer):
            group = [memory]
        else:
            continue
        nodes[node] = position
        groups[node.output] = [*group, node.output]
    return InPlace(nodes, states, frozenset(kept), tuple(map(tuple, groups.values())))


class _Values:
    """The operators that read the memory of each value, and the position of each operator in the program."""

    def __init__(self, fused: Any, is_view: Callable[[Any], bool]) -> None:
        self.views = {node.output: node.inputs[0] for node in fused.nodes if is_view(node)}
        self.producers = fused.producers()
        self.position = {node: number for number, node in enumerate(fused.nodes)}
        self.readers: dict[Any, list[Any]] = {}  # readers of a value and its views, by the value that owns the memory
        for node in fused.nodes:
            if not is_view(node):
                for value in dict.fromkeys(map(self.root, node.inputs)):
                    self.readers.setdefault(value, []).append(node)
        self.returned = set(map(self.root, fused.outputs))

    def root(self, value: Any) -> Any:
        """Return the value whose memory `value` uses: the source of a view, or `value` itself."""
        while value in self.views:
            value = self.views[value]
        return value

    def way(self, old: Any, new: Any) -> list[Any] | None:
        """Return the operators that turn the value `old` into `new`, in order, or None if one of them cannot work in
        place.
        """
        nodes: list[Any] = []
        value = self.root(new)
        while value is not old:
            node = self.producers.get(value)
            position = None if node is None else _updated(node)
            if node is None or position is None or not self.may_overwrite(node, position):
                return None
            nodes.append(node)
            value = self.root(node.inputs[position])
        return nodes[::-1]

    def may_overwrite(self, node: Any, position: int) -> bool:
        """Return whether `node` may overwrite its input at `position`: nothing else reads that memory at or after
        `node`, and it is not an output.
        """
        memory = self.root(node.inputs[position])
        through = sum(self.root(value) is memory for value in node.inputs)
        before = all(self.position[reader] <= self.position[node] for reader in self.readers[memory])
        return before and through == 1 and memory not in self.returned


def written_directly(
    body: Any, updates: InPlace, is_view: Callable[[Any], bool], is_function: Callable[[Any], bool]
) -> frozenset[int]:
    """Return the indices of the states whose new value may be computed directly over the old value.

    That is legal if the function that computes the new value runs after all readers of the old value and of its views,
    and if the new value is not another output too.
    """
    values = _Values(body, is_view)
    direct: dict[Any, int] = {}
    for number, (old, new) in enumerate(body.state_pairs()):
        node = values.producers.get(new)
        if node is None or number in updates.kept or new in updates.states or new in direct:
            continue
        if not is_function(node) or is_view(node) or node in updates.nodes:
            continue
        before = all(values.position[reader] < values.position[node] for reader in values.readers.get(old, ()))
        if before and old not in values.returned:
            direct[new] = number
    return frozenset(direct.values())


def _updated(node: Any) -> int | None:
    """Return the index of the input that a group with a single operator returns with some elements replaced, or None
    for any other node.
    """
    if node.op != FUSED or node.engine or len(node.graph.nodes) != 1:
        return None
    inner = node.graph.nodes[0]
    if not registry.get(inner.op).updates or inner.inputs[0] in inner.inputs[1:]:
        return None
    return next((k for k, value in enumerate(node.graph.inputs) if value is inner.inputs[0]), None)


# --- Concatenations that need no copy: their inputs are written directly into the result.
#
# A concatenation whose outer dimensions are 1 places its inputs one after another. If a kernel writes each of them, and
# nothing else fixes its place, the kernels write into slices of the result, and the concatenation itself does nothing.
# The result may also be a slice of a larger one.


@dataclass(frozen=True, slots=True)
class PlaceInValue:
    """A location that begins `offset` bytes after the start of the value `whole`."""

    whole: Any
    offset: int


@dataclass(frozen=True, slots=True)
class Joined:
    """The concatenations that need no copy. `nodes` lists them, and `parts` maps each input to its location in the
    result.
    """

    parts: Mapping[Any, PlaceInValue] = field(default_factory=dict)
    nodes: frozenset[Any] = frozenset()

    @property
    def wholes(self) -> dict[Any, None]:
        """The results of the concatenations, in program order."""
        return {place.whole: None for place in self.parts.values()}


def joined(fused: Any, made_in_place: Any, placed: Iterable[Any] = ()) -> Joined:
    """Find the concatenations of an optimized graph that need no copy.

    `made_in_place(node)` returns whether the node's own kernels write its outputs; no kernel writes the output of a
    view. The values in `placed` already have a place, which cannot change.
    """
    fixed = {*placed, *fused.inputs, *fused.outputs, *(constant.value for constant in fused.constants)}
    free = {value for item in fused.nodes if made_in_place(item) for value in item.outputs if value not in fixed}
    parts: dict[Any, PlaceInValue] = {}
    nodes = set()
    for item in fused.nodes:
        inputs = _parts(item)
        if not inputs or item.output not in free or not all(value in free for value in inputs):
            continue
        offset = 0
        for value in inputs:
            parts[value] = PlaceInValue(item.output, offset)
            offset += prod(value.shape) * value.dtype.bytes
        free -= set(inputs)  # a value has only one place
        nodes.add(item)
    return Joined(parts, frozenset(nodes))


def _parts(item: Any) -> tuple[Any, ...]:
    """Return the inputs of a concatenation in the order of their places in the result, or () if they are not
    contiguous there.
    """
    node, inputs = item, item.inputs
    if item.op == "fused":
        if len(item.graph.nodes) != 1 or item.engine:
            return ()
        node = item.graph.nodes[0]
        outer = dict(zip(item.graph.inputs, item.inputs, strict=True))
        if not all(value in outer for value in node.inputs):
            return ()
        inputs = tuple(outer[value] for value in node.inputs)
    if node.op != "concatenate" or len(set(inputs)) != len(inputs):
        return ()
    shape = item.output.shape
    if not all(isinstance(dim, int) for value in (item.output, *inputs) for dim in value.shape):
        return ()
    axis = node.attrs["axis"] % len(shape)
    return inputs if prod(shape[:axis]) == 1 else ()
