"""Concatenations that need no copy: their inputs are written directly into the result.

A concatenation whose outer dimensions are 1 lays its inputs one after the other. If a kernel writes each of
them, and nothing else fixes its place, the kernels write into slices of the result, and the concatenation itself does
nothing. A result may in turn be a slice of a larger one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any


@dataclass(frozen=True, slots=True)
class Place:
    """`offset` bytes into the value `whole`."""

    whole: Any
    offset: int


@dataclass(frozen=True, slots=True)
class Joined:
    """The places of the parts of such concatenations, by part; `nodes` are these concatenations."""

    parts: Mapping[Any, Place] = field(default_factory=dict)
    nodes: frozenset[Any] = frozenset()

    @property
    def wholes(self) -> dict[Any, None]:
        """The results, in the order of the program."""
        return {place.whole: None for place in self.parts.values()}


def joined(fused: Any, made_in_place: Any, placed: Iterable[Any] = ()) -> Joined:
    """The concatenations of an optimized graph that need no copy.

    `made_in_place(node)` is whether the node's own kernels write its outputs: those of a view are not. The values
    `placed` have their places already.
    """
    fixed = {*placed, *fused.inputs, *fused.outputs, *(constant.value for constant in fused.constants)}
    free = {value for item in fused.nodes if made_in_place(item) for value in item.outputs if value not in fixed}
    parts: dict[Any, Place] = {}
    nodes = set()
    for item in fused.nodes:
        inputs = _parts(item)
        if not inputs or item.output not in free or not all(value in free for value in inputs):
            continue
        offset = 0
        for value in inputs:
            parts[value] = Place(item.output, offset)
            offset += prod(value.shape) * value.dtype.bytes
        free -= set(inputs)  # a value lies in one place only
        nodes.add(item)
    return Joined(parts, frozenset(nodes))


def _parts(item: Any) -> tuple[Any, ...]:
    """The inputs of a concatenation in the order of their places in the result; none if they are not contiguous."""
    node, inputs = item, item.inputs
    if item.op == "fused":
        if len(item.graph.nodes) != 1:
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
