"""Convert sums of products of small integers to the scale of the next layer, in integers only."""

from __future__ import annotations

from typing import Any

from .. import te
from ..errors import TypeMismatch
from ..expr import Call, DType, Expr, const
from ..te import Tensor
from .registry import Pattern, register
from .shapes import broadcast_index


@register("qnn.requantize", pattern=Pattern.BROADCAST)
def requantize(
    data: Tensor, multiplier: Tensor, shift: Tensor, *, zero_point: int = 0, a_min: int = -128, a_max: int = 127,
    out_dtype: str = "int8"
) -> Tensor:  # fmt: skip
    """Return clip(round(round(data * multiplier / 2^31) / 2^shift) + zero_point, a_min, a_max).

    All three inputs are int32; `multiplier` and `shift` broadcast to the data, and a shift counts modulo 32. The inner
    rounding moves halves up, the outer one moves them away from zero. This is `MultiplyByQuantizedMultiplier` of
    TensorFlow Lite (Jacob et al., "Quantization and training of neural networks for efficient integer-arithmetic-only
    inference", CVPR 2018), for factors below 1.
    """
    for tensor in (data, multiplier, shift):
        if tensor.dtype != "int32":
            raise TypeMismatch(f"requantize: wanted three tensors of int32, found {data}, {multiplier} and {shift}")
    limits = DType(out_dtype)
    least, most = max(a_min, int(limits.min)) - zero_point, min(a_max, int(limits.max)) - zero_point
    low, high = const(least, "int32"), const(most, "int32")
    if multiplier.ndim > data.ndim or shift.ndim > data.ndim:
        raise TypeMismatch(f"requantize: wanted factors that broadcast to {data}, found {multiplier} and {shift}")

    def element(*i: Any) -> Expr:
        factor, number = (t[broadcast_index(t, i, data.shape)] for t in (multiplier, shift))
        places = _both(number, const(31, "int32"))
        product = data[i].astype("int64") * factor.astype("int64")
        doubled = ((product + const(1 << 30, "int64")) >> const(31, "int64")).astype("int32")
        one, zero = const(1, "int32"), const(0, "int32")
        mask = (one << places) - one
        half = (mask >> one) + te.select(doubled < zero, one, zero)
        rest = _both(doubled, mask)
        rounded = (doubled >> places) + te.select(rest > half, one, zero)
        return (te.minimum(te.maximum(rounded, low), high) + const(zero_point, "int32")).astype(out_dtype)

    return te.compute(data.shape, element, name="T_requantize")


def _both(a: Expr, b: Expr) -> Expr:
    """Return the bitwise and of a and b."""
    return Call(a.dtype, "bitwise_and", (a, b))
