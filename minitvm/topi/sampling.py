"""Sample an image at points given by a tensor: `grid_sample` (Jaderberg et al., Spatial Transformer Networks, 2015)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import te
from ..errors import InputError, TypeMismatch
from ..expr import Expr, as_expr, const
from ..te import Tensor
from .indices import nearest
from .registry import register
from .resize import cubic_weight
from .shapes import Dim, agree, dims, require_some

_METHODS = ("nearest", "linear", "cubic")
_PADDINGS = ("zeros", "border", "reflection")


@register("image.grid_sample")
def grid_sample(
    data: Tensor,
    grid: Tensor,
    *,
    method: str = "linear",
    padding_mode: str = "zeros",
    align_corners: bool = False,
    in_elements: bool = False,
) -> Tensor:
    """Return data [n, c, (d,) h, w] sampled at the points in grid [n, outs..., 2 or 3].

    A point is (x, y(, z)), with values from -1 to 1. With `align_corners`, -1 and 1 are the centres of the outermost
    elements; otherwise they are their outer edges. With `in_elements`, coordinates are counted in elements: 0 is the
    centre of the first element. `padding_mode` determines the values outside: zeros, the border, or a reflection.
    """
    rank = data.ndim - 2
    if rank not in (2, 3) or grid.ndim != data.ndim or not agree(dims(grid)[-1], rank) or data.dtype != grid.dtype:
        raise TypeMismatch(f"image.grid_sample: {grid} does not fit {data}")
    if not agree(dims(grid)[0], dims(data)[0]):
        raise TypeMismatch(f"image.grid_sample: wanted as many grids as pictures, found {grid} and {data}")
    if method not in _METHODS or padding_mode not in _PADDINGS or (method == "cubic" and rank == 3):
        raise InputError(f"image.grid_sample: {method!r}, {padding_mode!r} on {rank} spatial axes is not known")
    extents = dims(data)[2:]
    outs = dims(grid)[1:-1]
    for axis, extent in enumerate(extents):
        require_some(extent, f"pixels along axis {axis + 2} to sample", (*dims(data)[:2], *outs))

    # Coordinates, places and weights are separate stages, which all channels share. Axes are in the order of data.
    def coordinate(n: Any, *i: Any) -> Expr:
        axis, component = i[-1], (rank - 1) - i[-1]
        p: Expr = grid[(n, *i[:-1], component)]
        if not in_elements:
            p = _coordinate(p, _of_axis(extents, axis, grid.dtype), align_corners)
        if method == "cubic" or padding_mode == "zeros":
            return p
        size = _of_axis(extents, axis, p.dtype)
        return _clamp(p, size) if padding_mode == "border" else _reflected(p, size, align_corners)

    at = te.compute((dims(grid)[0], *outs, rank), coordinate, name="T_grid_coordinates")
    taps = {"nearest": 1, "linear": 2, "cubic": 4}[method]

    def whole(i: Sequence[Any]) -> Expr:
        """Return the index of a tap as a float. It may be outside the axis."""
        p: Expr = at[tuple(i[:-1])]
        if method == "nearest":
            return te.nearbyint(p)
        return te.floor(p) + (i[-1] - (1 if method == "cubic" else 0)).astype(p.dtype)

    def place(*i: Any) -> Expr:
        p, size = whole(i), _of_axis(extents, i[-2], at.dtype)
        if padding_mode == "reflection" and method == "cubic":
            p = _reflected(p, size, align_corners)
        inner = _clamp(p, size)
        if padding_mode != "zeros":
            return inner.astype("int32")
        # -1 means that the tap is outside.
        same: Expr = inner == p
        return te.select(same, inner, const(-1, p.dtype)).astype("int32")

    def weight(*i: Any) -> Expr:
        distance = te.abs(at[tuple(i[:-1])] - whole(i))
        one = const(1, distance.dtype)
        return one if method == "nearest" else one - distance if method == "linear" else cubic_weight(distance)

    stage = (dims(grid)[0], *outs, rank, taps)
    places = te.compute(stage, place, name="T_grid_places")
    weights = te.compute(stage, weight, name="T_grid_weights")
    tap = [te.reduce_axis((0, taps), name=f"t{a}") for a in range(rank)]

    def element(n: Any, c: Any, *point: Any) -> Any:
        keys = [(n, *point, as_expr(a), t.var) for a, t in enumerate(tap)]
        value: Expr = data[(n, c, *(nearest(places[k], d) for k, d in zip(keys, extents, strict=True)))]
        if padding_mode == "zeros":
            inside = te.all(*(places[k] >= 0 for k in keys))
            value = te.select(inside, value, const(0, value.dtype))
        for k in keys:
            value = value * weights[k]
        return te.sum(value, axis=tap)

    return te.compute((*dims(data)[:2], *outs), element, name="T_grid_sample")


def _of_axis(extents: Sequence[Dim], axis: Expr, dtype: str) -> Expr:
    """Return the extent of the axis that `axis` selects at run time."""
    size = _float(extents[-1], dtype)
    for k in reversed(range(len(extents) - 1)):
        here: Expr = axis == k
        size = te.select(here, _float(extents[k], dtype), size)
    return size


def _float(value: Dim, dtype: str) -> Expr:
    return as_expr(value).astype(dtype)


def _clamp(p: Expr, size: Expr) -> Expr:
    return te.minimum(te.maximum(p, const(0, p.dtype)), size - 1.0)


def _coordinate(value: Expr, size: Expr, align_corners: bool) -> Expr:
    """Convert a coordinate in [-1, 1] to a position along an axis."""
    if align_corners:
        return (value + 1.0) / 2.0 * (size - 1.0)
    return ((value + 1.0) * size - 1.0) / 2.0


def _reflected(p: Expr, size: Expr, align_corners: bool) -> Expr:
    """Return a position reflected at both ends of the axis, as often as necessary."""
    low = const(0.0 if align_corners else -0.5, p.dtype)
    # An axis of one element has length 0 between its corners; all points are reflected onto this element.
    span = te.maximum(size - 1.0, const(1e-4, p.dtype)) if align_corners else size
    distance = te.abs(p - low)
    turns = te.floor(distance / span)
    rest = distance - turns * span
    even: Expr = te.floor(turns / 2.0) * 2.0 == turns
    return te.select(even, rest + low, span - rest + low)
