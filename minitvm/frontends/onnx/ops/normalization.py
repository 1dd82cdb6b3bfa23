"""Convert softmax and normalisations."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....topi.shapes import axis_of, product
from ...common.operand import Operand
from ..context import NodeContext
from ..registry import converter


def _softmax_of_matrix(relay: str) -> Any:
    """Convert a softmax up to opset 12, which is over all axes from `axis` on, as if they were one."""

    def convert(n: NodeContext) -> Any:
        x = n[0]
        axis = n.attr("axis", 1)
        axis = axis + x.ndim if axis < 0 else axis
        if axis == x.ndim - 1:
            return n.op(relay, x, axis=axis)
        flat = n.reshape(x, (product(x.shape[:axis]), product(x.shape[axis:])))
        return n.reshape(n.op(relay, flat, axis=1), x.shape)

    return convert


for _name, _relay in {"Softmax": "nn.softmax", "LogSoftmax": "nn.log_softmax"}.items():
    converter(_name)(_softmax_of_matrix(_relay))


@converter("Hardmax")
def hardmax_of_matrix(n: NodeContext) -> Any:
    x = n[0]
    axis = n.attr("axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    flat = n.reshape(x, (product(x.shape[:axis]), product(x.shape[axis:])))
    return n.reshape(_hardmax(n, flat, 1), x.shape)


@converter("Hardmax", since=13)
def hardmax(n: NodeContext) -> Any:
    return _hardmax(n, n[0], n.attr("axis", -1))


def _hardmax(n: NodeContext, x: Operand, axis: int) -> Operand:
    """Return 1 at the first largest element, and 0 elsewhere."""
    axis = axis_of(axis, x.ndim)
    if 0 in x.shape:
        return x
    best = n.op("argmax", x, axis=axis, keepdims=True)
    hot: Operand = n.cast(n.op("equal", n.numbers(x.shape[axis], axis, x.ndim), n.cast(best, "int64")), x.dtype)
    return hot


@converter("BatchNormalization", since=7)
def batch_norm(n: NodeContext) -> Any:
    if n.attr("training_mode", 0):
        return _batch_norm_of_batch(n)
    n.ignore("momentum")
    if n.version < 9 and n.attr("spatial", 1) != 1:
        n.refuse_attribute("spatial")
    x = n[0]
    weights = [n.cast(n[k], x.dtype) for k in range(1, 5)]
    if any(n.wants(k) for k in range(1, 5)):
        n.refuse("the outputs of training are not supported")
    if x.ndim > 1:
        return n.op("nn.batch_norm", x, *weights, epsilon=n.attr("epsilon", 1e-5))
    # A vector is a batch of one channel.
    column = n.op("expand_dims", x, axis=(1,))
    return n.op("squeeze", n.op("nn.batch_norm", column, *weights, epsilon=n.attr("epsilon", 1e-5)), axis=(1,))


def _batch_norm_of_batch(n: NodeContext) -> Any:
    """Normalise by the batch's own statistics, and move the running statistics towards them."""
    x, scale, bias, mean, variance = (n[k] for k in range(5))
    momentum, epsilon = n.attr("momentum", 0.9), n.attr("epsilon", 1e-5)
    axes = tuple(a for a in range(x.ndim) if a != 1)
    own_mean, own_variance = n.op("mean", x, axis=axes), n.op("variance", x, axis=axes)

    def moved(old: Operand, new: Operand) -> Operand:
        kept = n.op("multiply", old, momentum)
        average: Operand = n.op("add", kept, n.op("multiply", n.cast(new, old.dtype), 1 - momentum))
        return average

    y = n.op("nn.batch_norm", x, scale, bias, own_mean, own_variance, epsilon=epsilon)
    return [y, moved(mean, own_mean), moved(variance, own_variance)]


@converter("LayerNormalization")  # ONNX Runtime writes it for any opset
def layer_norm(n: NodeContext) -> Any:
    """Normalise over the axes from `axis` on. Half floats are normalised in float32, and so are the statistics."""
    x, scale, bias = n[0], n[1], n.optional(2)
    axis = n.attr("axis", -1)
    n.ignore("stash_type")
    if n.wants(1) or n.wants(2) or scale.shape != x.shape[axis:] or (bias is not None and bias.shape != x.shape[axis:]):
        return _layer_norm_parts(n, axis)
    axes = tuple(range(axis_of(axis, x.ndim), x.ndim))
    wide = "float32" if x.dtype.is_half else x.dtype
    operands = [n.cast(v, wide) for v in (x, scale, bias) if v is not None]
    return n.cast(n.op("nn.layer_norm", *operands, axis=axes, epsilon=n.attr("epsilon", 1e-5)), x.dtype)


def _layer_norm_parts(n: NodeContext, axis: int) -> Any:
    x, scale, bias = n[0], n[1], n.optional(2)
    axes = tuple(range(axis_of(axis, x.ndim), x.ndim))
    wide = n.cast(x, "float32" if x.dtype.is_half else x.dtype)
    mean = n.op("mean", wide, axis=axes, keepdims=True)
    spread = n.op("variance", wide, axis=axes, keepdims=True)
    inverse = n.op("reciprocal", n.op("sqrt", n.op("add", spread, n.attr("epsilon", 1e-5))))
    normal = n.cast(n.op("multiply", n.op("subtract", wide, mean), inverse), x.dtype)
    scaled = n.op("multiply", normal, scale)
    result = scaled if bias is None else n.op("add", scaled, bias)
    return [n.fit(result, x.shape, "the data, scaled"), mean, inverse]


@converter("RMSNormalization", since=23)
def rms_norm(n: NodeContext) -> Any:
    x, scale = n[0], n[1]
    n.ignore("stash_type")
    axis = n.attr("axis", -1)
    axes = tuple(range(axis_of(axis, x.ndim), x.ndim))
    wide = "float32" if x.dtype.is_half else x.dtype
    if scale.shape == x.shape[axis:]:
        normal = n.op("nn.rms_norm", n.cast(x, wide), n.cast(scale, wide), axis=axes, epsilon=n.attr("epsilon", 1e-5))
        return n.cast(normal, x.dtype)
    wide_x = n.cast(x, wide)
    square = n.op("mean", n.op("multiply", wide_x, wide_x), axis=axes, keepdims=True)
    root = n.op("sqrt", n.op("add", square, n.attr("epsilon", 1e-5)))
    return n.onto("multiply", n.cast(n.op("divide", wide_x, root), x.dtype), scale)


@converter("GroupNormalization", since=21)
def group_norm(n: NodeContext) -> Any:
    n.ignore("stash_type")
    return n.op("nn.group_norm", n[0], n[1], n[2], num_groups=n.attr("num_groups"), epsilon=n.attr("epsilon", 1e-5))


@converter("GroupNormalization", since=18)
def group_norm_by_group(n: NodeContext) -> Any:
    """Convert the group normalisation of opset 18, which has one scale per group."""
    x, groups = n[0], n.attr("num_groups")
    channels = x.shape[1]
    if not isinstance(channels, int):
        n.refuse(f"the channels {channels} are symbolic")
    scale, bias = (n.op("repeat", n[k], repeats=channels // groups, axis=0) for k in (1, 2))
    return n.op("nn.group_norm", x, scale, bias, num_groups=groups, epsilon=n.attr("epsilon", 1e-5))


@converter("LRN")
def lrn(n: NodeContext) -> Any:
    attrs = {"bias": n.attr("bias", 1.0), "alpha": n.attr("alpha", 1e-4), "beta": n.attr("beta", 0.75)}
    return n.op("nn.lrn", n[0], size=n.attr("size"), **attrs)


@converter("LpNormalization")
def lp_normalization(n: NodeContext) -> Any:
    """Return x divided by its norm along an axis, or 0 if the norm is 0."""
    x, axis, p = n[0], n.attr("axis", -1), n.attr("p", 2)
    if p not in (1, 2):
        n.refuse_attribute("p")
    norm = n.op("l1" if p == 1 else "l2", x, axis=(axis,), keepdims=True)
    zero = np.zeros((), x.dtype.numpy)
    return n.op("where", n.op("equal", norm, zero), Operand.known(zero), n.op("divide", x, norm))
