"""ONNX, opset 7 to the newest, as a graph.

    graph = from_onnx("model.onnx", shapes={"x": (1, 3, 48, 320)})

Each ONNX operator has a converter (`ops/`, one family a file), chosen by opset version, that writes minitvm operators.
An operator without a converter is replaced by its function body if the ONNX specification has one. Values that are
known while importing (weights, and arithmetic on shapes) are computed at once, symbolic dimensions included; so the
chains of Shape, Gather, Concat that exporters write before a Reshape disappear.

The `onnx` package is imported only when a model is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...graph.nodes import Dim, Graph
from ...importing import Frontend
from ..common.operand import ValueDependent
from .registry import converter

__all__ = ["FRONTEND", "ValueDependent", "converter", "dtypes", "from_onnx", "loading"]


def from_onnx(
    model: Any,
    shapes: Mapping[str, Sequence[Dim | str | None]] | None = None,
    values: Mapping[str, np.ndarray] | None = None,
    stop_before: str | None = None,
    states: Mapping[str, str] | bool | None = None,
    max_length: int | None = None,
) -> Graph:
    """The graph of an ONNX model: a `ModelProto`, or the path of a file, with weights in it or in files beside it.

    `shapes` gives the dimensions of inputs: {"x": ("b", 3, None)}. A number fixes a dimension. One that stays open
    becomes a symbolic `SizeVar`, and so does one given as None or by a name; dimensions of one name are equal.
    `values` gives the contents of inputs, which become constants instead of inputs of the graph; use it for inputs
    that a shape, or a branch, depends on. `stop_before` ends the graph before the first node of that name or operator,
    or with "unsupported" before the first that is not supported; its outputs are what the rest of the model reads.

    `states` are inputs that are an output of the run before, {"past_key": "present_key"}; True: those called past...
    and present.... They become states of the graph, of constant shape: `max_length` is the size of the dimension that
    is left open, the length of a context. A decoder of one token:

        graph = from_onnx("decoder.onnx", shapes={"input_ids": (1, 1)}, states=True, max_length=2048)
        module = minitvm.build(graph)
        logits = module(input_ids=token, seqlens_k=place, total_sequence_length=place_and_one)

    Raises `ModelError` where there is no file, no ONNX model, or one that contradicts itself; `InputError` for shapes
    or values that do not fit; `UnsupportedOperator`, which names operator, attribute or dtype and the node, for what
    minitvm does not implement, and its kind `ValueDependent` where the contents of an input decide a shape.
    """
    from .importer import OnnxImporter
    from .loading import load

    return OnnxImporter(load(model), dict(shapes or {}), dict(values or {}), stop_before, states, max_length).run()


FRONTEND = Frontend(
    "an ONNX model",
    "ModelProto",
    "",
    from_onnx,
    frozenset({"shapes", "values", "stop_before", "states", "max_length"}),
)
