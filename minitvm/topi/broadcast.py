"""Element-wise functions of several tensors, with NumPy's broadcasting. All operands have the same dtype."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import te
from ..errors import InputError, TypeMismatch
from ..expr import And, Call, DType, Expr, Not, Or, Var, as_expr, call, const
from ..expr.dtypes import is_floating
from ..te import Tensor
from . import shapes
from .registry import Pattern, register
from .spelling import Aten

Binary = Callable[..., Tensor]


def broadcast(name: str, function: Callable[..., Any], *operands: Tensor | Expr) -> Tensor:
    """Apply `function` to the operands' elements at each point of the common shape, and return the result.

    Operands that are expressions are scalars.
    """
    shape = shapes.broadcast_shapes(*(shapes.dims(t) for t in operands if isinstance(t, Tensor)))

    def element(*point: Any) -> Any:
        return function(*(t[shapes.broadcast_index(t, point, shape)] if isinstance(t, Tensor) else t for t in operands))

    return te.compute(shape, element, name=f"T_{name}")


def _binary(name: str, function: Callable[[Expr, Expr], Any], doc: str, **declared: Any) -> Binary:
    """Declare an element-wise operator of two tensors. `function` computes one element from two, and `declared` holds
    further arguments of `register`.
    """

    def apply(a: Tensor | Expr | float, b: Tensor | Expr | float) -> Tensor:
        a, b = _with_scalars(name, a, b)
        if a.dtype != b.dtype:
            raise TypeMismatch(f"{name}: the operands differ in dtype: {a.dtype} and {b.dtype}")
        return broadcast(name, function, a, b)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = doc
    return register(name, pattern=Pattern.BROADCAST, **declared)(apply)


def _comparison(name: str, function: Callable[[Expr, Expr], Any], symbol: str, onnx: str | None, aten: str) -> Binary:
    """Declare a comparison operator. Its result is bool."""
    spelled = Aten(f"{aten}.Tensor {aten}.Scalar", operands="common")
    return _binary(name, function, f"bool: a {symbol} b.", onnx=onnx, aten=spelled, fold=getattr(np, name))


def _of_numbers(*names: str, of_bools: str = "", overloads: str = "Tensor Scalar") -> Aten:
    """Return ATen's names for an operator whose second operand may be a number."""
    return Aten(" ".join(f"{name}.{kind}" for name in names for kind in overloads.split()), of_bools=of_bools)


def _with_scalars(name: str, *operands: Tensor | Expr | float) -> list[Tensor | Expr]:
    """Convert Python numbers among the operands to the tensors' dtype. Raises `InputError` if there is no tensor."""
    dtypes = [x.dtype for x in operands if isinstance(x, Tensor)]
    if not dtypes:
        raise InputError(f"{name}: wanted a tensor, found {' and '.join(type(x).__name__ for x in operands)}")
    return [x if isinstance(x, Tensor | Expr) else const(x, dtypes[0]) for x in operands]


def _power(a: Expr, b: Expr) -> Expr:
    if a.dtype.is_float:
        return te.power(a, b)
    return te.nearbyint(te.power(a.astype("float64"), b.astype("float64"))).astype(a.dtype)


def _fold_power(a: Any, b: Any) -> Any:
    """Return a to the power b. For integers, this is the float power rounded to the nearest integer, as in `_power`."""
    if a.dtype.kind not in "iu":
        return np.power(a, b)
    return np.rint(np.power(a.astype(np.float64), b.astype(np.float64))).astype(a.dtype)


def _fold_divide(a: Any, b: Any) -> Any:
    if a.dtype == object:  # dimensions, which are not negative
        return a // b
    if is_floating(a.dtype):
        return np.divide(a, b)
    # Magnitudes are not used here: that of the least integer does not fit its dtype.
    inexact = (np.fmod(a, b) != 0) & ((a < 0) != (b < 0))
    return (a // b + inexact).astype(a.dtype)


def _logical(kind: type[And] | type[Or]) -> Callable[[Expr, Expr], Expr]:
    return lambda a, b: kind(a.astype("bool"), b.astype("bool"))


def _xor(a: Expr, b: Expr) -> Expr:
    return Not(a == b) if a.dtype.is_bool else a ^ b


def _float_floor_mod(a: Expr, b: Expr) -> Expr:
    # C's remainder, moved into the divisor's range where the signs differ; a remainder of 0 takes the divisor's sign.
    zero = const(0, a.dtype)
    rest = te.fmod(a, b)
    moved = te.select(te.any(te.all(rest < zero, b > zero), te.all(rest > zero, b < zero)), rest + b, rest)
    return te.select(_equal(rest, zero), te.copysign(zero, b), moved)


def _equal(a: Expr, b: Expr) -> Expr:
    return a == b


def _right_shift(a: Expr, b: Expr) -> Expr:
    return a >> b


def _difference(a: Expr, b: Expr) -> Expr:
    if a.dtype.is_bool:
        raise TypeMismatch("subtract: wanted numbers, found bool\n  try:    logical_xor")
    return a - b


# PyTorch's sums and quotients have arguments of their own: the frontend converts them.
add = _binary("add", lambda a, b: a + b, "a + b.", onnx="Add", fold=np.add)
subtract = _binary("subtract", _difference, "a - b.", onnx="Sub", fold=np.subtract)
multiply = _binary(
    "multiply", lambda a, b: a * b, "a * b.", onnx="Mul", aten=_of_numbers("mul", of_bools="logical_and"),
    fold=np.multiply,
)  # fmt: skip
divide = _binary(
    "divide", lambda a, b: a / b if a.dtype.is_float else te.truncdiv(a, b), "a / b; ints toward zero.", onnx="Div",
    fold=_fold_divide,
)  # fmt: skip
floor_divide = _binary(
    "floor_divide", lambda a, b: call("floor", a / b) if a.dtype.is_float else a // b, "The floor of a / b.",
    fold=np.floor_divide,
)  # fmt: skip
mod = _binary(
    "mod",
    lambda a, b: call("fmod", a, b) if a.dtype.is_float else te.truncmod(a, b),
    "Remainder with the sign of a (C's).",
    aten=_of_numbers("fmod"),
    fold=np.fmod,
)
floor_mod = _binary(
    "floor_mod",
    lambda a, b: _float_floor_mod(a, b) if a.dtype.is_float else a % b,
    "Remainder with the sign of b (Python's).",
    aten=_of_numbers("remainder", overloads="Tensor Scalar Scalar_Tensor"),
    fold=np.mod,
)
power = _binary("power", _power, "a to the power of b.", onnx="Pow", fold=_fold_power)
maximum = _binary(
    "maximum", te.maximum, "The larger; NaN if either is.", onnx="Max", aten=Aten("maximum", of_bools="logical_or"),
    fold=np.maximum,
)  # fmt: skip
minimum = _binary(
    "minimum", te.minimum, "The smaller; NaN if either is.", onnx="Min", aten=Aten("minimum", of_bools="logical_and"),
    fold=np.minimum,
)  # fmt: skip
equal = _comparison("equal", _equal, "==", "Equal", "eq")
not_equal = _comparison("not_equal", lambda a, b: a != b, "!=", None, "ne")
less = _comparison("less", lambda a, b: a < b, "<", "Less", "lt")
less_equal = _comparison("less_equal", lambda a, b: a <= b, "<=", "LessOrEqual", "le")
greater = _comparison("greater", lambda a, b: a > b, ">", "Greater", "gt")
greater_equal = _comparison("greater_equal", lambda a, b: a >= b, ">=", "GreaterOrEqual", "ge")
logical_and = _binary(
    "logical_and", _logical(And), "bool: a and b.", onnx="And", aten=Aten("logical_and", operands="bool"),
    fold=np.logical_and,
)  # fmt: skip
logical_or = _binary(
    "logical_or", _logical(Or), "bool: a or b.", onnx="Or", aten=Aten("logical_or", operands="bool"),
    fold=np.logical_or,
)  # fmt: skip
logical_xor = _binary(
    "logical_xor", _xor, "bool: either a or b.", onnx="Xor", aten=Aten("logical_xor", operands="bool"),
    fold=np.logical_xor,
)  # fmt: skip


def _bitwise(name: str, doc: str, onnx: str, of_bools: str) -> Binary:
    """Declare a bitwise operator. NumPy and ATen use the same `name`; for Python's operator, ATen has a name like
    `__and__`.
    """
    scalars = _of_numbers(name, overloads="Tensor Scalar Scalar_Tensor").names
    pythons = _of_numbers(f"__{name.removeprefix('bitwise_')}__").names
    aten = Aten(f"{scalars} {pythons}", of_bools=of_bools)
    return _binary(name, lambda a, b: Call(a.dtype, name, (a, b)), doc, onnx=onnx, aten=aten, fold=getattr(np, name))


bitwise_and = _bitwise("bitwise_and", "Bits set in both.", "BitwiseAnd", "logical_and")
bitwise_or = _bitwise("bitwise_or", "Bits set in either.", "BitwiseOr", "logical_or")
bitwise_xor = _bitwise("bitwise_xor", "Bits set in one of the two.", "BitwiseXor", "logical_xor")


def _shift(name: str, function: Callable[[Expr, Expr], Any], doc: str, pythons: str) -> Binary:
    """Declare a shift operator. `pythons` is ATen's name for Python's operator."""
    scalars = _of_numbers(f"bitwise_{name}", overloads="Tensor Tensor_Scalar Scalar_Tensor").names
    return _binary(name, function, doc, aten=Aten(f"{scalars} {_of_numbers(pythons).names}"))


left_shift = _shift("left_shift", lambda a, b: a << b, "a moved b bits up.", "__lshift__")
right_shift = _shift("right_shift", _right_shift, "a moved b bits down.", "__rshift__")
atan2 = _binary("atan2", te.atan2, "The angle of the point (b, a), in radians.", aten="atan2")


@register("where", pattern=Pattern.BROADCAST, onnx="Where", fold=np.where)
def where(condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Return, for each element, x where `condition` holds and y elsewhere."""
    if x.dtype != y.dtype:
        raise TypeMismatch(f"where: the values differ in dtype: {x.dtype} and {y.dtype}")
    return broadcast("where", lambda c, a, b: te.select(c.astype("bool"), a, b), condition, x, y)


@register("nn.bias_add", pattern=Pattern.BROADCAST)
def bias_add(data: Tensor, bias: Tensor, *, axis: int = 1) -> Tensor:
    """Return data + bias, with one bias per channel along `axis`."""
    at = shapes.axis_of(axis, data.ndim)
    if bias.ndim != 1 or not (
        shapes.is_one(shapes.dims(bias)[0]) or shapes.agree(shapes.dims(bias)[0], shapes.dims(data)[at])
    ):
        raise TypeMismatch(f"bias_add: wanted a bias of shape ({data.shape[at]},), found {bias}")
    if data.dtype != bias.dtype:
        raise TypeMismatch(f"bias_add: data is {data.dtype}, bias {bias.dtype}")
    return te.compute(
        data.shape,
        lambda *i: data[i] + bias[shapes.broadcast_index(bias, (i[at],), (data.shape[at],))],
        name="T_bias_add",
    )


@register("broadcast_to", pattern=Pattern.BROADCAST, fold=lambda x, shape: np.broadcast_to(x, shape).copy())
def broadcast_to(x: Tensor, *, shape: Sequence[shapes.Dim]) -> Tensor:
    """Return x repeated along axes of extent 1 and along missing axes, so that its shape is exactly `shape`."""
    target = tuple(shape)
    behind = target[len(target) - x.ndim :] if x.ndim <= len(target) else ()
    if len(behind) != x.ndim or not all(map(_becomes, shapes.dims(x), behind)):
        raise InputError(f"broadcast_to: shape ({', '.join(map(str, x.shape))}) does not become {target}")
    return te.compute(target, lambda *i: x[shapes.broadcast_index(x, i, target)], name="T_broadcast_to")


def _becomes(own: shapes.Dim, extent: shapes.Dim) -> bool:
    """Return whether an axis of extent `own` can be broadcast to `extent`. If symbolic sizes decide this, a requirement
    on them may be recorded.
    """
    if shapes.is_one(own) or shapes.same(own, extent):
        return True
    if shapes.differ(own, 1) or not isinstance(own, Var) or not isinstance(extent, int | Var):
        return shapes.agree(own, extent)
    shapes.require_repeats(own, extent)
    return True


@register(
    "full", pattern=Pattern.INJECTIVE,
    fold=lambda shape, fill_value, dtype: np.full(shape, fill_value, DType(dtype).numpy),
)  # fmt: skip
def full(*, shape: Sequence[shapes.Dim], fill_value: float, dtype: str = "float32") -> Tensor:
    """Return a tensor whose elements all equal `fill_value`."""
    return te.compute(tuple(shape), lambda *i: const(fill_value, dtype), name="T_full")


def _fold_arange(start: Any, stop: Any, step: Any, dtype: str) -> Any:
    return np.arange(start, stop, step).astype(DType(dtype).numpy)


@register("arange", pattern=Pattern.INJECTIVE, fold=_fold_arange)
def arange(*, start: shapes.Dim = 0, stop: shapes.Dim, step: float = 1, dtype: str = "int64") -> Tensor:
    """Return start, start + step, and so on, up to but not including `stop`.

    If an end is symbolic, the step must be an integer, and `stop` must not come before `start`.
    """
    symbolic = isinstance(start, Expr) or isinstance(stop, Expr)
    if symbolic and (int(step) != step or step == 0):
        raise InputError(f"arange: a symbolic end needs an integer step, found {step}")
    count = _steps(start, stop, int(step)) if symbolic else max(0, math.ceil((stop - start) / step))

    def element(i: Expr) -> Expr:
        if const(0, dtype).dtype.is_float:
            return as_expr(start).astype(dtype) + i.astype(dtype) * const(step, dtype)
        return as_expr(start).astype(dtype) + i.astype(dtype) * const(int(step), dtype)

    return te.compute((count,), element, name="T_arange")


def _steps(start: shapes.Dim, stop: shapes.Dim, step: int) -> shapes.Dim:
    """Return the number of steps from start to stop, rounded up."""
    distance = stop - start if step > 0 else start - stop
    size = abs(step)
    return shapes.simple(distance if size == 1 else (distance + (size - 1)) // size)


@register("elementwise_sum", pattern=Pattern.BROADCAST)
def elementwise_sum(*data: Tensor) -> Tensor:
    """Return the element-wise sum of any number of tensors."""
    if not data:
        raise InputError("elementwise_sum: no operands")
    if len({t.dtype for t in data}) != 1:
        raise TypeMismatch(f"elementwise_sum: the operands differ in dtype: {[str(t.dtype) for t in data]}")

    def total(first: Expr, *rest: Expr) -> Expr:
        for value in rest:
            first = first + value
        return first

    return broadcast("elementwise_sum", total, *data)
