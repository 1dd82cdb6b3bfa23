"""Normalisations: batch, layer, instance, group, RMS, L2 and local response."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import te
from ..errors import InputError, TypeMismatch
from ..expr import Expr, const
from ..te import Tensor
from .elementwise import elementwise
from .pad import constant_pad
from .reduce import l1, mean, sum_square, variance
from .shapes import agree, axes_of, axis_of, dims, simple

_ZERO = const(0, "int32")


def batch_norm(
    data: Tensor, gamma: Tensor, beta: Tensor, moving_mean: Tensor, moving_var: Tensor, *, axis: int = 1,
    epsilon: float = 1e-5,
) -> Tensor:  # fmt: skip
    """(data - mean) / sqrt(var + epsilon) * gamma + beta, with given statistics, one of each per channel along `axis`.

    It has one output; Relay's also returns the statistics.
    """
    at = axis_of(axis, data.ndim)
    _check_channels("nn.batch_norm", data, at, gamma, beta, moving_mean, moving_var)
    eps = const(epsilon, data.dtype)

    def element(*i: Any) -> Expr:
        c = i[at]
        return (data[i] - moving_mean[c]) / te.sqrt(moving_var[c] + eps) * gamma[c] + beta[c]

    return te.compute(data.shape, element, name="T_batch_norm")


def layer_norm(
    data: Tensor, gamma: Tensor, beta: Tensor | None = None, *, axis: int | Sequence[int] = -1, epsilon: float = 1e-5
) -> Tensor:
    """Normalise over the axes; gamma and beta have the shape of those axes."""
    axes = axes_of(axis, data.ndim)
    for weight in (gamma, beta):
        if weight is not None:
            _check_shape("nn.layer_norm", weight, [dims(data)[a] for a in axes])
    normal = _standardized(data, axes, epsilon)

    def element(*i: Any) -> Expr:
        inner = tuple(i[a] for a in axes)
        scaled = normal[i] * gamma[inner]
        return scaled if beta is None else scaled + beta[inner]

    return te.compute(data.shape, element, name="T_layer_norm")


def instance_norm(data: Tensor, gamma: Tensor, beta: Tensor, *, axis: int = 1, epsilon: float = 1e-5) -> Tensor:
    """Normalise each channel of each sample over all other axes; gamma and beta have one element per channel."""
    at = axis_of(axis, data.ndim)
    _check_channels("nn.instance_norm", data, at, gamma, beta)
    normal = _standardized(data, tuple(a for a in range(1, data.ndim) if a != at), epsilon)
    return te.compute(data.shape, lambda *i: normal[i] * gamma[i[at]] + beta[i[at]], name="T_instance_norm")


def group_norm(data: Tensor, gamma: Tensor, beta: Tensor, *, num_groups: int, epsilon: float = 1e-5) -> Tensor:
    """Normalise groups of channels (axis 1) of each sample; gamma and beta have one element per channel."""
    _check_channels("nn.group_norm", data, 1, gamma, beta)
    batch, channels, *spatial = dims(data)
    if isinstance(channels, int) and channels % num_groups:
        raise InputError(f"nn.group_norm: {channels} channels do not divide into {num_groups} groups")
    size = simple(channels // num_groups)
    grouped = te.compute(
        (batch, num_groups, size, *spatial), lambda n, g, c, *i: data[(n, g * size + c, *i)], name="T_grouped"
    )
    normal = _standardized(grouped, tuple(range(2, grouped.ndim)), epsilon)
    return te.compute(
        data.shape, lambda n, c, *i: normal[(n, c // size, c % size, *i)] * gamma[c] + beta[c], name="T_group_norm"
    )


def rms_norm(data: Tensor, weight: Tensor, *, axis: int | Sequence[int] = -1, epsilon: float = 1e-5) -> Tensor:
    """data / sqrt(mean(data^2) + epsilon) * weight over the axes; weight has their shape."""
    axes = axes_of(axis, data.ndim)
    _check_shape("nn.rms_norm", weight, [dims(data)[a] for a in axes])
    square = mean(elementwise(data, lambda v: v * v, "square"), axis=axes, keepdims=True)
    eps = const(epsilon, data.dtype)

    def element(*i: Any) -> Expr:
        at = tuple(_ZERO if a in axes else p for a, p in enumerate(i))
        return data[i] / te.sqrt(square[at] + eps) * weight[tuple(i[a] for a in axes)]

    return te.compute(data.shape, element, name="T_rms_norm")


def l2_normalize(data: Tensor, *, axis: int | Sequence[int] = 1, eps: float = 1e-10, ord: int = 2) -> Tensor:
    """data divided by its norm over the axes, or by sqrt(eps) if that is larger; `ord` 1 takes the sum of |x|."""
    axes = axes_of(axis, data.ndim)
    if ord not in (1, 2):
        raise InputError(f"nn.l2_normalize: ord is 1 or 2, found {ord}")
    if ord == 2:
        total = sum_square(data, axis=axes, keepdims=True)
        norm = elementwise(total, lambda v: te.sqrt(te.maximum(v, const(eps, v.dtype))), "sqrt")
    else:
        norm = elementwise(l1(data, axis=axes, keepdims=True), lambda v: te.maximum(v, const(eps, v.dtype)), "norm")
    return te.compute(
        data.shape,
        lambda *i: data[i] / norm[tuple(_ZERO if a in axes else p for a, p in enumerate(i))],
        name="T_l2_normalize",
    )


def lrn(
    data: Tensor, *, size: int = 5, axis: int = 1, bias: float = 2.0, alpha: float = 1e-5, beta: float = 0.75
) -> Tensor:
    """data / (bias + alpha / size * sum of squares over `size` neighbours along the axis) ^ beta (AlexNet)."""
    at = axis_of(axis, data.ndim)
    front = (size - 1) // 2
    before = [front if a == at else 0 for a in range(data.ndim)]
    after = [size - 1 - front if a == at else 0 for a in range(data.ndim)]
    padded = constant_pad(data, before, after)
    k = te.reduce_axis((0, size), name="k")

    def neighbours(*i: Any) -> Expr:
        x = padded[(*i[:at], i[at] + k.var, *i[at + 1 :])]
        return te.sum(x * x, axis=k)

    squares = te.compute(data.shape, neighbours, name="T_lrn_squares")
    factor, exponent = const(alpha / size, data.dtype), const(beta, data.dtype)
    return te.compute(
        data.shape, lambda *i: data[i] / te.power(const(bias, data.dtype) + factor * squares[i], exponent), name="T_lrn"
    )


def _standardized(data: Tensor, axes: Sequence[int], epsilon: float) -> Tensor:
    """(data - mean) / sqrt(variance + epsilon) over the axes."""
    average = mean(data, axis=axes, keepdims=True)
    spread = variance(data, axis=axes, keepdims=True)
    eps = const(epsilon, data.dtype)

    def element(*i: Any) -> Expr:
        at = tuple(_ZERO if a in axes else p for a, p in enumerate(i))
        return (data[i] - average[at]) / te.sqrt(spread[at] + eps)

    return te.compute(data.shape, element, name="T_normalized")


def _check_channels(op: str, data: Tensor, axis: int, *weights: Tensor) -> None:
    for weight in weights:
        _check_shape(op, weight, [dims(data)[axis]])


def _check_shape(op: str, weight: Tensor, expected: Sequence[Any]) -> None:
    shape = dims(weight)
    if len(shape) != len(expected) or not all(agree(a, b) for a, b in zip(shape, expected, strict=True)):
        raise TypeMismatch(f"{op}: wanted a weight of shape ({', '.join(map(str, expected))}), found {weight}")
