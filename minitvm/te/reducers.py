"""Reductions over `reduce_axis`: `sum`, `prod`, `min` and `max`, and `comm_reducer` to define your own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..errors import InputError, TypeMismatch
from ..expr import REDUCE, CommReducer, DataVar, Expr, IterVar, Reduce, as_expr, binary, const
from ..expr import Max as MaxNode
from ..expr import Min as MinNode
from ..tir.op import highest, lowest

__all__ = ["comm_reducer", "max", "min", "prod", "sum"]

Reducer = Callable[..., Any]


def comm_reducer(fcombine: Callable[[Any, Any], Any], fidentity: Callable[..., Any], name: str = "reduce") -> Reducer:
    """Make a reducer from an associative, commutative `fcombine(x, y)` and its `fidentity(dtype)`.

    For tuples `fcombine` takes two tuples and returns one, and `fidentity` takes one dtype for each value:

        argmax = te.comm_reducer(
            lambda x, y: (select(x[1] >= y[1], x[0], y[0]), select(x[1] >= y[1], x[1], y[1])),
            lambda index, value: (te.const(-1, index), te.min_value(value)), name="argmax")
        te.compute((m,), lambda i: argmax((k.var, A[i, k]), axis=k))        # a list of two tensors

    The reducer is called as `reducer(expr, axis, where=None, init=None)`; points for which `where` is false are left
    out, and the reduction starts from `init` instead of the neutral element. (TVM's `te.comm_reducer`.)
    """

    def reducer(expr: Any, axis: Any, where: Expr | None = None, init: Any = None) -> Any:
        several = isinstance(expr, list | tuple)
        sources = tuple(as_expr(e) for e in (expr if several else (expr,)))
        axes = tuple(axis) if isinstance(axis, list | tuple) else (axis,)
        _check_axes(name, axes)
        # Data, not indices: an int32 sum wraps.
        lhs = tuple(DataVar(f"x{k}" if several else "x", s.dtype) for k, s in enumerate(sources))
        rhs = tuple(DataVar(f"y{k}" if several else "y", s.dtype) for k, s in enumerate(sources))
        combined = fcombine(lhs, rhs) if several else (fcombine(lhs[0], rhs[0]),)
        identity = fidentity(*(s.dtype for s in sources))
        results = _typed(name, combined, sources)
        starts = _typed(name, identity if several else (identity,), sources)
        combiner = CommReducer(name, lhs, rhs, results, starts)
        begin = () if init is None else _typed(name, init if several else (init,), sources)
        condition = const(True) if where is None else where
        if not condition.dtype.is_bool:
            raise TypeMismatch(f"{name}: `where` is a condition, found {condition} of dtype {condition.dtype}")
        reduces = tuple(Reduce(combiner, axes, sources, condition, k, begin) for k in range(len(sources)))
        return reduces if several else reduces[0]

    reducer.__name__ = name
    return reducer


def _check_axes(name: str, axes: Sequence[Any]) -> None:
    if not axes:
        raise InputError(f"{name}: no axis to reduce over")
    for axis in axes:
        if not isinstance(axis, IterVar) or axis.kind != REDUCE:
            raise InputError(f"{name}: wanted axes made by te.reduce_axis, found {axis!r}")


def _typed(name: str, values: Any, sources: tuple[Expr, ...]) -> tuple[Expr, ...]:
    if not isinstance(values, list | tuple) or len(values) != len(sources):
        raise TypeMismatch(f"{name}: wanted {len(sources)} values, found {values!r}")
    typed = tuple(v if isinstance(v, Expr) else const(v, s.dtype) for v, s in zip(values, sources, strict=True))
    for value, source in zip(typed, sources, strict=True):
        if value.dtype != source.dtype:
            raise TypeMismatch(f"{name}: reduces {source.dtype}, but gives {value} of dtype {value.dtype}")
    return typed


sum = comm_reducer(lambda x, y: x + y, lambda t: const(0, t), "sum")
prod = comm_reducer(lambda x, y: x * y, lambda t: const(1, t), "prod")
min = comm_reducer(lambda x, y: binary(MinNode, x, y), highest, "min")
max = comm_reducer(lambda x, y: binary(MaxNode, x, y), lowest, "max")
