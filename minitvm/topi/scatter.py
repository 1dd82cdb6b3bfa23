"""Write elements at indices given by a tensor: `data` is copied, then the updates are written one after the other.

A negative index counts from the end. An update whose index is out of range is skipped.
"""

from __future__ import annotations

from typing import Any

from .. import te
from ..errors import InputError, TypeMismatch
from ..expr import Expr, Var, as_expr, const
from ..te import Tensor
from ..tir.nodes import Buffer, BufferStore, For, ForKind, If, PrimFunc, Stmt
from .indices import check_index, from_front
from .lines import along, extent_of, updated
from .registry import register
from .shapes import agree, axis_of, constant, dims, require_at_least, simple

_ROW = 64  # elements of a row that are written together

_COMBINE: dict[str, Any] = {
    "none": lambda old, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: old * new,
    "max": te.maximum,
    "min": te.minimum,
}


@register("scatter_elements", updates=True)
def scatter_elements(
    data: Tensor, indices: Tensor, updates: Tensor, *, axis: int = 0, reduction: str = "none"
) -> Tensor:
    """Return `data` with updates[i, j, k] stored at [indices[i, j, k], j, k] for axis 0, and so on.

    `reduction` (add, mul, max, min) combines an update with the existing element; with "none", the last update of an
    element wins. Updates may be smaller than data along the other axes. The updates of one line along the axis are
    written in order.
    """
    check_index("scatter_elements", indices)
    at = axis_of(axis, data.ndim)
    if not indices.ndim == updates.ndim == data.ndim or not all(
        agree(a, b) for a, b in zip(dims(indices), dims(updates), strict=True)
    ):
        raise TypeMismatch(f"scatter_elements: {indices} and {updates} do not fit {data}")
    for axis, (extent, needed) in enumerate(zip(dims(data), dims(indices), strict=True)):
        if axis != at:
            require_at_least(extent, needed, f"entries along axis {axis} of the data, as the indices have")
    combined = _combined("scatter_elements", reduction)
    if at < data.ndim - 1:
        return _by_rows(data, indices, updates, at, combined)
    line = _line(
        extent_of(dims(data)[at], "n"), extent_of(dims(indices)[at], "m"), str(data.dtype), str(indices.dtype), combined
    )
    return along([indices, updates], at, line, [lambda i, _, __, old: old[i]], whole=data)[0]


def _by_rows(data: Tensor, indices: Tensor, updates: Tensor, at: int, combined: Any) -> Tensor:
    """Scatter elements along an axis other than the last: each step writes a row of neighbours along the last axis."""
    places, news, old = (Buffer(f"p{k}", t.shape, t.dtype) for k, t in enumerate((indices, updates, data)))
    y = Buffer("y", data.shape, data.dtype)
    last = dims(indices)[-1]
    width = min(last, _ROW) if isinstance(last, int) and last else _ROW
    chunks = as_expr(simple(-(-last // width)))
    axes = [(Var(f"v{a}", d.dtype), d) for a, d in enumerate(indices.shape[:-1]) if a != at]
    chunk, step = Var("chunk", chunks.dtype), Var("j", indices.shape[at].dtype)
    lane = Var("lane", chunks.dtype)
    outside, column = [v for v, _ in axes], chunk * width + lane
    point = (*outside[:at], step, *outside[at:], column)
    spot = from_front(places[point], dims(data)[at])
    inside = te.all(spot >= const(0, spot.dtype), spot < data.shape[at].astype(spot.dtype))
    target = (*outside[:at], spot.astype("int64"), *outside[at:], column)
    body: Stmt = If(inside, BufferStore(y, combined(y[target], news[point]), target))
    if not isinstance(last, int) or last % width:
        body = If(column < as_expr(last), body)
    body = _loops([(lane, as_expr(width))], body)
    body = _loops([(step, indices.shape[at])], body)
    return updated("scatter_elements", (indices, updates, data), (places, news, old, y), [*axes, (chunk, chunks)], body)


def _combined(op: str, reduction: str) -> Any:
    if reduction not in _COMBINE:
        raise InputError(f"{op}: reduction is none, add, mul, max or min, found {reduction!r}")
    return _COMBINE[reduction]


def _line(extent: Any, count: Any, dtype: str, index: str, combined: Any) -> PrimFunc:
    from ..tir.script import builtins as T

    def place(value: Expr) -> Expr:
        return from_front(value, extent)

    def inside(value: Expr) -> Expr:
        spot = place(value)
        return te.all(spot >= const(0, spot.dtype), spot < as_expr(extent).astype(spot.dtype))

    def element(value: Expr) -> Expr:
        return place(value).astype("int64")

    @T.prim_func
    def scatter(
        indices: T.Buffer((count,), index), updates: T.Buffer((count,), dtype), y: T.Buffer((extent,), dtype)
    ) -> None:
        for j in range(count):
            if inside(indices[j]):
                y[element(indices[j])] = combined(y[element(indices[j])], updates[j])

    return scatter


@register("scatter_nd", updates=True)
def scatter_nd(data: Tensor, indices: Tensor, updates: Tensor, *, reduction: str = "none") -> Tensor:
    """Return `data` with updates written at the points that the last axis of `indices` gives (ONNX's ScatterND).

    The last axis of `indices` holds the coordinates of a point, and each update is the slice at a point. With the
    reduction "none", the last update of a point wins.
    """
    check_index("scatter_nd", indices)
    size = constant(dims(indices)[-1], "scatter_nd: the last axis of the indices")
    slices_at_points = (*dims(indices)[:-1], *dims(data)[size:])
    if (
        size > data.ndim
        or updates.ndim != len(slices_at_points)
        or not all(agree(a, b) for a, b in zip(dims(updates), slices_at_points, strict=True))
    ):
        raise TypeMismatch(f"scatter_nd: {indices} and {updates} do not fit {data}")
    if indices.ndim == 1:
        raise InputError("scatter_nd: indices need an axis before the last")
    combined = _combined("scatter_nd", reduction)
    places, news, old = (Buffer(f"p{k}", t.shape, t.dtype) for k, t in enumerate((indices, updates, data)))
    y = Buffer("y", data.shape, data.dtype)
    loops = [(Var(f"j{k}", d.dtype), d) for k, d in enumerate(indices.shape[:-1])]
    slices = [(Var(f"v{k}", d.dtype), d) for k, d in enumerate(data.shape[size:])]
    at, inner = tuple(v for v, _ in loops), tuple(v for v, _ in slices)
    spots = [from_front(places[(*at, as_expr(k))], dims(data)[k]) for k in range(size)]
    ends = [as_expr(d).astype(s.dtype) for s, d in zip(spots, data.shape, strict=False)]
    tests = [te.all(s >= const(0, s.dtype), s < end) for s, end in zip(spots, ends, strict=True)]
    point = (*(s.astype("int64") for s in spots), *inner)
    # The slices' last axis is contiguous in memory: it is the innermost loop, which uses vectors, since the elements of
    # a slice are distinct. The other axes of slices are parallel.
    body: Stmt = BufferStore(y, combined(y[point], news[(*at, *inner)]), point)
    body = _loops(slices[-1:], body, ForKind.VECTORIZED)
    body = _loops(loops, If(te.all(*tests), body) if tests else body)
    return updated("scatter_nd", (indices, updates, data), (places, news, old, y), slices[:-1], body)


def _loops(loops: Any, body: Stmt, kind: ForKind = ForKind.SERIAL) -> Stmt:
    for var, extent in reversed(list(loops)):
        body = For(var, const(0, var.dtype), extent, kind, body)
    return body
