"""Convert operators that sample pictures at points, reassemble windows, and other single operators."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....errors import ModelError
from ....expr import Expr
from ....topi.shapes import product
from ...common.blocks import blocks_to_picture
from ...common.operand import Operand, known_dims
from ..context import NodeContext
from ..registry import converter

_METHODS = {"bilinear": "linear", "bicubic": "cubic", "linear": "linear", "cubic": "cubic", "nearest": "nearest"}


@converter("GridSample", domain="com.microsoft")
@converter("GridSample", since=16)
def grid_sample(n: NodeContext) -> Any:
    mode = n.attr("mode", "linear")
    if mode not in _METHODS:
        n.refuse_attribute("mode")
    align, padding = bool(n.attr("align_corners", 0)), n.attr("padding_mode", "zeros")
    data, grid = n[0], n.cast(n[1], n[0].dtype)
    return n.op("image.grid_sample", data, grid, method=_METHODS[mode], padding_mode=padding, align_corners=align)


@converter("AffineGrid", since=20)
def affine_grid(n: NodeContext) -> Any:
    """Return the points of a picture of a size, from -1 to 1, moved by matrices [batch, rank, rank + 1] (Jaderberg
    2015).

    Points are (x, y) or (x, y, z): the last axis of the picture comes first.
    """
    theta, (batch, _, *extents) = n[0], n.dims(n[1], "the size")
    rank, align = len(extents), bool(n.attr("align_corners", 0))
    theta = n.assume(theta, (theta.shape[0], batch)) if isinstance(theta.shape[0], Expr) else theta
    columns = []
    for axis in reversed(range(rank)):
        index = n.cast(n.numbers(extents[axis], axis, rank), theta.dtype)
        size = n.cast(known_dims((extents[axis],)), theta.dtype)
        step = n.op("divide", 2.0 * _one(theta), n.op("subtract", size, 1.0) if align else size)
        first = -_one(theta) if align else n.op("subtract", n.op("divide", step, 2.0), 1.0)
        line = n.op("add", n.op("multiply", index, step), first)
        columns.append(n.op("broadcast_to", line, shape=tuple(extents)))
    columns.append(n.op("full", shape=tuple(extents), fill_value=1.0, dtype=str(theta.dtype)))
    points = n.reshape(n.op("stack", *columns, axis=rank), (1, product(extents), rank + 1))
    moved = n.op("nn.matmul", points, n.op("transpose", theta, axes=(0, 2, 1)))
    return n.reshape(moved, (batch, *extents, rank))


def _one(like: Operand) -> np.ndarray:
    return np.ones(1, like.dtype.numpy)


@converter("Col2Im", since=18)
def col2im(n: NodeContext) -> Any:
    x = n[0]
    picture, block = n.ints(n[1], "the shape of the picture"), n.ints(n[2], "the shape of a block")
    rank = len(picture)
    strides, dilations = n.attr("strides", (1,) * rank), n.attr("dilations", (1,) * rank)
    return blocks_to_picture(n, x, picture, block, strides, dilations, n.attr("pads", (0,) * (2 * rank)))


@converter("Einsum", since=12)
def einsum(n: NodeContext) -> Any:
    """Return an Einstein summation. An ellipsis is replaced with letters that the equation does not use."""
    equation = n.attr("equation").replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(n.inputs):
        raise ModelError(f"{n.where}: {equation!r} has {len(terms)} operands, the node {len(n.inputs)}")
    free = [c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if c not in equation]
    longest = max((x.ndim - len(t) + 3 for t, x in zip(terms, n.present, strict=False) if "..." in t), default=0)
    letters = "".join(free[:longest])
    if not arrow:
        labels = left.replace("...", "").replace(",", "")
        right = ("..." if "..." in left else "") + "".join(sorted(c for c in set(labels) if labels.count(c) == 1))
    written = [
        t.replace("...", letters[longest - (x.ndim - len(t) + 3) :] if "..." in t else "")
        for t, x in zip(terms, n.present, strict=True)
    ]
    return n.op("einsum", *n.present, equation=",".join(written) + "->" + right.replace("...", letters))


@converter("ArrayFeatureExtractor", domain="ai.onnx.ml")
def array_feature_extractor(n: NodeContext) -> Any:
    features = n.op("take", n[0], n.reshape(n[1], (-1,)), axis=n[0].ndim - 1)
    return features if n[0].ndim > 1 else n.op("expand_dims", features, axis=(0,))


@converter("Binarizer", domain="ai.onnx.ml")
def binarizer(n: NodeContext) -> Any:
    return n.cast(n.op("greater", n[0], n.attr("threshold", 0.0)), n[0].dtype)
