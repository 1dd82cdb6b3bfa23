"""Convert the operators that scikit-learn's exporters put between tables and models (ai.onnx.ml). Strings are
refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...common.operand import Operand
from ..context import NodeContext
from ..registry import converter
from .trees import ML


@converter("Imputer", domain=ML)
def imputer(n: NodeContext) -> Any:
    """Replace missing values (NaN, or a number that marks them) with one number, or one number per feature."""
    x = n[0]
    kind, word = ("float", "floats") if x.dtype.is_float else ("int64", "int64s")
    given = np.asarray(n.attr(f"imputed_value_{word}"), x.dtype.numpy)
    if given.ndim != 1 or not given.size:
        n.refuse(f"imputed_value_{word} is empty")
    if given.size > 1:
        x = n.fit(x, (*x.shape[:-1], given.size), f"the data for {given.size} numbers in imputed_value_{word}")
    missing = n.attr(f"replaced_value_{kind}", 0)
    absent = n.op("isnan", x) if np.isnan(missing) else n.op("equal", x, np.asarray(missing, x.dtype.numpy))
    n.ignore("imputed_value_floats", "imputed_value_int64s", "replaced_value_float", "replaced_value_int64")
    return n.op("where", absent, Operand.known(given), x)


@converter("OneHotEncoder", domain=ML)
def one_hot_encoder(n: NodeContext) -> Any:
    """Add a last axis with 1 at the element's category. An element without a category gives a row of zeros."""
    if n.has("cats_strings"):
        n.refuse("categories that are strings are not supported")
    if not n.attr("zeros", 1):
        n.refuse("zeros=0, an error for an element of no category, is not supported")
    categories = np.asarray(n.attr("cats_int64s"), np.int64)
    element = n.op("expand_dims", n.cast(n[0], "int64"), axis=(n[0].ndim,))
    return n.cast(n.op("equal", element, categories), "float32")


@converter("FeatureVectorizer", domain=ML)
def feature_vectorizer(n: NodeContext) -> Any:
    """Concatenate features: `inputdimensions` from each input, with zeros if it has fewer."""
    widths = n.attr("inputdimensions")
    if min(widths, default=0) < 0 or max(widths, default=0) > 1 << 20:
        n.refuse(f"inputdimensions={list(widths)}: wanted numbers of features")
    if len(widths) != len(n.present):
        n.refuse(f"{len(n.present)} inputs and {len(widths)} inputdimensions")
    parts = []
    for x, width in zip(n.present, widths, strict=True):
        if x.ndim > 2 or not isinstance(x.shape[-1], int):
            n.refuse(f"{x} is not supported: wanted rows of a known number of features")
        rows = n.cast(n.reshape(x, (1, -1)) if x.ndim == 1 else x, "float32")
        if (extra := width - x.shape[-1]) > 0:
            rows = n.op("nn.pad", rows, pad_width=((0, 0), (0, extra)))
        elif extra < 0:
            rows = n.op("take", rows, np.arange(width), axis=1)
        parts.append(rows)
    return n.op("concatenate", *parts, axis=1)


@converter("LabelEncoder", domain=ML, since=2)
def label_encoder(n: NodeContext) -> Any:
    """Return the value of the first key that an element equals, or a default. From version 4 on, NaN equals the key
    NaN.
    """
    keys, values = _of_either(n, "keys"), _of_either(n, "values")
    usual = -1 if values.dtype.kind == "i" else -0.0
    other = n.attr("default_int64" if values.dtype.kind == "i" else "default_float", usual)
    if n.has("default_tensor"):
        other = n.attr("default_tensor").reshape(())
    n.ignore("default_string", "default_int64", "default_float")
    if len(keys) != len(values) or not len(keys):
        n.refuse(f"{len(keys)} keys and {len(values)} values")
    element = n.op("expand_dims", n.cast(n[0], str(keys.dtype)), axis=(n[0].ndim,))
    equal = n.op("equal", element, keys)
    if n.version >= 4 and keys.dtype.kind == "f" and np.isnan(keys).any():
        equal = n.op("logical_or", equal, n.op("logical_and", n.op("isnan", element), np.isnan(keys)))
    last = (n[0].ndim,)
    hit = n.cast(equal, "int32")
    first = n.op("take", values, n.op("argmax", hit, axis=last, keepdims=False), axis=0)
    known = n.op("greater", n.op("max", hit, axis=last), np.zeros((), np.int32))
    return n.op("where", known, first, Operand.known(np.asarray(other, values.dtype)))


def _of_either(n: NodeContext, name: str) -> np.ndarray:
    """Return keys or values, which are given as a tensor, as int64s, or as floats."""
    if n.has(f"{name}_tensor"):
        array: np.ndarray = np.asarray(n.attr(f"{name}_tensor")).reshape(-1)
        if array.dtype.kind in "if":
            return array
    for word, dtype in (("int64s", np.int64), ("floats", np.float32)):
        if n.has(f"{name}_{word}"):
            return np.asarray(n.attr(f"{name}_{word}"), dtype)
    n.refuse(f"{name} that are strings are not supported")


@converter("SVMRegressor", domain=ML)
def svm_regressor(n: NodeContext) -> Any:
    """Return the sum of coefficient * kernel(row, support vector), plus rho. With one class, return 1 if it is
    positive, else -1.
    """
    x = n.cast(n[0], "float32")
    if x.ndim != 2 or not isinstance(x.shape[1], int):
        n.refuse(f"{x} is not supported: wanted rows of a known number of features")
    if n.attr("post_transform", "NONE") != "NONE":
        n.refuse_attribute("post_transform")
    supports, weights = n.attr("n_supports", 0), np.asarray(n.attr("coefficients"), np.float32)
    vectors = np.asarray(n.attr("support_vectors", ()), np.float32)
    rows = supports if supports > 0 else x.shape[1]
    if supports < 0 or len(weights) != rows or (supports and vectors.size != supports * x.shape[1]):
        n.refuse(
            f"n_supports={supports} with {len(weights)} coefficients and {vectors.size} numbers of support vectors "
            f"does not fit {x}"
        )
    if supports:
        near = kernel(n, x, vectors.reshape(supports, -1))
    else:
        n.ignore("kernel_type", "kernel_params")
        near = x
    total = n.op("add", n.op("nn.matmul", near, weights[:, None]), float(n.attr("rho")[0]))
    if n.attr("one_class", 0):
        return n.op("where", n.op("greater", total, 0.0), *(Operand.known(np.float32(v)) for v in (1, -1)))
    return total


def kernel(n: NodeContext, x: Operand, vectors: np.ndarray) -> Operand:
    """Return kernel(row, support vector) as [rows, vectors], for `kernel_type` with its parameters gamma, coef0 and
    degree.
    """
    kind, parameters = n.attr("kernel_type", "LINEAR"), n.attr("kernel_params", (0.0, 0.0, 0.0))
    gamma, coef0, degree = (float(np.float32(p)) for p in (*parameters, 0.0, 0.0, 0.0)[:3])
    if kind == "RBF":  # not by a product: it would cancel for rows near a vector
        apart = n.op("subtract", n.op("expand_dims", x, axis=(1,)), vectors[None])
        square = n.op("sum", n.op("multiply", apart, apart), axis=(2,))
        near: Operand = n.op("exp", n.op("multiply", square, -gamma))
        return near
    near = n.op("nn.matmul", x, vectors.T.copy())
    if kind == "LINEAR":
        return near
    near = n.op("add", n.op("multiply", near, gamma), coef0)
    if kind == "POLY":
        near = n.op("power", near, degree)
    elif kind == "SIGMOID":
        near = n.op("tanh", near)
    else:
        n.refuse_attribute("kernel_type")
    return near
