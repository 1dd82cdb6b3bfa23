"""Moves of random graphs beside those of `reference.strategies`: patterns that the graph's passes look for, and what
only looks like them. Named in `graphs(..., moves=...)` and `networks(...)` like the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from minitvm.graph import Value
from minitvm.reference.strategies.graph_drawing import Drawing, Fact, fixed
from minitvm.reference.strategies.graphs import MOVES


def _constant(d: Drawing, array: np.ndarray) -> Value:
    value = d.b.constant(array)
    d.facts[value] = Fact(float(np.max(np.abs(array), initial=1)))
    return value


def _scaled_product(d: Drawing) -> None:
    """A convolution, plain, grouped or transposed, maybe a bias along some axis, and a batch norm behind either; what
    lies between may be read again."""
    x = d.image(exact=True)
    channels = fixed(x.shape[1])
    x = d.bounded(x, 2**10)
    groups = d.one_of([g for g in (1, 1, 2, channels) if channels % g == 0])
    turned, each = d.flag(), channels // groups
    filters = groups * d.one_of([1, 2])
    if turned:
        w = d.fresh([channels, filters // groups, 1, 2], "float32", constant=True)
        y = d.op("nn.conv2d_transpose", x, w, peak=9 * d.peak(x) * channels, groups=groups)
    else:
        w = d.fresh([filters, each, 1, 1], "float32", constant=True)
        y = d.op("nn.conv2d", x, w, peak=3 * d.peak(x) * each, groups=groups)
    if d.flag():
        axis = d.one_of([1, 1, 1, -1, 2])
        y = d.op("nn.bias_add", y, d.fresh([y.shape[axis]], "float32", constant=True), peak=d.peak(y) + 3, axis=axis)
    count = fixed(y.shape[1])
    scale, shift, mean = (d.fresh([count], "float32", constant=True) for _ in range(3))
    variance = _constant(d, d.rng.choice(np.array([1, 4, 16], np.float32), count))
    z = d.op("nn.batch_norm", y, scale, shift, mean, variance, peak=4 * (d.peak(y) + 4), exact=False, epsilon=0.0)
    if d.flag():
        d.op("add", y, z, peak=d.peak(y) + d.peak(z), exact=False)


def _ones(d: Drawing) -> None:
    """Something times, or by, a constant of ones that may be larger than it."""
    x = d.pick(lambda v: v.ndim > 0 and not v.dtype.is_bool and v.is_static)
    if x.dtype.is_bool or not x.is_static:
        return
    shape = [fixed(n) if n != 1 else d.one_of([1, 1, 2]) for n in x.shape]
    shape = [*([2] if d.flag() and x.ndim < 4 else []), *shape][0 if d.flag() else d.draw(st.integers(0, x.ndim)) :]
    d.op(d.one_of(["multiply", "divide"]), x, _constant(d, np.ones(shape, x.dtype.numpy)), peak=d.peak(x))


def _moved_pad(d: Drawing) -> None:
    """A pad that may add on one side and crop on the other."""
    x = d.pick(lambda v: 0 < v.ndim < 5 and v.is_static and not v.dtype.is_bool)
    if x.dtype.is_bool or not x.is_static or x.ndim == 0:
        return
    widths = []
    for n in x.shape:
        shift = d.draw(st.integers(-1, 2))
        widths.append(d.one_of([(0, 0), (shift, -shift)]) if fixed(n) > 2 else (0, d.draw(st.integers(0, 1))))
    d.op("nn.pad", x, peak=d.peak(x) + 2, pad_width=tuple(widths), pad_value=d.draw(st.integers(0, 2)))


def _whole_slice(d: Drawing) -> None:
    """Slices of some axes, forwards or backwards, most of which keep all elements."""
    x = d.pick(lambda v: 0 < v.ndim < 5 and v.is_static and not v.dtype.is_bool)
    if x.dtype.is_bool or not x.is_static or x.ndim == 0:
        return
    axes = sorted(d.draw(st.sets(st.integers(0, x.ndim - 1), min_size=1)))
    cuts = [d.one_of([(0, 99, 1), (-1, -99, -1), (0, 99, 1), (-1, -99, -1), (1, 99, 1), (0, 99, 2)]) for _ in axes]
    begin, end, strides = zip(*cuts, strict=True)
    if any(start == 1 and x.shape[axis] == 1 for start, axis in zip(begin, axes)):
        return
    d.op("strided_slice", x, peak=d.peak(x), begin=begin, end=end, strides=strides, axes=tuple(axes))


def _twins(d: Drawing) -> None:
    """Constants, or attributes, that are alike but for their dtype or shape, used alike."""
    kind = d.one_of(["dtype", "shape", "axes"])
    if kind == "dtype":
        array = d.data([2, 3], "float32", -3, 3)
        for bits in (array, array.view(np.int32).copy()):
            d.op("cast", _constant(d, bits), peak=2.0**31, dtype="float64")
    elif kind == "shape":
        array = d.data([2, 3], "float32", -3, 3)
        for shaped in (array, array.reshape(3, 2), array.reshape(6)):
            if d.flag():
                d.op("negative", _constant(d, shaped.copy()), peak=4)
    else:
        x = d.pick(lambda v: v.ndim > 1)
        if x.ndim > 1:
            for keep in (True, False):
                d.op("max" if not x.dtype.is_bool else "any", x, peak=d.peak(x), axis=(0,), keepdims=keep)


def _same_operator(d: Drawing) -> None:
    """One operator on values of one shape and dtypes of one width, with one number or another."""
    shape = [d.extent(), 2]
    for dtype in d.one_of([("int32", "float32"), ("int8", "uint8"), ("int64", "float64"), ("float32", "int32")]):
        x = d.fresh(shape, dtype, -100 if dtype == "int8" else 0, 100, constant=False)
        low = _constant(d, np.asarray(d.draw(st.integers(1, 3)), x.dtype.numpy))
        d.op(d.one_of(["maximum", "minimum", "add"]), x, low, peak=200)
        d.op("greater", x, low, peak=1)


def _joined(d: Drawing) -> None:
    """Parts computed alike and put together along any axis, one of them perhaps twice, or in two results."""
    shape = [d.one_of([1, 1, 2]), d.one_of([1, 2, 3]), d.one_of([2, 4])]
    parts = [d.op("nn.relu", d.fresh(shape, "float32", constant=False), peak=3) for _ in range(d.one_of([2, 3]))]
    axis = d.draw(st.integers(0, 2))
    for _ in range(d.one_of([1, 2])):
        chosen = [d.one_of(parts) for _ in range(d.one_of([2, 3]))]
        whole = d.op("concatenate", *chosen, peak=3, axis=axis)
        d.op("negative", whole, peak=3)


def _transposed(d: Drawing) -> None:
    """A transposed convolution whose kernel may be longer or shorter than its strides."""
    rank, groups = d.one_of([1, 2]), d.one_of([1, 1, 2])
    image, kernel, strides, dilation = ([d.draw(st.integers(1, n)) for _ in range(rank)] for n in (4, 4, 3, 2))
    reach = [(k - 1) * step + 1 for k, step in zip(kernel, dilation)]
    padding = [d.draw(st.integers(0, (n - 1) // 2)) for n in reach * 2]
    x = d.fresh([d.one_of([1, 2]), 2 * groups, *image], "float32", constant=False)
    w = d.fresh([2 * groups, d.one_of([1, 2]), *kernel], "float32", constant=True)
    peak = 9 * d.peak(x) * 2 * groups * 16
    d.op(f"nn.conv{rank}d_transpose", x, w, peak=peak, strides=strides, dilation=dilation, padding=padding,
         groups=groups)  # fmt: skip


def _resized(d: Drawing) -> None:
    """A resize along some axes, by sizes and perhaps scales that do not quite give them."""
    shape = [d.draw(st.integers(1, 5)) for _ in range(d.one_of([1, 2, 3]))]
    size = [n if d.flag() else d.draw(st.integers(1, 7)) for n in shape]
    scales = [s / n if d.flag() else (s + 0.25) / n for s, n in zip(size, shape)] if d.flag() else None
    modes = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric"]
    x = d.fresh(shape, "float32", constant=False)
    d.op("image.resize", x, peak=4 * d.peak(x), exact=False, size=size, scales=scales,
         method=d.one_of(["linear", "cubic", "nearest_neighbor"]), coordinate_transformation_mode=d.one_of(modes),
         rounding_method=d.one_of(["round_prefer_floor", "floor", "ceil"]), cubic_exclude=d.flag())  # fmt: skip


EXTRA: dict[str, Callable[[Drawing], Any]] = {
    "scaled_product": _scaled_product, "ones": _ones, "moved_pad": _moved_pad, "whole_slice": _whole_slice,
    "twin_constants": _twins,
    "same_operator": _same_operator, "joined": _joined, "transposed": _transposed, "resized": _resized,
}  # fmt: skip
MOVES.update(EXTRA)
