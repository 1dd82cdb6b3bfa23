"""Convert Resize and Upsample."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ....errors import ModelError
from ....expr import Expr
from ....graph.nodes import Dim
from ....topi.resize import SHORT_OF_ONE
from ....topi.shapes import axis_of, same, simple
from ...common.operand import Operand
from ...common.symbolic import Quotient, scaled
from ..context import NodeContext
from ..registry import converter
from . import open_resizing

_COORDINATES = (
    "half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize", "half_pixel_symmetric",
    "tf_half_pixel_for_nn",
)  # fmt: skip
_METHODS = {"nearest": "nearest_neighbor", "linear": "linear", "cubic": "cubic"}


@converter("Upsample", since=9)
def upsample(n: NodeContext) -> Any:
    return _simple_resize(n, n[1])


@converter("Upsample", since=7)
def upsample_by_attribute(n: NodeContext) -> Any:
    return _resized(n, tuple(n.attr("scales")), None, **_asymmetric(n))


@converter("Resize", since=10)
def resize_10(n: NodeContext) -> Any:
    return _simple_resize(n, n[1])


def _simple_resize(n: NodeContext, scales: Operand) -> Any:
    return _resized(n, _factors(n, scales, n[0].ndim), None, **_asymmetric(n))


def _factors(n: NodeContext, scales: Operand, count: int) -> tuple[Any, ...]:
    """Return the scales: floats, quotients of dimensions, or data [1] if they are computed at run time."""
    scales = n.fit(scales, (count,), "the scales")
    if scales.is_known:
        return tuple(v if isinstance(v, Quotient) else float(v) for v in n.array(scales, "the scales").tolist())
    known = n.builder.elements(scales)
    return tuple(
        n.part(scales, 0, k, k + 1) if v is None else Quotient(v, 1) if isinstance(v, Expr) else float(v)
        for k, v in enumerate(known)
    )


def _asymmetric(n: NodeContext) -> dict[str, Any]:
    method = _method(n)
    return {"method": method, "coordinate_transformation_mode": "asymmetric", "rounding_method": "simple"}


def _method(n: NodeContext) -> str:
    mode = n.attr("mode", "nearest")
    if mode not in _METHODS:
        n.refuse_attribute("mode")
    return _METHODS[mode]


@converter("Resize", since=11)
def resize(n: NodeContext) -> Any:
    x = n[0]
    antialias = bool(n.attr("antialias", 0))
    mode = n.attr("coordinate_transformation_mode", "half_pixel")
    if mode not in _COORDINATES:
        n.refuse_attribute("coordinate_transformation_mode")
    attrs: dict[str, Any] = {
        "method": _method(n),
        "coordinate_transformation_mode": mode,
        "rounding_method": n.attr("nearest_mode", "round_prefer_floor"),
        "cubic_alpha": n.attr("cubic_coeff_a", -0.75),
        "cubic_exclude": bool(n.attr("exclude_outside", 0)),
        "extrapolation_value": n.attr("extrapolation_value", 0.0),
    }
    if antialias and attrs["method"] != "nearest_neighbor":  # an element has no neighbours
        attrs["antialias"] = True
    axes = tuple(axis_of(a, x.ndim) for a in n.attr("axes", tuple(range(x.ndim))))
    if len(set(axes)) < len(axes):
        n.refuse(f"the axes {list(axes)} have one twice")
    roi = n.optional(1)
    if mode == "tf_crop_and_resize" and roi is not None and roi.shape != (0,):
        if not roi.is_known:
            return _cropped(n, roi, axes, attrs)
        attrs["roi"] = _spread_roi(n, roi, axes)
    scales, sizes = n.optional(2), n.optional(3)
    policy = n.attr("keep_aspect_ratio_policy", "stretch")
    if scales is not None and scales.shape != (0,):
        ratios = _factors(n, scales, len(axes))
        factors: list[Any] = [1.0] * x.ndim
        for a, f in zip(axes, ratios, strict=True):
            factors[a] = f
        return _resized(n, tuple(factors), None, **attrs)
    if sizes is None:
        n.refuse("neither scales nor sizes are given")
    sizes_of_axes = list(n.dims(sizes, "the sizes"))
    size: list[Dim] = list(x.shape)
    if policy != "stretch":
        return _keeping_ratio(n, axes, sizes_of_axes, policy, attrs)
    for a, d in zip(axes, sizes_of_axes, strict=True):
        size[a] = d
    return _resized(n, None, tuple(size), **attrs)


def _cropped(n: NodeContext, roi: Operand, axes: tuple[int, ...], attrs: dict[str, Any]) -> Any:
    """Return the region of x, resized to the sizes. Its starts and ends are computed at run time, relative to the
    extents.
    """
    x, sizes = n[0], n.optional(3)
    if sizes is None or sizes.shape == (0,) or n.attr("keep_aspect_ratio_policy", "stretch") != "stretch":
        n.refuse("a region that is data is supported only with sizes, and without keep_aspect_ratio_policy")
    nearest = attrs["method"] == "nearest_neighbor"
    exact = nearest or x.dtype.is_float
    result = x if exact else n.cast(x, "float32")
    fill = Operand.known(np.array(attrs["extrapolation_value"], result.dtype.numpy))
    for k, (axis, size) in enumerate(zip(axes, n.dims(sizes, "the sizes"), strict=True)):
        extent, dtype = x.shape[axis], "float32" if nearest else "float64"
        start, end = (n.cast(n.part(roi, 0, at, at + 1), dtype) for at in (k, len(axes) + k))
        ratio = _ratio(n, extent, size, None, dtype)
        if nearest:
            rounding = attrs["rounding_method"]
            places = open_resizing.nearest_places(n, extent, size, ratio.value, "", rounding, region=(start, end))
            result = n.op("take", result, places, axis=axis)
        else:
            result = open_resizing.interpolated(
                n, result, axis, size, ratio, attrs, antialias=False, region=(start, end)
            )
        outside = open_resizing.outside_of(n, open_resizing.positions_in(n, extent, size, (start, end)), extent)
        along = tuple(size if a == axis else 1 for a in range(x.ndim))
        result = n.op("where", n.reshape(outside, along), fill, result)
    return result if exact else _toward_zero(n, result, str(x.dtype))


def _toward_zero(n: NodeContext, sums: Operand, dtype: str) -> Any:
    """Truncate sums of weighted integers. A sum that rounding left just below an integer becomes that integer."""
    short = n.op("multiply", n.op("sign", sums), np.array(SHORT_OF_ONE, sums.dtype.numpy))
    return n.cast(n.op("trunc", n.op("add", sums, short)), dtype)


def _spread_roi(n: NodeContext, roi: Operand, axes: tuple[int, ...]) -> tuple[float, ...]:
    bounds = [float(v) for v in n.static(roi, "the region").tolist()]
    rank = n[0].ndim
    starts, ends = [0.0] * rank, [1.0] * rank
    for k, a in enumerate(axes):
        starts[a], ends[a] = bounds[k], bounds[len(axes) + k]
    return (*starts, *ends)


def _keeping_ratio(n: NodeContext, axes: tuple[int, ...], sizes: list[Dim], policy: str, attrs: dict[str, Any]) -> Any:
    """Resize with one scale for all axes: the smallest (not_larger) or the largest (not_smaller) of the requested
    scales.

    The scale is a float32, and so is each size before it is rounded, as in ONNX Runtime.
    """
    if policy not in ("not_larger", "not_smaller"):
        n.refuse_attribute("keep_aspect_ratio_policy")
    smallest = policy == "not_larger"
    x = n[0]
    pairs = tuple((x.shape[a], w) for a, w in zip(axes, sizes, strict=True))
    asked = [open_resizing.quotient(n, w, e) for e, w in pairs]
    scale = functools.reduce(lambda a, b: n.op("minimum" if smallest else "maximum", a, b), asked)
    size: list[Dim] = list(x.shape)
    scales: list[Any] = [1.0] * x.ndim
    for a in axes:
        count = n.op("floor", n.op("add", n.op("multiply", scale, open_resizing.float_of(n, x.shape[a])), 0.5))
        (size[a],) = n.dims(n.cast(count, "int64"), "a size")
        scales[a] = (
            open_resizing.Ratio(scale, pairs, smallest) if _is_open(scale) else float(n.scalar(scale, "the scale"))
        )
    return _resized(n, tuple(scales), tuple(size), **attrs)


def _is_open(number: Operand) -> bool:
    return not number.is_known or number.is_symbolic


def _resized(n: NodeContext, scales: tuple[Any, ...] | None, size: tuple[Dim, ...] | None, **attrs: Any) -> Any:
    """Return x in a size, which follows from the scales if it is None.

    Each scale is a float, a `Quotient`, data, or a `Ratio`.
    """
    x = n[0]
    if size is None:
        assert scales is not None
        size = tuple(_scaled(n, d, s) for d, s in zip(x.shape, scales, strict=True))
        scales = tuple(
            open_resizing.Ratio(s, ((d, w),)) if isinstance(s, Operand) else s
            for d, s, w in zip(x.shape, scales, size, strict=True)
        )
        if any(isinstance(s, Quotient) for s in scales):  # the quotient of the extents: None
            mixed = any(isinstance(s, open_resizing.Ratio) for s in scales)
            scales = tuple(None if isinstance(s, Quotient) else s for s in scales) if mixed else None
    antialias = attrs.pop("antialias", False)
    if antialias or any(isinstance(s, open_resizing.Ratio) for s in scales or ()):
        return _axis_by_axis(n, scales, size, attrs, antialias=antialias)
    if attrs["method"] == "nearest_neighbor" and attrs["coordinate_transformation_mode"] != "tf_crop_and_resize":
        x, scales, size = _taken(n, x, scales, size, attrs)
    if attrs["rounding_method"] == "simple":
        attrs["rounding_method"] = "floor"
    return n.op("image.resize", x, size=size, scales=scales, **attrs)


def _taken(
    n: NodeContext, x: Operand, scales: tuple[Any, ...] | None, size: tuple[Dim, ...], attrs: dict[str, Any]
) -> tuple[Operand, tuple[Any, ...] | None, tuple[Dim, ...]]:
    """Return x resized along the axes whose scale is not a whole number, and the scales and the size that remain to be
    done.

    Along these axes, a position may be exactly between two elements, and its rounding decides which one is nearest. So
    positions are computed as in ONNX Runtime, in float32 and in its order, and the elements are taken.
    """
    left = list(size)
    for axis, wanted in enumerate(size):
        extent = x.shape[axis]
        if isinstance(extent, int) and not extent:
            if same(wanted, 0):
                continue
            n.refuse(f"axis {axis} of {x} has no elements, wanted {wanted}")
        factor = None if scales is None else float(scales[axis])
        if factor is None and isinstance(extent, int) and isinstance(wanted, int):
            factor = wanted / extent
        if factor is None and isinstance(ratio := simple(wanted // extent), int) and same(wanted, extent * ratio):
            factor = float(ratio)
        if factor is not None and factor >= 1 and factor == int(factor) and same(wanted, extent * int(factor)):
            continue
        x = _nearest_along(n, x, axis, wanted, None if scales is None else scales[axis], attrs)
        left[axis] = wanted
        scales = scales and (*scales[:axis], 1.0, *scales[axis + 1 :])
    return x, scales, tuple(left)


def _nearest_along(n: NodeContext, x: Operand, axis: int, size: Dim, scale: Any, attrs: dict[str, Any]) -> Operand:
    """Return the elements of an axis that are nearest to the positions of the results."""
    extent = x.shape[axis]
    step = _ratio(n, extent, size, scale, "float32").value
    places = open_resizing.nearest_places(
        n, extent, size, step, attrs["coordinate_transformation_mode"], attrs["rounding_method"]
    )
    taken: Operand = n.op("take", x, places, axis=axis)
    return taken


def _ratio(n: NodeContext, extent: Dim, size: Dim, scale: Any, dtype: str) -> open_resizing.Ratio:
    """Return a scale with its value as data. None means the size divided by the extent."""
    if isinstance(scale, open_resizing.Ratio):
        return scale
    value = open_resizing.quotient(n, size, extent, dtype) if scale is None else Operand.known(np.full(1, scale, dtype))
    return open_resizing.Ratio(value, ((extent, size),))


def _scaled(n: NodeContext, dim: Dim, scale: Any) -> Dim:
    if isinstance(scale, Operand):
        return n.dims(
            n.cast(n.op("floor", n.op("multiply", open_resizing.float_of(n, dim), scale)), "int64"), "a size"
        )[0]
    if not isinstance(scale, Quotient) and not 0 < scale < math.inf:
        raise ModelError(f"{n.where}: a scale is {scale}: wanted a positive number")
    if isinstance(dim, int) and not isinstance(scale, Quotient):
        return math.floor(np.float32(dim) * np.float32(scale))
    size = scaled(dim, scale)
    if size is not None:
        return size
    if isinstance(scale, Quotient):
        n.refuse(f"the symbolic dimension {dim} is scaled by {scale}")
    # No fraction of integers gives the rounded product for every extent, so it is computed at run time.
    extent = n.cast(Operand.known(np.array([dim, None], object)[:1], "int64"), "float32")
    count = n.op("floor", n.op("multiply", extent, np.full(1, scale, np.float32)))
    return n.bound(count, simple(dim * math.ceil(scale * 1000) // 1000 + 1), "resized")


def _axis_by_axis(
    n: NodeContext, scales: tuple[Any, ...] | None, size: tuple[Dim, ...], attrs: dict[str, Any], *, antialias: bool
) -> Any:
    """Resize each axis separately, with indices and weights that are computed from its extents while importing or at
    run time.
    """
    x, mode, nearest = n[0], attrs["coordinate_transformation_mode"], attrs["method"] == "nearest_neighbor"
    if mode == "tf_crop_and_resize":
        n.refuse("antialias=1, or a scale that open sizes decide, with tf_crop_and_resize is not supported")
    if antialias and not x.dtype.is_float:
        n.refuse(f"antialias=1 of {x.dtype} is not supported: wanted floats")
    exact = nearest or x.dtype.is_float
    result = x if exact else n.cast(x, "float32")
    for axis, wanted in enumerate(size):
        scale = None if scales is None else scales[axis]
        if same(x.shape[axis], wanted) and (scale is None or (isinstance(scale, float) and scale == 1.0)):
            continue
        if nearest:
            result = _nearest_along(n, result, axis, wanted, scale, attrs)
        else:
            ratio = _ratio(n, x.shape[axis], wanted, scale, "float64")
            result = open_resizing.interpolated(n, result, axis, wanted, ratio, attrs, antialias=antialias)
    result = result if exact else _toward_zero(n, result, str(x.dtype))
    return n.op("copy", x) if result is x else result
