"""Convert TensorFlow Lite models to graphs.

    graph = from_tflite("model.tflite")

Each builtin operator has a converter (`ops/`, one file per family) that adds minitvm operators. TFLite stores images
with the channels last, and minitvm computes them with the channels first: a tensor is converted from one order to the
other only when an operator needs it (`layouts`), so transposes remain only at the borders of a network. Values that are
known while importing (weights, shapes) are computed immediately.

The `tflite` package is imported only when a model is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import InputError
from ...graph.nodes import Dim, Graph
from ...importing import Frontend
from .registry import converter

if TYPE_CHECKING:
    from .loading import TFLiteModel

__all__ = ["FRONTEND", "converter", "from_tflite", "loading", "read_tflite"]


def from_tflite(
    model: Any,
    shapes: Mapping[str, Sequence[Dim | str | None]] | None = None,
    values: Mapping[str, np.ndarray] | None = None,
    signature: str | None = None,
) -> Graph:
    """Return the graph of a TFLite model: the path of a .tflite file, its bytes, or a `loading.TFLiteModel`.

    Inputs and outputs have the names of the model's signature, or of its tensors if it has none. `signature` selects
    one of several signatures. `shapes` gives the dimensions of inputs: {"x": ("b", 96, 96, 3)}. A number fixes a
    dimension. A dimension that is given by a name or as None, or that the model leaves open, becomes a symbolic
    `SizeVar`; equal names mean equal dimensions. `values` gives the contents of inputs, which become constants. The
    variables of a model become states of the graph.

    Raises `ModelError` if there is no such file, if it is not a TFLite model, or a damaged one; `InputError` for shapes
    or values that do not fit; and `UnsupportedOperator` for operators or dtypes that minitvm does not implement, which
    it names together with the tensors that they compute.
    """
    from .importer import TFLiteImporter
    from .loading import load

    for option, mapping in (("shapes", shapes), ("values", values)):
        if not isinstance(mapping, Mapping | None):
            raise InputError(f"{option}: wanted a dictionary with the names of inputs, found {mapping!r}")
    return TFLiteImporter(load(model), dict(shapes or {}), dict(values or {}), signature).run()


def read_tflite(model: Any) -> TFLiteModel:
    """Return a TFLite model as it is stored: its subgraphs, operators, tensors and signatures.

    Raises `ModelError` as `from_tflite` does.
    """
    from .loading import load

    return load(model)


FRONTEND = Frontend(
    "a TFLite model",
    "TFLiteModel",
    ".tflite",
    from_tflite,
    frozenset({"shapes", "values"}),
)
