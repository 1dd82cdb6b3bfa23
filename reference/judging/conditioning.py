"""Find the values of a graph that float32 determines at all, by also running it in float64.

A softmax of logits of a million turns a relative error of 1e-7, which any order of summation may have, into another
result. Comparing such outputs says nothing about a compiler; comparing the values before them does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from minitvm.events import Listener
from minitvm.expr import DType
from minitvm.expr.dtypes import is_floating
from minitvm.graph.nodes import LOOP, Constant, Graph, OpNode, Value

from ..formulas import has_numpy_meaning
from ..graph import evaluate

_WIDER = {"float32": "float64", "float16": "float64", "bfloat16": "float64"}


def in_float64(graph: Graph) -> Graph:
    """Return the graph with every float computed in float64; integers and bools stay. The graph must not be fused.

    An operator that is defined only by its own formula or loops keeps its dtypes: its operands and results are cast.
    """
    new: dict[Value, Value] = {}

    def widened(value: Value) -> Value:
        if value not in new:
            dtype = DType(_WIDER.get(value.dtype, value.dtype))
            new[value] = Value(value.name, value.shape, dtype)
        return new[value]

    constants = tuple(Constant(widened(c.value), c.data.astype(widened(c.value).dtype.numpy)) for c in graph.constants)
    nodes: list[OpNode] = []

    def cast(old: Value, new: Value) -> Value:
        if old.dtype != new.dtype:
            nodes.append(OpNode("cast", (old,), {"dtype": str(new.dtype)}, (new,)))
            return new
        return old

    for item in graph.nodes:
        if not has_numpy_meaning(item):
            operands = tuple(cast(widened(v), Value(v.name, v.shape, v.dtype)) for v in item.inputs)
            results = tuple(Value(v.name, v.shape, v.dtype) if widened(v).dtype != v.dtype else widened(v)
                            for v in item.outputs)  # fmt: skip
            nodes.append(OpNode(item.op, operands, item.attrs, results))
            for narrow, old in zip(results, item.outputs, strict=True):
                cast(narrow, widened(old))
            continue
        attrs = {k: _WIDER.get(v, v) if isinstance(v, str) and "dtype" in k else v for k, v in item.attrs.items()}
        if item.op == LOOP:
            attrs["body"] = in_float64(item.body)
        nodes.append(OpNode(item.op, tuple(map(widened, item.inputs)), attrs, tuple(map(widened, item.outputs))))
    inputs, outputs = tuple(map(widened, graph.inputs)), tuple(map(widened, graph.outputs))
    return Graph(inputs, constants, tuple(nodes), outputs, graph.name)


def determined_outputs(
    graph: Graph, inputs: Mapping[str, Any], tolerance: float, listeners: Sequence[Listener] = ()
) -> tuple[Value, ...]:
    """Return the outputs, but replace each that float32 does not determine by the nearest earlier value that it does.

    A value counts as determined if the float32 and the float64 interpreter agree to `tolerance` of its largest element.
    The search ends at values without a float producer, such as inputs.
    """
    single = evaluate(graph, inputs, listeners=listeners)
    wide_graph = in_float64(graph)
    floats = {name: np.asarray(a, np.float64) if is_floating(np.asarray(a).dtype) else a for name, a in inputs.items()}
    double = {value.name: array for value, array in evaluate(wide_graph, floats, listeners=listeners).items()}
    producers = graph.producers()

    def settled(value: Value) -> Value:
        while value in producers and _apart(single[value], double[value.name]) > tolerance:
            ahead = [v for v in producers[value].inputs if v.dtype.is_float and v in producers]
            if not ahead:
                break
            value = ahead[0]
        return value

    return tuple(dict.fromkeys(settled(value) for value in graph.outputs))


def _apart(single: np.ndarray, double: np.ndarray) -> float:
    """Return the largest difference relative to the largest element; infinite if one of them is not finite."""
    if not is_floating(single.dtype) or not single.size:
        return 0.0
    if not (np.isfinite(single).all() and np.isfinite(double).all()):
        return float("inf")
    scale = float(np.abs(double).max()) or 1.0
    return float(np.abs(single.astype(np.float64) - double).max()) / scale
