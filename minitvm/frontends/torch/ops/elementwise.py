"""Convert functions of one tensor, element by element."""

from __future__ import annotations

import math
from typing import Any

from ....expr import DType
from ...common.operand import Operand
from ..context import TorchNodeContext
from ..registry import converter


@converter("clone.default", "alias.default", "detach.default", "lift_fresh_copy.default", "contiguous.default",
           "positive.default")  # fmt: skip
def same(n: TorchNodeContext) -> Any:
    return n["self"]


@converter("dropout.default")
def dropout(n: TorchNodeContext) -> Any:
    """Return the input: at inference, nothing is dropped."""
    if n.attr("train") and n.attr("p"):
        n.refuse("dropout in training is random\n  try:    module.eval() before the export")
    n.ignore("p")
    return n["input"]


@converter("prims.convert_element_type.default")
def convert_element_type(n: TorchNodeContext) -> Any:
    n.ignore("dtype")
    return n.cast(n["a"], n.dtype)


@converter("round.decimals")
def round_to_decimals(n: TorchNodeContext) -> Any:
    """Round to a number of decimals, which may be negative."""
    x, decimals = n["self"], n.attr("decimals")
    if decimals == 0 or not x.dtype.is_float:
        return n.op("round", x) if x.dtype.is_float else x
    there, back = ("multiply", "divide") if decimals > 0 else ("divide", "multiply")
    factor = n.of_dtype(10.0 ** abs(decimals), x.dtype)
    return n.op(back, n.op("round", n.op(there, x, factor)), factor)


@converter("_to_copy.default")
def to_copy(n: TorchNodeContext) -> Any:
    n.ignore("dtype")
    return n.cast(n["self"], n.dtype)


@converter("expm1.default")
def expm1(n: TorchNodeContext) -> Any:
    """Return exp(x) - 1 = 2 t / (1 - t) with t = tanh(x / 2), which is accurate near 0."""
    x = n.cast(n["self"], n.dtype)
    t = n.op("tanh", n.op("multiply", x, 0.5))
    near = n.op("divide", n.op("multiply", t, 2.0), n.op("subtract", _ones(n, n.dtype), t))
    far = n.op("subtract", n.op("exp", x), 1.0)
    return n.op("where", n.op("less", n.op("abs", x), 1.0), near, far)


def _ones(n: TorchNodeContext, dtype: DType) -> Any:
    return n.of_dtype(1.0, dtype)


@converter("elu.default")
def elu(n: TorchNodeContext) -> Any:
    """Return scale * (x if positive, else alpha * (exp(input_scale * x) - 1)). ELU, SELU and CELU are special cases."""
    x, alpha, scale, inner = n["self"], n.attr("alpha"), n.attr("scale"), n.attr("input_scale")
    if inner == 1:
        return n.op("nn.elu", x, alpha=alpha) if scale == 1 else n.op("nn.selu", x, alpha=alpha, gamma=scale)
    if scale == 1 and abs(alpha * inner - 1) < 1e-12:
        return n.op("nn.celu", x, alpha=alpha)
    scaled = n.op("nn.elu", n.op("multiply", x, inner), alpha=alpha)
    whole = n.op("where", n.op("greater", x, 0.0), x, scaled)
    return n.op("multiply", whole, scale)


@converter("softplus.default")
def softplus(n: TorchNodeContext) -> Any:
    """Return log(1 + exp(beta x)) / beta. From `threshold` on, the result is x; for 20 and more, both round to the same
    number.
    """
    x, beta, threshold = n["self"], n.attr("beta"), n.attr("threshold")
    soft = n.op("nn.softplus", x) if beta == 1 else n.op("divide", n.op("nn.softplus", n.op("multiply", x, beta)), beta)
    if threshold >= 20 and x.dtype == "float32":
        return soft
    return n.op("where", n.op("greater", n.op("multiply", x, beta), threshold), x, soft)


@converter("sign.default", "sgn.default")
def sign(n: TorchNodeContext) -> Any:
    """Return -1, 0 or 1. It is 0 for NaN, and 0 without a sign for zeros."""
    x = n["self"]
    if not x.dtype.is_float:
        return x if x.dtype.is_bool else n.op("sign", x)
    above, below = (n.cast(n.op(relation, x, 0.0), n.dtype) for relation in ("greater", "less"))
    return n.op("subtract", above, below)


@converter("angle.default")
def angle(n: TorchNodeContext) -> Any:
    """Return the angle of a real number: pi if it is negative, and 0 otherwise."""
    x = n.cast(n["self"], n.dtype)
    turned = n.op("where", n.op("less", x, 0.0), n.of_dtype(math.pi, n.dtype), n.of_dtype(0.0, n.dtype))
    return n.op("where", n.op("isnan", x), x, turned)


@converter("hardtanh.default")
def hardtanh(n: TorchNodeContext) -> Any:
    return _clipped(n, n["self"], n.attr("min_val"), n.attr("max_val"))


@converter("clamp.default")
def clamp(n: TorchNodeContext) -> Any:
    return _clipped(n, n.cast(n["self"], n.dtype), n.attr("min"), n.attr("max"))


def _clipped(n: TorchNodeContext, x: Operand, least: Any, most: Any) -> Any:
    """Return x limited to bounds, which are numbers, sizes of tensors, or None."""
    if all(bound is None or isinstance(bound, int | float) for bound in (least, most)):
        return n.op("clip", x, a_min=least, a_max=most)
    for relation, bound in (("maximum", least), ("minimum", most)):
        x = x if bound is None else n.op(relation, x, n.of_dtype(bound, x.dtype))
    return x


@converter("rrelu_with_noise_functional.default")
def rrelu(n: TorchNodeContext) -> Any:
    """Apply a leaky ReLU: at inference, the slope is the mean of the bounds. The noise, which is the second result, is
    unchanged.
    """
    if n.attr("training"):
        n.refuse("it is random\n  try:    module.eval() before the export")
    x, noise = n["self"], n["noise"]
    n.ignore("generator")
    slope = (n.attr("lower") + n.attr("upper")) / 2
    leaky = n.op("nn.leaky_relu", x, alpha=float(slope))
    return [leaky, noise]


@converter("prelu.default")
def prelu(n: TorchNodeContext) -> Any:
    """Return PReLU with one slope, or one for each channel (axis 1)."""
    x, slope = n["self"], n["weight"]
    wide = n.op("reshape", slope, newshape=(1, slope.shape[0], *(1,) * (x.ndim - 2))) if x.ndim > 1 else slope
    return n.op("where", n.op("greater", x, 0.0), x, n.op("multiply", x, wide))


@converter("_prelu_kernel.default")
def prelu_kernel(n: TorchNodeContext) -> Any:
    x = n["self"]
    return n.op("where", n.op("greater", x, 0.0), x, n.op("multiply", x, n["weight"]))


@converter("view.dtype")
def view_as(n: TorchNodeContext) -> Any:
    """Return the same bits in another dtype of the same width."""
    n.ignore("dtype")
    return n.op("reinterpret", n["self"], dtype=str(n.dtype))


@converter("exp2.default")
def exp2(n: TorchNodeContext) -> Any:
    x = n.cast(n["self"], n.dtype)
    return n.op("power", n.of_dtype(2.0, n.dtype), x)


@converter("erfc.default")
def erfc(n: TorchNodeContext) -> Any:
    """Return 1 - erf(x)."""
    return n.op("subtract", _ones(n, n.dtype), n.op("erf", n.cast(n["self"], n.dtype)))
