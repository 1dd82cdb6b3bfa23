"""Export operators with a data-dependent number of results, and data-dependent sizes.

ONNX's operators return exactly the results that there are. The graph's operators return the largest possible number of
rows, and the actual number. So exports append zeros to ONNX's results, except where only the results themselves are
wanted (`leading`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ....errors import UnsupportedOperator
from ....expr import Expr
from ....graph import OpNode, Value
from .sizes import vector

if TYPE_CHECKING:
    from .writer import Writer


def _padded(writer: Writer, value: Value, results: str) -> None:
    """Write a value as its results, followed by zeros."""
    name = value.name
    writer.results[value] = results
    number = _number(writer, name, results)
    writer.node("Sub", [vector(writer, f"{name}_most", value.shape[:1]), number], [f"{name}_missing"])
    before, after = [0] * value.ndim, [0] * (value.ndim - 1)
    parts = [writer.weight(f"{name}_before", before), f"{name}_missing"]
    parts += [writer.weight(f"{name}_after", after)] if after else []
    writer.node("Concat", parts, [f"{name}_amounts"], axis=0)
    writer.node("Pad", [results, f"{name}_amounts"], [name])


def _number(writer: Writer, name: str, results: str) -> str:
    """Write the number of results, as a vector."""
    writer.node("Shape", [results], [f"{name}_shape"])
    writer.node("Gather", [f"{name}_shape", writer.weight(f"{name}_first", [0])], [f"{name}_number"], axis=0)
    return f"{name}_number"


def _count(writer: Writer, value: Value, number: str) -> None:
    writer.node("Reshape", [number, writer.weight(f"{value.name}_scalar", [])], [value.name])


def _argwhere(writer: Writer, node: OpNode) -> None:
    places, count = node.outputs
    writer.node("NonZero", [node.inputs[0].name], [f"{places.name}_columns"])
    writer.node("Transpose", [f"{places.name}_columns"], [f"{places.name}_results"], perm=[1, 0])
    _padded(writer, places, f"{places.name}_results")
    _count(writer, count, f"{places.name}_number")


def _unique(writer: Writer, node: OpNode) -> None:
    rows = node.inputs[0]
    first, inverse, counts, number = node.outputs
    outputs = [f"{first.name}_values", f"{first.name}_results", inverse.name, f"{counts.name}_results"]
    axis = 0 if rows.ndim == 2 else None
    writer.node("Unique", [rows.name], outputs, axis=axis, sorted=int(node.attrs["sorted"]))
    for value, results in ((first, outputs[1]), (counts, outputs[3])):
        _padded(writer, value, results)
    _count(writer, number, f"{first.name}_number")


def _suppression(writer: Writer, node: OpNode) -> None:
    boxes, scores, limit, *thresholds = node.inputs
    selected, count = node.outputs
    most = node.attrs["most"]
    if isinstance(most, Expr):
        raise UnsupportedOperator(f"{node.op}: ONNX wants the most boxes as a number, found {most}")
    name = selected.name
    writer.node("Min", [limit.name, writer.weight(f"{name}_limit", most)], [f"{name}_wanted"])
    scalars = []
    for k, value in enumerate((f"{name}_wanted", *(t.name for t in thresholds))):
        writer.node("Reshape", [value, writer.weight(f"{name}_one_{k}", [1])], [f"{name}_scalar_{k}"])
        scalars.append(f"{name}_scalar_{k}")
    center = int(node.attrs["box_format"] == "center")
    names = [boxes.name, scores.name, *scalars]
    writer.node("NonMaxSuppression", names, [f"{name}_results"], center_point_box=center)
    _padded(writer, selected, f"{name}_results")
    _count(writer, count, f"{name}_number")


def _bind_size(writer: Writer, node: OpNode) -> None:
    """Write the count as an Identity. ONNX cannot express the upper bound of a size."""
    count, output = node.inputs[0], node.output.name
    writer.node("Identity", [count.name], [output])
    writer.node("Reshape", [output, writer.weight(f"{output}_vector", [1])], [f"{output}_size"])
    writer.sizes[node.attrs["size"]] = (f"{output}_size", count)


def _leading(writer: Writer, node: OpNode) -> None:
    data, output, size = node.inputs[0], node.output.name, node.attrs["size"]
    _, count = writer.sizes.get(size, ("", None))
    producer = writer.producers.get(data)
    if data in writer.results and node.attrs["axis"] == 0 and producer is not None and count in producer.outputs:
        writer.node("Identity", [writer.results[data]], [output])
        return
    begin, axis = writer.weight(f"{output}_begin", [0]), writer.weight(f"{output}_axis", [node.attrs["axis"]])
    writer.node("Slice", [data.name, begin, vector(writer, f"{output}_end", [size]), axis], [output])


COUNTED: dict[str, Callable[[Writer, OpNode], None]] = {
    "argwhere": _argwhere,
    "bind_size": _bind_size,
    "leading": _leading,
    "unique": _unique,
    "vision.all_class_non_max_suppression": _suppression,
}
