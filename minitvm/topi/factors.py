"""Convert the operands of products to the dtype in which the products are summed.

`out_dtype` is a dtype or "tfloat32". With "tfloat32", operands are float32 rounded to 10 bits of mantissa, and sums are
float32.
"""

from __future__ import annotations

from ..expr import Expr, call

TF32 = "tfloat32"


def factor(e: Expr, out_dtype: str) -> Expr:
    """Return the operand `e`, converted to the dtype in which products for `out_dtype` are computed."""
    return call("round_tf32", e.astype("float32")) if out_dtype == TF32 else e.astype(out_dtype)
