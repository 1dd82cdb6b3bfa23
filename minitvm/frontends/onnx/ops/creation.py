"""Convert operators that create tensors: constants, ranges, identities."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....expr import GT, Expr, as_expr, match
from ....free_memory import require_memory
from ....graph.nodes import Dim
from ....topi.shapes import is_one, larger, may_exceed, simple
from ...common.operand import Operand
from ...common.symbolic import Quotient
from ..context import NodeContext
from ..dtypes import narrow_type
from ..registry import converter
from .counted import shortened


@converter("Constant")
def constant(n: NodeContext) -> Any:
    for name, dtype in (
        ("value_float", np.float32),
        ("value_floats", np.float32),
        ("value_int", np.int64),
        ("value_ints", np.int64),
    ):
        if n.has(name):
            return Operand.known(np.array(n.attr(name), dtype))
    for name in ("sparse_value", "value_string", "value_strings"):
        if n.has(name):
            n.refuse(f"attribute {name} is not supported")
    return Operand.known(n.attr("value"), narrow=narrow_type(n.attributes["value"].t.data_type))


@converter("ConstantOfShape")
def constant_of_shape(n: NodeContext) -> Any:
    value = np.asarray(n.attr("value", np.zeros(1, np.float32))).reshape(-1)[0]
    return n.op("full", shape=n.dims(n[0], "the shape"), fill_value=value.item(), dtype=value.dtype.name)


@converter("Range")
@converter("Range", domain="com.microsoft")
def range_(n: NodeContext) -> Any:
    """Return a range. Its number of elements is a shape; if it is computed at run time, it must have a bound."""
    if any(n[k].data is None for k in range(3)):
        return _range_of_data(n)
    parts = [n.array(n[k], what) for k, what in enumerate(("the start", "the limit", "the step"))]
    dtype = n[0].dtype
    first, limit, step = (p.reshape(()).item() for p in parts)
    if any(isinstance(v, Expr | Quotient) for v in (first, limit, step)):
        first, limit, step = map(_whole, (first, limit, step))
        if all(isinstance(v, int | Expr) for v in (first, limit, step)) and isinstance(step, Expr):
            return _range_of_size(n, first, limit, step)
        if not isinstance(first, int | Expr) or not isinstance(limit, int | Expr) or not isinstance(step, int):
            return _range_of_data(n)
        if step == 0:
            n.refuse("the step of a range is 0")
        return n.op("arange", start=first, stop=limit, step=step, dtype=str(dtype))
    if not step:
        n.refuse("the step of a range is 0")
    if not all(map(math.isfinite, (first, limit, step))):
        n.refuse(f"a range from {first} to {limit} by {step}: wanted finite numbers")
    count = max(0, math.ceil((limit - first) / step))
    require_memory("a range", f"{count} numbers", 8 * count)
    return Operand.known((first + step * np.arange(count)).astype(dtype.numpy))


def _whole(value: Any) -> Any:
    """Return a float that is a whole number as an integer, and any other number unchanged."""
    if isinstance(value, Quotient) and is_one(value.below):
        return value.above
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _range_of_size(n: NodeContext, first: Dim, limit: Dim, step: Expr) -> Operand:
    """Return a range whose step is a size. A run in which the step is 0 is refused."""
    if may_exceed(0, step):
        n.refuse(f"the step {step} may be negative")
    count = larger(simple((limit - first + (step - 1)) // step), 0)
    line = n.op("arange", start=0, stop=count, step=1, dtype=str(n[0].dtype))
    number = n.cast(n.number(step, ()), str(n[0].dtype))
    result: Operand = n.op("add", n.op("multiply", line, number), n.cast(n.number(first, ()), str(n[0].dtype)))
    return n.builder.required(result, [GT(*match(step, as_expr(0)))], n.where)


def _range_of_data(n: NodeContext) -> Operand:
    """Return start + step * (0, 1, ...), for all elements before the limit."""
    start, limit, dtype = n.reshape(n[0], ()), n.reshape(n[1], ()), n[0].dtype
    stride: Any
    if n[2].is_known:
        step = n.scalar(n[2], "the step")
        if not step:
            n.refuse("the step of a range is 0")
        length = n.op("subtract", limit, start) if step > 0 else n.op("subtract", start, limit)
        stride = Operand.known(np.array(abs(step), dtype.numpy))
    else:  # a step of 0 leads to no limit, and is as good as 1: it has no meaning
        step = n.reshape(n[2], ())
        length = n.op("where", n.op("greater", step, 0), n.op("subtract", limit, start), n.op("subtract", start, limit))
        stride = n.op("where", n.op("equal", step, 0), n.op("add", n.op("abs", step), 1), n.op("abs", step))
    if dtype.is_float:
        count = n.cast(n.op("ceil", n.op("divide", length, stride)), "int64")
    else:
        stride = n.cast(stride, "int64")
        more = n.op("subtract", n.op("add", n.cast(length, "int64"), stride), 1)
        count = n.op("floor_divide", more, stride)
    size = n.dims(n.op("maximum", count, 0), "the limit")[0]
    line = n.op("arange", start=0, stop=size, step=1, dtype=str(dtype))
    result: Operand = n.op("add", n.op("multiply", line, step), start)
    return result


@converter("EyeLike")
def eye_like(n: NodeContext) -> Any:
    dtype = n.dtype_attr("dtype", n[0].dtype)
    assert dtype is not None
    rows, columns = n[0].shape
    if isinstance(rows, int) and isinstance(columns, int):
        return Operand.known(np.eye(rows, columns, n.attr("k", 0), dtype.numpy))
    diagonal = n.op("add", n.numbers(rows, 0, 2), n.attr("k", 0))
    return n.cast(n.op("equal", n.numbers(columns, 1, 2), diagonal), dtype)


@converter("OneHot", since=9)
def one_hot(n: NodeContext) -> Any:
    """Return a tensor whose entry i along the new axis is values[1] if the index is i, and values[0] otherwise.

    A negative index counts from the end.
    """
    indices, values = n[0], n[2]
    (depth,) = n.dims(n[1] if n[1].is_known else n.cast(n[1], "int64"), "the depth")
    axis = n.attr("axis", -1)
    axis = axis + indices.ndim + 1 if axis < 0 else axis
    if values.is_known and indices.dtype.is_int and isinstance(depth, int):
        off_value, on_value = n.static(values, "the values").tolist()
        attrs = {"on_value": on_value, "off_value": off_value, "dtype": str(values.dtype)}
        return n.op("one_hot", indices, depth=depth, axis=axis, **attrs)
    whole = n.cast(indices, "int64")
    wrapped = n.op("where", n.op("less", whole, 0), n.op("add", whole, n.number(depth)), whole)
    wide = n.reshape(wrapped, (*indices.shape[:axis], 1, *indices.shape[axis:]))
    hit = n.op("equal", wide, n.numbers(depth, axis, indices.ndim + 1))
    values = n.fit(values, (2,), "the values")
    off, on = (n.part(values, 0, k, k + 1) for k in (0, 1))
    return n.op("where", hit, on, off)


@converter("Trilu")
@converter("Trilu", domain="com.microsoft")
def trilu(n: NodeContext) -> Any:
    """Return the upper or lower triangle of the last two axes, with zeros elsewhere."""
    x = n[0]
    offset = n.optional(1)
    if offset is not None and not offset.is_known:  # which may be negative
        beside = n.op("subtract", n.numbers(x.shape[-1], 1, 2), n.numbers(x.shape[-2], 0, 2))
        order = "greater_equal" if n.attr("upper", 1) else "less_equal"
        diagonal = n.reshape(n.cast(offset, "int64"), ())
        return n.op("where", n.op(order, beside, diagonal), x, np.zeros(1, x.dtype.numpy))
    (k,) = (0,) if offset is None else n.dims(offset, "the diagonal")
    k = shortened(k) if isinstance(k, int) else k
    return n.op("trilu", x, k=k, upper=bool(n.attr("upper", 1)))
