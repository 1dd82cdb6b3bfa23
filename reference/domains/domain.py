"""What floats may mean in the interpreters beside the numbers that they are: `Domain`.

The field mode of `reference.check` computes with elements of a finite field, the bound mode with values and error
bounds. Both run the same interpreters: a domain says as what an element is stored (any NumPy dtype, structured ones
included) and what the operators on floats do. Loads, stores, masks, loops, integers and bools stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from minitvm import expr as x

Value = Any  # one element (a NumPy scalar, np.void for structured dtypes) or an array of elements


class Domain(Protocol):
    """Another meaning of floats.

    The functions that its methods return get `needed`, the mask of the points that matter (None: all). What they
    compute elsewhere is never used and must not raise. Operands are single elements or arrays that broadcast.
    """

    lasting: bool  # whether runs share this instance, so that what is compiled for it is worth keeping

    def stored(self, dtype: x.DType) -> np.dtype:
        """What a float of that dtype is stored as. Zero bytes must be the number 0."""
        ...

    def poison(self, size: int, dtype: x.DType) -> np.ndarray:
        """Storage that nobody wrote yet."""
        ...

    def constant(self, e: x.FloatImm) -> Value:
        """The element that a constant stands for."""
        ...

    def binary(self, kind: type, dtype: x.DType, at: x.Expr) -> Callable[[Value, Value, Any], Value]:
        """An operator (a subclass of `expr.BinaryOp`) on two floats: (a, b, needed). Comparisons give bools.

        `at` is the expression, for messages.
        """
        ...

    def cast(self, source: x.DType, target: x.DType, at: x.Expr) -> Callable[[Value, Any], Value]:
        """A conversion of which one side at least is a float: (value, needed)."""
        ...

    def call(self, op: str, dtype: x.DType, args: Sequence[x.DType], at: x.Expr) -> Callable[..., Value]:
        """An intrinsic with a float among its arguments or as its result: (needed, *arguments)."""
        ...


def stored(domain: Domain | None, dtype: x.DType) -> np.dtype:
    """What an element is stored as, in a domain or without."""
    return dtype.numpy if domain is None or not dtype.is_float else domain.stored(dtype.scalar)
