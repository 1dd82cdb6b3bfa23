"""`Domain`: another meaning of floats for the interpreters, instead of ordinary numbers.

The field mode of `reference.check` computes with elements of a finite field, the bound mode with values and error
bounds. Both run the same interpreters: a domain chooses how an element is stored (any NumPy dtype, also a structured
one) and what the operators on floats do. Loads, stores, masks, loops, integers and bools stay the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from minitvm import expr as x

Value = Any  # one element (a NumPy scalar, np.void for structured dtypes) or an array of elements


class Domain(Protocol):
    """Another meaning of floats.

    The functions that its methods return get `needed`, the mask of the points that matter (None: all). Their results at
    other points are never used, and they must not raise there. Operands are single elements or arrays that broadcast.
    """

    lasting: bool  # whether runs share this instance, so that what is compiled for it is worth keeping

    def stored(self, dtype: x.DType) -> np.dtype:
        """Return the NumPy dtype that stores a float of `dtype`. Zero bytes must be the number 0."""
        ...

    def poison(self, size: int, dtype: x.DType) -> np.ndarray:
        """Return storage that was not written yet."""
        ...

    def constant(self, e: x.FloatImm) -> Value:
        """Return the element for a constant."""
        ...

    def binary(self, kind: type, dtype: x.DType, at: x.Expr) -> Callable[[Value, Value, Any], Value]:
        """Return the function (a, b, needed) for an operator (a subclass of `expr.BinaryOp`) on floats; comparisons
        give bools.

        `at` is the expression, for messages.
        """
        ...

    def cast(self, source: x.DType, target: x.DType, at: x.Expr) -> Callable[[Value, Any], Value]:
        """Return the function (value, needed) for a conversion from or to a float."""
        ...

    def call(self, op: str, dtype: x.DType, args: Sequence[x.DType], at: x.Expr) -> Callable[..., Value]:
        """Return the function (needed, *arguments) for an intrinsic with a float argument or result."""
        ...


def stored(domain: Domain | None, dtype: x.DType) -> np.dtype:
    """Return the NumPy dtype that stores an element, in a domain or without one."""
    return dtype.numpy if domain is None or not dtype.is_float else domain.stored(dtype.scalar)
