"""Multiples of a variable: the compound dimensions from whose size the variable follows."""

from __future__ import annotations

from .nodes import Expr, IntImm, Mul, Var


def multiple(dim: object) -> tuple[Var, int] | None:
    """The variable and the positive factor of a dimension such as `n * 4` or `2 * (n * 4)`; None for any other."""
    factor = 1
    while isinstance(dim, Mul):
        if isinstance(dim.b, IntImm):
            number, dim = dim.b.value, dim.a
        elif isinstance(dim.a, IntImm):
            number, dim = dim.a.value, dim.b
        else:
            return None
        factor *= int(number)
    return (dim, factor) if isinstance(dim, Var) and factor > 1 else None


def divided(dim: int | Expr, size: int) -> tuple[Var, int] | None:
    """The variable of a `multiple` and its value where the dimension is `size`, rounded down; None for any other."""
    found = multiple(dim)
    return None if found is None else (found[0], size // found[1])
