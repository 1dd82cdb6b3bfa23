"""Element-wise functions of several tensors, with NumPy's broadcasting. Operands have one dtype."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from .. import te
from ..errors import InputError, TypeMismatch
from ..expr import And, Call, Expr, Not, Or, Var, as_expr, call, const
from ..te import Tensor
from . import shapes

Binary = Callable[..., Tensor]


def broadcast(name: str, function: Callable[..., Any], *operands: Tensor | Expr) -> Tensor:
    """`function` of the operands' elements at each point of the common shape; expressions are scalars."""
    shape = shapes.broadcast_shapes(*(shapes.dims(t) for t in operands if isinstance(t, Tensor)))

    def element(*point: Any) -> Any:
        return function(*(t[shapes.broadcast_index(t, point, shape)] if isinstance(t, Tensor) else t for t in operands))

    return te.compute(shape, element, name=f"T_{name}")


def _binary(name: str, function: Callable[[Expr, Expr], Any], doc: str) -> Binary:
    def apply(a: Tensor | Expr | float, b: Tensor | Expr | float) -> Tensor:
        a, b = _with_scalars(name, a, b)
        if a.dtype != b.dtype:
            raise TypeMismatch(f"{name}: the operands differ in dtype: {a.dtype} and {b.dtype}")
        return broadcast(name, function, a, b)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = doc
    return apply


def _with_scalars(name: str, *operands: Tensor | Expr | float) -> list[Tensor | Expr]:
    """Operands of which some are tensors; Python's numbers take the tensors' dtype."""
    dtypes = [x.dtype for x in operands if isinstance(x, Tensor)]
    if not dtypes:
        raise InputError(f"{name}: wanted a tensor, found {' and '.join(type(x).__name__ for x in operands)}")
    return [x if isinstance(x, Tensor | Expr) else const(x, dtypes[0]) for x in operands]


def _power(a: Expr, b: Expr) -> Expr:
    if a.dtype.is_float:
        return te.power(a, b)
    return te.nearbyint(te.power(a.astype("float64"), b.astype("float64"))).astype(a.dtype)


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


def _bits(name: str) -> Callable[[Expr, Expr], Expr]:
    return lambda a, b: Call(a.dtype, name, (a, b))


def _right_shift(a: Expr, b: Expr) -> Expr:
    return a >> b


add = _binary("add", lambda a, b: a + b, "a + b.")


def _difference(a: Expr, b: Expr) -> Expr:
    if a.dtype.is_bool:
        raise TypeMismatch("subtract: wanted numbers, found bool\n  try:    logical_xor")
    return a - b


subtract = _binary("subtract", _difference, "a - b.")
multiply = _binary("multiply", lambda a, b: a * b, "a * b.")
divide = _binary("divide", lambda a, b: a / b if a.dtype.is_float else te.truncdiv(a, b), "a / b; ints toward zero.")
floor_divide = _binary(
    "floor_divide", lambda a, b: call("floor", a / b) if a.dtype.is_float else a // b, "The floor of a / b."
)
mod = _binary(
    "mod",
    lambda a, b: call("fmod", a, b) if a.dtype.is_float else te.truncmod(a, b),
    "Remainder with the sign of a (C's).",
)
floor_mod = _binary(
    "floor_mod",
    lambda a, b: _float_floor_mod(a, b) if a.dtype.is_float else a % b,
    "Remainder with the sign of b (Python's).",
)
power = _binary("power", _power, "a to the power of b.")
maximum = _binary("maximum", te.maximum, "The larger; NaN if either is.")
minimum = _binary("minimum", te.minimum, "The smaller; NaN if either is.")
equal = _binary("equal", _equal, "bool: a == b.")
not_equal = _binary("not_equal", lambda a, b: a != b, "bool: a != b.")
less = _binary("less", lambda a, b: a < b, "bool: a < b.")
less_equal = _binary("less_equal", lambda a, b: a <= b, "bool: a <= b.")
greater = _binary("greater", lambda a, b: a > b, "bool: a > b.")
greater_equal = _binary("greater_equal", lambda a, b: a >= b, "bool: a >= b.")
logical_and = _binary("logical_and", _logical(And), "bool: a and b.")
logical_or = _binary("logical_or", _logical(Or), "bool: a or b.")
logical_xor = _binary("logical_xor", _xor, "bool: either a or b.")
bitwise_and = _binary("bitwise_and", _bits("bitwise_and"), "Bits set in both.")
bitwise_or = _binary("bitwise_or", _bits("bitwise_or"), "Bits set in either.")
bitwise_xor = _binary("bitwise_xor", _bits("bitwise_xor"), "Bits set in one of the two.")
left_shift = _binary("left_shift", lambda a, b: a << b, "a moved b bits up.")
right_shift = _binary("right_shift", _right_shift, "a moved b bits down.")
atan2 = _binary("atan2", te.atan2, "The angle of the point (b, a), in radians.")


def where(condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """x where the condition holds, else y."""
    if x.dtype != y.dtype:
        raise TypeMismatch(f"where: the values differ in dtype: {x.dtype} and {y.dtype}")
    return broadcast("where", lambda c, a, b: te.select(c.astype("bool"), a, b), condition, x, y)


def bias_add(data: Tensor, bias: Tensor, *, axis: int = 1) -> Tensor:
    """data + bias, with one bias per channel along `axis`."""
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


def broadcast_to(x: Tensor, *, shape: Sequence[shapes.Dim]) -> Tensor:
    """x repeated along axes of extent 1 and along missing axes, to exactly `shape`."""
    target = tuple(shape)
    behind = target[len(target) - x.ndim :] if x.ndim <= len(target) else ()
    if len(behind) != x.ndim or not all(map(_becomes, shapes.dims(x), behind)):
        raise InputError(f"broadcast_to: shape ({', '.join(map(str, x.shape))}) does not become {target}")
    return te.compute(target, lambda *i: x[shapes.broadcast_index(x, i, target)], name="T_broadcast_to")


def _becomes(own: shapes.Dim, extent: shapes.Dim) -> bool:
    """Whether an axis can be repeated to an extent."""
    if shapes.is_one(own) or shapes.same(own, extent):
        return True
    if shapes.differ(own, 1) or not isinstance(own, Var) or not isinstance(extent, int | Var):
        return shapes.agree(own, extent)
    shapes.require_repeats(own, extent)
    return True


def full(*, shape: Sequence[shapes.Dim], fill_value: float, dtype: str = "float32") -> Tensor:
    """A tensor of one value."""
    return te.compute(tuple(shape), lambda *i: const(fill_value, dtype), name="T_full")


def arange(*, start: shapes.Dim = 0, stop: shapes.Dim, step: float = 1, dtype: str = "int64") -> Tensor:
    """start, start + step, ... before `stop`; a symbolic end needs an integer step, and is never before the start."""
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
    """The distance from start to stop in steps, rounded up."""
    distance = stop - start if step > 0 else start - stop
    size = abs(step)
    return shapes.simple(distance if size == 1 else (distance + (size - 1)) // size)


def elementwise_sum(*data: Tensor) -> Tensor:
    """The sum of any number of tensors."""
    if not data:
        raise InputError("elementwise_sum: no operands")
    if len({t.dtype for t in data}) != 1:
        raise TypeMismatch(f"elementwise_sum: the operands differ in dtype: {[str(t.dtype) for t in data]}")

    def total(first: Expr, *rest: Expr) -> Expr:
        for value in rest:
            first = first + value
        return first

    return broadcast("elementwise_sum", total, *data)
