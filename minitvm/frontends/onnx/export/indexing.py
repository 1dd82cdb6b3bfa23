"""Export operators that choose, count or resize elements: gathers, scatters, running sums, arguments of extremes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ....errors import UnsupportedOperator
from ....graph import OpNode
from .sizes import vector

if TYPE_CHECKING:
    from .writer import Writer

Export = Callable[["Writer", OpNode], None]


def _names(node: OpNode) -> tuple[list[str], list[str]]:
    return [v.name for v in node.inputs], [v.name for v in node.outputs]


def _plain(name: str, **attributes: str) -> Export:
    """Return an export to an operator with the same inputs; `attributes` maps its attributes to ours."""

    def write(writer: Writer, node: OpNode) -> None:
        writer.require_types(name, node)
        writer.node(name, *_names(node), **{theirs: node.attrs[ours] for theirs, ours in attributes.items()})

    return write


def _in_steps(*steps: str) -> Export:
    """Return an export to several operators of one input, in order."""

    def write(writer: Writer, node: OpNode) -> None:
        (value,), (output,) = _names(node)
        for step in steps[:-1]:
            writer.node(step, [value], [f"{output}_{step.lower()}"])
            value = f"{output}_{step.lower()}"
        writer.node(steps[-1], [value], [output])

    return write


def _scatter(name: str) -> Export:
    def write(writer: Writer, node: OpNode) -> None:
        reduction = node.attrs["reduction"]
        if reduction != "none" and (writer.opset < 16 or (reduction in ("min", "max") and writer.opset < 18)):
            raise UnsupportedOperator(f"{node.op}: ONNX has no reduction {reduction} in opset {writer.opset}")
        axis = node.attrs.get("axis")
        writer.node(name, *_names(node), axis=axis, reduction=None if reduction == "none" else reduction)

    return write


def _extreme(name: str) -> Export:
    def write(writer: Writer, node: OpNode) -> None:
        axis, (output,) = node.attrs["axis"], _names(node)[1]
        axes = (axis,) if isinstance(axis, int) else axis
        if axes is None or len(axes) != 1 or node.output.dtype != "int64":
            raise UnsupportedOperator(f"{node.op}: ONNX wants one axis and int64, found {axis} and {node.output.dtype}")
        writer.require_types(name, node)
        settings = {"keepdims": int(node.attrs["keepdims"]), "select_last_index": int(node.attrs["select_last_index"])}
        writer.node(name, [node.inputs[0].name], [output], axis=axes[0], **settings)

    return write


def _cumsum(writer: Writer, node: OpNode) -> None:
    (data,), (output,) = _names(node)
    writer.require_types("CumSum", node)
    axis = writer.weight(f"{output}_axis", node.attrs["axis"])
    settings = {name: int(node.attrs[name]) for name in ("exclusive", "reverse")}
    writer.node("CumSum", [data, axis], [output], **settings)


def _topk(writer: Writer, node: OpNode) -> None:
    (data,), outputs = _names(node)
    if node.outputs[1].dtype != "int64":
        raise UnsupportedOperator(f"topk: ONNX's indices are int64, found {node.outputs[1].dtype}")
    count = vector(writer, f"{outputs[0]}_count", [node.attrs["k"]])
    writer.node("TopK", [data, count], outputs, axis=node.attrs["axis"], largest=int(not node.attrs["is_ascend"]))


def _tile(writer: Writer, node: OpNode) -> None:
    (data,), (output,) = _names(node)
    reps, rank = list(node.attrs["reps"]), node.inputs[0].ndim
    if len(reps) > rank:
        raise UnsupportedOperator(f"tile: ONNX adds no axes, found {len(reps)} repetitions of {rank} axes")
    writer.node("Tile", [data, vector(writer, f"{output}_reps", [1] * (rank - len(reps)) + reps)], [output])


def _prelu(writer: Writer, node: OpNode) -> None:
    (data, slope), (output,) = _names(node)
    axis, rank = node.attrs["axis"] % node.inputs[0].ndim, node.inputs[0].ndim
    shape = [-1 if a == axis else 1 for a in range(axis, rank)]
    writer.node("Reshape", [slope, writer.weight(f"{output}_shape", shape)], [f"{output}_slope"])
    writer.node("PRelu", [data, f"{output}_slope"], [output])


def _mod(writer: Writer, node: OpNode) -> None:
    writer.node("Mod", *_names(node), fmod=1)


def _batch_matmul(writer: Writer, node: OpNode) -> None:
    names, (output,) = _names(node)
    if node.attrs["out_dtype"] not in ("", str(node.inputs[0].dtype)):
        raise UnsupportedOperator("nn.batch_matmul: ONNX sums in the dtype of the data")
    for place, turned in enumerate((node.attrs["transpose_a"], node.attrs["transpose_b"])):
        if turned:
            writer.node("Transpose", [names[place]], [f"{output}_turned_{place}"], perm=[0, 2, 1])
            names[place] = f"{output}_turned_{place}"
    writer.node("MatMul", names, [output])


def _resize(writer: Writer, node: OpNode) -> None:
    """Write a resize by its sizes. A scale that is not their quotient, or an operator for boxes, is refused."""
    attrs, (output,) = node.attrs, _names(node)[1]
    data, mode = node.inputs[0], attrs["coordinate_transformation_mode"]
    if mode not in ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"):
        raise UnsupportedOperator(f"image.resize: ONNX has no mode {mode} in opset {writer.opset}")
    method = {"nearest_neighbor": "nearest"}.get(attrs["method"], attrs["method"])
    if method != "nearest" and not data.dtype.is_float:
        raise UnsupportedOperator(f"image.resize: ONNX does not say how it rounds {data.dtype}")
    inputs = [data.name, "", "", ""]
    if attrs["scales"] is None:
        inputs[3] = vector(writer, f"{output}_sizes", list(attrs["size"]))
    else:
        exact = [float(d) * s for d, s in zip(data.shape, attrs["scales"], strict=True) if isinstance(d, int)]
        if mode == "align_corners" and exact != [float(d) for d in attrs["size"] if isinstance(d, int)]:
            raise UnsupportedOperator("image.resize: programs differ in the corners of an extent that is rounded")
        inputs[2:] = [writer.weight(f"{output}_scales", attrs["scales"], "float32")]
        if not np.array_equal(np.asarray(attrs["scales"], np.float32), np.asarray(attrs["scales"])):
            raise UnsupportedOperator("image.resize: ONNX's scales are float32")
    settings = {"cubic_coeff_a": attrs["cubic_alpha"], "exclude_outside": int(attrs["cubic_exclude"])}
    writer.node(
        "Resize", inputs, [output], mode=method, coordinate_transformation_mode=mode,
        nearest_mode=attrs["rounding_method"], **(settings if method == "cubic" else {}),
    )  # fmt: skip


INDEXING: dict[str, Export] = {
    "gather": _plain("GatherElements", axis="axis"),
    "gather_nd": _plain("GatherND", batch_dims="batch_dims"),
    "scatter_elements": _scatter("ScatterElements"),
    "scatter_nd": _scatter("ScatterND"),
    "argmax": _extreme("ArgMax"),
    "argmin": _extreme("ArgMin"),
    "cumsum": _cumsum,
    "topk": _topk,
    "tile": _tile,
    "einsum": _plain("Einsum", equation="equation"),
    "elementwise_sum": _plain("Sum"),
    "rsqrt": _in_steps("Sqrt", "Reciprocal"),
    "nn.prelu": _prelu,
    "nn.dropout": _in_steps("Identity"),
    "mod": _mod,
    "nn.batch_matmul": _batch_matmul,
    "image.resize": _resize,
}
