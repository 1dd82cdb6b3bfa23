"""Regions as ONNX models, for engines that read ONNX. The bytes of large constants stay in the executable."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..graph.nodes import Graph, OpNode, Value
from .engine import Translation

_FEW_BYTES = 1024  # a smaller constant is a part of the model's text


def translate(graph: Graph) -> Translation:
    """Return a region as an ONNX model, in which large constants have a name and a type, and no bytes."""
    from ..frontends import to_onnx

    model = to_onnx(graph)
    own, large = {c.value.name for c in graph.constants}, []
    for tensor in model.graph.initializer:
        if tensor.name in own and tensor.ByteSize() > _FEW_BYTES:
            large.append(tensor.name)
            tensor.ClearField("raw_data")  # the only field that the exporter uses for such tensors
            tensor.data_location = tensor.EXTERNAL
            tensor.external_data.add(key="location", value="executable")
    text = base64.b64encode(model.SerializeToString()).decode("ascii")
    return Translation(json.dumps({"model": text, "large": large}))


def model_of(code: str) -> tuple[bytes, list[str]]:
    """Return the model that `translate` wrote, and the names of the constants whose bytes it lacks."""
    body = json.loads(code)
    return base64.b64decode(body["model"]), body["large"]


def complete(code: str, constants: Mapping[str, np.ndarray[Any, Any]]) -> bytes:
    """Return the model that `translate` wrote, with the bytes of its constants."""
    import onnx
    from onnx import numpy_helper

    model = onnx.ModelProto.FromString(model_of(code)[0])
    for tensor in model.graph.initializer:
        if tensor.data_location == tensor.EXTERNAL:
            tensor.CopyFrom(numpy_helper.from_array(np.asarray(constants[tensor.name]), tensor.name))
    content: bytes = model.SerializeToString()
    return content


def single(item: OpNode) -> Graph:
    """Return a graph of one operator, whose operands are inputs. It shows whether an engine supports the operator."""
    inputs = tuple(Value(f"x{k}", v.shape, v.dtype) for k, v in enumerate(item.inputs))
    outputs = tuple(Value(f"y{k}", v.shape, v.dtype) for k, v in enumerate(item.outputs))
    return Graph(inputs, (), (OpNode(item.op, inputs, item.attrs, outputs),), outputs, "operator")


def probed(
    load: Callable[[bytes], Any], shapes: Callable[[Any], list[tuple[int, ...]]] | None = None
) -> Callable[[OpNode], str]:
    """Return a function `supports(item)`: it exports one operator, and lets `load` read the model. `shapes` returns the
    shapes of the results in what `load` returned, which must be those of the operator.

    The answers for equal operators are remembered.
    """
    answers: dict[str, str] = {}

    def supports(item: OpNode) -> str:
        if any(value.dtype == "bfloat16" for value in (*item.inputs, *item.outputs)):
            return "its Python interface has no bfloat16"
        key = f"{item.op} {[v.type for v in (*item.inputs, *item.outputs)]} {dict(item.attrs)}"
        if key not in answers:
            answers[key] = _refusal(item, load, shapes)
        return answers[key]

    return supports


def _refusal(item: OpNode, load: Callable[[bytes], Any], shapes: Callable[[Any], list[tuple[int, ...]]] | None) -> str:
    from ..frontends import to_onnx
    from .region_calls import text_of
    from .region_json import to_json

    try:
        graph = single(item)
        to_json(graph)
        loaded = load(to_onnx(graph).SerializeToString())
        pairs = zip(item.outputs, shapes(loaded), strict=True) if shapes is not None else ()
        other = next(((value, shape) for value, shape in pairs if value.shape != shape), None)
    except Exception as error:
        return text_of(error)
    return "" if other is None else f"its {other[0].name} would have the shape {list(other[1])}, not {other[0].type}"
