"""Functions that create tensors (`placeholder`, `compute`, `reduce_axis`), and the variables and constants in them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from .. import expr as ex
from ..errors import InputError, TypeMismatch, report
from ..expr import const
from .nodes import ComputeOp, ExternOp, PlaceholderOp, Tensor

__all__ = ["compute", "const", "placeholder", "post_order", "rational", "reduce_axis", "size_var", "var"]


def var(name: str = "tindex", dtype: str = "int32") -> ex.Var:
    """Return a free scalar variable."""
    return ex.Var(name, ex.DType(dtype))


def size_var(name: str = "size", dtype: str = "int32") -> ex.SizeVar:
    """Return a variable that is never negative, for use as a symbolic dimension."""
    return ex.SizeVar(name, ex.DType(dtype))


def rational(numerator: int, denominator: int, dtype: str = "float32") -> ex.FloatImm:
    """Return the constant numerator/denominator. It stays exact until code generation rounds it."""
    return ex.FloatImm(Fraction(numerator, denominator), ex.DType(dtype))


def placeholder(shape: Any, dtype: str | None = None, name: str = "placeholder") -> Tensor:
    """Return an input tensor with the shape `shape` (integers or expressions) and the dtype `dtype` (by default
    float32).
    """
    dims = as_shape(shape, name)
    kind = ex.DType(dtype or "float32")
    return Tensor(PlaceholderOp(name, dims, kind), dims, kind)


def reduce_axis(dom: Any, name: str = "rv") -> ex.IterVar:
    """Return an axis to reduce over. `dom` is a `Range` or a half-open pair (begin, end).

    Raises `InputError` for any other `dom`.
    """
    if not isinstance(dom, ex.Range):
        if not isinstance(dom, Sequence) or len(dom) != 2:
            raise InputError(f"reduce_axis {name}: wanted a Range or a pair (begin, end), found {dom!r}")
        dom = ex.Range.of(*dom)
    return ex.IterVar(ex.Var(name, dom.extent.dtype), dom, ex.REDUCE)


def compute(
    shape: Any,
    fcompute: Callable[..., Any],
    name: str = "compute",
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
    varargs_names: Sequence[str] | None = None,
) -> Any:
    """Return the tensor whose element at each point is `fcompute(*point)`, or a list if `fcompute` returns a tuple.

    The axes take the names of the function's parameters; those of `*indices` are `i0`, `i1`, ... or `varargs_names`. A
    reduction must be the whole body, not just a part of it. Raises `TypeMismatch` if body, shape and reducer do not
    fit, and `InputError` if the number of the function's parameters differs from the number of dimensions. (TVM's
    `te.compute`.)
    """
    dims = as_shape(shape, name)
    axis = tuple(
        ex.IterVar(ex.Var(axis_name, dim.dtype), ex.Range.of(dim))
        for axis_name, dim in zip(_axis_names(fcompute, len(dims), name, varargs_names), dims, strict=True)
    )
    values = fcompute(*(a.var for a in axis))
    several = isinstance(values, list | tuple)
    body = tuple(ex.as_expr(value) for value in (values if several else (values,)))
    _check_body(name, body)
    annotations = dict(attrs or {})
    if tag:
        annotations["tag"] = tag
    op = ComputeOp(name, axis, body, annotations)
    outputs = [Tensor(op, dims, value.dtype, index) for index, value in enumerate(body)]
    return outputs if several else outputs[0]


def post_order(outputs: Iterable[Tensor]) -> list[Tensor]:
    """Return the outputs and all tensors that they need. Each tensor comes after the tensors that it reads.

    If several outputs of an operation are read, each of them is listed.
    """
    done: dict[Tensor, None] = {}
    stack: list[tuple[Tensor, bool]] = [(t, False) for t in reversed(list(outputs))]
    while stack:
        tensor, ready = stack.pop()
        if tensor in done:
            continue
        if ready or isinstance(tensor.op, PlaceholderOp):
            done[tensor] = None
            continue
        stack.append((tensor, True))
        if isinstance(tensor.op, ComputeOp | ExternOp):
            stack.extend((t, False) for t in reversed(tensor.op.input_tensors))
    return list(done)


def as_shape(shape: Any, name: str) -> tuple[ex.Expr, ...]:
    """Return a shape as integer expressions. A single `Expr` or int stands for a shape of one dimension.

    Raises `TypeMismatch` for a dimension that is not an integer, and `InputError` for a negative one.
    """
    extents = tuple(shape) if isinstance(shape, Sequence | Iterable) and not isinstance(shape, ex.Expr) else (shape,)
    dims = tuple(ex.as_expr(dim) for dim in extents)
    for dim in dims:
        if not dim.dtype.is_int:
            raise TypeMismatch(f"{name}: a dimension is an integer, found {dim} of dtype {dim.dtype}")
        if isinstance(dim, ex.IntImm) and dim.value < 0:
            shown = ", ".join(str(d.value) if isinstance(d, ex.IntImm) else str(d) for d in dims)
            raise InputError(f"{name.removeprefix('T_')}: a dimension is not negative, found shape ({shown})")
    return dims


def _axis_names(fcompute: Callable[..., Any], ndim: int, name: str, varargs_names: Sequence[str] | None) -> list[str]:
    spec = inspect.getfullargspec(fcompute)
    # A parameter with a default captures a loop variable (`lambda i, s=s: ...`): it is not an index.
    named = spec.args[: len(spec.args) - len(spec.defaults or ())]
    if inspect.ismethod(fcompute):
        named = named[1:]
    missing = ndim - len(named)
    if missing < 0 or (missing > 0 and spec.varargs is None):
        raise InputError(
            report(
                f"compute {name}: the function takes another number of indices",
                wanted=f"{ndim}, one a dimension",
                found=f"{len(named)}: ({', '.join(named)})",
                tries=["lambda *indices: ... takes any number"],
            )
        )
    rest = list(varargs_names) if varargs_names is not None else [f"i{k}" for k in range(missing)]
    if len(rest) != missing:
        raise InputError(f"compute {name}: wanted {missing} varargs_names, found {rest}")
    return [*named, *rest]


def _check_body(name: str, body: tuple[ex.Expr, ...]) -> None:
    if not body:
        raise InputError(f"compute {name}: the function gave no value")
    for value in body:
        if value.dtype.lanes != 1 or value.dtype.kind == "handle":
            raise TypeMismatch(f"compute {name}: an element is a scalar, found {value} of dtype {value.dtype}")
        inner = [item for item in ex.walk(value) if isinstance(item, ex.Reduce) and item is not value]
        if inner:
            raise TypeMismatch(
                report(
                    f"compute {name}: a reduction must be the whole body",
                    found=f"{inner[0]} inside {value}",
                    tries=[f"compute the reduction as a tensor of its own, and read that in {name}"],
                )
            )
    reductions = [value for value in body if isinstance(value, ex.Reduce)]
    if not reductions:
        return
    first = reductions[0]
    fits = len(reductions) == len(body) == len(first.sources) and all(
        r.value_index == k and _same_reduction(r, first) for k, r in enumerate(reductions)
    )
    if not fits:
        raise TypeMismatch(
            report(
                f"compute {name}: several outputs of a reduction must be all the values of one reducer, in order",
                wanted=f"{len(first.sources)} values of {first.combiner.name}",
                found=f"({', '.join(map(str, body))})",
            )
        )


def _same_reduction(a: ex.Reduce, b: ex.Reduce) -> bool:
    if a is b:  # fast for long bodies, such as Winograd's transforms
        return True
    return (
        ex.structural_equal(a.combiner, b.combiner)
        and len(a.axes) == len(b.axes)
        and all(x is y for x, y in zip(a.axes, b.axes, strict=True))
        and ex.structural_equal(a.sources, b.sources)
        and ex.structural_equal(a.condition, b.condition)
        and ex.structural_equal(a.init, b.init)
    )
