"""Products of bytes on blocked layouts: channels in blocks of words, weights as words in the order of the kernel.

The instruction multiplies unsigned bytes by signed ones, so data are made unsigned. What their zero point adds to a
sum depends on the column alone, and is subtracted behind it:

    sum((x - z) * w)  =  sum(x * w) - z * sum(w)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..nodes import OpNode, Value

if TYPE_CHECKING:
    from .blocked_layout import Blocking

_WORD = 4  # bytes
_SIGN = 128  # what makes an int8 a uint8


def conv2d(blocking: Blocking, item: OpNode) -> bool:
    """`qnn.conv2d` without groups, on words of channels."""
    data, weight = item.inputs
    if weight not in blocking.data or item.attrs["groups"] != 1 or not isinstance(data.shape[1], int):
        return False
    if 0 in (*data.shape, *weight.shape, *item.output.shape):
        return False
    filters, result = blocking.data[weight], item.output
    out_channels, block = filters.shape[0], blocking.block(result)
    in_block, out_block = _in_block(blocking, data), block or blocking.lanes
    blocks = _padded(_padded(filters, 0, out_block), 1, in_block)
    out, inner, *kernel = blocks.shape
    split = blocks.reshape(out // out_block, out_block, inner // in_block, in_block, *kernel)
    # [O/y, I/x, kh, kw, y, x], of which words are made along the last axis; they go in front of y.
    words = _words(split.transpose(0, 2, 4, 5, 1, 3)).swapaxes(-1, -2)
    plain, zero_point = _unsigned(blocking, _blocked(blocking, data, in_block), item)
    attrs = {name: item.attrs[name] for name in ("strides", "padding", "dilation")}
    total = blocking.op(
        "qnn.contrib_conv2d_NCHWc", blocking.op("layout.words", plain), _constant(blocking, words, weight),
        pad_value=zero_point, name=result.name, **attrs,
    )  # fmt: skip
    shift = filters.sum(axis=(1, 2, 3), dtype=np.int64) * -zero_point
    if shift.any():
        across = blocking.split_channels(shift.astype(np.int32).reshape(1, -1, 1, 1), out_block)
        total = blocking.op("add", total, blocking.b.constant(across, "zero_point"))
    if block is None:
        blocking.plain[result] = blocking.op("layout.unblock_axis", total, axis=1, extent=out_channels)
    else:
        blocking.blocked[result] = total
    return True


def dense(blocking: Blocking, item: OpNode) -> bool:
    """`qnn.dense` with constant weights: a panel of columns is as wide as a vector."""
    data, weight = item.inputs
    if weight not in blocking.data or data.ndim < 2 or 0 in weight.shape:
        return False
    matrix, lanes = blocking.data[weight], blocking.lanes
    columns, depth = matrix.shape
    if columns < lanes or depth % _WORD:
        return False
    panels = _words(_padded(matrix, 0, lanes).reshape(-1, lanes, depth)).swapaxes(-1, -2)  # [N/x, K/4, x]
    plain, zero_point = _unsigned(blocking, blocking.as_plain(data), item)
    total = blocking.op(
        "qnn.contrib_dense_packed", blocking.op("layout.words", plain), _constant(blocking, panels, weight),
        units=columns, name=item.output.name,
    )  # fmt: skip
    shift = matrix.sum(axis=1, dtype=np.int64) * -zero_point
    if shift.any():
        total = blocking.op("add", total, blocking.b.constant(shift.astype(np.int32), "zero_point"))
    blocking.plain[item.output] = total
    return True


def _in_block(blocking: Blocking, data: Value) -> int:
    """The block of the channels: the layout's, where that is made of words."""
    block = blocking.block(data)
    return block if block is not None and block % _WORD == 0 else _WORD


def _blocked(blocking: Blocking, data: Value, block: int) -> Value:
    if blocking.block(data) == block:
        return blocking.as_blocked(data)
    at: Value = blocking.op("layout.block_axis", blocking.as_plain(data), axis=1, block=block)
    return at


def _unsigned(blocking: Blocking, data: Value, item: OpNode) -> tuple[Value, int]:
    """The data as unsigned bytes, and their zero point."""
    zero_point = int(item.attrs["zero_point"])
    if data.dtype == "uint8":
        return data, zero_point
    wide = blocking.op("add", blocking.op("cast", data, dtype="int16"), blocking.b.constant(np.int16(_SIGN)))
    return blocking.op("cast", wide, dtype="uint8"), zero_point + _SIGN


def _padded(array: np.ndarray, axis: int, multiple: int) -> np.ndarray:
    """Zeros behind an axis, up to a multiple."""
    widths = [(0, -extent % multiple if a == axis else 0) for a, extent in enumerate(array.shape)]
    return np.pad(array, widths)


def _words(array: np.ndarray) -> np.ndarray:
    """Bytes along the last axis as int32 of four."""
    return np.ascontiguousarray(array).view(np.int32)


def _constant(blocking: Blocking, words: np.ndarray, weight: Value) -> Value:
    return blocking.b.constant(np.ascontiguousarray(words), f"{weight.name}_words")
