"""Random arrays: inputs on which a program can be tried."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..expr.dtypes import DType


def random_array(
    generator: np.random.Generator, shape: Sequence[int], dtype: Any, low: int = 0, high: int = 7
) -> np.ndarray:
    """Return a random array: normally distributed floats, integers from `low` to `high`, or random bools."""
    kind = DType(dtype)
    if kind.is_float:
        return np.asarray(generator.standard_normal(shape)).astype(kind.numpy)
    if kind.is_bool:
        low, high = 0, 1
    return np.asarray(generator.integers(low, high + 1, shape)).astype(kind.numpy)
