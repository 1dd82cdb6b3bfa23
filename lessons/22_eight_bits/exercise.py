"""Exercise 22: a layer of bytes.

In floats, a layer computes y = W x + b, where W has shape (n, k), x has shape (k,), b has shape (n,), and all are
float64. In bytes, x is (qx - zx) * sx and y is (qy - zy) * sy, where qx and qy are uint8. Write

    prepare(W, b, sx, zx) -> (qw, sw, qb)    when the network is compiled
    layer(qx, qw, qb, sw, sx, sy, zy) -> qy  when the network runs

- qw are the weights as int8, from -127 to 127. sw has a scale for each row (float64, shape (n,)), chosen so that the
  largest weight of the row becomes 127 or -127. A row of zeros has the scale 1. Round with `np.rint`, which rounds
  halves to even numbers.
- qb are int32: b divided by sx * sw and rounded with `np.rint`, minus zx times the sum of the weights qw of the row.
  The zero point of x appears nowhere else.
- `layer` first computes the exact sums of `qx` times `qw`, plus `qb`, in int32. Then it multiplies the sum of each row
  by sx * sw / sy, rounds with `np.rint`, and adds zy. Results below 0 become 0, and results above 255 become 255. qy is
  uint8.
- Neither function changes its arguments.

Check it with: minitvm lesson 22 --check
"""

from __future__ import annotations

import numpy as np


def prepare(W: np.ndarray, b: np.ndarray, sx: float, zx: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The weights as int8, their scales, and the bias as int32 with the zero point of x folded in."""
    raise NotImplementedError("prepare and layer: the text at the top describes the task")


def layer(qx: np.ndarray, qw: np.ndarray, qb: np.ndarray, sw: np.ndarray, sx: float, sy: float, zy: int) -> np.ndarray:
    """The layer in integers: uint8 in, uint8 out."""
    raise NotImplementedError("prepare and layer: the text at the top describes the task")
