"""Code that byte products and bfloat16 products share on blocked layouts: weights packed as words, data in blocks of
words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ....graph.nodes import OpNode, Value

if TYPE_CHECKING:
    from .blocked_layout import Blocking


def is_conv_of_words(blocking: Blocking, item: OpNode) -> bool:
    """Return whether a convolution has constant weights, one group, and a known number of channels."""
    data, weight = item.inputs
    if weight not in blocking.arrays or item.attrs["groups"] != 1 or not isinstance(data.shape[1], int):
        return False
    return 0 not in (*data.shape, *weight.shape, *item.output.shape)


def blocks_of(blocking: Blocking, item: OpNode) -> tuple[int, int]:
    """Return the block sizes of the data's and the result's channels: those of the layout if they are whole words.

    For bytes, the padding in an incomplete block adds 0, because its weights are 0. For floats it may be NaN or
    infinite.
    """
    data, weight = item.inputs
    count = per_word(blocking.arrays[weight])
    block = blocking.block(data)
    fits = block is not None and block % count == 0 and (weight.dtype.is_int or not blocking.filling(data))
    in_block = block if block is not None and fits else count
    return in_block, blocking.block(item.output) or blocking.lanes


def blocked(blocking: Blocking, data: Value, block: int) -> Value:
    """Return the data with their channels in blocks of `block`."""
    if blocking.block(data) == block:
        return blocking.as_blocked(data)
    at: Value = blocking.op("layout.block_axis", blocking.as_plain(data), axis=1, block=block)
    return at


def packed_filters(filters: np.ndarray, in_block: int, out_block: int) -> np.ndarray:
    """Pack filters [O, I, kh, kw] as words [O/y, I/x, kh, kw, x/count, y], with zeros in incomplete blocks."""
    blocks = _padded(_padded(filters, 0, out_block), 1, in_block)
    out, inner, *kernel = blocks.shape
    split = blocks.reshape(out // out_block, out_block, inner // in_block, in_block, *kernel)
    # [O/y, I/x, kh, kw, y, x]: words are made along the last axis, and then placed before y.
    return _words(split.transpose(0, 2, 4, 5, 1, 3)).swapaxes(-1, -2)


def packed_panels(matrix: np.ndarray, lanes: int) -> np.ndarray:
    """Pack the columns [N, K] of a matrix as words [N/x, K/count, x], in panels as wide as a vector."""
    return _words(_padded(matrix, 0, lanes).reshape(-1, lanes, matrix.shape[1])).swapaxes(-1, -2)


def constant(blocking: Blocking, words: np.ndarray, weight: Value) -> Value:
    """Add words as a constant to the graph."""
    return blocking.b.constant(np.ascontiguousarray(words), f"{weight.name}_words")


def keep(blocking: Blocking, item: OpNode, total: Value) -> None:
    """Record the blocked result of a convolution, or its plain form if its channels cannot be blocked."""
    result = item.output
    if blocking.block(result) is None:
        blocking.plain[result] = blocking.op("layout.unblock_axis", total, axis=1, extent=result.shape[1])
    else:
        blocking.blocked[result] = total


def per_word(array: np.ndarray) -> int:
    """Return how many elements of an array form a 4-byte word."""
    return 4 // array.dtype.itemsize


def _padded(array: np.ndarray, axis: int, multiple: int) -> np.ndarray:
    """Pad an axis with zeros at its end, to a multiple of `multiple`."""
    widths = [(0, -extent % multiple if a == axis else 0) for a, extent in enumerate(array.shape)]
    return np.pad(array, widths)


def _words(array: np.ndarray) -> np.ndarray:
    """View the elements along the last axis as int32 words."""
    return np.ascontiguousarray(array).view(np.int32)
