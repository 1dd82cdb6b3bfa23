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
from .variables import Handle

_BYTES = ("int8", "uint8", "int16")


def quantization(info: TensorInfo) -> Quantization | None:
    """Return the scale and zero point of a tensor of small integers, or None."""
    return info.quantization if dtypes.DTYPES.get(info.type) in _BYTES else None


def converted(n: NodeContext, entry: Converter) -> Sequence[Laid | Handle | None]:
    """Return the outputs of an operator; quantised tensors are treated as its converter says."""
    if entry.bytes == "own":
        return listed(entry.function(n))
    if entry.bytes == "stored":
        return listed(entry.function(n))
    for position, index in enumerate(n.node.inputs):
        info = n.graph.tensors[index] if index >= 0 else None
        tensor = n.inputs[position]
        if info is not None and isinstance(tensor, Laid) and _is_quantised(info):
            n.inputs[position] = dequantized(n, tensor, info)
    results = list(listed(entry.function(n)))
    for position, index in enumerate(n.node.outputs[: len(results)]):
        info, result = n.graph.tensors[index], results[position]
        if isinstance(result, Laid) and quantization(info) is not None and result.operand.dtype.is_float:
            results[position] = quantized(n, result, info)
    return results


def _is_quantised(info: TensorInfo) -> bool:
    """Return whether a tensor has a scale. Biases are stored in int32 or int64."""
    return info.quantization is not None and dtypes.DTYPES.get(info.type) in (*_BYTES, "int32", "int64")


def listed(results: Any) -> list[Laid | Handle | None]:
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
