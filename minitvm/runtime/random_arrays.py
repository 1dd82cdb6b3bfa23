"""Random arrays: inputs on which a program can be tried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..executable import Executable, Input, evaluate
from ..expr import DType, Var


def random_array(
    generator: np.random.Generator, shape: Sequence[int], dtype: Any, bounds: tuple[int, int] | None = None
) -> np.ndarray:
    """Return a random array: normally distributed floats, random bools, or integers from 0 to 7.

    The integers are also within `bounds`, both ends included. If no number from 0 to 7 is, they are any within
    `bounds`.
    """
    kind = DType(dtype)
    low, high = 0, 7
    if bounds is not None:
        least, most = bounds
        low, high = max(low, least), min(high, most)
        low, high = (low, high) if low <= high else (least, max(least, most))
    if kind.is_float:
        return np.asarray(generator.standard_normal(shape)).astype(kind.numpy)
    if kind.is_bool:
        low, high = 0, 1
    return np.asarray(generator.integers(low, high + 1, shape)).astype(kind.numpy)


def bounds_of(executable: Executable, number: int, sizes: Mapping[Var, int | float]) -> tuple[int, int] | None:
    """Return the bounds that the elements of an input must keep in a run with these sizes; None if there are none."""
    for bound in executable.bounds:
        if bound.place == Input(number):
            return int(evaluate(bound.low, sizes)), int(evaluate(bound.high, sizes))
    return None
