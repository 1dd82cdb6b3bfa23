"""The table that the families fill: an operator's name to its function of arrays and attributes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minitvm.expr.dtypes import is_floating

Function = Callable[..., Any]

OPERATORS: dict[str, Function] = {}


def operator(*names: str) -> Callable[[Function], Function]:
    """Enter the decorated function under the operators' names."""

    def decorate(function: Function) -> Function:
        for name in names:
            OPERATORS[name] = function
        return function

    return decorate


def wide(x: np.ndarray) -> np.ndarray:
    """Floats as float64, in which most functions are computed; everything else as it is."""
    return x.astype(np.float64) if is_floating(x.dtype) else x


def axes_of(axis: Any, rank: int) -> tuple[int, ...]:
    """An attribute `axis` (None, one, or several) as axes from the front, in order."""
    if axis is None:
        return tuple(range(rank))
    listed = (axis,) if isinstance(axis, int) else tuple(axis)
    return tuple(sorted(a % rank for a in listed))


def reordered(x: np.ndarray, axes: str, order: str) -> np.ndarray:
    """`x`, whose axes have the letters `axes`, with them in the order `order`."""
    return np.ascontiguousarray(x.transpose([axes.index(letter) for letter in order]))


def pair(value: Any, count: int) -> tuple[int, ...]:
    """An attribute that is one number for all axes, or one an axis."""
    return (value,) * count if isinstance(value, int) else tuple(value)


def before_after(padding: Any, count: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Padding as one number, one an axis, or all befores and then all afters."""
    amounts = (padding,) if isinstance(padding, int) else tuple(padding)
    if len(amounts) == 1:
        amounts = amounts * count
    return (amounts, amounts) if len(amounts) == count else (amounts[:count], amounts[count:])
