"""Moves of `graphs` that add one operator of a kind: functions, windows, norms, folds, shapes, layouts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from minitvm.graph import Value

from .graph_drawing import EXACT_BELOW, LARGEST, Drawing, fixed

# Intervals where a function is defined and not steep.
DOMAINS = {
    "acos": (-0.5, 0.5), "asin": (-0.5, 0.5), "atanh": (-0.5, 0.5), "acosh": (2.0, 4.0), "log": (1.0, 4.0),
    "log2": (1.0, 4.0), "log10": (1.0, 4.0), "log1p": (0.0, 4.0), "sqrt": (1.0, 4.0), "rsqrt": (1.0, 4.0),
    "reciprocal": (1.0, 4.0), "exp": (-3.0, 3.0), "sinh": (-3.0, 3.0), "cosh": (-3.0, 3.0), "tan": (-1.0, 1.0),
    "asinh": (-4.0, 4.0), "nn.softsign": (-4.0, 4.0), "nn.celu": (-4.0, 4.0),
}  # fmt: skip


def _static(v: Value) -> bool:
    return all(isinstance(n, int) and n > 0 for n in v.shape)


def _exact(d: Drawing, suits: Callable[[Value], bool]) -> Value | None:
    """Draw an exact value of constant shape for which `suits` is true; None if there is none."""
    fitting = [v for v in d.facts if _static(v) and d.facts[v].exact and suits(v) and d.elements(v.shape) <= LARGEST]
    return d.one_of(fitting) if fitting else None


def _floats(d: Drawing, rank: tuple[int, ...], least: int = 1) -> Value:
    """Draw an exact float32 value of one of these ranks with small numbers; a new input if there is none."""
    x = _exact(d, lambda v: str(v.dtype) == "float32" and v.ndim in rank)
    if x is None or d.draw(st.integers(0, 3)) == 0:
        shape = [d.one_of([1, 2]), *(d.one_of([least, 3, 4, 6]) for _ in range(d.one_of(rank) - 1))]
        x = d.fresh(shape[-max(rank) :], "float32", constant=False)
    return x if d.peak(x) <= 8 else d.op("clip", x, peak=4, a_min=-4.0, a_max=4.0)


def function(d: Drawing) -> None:
    """Add a smooth function, on values where it is defined."""
    name = d.one_of(sorted(DOMAINS))
    x, (low, high) = d.floats(), DOMAINS[name]
    d.op(name, d.op("clip", x, peak=4, a_min=low, a_max=high), peak=16, exact=False)


def jumping(d: Drawing) -> None:
    """Add a function with jumps, or one that classifies floats."""
    x = _floats(d, (1, 2, 3))
    name = d.one_of(["nn.shrink", "nn.thresholded_relu", "isnan", "isinf", "isfinite", "round", "floor"])
    if name.startswith("is"):
        d.op(name, x, peak=1)
        return
    halves = d.op("multiply", x, d.holding(np.float32(0.5), 0.5, constant=True), peak=d.peak(x)) if d.flag() else x
    d.op(name, halves, peak=d.peak(x) + 1)


def power(d: Drawing) -> None:
    """Add a power, or a remainder as in C."""
    x = _floats(d, (1, 2))
    if d.flag():
        d.op(
            "power", d.op("abs", x, peak=d.peak(x)), d.holding(np.float32(d.one_of([0, 1, 2])), 2), peak=64, exact=False
        )
    else:
        d.op("mod", x, d.holding(np.float32(d.one_of([2, -3, 5])), 5), peak=d.peak(x))


def window(d: Drawing) -> None:
    """Add a convolution (perhaps transposed) or a pooling, in one, two or three dimensions."""
    rank = d.one_of([1, 2, 3])
    channels = d.one_of([1, 2, 3])
    shape = [d.one_of([1, 2]), channels, *(d.draw(st.integers(2, 5)) for _ in range(rank))]
    x = d.fresh(shape, "float32", constant=False)
    size = [d.one_of([1, 2]) for _ in range(rank)]
    kind = d.one_of(["conv", "conv_transpose", "max_pool", "avg_pool"])
    padding = tuple(d.draw(st.integers(0, k // 2)) for k in size)
    attrs: dict[str, Any] = {"strides": d.one_of([1, 2]), "padding": padding}
    if kind in ("max_pool", "avg_pool"):
        attrs |= {"pool_size": tuple(size), "ceil_mode": d.flag()}
        d.op(f"nn.{kind}{rank}d", x, peak=3, exact=kind == "max_pool", **attrs)
        return
    outputs = d.one_of([1, 2, 4])
    filters = [outputs, channels, *size] if kind == "conv" else [channels, outputs, *size]
    name = f"nn.conv{rank}d" + ("_transpose" if kind == "conv_transpose" else "")
    if kind == "conv_transpose" and attrs["strides"] == 2:
        attrs["output_padding"] = d.one_of([0, 1])
    d.op(name, x, d.fresh(filters, "float32"), peak=9 * channels * 2**rank, **attrs)


def norm(d: Drawing) -> None:
    """Add a normalisation over channels, groups or neighbours."""
    x = _floats(d, (3, 4))
    channels = fixed(x.shape[1])
    kind = d.one_of(["instance", "group", "rms", "l2", "lrn", "prelu"])
    peak = 3 * d.peak(x) + 9
    scale = d.fresh([channels], "float32")
    if kind == "instance":
        d.op("nn.instance_norm", x, scale, d.fresh([channels], "float32"), peak=peak, exact=False, epsilon=1.0)
    elif kind == "group":
        groups = d.one_of([k for k in range(1, channels + 1) if channels % k == 0])
        beta = d.fresh([channels], "float32")
        d.op("nn.group_norm", x, scale, beta, peak=peak, exact=False, num_groups=groups, epsilon=1.0)
    elif kind == "rms":
        d.op("nn.rms_norm", x, d.fresh([x.shape[-1]], "float32"), peak=peak, exact=False, epsilon=1.0)
    elif kind == "l2":
        d.op("nn.l2_normalize", x, peak=1, exact=False, axis=(1,), eps=1.0)
    elif kind == "lrn":
        d.op("nn.lrn", x, peak=peak, exact=False, size=d.one_of([2, 3]), alpha=0.1)
    else:
        d.op("nn.prelu", x, scale, peak=3 * d.peak(x))


def fold(d: Drawing) -> None:
    """Add a reduction by a product, a variance or a norm, or a running product or extreme."""
    x = _floats(d, (2, 3))
    kind = d.one_of(["prod", "variance", "logsumexp", "l2", "log_sum", "cumprod", "cummax", "cummin"])
    axis = d.draw(st.integers(0, x.ndim - 1))
    if kind in ("cummax", "cummin"):
        d.op(kind, x, peak=d.peak(x), axis=axis)
        return
    if kind in ("prod", "cumprod"):
        small = d.op("clip", x, peak=2, a_min=-1.0, a_max=2.0)
        peak = 2.0 ** fixed(x.shape[axis])
        attrs = {"exclusive": d.flag(), "reverse": d.flag()} if kind == "cumprod" else {"keepdims": d.flag()}
        d.op(kind, small, peak=peak, axis=axis, **attrs)
        return
    if kind == "log_sum":
        x = d.op("clip", x, peak=4, a_min=1.0, a_max=4.0)
    d.op(kind, x, peak=64, exact=False, axis=axis, keepdims=d.flag())


def shape(d: Drawing) -> None:
    """Add an operator that makes values from a shape, or that changes a shape or layout."""
    kind = d.one_of(
        ["full", "arange", "shape_of", "broadcast_to", "trilu", "batch_flatten", "einsum", "sum", "sizes", "cast"]
    )
    if kind == "full":
        value, dtype = d.one_of([(1.5, "float32"), (-3, "int32"), (True, "bool"), (7, "int64")])
        d.op("full", peak=7, shape=(2, d.extent()), fill_value=value, dtype=dtype)
    elif kind == "arange":
        start, stop, step = d.one_of([(2, 11, 3), (5, 0, -2), (0, 4, 1)])
        d.op("arange", peak=11, start=start, stop=stop, step=step, dtype=d.one_of(["int64", "int32", "float32"]))
    elif kind == "shape_of":
        d.op("shape_of", d.pick(lambda v: v.ndim > 0), peak=64)
    elif kind == "sizes":
        x = d.pick(lambda v: v.ndim > 0)
        d.op("shape_to_tensor", peak=64, values=(*x.shape, 3), shape=(x.ndim + 1,), dtype=d.one_of(["int64", "int32"]))
    elif kind == "cast":
        x = d.pick(lambda v: v.ndim > 0)
        d.op("match_cast", x, peak=d.peak(x), dims=((x.shape[0], x.shape[0]),), where="a drawn operator")
    elif kind == "sum":
        x = _floats(d, (2, 3))
        d.op("elementwise_sum", x, x, d.fresh([x.shape[-1]], "float32"), peak=2 * d.peak(x) + 3)
    elif kind == "einsum":
        x = _floats(d, (2,))
        y = d.fresh([x.shape[1], d.one_of([1, 3])], "float32")
        d.op("einsum", x, y, peak=3 * d.peak(x) * fixed(x.shape[1]), equation=d.one_of(["ij,jk->ik", "ij,jk->ki"]))
    else:
        x = _floats(d, (2, 3))
        if kind == "broadcast_to":
            d.op(kind, x, peak=d.peak(x), shape=(2, *map(fixed, x.shape)))
        elif kind == "trilu":
            d.op(kind, x, peak=d.peak(x), k=d.draw(st.integers(-1, 1)), upper=d.flag())
        else:
            d.op("nn.batch_flatten", x, peak=d.peak(x))


def layout(d: Drawing) -> None:
    """Add an operator that reorders pixels and channels."""
    channels, block = d.one_of([4, 8]), 2
    dtype = d.one_of(["float32", "int8", "int32"])
    x = d.fresh([d.one_of([1, 2]), channels, 2, d.one_of([2, 4])], dtype, constant=False)
    kind = d.one_of(["depth", "space", "transform", "resize"])
    if kind == "depth":
        d.op("nn.depth_to_space", x, peak=3, block_size=block, mode=d.one_of(["DCR", "CRD"]))
    elif kind == "space":
        d.op("nn.space_to_depth", x, peak=3, block_size=block)
    elif kind == "transform":
        y = d.op("layout_transform", x, peak=3, src_layout="NCHW", dst_layout=d.one_of(["NHWC", "NCHW4c"]))
        if y.ndim == 5:
            d.op("layout_transform", y, peak=3, src_layout="NCHW4c", dst_layout=d.one_of(["NCHW", "NHWC"]))
    elif str(x.dtype) == "float32":
        method = d.one_of(["nearest_neighbor", "linear"])
        d.op("image.resize2d", x, peak=3, exact=method != "linear", size=(3, 4), method=method)


def quantized(d: Drawing) -> None:
    """Add a conversion to bytes and back, with a scale that is a power of two."""
    x = _floats(d, (2, 3))
    dtype, scale = d.one_of(["int8", "uint8"]), d.one_of([0.5, 1.0, 2.0])
    low, high = (0, 200) if dtype == "uint8" else (-100, 100)
    zero = d.holding(np.array(d.draw(st.integers(low, high)), dtype), 200, constant=True)
    factor = d.holding(np.float32(scale), scale, constant=True)
    q = d.op("qnn.quantize", x, factor, zero, peak=255, out_dtype=dtype)
    d.op("qnn.dequantize", q, factor, zero, peak=1024)
    if d.flag():
        d.op("qnn.lookup", q, d.fresh([256], d.one_of(["int8", "uint8"]), 0, 100), peak=100)
    if d.flag():
        sums, columns = d.fresh([2, 3, 4], "int32", -5000, 5000), d.one_of([(), (3, 1)])
        multiplier = d.holding(d.data(columns, "int32", 1 << 30, (1 << 31) - 1), constant=True)
        shift = d.holding(d.data(columns, "int32", 0, 12), constant=True)
        limits = {"zero_point": 3, "out_dtype": dtype, "a_min": low, "a_max": high}
        d.op("qnn.requantize", sums, multiplier, shift, peak=255, **limits)


def byte_product(d: Drawing) -> None:
    """Add a product of dequantised bytes, as in a quantised network; scales are powers of two, and sums are exact."""
    dtype, kind = d.one_of(["int8", "uint8"]), d.one_of(["nn.conv2d", "nn.dense", "nn.matmul"])
    low, high = (0, 255) if dtype == "uint8" else (-128, 127)
    inner, outer = d.one_of([1, 3, 4, 8]), d.one_of([1, 5, 8])
    shape = [1, inner, 3, 4] if kind == "nn.conv2d" else [2, 4 * inner]
    stored = {"nn.conv2d": (outer, inner, 2, 3), "nn.dense": (outer, 4 * inner), "nn.matmul": (4 * inner, outer)}[kind]

    def dequantized(q: Value, scale: np.ndarray, zero: np.ndarray, peak: float, axis: int) -> Value:
        parameters = (d.holding(p, 1, constant=True) for p in (scale, zero))
        return d.op("qnn.dequantize", q, *parameters, peak=peak, axis=axis)

    zero = np.array(d.draw(st.integers(low, high)), dtype)
    x = dequantized(
        d.fresh(shape, dtype, low, high, constant=False), np.array(d.one_of([0.5, 1.0]), "float32"), zero, 256, 0
    )
    columns = 1 if kind == "nn.matmul" else 0
    axis = d.one_of([columns, columns, columns, 1 - columns])  # scales of the inner axis are no scale of the result
    scales = [d.one_of([0.25, 0.5, 1.0]) for _ in range(stored[axis])] if d.flag() else d.one_of([0.25, 1.0])
    unsigned = d.flag()
    few, most = d.one_of([(0, 255), (90, 127)]) if unsigned else (-128, 127)
    weights = d.fresh(stored, "uint8" if unsigned else "int8", few, most, True)
    zeros = np.full(np.shape(scales), 128 if unsigned else 0, str(weights.dtype))
    w = dequantized(weights, np.array(scales, "float32"), zeros, 128, axis)
    padding: dict[str, Any] = {"padding": (1, 0, 1, 2)} if kind == "nn.conv2d" else {}
    y = d.op(kind, x, w, peak=2.0**23, **padding)
    if d.flag():
        y = d.op("nn.bias_add", y, d.fresh([outer], "float32", -3, 3, constant=True), peak=2.0**23, axis=1)
    y = d.op("nn.relu", y, peak=2.0**23) if d.flag() else y
    if d.flag():
        after = d.holding(np.array(d.draw(st.integers(0, 200)), "uint8"), 200, constant=True)
        d.op("qnn.quantize", y, d.holding(np.float32(64), 64, constant=True), after, peak=255, out_dtype="uint8")


def half_product(d: Drawing) -> None:
    """Add a product of 16-bit floats, with sums in float32 or 16 bits; all numbers are integers, and sums are exact."""
    dtype = d.one_of(["bfloat16", "bfloat16", "float16"])
    kind = d.one_of(["nn.conv2d", "nn.dense", "nn.matmul", "nn.batch_matmul"])
    inner, outer, rows = d.one_of([1, 2, 4, 6]), d.one_of([1, 5, 8]), d.one_of([1, 3, 17])
    attrs: dict[str, Any] = {}
    if kind == "nn.conv2d":
        shape, stored = [1, inner, 3, 4], [outer, inner, 2, 3]
        attrs["padding"] = (1, 0, 1, 2)
    elif kind == "nn.matmul":
        attrs["transpose_b"] = turned = d.flag()
        shape, stored = [rows, 2 * inner], [outer, 2 * inner] if turned else [2 * inner, outer]
    else:
        batch = [2] if kind == "nn.batch_matmul" else []
        shape, stored = [*batch, rows, 2 * inner], [*batch, outer, 2 * inner]
    x = d.fresh(shape, dtype, -2, 2, constant=False)
    form, peak = d.one_of(["float32", "16 bits", "widened", "widened weights"]), 4.0 * 6 * inner
    if form == "widened weights":  # among them a number with more bits than the dtype has
        weights = d.data(stored, "float32", -2, 2)
        most = d.one_of([2.0, EXACT_BELOW[dtype] + 1])
        weights.reshape(-1)[:1] = most
        w, peak = d.holding(weights, most, constant=True), most * 2 * 6 * inner
    else:
        w = d.fresh(stored, dtype, -2, 2)
        w = d.op("cast", w, peak=2, dtype="float32") if form == "widened" else w
    if form.startswith("widened"):
        x = d.op("cast", x, peak=2, dtype="float32")
    if form == "float32":
        attrs["out_dtype"] = "float32"
    d.op(kind, x, w, peak=peak, **attrs)


OPERATORS: dict[str, Callable[[Drawing], None]] = {
    "smooth": function, "jumping": jumping, "power": power, "window": window, "norm": norm, "fold": fold,
    "shape": shape, "layout": layout, "quantized": quantized,
    "byte_product": byte_product, "half_product": half_product,
}  # fmt: skip
