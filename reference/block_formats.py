"""The meaning of weights that are stored in blocks: `numbers("Q4_K", data)` reads bytes as float32.

The formats are those of llama.cpp. A block has one or two float16, and integers of 4 to 8 bits. Each function returns
the numbers of one block, one after the other, with Python's integers; every float operation is rounded to float32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

_F = np.float32


def _half(block: bytes, at: int) -> np.float32:
    return _F(np.frombuffer(block, "<f2", 1, at)[0])


def _q4_0(block: bytes) -> Iterator[np.float32]:
    """Yield d * (q - 8). Byte k has number k in its low nibble, and number k + 16 in its high nibble."""
    d = _half(block, 0)
    for k in range(32):
        q = block[2 + k % 16] >> 4 * (k // 16) & 15
        yield d * _F(q - 8)


def _q4_1(block: bytes) -> Iterator[np.float32]:
    """Yield d * q + m."""
    d, m = _half(block, 0), _half(block, 2)
    for k in range(32):
        yield d * _F(block[4 + k % 16] >> 4 * (k // 16) & 15) + m


def _q5(block: bytes, bits: int, nibbles: int) -> Iterator[int]:
    """Yield the integers of 5 bits: bit 4 of number k is bit k of the four bytes at `bits`."""
    fifth = int.from_bytes(block[bits : bits + 4], "little")
    for k in range(32):
        yield block[nibbles + k % 16] >> 4 * (k // 16) & 15 | (fifth >> k & 1) << 4


def _q5_0(block: bytes) -> Iterator[np.float32]:
    """Yield d * (q - 16)."""
    for q in _q5(block, 2, 6):
        yield _half(block, 0) * _F(q - 16)


def _q5_1(block: bytes) -> Iterator[np.float32]:
    """Yield d * q + m."""
    for q in _q5(block, 4, 8):
        yield _half(block, 0) * _F(q) + _half(block, 2)


def _q8_0(block: bytes) -> Iterator[np.float32]:
    """Yield d * q, where q is a signed byte."""
    for k in range(32):
        yield _half(block, 0) * _F(int.from_bytes(block[2 + k : 3 + k], signed=True))


def _scale_and_minimum(packed: bytes, j: int) -> tuple[int, int]:
    """Return the integers of 6 bits that scale sub-block j, from twelve bytes."""
    if j < 4:
        return packed[j] & 63, packed[j + 4] & 63
    return packed[j + 4] & 15 | packed[j - 4] >> 6 << 4, packed[j + 4] >> 4 | packed[j] >> 6 << 4


def _q4_k(block: bytes) -> Iterator[np.float32]:
    """Yield d * scale * q - dmin * minimum, with a scale and a minimum for each 32 numbers."""
    for k in range(256):
        scale, minimum = _scale_and_minimum(block[4:16], k // 32)
        q = block[16 + k // 64 * 32 + k % 32] >> 4 * (k // 32 % 2) & 15
        yield _half(block, 0) * _F(scale) * _F(q) - _half(block, 2) * _F(minimum)


def _q5_k(block: bytes) -> Iterator[np.float32]:
    """Yield numbers as in Q4_K. Bit 4 of number k of sub-block j is bit j of byte k of those at 16."""
    for k in range(256):
        scale, minimum = _scale_and_minimum(block[4:16], k // 32)
        q = block[48 + k // 64 * 32 + k % 32] >> 4 * (k // 32 % 2) & 15 | (block[16 + k % 32] >> k // 32 & 1) << 4
        yield _half(block, 0) * _F(scale) * _F(q) - _half(block, 2) * _F(minimum)


def _q6_k(block: bytes) -> Iterator[np.float32]:
    """Yield d * scale * (q - 32), with a signed scale of 8 bits for each 16 numbers."""
    for k in range(256):
        part, place = divmod(k, 128)
        low = block[64 * part + place % 64] >> 4 * (place // 64) & 15
        high = block[128 + 32 * part + place % 32] >> 2 * (place // 32) & 3
        scale = int.from_bytes(block[192 + k // 16 : 193 + k // 16], signed=True)
        yield _half(block, 208) * _F(scale) * _F((low | high << 4) - 32)


# The bytes of a block, and its numbers.
FORMATS: dict[str, tuple[int, Callable[[bytes], Iterator[np.float32]]]] = {
    "Q4_0": (18, _q4_0), "Q4_1": (20, _q4_1), "Q5_0": (22, _q5_0), "Q5_1": (24, _q5_1), "Q8_0": (34, _q8_0),
    "Q4_K": (144, _q4_k), "Q5_K": (176, _q5_k), "Q6_K": (210, _q6_k),
}  # fmt: skip


def numbers(name: str, data: bytes) -> np.ndarray:
    """Return the numbers of all blocks in `data` as float32."""
    size, meaning = FORMATS[name]
    return np.array([x for at in range(0, len(data), size) for x in meaning(data[at : at + size])], np.float32)
