"""Exercise 19: a layer of bytes.

A layer computes y = W x + b in floats: W has shape (n, k), x (k,), b (n,), all float64. In bytes, x is (qx - zx) * sx
with qx uint8, and y is (qy - zy) * sy with qy uint8. Write

    prepare(W, b, sx, zx) -> (qw, sw, qb)    when the network is compiled
    layer(qx, qw, qb, sw, sx, sy, zy) -> qy  when it runs

- qw are the weights as int8 from -127 to 127, sw (float64, shape (n,)) a scale for each row: that with which the
  largest weight of the row becomes 127 or -127. A row of zeros has the scale 1. Halves round to even (`np.rint`).
- qb are int32: b in steps of sx * sw, rounded with `np.rint`, less zx times the sum of the row's qw. The zero point of
  x appears nowhere else.
- `layer` sums in int32, exactly: `qx` times `qw` plus `qb`. Then one multiplication by sx * sw / sy for each row,
  `np.rint`, plus zy, and whatever is below 0 or above 255 is 0 or 255. qy is uint8.
- Neither function changes its arguments.

Check it with: minitvm lesson 19 --check
"""

from __future__ import annotations

import numpy as np


def prepare(W: np.ndarray, b: np.ndarray, sx: float, zx: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The weights as int8, their scales, and the bias as int32 with the zero point of x folded in."""
    raise NotImplementedError("prepare and layer: the text at the top says what is wanted")


def layer(qx: np.ndarray, qw: np.ndarray, qb: np.ndarray, sw: np.ndarray, sx: float, sy: float, zy: int) -> np.ndarray:
    """The layer in integers: uint8 in, uint8 out."""
    raise NotImplementedError("prepare and layer: the text at the top says what is wanted")
