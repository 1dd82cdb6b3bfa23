"""Convert linear models and scalers of ai.onnx.ml, as exporters of scikit-learn write them, on numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...common.operand import Operand
from ..context import NodeContext
from ..registry import converter
from .trees import ML, transformed


def _scores(n: NodeContext, outputs: int) -> Operand:
    """Return the product with the coefficients [outputs, features], plus the intercepts."""
    x = n.cast(n[0], "float32")
    if x.ndim != 2:
        n.refuse(f"a linear model of {x} is not supported: wanted rows of features")
    coefficients = np.asarray(n.attr("coefficients"), np.float32)
    if outputs < 1 or coefficients.size % outputs:
        n.refuse(f"{coefficients.size} coefficients for {outputs} outputs")
    total: Operand = n.op("nn.matmul", x, coefficients.reshape(outputs, -1).T.copy())
    intercepts = n.attr("intercepts", ())
    if len(intercepts) not in (0, outputs):
        n.refuse(f"{len(intercepts)} intercepts for {outputs} outputs")
    return n.op("add", total, np.asarray(intercepts, np.float32)[None]) if len(intercepts) else total


@converter("LinearRegressor", domain=ML)
def linear_regressor(n: NodeContext) -> Any:
    return transformed(n, _scores(n, n.attr("targets", 1)), n.attr("post_transform", "NONE"))


@converter("LinearClassifier", domain=ML)
def linear_classifier(n: NodeContext) -> Any:
    """Return the label with the highest score, and the scores of all labels."""
    if n.has("classlabels_strings"):
        n.refuse("labels that are strings are not supported")
    n.ignore("multi_class")  # of training
    labels = np.asarray(n.attr("classlabels_ints"), np.int64)
    if len(n.attr("intercepts", labels)) != len(labels):
        n.refuse("one score for two classes is not supported: wanted coefficients for each class")
    total = _scores(n, len(labels))
    best = n.op("argmax", total, axis=(1,), keepdims=False)
    return n.op("take", labels, best, axis=0), transformed(n, total, n.attr("post_transform", "NONE"))


@converter("Scaler", domain=ML)
def scaler(n: NodeContext) -> Any:
    """(x - offset) * scale, with one pair for all features or one pair per feature."""
    x = n.cast(n[0], "float32")
    offset, scale = (np.asarray(n.attr(name), np.float32) for name in ("offset", "scale"))
    if offset.shape != scale.shape:
        n.refuse(f"{offset.size} numbers in offset and {scale.size} in scale: wanted as many")
    if scale.shape != (1,):
        x = n.fit(x, (*x.shape[:-1], scale.size), f"the data for {scale.size} numbers in scale")
    return n.op("multiply", n.op("subtract", x, offset), scale)


@converter("Normalizer", domain=ML)
def normalizer(n: NodeContext) -> Any:
    """Divide rows by their largest element, their sum of magnitudes, or their length. A row for which that is 0
    stays.
    """
    x, norm = n.cast(n[0], "float32"), n.attr("norm", "MAX")
    axis = {"axis": (x.ndim - 1,), "keepdims": True}
    if norm == "MAX":
        size = n.op("max", x, **axis)
    elif norm == "L1":
        size = n.op("sum", n.op("abs", x), **axis)
    elif norm == "L2":
        size = n.op("sqrt", n.op("sum", n.op("multiply", x, x), **axis))
    else:
        n.refuse_attribute("norm")
    one = np.ones((1,) * x.ndim, np.float32)
    return n.op("divide", x, n.op("where", n.op("equal", size, 0.0), one, size))
