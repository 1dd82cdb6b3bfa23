"""What products make of their operands: numbers of the dtype in which they sum.

An `out_dtype` is a dtype, or "tfloat32": then operands are float32 rounded to 10 bits of mantissa, and sums float32.
"""

from __future__ import annotations

from ..expr import Expr, call

TF32 = "tfloat32"


def factor(e: Expr, out_dtype: str) -> Expr:
    """An operand as it is multiplied."""
    return call("round_tf32", e.astype("float32")) if out_dtype == TF32 else e.astype(out_dtype)
