"""Convolutions over one, two or three spatial axes, in NCHW and OIHW; in two dimensions, any order of the axes is
possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import te
from ..errors import InputError, TypeMismatch
from ..te import Tensor
from .factors import factor
from .layouts import AxisOrder
from .pad import constant_pad
from .registry import Pattern, register
from .shapes import agree, dims, is_one, paddings, per_axis, plus, require_divides, require_positive, simple, times

Ints = int | Sequence[int]

_DEFAULT = {1: ("NCW", "OIW"), 2: ("NCHW", "OIHW"), 3: ("NCDHW", "OIDHW")}
_SPATIAL = {1: ("x",), 2: ("y", "x"), 3: ("z", "y", "x")}
_ABSORBED = ("nn.interleave",)  # the phases of a convolution are interleaved when its results are written


def _conv(rank: int, data: Tensor, weight: Tensor, strides: Ints, padding: Ints, dilation: Ints, groups: int,
          out_dtype: str, data_layout: str = "", kernel_layout: str = "") -> Tensor:  # fmt: skip
    """Return the convolution over `rank` spatial axes: out[n, f, y..] = sum of data[n, c, y*s + r*d ..] * weight[f, c,
    r..].

    Products and sums have `out_dtype` (the data's dtype if empty); both operands are converted to it when they are
    read. For example, with int8 data and weights, int32 sums are exact. The attributes by which a strategy selects a
    schedule become annotations of the compute.
    """
    op = f"nn.conv{rank}d"
    if data.ndim != rank + 2 or weight.ndim != rank + 2:
        raise TypeMismatch(f"{op}: wanted data and weight of {rank + 2} dimensions, found {data} and {weight}")
    if data.dtype != weight.dtype and not out_dtype:
        raise TypeMismatch(f"{op}: data is {data.dtype}, weight {weight.dtype}\n  try:    out_dtype=, to sum in")
    order = AxisOrder.of(data_layout or _DEFAULT[rank][0], _DEFAULT[rank][0], f"{op} data_layout")
    filter_order = AxisOrder.of(kernel_layout or _DEFAULT[rank][1], _DEFAULT[rank][1], f"{op} kernel_layout")
    stride, dilate = per_axis(strides, rank, f"{op} strides"), per_axis(dilation, rank, f"{op} dilation")
    before, after = paddings(padding, rank)
    require_positive(groups, f"{op} groups")
    batch, channels, *spatial = order.as_defined(dims(data))
    filters, group_channels, *kernel = filter_order.as_defined(dims(weight))
    window = [simple(k) for k in kernel]
    if not agree(times(group_channels, groups), channels):
        raise TypeMismatch(
            f"{op}: the channels of data and weight do not fit\n"
            f"  wanted: {channels} channels = {groups} groups of {group_channels}\n"
            f"  found:  data {data}, weight {weight}"
        )
    require_divides(groups, filters, f"filters for {groups} groups")
    out = tuple(
        simple((d + b + a - (k - 1) * l - 1) // s + 1)
        for d, b, a, k, l, s in zip(spatial, before, after, window, dilate, stride, strict=True)
    )
    if any(isinstance(d, int) and d <= 0 for d in out):
        raise InputError(f"{op}: the kernel {tuple(window)} is larger than the padded input {data}")
    padded = constant_pad(data, order.as_stored((0, 0, *before)), order.as_stored((0, 0, *after)))
    dtype = out_dtype or data.dtype
    filters_a_group = simple(filters // groups)
    depthwise = groups > 1 and is_one(group_channels)
    rc = te.reduce_axis((0, group_channels), name="rc")
    taps = [te.reduce_axis((0, k), name=f"r{a}") for k, a in zip(window, _SPATIAL[rank], strict=True)]

    def element(nn: Any, ff: Any, *point: Any) -> Any:
        at = tuple(
            plus(times(p, s), times(t.var, l) if not is_one(k) else 0)
            for p, s, t, l, k in zip(point, stride, taps, dilate, window, strict=True)
        )
        tap_indices = tuple(t.var if not is_one(k) else 0 for t, k in zip(taps, window, strict=True))
        channel: Any
        place: Any
        if depthwise:
            channel, place = ff if is_one(filters_a_group) else ff // filters_a_group, 0
        else:
            channel, place = rc.var if groups == 1 else ff // filters_a_group * group_channels + rc.var, rc.var
        x = padded[order.as_stored((nn, channel, *at))]
        w = weight[filter_order.as_stored((ff, place, *tap_indices))]
        axes = [t for t, k in zip(taps, window, strict=True) if not is_one(k)]
        # The sum follows the order in memory: in channels-last layouts the channels are summed innermost.
        last = data_layout.endswith("C")
        axes = axes if depthwise else [*axes, rc] if last else [rc, *axes]
        product = factor(x, dtype) * factor(w, dtype)
        return te.sum(product, axis=axes) if axes else product

    name = ("depthwise_" if depthwise else "group_" if groups > 1 else "") + f"conv{rank}d_{order.stored.lower()}"
    attrs = {
        "op": f"nn.depthwise_conv{rank}d" if depthwise else op,
        "strides": stride,
        "padding": (*before, *after),
        "dilation": dilate,
        "groups": groups,
    }
    if not order.is_default or not filter_order.is_default:
        attrs |= {"data_layout": order.stored, "kernel_layout": filter_order.stored}
    names = [2 * a for a in _SPATIAL[rank]]
    return te.compute(
        order.as_stored((batch, filters, *out)),
        lambda *stored: element(*order.as_defined(stored)),
        name=name,
        attrs=attrs,
        varargs_names=order.as_stored(("nn", "ff", *names)),
    )


@register("nn.conv1d", pattern=Pattern.COMPLEX_OUT_FUSABLE, absorbs=_ABSORBED)
def conv1d(data: Tensor, weight: Tensor, *, strides: Ints = 1, padding: Ints = 0, dilation: Ints = 1, groups: int = 1,
           out_dtype: str = "") -> Tensor:  # fmt: skip
    """Return the convolution of data [n, c, w] with weight [o, c / groups, kw]."""
    return _conv(1, data, weight, strides, padding, dilation, groups, out_dtype)


@register("nn.conv2d", pattern=Pattern.COMPLEX_OUT_FUSABLE, absorbs=_ABSORBED)
def conv2d(data: Tensor, weight: Tensor, *, strides: Ints = 1, padding: Ints = 0, dilation: Ints = 1, groups: int = 1,
           out_dtype: str = "", data_layout: str = "NCHW", kernel_layout: str = "OIHW") -> Tensor:  # fmt: skip
    """Return the convolution of data [n, c, h, w] with weight [o, c / groups, kh, kw].

    `padding` is one number, (h, w), or (top, left, bottom, right). With one channel per group the convolution is
    depthwise. `data_layout` is the order of the axes of data and result, and `kernel_layout` the order of the axes of
    the weight, for example NHWC and HWIO.
    """
    return _conv(2, data, weight, strides, padding, dilation, groups, out_dtype, data_layout, kernel_layout)


@register("nn.conv3d", pattern=Pattern.COMPLEX_OUT_FUSABLE, absorbs=_ABSORBED)
def conv3d(data: Tensor, weight: Tensor, *, strides: Ints = 1, padding: Ints = 0, dilation: Ints = 1, groups: int = 1,
           out_dtype: str = "") -> Tensor:  # fmt: skip
    """Return the convolution of data [n, c, d, h, w] with weight [o, c / groups, kd, kh, kw]."""
    return _conv(3, data, weight, strides, padding, dilation, groups, out_dtype)
