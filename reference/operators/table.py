"""The table of operators, from names to functions of arrays and attributes, which the other files fill."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minitvm.expr.dtypes import is_floating

Function = Callable[..., Any]

OPERATORS: dict[str, Function] = {}


def operator(*names: str) -> Callable[[Function], Function]:
    """Register the decorated function for these operator names."""

    def decorate(function: Function) -> Function:
        for name in names:
            OPERATORS[name] = function
        return function

    return decorate


def wide(x: np.ndarray) -> np.ndarray:
    """Convert floats to float64, in which most functions are computed; other arrays are unchanged."""
    return x.astype(np.float64) if is_floating(x.dtype) else x


def axes_of(axis: Any, rank: int) -> tuple[int, ...]:
    """Return an attribute `axis` (None, one, or several) as sorted nonnegative axes."""
    if axis is None:
        return tuple(range(rank))
    listed = (axis,) if isinstance(axis, int) else tuple(axis)
    return tuple(sorted(a % rank for a in listed))


def reordered(x: np.ndarray, axes: str, order: str) -> np.ndarray:
    """Return `x`, whose axes have the letters `axes`, transposed to the order `order`."""
    return np.ascontiguousarray(x.transpose([axes.index(letter) for letter in order]))


def pair(value: Any, count: int) -> tuple[int, ...]:
    """Return an attribute as one number per axis; a single number is repeated."""
    return (value,) * count if isinstance(value, int) else tuple(value)


def before_after(padding: Any, count: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the padding before and after each axis; `padding` is one number, one per axis, or all before and then all
    after.
    """
    amounts = (padding,) if isinstance(padding, int) else tuple(padding)
    if len(amounts) == 1:
        amounts = amounts * count
    return (amounts, amounts) if len(amounts) == count else (amounts[:count], amounts[count:])
