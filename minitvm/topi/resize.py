"""Resizing by interpolation, one axis after the other, with ONNX's coordinate transformations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import te
from ..errors import InputError
from ..expr import Expr, as_expr, call, const
from ..te import Tensor
from .elementwise import elementwise
from .indices import check_index, clamped
from .registry import Pattern, register
from .shapes import Dim, agree, axis_of, dims, require_some, same, simple

_MODES = (
    "half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize", "half_pixel_symmetric",
    "tf_half_pixel_for_nn",
)  # fmt: skip
_ROUNDING: dict[str, Callable[[Expr], Expr]] = {
    "round_prefer_floor": lambda v: call("ceil", v - 0.5),
    "round_prefer_ceil": lambda v: call("floor", v + 0.5),
    "floor": te.floor,
    "ceil": te.ceil,
}


@register("image.resize")
def resize(
    data: Tensor,
    *,
    size: Sequence[Dim],
    scales: Sequence[float] | None = None,
    roi: Sequence[float] | None = None,
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "round_prefer_floor",
    cubic_alpha: float = -0.75,
    cubic_exclude: bool = False,
    extrapolation_value: float = 0.0,
) -> Tensor:
    """Return `data` resized to the shape `size` (one extent per axis).

    `method` is nearest_neighbor, linear or cubic. `scales` holds output extent / input extent for each axis; by default
    it is the quotient of the extents, which may be symbolic. `roi` (starts, then ends, relative to the extents) and
    `extrapolation_value` are for tf_crop_and_resize. Coordinates are computed in float64. For integer data, weighted
    sums are rounded toward zero, and interpolating between equal elements returns exactly their value.
    """
    if method not in ("nearest_neighbor", "linear", "cubic"):
        raise InputError(f"image.resize: method is nearest_neighbor, linear or cubic, found {method!r}")
    mode = coordinate_transformation_mode
    if mode not in _MODES or rounding_method not in _ROUNDING:
        raise InputError(f"image.resize: unknown {mode!r} or {rounding_method!r}; modes: {', '.join(_MODES)}")
    if len(size) != data.ndim or (scales is not None and len(scales) != data.ndim):
        raise InputError(f"image.resize: wanted {data.ndim} extents, found {tuple(size)}, scales {scales}")
    for axis, extent in enumerate(dims(data)):
        require_some(extent, f"entries along axis {axis} to resize", size)
    exact = method == "nearest_neighbor" or data.dtype.is_float
    result = data if exact else elementwise(data, lambda v: v.astype("float32"), "cast")
    for axis in range(data.ndim):
        extent = dims(data)[axis]
        scale = _scale(extent, size[axis], None if scales is None else scales[axis])
        if same(extent, size[axis]) and scale == 1.0 and mode != "tf_crop_and_resize":
            continue
        region = (0.0, 1.0) if roi is None else (roi[axis], roi[data.ndim + axis])
        if region == (0.0, 1.0) and mode == "tf_crop_and_resize" and same(extent, size[axis]):
            continue
        source = coordinates(mode, extent, size[axis], scale, region)
        outside = extrapolation_value if mode == "tf_crop_and_resize" else None
        if method == "nearest_neighbor":
            result = _nearest(result, axis, size[axis], scale, mode, rounding_method, source, outside)
        elif method == "linear":
            result = _linear(result, axis, size[axis], source, outside)
        else:
            result = _cubic(result, axis, size[axis], source, cubic_alpha, cubic_exclude, outside)
    return result if exact else elementwise(result, lambda v: _toward_zero(v).astype(data.dtype), "cast")


SHORT_OF_ONE = 2.0**-10  # how far below an integer rounding may leave a sum of weights times integers


def _toward_zero(value: Expr) -> Expr:
    """Round a weighted sum of integers toward zero.

    If rounding errors put a sum just below an integer, it becomes that integer.
    """
    short = const(SHORT_OF_ONE, value.dtype)
    return te.trunc(te.select(value < 0, value - short, value + short))


def _scale(extent: Dim, size: Dim, fixed: float | None) -> float | None:
    """Return output extent / input extent, or None if it is known only at run time."""
    if fixed is not None:
        return float(fixed)
    if isinstance(extent, int) and isinstance(size, int):
        return size / extent if extent else 1.0
    ratio = simple(size // extent)
    return float(ratio) if isinstance(ratio, int) and same(size, extent * ratio) else None


def _f64(value: Dim) -> Any:
    return float(value) if isinstance(value, int) else as_expr(value).astype("float64")


def coordinates(
    mode: str, extent: Dim, size: Dim, scale: float | None, roi: tuple[float, float]
) -> Callable[[Any], Any]:
    """Return a function that maps an output index to a position in the input, as float64.

    The index may be a NumPy array if the sizes are known. If `scale` is None, it is the quotient of symbolic extents.
    """

    def unscaled(place: Any) -> Any:
        # There is only one division of integers, so that integer positions are exact.
        return place / scale if scale is not None else place * _f64(extent) / _f64(size)

    if mode == "asymmetric":
        return lambda i: unscaled(i.astype("float64"))
    if mode == "align_corners":
        if isinstance(size, int) and size == 1:
            return lambda i: i.astype("float64") * 0.0
        length: Any = _f64(size) if isinstance(size, int) else _f64(te.maximum(size, 2))
        if isinstance(extent, int) and isinstance(size, int) and scale and abs(extent * scale - size) > 1e-6:
            length = extent * scale  # the size by the scale, which is not a whole number
        return lambda i: i.astype("float64") * (_f64(extent) - 1.0) / (length - 1.0)
    if mode == "tf_crop_and_resize":
        start, end = roi
        if isinstance(size, int) and size == 1:
            return lambda i: i.astype("float64") * 0.0 + (_f64(extent) - 1.0) * (0.5 * (start + end))
        if isinstance(size, int):
            step = (end - start) * (_f64(extent) - 1.0) / (_f64(size) - 1.0)
            return lambda i: start * (_f64(extent) - 1.0) + i.astype("float64") * step
        middle = (_f64(extent) - 1.0) * (0.5 * (start + end))
        step = (end - start) * (_f64(extent) - 1.0) / (_f64(te.maximum(size, 2)) - 1.0)
        return lambda i: te.select(size <= 1, middle, start * (_f64(extent) - 1.0) + i.astype("float64") * step)
    if mode == "pytorch_half_pixel":
        if isinstance(size, int):
            return lambda i: unscaled(i.astype("float64") + 0.5) - 0.5 if size != 1 else i.astype("float64") * 0.0
        return lambda i: te.select(size <= 1, const(0, "float64"), unscaled(i.astype("float64") + 0.5) - 0.5)
    if mode == "half_pixel_symmetric":
        # The whole output stays centred on the input, also where size is not extent * scale.
        adjustment = 1.0 if scale is None else _f64(size) / (scale * _f64(extent))
        offset = _f64(extent) * 0.5 * (1.0 - adjustment)
        return lambda i: offset + unscaled(i.astype("float64") + 0.5) - 0.5
    if mode == "tf_half_pixel_for_nn":
        return lambda i: unscaled(i.astype("float64") + 0.5)
    return lambda i: unscaled(i.astype("float64") + 0.5) - 0.5


def _stage(data: Tensor, axis: int, size: Dim, element: Callable[..., Any], name: str) -> Tensor:
    shape = [*dims(data)[:axis], size, *dims(data)[axis + 1 :]]

    def at(*i: Any) -> Any:
        def read(place: Any) -> Expr:
            return data[(*i[:axis], place, *i[axis + 1 :])]

        return element(i[axis], read)

    return te.compute(shape, at, name=name)


def _clamped(index: Expr, extent: Dim) -> Expr:
    return te.maximum(te.minimum(index, as_expr(extent) - 1), 0)


def _guarded(value: Expr, at: Expr, extent: Dim, outside: float | None) -> Expr:
    if outside is None:
        return value
    inside = te.all(at >= const(0, "float64"), at <= _f64(extent) - 1.0)
    return te.select(inside, value, const(outside, value.dtype))


def _nearest(
    data: Tensor, axis: int, size: Dim, scale: float | None, mode: str, rounding: str, source: Callable[[Expr], Expr],
    outside: float | None,
) -> Tensor:  # fmt: skip
    extent = dims(data)[axis]
    factor = int(scale) if scale is not None and scale == int(scale) and scale >= 1 else 0
    repeats = (mode == "asymmetric" and rounding == "floor") or (
        mode in ("half_pixel", "pytorch_half_pixel") and rounding.startswith("round")
    )
    if factor and repeats and same(size, extent * factor) and not (isinstance(size, int) and size == 1):
        return _stage(data, axis, size, lambda i, read: read(i // factor), "T_resize_nearest")

    def element(i: Expr, read: Any) -> Expr:
        at = source(i)
        value = read(_clamped(_ROUNDING[rounding](at).astype("int32"), extent))
        return _guarded(value, at, extent, outside)

    return _stage(data, axis, size, element, "T_resize_nearest")


def _linear(data: Tensor, axis: int, size: Dim, source: Callable[[Expr], Expr], outside: float | None) -> Tensor:
    """Interpolate between the two neighbours of a position. Indices and weights are computed once per output index."""
    extent = dims(data)[axis]
    places = te.compute((size,), lambda i: te.floor(source(i)).astype("int32"), name="T_linear_places")
    shares = te.compute(
        (size,), lambda i: (source(i) - te.floor(source(i))).astype(data.dtype), name="T_linear_weights"
    )

    def element(i: Expr, read: Any) -> Expr:
        weight, first = shares[i], places[i]
        value = read(_clamped(first, extent)) * (const(1, data.dtype) - weight)
        whole = value + read(_clamped(first + 1, extent)) * weight
        return whole if outside is None else _guarded(whole, source(i), extent, outside)

    return _stage(data, axis, size, element, "T_resize_linear")


def _cubic(
    data: Tensor, axis: int, size: Dim, source: Callable[[Expr], Expr], alpha: float, exclude: bool,
    outside: float | None,
) -> Tensor:  # fmt: skip
    """Interpolate with Keys' cubic convolution. `exclude` leaves out taps outside the input and scales up the others.

    The weights are a separate stage, so that they are computed once per output index and not once per element.
    """
    extent = dims(data)[axis]

    def place(i: Expr, k: Expr) -> Expr:
        return te.floor(source(i)).astype("int32") + (k - 1)

    def weight(i: Expr, k: Expr) -> Expr:
        share = cubic_weight(te.abs(source(i) - place(i, k).astype("float64")), alpha)
        if not exclude:
            return share
        return te.select(te.all(place(i, k) >= 0, place(i, k) < as_expr(extent)), share, const(0, "float64"))

    weights = te.compute((size, 4), weight, name="T_cubic_weights")
    if exclude:
        t = te.reduce_axis((0, 4), name="t")
        total = te.compute((size,), lambda i: te.sum(weights[i, t.var], axis=t), name="T_cubic_total")
        unscaled = weights
        weights = te.compute((size, 4), lambda i, k: unscaled[i, k] / total[i], name="T_cubic_shares")
    tap = te.reduce_axis((0, 4), name="tap")

    def element(i: Expr, read: Any) -> Any:
        value = read(_clamped(place(i, tap.var), extent)) * weights[i, tap.var].astype(data.dtype)
        return te.sum(value, axis=tap)

    resized = _stage(data, axis, size, element, "T_resize_cubic")
    if outside is None:
        return resized
    return _stage(
        resized, axis, size, lambda i, read: _guarded(read(i), source(i), extent, outside), "T_resize_guarded"
    )


def cubic_weight(d: Expr, a: float = -0.75) -> Expr:
    """Return Keys' cubic kernel at a distance `d` between 0 and 2, with the parameter `a`."""
    near = ((d * (a + 2.0)) - (a + 3.0)) * d * d + 1.0
    far = ((d - 5.0) * d + 8.0) * d * a - 4.0 * a
    return te.select(d <= const(1, d.dtype), near, far)


@register("image.interpolate", pattern=Pattern.COMPLEX_OUT_FUSABLE)
def interpolate(data: Tensor, places: Tensor, weights: Tensor, *, axis: int) -> Tensor:
    """Return weighted sums of elements along an axis: out[i] = sum over t of data[places[t, i]] * weights[t, i].

    `places` and `weights` are [taps, size of the result]. The sums have the dtype of the data. This is `resize` along
    one axis, with tables as inputs.
    """
    check_index("image.interpolate", places)
    if (
        places.ndim != 2
        or weights.ndim != 2
        or not all(agree(a, b) for a, b in zip(dims(places), dims(weights), strict=True))
    ):
        raise InputError(f"image.interpolate: wanted two tables [taps, size], found {places} and {weights}")
    at, count = axis_of(axis, data.ndim), dims(places)[0]
    shape = [*dims(data)[:at], dims(places)[1], *dims(data)[at + 1 :]]
    require_some(dims(data)[at], f"entries along axis {at} to interpolate between", shape)

    def element(i: Expr, read: Any) -> Any:
        def term(tap: Any) -> Any:
            return read(clamped(places[tap, i], dims(data)[at])) * weights[tap, i].astype(data.dtype)

        if isinstance(count, int):
            taps = [term(t) for t in range(count)]
            return sum(taps[1:], taps[0])
        tap = te.reduce_axis((0, count), name="tap")
        return te.sum(term(tap.var), axis=tap)

    return _stage(data, at, dims(places)[1], element, "T_interpolate")


@register("image.resize2d")
def resize2d(
    data: Tensor, *, size: Sequence[Dim], method: str = "linear", coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "round_prefer_floor", cubic_alpha: float = -0.75, cubic_exclude: bool = False,
) -> Tensor:  # fmt: skip
    """Resize the last two axes of NCHW data to `size` = (height, width)."""
    if data.ndim != 4 or len(size) != 2:
        raise InputError(f"image.resize2d: wanted four dimensions and (height, width), found {data} and {size}")
    return resize(
        data, size=(*dims(data)[:2], *size), method=method, rounding_method=rounding_method, cubic_alpha=cubic_alpha,
        coordinate_transformation_mode=coordinate_transformation_mode, cubic_exclude=cubic_exclude,
    )  # fmt: skip
