"""Transposed convolutions (the gradient of a convolution with respect to its input), in NCHW and IOHW."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import te
from ..errors import TypeMismatch
from ..expr import Expr, const
from ..te import Tensor
from .registry import Pattern, register
from .shapes import agree, dims, paddings, per_axis, require_divides, simple, times

Ints = int | Sequence[int]

_SPATIAL = {1: ("x",), 2: ("y", "x"), 3: ("z", "y", "x")}


def _conv_transpose(rank: int, data: Tensor, weight: Tensor, strides: Ints, padding: Ints, output_padding: Ints,
                    dilation: Ints, groups: int) -> Tensor:  # fmt: skip
    """Return the transposed convolution, as a plain convolution with the reversed kernel.

    The plain convolution reads the input with stride - 1 zeros inserted between neighbouring elements.
    """
    op = f"nn.conv{rank}d_transpose"
    if data.ndim != rank + 2 or weight.ndim != rank + 2:
        raise TypeMismatch(f"{op}: wanted data and weight of {rank + 2} dimensions, found {data} and {weight}")
    stride, dilate = per_axis(strides, rank, f"{op} strides"), per_axis(dilation, rank, f"{op} dilation")
    extra = per_axis(output_padding, rank, f"{op} output_padding", least=0)
    before, after = paddings(padding, rank)
    batch, channels, *spatial = dims(data)
    in_channels, group_filters, *kernel = dims(weight)
    window = [simple(k) for k in kernel]
    if not agree(channels, in_channels):
        raise TypeMismatch(f"{op}: data has {channels} channels, weight takes {in_channels}")
    require_divides(groups, channels, f"channels for {groups} groups")
    reach = [(k - 1) * l for k, l in zip(window, dilate, strict=True)]
    out = tuple(
        simple((d - 1) * s + r + 1 + e - b - a)
        for d, s, r, e, b, a in zip(spatial, stride, reach, extra, before, after, strict=True)
    )
    lead = [r - b for r, b in zip(reach, before, strict=True)]
    spread_shape = tuple(simple(o + r) for o, r in zip(out, reach, strict=True))

    def spread(n: Any, c: Any, *point: Any) -> Expr:
        guards, at = [], []
        for p, d, s, first in zip(point, spatial, stride, lead, strict=True):
            guards += [p >= first, p < (d - 1) * s + first + 1]
            guards += [(p - first) % s == 0] if s > 1 else []
            at.append((p - first) // s if s > 1 else p - first)
        return te.if_then_else(te.all(*guards), data[(n, c, *at)], const(0, data.dtype))

    dilated = te.compute((batch, channels, *spread_shape), spread, name="data_dilate")
    group_channels = simple(channels // groups)
    rc = te.reduce_axis((0, group_channels), name="rc")
    taps = [te.reduce_axis((0, k), name=f"r{a}") for k, a in zip(window, _SPATIAL[rank], strict=True)]

    def element(nn: Any, ff: Any, *point: Any) -> Expr:
        at = tuple(p + times(t.var, l) for p, t, l in zip(point, taps, dilate, strict=True))
        turned = tuple(k - 1 - t.var for k, t in zip(window, taps, strict=True))
        channel = rc.var if groups == 1 else ff // group_filters * group_channels + rc.var
        filter_ = ff if groups == 1 else ff % group_filters
        return te.sum(dilated[(nn, channel, *at)] * weight[(channel, filter_, *turned)], axis=[rc, *taps])

    attrs = {"op": op, "strides": stride, "padding": (*before, *after), "dilation": dilate, "groups": groups}
    return te.compute(
        (batch, simple(times(group_filters, groups)), *out),
        element,
        name=f"conv{rank}d_transpose",
        attrs=attrs,
        varargs_names=[2 * a for a in _SPATIAL[rank]],
    )


@register("nn.conv1d_transpose", pattern=Pattern.COMPLEX_OUT_FUSABLE)
def conv1d_transpose(data: Tensor, weight: Tensor, *, strides: Ints = 1, padding: Ints = 0, output_padding: Ints = 0,
                     dilation: Ints = 1, groups: int = 1) -> Tensor:  # fmt: skip
    """Return the transposed convolution of data [n, i, w] with weight [i, o / groups, kw]."""
    return _conv_transpose(1, data, weight, strides, padding, output_padding, dilation, groups)


@register("nn.conv2d_transpose", pattern=Pattern.COMPLEX_OUT_FUSABLE)
def conv2d_transpose(data: Tensor, weight: Tensor, *, strides: Ints = 1, padding: Ints = 0, output_padding: Ints = 0,
                     dilation: Ints = 1, groups: int = 1) -> Tensor:  # fmt: skip
    """Return the transposed convolution of data [n, i, h, w] with weight [i, o / groups, kh, kw]."""
    return _conv_transpose(2, data, weight, strides, padding, output_padding, dilation, groups)


@register("nn.conv3d_transpose", pattern=Pattern.COMPLEX_OUT_FUSABLE)
def conv3d_transpose(data: Tensor, weight: Tensor, *, strides: Ints = 1, padding: Ints = 0, output_padding: Ints = 0,
                     dilation: Ints = 1, groups: int = 1) -> Tensor:  # fmt: skip
    """Return the transposed convolution of data [n, i, d, h, w] with weight [i, o / groups, kd, kh, kw]."""
    return _conv_transpose(3, data, weight, strides, padding, output_padding, dilation, groups)
