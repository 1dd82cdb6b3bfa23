"""How GGUF stores the numbers of a tensor: floats, or integers of a few bits in blocks that share scales.

Each format is a declaration: how many numbers and how many bytes a block has, and how its bytes are unpacked. The
layouts are those of llama.cpp (ggml-common.h). `minitvm.reference.block_formats` defines the same formats number by
number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..common.block_weights import BlockWeights

_SUPER = 256  # numbers in a block of the formats _K, which have sub-blocks with scales of their own


@dataclass(frozen=True, slots=True)
class StoredFormat:
    """A format of GGUF. A block of `size` numbers has `nbytes` bytes.

    `unpack(blocks)` takes uint8 [columns, blocks, nbytes] and returns `BlockWeights`. Its blocks may be the sub-blocks
    of the stored ones. Formats of floats have a `dtype` instead.
    """

    name: str
    size: int
    nbytes: int
    unpack: Callable[[np.ndarray], BlockWeights] | None = None
    dtype: str = ""


def _half(data: np.ndarray) -> np.ndarray:
    """Return the float16 in the two bytes [.., 2] as float32 [..], which is exact."""
    numbers: np.ndarray = np.ascontiguousarray(data).view("<f2")[..., 0].astype(np.float32)
    return numbers


def _nibbles(data: np.ndarray) -> np.ndarray:
    """Return the low nibbles of bytes [.., n], and then the high ones, as [.., 2 n]."""
    return np.concatenate([data & 15, data >> 4], axis=-1)


def _fifth_bits(data: np.ndarray) -> np.ndarray:
    """Return the 32 bits of four bytes [.., 4] as 0 or 16."""
    return np.unpackbits(data, axis=-1, bitorder="little") << 4


def _q4_0(blocks: np.ndarray) -> BlockWeights:
    return BlockWeights(4, _nibbles(blocks[..., 2:]), _half(blocks[..., :2]), 8.0)


def _q4_1(blocks: np.ndarray) -> BlockWeights:
    return BlockWeights(4, _nibbles(blocks[..., 4:]), _half(blocks[..., :2]), minimum=_half(blocks[..., 2:4]))


def _q5_0(blocks: np.ndarray) -> BlockWeights:
    return BlockWeights(8, _nibbles(blocks[..., 6:]) | _fifth_bits(blocks[..., 2:6]), _half(blocks[..., :2]), 16.0)


def _q5_1(blocks: np.ndarray) -> BlockWeights:
    stored = _nibbles(blocks[..., 8:]) | _fifth_bits(blocks[..., 4:8])
    return BlockWeights(8, stored, _half(blocks[..., :2]), minimum=_half(blocks[..., 2:4]))


def _q8_0(blocks: np.ndarray) -> BlockWeights:
    return BlockWeights(8, blocks[..., 2:] ^ 0x80, _half(blocks[..., :2]), 128.0)


def _scales_of_6_bits(data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the eight scales and the eight minima, of 6 bits each, in twelve bytes [.., 12].

    The first four of each have bytes of their own, whose upper two bits belong to the last four.
    """
    a, b, c = data[..., :4], data[..., 4:8], data[..., 8:]
    scales = np.concatenate([a & 63, c & 15 | a >> 6 << 4], axis=-1)
    minima = np.concatenate([b & 63, c >> 4 | b >> 6 << 4], axis=-1)
    return scales.astype(np.float32), minima.astype(np.float32)


def _with_8_scales(bits: int, blocks: np.ndarray, stored: np.ndarray) -> BlockWeights:
    """Return the weights of Q4_K and Q5_K, with `stored` [.., 8, 32].

    The products of a float16 and 6 bits are exact in float32.
    """
    columns = len(blocks)
    scales, minima = _scales_of_6_bits(blocks[..., 4:16])
    scale = (_half(blocks[..., :2])[..., None] * scales).reshape(columns, -1)
    minimum = -(_half(blocks[..., 2:4])[..., None] * minima).reshape(columns, -1)
    return BlockWeights(bits, stored.reshape(columns, -1, 32), scale, minimum=minimum)


def _q4_k(blocks: np.ndarray) -> BlockWeights:
    return _with_8_scales(4, blocks, _nibbles(blocks[..., 16:].reshape(*blocks.shape[:2], 4, 32)))


def _q5_k(blocks: np.ndarray) -> BlockWeights:
    low = _nibbles(blocks[..., 48:].reshape(*blocks.shape[:2], 4, 32)).reshape(*blocks.shape[:2], 8, 32)
    fifth = np.unpackbits(blocks[..., 16:48, None], axis=-1, bitorder="little")  # [.., 32, 8]
    return _with_8_scales(8, blocks, low | fifth.swapaxes(-1, -2) << 4)


def _q6_k(blocks: np.ndarray) -> BlockWeights:
    columns, count, _ = blocks.shape
    low = blocks[..., :128].reshape(columns, count, 2, 64)
    high = blocks[..., 128:192].reshape(columns, count, 2, 1, 32) >> np.array([0, 2, 4, 6], np.uint8)[:, None] & 3
    stored = _nibbles(low).reshape(columns, count, 2, 4, 32) | high << 4
    scales = blocks[..., 192:208].view(np.int8).astype(np.float32)
    scale = _half(blocks[..., 208:])[..., None] * scales
    return BlockWeights(8, stored.reshape(columns, -1, 16), scale.reshape(columns, -1), 32.0)


# By the numbers of ggml's types.
FORMATS = {
    0: StoredFormat("F32", 1, 4, dtype="float32"),
    1: StoredFormat("F16", 1, 2, dtype="float16"),
    2: StoredFormat("Q4_0", 32, 18, _q4_0),
    3: StoredFormat("Q4_1", 32, 20, _q4_1),
    6: StoredFormat("Q5_0", 32, 22, _q5_0),
    7: StoredFormat("Q5_1", 32, 24, _q5_1),
    8: StoredFormat("Q8_0", 32, 34, _q8_0),
    12: StoredFormat("Q4_K", _SUPER, 144, _q4_k),
    13: StoredFormat("Q5_K", _SUPER, 176, _q5_k),
    14: StoredFormat("Q6_K", _SUPER, 210, _q6_k),
    30: StoredFormat("BF16", 1, 2, dtype="bfloat16"),
}

# Formats that are refused by name.
_OTHER = {
    9: "Q8_1", 10: "Q2_K", 11: "Q3_K", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S",
    20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64",
    29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4",
}  # fmt: skip


def format_name(number: int) -> str:
    """Return the name of a type of ggml."""
    return FORMATS[number].name if number in FORMATS else _OTHER.get(number, f"number {number}")
