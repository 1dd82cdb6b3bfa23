"""Quantised tensors: small integers with a scale and a zero point. How each operator treats them (`registry`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import UnsupportedOperator
from ..common.operand import Operand
from . import dtypes
from .context import NodeContext
from .layouts import Laid
from .loading import Quantization, TensorInfo
from .registry import Converter
from .variables import VariableHandle

_BYTES = ("int8", "uint8", "int16")


def quantization(info: TensorInfo) -> Quantization | None:
    """Return the scale and zero point of a tensor of small integers, or None."""
    return info.quantization if dtypes.DTYPES.get(info.type) in _BYTES else None


def same_scale(a: TensorInfo, b: TensorInfo) -> bool:
    """Return whether two tensors represent real numbers by the same stored ones."""
    first, second = quantization(a), quantization(b)
    if first is None or second is None:
        return first is second
    return all(np.array_equal(p, q) for p, q in ((first.scale, second.scale), (first.zero_point, second.zero_point)))


def converted(n: NodeContext, entry: Converter) -> Sequence[Laid | VariableHandle | None]:
    """Return the outputs of an operator; quantised tensors are treated as its converter says."""
    if entry.bytes == "own":
        return listed(entry.function(n))
    if entry.bytes == "stored":
        return listed(entry.function(n))
    in_floats(n)
    results = listed(entry.function(n))
    return [
        with_result(n, result, position) if isinstance(result, Laid) and position < len(n.node.outputs) else result
        for position, result in enumerate(results)
    ]


def in_floats(n: NodeContext) -> None:
    """Replace the quantised inputs of a node with their real numbers."""
    for position, index in enumerate(n.node.inputs):
        tensor = n.inputs[position]
        if index >= 0 and isinstance(tensor, Laid) and _is_quantised(n.graph.tensors[index]):
            n.inputs[position] = dequantized(n, tensor, n.graph.tensors[index])


def with_result(n: NodeContext, result: Laid, position: int = 0) -> Laid:
    """Return real numbers as the result that the node declares, which may be quantised."""
    info = n.result(position)
    if quantization(info) is None or not result.operand.dtype.is_float:
        return result
    return quantized(n, result, info)


def _is_quantised(info: TensorInfo) -> bool:
    """Return whether a tensor has a scale. Biases are stored in int32 or int64."""
    return info.quantization is not None and dtypes.DTYPES.get(info.type) in (*_BYTES, "int32", "int64")


def listed(results: Any) -> list[Laid | VariableHandle | None]:
    """Return the results of a converter as tensors."""
    several = list(results) if isinstance(results, list | tuple) else [results]
    return [Laid(result) if isinstance(result, Operand) else result for result in several]


def dequantized(n: NodeContext, tensor: Laid, info: TensorInfo) -> Laid:
    """Return the real numbers of a quantised tensor. Those of a constant are computed immediately."""
    parameters = info.quantization
    assert parameters is not None
    x, axis = tensor.operand, tensor.order.index(parameters.axis) if parameters.per_channel else 0
    if x.data is not None:
        shape = [-1 if a == axis else 1 for a in range(x.ndim)] if parameters.per_channel else ()
        zero, scale = parameters.zero_point.reshape(shape), parameters.scale.reshape(shape)
        real = (x.data.astype(np.int64) - zero).astype(np.float32) * scale
        return Laid.of(Operand.known(real.astype(np.float32)), tensor.order)
    scale, zero = _numbers(parameters, x)
    return Laid.of(n.op("qnn.dequantize", x, scale, zero, axis=axis), tensor.order)


def quantized(n: NodeContext, tensor: Laid, info: TensorInfo) -> Laid:
    """Return real numbers as the quantised tensor that `info` declares."""
    parameters = quantization(info)
    assert parameters is not None
    if parameters.per_channel:
        raise UnsupportedOperator(f"{n.where}: a computed tensor with one scale per channel")
    x = n.cast(tensor.operand, "float32")
    scale, zero = _numbers(parameters, None)
    dtype = dtypes.DTYPES[info.type]
    whole = Operand.known(np.asarray(zero, dtype))
    return Laid.of(n.op("qnn.quantize", x, scale, whole, axis=0, out_dtype=dtype), tensor.order)


def _numbers(parameters: Quantization, like: Operand | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the scale and the zero point: scalars, or vectors with one element per channel."""
    scale, zero = parameters.scale, parameters.zero_point.astype(like.dtype.numpy if like is not None else np.int32)
    return (scale, zero) if parameters.per_channel else (scale.reshape(()), zero.reshape(()))


def fixed_point(factors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return int32 multipliers and exponents with factor = multiplier * 2^(exponent - 31), as TFLite rounds them.

    A factor below 2^-32 is 0.
    """
    fractions, exponents = np.frexp(factors.astype(np.float64))
    multipliers = np.floor(fractions * 2.0**31 + 0.5).astype(np.int64)
    carry = multipliers == 1 << 31
    multipliers, exponents = np.where(carry, multipliers >> 1, multipliers), exponents + carry
    tiny = exponents < -31
    return np.where(tiny, 0, multipliers).astype(np.int32), np.where(tiny, 0, exponents).astype(np.int32)


def requantized(
    n: NodeContext, total: Operand, factors: np.ndarray, info: TensorInfo, limits: tuple[float, float] | None = None
) -> Operand:
    """Return int32 sums as the quantised tensor `info`: each real number is a sum times a factor, times its scale.

    `factors` broadcasts to the sums. `limits` bounds the real numbers, for an activation function.
    """
    parameters = quantization(info)
    if parameters is None or parameters.per_channel:
        raise UnsupportedOperator(f"{n.where}: wanted a result with one scale, found {info}")
    zero, dtype = int(parameters.zero_point[0]), dtypes.DTYPES[info.type]
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    if limits is not None:
        # Halves away from zero, as TFLite rounds the limits.
        steps = [limit / float(parameters.scale[0]) for limit in limits]
        least, most = (int(np.trunc(s + np.copysign(0.5, s))) if np.isfinite(s) else s for s in steps)
        low, high = int(max(low, min(zero + least, high))), int(min(high, max(zero + most, low)))
    return _multiplied(n, total, factors, zero_point=zero, a_min=low, a_max=high, out_dtype=dtype)


def scaled(n: NodeContext, total: Operand, factors: np.ndarray) -> Operand:
    """Return int32 numbers times factors, as int32."""
    limits = np.iinfo(np.int32)
    return _multiplied(n, total, factors, a_min=int(limits.min), a_max=int(limits.max), out_dtype="int32")


def _multiplied(n: NodeContext, total: Operand, factors: np.ndarray, **attrs: Any) -> Operand:
    multipliers, exponents = fixed_point(factors)
    if exponents.max(initial=0) > 0:
        total = n.op("left_shift", total, np.maximum(exponents, 0))
    shift = np.maximum(-exponents, 0).astype(np.int32)
    result: Operand = n.op("qnn.requantize", total, multipliers, shift, **attrs)
    return result
