"""Arithmetic on indices: which expressions it includes, and the error for a sum that overflows its dtype.

Loop variables, block iterators and symbolic sizes of int32 and int64 are indices. A sum of products of indices alone
means its mathematical value; if the dtype cannot hold it, the program is undefined. Intermediate results may be larger:
`(i * 3 - j * 3) * n` and `i * (3 * n) - j * (3 * n)` are the same sum. A sum that contains data (a load, a scalar
argument, a cast from another kind of number) wraps around.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from minitvm import expr as x
from minitvm.tir.nodes import For

from .findings import Access, Finding, UndefinedBehaviour

_DTYPES = ("int32", "int64")
_SUMS = (x.Add, x.Sub, x.Mul)
_CALLS = ("if_then_else", "likely", "shift_left", "shift_right", "bitwise_and")


def is_sum(e: x.Expr) -> bool:
    """Return whether an expression of an index dtype adds or multiplies, whatever its operands."""
    return e.dtype in _DTYPES and (
        isinstance(e, _SUMS)
        or (isinstance(e, x.Call) and e.op == "shift_left" and isinstance(e.args[1], x.IntImm) and e.args[1].value >= 0)
    )


def is_index_sum(e: x.Expr) -> bool:
    """Return whether an expression is a sum or product of indices alone, with at least one index."""
    return is_sum(e) and any(isinstance(n, x.Var) for n in x.walk(e)) and not _has_data(e)


def _has_data(e: Any) -> bool:
    for part in x.walk(e):
        if isinstance(part, x.Cast):
            if not (part.value.dtype in _DTYPES or part.value.dtype.is_bool):
                return True
        elif isinstance(part, x.Call):
            if part.op not in _CALLS:
                return True
        elif isinstance(part, x.Expr):
            if isinstance(part, x.DataVar) or not isinstance(part, x.Var | x.IntImm | x.BinaryOp | x.Not | x.Select):
                return True
    return False


def reaches(node: x.Node) -> dict[x.Var, int]:
    """Return the largest magnitudes of the loop variables and block iterators below a node that have a constant
    domain.
    """
    reached: dict[x.Var, int] = {}
    for part in x.walk(node):
        note_reach(reached, part)
    return reached


def note_reach(reached: dict[x.Var, int], part: x.Node) -> None:
    """Add the largest magnitude of the variable that one node defines."""
    if isinstance(part, For):
        _note(reached, part.var, part.start, part.extent)
    elif isinstance(part, x.IterVar) and part.dom is not None:
        _note(reached, part.var, part.dom.start, part.dom.extent)


def _note(reached: dict[x.Var, int], var: x.Var, start: x.Expr, extent: x.Expr) -> None:
    if isinstance(start, x.IntImm) and isinstance(extent, x.IntImm):
        reached[var] = max(abs(start.value), abs(start.value + extent.value))


def reach(e: x.Expr, magnitudes: Mapping[x.Var, int]) -> int | None:
    """Return the largest magnitude that any part of an index expression can have; None if it is unknown."""
    if isinstance(e, x.IntImm):
        return abs(e.value)
    if isinstance(e, x.Var):
        return magnitudes.get(e)
    if isinstance(e, x.Add | x.Sub | x.Mul | x.Min | x.Max | x.FloorDiv | x.FloorMod | x.Div | x.Mod):
        a, b = reach(e.a, magnitudes), reach(e.b, magnitudes)
        if a is None or b is None:
            return None
        return a + b if isinstance(e, x.Add | x.Sub) else a * b if isinstance(e, x.Mul) else max(a, b)
    return None


def overflow(e: x.Expr, value: int) -> UndefinedBehaviour:
    """Return the error for an index sum whose value its dtype cannot hold."""
    return UndefinedBehaviour(
        f"index overflow: {e} is {value}, which {e.dtype} does not hold\n"
        f"  wanted: sums and products of indices within {e.dtype.min} and {e.dtype.max}\n"
        f'  try:    T.Cast("int64", ...) on its variables',
        Finding("index overflow", "", (), (Access("computed", e),)),
    )
