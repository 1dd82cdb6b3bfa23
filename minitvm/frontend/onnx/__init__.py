"""ONNX, opset 7 to the newest, as a graph.

    graph = from_onnx("model.onnx", shapes={"x": (1, 3, 48, 320)})

Each ONNX operator has a converter (`ops/`, one family a file), chosen by opset version, that writes minitvm operators.
An operator without one is replaced by its function body where the ONNX specification defines it by one. What is known
while importing (weights, and arithmetic on shapes) is computed at once, symbolic dimensions included; so the chains of
Shape, Gather, Concat that exporters write in front of a Reshape leave nothing behind.

The `onnx` package is imported when a model is, not before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...graph.nodes import Dim, Graph
from .operand import ValueDependent

__all__ = ["ValueDependent", "from_onnx"]


def from_onnx(
    model: Any,
    shapes: Mapping[str, Sequence[Dim | str | None]] | None = None,
    values: Mapping[str, np.ndarray] | None = None,
) -> Graph:
    """The graph of an ONNX model: a `ModelProto`, or the path of a file, with weights in it or in files beside it.

    `shapes` fixes the dimensions of inputs by name; one that stays open becomes a symbolic `SizeVar`, and so does one
    given as None or by a name (dimensions of one name are equal). `values` fixes
    inputs themselves, which are then constants and no inputs of the graph: for those that a shape depends on.

    Raises `ModelError` where there is no file, no ONNX model, or one that contradicts itself; `InputError` for shapes
    or values that do not fit; `UnsupportedOperator`, which names operator, attribute or dtype and the node, for what
    minitvm does not implement, and its kind `ValueDependent` where the contents of an input decide a shape.
    """
    from .importer import Importer
    from .loading import load

    return Importer(load(model), dict(shapes or {}), dict(values or {})).run()
