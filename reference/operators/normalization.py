"""Softmax and normalisations, computed in float64."""

from __future__ import annotations

from typing import Any

import numpy as np

from minitvm.errors import InputError

from .table import axes_of, operator, wide


def _along(weight: np.ndarray, axes: tuple[int, ...], rank: int) -> np.ndarray:
    """Reshape a weight over some axes so that it broadcasts against all axes."""
    sizes = dict(zip(axes, weight.shape, strict=True))
    return wide(weight).reshape([sizes.get(a, 1) for a in range(rank)])


def _standard(v: np.ndarray, axes: tuple[int, ...], epsilon: float) -> np.ndarray:
    centred = v - v.mean(axis=axes, keepdims=True)
    return centred / np.sqrt(np.square(centred).mean(axis=axes, keepdims=True) + epsilon)


@operator("nn.softmax")
def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    v = wide(x)
    powers = np.exp(v - v.max(axis=axis, keepdims=True, initial=-np.inf))
    return (powers / powers.sum(axis=axis, keepdims=True)).astype(x.dtype)


@operator("nn.log_softmax")
def log_softmax(x: np.ndarray, axis: int) -> np.ndarray:
    v = wide(x)
    shifted = v - v.max(axis=axis, keepdims=True, initial=-np.inf)
    return (shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))).astype(x.dtype)


@operator("nn.batch_norm")
def batch_norm(
    data: np.ndarray, gamma: np.ndarray, beta: np.ndarray, moving_mean: np.ndarray, moving_var: np.ndarray, axis: int,
    epsilon: float,
) -> np.ndarray:  # fmt: skip
    scale, shift, centre, spread = (
        _along(v, (axis % data.ndim,), data.ndim) for v in (gamma, beta, moving_mean, moving_var)
    )
    return ((wide(data) - centre) / np.sqrt(spread + epsilon) * scale + shift).astype(data.dtype)


@operator("nn.layer_norm")
def layer_norm(
    data: np.ndarray, gamma: np.ndarray, beta: np.ndarray | None = None, *, axis: Any, epsilon: float
) -> np.ndarray:
    axes = axes_of(axis, data.ndim)
    scaled = _standard(wide(data), axes, epsilon) * _along(gamma, axes, data.ndim)
    return (scaled if beta is None else scaled + _along(beta, axes, data.ndim)).astype(data.dtype)


@operator("nn.instance_norm")
def instance_norm(data: np.ndarray, gamma: np.ndarray, beta: np.ndarray, axis: Any, epsilon: float) -> np.ndarray:
    at = axes_of(axis, data.ndim)
    others = tuple(a for a in range(1, data.ndim) if a not in at)
    standard = _standard(wide(data), others, epsilon)
    return (standard * _along(gamma, at, data.ndim) + _along(beta, at, data.ndim)).astype(data.dtype)


@operator("nn.group_norm")
def group_norm(
    data: np.ndarray, gamma: np.ndarray, beta: np.ndarray, num_groups: int, axis: Any, epsilon: float
) -> np.ndarray:
    at = axes_of(axis, data.ndim)
    front = tuple(range(1, 1 + len(at)))
    moved = np.moveaxis(wide(data), at, front)
    channels = int(np.prod([data.shape[a] for a in at]))
    if channels % num_groups:
        raise InputError(f"nn.group_norm: {channels} channels do not divide into {num_groups} groups")
    standard = _standard(moved.reshape(data.shape[0], num_groups, -1), (2,), epsilon).reshape(moved.shape)
    back = np.moveaxis(standard, front, at)
    return (back * _along(gamma, at, data.ndim) + _along(beta, at, data.ndim)).astype(data.dtype)


@operator("nn.rms_norm")
def rms_norm(data: np.ndarray, weight: np.ndarray, axis: Any, epsilon: float) -> np.ndarray:
    axes = axes_of(axis, data.ndim)
    v = wide(data)
    size = np.sqrt(np.square(v).mean(axis=axes, keepdims=True) + epsilon)
    return (v / size * _along(weight, axes, data.ndim)).astype(data.dtype)


@operator("nn.l2_normalize")
def l2_normalize(data: np.ndarray, axis: Any, eps: float, ord: int) -> np.ndarray:
    axes = axes_of(axis, data.ndim)
    v = wide(data)
    if ord == 1:
        norm = np.maximum(np.abs(v).sum(axis=axes, keepdims=True), eps)
    else:
        norm = np.sqrt(np.maximum(np.square(v).sum(axis=axes, keepdims=True), eps))
    return (v / norm).astype(data.dtype)


@operator("nn.lrn")
def lrn(data: np.ndarray, size: int, axis: int, bias: float, alpha: float, beta: float) -> np.ndarray:
    """Normalise over neighbours, from floor((size - 1) / 2) before to ceil((size - 1) / 2) after each channel."""
    v = np.moveaxis(wide(data), axis, 0)
    before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
    total = np.stack([np.square(v[max(0, c - before) : c + after + 1]).sum(axis=0) for c in range(v.shape[0])])
    return np.moveaxis(v / np.power(bias + alpha / size * total, beta), 0, axis).astype(data.dtype)
