"""Compute upper bounds of expressions over bounded sizes, by interval arithmetic (Moore, 1966).

The ends of intervals are expressions over the other variables.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import Unsupported
from . import nodes as e
from .nodes import Expr, IntImm, Mul, Var
from .structural import structural_equal
from .visitor import free_vars

Dim = int | e.Expr

Interval = tuple[Dim, Dim]


def largest(size: Dim, most: Mapping[e.Var, Dim]) -> Dim:
    """Return the largest value of an expression when each variable in `most` runs from 0 to the bound that `most` gives
    it.

    The result may contain the other variables. Raises `Unsupported` for an operation without a rule for its bounds.
    """
    return _ends(size, most)[1] if depends(size, most) else size


def depends(size: Dim | float, variables: Mapping[e.Var, Dim]) -> bool:
    """Return whether an expression contains one of the variables."""
    return bool(variables) and isinstance(size, e.Expr) and any(v in variables for v in free_vars(size))


def _ends(x: Dim, most: Mapping[e.Var, Dim]) -> Interval:
    """Return the smallest and the largest value of an expression."""
    if not depends(x, most):
        known = _plain(x)
        return known, known
    if isinstance(x, e.Var):
        return 0, _ends(most[x], most)[1]
    if isinstance(x, e.Cast) and x.dtype.is_int:
        return _ends(x.value, most)
    if isinstance(x, e.Select):
        return _hull(_ends(x.true_value, most), _ends(x.false_value, most))
    if isinstance(x, e.BinaryOp):
        a, b = _ends(x.a, most), _ends(x.b, most)
        if isinstance(x, e.Add):
            return _add(a[0], b[0]), _add(a[1], b[1])
        if isinstance(x, e.Sub):
            return _subtract(a[0], b[1]), _subtract(a[1], b[0])
        if isinstance(x, e.Min | e.Max):
            end = _min if isinstance(x, e.Min) else _max
            return end(a[0], b[0]), end(a[1], b[1])
        if isinstance(x, e.Mul) and _negative(a) != _negative(b):
            low, high = (a, b) if _negative(b) else (b, a)
            return _multiply(low[1], high[0]), _multiply(low[0], high[1])
        if isinstance(x, e.Mul):
            return _multiply(a[0], b[0]), _multiply(a[1], b[1])
        if isinstance(x, e.FloorDiv | e.Div) and not depends(x.b, most):
            return _divide(a[0], b[0]), _divide(a[1], b[0])
        if isinstance(x, e.FloorMod | e.Mod) and not depends(x.b, most):
            return 0, _max(_subtract(b[0], 1), 0)
        if isinstance(x, e.FloorDiv | e.Div) and isinstance(b[0], int) and b[0] >= 0:
            # A division by 0 ends the run; a division by 1 or more moves the value towards 0, or to -1.
            return _min(a[0], 0), _max(a[1], 0)
    raise Unsupported(f"the memory for {x} cannot be planned: there is no bound of {type(x).__name__}")


def _negative(ends: Interval) -> bool:
    """Return whether an interval contains negative numbers but no positive ones, which never happens for sizes."""
    return isinstance(ends[1], int) and ends[1] <= 0 and isinstance(ends[0], int) and ends[0] < 0


def _plain(x: Dim) -> Dim:
    return x.value if isinstance(x, e.IntImm) else x


def _hull(a: Interval, b: Interval) -> Interval:
    return _min(a[0], b[0]), _max(a[1], b[1])


def _add(a: Dim, b: Dim) -> Dim:
    return a if b == 0 and isinstance(b, int) else b if a == 0 and isinstance(a, int) else a + b


def _subtract(a: Dim, b: Dim) -> Dim:
    return a if isinstance(b, int) and b == 0 else a - b


def _multiply(a: Dim, b: Dim) -> Dim:
    for one, other in ((a, b), (b, a)):
        if isinstance(one, int) and one in (0, 1):
            return other if one else 0
    return a * b


def _divide(a: Dim, b: Dim) -> Dim:
    return a if isinstance(b, int) and b == 1 else a // b


def _min(a: Dim, b: Dim) -> Dim:
    return _end(a, b, e.Min)


def _max(a: Dim, b: Dim) -> Dim:
    return _end(a, b, e.Max)


def _end(a: Dim, b: Dim, kind: type[e.Min | e.Max]) -> Dim:
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b) if kind is e.Min else max(a, b)
    left, right = e.match(e.as_expr(a), e.as_expr(b))
    return left if structural_equal(left, right) else kind(left, right)


# --- Multiples of a variable: the compound dimensions from whose size the variable follows.


def multiple(dim: object) -> tuple[Var, int] | None:
    """Return (variable, positive factor) of a dimension such as `n * 4` or `2 * (n * 4)`, or None for any other
    dimension.
    """
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
    """Solve a `multiple` for its variable. Returns the variable and the value, rounded down, at which the dimension is
    `size`.

    Returns None if the dimension is not a `multiple`.
    """
    found = multiple(dim)
    return None if found is None else (found[0], size // found[1])
