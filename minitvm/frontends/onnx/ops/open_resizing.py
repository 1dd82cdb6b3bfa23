"""Resize along one axis with symbolic extents or scale: operators compute the indices and the weights at run time.

If everything is known, `topi.resize_tables` computes the same as arrays. Nearest elements are found in float32, in ONNX
Runtime's order, because they depend on rounding. Filters are computed in float64.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....graph.nodes import Dim
from ....topi.shapes import larger, simple, smaller
from ...common.operand import Operand
from ..context import NodeContext

# ONNX Runtime treats a position that is at most this far from the middle between two elements as exactly in the middle.
_TIE = 1e-6
_REACH = {"linear": 1, "cubic": 2}


@dataclass(frozen=True)
class Ratio:
    """The ratio size / extent of one or more axes: the least or the greatest quotient over `pairs` (extent, size)."""

    value: Operand  # float32 or float64 [1]
    pairs: tuple[tuple[Dim, Dim], ...]
    least: bool = True

    def reach(self, elements: int) -> Dim:
        """Return an upper bound of `elements` divided by the ratio, and by 1: the reach of a filter as wide as a result
        element.
        """
        factor = self.value
        if factor.is_known and not factor.is_symbolic and factor.data is not None and factor.data.item() > 0:
            return max(math.ceil(elements / factor.data.item()), elements)
        each = [simple((e * elements + w - 1) // larger(w, 1)) for e, w in self.pairs]
        return larger(functools.reduce(larger if self.least else smaller, each), elements)


def float_of(n: NodeContext, dim: Dim, dtype: str = "float32") -> Operand:
    """Return a dimension as a float [1]."""
    return n.cast(n.number(dim), dtype)


def quotient(n: NodeContext, size: Dim, extent: Dim, dtype: str = "float32") -> Operand:
    """Return the size divided by the extent, as a float [1]."""
    result: Operand = n.op("divide", float_of(n, size, dtype), float_of(n, extent, dtype))
    return result


Region = tuple[Operand, Operand]  # [1] each: where the part of an axis begins and ends, of which a result is made


def _positions(
    n: NodeContext, extent: Dim, size: Dim, step: Operand, mode: str, region: Region | None = None
) -> Operand:
    """Return the position in the input for each output [size], in the dtype of the scale `step` [1]."""
    if region is not None:
        return positions_in(n, extent, size, region)
    dtype = str(step.dtype)

    def number(dim: Dim) -> Operand:
        return float_of(n, dim, dtype)

    index = n.cast(n.numbers(size, 0, 1), dtype)
    if mode == "align_corners":
        last = n.op("maximum", n.op("subtract", number(size), 1.0), 1.0)  # of one result, the place is 0
        whole: Operand = n.op("divide", n.op("multiply", index, n.op("subtract", number(extent), 1.0)), last)
        return whole
    if mode == "asymmetric":
        scaled: Operand = n.op("divide", index, step)
        return scaled
    centre: Operand = n.op("divide", n.op("add", index, 0.5), step)
    if mode == "tf_half_pixel_for_nn":
        return centre
    at: Operand = n.op("subtract", centre, 0.5)
    if mode == "pytorch_half_pixel":
        at = n.op("where", n.op("less_equal", number(size), 1.0), np.zeros(1, step.dtype.numpy), at)
    if mode == "half_pixel_symmetric":
        covered = n.op("divide", number(size), n.op("multiply", number(extent), step))
        middle = n.op("multiply", number(extent), 0.5)
        one = Operand.known(np.ones(1, step.dtype.numpy))
        at = n.op("add", n.op("multiply", middle, n.op("subtract", one, covered)), at)
    return at


def positions_in(n: NodeContext, extent: Dim, size: Dim, region: Region) -> Operand:
    """Return the position in the input for each output [size], spaced evenly from the start of a region to its end.

    A single output is in the middle.
    """
    start, end = region
    last = n.op("subtract", float_of(n, extent, str(start.dtype)), 1.0)
    gaps = n.op("subtract", float_of(n, size, str(start.dtype)), 1.0)
    step = n.op("divide", n.op("multiply", n.op("subtract", end, start), last), n.op("maximum", gaps, 1.0))
    index = n.cast(n.numbers(size, 0, 1), str(start.dtype))
    places = n.op("add", n.op("multiply", start, last), n.op("multiply", index, step))
    middle = n.op("multiply", n.op("multiply", n.op("add", start, end), 0.5), last)
    result: Operand = n.op("where", n.op("greater", gaps, 0.0), places, middle)
    return result


def outside_of(n: NodeContext, at: Operand, extent: Dim) -> Operand:
    """Return whether each position is outside of an axis."""
    last = n.op("subtract", float_of(n, extent, str(at.dtype)), 1.0)
    result: Operand = n.op("logical_or", n.op("less", at, 0.0), n.op("greater", at, last))
    return result


def nearest_places(
    n: NodeContext, extent: Dim, size: Dim, step: Operand, mode: str, rounding: str, region: Region | None = None
) -> Operand:
    """Return the indices [size] of the elements, on an axis of `extent` elements, that are nearest to the outputs'
    positions.
    """
    at = _positions(n, extent, size, step, mode, region)
    low = n.op("floor", at)
    match rounding:
        case "simple" if step.is_known and not step.is_symbolic and n.scalar(step, "the scale") < 1:
            near = n.op("ceil", at)  # of what Resize of opset 10 leaves open, the last
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
    last = n.op("subtract", float_of(n, extent), 1.0)
    return n.cast(n.op("maximum", n.op("minimum", near, last), 0.0), "int32")


def interpolated(
    n: NodeContext,
    x: Operand,
    axis: int,
    size: Dim,
    ratio: Ratio,
    attrs: dict[str, Any],
    *,
    antialias: bool,
    region: Region | None = None,
) -> Operand:
    """Return x with `size` elements along an axis, each a sum of the elements around its position, weighted by a
    filter.

    With `antialias`, the filter is as wide as an element of the result, if that is wider than an element of x.
    """
    extent, reach = x.shape[axis], _REACH[attrs["method"]]
    step = n.cast(ratio.value, "float64")
    at = _positions(n, extent, size, step, attrs["coordinate_transformation_mode"], region)
    widest = ratio.reach(reach)
    wide = antialias and not (isinstance(widest, int) and widest == reach)
    if wide:
        narrow = n.op("minimum", step, 1.0)
        first, taps = n.op("floor", n.op("subtract", at, n.op("divide", float(reach), narrow))), simple(2 * widest + 2)
    else:
        narrow = Operand.known(np.ones(1))
        first, taps = n.op("subtract", n.op("floor", at), float(reach - 1)), 2 * reach
    places = n.op("add", n.op("expand_dims", first, axis=(0,)), n.cast(n.numbers(taps, 0, 2), "float64"))
    distance = n.op("multiply", n.op("abs", n.op("subtract", places, n.op("expand_dims", at, axis=(0,)))), narrow)
    weights = _filter(n, distance, attrs)
    last = n.op("subtract", float_of(n, extent, "float64"), 1.0)
    if attrs["cubic_exclude"]:
        inside = n.op("logical_and", n.op("greater_equal", places, 0.0), n.op("less_equal", places, last))
        weights = n.op("where", inside, weights, np.zeros((1, 1)))
    if attrs["cubic_exclude"] or wide:
        weights = n.op("divide", weights, n.op("sum", weights, axis=(0,), keepdims=True))
    table = n.cast(n.op("maximum", n.op("minimum", places, last), 0.0), "int32")
    result: Operand = n.op("image.interpolate", x, table, n.cast(weights, str(x.dtype)), axis=axis)
    return result


def _filter(n: NodeContext, distance: Operand, attrs: dict[str, Any]) -> Operand:
    """Return the filter's weights at distances from 0 on: a triangle, or Keys' cubic kernel (1981)."""
    if attrs["method"] == "linear":
        triangle: Operand = n.op("maximum", n.op("subtract", np.ones((1, 1)), distance), 0.0)
        return triangle
    alpha = attrs["cubic_alpha"]

    def polynomial(*coefficients: float) -> Operand:
        total = n.op("multiply", distance, coefficients[0])
        for c in coefficients[1:-1]:
            total = n.op("multiply", n.op("add", total, c), distance)
        result: Operand = n.op("add", total, coefficients[-1])
        return result

    near = polynomial(alpha + 2, -(alpha + 3), 0.0, 1.0)
    far = polynomial(alpha, -5 * alpha, 8 * alpha, -4 * alpha)
    outer = n.op("where", n.op("less", distance, 2.0), far, np.zeros((1, 1)))
    weights: Operand = n.op("where", n.op("less_equal", distance, 1.0), near, outer)
    return weights
