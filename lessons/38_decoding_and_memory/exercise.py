"""Exercise 38: weights of five bits, in the format Q5_0.

A block of Q5_0 holds 32 weights in 22 bytes:

- bytes 0 and 1 are the scale d, a float16 (little-endian, "<f2" in NumPy);
- bytes 2 to 5 are an integer of 32 bits (little-endian). Its bit k is the fifth bit of weight k. (Bit 0 is the lowest.)
- bytes 6 to 21 hold the lower four bits. The low nibble of byte 6 + i belongs to weight i, and the high nibble to
  weight 16 + i.

Weight k is d * (q - 16), where q is the integer of five bits, from 0 to 31. Write

    unpack(blocks) -> array       what the bytes mean
    kernel(count) -> PrimFunc     the sum of products of one column

- `unpack` gets uint8 [n, 22] and returns float32 [n, 32]. The scale is converted to float32, and then multiplied.
- `kernel` returns a TVMScript program for `count` blocks, with four parameters in this order:

      nibbles: T.Buffer((count, 4), "int32")     bytes 6 to 21 of each block, four in a word; byte 6 + 4 w + i is
                                                 bits 8 i to 8 i + 7 of word w
      fifths:  T.Buffer((count,), "int32")       bytes 2 to 5 of each block
      row:     T.Buffer((count, 32), "int8")     the row, rounded to bytes
      sums:    T.Buffer((count,), "int32")       the result: for each block, the sum of (q - 16) * row over its weights

  `sums` contains arbitrary numbers before the program runs. The words are signed, so their highest bit is the sign, and
  `T.shift_right` copies the sign into the bits that become free.

Check it with: minitvm lesson 38 --check
"""

from __future__ import annotations

import numpy as np

from minitvm.script import tir as T  # noqa: F401  (for `kernel`)
from minitvm.tir.nodes import PrimFunc


def unpack(blocks: np.ndarray) -> np.ndarray:
    """The weights of blocks [n, 22] as float32 [n, 32]."""
    raise NotImplementedError("unpack and kernel: the text at the top describes the task")


def kernel(count: int) -> PrimFunc:
    """A program that computes sums [count] from the words of `count` blocks and a row of bytes."""
    raise NotImplementedError("unpack and kernel: the text at the top describes the task")
