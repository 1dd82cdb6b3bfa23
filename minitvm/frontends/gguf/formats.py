"""How GGUF stores the numbers of a tensor: floats, or integers of a few bits in blocks that share scales.

Each format is a declaration: how many numbers and how many bytes a block has, and how its bytes are unpacked. The
layouts are those of llama.cpp (ggml-common.h). `minitvm.reference.block_formats` defines the same formats number by
number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

import numpy as np

from ..common.block_weights import BlockNumbers, BlockWeights

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
    """Return the float16 in the two bytes [.., 2]."""
    numbers: np.ndarray = np.ascontiguousarray(data).view("<f2")[..., 0]
    return numbers


def _numbers(data: np.ndarray) -> BlockNumbers:
    return BlockNumbers(_half(data))


_BYTES = np.arange(256, dtype=np.uint32)
# For a byte, the word whose byte j has the bits j and j + 4 of that byte, as its two lowest bits.
_PAIRS: np.ndarray = reduce(
    np.bitwise_or, [((_BYTES >> j & 1) | (_BYTES >> j + 4 & 1) << 1) << 8 * j for j in range(4)]
)


def _with_fifth_bits(low: np.ndarray, bits: np.ndarray) -> np.ndarray:
    """Return 32 integers of 5 bits, packed, from their lower bits in 16 bytes and their upper bits in four bytes."""
    words: np.ndarray = reduce(np.bitwise_or, (_PAIRS[bits[..., m]] << 2 * m for m in range(4)))
    return np.concatenate([low, _as_bytes(words[..., None])], axis=-1)


def _as_words(data: np.ndarray) -> np.ndarray:
    """Return bytes [.., 4 n] as uint32 [.., n]. Operations on words are faster than those on bytes."""
    words: np.ndarray = np.ascontiguousarray(data).view("<u4")
    return words


def _as_bytes(words: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(words, "<u4").view(np.uint8)


def _q4_0(blocks: np.ndarray) -> BlockWeights:
    return BlockWeights(4, blocks[..., 2:], _numbers(blocks[..., :2]), 8)


def _q4_1(blocks: np.ndarray) -> BlockWeights:
    return BlockWeights(4, blocks[..., 4:], _numbers(blocks[..., :2]), minimum=_numbers(blocks[..., 2:4]))


def _q5_0(blocks: np.ndarray) -> BlockWeights:
    stored = _with_fifth_bits(blocks[..., 6:], blocks[..., 2:6])
    return BlockWeights(5, stored, _numbers(blocks[..., :2]), 16)


def _q5_1(blocks: np.ndarray) -> BlockWeights:
    stored = _with_fifth_bits(blocks[..., 8:], blocks[..., 4:8])
    return BlockWeights(5, stored, _numbers(blocks[..., :2]), minimum=_numbers(blocks[..., 2:4]))


def _q8_0(blocks: np.ndarray) -> BlockWeights:
    return BlockWeights(8, blocks[..., 2:] ^ 0x80, _numbers(blocks[..., :2]), 128)


def _scales_of_6_bits(data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the eight scales and the eight minima, of 6 bits each, in twelve bytes [.., 12].

    The first four of each have bytes of their own, whose upper two bits belong to the last four.
    """
    a, b, c = data[..., :4], data[..., 4:8], data[..., 8:]
    scales = np.concatenate([a & 63, c & 15 | a >> 6 << 4], axis=-1)
    minima = np.concatenate([b & 63, c >> 4 | b >> 6 << 4], axis=-1)
    return scales, minima


def _with_8_scales(bits: int, blocks: np.ndarray, stored: np.ndarray) -> BlockWeights:
    """Return the weights of Q4_K and Q5_K, with the packed integers `stored` [.., 8, n]."""
    scales, minima = (part.reshape(len(blocks), -1) for part in _scales_of_6_bits(blocks[..., 4:16]))
    minimum = BlockNumbers(minima, -_half(blocks[..., 2:4]))
    stored = stored.reshape(len(blocks), -1, stored.shape[-1])
    return BlockWeights(bits, stored, BlockNumbers(scales, _half(blocks[..., :2])), minimum=minimum)


def _half_blocks(data: np.ndarray) -> np.ndarray:
    """Return the packed nibbles of sub-blocks, words [columns, blocks, 8, 4]. Of 32 bytes [columns, blocks, 128], the
    low nibbles are one sub-block, and the high ones the next.
    """
    words = _as_words(data).reshape(*data.shape[:2], 4, 2, 4)
    pairs = np.empty((*data.shape[:2], 4, 2, 4), np.uint32)
    for half in range(2):
        pairs[..., half, :] = words[..., 0, :] >> 4 * half & 0x0F0F0F0F
        pairs[..., half, :] |= (words[..., 1, :] >> 4 * half & 0x0F0F0F0F) << 4
    return pairs.reshape(*data.shape[:2], 8, 4)


def _q4_k(blocks: np.ndarray) -> BlockWeights:
    return _with_8_scales(4, blocks, _as_bytes(_half_blocks(blocks[..., 16:])))


def _q5_k(blocks: np.ndarray) -> BlockWeights:
    """Return the weights. Bit s of byte i of the upper bits belongs to number i of sub-block s."""
    upper, words = _as_words(blocks[..., 16:48]), np.empty((*blocks.shape[:2], 8, 5), np.uint32)
    words[..., :4] = _half_blocks(blocks[..., 48:])
    for s in range(8):
        words[..., s, 4] = sum((upper[..., w] >> s & 0x01010101) << w for w in range(8))
    return _with_8_scales(5, blocks, _as_bytes(words))


def _q6_k(blocks: np.ndarray) -> BlockWeights:
    """Return the weights. Of 128 numbers, number 32 g + i has its lower bits in nibble g // 2 of byte 32 (g % 2) + i,
    and its upper bits in the two bits 2 g of byte i.
    """
    columns, count, _ = blocks.shape
    # low [.., half, g % 2, sub-block, pair, word], high [.., half, sub-block, word]
    low = _as_words(blocks[..., :128]).reshape(columns, count, 2, 2, 2, 2, 2)
    high = _as_words(blocks[..., 128:192]).reshape(columns, count, 2, 2, 4)
    words = np.empty((columns, count, 2, 2, 2, 2, 3), np.uint32)  # [.., half, g // 2, g % 2, sub-block, word]
    for nibble in range(2):
        part = low >> 4 * nibble & 0x0F0F0F0F
        words[:, :, :, nibble, ..., :2] = part[..., 0, :] | part[..., 1, :] << 4
        for odd in range(2):
            upper = high >> 2 * (2 * nibble + odd) & 0x03030303
            words[:, :, :, nibble, odd, :, 2] = sum(upper[..., w] << 2 * w for w in range(4))
    scales = blocks[..., 192:208].view(np.int8).reshape(columns, -1)
    stored = _as_bytes(words).reshape(columns, -1, 12)
    return BlockWeights(6, stored, BlockNumbers(scales, _half(blocks[..., 208:])), 32)


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
