"""What a detector does with its scores and boxes, inside of the network: those that remain, as many as data decide."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...expr import SizeVar
from ...graph import Graph, GraphBuilder, Value


def remaining(
    b: GraphBuilder, boxes: Value, scores: Value, others: Sequence[Value] = (), *, iou: float, score: float,
    most: int, name: str = "found",
) -> list[Value]:  # fmt: skip
    """[boxes, scores, *others] of the boxes that remain, at most `most`, the highest score first.

    boxes [places, 4] are two corners each, scores [places], and others have a row for each place.
    """
    places = boxes.shape[0]
    every = b.op("reshape", boxes, newshape=(1, places, 4)), b.op("reshape", scores, newshape=(1, 1, places))
    limits = np.array([most]), np.array([iou], np.float32), np.array([score], np.float32)
    selected, count = b.op("vision.all_class_non_max_suppression", *every, *limits, most=most)
    size = SizeVar(name)
    b.op("bind_size", count, size=size, most=most, where="the boxes that remain")
    rows = b.op("leading", selected, size=size)
    index = b.op("squeeze", b.op("strided_slice", rows, begin=(2,), end=(3,), axes=(1,)), axis=(1,))
    return [b.op("take", value, index, axis=0, name=f"found_{value.name}") for value in (boxes, scores, *others)]


def continued(graph: Graph) -> tuple[GraphBuilder, list[Value]]:
    """A builder that begins with a graph, and the graph's outputs in it."""
    b = GraphBuilder(graph.name)
    return b, appended(b, graph, [b.input(v.name, v.shape, v.dtype) for v in graph.inputs])


def appended(b: GraphBuilder, graph: Graph, inputs: Sequence[Value]) -> list[Value]:
    """Add the operators of a graph on other inputs, and return the graph's outputs in the builder."""
    values = dict(zip(graph.inputs, inputs, strict=True))
    values.update((c.value, b.constant(c.data, c.value.name)) for c in graph.constants)
    for item in graph.nodes:
        results = b.op(item.op, *(values[v] for v in item.inputs), name=item.outputs[0].name, **item.attrs)
        values.update(zip(item.outputs, results if isinstance(results, tuple) else (results,), strict=True))
    return [values[v] for v in graph.outputs]
