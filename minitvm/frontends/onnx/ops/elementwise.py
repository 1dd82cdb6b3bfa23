"""Convert functions of one tensor, element by element, whose attributes or dtypes need a conversion."""

from __future__ import annotations

import math
from typing import Any

from ...common.operand import Narrow, Operand, SequenceOperand
from ..context import NodeContext
from ..dtypes import dtype_of, narrow_type
from ..registry import converter


@converter("Identity")
def identity(n: NodeContext) -> Any:
    """Return the input itself; the elements of a sequence do not change."""
    return n[0] if isinstance(n[0], SequenceOperand) else n.op("copy", n[0])


@converter("Cast")
def cast(n: NodeContext) -> Any:
    n.ignore("saturate", "round_mode")  # of other types
    code = n.attr("to")
    narrow = narrow_type(code)
    return n.cast(n[0], dtype_of(code, f"{n.where}, attribute to")) if narrow is None else narrowed(n, n[0], narrow)


@converter("CastLike")
def cast_like(n: NodeContext) -> Any:
    n.ignore("saturate", "round_mode")
    return n.cast(n[0], n[1].dtype) if n[1].narrow is None else narrowed(n, n[0], n[1].narrow)


def narrowed(n: NodeContext, x: Operand, narrow: Narrow) -> Operand:
    """Return x converted to a type with few bits. Floats are truncated to integers, of which the lowest bits are
    kept.
    """
    saturate = bool(n.attr("saturate", 1))  # concerns floats only
    if narrow.bits is None:
        wide = x if x.dtype.is_float else n.cast(x, "float64" if x.dtype.bits > 16 else "float32")
        result: Operand = n.op("round_to_format", wide, format=narrow.name, saturate=saturate)
    else:
        low = n.op("bitwise_and", n.cast(x, "int32"), (1 << narrow.bits) - 1)
        if narrow.dtype == "int8":
            top = 1 << (narrow.bits - 1)
            low = n.op("subtract", n.op("bitwise_xor", low, top), top)
        result = n.cast(low, narrow.dtype)
    result.narrow = narrow
    return result


@converter("BitCast", since=26)
def bit_cast(n: NodeContext) -> Any:
    """Return the same bits in another dtype. A bool is a byte, 0 or 1."""
    x, dtype = n[0], n.dtype_attr("to")
    if x.dtype.is_bool:
        x = n.cast(x, "uint8")
    if dtype is None or not dtype.is_bool:
        return n.op("reinterpret", x, dtype=str(dtype))
    return n.op("not_equal", n.op("reinterpret", x, dtype="uint8"), 0)


@converter("Clip", since=11)
def clip(n: NodeContext) -> Any:
    """Clip to limits. Known limits become attributes; other limits are compared element by element."""
    x, low, high = n[0], n.optional(1), n.optional(2)
    if (low is None or low.is_known) and (high is None or high.is_known):
        limits = [None if v is None else n.scalar(v, "a limit") for v in (low, high)]
        if limits == [None, None]:
            return n.op("copy", x)
        if all(v is None or x.dtype.is_float or math.isfinite(v) for v in limits):
            return n.op("clip", x, a_min=limits[0], a_max=limits[1])
    x = x if low is None else n.op("maximum", x, low)
    return x if high is None else n.op("minimum", x, high)


@converter("Dropout")
def dropout_old(n: NodeContext) -> Any:
    n.ignore("ratio")
    return [n.op("copy", n[0]), *_mask(n, str(n[0].dtype) if n.version < 10 else "bool")]


@converter("Dropout", since=12)
def dropout(n: NodeContext) -> Any:
    """Return the input: at inference, nothing is dropped. A node in training mode must have the ratio 0."""
    n.ignore("seed")
    training = n.optional(2)
    ratio = n.optional(1)
    reason = "training_mode with a ratio other than 0 is not supported: it is random"
    if training is not None and training.is_known and n.scalar(training, "training_mode"):
        if ratio is None or n.scalar(ratio, "the ratio") != 0:
            n.refuse(reason)
    elif training is not None and not training.is_known:
        drops = training if ratio is None else n.op("logical_and", training, n.op("not_equal", ratio, 0))
        n.at_most(drops, 0, reason)
    return [n.op("copy", n[0]), *_mask(n, "bool")]


def _mask(n: NodeContext, dtype: str) -> list[Operand]:
    return [n.op("full", shape=n[0].shape, fill_value=1, dtype=dtype)] if n.wants(1) else []


@converter("Swish")
def swish(n: NodeContext) -> Any:
    """Return x * sigmoid(alpha x)."""
    alpha = n.attr("alpha", 1.0)
    return (
        n.op("nn.silu", n[0])
        if alpha == 1.0
        else n.op("multiply", n[0], n.op("sigmoid", n.op("multiply", n[0], alpha)))
    )


@converter("IsInf")
def is_inf(n: NodeContext) -> Any:
    up, down = n.attr("detect_positive", 1), n.attr("detect_negative", 1)
    infinite = n.op("isinf", n[0])
    if up and down:
        return infinite
    if not up and not down:
        return n.op("full", shape=n[0].shape, fill_value=0, dtype="bool")
    return n.op("logical_and", infinite, n.op("greater" if up else "less", n[0], 0.0))


@converter("PRelu")
def prelu(n: NodeContext) -> Any:
    """Return x if it is positive, or else x times the slope, which broadcasts."""
    x, slope = n[0], n[1]
    return n.op("where", n.op("greater", x, 0), x, n.onto("multiply", x, slope))


@converter("SwiGLU", since=28)
def swiglu(n: NodeContext) -> Any:
    """Return the result of the standard's function body, for operands of the same shape."""
    return n.by_definition(n[0], n.fit(n[1], n[0].shape, "B"))
