"""Wrong: the sums are float32, which is not exact above 2^24."""

from __future__ import annotations

import numpy as np


def prepare(W: np.ndarray, b: np.ndarray, sx: float, zx: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The weights as int8, their scales, and the bias as int32 with the zero point of x folded in."""
    largest = abs(W).max(axis=1)
    sw = np.where(largest > 0, largest / 127, 1.0)
    qw = np.rint(W / sw[:, None]).astype("int8")
    qb = np.rint(b / (sx * sw)) - zx * qw.sum(axis=1, dtype="int64")
    return qw, sw, qb.astype("int32")


def layer(qx: np.ndarray, qw: np.ndarray, qb: np.ndarray, sw: np.ndarray, sx: float, sy: float, zy: int) -> np.ndarray:
    """The layer in integers: uint8 in, uint8 out."""
    total = qw.astype("float32") @ qx.astype("float32") + qb.astype("float32")
    return np.clip(np.rint(total * (sx * sw / sy)) + zy, 0, 255).astype("uint8")
