"""MatMulNBits of ONNX Runtime: weights of 4 or 8 bits in blocks along the sum, each block with a separate scale.

With `accuracy_level=4`, the product is computed on bytes: each row of the data is quantised in the same blocks, to int8
with the smallest scale that covers it. At any other level, weights become floats while importing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....expr.dtypes import is_floating
from ....topi.shapes import differ
from ...common.operand import Operand
from ..context import NodeContext
from ..registry import converter

_IN_BYTES = 4  # the level of accuracy at which data may be rounded to bytes
_LANES = 16


@converter("MatMulNBits", domain="com.microsoft")
def matmul_nbits(n: NodeContext) -> Any:
    depth, columns, bits, block = n.attr("K"), n.attr("N"), n.attr("bits", 4), n.attr("block_size")
    level = n.attr("accuracy_level", 0)
    n.ignore("weight_prepacked")
    x, packed, scales, zeros, order, bias = n[0], n[1], n[2], n.optional(3), n.optional(4), n.optional(5)
    if order is not None:
        n.refuse("an order of groups (g_idx) is not supported")
    if bits not in (4, 8) or any(p is not None and p.data is None for p in (packed, scales, zeros)):
        n.refuse(f"weights are constants of 4 or 8 bits, found {bits} bits, {packed}, {scales}")
    if depth < 1 or columns < 1 or block < 1:
        n.refuse(f"K={depth}, N={columns} and block_size={block}: wanted numbers from 1")
    blocks = -(-depth // block)
    for part, size, what in (
        (packed, columns * blocks * -(-block * bits // 8), "weights"),
        (scales, columns * blocks, "scales"),
    ):
        if part.data is not None and part.data.size != size:
            n.refuse(
                f"{what} of the shape {list(part.data.shape)} have not the {size} elements of K={depth}, N={columns}, "
                f"block_size={block}"
            )
    if differ(x.shape[-1], depth):
        n.refuse(f"K={depth} is not the width of {x}")
    stored = unpacked(packed.data.reshape(columns, blocks, -1), bits)[..., :block]  # type: ignore[union-attr]
    scale = scales.data.reshape(columns, blocks).astype(np.float32)  # type: ignore[union-attr]
    offset = np.full((columns, blocks), float(1 << (bits - 1)), np.float32)
    if zeros is not None and zeros.data is not None:
        packed_zeros = not is_floating(zeros.data.dtype)
        size = columns * (-(-blocks * bits // 8) if packed_zeros else blocks)
        if zeros.data.size != size:
            n.refuse(f"zero points of the shape {list(zeros.data.shape)}: wanted {size} elements")
        offset = _offsets(zeros.data, columns, blocks, bits)
    wide = n.cast(x, "float32")
    if level == _IN_BYTES and depth % block == 0 and block % (32 // bits) == 0:
        result = _in_bytes(n, wide, stored, scale, offset, bits)
    else:
        weight = ((stored.astype(np.float32) - offset[..., None]) * scale[..., None]).reshape(columns, -1)[:, :depth]
        result = n.op("nn.dense", wide, np.ascontiguousarray(weight))
    result = result if bias is None else n.onto("add", result, n.cast(bias, "float32"))
    return n.cast(result, x.dtype)


def unpacked(stored: np.ndarray, bits: int) -> np.ndarray:
    """Return stored values as bytes. Of two nibbles, the low one comes first."""
    if bits == 8:
        return stored
    return np.stack([stored & 15, stored >> 4], axis=-1).reshape(*stored.shape[:-1], 2 * stored.shape[-1])


def _offsets(zeros: np.ndarray, columns: int, blocks: int, bits: int) -> np.ndarray:
    """Return the zero points of blocks as floats. They are packed like the weights, or are already floats."""
    if is_floating(zeros.dtype):
        return zeros.reshape(columns, blocks).astype(np.float32)
    return unpacked(zeros.reshape(columns, -1), bits)[:, :blocks].astype(np.float32)


def _in_bytes(
    n: NodeContext, x: Operand, stored: np.ndarray, scale: np.ndarray, offset: np.ndarray, bits: int
) -> Operand:
    columns, blocks, block = stored.shape
    split = n.reshape(x, (*x.shape[:-1], blocks, block))
    largest = n.op("max", n.op("abs", split), axis=(-1,), keepdims=True)
    step = n.op("divide", largest, 127.0)
    step = n.op("where", n.op("equal", step, 0.0), np.array(1, "float32"), step)
    rounded = n.cast(n.op("round", n.op("divide", split, step)), "int8")
    total = n.cast(n.op("sum", n.cast(rounded, "int32"), axis=(-1,)), "float32")
    step = n.op("squeeze", step, axis=(-1,))
    alike = bool((offset == offset.flat[0]).all())
    shift = n.op("multiply", n.op("multiply", total, step), float(offset.flat[0]) if alike else 1.0)
    arrays = [_words(stored, bits), _panels(scale)] + ([] if alike else [_panels(offset)])
    result: Operand = n.op(
        "qnn.contrib_dense_of_blocks", n.op("layout.words", rounded), step, shift, *arrays, bits=bits, units=columns
    )
    return result


def _panels(parameters: np.ndarray) -> np.ndarray:
    """Return [columns, blocks] as [columns / x, blocks, x]."""
    full = np.pad(parameters, [(0, -parameters.shape[0] % _LANES), (0, 0)])
    return np.ascontiguousarray(full.reshape(-1, _LANES, full.shape[1]).transpose(0, 2, 1))


def _words(stored: np.ndarray, bits: int) -> np.ndarray:
    """Return weights [columns, blocks, block] as words [columns / x, blocks, words, x]."""
    full = np.pad(stored, [(0, -stored.shape[0] % _LANES), (0, 0), (0, 0)])
    if bits == 4:  # of eight neighbours four are low nibbles, and four high ones
        eight = full.reshape(*full.shape[:2], -1, 2, 4)
        full = eight[..., 0, :] | eight[..., 1, :] << 4
    words = np.ascontiguousarray(full.reshape(*full.shape[:2], -1)).view(np.int32)
    return np.ascontiguousarray(words.reshape(-1, _LANES, *words.shape[1:]).transpose(0, 2, 3, 1))
