"""Convert ONNX models, opset 7 and newer, to graphs.

    graph = from_onnx("model.onnx", shapes={"x": (1, 3, 48, 320)})

Each ONNX operator has a converter (`ops/`, one file per family), selected by opset version, that adds minitvm
operators. An operator without a converter is replaced by its function body if the ONNX specification has one. Values
that are known while importing (weights, and arithmetic on shapes) are computed immediately, including symbolic
dimensions. So the chains of Shape, Gather and Concat that exporters write before a Reshape disappear.

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
    """Return the graph of an ONNX model: a `ModelProto`, or the path of a file with its weights inside or in other
    files.

    `shapes` gives the dimensions of inputs: {"x": ("b", 3, None)}. A number fixes a dimension. A dimension that is
    given by a name or as None, or that the model leaves open, becomes a symbolic `SizeVar`; equal names mean equal
    dimensions. `values` gives the contents of inputs, which become constants instead of inputs of the graph. Use it for
    inputs that a shape or a branch depends on. `stop_before` ends the graph before the first node with this name or
    operator; "unsupported" means the first unsupported node. The outputs are then the values that the rest of the model
    reads.

    `states` maps inputs to the outputs of the previous run that they receive: {"past_key": "present_key"}. True selects
    the names past... and present.... They become states of the graph with constant shapes, and `max_length` is the size
    of the dimension that is still open, the length of a context. For example, a decoder for one token at a time:

        graph = from_onnx("decoder.onnx", shapes={"input_ids": (1, 1)}, states=True, max_length=2048)
        module = minitvm.build(graph)
        logits = module(input_ids=token, seqlens_k=place, total_sequence_length=place_and_one)

    Raises `ModelError` if there is no such file, if it is not an ONNX model, or if the model contradicts itself;
    `InputError` for shapes or values that do not fit; and `UnsupportedOperator` for an operator, attribute or dtype
    that minitvm does not implement, which it names together with the node. Its subclass `ValueDependent` means that a
    shape depends on the contents of an input.
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
