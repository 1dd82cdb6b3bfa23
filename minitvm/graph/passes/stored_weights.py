"""Products with weights that are stored in bytes read the bytes, and are scaled behind.

    dense(x, (w - z) * s)  ->  dense(x, w - z, out_dtype="float32") * s

A scale for all weights, or one for each column, comes out of the sum. Folding it into the weights would make floats of
them, four times as large. Each element is widened as it is read, which is exact, and a sum is rounded once more instead
of each weight: no result has a larger bound. Only near the largest float32 may a sum overflow that is not scaled yet,
so `accuracy="strict"` leaves such products alone. A product with one row waits for its weights, and takes half of the
time (1024 x 1024, one thread); one with 4 to 64 rows takes 0.98 to 1.13 times as long as one of floats. Products whose
data are dequantised bytes too are products of integers (`integer_products`, which runs before).

Scales of blocks along the sum do not come out of it: such weights are folded to floats.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..builder import GraphBuilder
from ..nodes import Graph, OpNode, Value
from .integer_products import columns_of_bytes
from .rebuild import with_replaced


def stored_weights(graph: Graph, accuracy: str = "fast") -> Graph:
    """The graph whose products of float32 and constant dequantised bytes read the bytes."""
    if accuracy == "strict":
        return graph
    arrays, producers = graph.arrays(), graph.producers()
    plans = {item: plan for item in graph.nodes if (plan := _plan(item, arrays, producers)) is not None}
    new: dict[Value, Value] = {}

    def make(b: GraphBuilder, item: OpNode, inputs: list[Value]) -> Value:
        plan, name = plans[item], item.output.name
        weight = b.constant(plan.weight, f"{item.inputs[1].name}_bytes")
        total = b.op("nn.dense", inputs[0], weight, out_dtype="float32", name=f"{name}_unscaled")
        return b.op("multiply", total, b.constant(plan.scale, f"{name}_scale"), name=name)

    return with_replaced(graph, plans.__contains__, make, new)


@dataclass(frozen=True, slots=True)
class _Plan:
    """Weights [columns, depth] as int8, and the scale of each column, or of all."""

    weight: np.ndarray
    scale: np.ndarray


def _plan(item: OpNode, arrays: Mapping[Value, np.ndarray], producers: Mapping[Value, OpNode]) -> _Plan | None:
    if item.op not in ("nn.dense", "nn.matmul") or len(item.inputs) != 2 or item.attrs.get("transpose_a"):
        return None
    data, weight = item.inputs
    source = producers.get(weight)
    if source is None or source.op != "qnn.dequantize" or any(v not in arrays for v in source.inputs):
        return None
    if data.ndim < 2 or {v.dtype for v in (data, weight, item.output)} != {"float32"}:
        return None
    columns = columns_of_bytes(source, arrays, turned=item.op == "nn.dense" or bool(item.attrs["transpose_b"]))
    if columns is None:
        return None
    stored, scale = columns
    return _Plan(stored, scale.astype(np.float32).reshape(-1 if scale.size > 1 else ()))
