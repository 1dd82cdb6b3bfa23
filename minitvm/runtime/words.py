"""Convert scalar arguments of kernels to words of 64 bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..expr import DType


def scalar_word(value: Any, dtype: str) -> int:
    """Return a number as a signed 64-bit word: an integer by its value, a float by its bits in the low end."""
    kind = DType(dtype)
    if kind.is_float:
        bits = np.array(value, kind.numpy).tobytes()
        return int.from_bytes(bits, "little", signed=len(bits) == 8)
    return signed_word(value)


def signed_word(value: Any) -> int:
    """Return an integer of any dtype as the signed 64-bit integer with the same bits."""
    word = int(value) & (2**64 - 1)
    return word - 2**64 if word >> 63 else word
