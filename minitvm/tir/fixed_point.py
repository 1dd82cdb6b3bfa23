"""TVM's product of fixed-point numbers, `q_multiply_shift`, written out in operations that every back end has."""

from __future__ import annotations

from ..expr import Call, DType, Expr, const
from .op import select


def written_out(e: Call) -> Expr:
    """`q_multiply_shift(x, y, q, s)` on int32: x * 2**s * y / 2**q, rounded to the nearest, ties up.

        ((int64(x) << max(s, 0)) * y + (1 << (q + max(-s, 0) - 1))) >> (q + max(-s, 0)), as int32

    (TVM's `fixed_point_multiply`.) The last shift is by 1 to 63 places, the first by less than 64.
    """
    own, long = e.dtype, DType("int64").with_lanes(e.dtype.lanes)
    x, y, q, s = e.args
    zero = const(0, own)
    left, right = select(s > zero, s, zero).astype(long), select(s > zero, zero, zero - s).astype(long)
    places = q.astype(long) + right
    one = const(1, long)
    product = (x.astype(long) << left) * y.astype(long)
    return ((product + (one << (places - one))) >> places).astype(own)
