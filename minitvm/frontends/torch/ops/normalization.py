"""Convert softmax and normalisations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....expr.dtypes import limits
from ....graph.nodes import Dim
from ...common.operand import Operand
from ..context import TorchNodeContext, by_lines
from ..registry import converter


def _softmax(relay: str) -> Any:
    @by_lines
    def convert(n: TorchNodeContext) -> Any:
        n.ignore("half_to_float", "dtype")
        return n.op(relay, n.cast(n["self"], n.dtype), axis=n.axis())

    return convert


converter("_softmax.default", "softmax.int")(_softmax("nn.softmax"))
converter("_log_softmax.default", "log_softmax.int")(_softmax("nn.log_softmax"))


@converter("_safe_softmax.default")
@by_lines
def safe_softmax(n: TorchNodeContext) -> Any:
    """Return the softmax, but 0 in lines in which all elements are minus infinity, because they are masked entirely."""
    x, soft = n["self"], _softmax("nn.softmax")(n)
    visible = n.op("not_equal", x, n.of_dtype(-np.inf, x.dtype))
    some = n.op("any", visible, axis=(n.axis(),), keepdims=True)
    return n.op("where", some, soft, n.of_dtype(0.0, n.dtype))


@converter("_native_batch_norm_legit_no_training.default")
def batch_norm(n: TorchNodeContext) -> Any:
    """Normalise with given statistics. The other results are only for training."""
    x = n["input"]
    channels = x.shape[1]
    weight, bias = _weight(n, "weight", (channels,), 1), _weight(n, "bias", (channels,), 0)
    n.ignore("momentum")
    normal = n.op("nn.batch_norm", x, weight, bias, n["running_mean"], n["running_var"], epsilon=n.attr("eps"))
    return [normal, None, None]


def _weight(n: TorchNodeContext, name: str, shape: Sequence[Dim], value: float) -> Operand:
    """Return a weight or, if it is left out, `value`, which has no effect."""
    weight = n.optional(name)
    if weight is not None:
        return weight
    dtype = n.dtype_of_result(0) if isinstance(n.node.meta["val"], list | tuple) else n.dtype
    if all(isinstance(d, int) for d in shape):
        return Operand.known(np.full(tuple(shape), value, dtype.numpy))
    filled: Operand = n.op("full", shape=tuple(shape), fill_value=value, dtype=str(dtype))
    return filled


@converter("layer_norm.default")
def layer_norm(n: TorchNodeContext) -> Any:
    return _layer_norm(n)


@converter("native_layer_norm.default")
def native_layer_norm(n: TorchNodeContext) -> Any:
    if n.wants(1) or n.wants(2):
        n.refuse("the statistics as results are not supported")
    return [_layer_norm(n), None, None]


def _layer_norm(n: TorchNodeContext) -> Any:
    """Normalise over the last axes, which have the shape `normalized_shape`."""
    x, shape = n["input"], n.attr("normalized_shape")
    weight, bias = _weight(n, "weight", shape, 1), n.optional("bias")
    weights = [weight] if bias is None else [weight, bias]
    axes = tuple(range(x.ndim - len(shape), x.ndim))
    return n.op("nn.layer_norm", x, *weights, axis=axes, epsilon=n.attr("eps"))


@converter("rms_norm.default")
def rms_norm(n: TorchNodeContext) -> Any:
    x, shape, epsilon = n["input"], n.attr("normalized_shape"), n.attr("eps")
    axes = tuple(range(x.ndim - len(shape), x.ndim))
    epsilon = float(limits(x.dtype.numpy).eps) if epsilon is None else epsilon
    return n.op("nn.rms_norm", x, _weight(n, "weight", shape, 1), axis=axes, epsilon=epsilon)


@converter("native_group_norm.default")
def native_group_norm(n: TorchNodeContext) -> Any:
    if n.wants(1) or n.wants(2):
        n.refuse("the statistics as results are not supported")
    n.ignore("N", "C", "HxW")
    return [_group_norm(n, n.attr("group")), None, None]


@converter("group_norm.default")
def group_norm(n: TorchNodeContext) -> Any:
    return _group_norm(n, n.attr("num_groups"))


def _group_norm(n: TorchNodeContext, groups: int) -> Any:
    x = n["input"]
    channels = (x.shape[1],)
    weight, bias = _weight(n, "weight", channels, 1), _weight(n, "bias", channels, 0)
    return n.op("nn.group_norm", x, weight, bias, num_groups=groups, epsilon=n.attr("eps"))


@converter("instance_norm.default")
def instance_norm(n: TorchNodeContext) -> Any:
    """Normalise each channel of each sample by its own statistics."""
    if not n.attr("use_input_stats"):
        n.refuse("running statistics are not supported")
    n.ignore("running_mean", "running_var", "momentum")
    x = n["input"]
    channels = (x.shape[1],)
    weight, bias = _weight(n, "weight", channels, 1), _weight(n, "bias", channels, 0)
    return n.op("nn.instance_norm", x, weight, bias, epsilon=n.attr("eps"))


@converter("_native_batch_norm_legit.no_stats")
def batch_norm_of_batch(n: TorchNodeContext) -> Any:
    """Normalise each channel by the statistics of the batch, which are the other results."""
    x = n["input"]
    if n.wants(1) or n.wants(2):
        n.refuse("the statistics as results are not supported")
    channels, axes = (x.shape[1],), tuple(a for a in range(x.ndim) if a != 1)
    mean, spread = n.op("mean", x, axis=axes), n.op("variance", x, axis=axes)
    weight, bias = _weight(n, "weight", channels, 1), _weight(n, "bias", channels, 0)
    n.ignore("momentum", "training")
    return [n.op("nn.batch_norm", x, weight, bias, mean, spread, epsilon=n.attr("eps")), None, None]
