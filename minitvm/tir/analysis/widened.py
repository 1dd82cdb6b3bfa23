"""Rewrite comparisons of integers, and indices, in int32 or int64, so that the `Analyzer` can use them.

The analyzer proves facts about int32 and int64 only. An int8, uint8, int16 or uint16 keeps its value in int32, and a
uint32 in int64. A uint64 of 2**63 or more becomes negative in int64. For example, `b < 8` with a uint8 `b` becomes
`Cast("int32", b) < 8`, and with a uint64 `b` it becomes `0 <= Cast("int64", b) and Cast("int64", b) < 8`.
"""

from __future__ import annotations

from ... import expr as ex

_INDICES = ("int32", "int64")
_FLIPPED: dict[type, type] = {ex.LT: ex.GT, ex.GT: ex.LT, ex.LE: ex.GE, ex.GE: ex.LE}


def widened(e: ex.Expr) -> ex.Expr:
    """Return an integer as an int32 or int64 with the same value modulo 2**64; an int32 or int64 is returned unchanged.

    Vectors are returned unchanged too.
    """
    if not _is_other(e.dtype):
        return e
    wide = ex.DType("int32" if e.dtype.bits < 32 else "int64")
    if isinstance(e, ex.IntImm):
        return ex.const(e.value - (1 << 64) if e.value >= 1 << 63 else e.value, wide)
    if isinstance(e, ex.Min | ex.Max):
        if e.dtype != "uint64":
            return type(e)(widened(e.a), widened(e.b))
        return _choice(wide, compared((ex.LT if isinstance(e, ex.Min) else ex.GT)(e.a, e.b)), e.a, e.b)
    if isinstance(e, ex.Select):
        return _choice(wide, e.condition, e.true_value, e.false_value)
    if isinstance(e, ex.Call) and e.op == "if_then_else":
        return _choice(wide, *e.args)
    if isinstance(e, ex.Cast) and _keeps(e.value.dtype, e.dtype):
        return widened(e.value).astype(wide)
    return ex.Cast(wide, e)


def compared(e: ex.CompareOp) -> ex.Expr:
    """Return an equivalent condition on int32 or int64, or `e` itself if there is none, or if it compares something
    else than integers.
    """
    if not _is_other(e.a.dtype):
        return e
    if e.a.dtype != "uint64" or isinstance(e, ex.EQ | ex.NE):
        return type(e)(widened(e.a), widened(e.b))
    if isinstance(e.a, ex.IntImm):
        return compared(_FLIPPED[type(e)](e.b, e.a))
    if not isinstance(e.b, ex.IntImm) or e.b.value >> 63:
        return e
    value, limit = widened(e.a), widened(e.b)
    below = (ex.LT if isinstance(e, ex.LT | ex.GE) else ex.LE)(value, limit)
    inside = ex.And(ex.GE(value, ex.const(0, "int64")), below)  # a negative number stands for one of 2**63 or more
    return inside if isinstance(e, ex.LT | ex.LE) else ex.Not(inside)


def _is_other(dtype: ex.DType) -> bool:
    return dtype.is_int and dtype.lanes == 1 and dtype not in _INDICES


def _choice(wide: ex.DType, condition: ex.Expr, first: ex.Expr, second: ex.Expr) -> ex.Expr:
    return ex.Call(wide, "if_then_else", (condition, widened(first), widened(second)))


def _keeps(source: ex.DType, dtype: ex.DType) -> bool:
    """Return whether a conversion of integers keeps every value modulo 2**64."""
    return source.is_int and (dtype.bits == 64 or (dtype.min <= source.min and source.max <= dtype.max))
