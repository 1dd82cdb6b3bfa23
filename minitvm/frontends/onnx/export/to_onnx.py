"""Export a graph as an ONNX model, to run it in another system and compare the results.

    model = to_onnx(models.get("resnet18"))
    session = onnxruntime.InferenceSession(model.SerializeToString())

An operator whose declaration has a name in ONNX (`topi.registry.register`, `onnx=`) is written under that name. Those
in EXPORTS need more than a name. Import and export are inverse in meaning, but not in text: operators that the importer
folded stay folded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....errors import UnsupportedOperator, missing_extra
from ....expr import DType
from ....graph import Graph, OpNode
from ....topi import registry
from ....topi.spelling import Onnx
from .counted import COUNTED
from .indexing import INDEXING
from .loops import LOOPS
from .recurrent import GATES, write_recurrent
from .sizes import SIZES, vector
from .writer import Writer, dim_of

OPSET = 17
IR_VERSION = 8


def to_onnx(graph: Graph, opset: int = OPSET) -> Any:
    """Return the graph as an `onnx.ModelProto` of opset 13 or newer, including its weights.

    Inputs, outputs and symbolic dimensions keep their names. Raises UnsupportedOperator for an operator or attribute
    that ONNX cannot express, and MissingExtra if onnx is not installed.
    """
    try:
        import onnx
        from onnx import helper, numpy_helper
    except ImportError:
        raise missing_extra("onnx", "onnx") from None
    writer = Writer(helper, numpy_helper, graph, exports(), opset)
    writer.operators()
    onnx_graph = writer.graph(graph.name, graph.inputs, writer.outputs_of(graph.outputs))
    model = helper.make_model(onnx_graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=IR_VERSION)
    onnx.checker.check_model(model)
    return model


Export = Callable[[Writer, OpNode], None]
EXPORTS: dict[str, Export] = {}


def exports() -> dict[str, Export]:
    """Return the export function of each operator that ONNX has."""
    operators = registry.all_named("onnx").values()
    declared = {operator.name: _reduced if operator.is_reduction else _declared for operator in operators}
    return {**declared, **EXPORTS}


def _declared(writer: Writer, node: OpNode) -> None:
    """Write the ONNX operator with the same inputs in the same order. The declaration lists its attributes."""
    spelled = _spelled(node)
    for ours, value in node.attrs.items():
        if ours not in spelled.attrs and value != registry.get(node.op).attrs[ours]:
            raise UnsupportedOperator(f"{node.op}: ONNX's {spelled.name} has no {ours}, found {value!r}")
    writer.require_types(spelled.name, node)
    values = {theirs: node.attrs[ours] for ours, theirs in spelled.attrs.items()}
    attrs = {name: int(value) if isinstance(value, bool) else value for name, value in values.items()}
    writer.node(spelled.name, [v.name for v in node.inputs], [v.name for v in node.outputs], **attrs)


def _known(node: OpNode, name: str) -> tuple[int, ...]:
    """Return an attribute of integers, which ONNX requires to be constant."""
    values = node.attrs[name]
    values = tuple(values) if isinstance(values, Sequence) else (values,)
    if not all(isinstance(v, int) for v in values):
        raise UnsupportedOperator(f"{node.op}: ONNX wants numbers for {name}, found {values}")
    return tuple(int(v) for v in values)


def _spatial(node: OpNode, name: str, rank: int) -> list[int]:
    """Return one number per spatial axis."""
    values = _known(node, name)
    return list(values) if len(values) == rank else list(values) * rank


def _pads(node: OpNode, rank: int) -> list[int]:
    """Return paddings in ONNX's order: all begins, then all ends."""
    values = _known(node, "padding")
    if len(values) == 1:
        return list(values) * (2 * rank)
    return list(values) if len(values) == 2 * rank else list(values) * 2


def _export(*names: str) -> Callable[[Export], Export]:
    def register(export: Export) -> Export:
        for name in names:
            EXPORTS[name] = export
        return export

    return register


def _spelled(node: OpNode) -> Onnx:
    spelled = registry.get(node.op).onnx
    assert spelled is not None
    return spelled


def _summed(writer: Writer, node: OpNode) -> list[str]:
    """Return the operands of a product in the dtype of its sums, because ONNX sums in the dtype of the data."""
    dtype, names = DType(node.attrs["out_dtype"] or node.inputs[0].dtype), []
    if not dtype.is_float and any(v.dtype != dtype for v in node.inputs):
        raise UnsupportedOperator(f"{node.op}: ONNX has no products of {node.inputs[0].dtype} with sums of {dtype}")
    for position, value in enumerate(node.inputs):
        names.append(value.name)
        if value.dtype != dtype:
            names[-1] = f"{node.outputs[0].name}_operand_{position}"
            writer.node("Cast", [value.name], [names[-1]], to=writer.element_type(node.outputs[0]))
    return names


@_export("nn.matmul")
def _matmul(writer: Writer, node: OpNode) -> None:
    if node.attrs["transpose_a"] or node.attrs["transpose_b"]:
        raise UnsupportedOperator("nn.matmul: ONNX's MatMul does not transpose; put a transpose before it")
    writer.node("MatMul", _summed(writer, node), [node.outputs[0].name])


def _check_layouts(node: OpNode) -> None:
    default = {"data_layout": "NCHW", "kernel_layout": "OIHW", "layout": "NCHW"}
    if any(node.attrs.get(name, layout) != layout for name, layout in default.items()):
        raise UnsupportedOperator(
            f"{node.op}: ONNX knows only NCHW and OIHW\n  try:    ConvertLayout({{'nn.conv2d': ['NCHW', 'default']}})"
        )


@_export("nn.conv1d", "nn.conv2d", "nn.conv3d")
def _conv(writer: Writer, node: OpNode) -> None:
    rank = node.inputs[0].ndim - 2
    _check_layouts(node)
    writer.node(
        "Conv",
        _summed(writer, node),
        [node.outputs[0].name],
        strides=_spatial(node, "strides", rank),
        pads=_pads(node, rank),
        dilations=_spatial(node, "dilation", rank),
        group=node.attrs["groups"],
    )


@_export("nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d", "nn.avg_pool1d", "nn.avg_pool2d", "nn.avg_pool3d")
def _pool(writer: Writer, node: OpNode) -> None:
    rank = node.inputs[0].ndim - 2
    _check_layouts(node)
    is_max = "max" in node.op
    if not is_max and any(d != 1 for d in _spatial(node, "dilation", rank)):
        raise UnsupportedOperator(f"{node.op}: ONNX has no dilated average pooling before opset 19")
    writer.node(
        "MaxPool" if is_max else "AveragePool",
        [node.inputs[0].name],
        [node.outputs[0].name],
        kernel_shape=_spatial(node, "pool_size", rank),
        strides=_spatial(node, "strides", rank),
        pads=_pads(node, rank),
        ceil_mode=int(node.attrs["ceil_mode"]),
        dilations=_spatial(node, "dilation", rank) if is_max else None,
        count_include_pad=None if is_max else int(node.attrs["count_include_pad"]),
    )


@_export("nn.batch_norm")
def _batch_norm(writer: Writer, node: OpNode) -> None:
    if node.attrs["axis"] != 1:
        raise UnsupportedOperator(f"nn.batch_norm: ONNX has the channels on axis 1, found {node.attrs['axis']}")
    names = [v.name for v in node.inputs]
    writer.node("BatchNormalization", names, [node.outputs[0].name], epsilon=node.attrs["epsilon"])


@_export("nn.bias_add")
def _bias_add(writer: Writer, node: OpNode) -> None:
    data, bias = node.inputs
    axis = node.attrs["axis"] % data.ndim
    shaped = f"{node.outputs[0].name}_bias"
    size = dim_of(bias.shape[0])
    shape = writer.weight(f"{shaped}_shape", [size if a == axis else 1 for a in range(data.ndim)])
    writer.node("Reshape", [bias.name, shape], [shaped])
    writer.node("Add", [data.name, shaped], [node.outputs[0].name])


@_export("nn.dense")
def _dense(writer: Writer, node: OpNode) -> None:
    data, weight = _summed(writer, node)
    if node.inputs[0].ndim == 2:
        writer.node("Gemm", [data, weight], [node.outputs[0].name], transB=1)
        return
    turned = f"{node.outputs[0].name}_weight"
    writer.node("Transpose", [weight], [turned], perm=[1, 0])
    writer.node("MatMul", [data, turned], [node.outputs[0].name])


@_export("qnn.quantize", "qnn.dequantize")
def _quantize(writer: Writer, node: OpNode) -> None:
    if node.attrs["block_size"]:
        raise UnsupportedOperator(f"{node.op}: ONNX has no block_size before opset 21")
    narrow = (node.outputs if node.op == "qnn.quantize" else node.inputs)[0].dtype
    inputs = [v.name for v in node.inputs]
    if len(inputs) == 2:  # ONNX reads the dtype off the zero point
        shape = [int(d) for d in node.inputs[1].shape]  # type: ignore[arg-type]
        inputs.append(writer.weight(f"{node.outputs[0].name}_zero", np.zeros(shape, narrow.numpy), str(narrow)))
    axis = node.attrs["axis"] if node.inputs[1].ndim else None
    name = "QuantizeLinear" if node.op == "qnn.quantize" else "DequantizeLinear"
    writer.node(name, inputs, [node.outputs[0].name], axis=axis)


@_export("qnn.lookup")
def _lookup(writer: Writer, node: OpNode) -> None:
    (data, table), output = (v.name for v in node.inputs), node.output.name
    writer.node("Cast", [data], [f"{output}_wide"], to=writer.integer)
    writer.node("Mod", [f"{output}_wide", writer.weight(f"{output}_bytes", 256)], [f"{output}_at"])
    writer.node("Gather", [table, f"{output}_at"], [output], axis=0)


@_export("reshape", "squeeze", "expand_dims", "nn.batch_flatten")
def _reshape(writer: Writer, node: OpNode) -> None:
    dims = list(node.outputs[0].shape)
    open_places = [k for k, d in enumerate(dims) if not isinstance(dim_of(d), int)]
    if len(open_places) == 1:
        dims[open_places[0]] = -1
    name = vector(writer, f"{node.outputs[0].name}_shape", dims)
    # A dimension of 0 elements is one, and not that of the input; ONNX allows that beside no -1 alone.
    settings = {} if -1 in dims else {"allowzero": 1}
    writer.node("Reshape", [node.inputs[0].name, name], [node.outputs[0].name], **settings)


@_export("clip")
def _clip(writer: Writer, node: OpNode) -> None:
    data, output = node.inputs[0], node.outputs[0]
    low = writer.weight(f"{output.name}_min", node.attrs["a_min"], str(data.dtype))
    high = writer.weight(f"{output.name}_max", node.attrs["a_max"], str(data.dtype))
    writer.node("Clip", [data.name, low, high], [output.name])


@_export("nn.lrn")
def _lrn(writer: Writer, node: OpNode) -> None:
    if node.attrs["axis"] != 1:
        raise UnsupportedOperator(f"nn.lrn: ONNX has the channels on axis 1, found {node.attrs['axis']}")
    settings = {name: node.attrs[name] for name in ("size", "bias", "alpha", "beta")}
    writer.node("LRN", [node.inputs[0].name], [node.outputs[0].name], **settings)


@_export("nn.silu")
def _silu(writer: Writer, node: OpNode) -> None:
    data, output = node.inputs[0].name, node.outputs[0].name
    writer.node("Sigmoid", [data], [f"{output}_gate"])
    writer.node("Mul", [data, f"{output}_gate"], [output])


@_export("nn.gelu")
def _gelu(writer: Writer, node: OpNode) -> None:
    """Write gelu as PyTorch's exporter does, because ONNX has an operator for it only from opset 20 on."""
    data, output, dtype = node.inputs[0].name, node.outputs[0].name, str(node.inputs[0].dtype)

    def number(name: str, value: float) -> str:
        return writer.weight(f"{output}_{name}", value, dtype)

    def step(op: str, name: str, *inputs: str) -> str:
        writer.node(op, inputs, [f"{output}_{name}"])
        return f"{output}_{name}"

    if node.attrs["approximate"] == "none":
        erf = step("Erf", "erf", step("Div", "scaled", data, number("sqrt_2", math.sqrt(2))))
        doubled = step("Mul", "doubled", data, step("Add", "weight", erf, number("one", 1)))
        writer.node("Mul", [doubled, number("half", 0.5)], [output])
        return
    cube = step("Mul", "cubic", step("Pow", "cube", data, number("three", 3)), number("cubic_weight", 0.044715))
    inner = step("Mul", "inner", step("Add", "polynomial", data, cube), number("scale", math.sqrt(2 / math.pi)))
    weight = step("Add", "weight", step("Tanh", "tanh", inner), number("one", 1))
    writer.node("Mul", [step("Mul", "halved", data, number("half", 0.5)), weight], [output])


@_export("nn.layer_norm")
def _layer_norm(writer: Writer, node: OpNode) -> None:
    axis = _last_axes(node)
    names = [v.name for v in node.inputs]
    writer.node("LayerNormalization", names, [node.outputs[0].name], axis=axis, epsilon=node.attrs["epsilon"])


@_export("nn.rms_norm")
def _rms_norm(writer: Writer, node: OpNode) -> None:
    """Write an RMS norm as exporters of language models do, because ONNX has an operator for it only from opset 23
    on.
    """
    (data, weight), output, axis = (v.name for v in node.inputs), node.outputs[0].name, _last_axes(node)
    dtype, rank = str(node.inputs[0].dtype), node.inputs[0].ndim
    writer.node("Pow", [data, writer.weight(f"{output}_two", 2, dtype)], [f"{output}_square"])
    writer.node("ReduceMean", [f"{output}_square"], [f"{output}_mean"], axes=list(range(axis % rank, rank)), keepdims=1)
    epsilon = writer.weight(f"{output}_epsilon", node.attrs["epsilon"], dtype)
    writer.node("Add", [f"{output}_mean", epsilon], [f"{output}_shifted"])
    writer.node("Sqrt", [f"{output}_shifted"], [f"{output}_root"])
    writer.node("Div", [data, f"{output}_root"], [f"{output}_normal"])
    writer.node("Mul", [f"{output}_normal", weight], [output])


def _last_axes(node: OpNode) -> int:
    """Return the first of the normalised axes; ONNX normalises over this and all later axes."""
    rank = node.inputs[0].ndim
    axes = sorted(axis % rank for axis in _known(node, "axis"))
    if axes != list(range(axes[0], rank)):
        raise UnsupportedOperator(f"{node.op}: ONNX normalises over the last axes, found {node.attrs['axis']}")
    return axes[0] - rank


def _reduced(writer: Writer, node: OpNode) -> None:
    data, output, keepdims = node.inputs[0], node.outputs[0].name, int(node.attrs["keepdims"])
    name, source = _spelled(node).name, data.name
    writer.require_types(name, node)
    axes = list(range(data.ndim)) if node.attrs["axis"] is None else list(_known(node, "axis"))
    if not axes:
        # ONNX takes an empty list for all axes. To reduce over a new axis of one element is to reduce over none.
        source, axes, keepdims = f"{output}_elements", [data.ndim], 0
        writer.node("Unsqueeze", [data.name, writer.weight(f"{output}_new", axes)], [source])
    if node.op == "sum" or writer.opset >= 18:  # of the others, the axes are an attribute until then
        writer.node(name, [source, writer.weight(f"{output}_axes", axes)], [output], keepdims=keepdims)
    else:
        writer.node(name, [source], [output], axes=axes, keepdims=keepdims)


@_export("split")
def _split(writer: Writer, node: OpNode) -> None:
    data, axis = node.inputs[0], node.attrs["axis"] % node.inputs[0].ndim
    sizes = [v.shape[axis] for v in node.outputs]
    parts = vector(writer, f"{node.outputs[0].name}_sizes", sizes)
    writer.node("Split", [data.name, parts], [v.name for v in node.outputs], axis=axis)


@_export("strided_slice")
def _strided_slice(writer: Writer, node: OpNode) -> None:
    data, output = node.inputs[0], node.outputs[0].name
    begin, end = node.attrs["begin"], node.attrs["end"]
    axes = range(len(begin)) if node.attrs["axes"] is None else _known(node, "axes")
    strides = (1,) if node.attrs["strides"] is None else _known(node, "strides")
    steps = strides * len(begin) if len(strides) == 1 else strides
    settings = {"begin": begin, "end": end, "axes": axes, "steps": steps}
    names = [vector(writer, f"{output}_{name}", list(values)) for name, values in settings.items()]
    writer.node("Slice", [data.name, *names], [output])


@_export("reverse")
def _reverse(writer: Writer, node: OpNode) -> None:
    output, axis = node.output.name, node.attrs["axis"]
    axes = [axis] if isinstance(axis, int) else list(axis)
    places = {"begin": [-1], "end": [-(2**63) + 1], "step": [-1]}
    names = [writer.weight(f"{output}_{name}", number * len(axes)) for name, number in places.items()]
    names.insert(2, writer.weight(f"{output}_axes", axes))
    writer.node("Slice", [node.inputs[0].name, *names], [output])


@_export("take")
def _take(writer: Writer, node: OpNode) -> None:
    data, indices = (v.name for v in node.inputs)
    axis = node.attrs["axis"]
    if axis is None:
        flat = f"{node.outputs[0].name}_flat"
        writer.node("Reshape", [data, writer.weight(f"{flat}_shape", [-1])], [flat])
        data, axis = flat, 0
    writer.node("Gather", [data, indices], [node.outputs[0].name], axis=axis)


@_export("cast")
def _cast(writer: Writer, node: OpNode) -> None:
    writer.node("Cast", [node.inputs[0].name], [node.outputs[0].name], to=writer.element_type(node.outputs[0]))


@_export("nn.pad")
def _pad(writer: Writer, node: OpNode) -> None:
    data, output, mode = node.inputs[0], node.outputs[0].name, node.attrs["pad_mode"]
    if mode == "wrap":
        raise UnsupportedOperator("nn.pad: ONNX has no wrapping pad before opset 19")
    width = node.attrs["pad_width"]
    amounts = vector(writer, f"{output}_amounts", [pair[0] for pair in width] + [pair[1] for pair in width])
    inputs = [data.name, amounts]
    if mode == "constant":
        if len(node.inputs) > 1:
            inputs.append(node.inputs[1].name)
        else:
            inputs.append(writer.weight(f"{output}_value", node.attrs["pad_value"], str(data.dtype)))
    writer.node("Pad", inputs, [output], mode=mode)


@_export("nn.conv1d_transpose", "nn.conv2d_transpose", "nn.conv3d_transpose")
def _conv_transpose(writer: Writer, node: OpNode) -> None:
    rank = node.inputs[0].ndim - 2
    writer.node(
        "ConvTranspose",
        [v.name for v in node.inputs],
        [node.outputs[0].name],
        strides=_spatial(node, "strides", rank),
        pads=_pads(node, rank),
        dilations=_spatial(node, "dilation", rank),
        output_padding=_spatial(node, "output_padding", rank),
        group=node.attrs["groups"],
    )


@_export("broadcast_to")
def _broadcast_to(writer: Writer, node: OpNode) -> None:
    output = node.outputs[0].name
    shape = vector(writer, f"{output}_shape", node.attrs["shape"])
    writer.node("Expand", [node.inputs[0].name, shape], [output])


@_export("not_equal")
def _not_equal(writer: Writer, node: OpNode) -> None:
    output = node.output.name
    writer.node("Equal", [v.name for v in node.inputs], [f"{output}_equal"])
    writer.node("Not", [f"{output}_equal"], [output])


@_export("floor_mod")
def _floor_mod(writer: Writer, node: OpNode) -> None:
    if node.output.dtype.is_float:
        raise UnsupportedOperator("floor_mod: ONNX's remainder of floats has the sign of the dividend")
    writer.node("Mod", [v.name for v in node.inputs], [node.output.name])


@_export("full")
def _full(writer: Writer, node: OpNode) -> None:
    output = node.output.name
    value = writer.weight(f"{output}_value", node.attrs["fill_value"], str(node.output.dtype))
    writer.node("Expand", [value, vector(writer, f"{output}_shape", node.attrs["shape"])], [output])


@_export("stack")
def _stack(writer: Writer, node: OpNode) -> None:
    output, axis = node.output.name, node.attrs["axis"] % node.output.ndim
    at = writer.weight(f"{output}_axis", [axis])
    for k, value in enumerate(node.inputs):
        writer.node("Unsqueeze", [value.name, at], [f"{output}_part_{k}"])
    writer.node("Concat", [f"{output}_part_{k}" for k in range(len(node.inputs))], [output], axis=axis)


EXPORTS.update(dict.fromkeys(GATES, write_recurrent))
EXPORTS.update(COUNTED)
EXPORTS.update(LOOPS)
EXPORTS.update(INDEXING)
EXPORTS.update(SIZES)
