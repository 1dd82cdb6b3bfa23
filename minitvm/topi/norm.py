"""Normalisations: batch, layer, instance, group, RMS, L2 and local response."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import te
from ..errors import InputError, TypeMismatch
from ..expr import Expr, as_expr, const
from ..te import Tensor
from .elementwise import elementwise
from .pad import constant_pad
from .reduce import l1, mean, moments, sum_square
from .reduce import sum as sum_over
from .registry import Pattern, register
from .shapes import agree, axes_of, axis_of, dims, product, require_divides, require_positive, simple
from .spelling import Onnx

_ZERO = const(0, "int32")
_LARGEST_WINDOW = 1 << 16  # the most elements of a window of `lrn` along an axis of unknown extent


@register("nn.batch_norm", pattern=Pattern.BROADCAST)
def batch_norm(
    data: Tensor, gamma: Tensor, beta: Tensor, moving_mean: Tensor, moving_var: Tensor, *, axis: int = 1,
    epsilon: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Return (data - mean) / sqrt(var + epsilon) * gamma + beta, where mean and var (`moving_mean`, `moving_var`) have
    one element per channel along `axis`.

    There is a single output; Relay's operator also returns the statistics.
    """
    at = axis_of(axis, data.ndim)
    _check_channels("nn.batch_norm", data, at, gamma, beta, moving_mean, moving_var)
    eps = const(epsilon, data.dtype)

    def element(*i: Any) -> Expr:
        c = i[at]
        return (data[i] - moving_mean[c]) / te.sqrt(moving_var[c] + eps) * gamma[c] + beta[c]

    return te.compute(data.shape, element, name="T_batch_norm")


@register("nn.layer_norm")
def layer_norm(
    data: Tensor, gamma: Tensor, beta: Tensor | None = None, *, axis: int | Sequence[int] = -1, epsilon: float = 1e-5
) -> Tensor:
    """Normalise over the axes in `axis`. gamma and beta have the shape of these axes."""
    axes = axes_of(axis, data.ndim)
    for weight in (gamma, beta):
        if weight is not None:
            _check_shape("nn.layer_norm", weight, [dims(data)[a] for a in axes])
    normal = _standardized(data, axes, epsilon)

    def element(*i: Any) -> Expr:
        inner = tuple(i[a] for a in axes)
        scaled = normal[i] * gamma[inner]
        return scaled if beta is None else scaled + beta[inner]

    return te.compute(data.shape, element, name="T_layer_norm")


@register(
    "nn.instance_norm", pattern=Pattern.COMPLEX_OUT_FUSABLE,
    onnx=Onnx("InstanceNormalization", {"epsilon": "epsilon"}, since=6),
)  # fmt: skip
def instance_norm(
    data: Tensor, gamma: Tensor, beta: Tensor, *, axis: int | Sequence[int] = 1, epsilon: float = 1e-5
) -> Tensor:
    """Normalise each channel of each sample over all other axes. gamma and beta have one element per channel.

    If channels are stored in blocks, several axes number them, for example (1, -1) for [n, c/x, h, w, x]; gamma and
    beta then have the shape of these axes.
    """
    at = axes_of(axis, data.ndim)
    for weight in (gamma, beta):
        _check_shape("nn.instance_norm", weight, [dims(data)[a] for a in at])
    return _by_channel(data, gamma, beta, at, None, epsilon, "T_instance_norm")


@register("nn.group_norm", pattern=Pattern.COMPLEX_OUT_FUSABLE)
def group_norm(
    data: Tensor,
    gamma: Tensor,
    beta: Tensor,
    *,
    num_groups: int,
    axis: int | Sequence[int] = 1,
    epsilon: float = 1e-5,
) -> Tensor:
    """Normalise groups of neighbouring channels in each sample. gamma and beta have one element per channel.

    If channels are stored in blocks, several axes number them, as in `instance_norm`.
    """
    at = axes_of(axis, data.ndim)
    for weight in (gamma, beta):
        _check_shape("nn.group_norm", weight, [dims(data)[a] for a in at])
    channels = product([dims(data)[a] for a in at])
    require_positive(num_groups, "nn.group_norm num_groups")
    require_divides(num_groups, channels, f"channels for {num_groups} groups")
    return _by_channel(data, gamma, beta, at, num_groups, epsilon, "T_group_norm")


def _by_channel(
    data: Tensor, gamma: Tensor, beta: Tensor, at: tuple[int, ...], groups: int | None, epsilon: float, name: str
) -> Tensor:
    """Return (data - mean) / sqrt(variance + epsilon) * gamma + beta. `at` are the axes that number a sample's
    channels.

    Mean and variance are computed for each channel, over all axes except these and the first, or for each group of
    channels. They are summed channel by channel, and then over the channels of a group. So the computation on tensors
    of the data's size is the same for every layout and for every number of groups. 16-bit floats are computed in
    float32.
    """
    if data.dtype.bits < 32:
        wide = [elementwise(x, lambda v: v.astype("float32"), "cast") for x in (data, gamma, beta)]
        normal = _by_channel(wide[0], wide[1], wide[2], at, groups, epsilon, name)
        return elementwise(normal, lambda v: v.astype(data.dtype), "cast")
    extents = dims(data)
    spatial = tuple(a for a in range(1, data.ndim) if a not in at)
    channels = [extents[a] for a in at]
    size = 1 if groups is None else simple(product(channels) // groups)
    count = as_expr(product([size, *(extents[a] for a in spatial)])).astype(data.dtype)
    eps = const(epsilon, data.dtype)

    def of_group(sums: Tensor, what: str) -> Callable[..., Expr]:
        """Return a function that gives the sum over the group that a sample's channel belongs to."""
        if groups is None:
            return lambda n, *c: sums[(n, *c)]
        member = te.reduce_axis((0, size), name="k")
        total = te.compute(
            (extents[0], groups),
            lambda n, g: te.sum(sums[(n, *_places(g * size + member.var, channels))], axis=member),
            name=f"T_group_{what}",
        )
        return lambda n, *c: total[n, _number(c, channels) // size]

    def table(element: Callable[..., Expr], what: str) -> Tensor:
        return te.compute((extents[0], *channels), element, name=f"T_{what}")

    total = of_group(sum_over(data, axis=spatial), "sum")
    average = table(lambda *c: total(*c) / count, "mean")

    def centred(*i: Any) -> Expr:
        return data[i] - average[(i[0], *(i[a] for a in at))]

    squares = te.compute(data.shape, lambda *i: centred(*i) * centred(*i), name="T_square_distance")
    spread = of_group(sum_over(squares, axis=spatial), "square")
    scale = table(lambda n, *c: gamma[c] / te.sqrt(spread(n, *c) / count + eps), "scale")

    def element(*i: Any) -> Expr:
        c = tuple(i[a] for a in at)
        return centred(*i) * scale[(i[0], *c)] + beta[c]

    return te.compute(data.shape, element, name=name)


def _number(places: Sequence[Any], extents: Sequence[Any]) -> Any:
    """Return the number of a channel, given its indices along the axes that number channels."""
    number = places[0]
    for place, extent in zip(places[1:], extents[1:], strict=True):
        number = number * extent + place
    return number


def _places(number: Any, extents: Sequence[Any]) -> list[Any]:
    """Return the indices of a channel, given its number: the inverse of `_number`."""
    places: list[Any] = []
    for extent in reversed(extents[1:]):
        places.append(number % extent)
        number = number // extent
    return [number, *reversed(places)]


@register("nn.rms_norm")
def rms_norm(data: Tensor, weight: Tensor, *, axis: int | Sequence[int] = -1, epsilon: float = 1e-5) -> Tensor:
    """Return data / sqrt(mean(data^2) + epsilon) * weight, with the mean over the axes in `axis`. weight has the shape
    of these axes.
    """
    axes = axes_of(axis, data.ndim)
    _check_shape("nn.rms_norm", weight, [dims(data)[a] for a in axes])
    square = mean(elementwise(data, lambda v: v * v, "square"), axis=axes, keepdims=True)
    eps = const(epsilon, data.dtype)

    def element(*i: Any) -> Expr:
        at = tuple(_ZERO if a in axes else p for a, p in enumerate(i))
        return data[i] / te.sqrt(square[at] + eps) * weight[tuple(i[a] for a in axes)]

    return te.compute(data.shape, element, name="T_rms_norm")


@register("nn.l2_normalize")
def l2_normalize(data: Tensor, *, axis: int | Sequence[int] = 1, eps: float = 1e-10, ord: int = 2) -> Tensor:
    """Return data divided by its norm over the axes in `axis`, or by sqrt(eps) if that is larger. `ord` 1 uses the sum
    of |x|.
    """
    axes = axes_of(axis, data.ndim)
    if ord not in (1, 2):
        raise InputError(f"nn.l2_normalize: ord is 1 or 2, found {ord}")
    if ord == 2:
        total = sum_square(data, axis=axes, keepdims=True)
        norm = elementwise(total, lambda v: te.sqrt(te.maximum(v, const(eps, v.dtype))), "sqrt")
    else:
        norm = elementwise(l1(data, axis=axes, keepdims=True), lambda v: te.maximum(v, const(eps, v.dtype)), "norm")
    return te.compute(
        data.shape,
        lambda *i: data[i] / norm[tuple(_ZERO if a in axes else p for a, p in enumerate(i))],
        name="T_l2_normalize",
    )


@register("nn.lrn")
def lrn(
    data: Tensor, *, size: int = 5, axis: int = 1, bias: float = 2.0, alpha: float = 1e-5, beta: float = 0.75
) -> Tensor:
    """Return data / (bias + alpha / size * sum of squares over `size` neighbours along `axis`) ^ beta (AlexNet)."""
    at = axis_of(axis, data.ndim)
    require_positive(size, "nn.lrn size")
    extent = dims(data)[at]
    front = (size - 1) // 2
    behind = size - 1 - front
    if isinstance(extent, int):  # legal: farther neighbours are outside of the axis, and count as zeros
        front, behind = (min(n, max(extent - 1, 0)) for n in (front, behind))
    elif size > _LARGEST_WINDOW:
        raise InputError(f"nn.lrn: size {size} over the open size {extent}: wanted at most {_LARGEST_WINDOW}")
    before = [front if a == at else 0 for a in range(data.ndim)]
    after = [behind if a == at else 0 for a in range(data.ndim)]
    padded = constant_pad(data, before, after)
    k = te.reduce_axis((0, front + behind + 1), name="k")

    def neighbours(*i: Any) -> Expr:
        x = padded[(*i[:at], i[at] + k.var, *i[at + 1 :])]
        return te.sum(x * x, axis=k)

    squares = te.compute(data.shape, neighbours, name="T_lrn_squares")
    factor = const(alpha / size, data.dtype)
    return te.compute(
        data.shape, lambda *i: data[i] / _raised(const(bias, data.dtype) + factor * squares[i], beta), name="T_lrn"
    )


def _raised(base: Expr, exponent: float) -> Expr:
    """Return base ^ exponent.

    Exponents 0.25, 0.5 and 0.75 are computed with square roots, which can be vectorized and are also within 2 ulp.
    """
    if base.dtype not in ("float32", "float64") or exponent not in (0.25, 0.5, 0.75):
        return te.power(base, const(exponent, base.dtype))
    root = te.sqrt(base)
    return root if exponent == 0.5 else te.sqrt(root) if exponent == 0.25 else root * te.sqrt(root)


def _standardized(data: Tensor, axes: Sequence[int], epsilon: float) -> Tensor:
    """Return (data - mean) / sqrt(variance + epsilon), with mean and variance over `axes`."""
    average, spread = moments(data, axes)
    eps = const(epsilon, data.dtype)
    inverse = elementwise(spread, lambda v: const(1.0, v.dtype) / te.sqrt(v + eps), "inverse")

    def element(*i: Any) -> Expr:
        at = tuple(_ZERO if a in axes else p for a, p in enumerate(i))
        return (data[i] - average[at]) * inverse[at]

    return te.compute(data.shape, element, name="T_normalized")


def _check_channels(op: str, data: Tensor, axis: int, *weights: Tensor) -> None:
    for weight in weights:
        _check_shape(op, weight, [dims(data)[axis]])


def _check_shape(op: str, weight: Tensor, expected: Sequence[Any]) -> None:
    shape = dims(weight)
    if len(shape) != len(expected) or not all(agree(a, b) for a, b in zip(shape, expected, strict=True)):
        raise TypeMismatch(f"{op}: wanted a weight of shape ({', '.join(map(str, expected))}), found {weight}")
