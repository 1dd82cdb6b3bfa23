"""Wrong: 8 is subtracted, as in formats of four bits."""

from __future__ import annotations

import numpy as np

from minitvm.script import tir as T
from minitvm.tir.nodes import PrimFunc


def unpack(blocks: np.ndarray) -> np.ndarray:
    """The weights of blocks [n, 22] as float32 [n, 32]."""
    scale = np.ascontiguousarray(blocks[:, :2]).view("<f2").astype("float32")
    fifths = np.unpackbits(blocks[:, 2:6], axis=1, bitorder="little")
    low = np.concatenate([blocks[:, 6:] & 15, blocks[:, 6:] >> 4], axis=1)
    q = low + 16 * fifths
    return scale * (q.astype("float32") - 8)


def kernel(count: int) -> PrimFunc:
    """A program that computes sums [count] from the words of `count` blocks and a row of bytes."""

    @T.prim_func
    def product(
        nibbles: T.Buffer((count, 4), "int32"), fifths: T.Buffer((count,), "int32"),
        row: T.Buffer((count, 32), "int8"), sums: T.Buffer((count,), "int32"),
    ):  # fmt: skip
        for b in range(count):
            sums[b] = 0
            for half, w, i in T.grid(2, 4, 4):
                low = T.bitwise_and(T.shift_right(nibbles[b, w], 8 * i + 4 * half), 15)
                fifth = T.bitwise_and(T.shift_right(fifths[b], 16 * half + 4 * w + i), 1)
                q = low + 16 * fifth
                sums[b] = sums[b] + (q - 16) * T.Cast("int32", row[b, 16 * half + 4 * w + i])

    return product
