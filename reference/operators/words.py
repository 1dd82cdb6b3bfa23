"""Words of four bytes or two bfloat16, and products of bfloat16 words."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..meaning.intrinsics import halves_of_words
from .convolution import convolve
from .linear import product
from .table import operator


@operator("layout.words")
def words(x: np.ndarray) -> np.ndarray:
    """Pack four bytes, or two bfloat16, into one int32, the first one lowest."""
    bits = 8 * x.dtype.itemsize
    parts = x.view(f"u{x.dtype.itemsize}").reshape(*x.shape[:-1], -1, 32 // bits).astype(np.int64)
    word = parts @ np.array([1 << at for at in range(0, 32, bits)])
    return word.astype(np.uint32).astype(np.int32)


def bytes_of(words: np.ndarray, dtype: str) -> np.ndarray:
    """Return the bytes of int32 words, four along a new last axis."""
    unsigned = words.astype(np.int64)[..., None] >> np.array([0, 8, 16, 24]) & 255
    return unsigned.astype(np.uint8).astype(dtype)


def brains_of(words: np.ndarray) -> np.ndarray:
    """Return the bfloat16 of words [.., k] as float32 [.., 2 k]; subnormal numbers become zeros."""
    return np.stack(halves_of_words(words), axis=-1).reshape(*words.shape[:-1], -1)


@operator("nn.contrib_conv2d_NCHWc_words")
def conv2d_nchwc(
    data: np.ndarray, weight: np.ndarray, strides: Any, padding: Any, dilation: Any, algorithm: Any
) -> np.ndarray:
    """Convolve channels in blocks of words, with zeros around the image."""
    out_blocks, out_block = weight.shape[0], weight.shape[-1]
    batch, _, *image, _ = data.shape
    channels = np.moveaxis(brains_of(data), -1, 2).reshape(batch, -1, *image)
    # [O/y, I/x, kh, kw, x/2, y] with y in front of the channels, and the words apart.
    filters = brains_of(np.moveaxis(weight, -1, 1)).transpose(0, 1, 2, 5, 3, 4)
    filters = filters.reshape(out_blocks * out_block, -1, *filters.shape[-2:])
    convolved = convolve(channels, filters, strides, padding, dilation, 1, "float32")
    blocks = convolved.reshape(batch, out_blocks, out_block, *convolved.shape[2:])
    return np.ascontiguousarray(np.moveaxis(blocks, 2, -1))


@operator("nn.contrib_dense_packed_words")
def dense_packed(data: np.ndarray, weight: np.ndarray, units: int) -> np.ndarray:
    blocks, _, block = weight.shape
    columns = brains_of(weight.transpose(0, 2, 1)).reshape(blocks * block, -1)
    return product(brains_of(data), columns.T, "float32")[..., : units or blocks * block]


@operator("nn.contrib_matmul_words")
def matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return product(brains_of(a), np.swapaxes(brains_of(b), -1, -2), "float32")
