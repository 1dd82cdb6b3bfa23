"""Arithmetic on dimensions. A dimension is an int if it is constant, and an expression if it is symbolic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from .. import expr as ex
from .. import te
from ..errors import InputError, TypeMismatch
from ..te import Tensor

Dim = Any  # int | Expr, for arithmetic that both support


def simple(value: Any) -> Dim:
    """Return a dimension in its simplest form, which is an int if it is constant."""
    if isinstance(value, ex.IntImm):
        return value.value
    if not isinstance(value, ex.Expr):
        return int(value)
    from .. import arith

    simplified = arith.simplify(value)
    return simplified.value if isinstance(simplified, ex.IntImm) else simplified


def dims(tensor: Tensor, layout: str = "") -> tuple[Dim, ...]:
    """Return the shape of a tensor, with constant dimensions as ints.

    `layout` names the expected dimensions, for example "N, C/x, H, W, x". Raises `InputError` if their number differs.
    """
    if layout and len(tensor.shape) != layout.count(",") + 1:
        found = ", ".join(map(str, tensor.shape))
        raise InputError(f"{tensor.name}: wanted the dimensions [{layout}], found [{found}]")
    return tuple(d.value if isinstance(d, ex.IntImm) else d for d in tensor.shape)


def constant(value: Dim, what: str) -> int:
    """Return a dimension as an int. Raises an `InputError` that calls the dimension `what` if it is symbolic."""
    reduced = simple(value)
    if isinstance(reduced, int):
        return reduced
    raise InputError(f"{what} must be a constant, found {reduced}")


def same(a: Dim, b: Dim) -> bool:
    """Return whether two dimensions are equal for all values of their variables."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    if ex.structural_equal(ex.as_expr(a), ex.as_expr(b)):
        return True
    return bool(simple(a - b) is not None and isinstance(simple(a - b), int) and simple(a - b) == 0)


_ASSUMED: ContextVar[list[tuple[Dim, Dim]] | None] = ContextVar("assumed", default=None)


@contextmanager
def assuming() -> Iterator[list[tuple[Dim, Dim]]]:
    """Within this scope, assume relations between sizes unless they can be disproved, and list the assumptions as
    pairs.

    A pair from `agree` holds two dimensions that must be equal. A pair from `require` holds a condition of type bool,
    and 1. Outside of such a scope, `agree` returns False if it cannot prove that dimensions are equal, and `require`
    accepts a condition that it cannot decide: `Operator.relations` lists this condition for the guards of a program.
    """
    assumed: list[tuple[Dim, Dim]] = []
    token = _ASSUMED.set(assumed)
    try:
        yield assumed
    finally:
        _ASSUMED.reset(token)


def is_assuming() -> bool:
    """Return whether relations between sizes are assumed here."""
    return _ASSUMED.get() is not None


def is_condition(dim: Dim) -> bool:
    """Return whether the first element of a pair from `assuming` is a condition."""
    return isinstance(dim, ex.Expr) and dim.dtype.is_bool


def condition_of(a: Dim, b: Dim) -> ex.Expr:
    """Return the condition for a pair from `assuming`: `a == b` for dimensions; for a condition, a itself (b = 1) or
    its negation (b = 0).
    """
    if is_condition(a):
        return a if isinstance(b, int) and b else ex.Not(a)
    return ex.EQ(*ex.match(ex.as_expr(a), ex.as_expr(b)))


def agree(a: Dim, b: Dim) -> bool:
    """Return whether two dimensions are known to be equal. Inside `assuming`, return whether they can be equal, and
    list the pair.
    """
    if same(a, b):
        return True
    assumed = _ASSUMED.get()
    if assumed is None or differ(a, b):
        return False
    assumed.append((a, b))
    return True


def require(condition: Dim, message: str) -> None:
    """Require that a bool condition on sizes holds. Raises `InputError` if no sizes satisfy it.

    Inside `assuming`, a condition that only some sizes satisfy is listed, so that a run can check it.
    """
    decided = simple(condition)
    if isinstance(decided, int):
        if not decided:
            raise InputError(message)
        return
    assumed = _ASSUMED.get()
    if assumed is not None:
        assumed.append((decided, 1))


def require_at_least(size: Dim, least: Dim, what: str) -> None:
    """Require that a size is at least `least` (see `require`). For the error, `what` describes what the size counts."""
    if not (isinstance(size, int) and isinstance(least, int) and size >= least):
        require(ex.GE(*ex.match(ex.as_expr(size), ex.as_expr(least))), f"wanted at least {least} {what}, found {size}")


def require_divides(divisor: Dim, size: Dim, what: str) -> None:
    """Require that `size` is a multiple of `divisor`, which must be at least 1 (see `require`). `what` names what the
    size counts.
    """
    if isinstance(divisor, int) and divisor < 1:
        raise InputError(f"{what} are divided by {divisor}: wanted a number from 1")
    if not isinstance(divisor, int):
        require_at_least(divisor, 1, f"as the divisor of {what}")
    rest = simple(size % divisor)
    message = f"wanted a multiple of {divisor} {what}, found {size}"
    require(rest == 0 if isinstance(rest, int) else ex.EQ(*ex.match(rest, ex.as_expr(0))), message)


def require_some(size: Dim, what: str, read_by: Sequence[Dim]) -> None:
    """Require that a size is not 0, unless the result, which has the shape `read_by`, is empty. `what` names what the
    size counts.
    """
    if isinstance(size, int) and size > 0:
        return
    empty = [ex.EQ(*ex.match(ex.as_expr(d), ex.as_expr(0))) for d in read_by if not (isinstance(d, int) and d > 0)]
    condition: ex.Expr = ex.GE(*ex.match(ex.as_expr(size), ex.as_expr(1)))
    for other in empty:
        condition = ex.Or(other, condition)
    require(condition, f"wanted {what}, found none")


def differ(a: Dim, b: Dim) -> bool:
    """Return whether two dimensions are different for all values of their variables."""
    equal = (
        simple(ex.EQ(ex.as_expr(a), ex.as_expr(b))) if isinstance(a, ex.Expr) or isinstance(b, ex.Expr) else int(a == b)
    )
    return isinstance(equal, int) and not equal


def may_exceed(a: Dim, b: Dim) -> bool:
    """Return whether `a` can exceed `b` for some values of their variables. The answer is True if this cannot be
    decided.
    """
    if isinstance(a, int) and isinstance(b, int):
        return a > b
    more = simple(ex.GT(ex.as_expr(a), ex.as_expr(b)))
    return not isinstance(more, int) or bool(more)


def at_least_one(dim: Dim) -> Dim:
    """Simplify a dimension, assuming that no size of the network is 0."""
    from .. import arith

    if not isinstance(dim, ex.Expr):
        return dim
    simplified = arith.simplify(dim, {v: (1, None) for v in ex.walk(dim) if isinstance(v, ex.SizeVar)})
    return simplified.value if isinstance(simplified, ex.IntImm) else simplified


def _broadcasts(dim: Dim) -> bool:
    """Return whether a dimension is 1.

    Inside `assuming`, also return True if it is 1 for all sizes of the network that are at least 1, and list this as an
    assumption. For example, this is the case for `min(n, 1)`.
    """
    if is_one(dim):
        return True
    assumed = _ASSUMED.get()
    if assumed is None or not is_one(at_least_one(dim)):
        return False
    assumed.append((dim, 1))
    return True


def product(values: Sequence[Dim]) -> Dim:
    """Return the product of dimensions, or 1 if there are none."""
    result: Dim = 1
    for value in values:
        result = value if isinstance(result, int) and result == 1 else result * value
    return simple(result)


def smaller(a: Dim, b: Dim) -> Dim:
    """Return the smaller of two dimensions."""
    return simple(te.minimum(*ex.match(ex.as_expr(a), ex.as_expr(b))))


def larger(a: Dim, b: Dim) -> Dim:
    """Return the larger of two dimensions."""
    return simple(te.maximum(*ex.match(ex.as_expr(a), ex.as_expr(b))))


def plus(index: Any, offset: Dim) -> Any:
    """Return `index + offset`, or just `index` if the offset is 0."""
    if isinstance(offset, int) and offset == 0:
        return index
    if isinstance(offset, int) and offset < 0:
        return index - (-offset)
    return index + offset


def times(index: Any, factor: Dim) -> Any:
    """Return `index * factor`, or just `index` if the factor is 1."""
    return index if isinstance(factor, int) and factor == 1 else index * factor


def broadcast_shapes(*shapes: Sequence[Dim], repeated: bool = True) -> tuple[Dim, ...]:
    """Return the common shape of several shapes under NumPy's broadcasting rules.

    Two unrelated sizes, such as the lengths of two inputs, must be equal, or one of them must be 1 and is repeated;
    this is decided at run time. Without `repeated`, or if a size is computed from others, two sizes that are not known
    to be 1 must be equal.
    """
    rank = max(len(s) for s in shapes)
    result: list[Dim] = []
    for position in range(rank):
        dim: Dim = 1
        for shape in shapes:
            at = position - (rank - len(shape))
            if at < 0 or _broadcasts(shape[at]):
                continue
            if is_one(dim) or same(dim, shape[at]):
                dim = shape[at] if is_one(dim) else dim
                continue
            if repeated and not differ(dim, shape[at]) and _is_free(dim) and _is_free(shape[at]):
                dim = _one_of_two(dim, shape[at])
                continue
            if not agree(dim, shape[at]):
                texts = " and ".join("(" + ", ".join(map(str, s)) + ")" for s in shapes)
                raise TypeMismatch(f"shapes {texts} do not broadcast: {dim} beside {shape[at]}")
        result.append(dim)
    return tuple(result)


def _is_free(dim: Dim) -> bool:
    """Return whether a size is a number, a variable, or a choice between two of these made by `_one_of_two`."""
    if isinstance(dim, ex.Select):
        return _is_free(dim.true_value) and _is_free(dim.false_value)
    return isinstance(dim, int | ex.IntImm | ex.Var)


def require_repeats(size: Dim, extent: Dim, what: str = "entries to repeat") -> None:
    """Require that `size` is `extent`, or that it is 1, in which case the only entry is repeated. `what` names what the
    size counts.
    """
    left, right = ex.match(ex.as_expr(size), ex.as_expr(extent))
    one = ex.EQ(left, ex.const(1, left.dtype))
    require(ex.Or(one, ex.EQ(left, right)), f"wanted 1 or {extent} {what}, found {size}")
    require_some(size, what, (extent,))


def _one_of_two(a: Dim, b: Dim) -> Dim:
    """Return the common size of two sizes. They must be equal, or one of them must be 1."""
    left, right = ex.match(ex.as_expr(a), ex.as_expr(b))
    is_left, is_right = (ex.EQ(x, ex.const(1, x.dtype)) for x in (left, right))
    require(ex.Or(ex.Or(is_left, is_right), ex.EQ(left, right)), f"sizes {a} and {b} do not broadcast")
    dim = a if isinstance(a, int) else b if isinstance(b, int) else simple(ex.Select(is_left, right, left))
    for size in (a, b):
        require_some(size, "entries to repeat", (dim,))
    return dim


def is_one(dim: Dim) -> bool:
    """Return whether a dimension is the constant 1."""
    return isinstance(dim, int) and dim == 1


def broadcast_index(tensor: Tensor, indices: Sequence[Any], shape: Sequence[Dim]) -> tuple[Any, ...]:
    """Return the index in `tensor` of the element that is broadcast to index `indices` of `shape`."""
    return broadcast_point(dims(tensor), indices, shape)


def broadcast_point(own: Sequence[Dim], indices: Sequence[Any], shape: Sequence[Dim]) -> tuple[Any, ...]:
    """Like `broadcast_index`, but for a tensor of shape `own`, or for the leading part of its shape."""
    skipped = len(indices) - len(own)
    return tuple(map(_repeated, list(indices)[skipped:], own, list(shape)[skipped:]))


def _repeated(index: Any, own: Dim, extent: Dim) -> Any:
    """Return the operand's index along an axis, given `index` along that axis of the result."""
    if is_one(own):
        return index if is_one(extent) else ex.as_expr(0, str(index.dtype))
    if same(own, extent) or not (_is_free(own) and _is_free(extent)):
        return index
    # If there is only one entry, it is the last one; otherwise the axis is as long as the result. The index is written
    # as a choice, so that lowering can make a version of the loops for equal sizes (`tir.transform.unswitch_repeats`).
    last = te.minimum(*ex.match(index, ex.as_expr(own) - 1))
    sizes = (own, extent)
    if isinstance(extent, ex.Select) and isinstance(extent.false_value, ex.Var):
        sizes = (extent.true_value, extent.false_value)  # the two that `_one_of_two` found: both are as long
    return ex.Select(ex.EQ(*ex.match(*map(ex.as_expr, sizes))), index.astype(last.dtype), last)


def axis_of(axis: int, rank: int) -> int:
    """Return an axis counted from the front. Raises `InputError` if it does not exist."""
    if not -rank <= axis < rank:
        raise InputError(f"axis {axis} is out of range for {rank} dimensions")
    return axis % rank


def axes_of(axis: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """Return several axes, counted from the front and sorted. None means all axes.

    Raises `InputError` if an axis is repeated or does not exist.
    """
    if axis is None:
        return tuple(range(rank))
    listed = (axis,) if isinstance(axis, int) else tuple(axis)
    axes = [axis_of(a, rank) for a in listed]
    if len(set(axes)) != len(axes):
        raise InputError(f"an axis comes twice in {tuple(listed)}")
    return tuple(sorted(axes))


def per_axis(value: int | Sequence[int], count: int, what: str, least: int = 1) -> tuple[int, ...]:
    """Return one value per axis, such as a stride or an extent. A single int applies to all axes.

    Raises `InputError` if the number of values is wrong, or if a value is less than `least`.
    """
    values = (value,) * count if isinstance(value, int) else tuple(value)
    if len(values) != count:
        raise InputError(f"{what}: wanted {count} values, found {values}")
    for one in values:
        require_from(least, one, what)
    return values


def require_positive(value: Any, what: str) -> None:
    """Raise `InputError` unless `value`, for example a divisor or a count, is an integer of at least 1."""
    require_from(1, value, what)


def require_from(least: int, value: Any, what: str) -> None:
    """Raise `InputError` unless a value is an integer of at least `least`."""
    if not isinstance(value, int) or value < least:
        raise InputError(f"{what}: wanted an integer from {least}, found {value!r}")


def paddings(padding: int | Sequence[int], count: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the padding before and after each spatial axis.

    `padding` is one value, one value per axis, or all values before and then all values after the axes.
    """
    if isinstance(padding, int):
        return (padding,) * count, (padding,) * count
    amounts = tuple(padding)
    if len(amounts) == 1:
        return amounts * count, amounts * count
    if len(amounts) == count:
        return amounts, amounts
    if len(amounts) == 2 * count:
        return amounts[:count], amounts[count:]
    raise InputError(f"padding: wanted 1, {count} or {2 * count} values, found {amounts}")
