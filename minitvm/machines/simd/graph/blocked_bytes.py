"""Products of bytes on blocked layouts: the data have blocks of channels, and the weights are packed words in kernel
order.

The instruction multiplies unsigned bytes by signed ones, so data are converted to unsigned bytes. The zero point adds
to each sum a term that depends only on the column; it is subtracted afterwards:

    sum((x - z) * w)  =  sum(x * w) - z * sum(w)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ....graph.nodes import OpNode, Value
from . import blocked_words as words

if TYPE_CHECKING:
    from .blocked_layout import Blocking

_SIGN = 128  # what makes an int8 a uint8


def conv2d(blocking: Blocking, item: OpNode) -> bool:
    """Rewrite a `qnn.conv2d` on words of channels, or on bytes if it is depthwise. Return False if it does not
    qualify.
    """
    data, weight = item.inputs
    if item.attrs["groups"] == data.shape[1] == item.output.shape[1] != 1:
        return _depthwise(blocking, item)
    if not words.is_conv_of_words(blocking, item):
        return False
    filters = blocking.arrays[weight]
    in_block, out_block = words.blocks_of(blocking, item)
    packed = words.packed_filters(filters, in_block, out_block)
    plain, zero_point = _unsigned(blocking, words.blocked(blocking, data, in_block), item)
    attrs = {name: item.attrs[name] for name in ("strides", "padding", "dilation")}
    total = blocking.op(
        "qnn.contrib_conv2d_NCHWc", blocking.op("layout.words", plain), words.constant(blocking, packed, weight),
        pad_value=zero_point, name=item.output.name, **attrs,
    )  # fmt: skip
    shift = filters.sum(axis=(1, 2, 3), dtype=np.int64) * -zero_point
    if shift.any():
        across = blocking.split_channels(shift.astype(np.int32).reshape(1, -1, 1, 1), out_block)
        total = blocking.op("add", total, blocking.b.constant(across, "zero_point"))
    words.keep(blocking, item, total)
    return True


def _depthwise(blocking: Blocking, item: OpNode) -> bool:
    data, weight = item.inputs
    block = blocking.block(data)
    if weight not in blocking.arrays or block is None or blocking.block(item.output) != block:
        return False
    if any(0 in v.shape for v in (data, weight, item.output)):
        return False
    attrs = {name: item.attrs[name] for name in ("zero_point", "strides", "padding", "dilation")}
    blocking.blocked[item.output] = blocking.op(
        "qnn.contrib_depthwise_conv2d_NCHWc", blocking.as_blocked(data), blocking.pack(weight, ("depthwise", block)),
        name=item.output.name, **attrs,
    )  # fmt: skip
    return True


def dense(blocking: Blocking, item: OpNode) -> bool:
    """Rewrite a `qnn.dense` with constant weights, packed in panels as wide as a vector. Return False if it does not
    qualify.
    """
    data, weight = item.inputs
    if weight not in blocking.arrays or data.ndim < 2 or 0 in weight.shape:
        return False
    matrix, lanes = blocking.arrays[weight], blocking.lanes
    columns, depth = matrix.shape
    if columns < lanes or depth % words.per_word(matrix):
        return False
    panels = words.packed_panels(matrix, lanes)
    plain, zero_point = _unsigned(blocking, blocking.as_plain(data), item)
    total = blocking.op(
        "qnn.contrib_dense_packed", blocking.op("layout.words", plain), words.constant(blocking, panels, weight),
        units=columns, name=item.output.name,
    )  # fmt: skip
    shift = matrix.sum(axis=1, dtype=np.int64) * -zero_point
    if shift.any():
        total = blocking.op("add", total, blocking.b.constant(shift.astype(np.int32), "zero_point"))
    blocking.plain[item.output] = total
    return True


def _unsigned(blocking: Blocking, data: Value, item: OpNode) -> tuple[Value, int]:
    """Return the data as unsigned bytes, and their zero point."""
    zero_point = int(item.attrs["zero_point"])
    if data.dtype == "uint8":
        return data, zero_point
    wide = blocking.op("add", blocking.op("cast", data, dtype="int16"), blocking.b.constant(np.int16(_SIGN)))
    return blocking.op("cast", wide, dtype="uint8"), zero_point + _SIGN
