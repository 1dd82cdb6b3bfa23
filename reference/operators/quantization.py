"""Conversions between floats and small integers, and operators on small integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from .convolution import convolve
from .linear import product
from .table import before_after, operator
from .words import bytes_of


def _along(parameter: np.ndarray, axis: int, data: np.ndarray, block_size: int) -> np.ndarray:
    """Expand a parameter so that it broadcasts to the data; values per block are repeated."""
    if block_size and parameter.ndim:
        return np.repeat(parameter, block_size, axis).take(range(data.shape[axis]), axis)
    if parameter.size == 1:
        return parameter.reshape(())
    shape = [1] * data.ndim
    shape[axis] = -1
    return parameter.reshape(shape)


@operator("qnn.quantize")
def quantize(
    data: np.ndarray,
    scale: np.ndarray,
    zero_point: np.ndarray | None = None,
    *,
    axis: int,
    block_size: int,
    out_dtype: str,
) -> np.ndarray:
    """Quantize; the quotient is computed in the dtype of the data, because its rounding may decide which integer is
    nearest.

    NaN becomes the smallest integer. The zero point's dtype is that of the result, unless `out_dtype` names one.
    """
    out_dtype = out_dtype or ("uint8" if zero_point is None else str(zero_point.dtype))
    steps = np.rint(data / _along(scale, axis, data, block_size).astype(data.dtype)).astype(np.float64)
    if zero_point is not None:
        steps = steps + _along(zero_point, axis, data, block_size)
    limits = np.iinfo(out_dtype)
    return np.where(np.isnan(steps), limits.min, np.clip(steps, limits.min, limits.max)).astype(out_dtype)


@operator("qnn.requantize")
def requantize(
    data: np.ndarray,
    multiplier: np.ndarray,
    shift: np.ndarray,
    *,
    zero_point: int,
    a_min: int,
    a_max: int,
    out_dtype: str,
) -> np.ndarray:
    """Requantize as TensorFlow Lite does; the arithmetic is that of gemmlowp's fixed-point numbers.

    `SaturatingRoundingDoublingHighMul` adds a half with the sign of the product, and divides toward zero.
    `RoundingDivideByPOT` shifts, and adds 1 if the bits that fall out are more than a half.
    """
    product = data.astype(np.int64) * multiplier
    nudged = product + np.where(product >= 0, 1 << 30, 1 - (1 << 30))
    doubled = np.where(nudged >= 0, nudged // (1 << 31), -(-nudged // (1 << 31)))
    places = shift.astype(np.int64) % 32
    mask = (np.int64(1) << places) - 1
    threshold = (mask >> 1) + (doubled < 0)
    divided = (doubled >> places) + ((doubled & mask) > threshold)
    limits = np.iinfo(out_dtype)
    return np.clip(divided + zero_point, max(a_min, limits.min), min(a_max, limits.max)).astype(out_dtype)


@operator("qnn.lookup")
def lookup(data: np.ndarray, table: np.ndarray) -> np.ndarray:
    found: np.ndarray = table[data.view(np.uint8)]
    return found


@operator("qnn.dequantize")
def dequantize(
    data: np.ndarray,
    scale: np.ndarray,
    zero_point: np.ndarray | None = None,
    *,
    axis: int,
    block_size: int,
    out_dtype: str,
) -> np.ndarray:
    steps = data.astype(np.int64)
    if zero_point is not None:
        steps = steps - _along(zero_point, axis, data, block_size).astype(np.int64)
    wide = np.promote_types(out_dtype, np.float32) if out_dtype in ("float16", "float64") else np.dtype("float32")
    return (steps.astype(wide) * _along(scale, axis, data, block_size).astype(wide)).astype(out_dtype)


@operator("qnn.conv2d")
def conv2d(
    data: np.ndarray, weight: np.ndarray, zero_point: int, strides: Any, padding: Any, dilation: Any, groups: int
) -> np.ndarray:
    """Convolve the data minus their zero point, with zeros around the image."""
    return convolve(data.astype(np.int32) - zero_point, weight, strides, padding, dilation, groups, "int32")


@operator("qnn.dense")
def dense(data: np.ndarray, weight: np.ndarray, zero_point: int) -> np.ndarray:
    return product(data.astype(np.int32) - zero_point, weight.T.astype(np.int32), "int32")


@operator("qnn.contrib_conv2d_NCHWc")
def conv2d_nchwc(
    data: np.ndarray, weight: np.ndarray, pad_value: int, strides: Any, padding: Any, dilation: Any, algorithm: Any
) -> np.ndarray:
    """Convolve unsigned bytes with signed bytes; the image is padded with a byte."""
    channels = np.moveaxis(bytes_of(data, "uint8"), (1, 4, 5), (1, 2, 3))
    plain = channels.reshape(data.shape[0], -1, *data.shape[2:4]).astype(np.int32)
    filters = bytes_of(weight, "int8").transpose(0, 5, 1, 4, 6, 2, 3)
    filters = filters.reshape(filters.shape[0] * filters.shape[1], -1, *filters.shape[-2:]).astype(np.int32)
    before, after = before_after(padding, 2)
    padded = np.pad(plain, [(0, 0), (0, 0), *zip(before, after, strict=True)], constant_values=pad_value)
    convolved = convolve(padded, filters, strides, 0, dilation, 1, "int32")
    blocks = convolved.reshape(convolved.shape[0], weight.shape[0], weight.shape[-1], *convolved.shape[2:])
    return np.ascontiguousarray(np.moveaxis(blocks, 2, -1))


@operator("qnn.contrib_depthwise_conv2d_NCHWc")
def depthwise_conv2d_nchwc(
    data: np.ndarray, weight: np.ndarray, zero_point: int, strides: Any, padding: Any, dilation: Any
) -> np.ndarray:
    """Convolve depthwise, by conversion to NCHW with one group per channel."""
    blocks, *kernel, block = weight.shape
    plain = np.moveaxis(data, -1, 2).reshape(data.shape[0], blocks * block, *data.shape[2:4])
    filters = np.moveaxis(weight, -1, 1).reshape(blocks * block, 1, *kernel).astype(np.int32)
    groups = blocks * block
    convolved = convolve(plain.astype(np.int32) - zero_point, filters, strides, padding, dilation, groups, "int32")
    split = convolved.reshape(data.shape[0], blocks, block, *convolved.shape[2:])
    return np.ascontiguousarray(np.moveaxis(split, 2, -1))


@operator("qnn.contrib_dense_packed")
def dense_packed(data: np.ndarray, weight: np.ndarray, units: int) -> np.ndarray:
    rows = bytes_of(data, "uint8").reshape(*data.shape[:-1], -1).astype(np.int32)
    blocks, depth, block = weight.shape
    columns = bytes_of(weight, "int8").transpose(1, 3, 0, 2).reshape(4 * depth, blocks * block)
    return product(rows, columns.astype(np.int32), "int32")[..., : units or blocks * block]


@operator("qnn.contrib_dense_of_blocks")
def dense_of_blocks(
    data: np.ndarray, scale: np.ndarray, shift: np.ndarray, weight: np.ndarray, *parameters: np.ndarray, bits: int,
    units: int,
) -> np.ndarray:  # fmt: skip
    """Multiply blocks of signed bytes by blocks of unsigned integers of `bits`, block by block."""
    panels, blocks, _, lanes = weight.shape
    packed = bytes_of(weight.transpose(0, 3, 1, 2).reshape(panels * lanes, blocks, -1), "uint8")
    columns = _integers(packed.reshape(panels * lanes, blocks, -1), bits, 4 * data.shape[-1]).astype(np.int64)
    rows = bytes_of(data, "int8").reshape(*data.shape[:-1], -1).astype(np.int64)
    sums = np.einsum("...bk,nbk->...bn", rows, columns)
    kinds = 1 if shift.dtype == np.int32 else 2
    numbers = []
    for kind in range(kinds):
        number = parameters[kind].astype(scale.dtype)
        if len(parameters) > kinds:
            unit = parameters[kinds + kind].astype(scale.dtype)
            number = number * np.repeat(unit, blocks // unit.shape[1], axis=1)
        numbers.append(number.transpose(1, 0, 2).reshape(blocks, panels * lanes))
    if kinds == 1:
        terms = (shift[..., None] + sums).astype(np.int32).astype(scale.dtype) * scale[..., None] * numbers[0]
    else:
        terms = sums.astype(scale.dtype) * scale[..., None] * numbers[0] + shift[..., None] * numbers[1]
    return np.asarray(np.sum(terms, axis=-2, dtype=scale.dtype))[..., : units or panels * lanes]


def _integers(packed: np.ndarray, bits: int, count: int) -> np.ndarray:
    """Return bytes [.., count * bits / 8] as integers [.., count]. Without 8 bits, nibbles come first: the low ones,
    and then the high ones. The other bits of four neighbours are in neighbouring bytes.
    """
    if bits == 8:
        return packed
    nibbles, others = packed[..., : count // 2], packed[..., count // 2 :]
    low = np.concatenate([nibbles & 15, nibbles >> 4], axis=-1)
    if bits == 4:
        return low
    rest = bits - 4
    shifts = np.arange(0, 8, rest, dtype=np.uint8)[:, None]
    parts = others.reshape(*others.shape[:-1], -1, 1, 4) >> shifts & (1 << rest) - 1
    return low | parts.reshape(low.shape) << 4
