"""Resize and Upsample."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....graph.nodes import Dim
from ....topi.resize_tables import positions, tables
from ....topi.shapes import same, simple
from ...operand import Operand
from ...symbolic import Quotient, scaled
from ..context import NodeContext
from ..registry import converter

_COORDINATES = (
    "half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize", "half_pixel_symmetric",
)  # fmt: skip
# ONNX Runtime takes a position that is at most so far from the middle between two elements for one in the middle.
_TIE = 1e-6
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
    return _resized(n, _factors(n, scales), None, **_asymmetric(n))


def _factors(n: NodeContext, scales: Operand) -> tuple[Any, ...]:
    """The scales: floats, or quotients of dimensions."""
    return tuple(v if isinstance(v, Quotient) else float(v) for v in n.array(scales, "the scales").tolist())


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
    axes = tuple(a % x.ndim for a in n.attr("axes", tuple(range(x.ndim))))
    roi = n.optional(1)
    if mode == "tf_crop_and_resize" and roi is not None and roi.shape != (0,):
        attrs["roi"] = _spread_roi(n, roi, axes)
    scales, sizes = n.optional(2), n.optional(3)
    policy = n.attr("keep_aspect_ratio_policy", "stretch")
    if scales is not None and scales.shape != (0,):
        ratios = _factors(n, scales)
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


def _spread_roi(n: NodeContext, roi: Operand, axes: tuple[int, ...]) -> tuple[float, ...]:
    bounds = [float(v) for v in n.static(roi, "the region").tolist()]
    rank = n[0].ndim
    starts, ends = [0.0] * rank, [1.0] * rank
    for k, a in enumerate(axes):
        starts[a], ends[a] = bounds[k], bounds[len(axes) + k]
    return (*starts, *ends)


def _keeping_ratio(n: NodeContext, axes: tuple[int, ...], sizes: list[Dim], policy: str, attrs: dict[str, Any]) -> Any:
    """One scale for all axes: the smallest (not_larger) or the largest (not_smaller) of those asked for."""
    x = n[0]
    extents = [x.shape[a] for a in axes]
    if not all(isinstance(d, int) for d in (*extents, *sizes)):
        n.refuse(f"keep_aspect_ratio_policy={policy} with symbolic dimensions")
    if policy not in ("not_larger", "not_smaller"):
        n.refuse_attribute("keep_aspect_ratio_policy")
    ratios: list[Any] = [w / e for w, e in zip(sizes, extents, strict=True)]
    scale = min(ratios) if policy == "not_larger" else max(ratios)
    size, factors = list(x.shape), [1.0] * x.ndim
    for a, e in zip(axes, extents, strict=True):
        size[a], factors[a] = math.floor(float(scale * e) + 0.5), float(scale)
    return _resized(n, tuple(factors), tuple(size), **attrs)


def _resized(n: NodeContext, scales: tuple[Any, ...] | None, size: tuple[Dim, ...] | None, **attrs: Any) -> Any:
    x = n[0]
    if size is None:
        assert scales is not None
        size = tuple(_scaled(n, d, s) for d, s in zip(x.shape, scales, strict=True))
        if any(isinstance(s, Quotient) for s in scales):
            scales = None  # the quotient of the extents
    if attrs.pop("antialias", False):
        return _antialiased(n, scales, size, attrs)
    if attrs["method"] == "nearest_neighbor" and attrs["coordinate_transformation_mode"] != "tf_crop_and_resize":
        x, scales, size = _taken(n, x, scales, size, attrs)
    if attrs["rounding_method"] == "simple":
        attrs["rounding_method"] = "floor"
    return n.op("image.resize", x, size=size, scales=scales, **attrs)


def _taken(
    n: NodeContext, x: Operand, scales: tuple[Any, ...] | None, size: tuple[Dim, ...], attrs: dict[str, Any]
) -> tuple[Operand, tuple[Any, ...] | None, tuple[Dim, ...]]:
    """x resized along the axes whose scale is no whole number, and the scales and the size that are left to do.

    There a position may lie just between two elements, where its rounding decides which is nearest. So positions are
    computed as ONNX Runtime does, in float32 and in its order, and the elements are taken.
    """
    left = list(size)
    for axis, wanted in enumerate(size):
        extent = x.shape[axis]
        factor = None if scales is None else float(scales[axis])
        if factor is None and isinstance(extent, int) and isinstance(wanted, int) and extent:
            factor = wanted / extent
        if factor is None and isinstance(ratio := simple(wanted // extent), int) and same(wanted, extent * ratio):
            factor = float(ratio)
        if factor is not None and factor >= 1 and factor == int(factor) and same(wanted, extent * int(factor)):
            continue
        places = _nearest_places(n, extent, wanted, None if scales is None else scales[axis], attrs)
        x = n.op("take", x, places, axis=axis)
        left[axis] = wanted
        scales = scales and (*scales[:axis], 1.0, *scales[axis + 1 :])
    return x, scales, tuple(left)


def _nearest_places(n: NodeContext, extent: Dim, size: Dim, scale: float | None, attrs: dict[str, Any]) -> Operand:
    """The places [size] in an axis of `extent` elements that are nearest to the positions of the results."""

    def number(dim: Dim) -> Operand:
        return n.cast(Operand.known(np.array([dim, None], object)[:1], "int64"), "float32")

    mode, rounding = attrs["coordinate_transformation_mode"], attrs["rounding_method"]
    step = np.full(1, scale, np.float32) if scale is not None else n.op("divide", number(size), number(extent))
    index = n.cast(n.numbers(size, 0, 1), "float32")
    at = n.op("divide", index if mode == "asymmetric" else n.op("add", index, 0.5), step)
    if mode == "align_corners":
        last = n.op("maximum", n.op("subtract", number(size), 1.0), 1.0)  # of one result, the place is 0
        at = n.op("divide", n.op("multiply", index, n.op("subtract", number(extent), 1.0)), last)
    elif mode != "asymmetric":
        at = n.op("subtract", at, 0.5)
    if mode == "pytorch_half_pixel":
        at = n.op("where", n.op("less_equal", number(size), 1.0), np.zeros(1, np.float32), at)
    if mode == "half_pixel_symmetric":
        covered = n.op("divide", number(size), n.op("multiply", number(extent), step))
        middle = n.op("multiply", number(extent), 0.5)
        at = n.op("add", n.op("multiply", middle, n.op("subtract", Operand.known(np.ones(1, np.float32)), covered)), at)
    low = n.op("floor", at)
    match rounding:
        case "simple" if scale is not None and scale < 1:  # of what Resize of opset 10 leaves open, the last
            near = n.op("ceil", at)
        case "floor" | "simple":
            near = low
        case "ceil":
            near = n.op("ceil", at)
        case "round_prefer_floor" | "round_prefer_ceil":
            share = n.op("subtract", at, low)
            floor = rounding.endswith("floor")
            up = n.op("greater", share, 0.5 + _TIE) if floor else n.op("greater_equal", share, 0.5 - _TIE)
            near = n.op("add", low, n.cast(up, "float32"))
        case _:
            n.refuse_attribute("nearest_mode")
    last = n.op("subtract", number(extent), 1.0)
    return n.cast(n.op("maximum", n.op("minimum", near, last), 0.0), "int32")


def _scaled(n: NodeContext, dim: Dim, scale: Any) -> Dim:
    if isinstance(dim, int) and not isinstance(scale, Quotient):
        return math.floor(np.float32(dim) * np.float32(scale))
    size = scaled(dim, scale)
    if size is not None:
        return size
    if isinstance(scale, Quotient):
        n.refuse(f"the symbolic dimension {dim} is scaled by {scale}")
    # No integers give what the rounded product is at every extent: a run computes it.
    extent = n.cast(Operand.known(np.array([dim, None], object)[:1], "int64"), "float32")
    count = n.op("floor", n.op("multiply", extent, np.full(1, scale, np.float32)))
    return n.bound(count, simple(dim * math.ceil(scale * 1000) // 1000 + 1), "resized")


def _antialiased(n: NodeContext, scales: tuple[Any, ...] | None, size: tuple[Dim, ...], attrs: dict[str, Any]) -> Any:
    """An interpolation along each axis, whose filter where it shrinks reaches as many elements as become one."""
    x, mode = n[0], attrs["coordinate_transformation_mode"]
    if mode == "tf_crop_and_resize":
        n.refuse("antialias=1 with coordinate_transformation_mode=tf_crop_and_resize is not supported")
    if not x.dtype.is_float:
        n.refuse(f"antialias=1 of {x.dtype} is not supported: wanted floats")
    for axis, wanted in enumerate(size):
        if same(x.shape[axis], wanted) and (scales is None or scales[axis] == 1.0):
            continue
        extent = n.size(x, axis)
        if not isinstance(wanted, int):
            n.refuse(f"antialias=1 with the open dimension {wanted} is not supported")
        scale = float(scales[axis]) if scales is not None else wanted / extent
        at = positions(mode, extent, wanted, scale)
        places, weights = tables(
            at, extent, attrs["method"], attrs["cubic_alpha"], attrs["cubic_exclude"], antialias=scale
        )
        x = n.op("image.interpolate", x, places, weights.astype(x.dtype.numpy), axis=axis)
    return n.op("copy", x) if x is n[0] else x
