"""MatMulNBits of ONNX Runtime: weights of 4 or 8 bits in blocks along the sum, each block with a separate scale.

With `accuracy_level=4`, the product is computed on bytes: each row of the data is quantised in the same blocks, to int8
with the smallest scale that covers it. At any other level, weights become floats while importing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....expr.dtypes import is_floating
from ....topi.shapes import differ
from ...common import block_weights as stored_blocks
from ..context import NodeContext
from ..registry import converter

_IN_BYTES = 4  # the level of accuracy at which data may be rounded to bytes


@converter("MatMulNBits", domain="com.microsoft")
def matmul_nbits(n: NodeContext) -> Any:
    depth, columns, bits, block = n.attr("K"), n.attr("N"), n.attr("bits", 4), n.attr("block_size")
    level = n.attr("accuracy_level", 0)
    n.ignore("weight_prepacked")
    x, words, scales, zeros, order, bias = n[0], n[1], n[2], n.optional(3), n.optional(4), n.optional(5)
    if order is not None:
        n.refuse("an order of groups (g_idx) is not supported")
    if bits not in (4, 8) or any(p is not None and p.data is None for p in (words, scales, zeros)):
        n.refuse(f"weights are constants of 4 or 8 bits, found {bits} bits, {words}, {scales}")
    if depth < 1 or columns < 1 or block < 1:
        n.refuse(f"K={depth}, N={columns} and block_size={block}: wanted numbers from 1")
    blocks = -(-depth // block)
    for part, size, what in (
        (words, columns * blocks * -(-block * bits // 8), "weights"),
        (scales, columns * blocks, "scales"),
    ):
        if part.data is not None and part.data.size != size:
            n.refuse(
                f"{what} of the shape {list(part.data.shape)} have not the {size} elements of K={depth}, N={columns}, "
                f"block_size={block}"
            )
    if differ(x.shape[-1], depth):
        n.refuse(f"K={depth} is not the width of {x}")
    stored = unpacked(words.data.reshape(columns, blocks, -1), bits)[..., :block]  # type: ignore[union-attr]
    scale = scales.data.reshape(columns, blocks).astype(np.float32)  # type: ignore[union-attr]
    offset: Any = 1 << (bits - 1)
    if zeros is not None and zeros.data is not None:
        packed_zeros = not is_floating(zeros.data.dtype)
        size = columns * (-(-blocks * bits // 8) if packed_zeros else blocks)
        if zeros.data.size != size:
            n.refuse(f"zero points of the shape {list(zeros.data.shape)}: wanted {size} elements")
        offset = _offsets(zeros.data, columns, blocks, bits)
    wide = n.cast(x, "float32")
    if level == _IN_BYTES and depth % block == 0 and stored_blocks.fits_words(bits, block):
        minimum = stored_blocks.BlockNumbers(-offset * scale) if isinstance(offset, np.ndarray) else None
        fixed = offset if minimum is None else 0
        weights = stored_blocks.BlockWeights(
            bits, stored_blocks.packed(stored, bits), stored_blocks.BlockNumbers(scale), fixed, minimum
        )
        result = stored_blocks.product_in_bytes(n, wide, stored_blocks.PackedWeights.of(weights))
    else:
        result = n.op(
            "nn.dense", wide, np.ascontiguousarray(stored_blocks.floats(stored, scale, offset=offset)[:, :depth])
        )
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
