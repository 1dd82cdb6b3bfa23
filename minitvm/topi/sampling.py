"""Reading a picture at places that are data: `grid_sample` (Jaderberg et al., Spatial Transformer Networks, 2015)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from .. import te
from ..errors import InputError, TypeMismatch
from ..expr import Expr, as_expr, const
from ..te import Tensor
from .shapes import Dim, dims, is_one

_METHODS = ("nearest", "linear", "cubic")
_PADDINGS = ("zeros", "border", "reflection")


def grid_sample(
    data: Tensor, grid: Tensor, *, method: str = "linear", padding_mode: str = "zeros", align_corners: bool = False
) -> Tensor:  # fmt: skip
    """data [n, c, (d,) h, w] at the points of grid [n, outs..., 2 or 3], which are (x, y(, z)) from -1 to 1.

    -1 and 1 are the centres of the outermost elements with `align_corners`, else their outer edges. `padding_mode`
    says what is read outside: zeros, the border, or the reflection at it.
    """
    rank = data.ndim - 2
    if rank not in (2, 3) or grid.ndim != data.ndim or dims(grid)[-1] != rank or data.dtype != grid.dtype:
        raise TypeMismatch(f"image.grid_sample: {grid} does not fit {data}")
    if method not in _METHODS or padding_mode not in _PADDINGS or (method == "cubic" and rank == 3):
        raise InputError(f"image.grid_sample: {method!r}, {padding_mode!r} on {rank} spatial axes is not known")
    extents = dims(data)[2:]
    shape = (*dims(data)[:2], *dims(grid)[1:-1])
    # The source coordinates are a stage of their own: all channels share them.
    places = te.compute(
        grid.shape, lambda *i: _coordinate(grid[i], i[-1], extents, align_corners), name="T_grid_coordinates"
    )  # fmt: skip

    def element(n: Any, c: Any, *outs: Any) -> Expr:
        at = [places[(n, *outs, as_expr(rank - 1 - a))] for a in range(rank)]
        if padding_mode == "border" and method != "cubic":
            at = [_clamp(p, const(0, p.dtype), _float(d, p.dtype) - 1.0) for p, d in zip(at, extents)]
        if padding_mode == "reflection" and method != "cubic":
            at = [_reflected(p, d, align_corners) for p, d in zip(at, extents)]

        def read(point: Sequence[Expr]) -> Expr:
            return _read(data, n, c, point, extents, padding_mode, align_corners)

        if method == "nearest":
            return read([te.nearbyint(p) for p in at])
        return _weighted(at, read, _linear if method == "linear" else _cubic)

    return te.compute(shape, element, name="T_grid_sample")


def _float(value: Dim, dtype: str) -> Expr:
    return as_expr(value).astype(dtype)


def _clamp(value: Expr, low: Expr, high: Expr) -> Expr:
    return te.minimum(te.maximum(value, low), high)


def _coordinate(value: Expr, component: Expr, extents: Sequence[Dim], align_corners: bool) -> Expr:
    """From [-1, 1] to positions along the axis of a component; the first component is the last axis."""
    size: Expr = _float(extents[0], value.dtype)
    for k, extent in enumerate(reversed(extents[1:])):
        equal: Expr = component == k
        size = te.select(equal, _float(extent, value.dtype), size)
    if align_corners:
        return (value + 1.0) / 2.0 * (size - 1.0)
    return ((value + 1.0) * size - 1.0) / 2.0


def _reflected(p: Expr, extent: Dim, align_corners: bool) -> Expr:
    """Folded back at both ends, as often as need be."""
    if is_one(extent) and align_corners:
        return p * 0.0
    size = _float(extent, p.dtype)
    low = const(0.0 if align_corners else -0.5, p.dtype)
    span = size - 1.0 if align_corners else size
    distance = te.abs(p - low)
    turns = te.floor(distance / span)
    rest = distance - turns * span
    even: Expr = te.floor(turns / 2.0) * 2.0 == turns
    return te.select(even, rest + low, span - rest + low)


def _read(
    data: Tensor, n: Any, c: Any, point: Sequence[Expr], extents: Sequence[Dim], padding: str, align: bool
) -> Expr:  # fmt: skip
    """The element at a point of whole numbers, by the rule for points outside."""
    if padding == "reflection":
        point = [_reflected(p, d, align) for p, d in zip(point, extents)]
    last = [_float(d, p.dtype) - 1.0 for p, d in zip(point, extents)]
    zero = const(0, point[0].dtype)
    inner = [_clamp(p, zero, e) for p, e in zip(point, last)]
    value = data[(n, c, *(p.astype("int32") for p in inner))]
    if padding != "zeros":
        return value
    inside = te.all(*itertools.chain.from_iterable((p >= zero, p <= e) for p, e in zip(point, last)))
    return te.select(inside, value, const(0, value.dtype))


def _linear(p: Expr) -> list[tuple[Expr, Expr]]:
    first = te.floor(p)
    share = p - first
    return [(first, const(1, p.dtype) - share), (first + 1.0, share)]


def _cubic(p: Expr, a: float = -0.75) -> list[tuple[Expr, Expr]]:
    first = te.floor(p)
    t = p - first

    def far(x: Expr) -> Expr:
        return ((x * a - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a

    def near(x: Expr) -> Expr:
        return ((x * (a + 2.0)) - (a + 3.0)) * x * x + 1.0

    weights = [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)]
    return [(first + float(k - 1), w) for k, w in enumerate(weights)]


def _weighted(at: Sequence[Expr], read: Any, taps_of: Any) -> Expr:
    total: Any = None
    for taps in itertools.product(*(taps_of(p) for p in at)):
        term = read([place for place, _ in taps])
        for _, weight in taps:
            term = term * weight.astype(term.dtype)
        total = term if total is None else total + term
    made: Expr = total
    return made
