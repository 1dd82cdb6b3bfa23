"""Convert transforms of signals to products with matrices of cosines and sines."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....expr import GE, LE, And, DType, Expr, as_expr
from ....graph.nodes import Dim
from ....topi.shapes import axis_of, simple, smaller
from ...common.operand import Operand
from ..context import NodeContext
from ..registry import converter
from .data_axes import along_one

_LONGEST = 1 << 20  # a transform, in samples, whose table of mel weights is computed while importing


@converter("DFT", since=20)
def dft(n: NodeContext) -> Any:
    axis = n.optional(2)
    if axis is not None and not axis.is_known:
        return along_one(n, axis, n[0].ndim, lambda k: _dft(n, n[0], k, n.optional(1)), n[0].ndim - 2)
    return _dft(n, n[0], -2 if axis is None else int(n.scalar(axis, "the axis")), n.optional(1))


@converter("DFT", since=17)
def dft_by_attribute(n: NodeContext) -> Any:
    return _dft(n, n[0], n.attr("axis", 1), n.optional(1))


def _dft(n: NodeContext, x: Operand, axis: int, signal_length: Operand | None) -> Any:
    inverse, onesided = bool(n.attr("inverse", 0)), bool(n.attr("onesided", 0))
    axis = axis_of(axis, x.ndim)
    if isinstance(x.shape[-1], Expr):  # the imaginary parts of real numbers are zeros
        x = n.require(x, And(GE(x.shape[-1], as_expr(1)), LE(x.shape[-1], as_expr(2))), "the signal")
        padded = n.op("nn.pad", x, pad_width=[*[(0, 0)] * (x.ndim - 1), (0, simple(2 - x.shape[-1]))])
        x = n.fit(padded, (*x.shape[:-1], 2), "the signal")
    if x.shape[-1] not in (1, 2):
        n.refuse(f"a transform of {x} is not supported: wanted real or complex numbers along the last axis")
    length = None if signal_length is None else n.dim(signal_length, "the length")
    return _transformed(n, x, axis, length, inverse, onesided)


def _transformed(
    n: NodeContext, x: Operand, axis: int, length: Dim | None, inverse: bool = False, onesided: bool = False
) -> Operand:
    """Return the transform along an axis, in float64. The last axis holds real and imaginary parts."""
    extent, parts = x.shape[axis], x.shape[-1]
    halved = inverse and onesided
    if length is None:
        length = simple(2 * (extent - 1)) if halved else extent
    if onesided:
        x = n.enough(x, length, 1, "a transform of no samples has no frequencies")
    half = simple(length // 2 + 1)
    outputs = half if onesided and not inverse else length
    used = smaller(extent, half if halved else length)
    cosines, sines = _waves(n, used, outputs, length)
    sines = sines if inverse else n.op("negative", sines)
    if inverse:
        scale = n.op("divide", np.ones((1, 1)), n.cast(n.number(length, (1, 1)), "float64"))
        if halved:  # all but the first and the middle frequency stand for two
            row = n.numbers(used, 0, 2)
            twice = n.op("logical_and", n.op("greater", row, 0), n.op("less", row, n.number(simple((length + 1) // 2))))
            scale = n.op("multiply", scale, n.op("add", n.cast(twice, "float64"), 1.0))
        cosines, sines = (n.op("multiply", table, scale) for table in (cosines, sines))
    order = [*(a for a in range(x.ndim - 1) if a != axis), axis]
    back = [order.index(a) for a in range(x.ndim - 1)]

    def part(k: int) -> Operand:
        column = n.part(n.entry(x, k, x.ndim - 1), axis, 0, used)
        return n.cast(n.op("transpose", column, axes=order), "float64")

    def result(product: Operand) -> Operand:
        return n.cast(n.op("transpose", product, axes=back), x.dtype)

    real = part(0)
    re, im = n.op("nn.matmul", real, cosines), n.op("nn.matmul", real, sines)
    if parts == 2:
        imaginary = part(1)
        re = n.op("subtract", re, n.op("nn.matmul", imaginary, sines))
        im = n.op("add", im, n.op("nn.matmul", imaginary, cosines))
    if halved:
        return n.op("expand_dims", result(re), axis=(x.ndim - 1,))
    return n.op("stack", result(re), result(im), axis=x.ndim - 1)


def _waves(n: NodeContext, used: Dim, outputs: Dim, length: Dim) -> tuple[Operand, Operand]:
    """Return the cosines and sines [used, outputs] of 2 pi i k / length. They are looked up in one period, computed
    once.
    """
    whole = n.op("maximum", n.number(length), 1)
    step = n.op("divide", np.full(1, 2 * np.pi), n.cast(whole, "float64"))
    period = n.op("multiply", n.cast(n.numbers(length, 0, 1), "float64"), step)
    places = n.op("floor_mod", n.op("multiply", n.numbers(used, 0, 2), n.numbers(outputs, 1, 2)), whole)
    cosines, sines = (n.op("take", n.op(name, period), places, axis=0) for name in ("cos", "sin"))
    return cosines, sines


@converter("STFT", since=17)
def stft(n: NodeContext) -> Any:
    """Return the transforms of frames that begin every `step` samples, weighted by a window."""
    x, window = n[0], n.optional(2)
    step = int(n.scalar(n[1], "the step between frames"))
    given = n.optional(3)
    onesided = bool(n.attr("onesided", 1))
    if x.ndim == 2:
        x = n.op("expand_dims", x, axis=(2,))
    if isinstance(x.shape[2], Expr):
        x = n.fit(x, (*x.shape[:2], 1), "the signal")
    samples, parts = x.shape[1], n.size(x, 2)
    if given is not None:
        length: Dim = int(n.scalar(given, "the length of a frame"))
    elif window is not None:
        length = window.shape[0]
    else:
        n.refuse("neither a window nor the length of a frame is given")
    text = f"frames of {length} every {step} of {x} are not supported"
    if parts not in (1, 2) or step < 1:
        n.refuse(text)
    for most, least in ((length, 1), (samples, length)):
        x = n.enough(x, most, least, text)
    starts = n.op("arange", start=0, stop=simple(samples - length + 1), step=step, dtype="int64")
    places = n.op("add", n.op("expand_dims", starts, axis=(1,)), n.numbers(length, 1, 2))
    frames = n.op("take", x, places, axis=1)
    if window is not None:
        weights = n.fit(n.cast(window, x.dtype), (length,), "the window")
        frames = n.op("multiply", frames, n.reshape(weights, (1, 1, length, 1)))
    return _transformed(n, frames, 2, None, onesided=onesided)


@converter("MelWeightMatrix", since=17)
def mel_weight_matrix(n: NodeContext) -> Any:
    """Return triangles over the frequencies of a transform, evenly spaced on the mel scale. All inputs must be
    known.
    """
    names = (
        "the number of bands",
        "the length of the transform",
        "the sample rate",
        "the lower edge",
        "the upper edge",
    )
    bands, length, rate, lower, upper = (n.scalar(n[k], name) for k, name in enumerate(names))
    if bands < 0 or length < 0 or rate <= 0 or min(lower, upper) < 0 or max(bands, length) > _LONGEST:
        n.refuse(
            f"{bands} bands of a transform of {length} samples, {lower} to {upper} Hz at {rate} Hz, are not supported"
        )
    low, high = (2595 * np.log10(1 + edge / 700) for edge in (lower, upper))
    mel = np.arange(bands + 2) * ((high - low) / (bands + 2)) + low
    edges = ((length + 1) * (700 * (10 ** (mel / 2595) - 1)) // rate).astype(np.int64)
    if edges.max(initial=0) > length // 2 + 1:
        n.refuse(f"{upper} Hz is beyond half of the sample rate {rate}")
    matrix = np.zeros((length // 2 + 1, bands))
    for band, (start, centre, end) in enumerate(zip(edges, edges[1:], edges[2:], strict=False)):
        rising, falling = np.arange(start, centre + 1), np.arange(centre, end)
        matrix[rising, band] = (rising - start) / (centre - start) if centre > start else 1.0
        matrix[falling, band] = (end - falling) / max(end - centre, 1)
    dtype = n.dtype_attr("output_datatype", DType("float32"))
    assert dtype is not None
    return Operand.known(matrix.astype(dtype.numpy))
