"""The arguments of CUDA kernels: a word of 64 bits each, for an address, an integer, or the bits of a float."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...executable import Kernel
from ...expr import DType
from ..device.device import Place

_WORD = 2**64


def words_of(values: Sequence[Any], about: Kernel, address: Callable[[Place], int]) -> list[int]:
    """The arguments as signed integers, as kernels take them."""
    return [
        address(value) if isinstance(value, Place) else word_of(value, DType(param.dtype))
        for value, param in zip(values, about.params, strict=True)
    ]


def word_of(value: Any, dtype: DType) -> int:
    """A number as a signed integer of 64 bits; a float has its bits in the low end."""
    if dtype.is_float:
        bits = np.array(value, dtype.numpy).reshape(1).view(np.uint8).tobytes()
        return int.from_bytes(bits, "little", signed=len(bits) == 8)
    word = int(value) % _WORD
    return word - _WORD if word >= _WORD // 2 else word
