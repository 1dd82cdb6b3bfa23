"""Replace a resize by one interpolation for each axis; if the sizes are known, its indices and weights are constants.

The tables are those of `topi.resize_tables`. Axes that shrink come first, and axes that grow come last. Among several
axes that grow, the last one comes first: its inputs are not contiguous in memory, and at this point it has fewer
elements.
"""

from __future__ import annotations

from ...topi.resize_tables import nearest_places, positions, tables
from ...topi.shapes import same
from ..nodes import Graph, OpNode, Value
from ..pattern import Match, op, value
from ..rewrite import Rewriter, RewriteRule, rewrite


def split_resize(graph: Graph) -> Graph:
    """Replace resizes of known sizes with an interpolation or a `take` along each axis.

    before:
        x = b.input("x", (1, 2, 4, 4))
        return b.op("image.resize2d", x, size=(8, 8), method="linear")
    after:
        def main(x: float32[1, 2, 4, 4]):
            weights = constant(float32[2, 8])
            places = constant(int32[2, 8])
            weights_1 = constant(float32[2, 8])
            places_1 = constant(int32[2, 8])
            interpolate: float32[1, 2, 4, 8] = image.interpolate(x, places, weights, axis=3)
            resize2d: float32[1, 2, 8, 8] = image.interpolate(interpolate, places_1, weights_1, axis=2)
            return resize2d
    """
    return rewrite(graph, RULES)


def _is_open(item: OpNode) -> bool:
    """Return whether a resize with symbolic extents computes weighted sums along several axes, so that one resize per
    axis is worthwhile.
    """
    if item.attrs["coordinate_transformation_mode"] == "tf_crop_and_resize":
        return False
    sums = item.attrs["method"] != "nearest_neighbor" and item.output.dtype.is_float
    return sums and not (item.inputs[0].is_static and item.output.is_static) and len(_open_axes(item)) > 1


def _open_axes(item: OpNode) -> list[int]:
    """Return the axes that a resize with symbolic extents may not simply copy: those whose size may change, or whose
    scale is not 1.
    """
    pairs, scales = zip(item.output.shape, item.inputs[0].shape, strict=True), item.attrs.get("scales")
    return [
        axis
        for axis, (size, extent) in enumerate(pairs)
        if not same(size, extent) or (scales is not None and scales[axis] != 1.0)
    ]


def _one_axis_a_time(b: Rewriter, match: Match) -> Value:
    """Add one resize per axis, last axis first, as if all of them grew. Indices and weights are computed at run
    time.
    """
    item, data = match.root, match["data"]
    scales = item.attrs.get("scales")
    for axis in reversed(_open_axes(item)):
        attrs = dict(item.attrs)
        attrs["size"] = tuple(
            size if a == axis else d for a, (size, d) in enumerate(zip(attrs["size"], data.shape, strict=True))
        )
        if scales is not None:
            attrs["scales"] = tuple(s if a == axis else 1.0 for a, s in enumerate(scales))
        data = b.op("image.resize", data, **attrs)
    return data


def _splits(item: OpNode) -> bool:
    """Return whether tables can be computed for a resize and are worthwhile; an index that is just halved needs no
    table.
    """
    if not item.inputs[0].is_static or not item.output.is_static:
        return False
    if 0 in item.inputs[0].shape or 0 in item.output.shape:
        return False
    if item.attrs["coordinate_transformation_mode"] == "tf_crop_and_resize":
        return False  # values outside the input are not sums of inputs
    if item.attrs["method"] == "nearest_neighbor":
        return any(size % extent for size, extent in _extents(item))
    return item.output.dtype.is_float


def _extents(item: OpNode) -> list[tuple[int, int]]:
    """Return the pair (output size, input extent) of each axis."""
    return list(zip(item.output.shape, item.inputs[0].shape, strict=True))  # type: ignore[arg-type]


def _along_the_axes(b: Rewriter, match: Match) -> Value:
    item, data = match.root, match["data"]
    attrs, extents = item.attrs, _extents(item)
    fixed = attrs.get("scales")
    scales = [size / extent for size, extent in extents] if fixed is None else [float(s) for s in fixed]
    changed = [a for a, (size, extent) in enumerate(extents) if size != extent or scales[a] != 1.0]
    shrinking = [a for a in changed if extents[a][0] <= extents[a][1]]
    shrinking.sort(key=lambda a: extents[a][0] / extents[a][1])
    growing = [a for a in reversed(changed) if a not in shrinking]
    for axis in (*shrinking, *growing):
        size, extent = extents[axis]
        at = positions(attrs["coordinate_transformation_mode"], extent, size, scales[axis])
        if attrs["method"] == "nearest_neighbor":
            nearest = b.constant(nearest_places(at, extent, attrs["rounding_method"]), "places")
            data = b.op("take", data, nearest, axis=axis)
        else:
            places, weights = tables(at, extent, attrs["method"], attrs["cubic_alpha"], attrs["cubic_exclude"])
            shares = b.constant(weights.astype(item.output.dtype.numpy), "weights")
            data = b.op("image.interpolate", data, b.constant(places, "places"), shares, axis=axis)
    return data if changed else b.op("copy", data)


RULES = [
    RewriteRule(op(("image.resize", "image.resize2d"), value("data"), ..., when=_splits), _along_the_axes),
    RewriteRule(op("image.resize", value("data"), ..., when=_is_open), _one_axis_a_time),
]
