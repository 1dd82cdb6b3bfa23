"""A pointwise convolution of an open extent beside a transpose is a product of rows, as the transpose has them.

    conv1d(transpose(x), w) + b    ->    transpose(dense(x, w) + b)        x [n, rows, c], w [f, c, 1]
    transpose(conv1d(y, w) + b)    ->    dense(transpose(y), w) + b

Open rows of a product need no lanes, which are its columns: a few of them cost what a few cost. Open columns are
lanes, so one of them costs what a vector does. The convolution module of a Conformer (Gulati et al., 2020) has both.
What is element-wise behind such a product, and parts of its channels, are computed in rows as well.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...expr import Expr
from ...topi.shapes import paddings, per_axis
from .. import registry
from ..builder import GraphBuilder
from ..nodes import FUSED, LOOP, Graph, OpNode, Value
from .rebuild import with_replaced

_SWAPPED = (0, 2, 1)


def pointwise_rows(graph: Graph) -> Graph:
    """The graph with such convolutions as products; the transposes that meet are left to `simplify`."""
    first = _products(graph)
    if not first:
        return graph
    values: dict[Value, Value] = {}  # of the new graph, by those of the old one
    rows: dict[Value, Value] = {}  # the same with the last two axes swapped
    moved = _moved(graph, first)

    def made(b: GraphBuilder, item: OpNode, _: list[Value]) -> Value:
        output = item.output
        if item in first:
            conv = first[item]
            data, weight = (values[v] for v in conv.inputs)
            result = b.op("nn.dense", b.op("transpose", data, axes=_SWAPPED), b.op("squeeze", weight, axis=(2,)))
            if item is not conv:
                result = b.op("nn.bias_add", result, values[item.inputs[1]], axis=-1)
        else:
            attrs = {**item.attrs, "axes": (2,)} if item.op == "strided_slice" else item.attrs
            result = b.op(item.op, *(rows.get(v, values[v]) for v in item.inputs), name=output.name, **attrs)
        rows[output] = result
        swapped: Value = b.op("transpose", result, name=output.name, axes=_SWAPPED)
        return swapped

    return with_replaced(graph, lambda item: item in moved, made, values)


def _products(graph: Graph) -> dict[OpNode, OpNode]:
    """The convolutions that become products, by the last operator of each, which may add a bias."""
    producers, arrays = graph.producers(), graph.arrays()
    uses: dict[Value, list[OpNode]] = {}
    for item in graph.nodes:
        for value in item.inputs:
            uses.setdefault(value, []).append(item)

    def only_use(value: Value) -> OpNode | None:
        users = uses.get(value, [])
        return users[0] if len(users) == 1 and value not in graph.outputs else None

    def swaps(item: OpNode | None) -> bool:
        return item is not None and item.op == "transpose" and item.attrs["axes"] == _SWAPPED

    first = {}
    for item in graph.nodes:
        if not _is_pointwise(item, arrays):
            continue
        behind = only_use(item.output)
        has_bias = behind is not None and behind.op == "nn.bias_add" and behind.inputs[0] is item.output
        last = behind if behind is not None and has_bias and behind.attrs["axis"] in (1, -2) else item
        if swaps(producers.get(item.inputs[0])) or swaps(only_use(last.output)):
            first[last] = item
    return first


def _is_pointwise(item: OpNode, arrays: Mapping[Value, object]) -> bool:
    """Whether an operator is a convolution of width 1 by constant weights, over an extent that is open."""
    if item.op != "nn.conv1d" or item.inputs[1] not in arrays or not item.output.dtype.is_float:
        return False
    data, weight, attrs = item.inputs[0], item.inputs[1], item.attrs
    if data.dtype != weight.dtype or attrs["out_dtype"] or attrs["groups"] != 1 or weight.shape[2] != 1:
        return False
    padded = any(amount for side in paddings(attrs["padding"], 1) for amount in side)
    return per_axis(attrs["strides"], 1, "strides") == (1,) and not padded and isinstance(data.shape[2], Expr)


def _moved(graph: Graph, first: Mapping[OpNode, OpNode]) -> set[OpNode]:
    """The operators that are computed in rows: products, what is element-wise behind them, parts of channels."""
    moved: set[OpNode] = set()
    in_rows: set[Value] = set()
    for item in graph.nodes:
        if item not in first:
            if item.op in (FUSED, LOOP) or not any(v in in_rows for v in item.inputs):
                continue
            alike = all(v in in_rows or v.ndim == 0 for v in item.inputs) and not {"axis", "shape"} & set(item.attrs)
            elementwise = registry.get(item.op).pattern in registry.MAPS and alike
            part = item.op == "strided_slice" and item.attrs["axes"] in ((1,), (-2,))
            if len(item.outputs) != 1 or not (elementwise or part) or item.output.ndim != 3:
                continue
        moved.add(item)
        in_rows.add(item.output)
    return moved
