"""Moves of `graphs` that add patterns in which a detail matters to passes, fusion, kernel sharing or linking."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from minitvm.graph import Value

from .graph_drawing import CHANNELS, LARGEST, Drawing, fixed

TWINS = (("float32", "int32"), ("float64", "int64"), ("int8", "uint8"), ("float16", "int16"), ("int32", "uint32"))


def second_reader(d: Drawing, value: Value) -> None:
    """Perhaps add a second operator that reads a value, or return the value from the graph."""
    kind = d.draw(st.integers(0, 5))
    if kind == 0:
        d.op(d.one_of(["nn.relu", "negative", "copy"]), value, peak=d.peak(value))
    elif kind == 1:
        d.returned.append(value)
    elif kind == 2 and value.ndim:
        d.op("max", value, peak=d.peak(value), axis=value.ndim - 1, keepdims=True)


def convolution_chain(d: Drawing) -> None:
    """Add a convolution, bias, batch norm and activation; some may be missing, and each may be read a second time."""
    x = d.image(exact=True)
    channels = fixed(x.shape[1])
    size = d.one_of([1, 3])
    groups = d.one_of([1, 1, channels])
    outputs = channels if groups == channels else d.one_of(CHANNELS)
    x = d.bounded(x, 2**6 * size * size * channels // groups)
    stages = d.one_of([("bias", "norm"), ("bias", "norm", "relu"), ("norm",), ("norm", "relu"), ("bias", "relu"), ()])

    # Passes fold constants, so most often all inputs are constant.
    constants = d.draw(st.integers(0, 3)) > 0

    def parameter(*shape: int, low: int = -3) -> Value:
        return d.fresh(shape, "float32", low, 3, constant=constants or d.flag())

    y = d.op("nn.conv2d", x, parameter(outputs, channels // groups, size, size), groups=groups, padding=size // 2,
             peak=3 * d.peak(x) * size * size * channels // groups)  # fmt: skip
    second_reader(d, y)
    for stage in stages:
        if stage == "bias":
            y = d.op("nn.bias_add", y, parameter(outputs), peak=d.peak(y) + 3)
        elif stage == "norm":
            scale, shift, mean, variance = (parameter(outputs, low=low) for low in (-3, -3, -3, 1))
            y = d.op("nn.batch_norm", y, scale, shift, mean, variance, peak=4 * (d.peak(y) + 4), exact=False)
        else:
            y = d.op("nn.relu", y, peak=d.peak(y))
        second_reader(d, y)


def twins(d: Drawing) -> None:
    """Apply one operator to two dtypes of equal width and the same shape, and combine both results."""
    dtypes = d.one_of(TWINS)
    shape = [d.extent() for _ in range(d.draw(st.integers(1, 2)))]
    kind, low = d.one_of(["add", "multiply", "maximum", "nn.relu", "max"]), 0 if "u" in dtypes[1] else -3
    results = []
    for dtype in dtypes:
        x = d.fresh(shape, dtype, low, 3, False)
        if kind == "max":
            y = d.op(kind, x, peak=3, axis=-1, keepdims=True)
        elif kind == "nn.relu":
            y = d.op(kind, x, peak=3)
        else:
            y = d.op(kind, x, d.fresh(shape, dtype, low, 3, False), peak=9)
        results.append(y)
    d.op("concatenate", *(d.op("cast", y, peak=9, dtype="int32") for y in results), peak=9, axis=0)


def equal_bytes(d: Drawing) -> None:
    """Add constants with equal bytes but different dtypes or shapes, each used with its own type."""
    dtypes = d.one_of(TWINS)
    count = d.one_of([1, 2, 4, 6])
    array = d.data([count], dtypes[0], 0, 3)
    x = d.holding(array, 3, constant=True)
    if d.flag():
        y = d.holding(array.view(dtypes[1]), 2.0**63 if not dtypes[1].startswith("float") else 3, constant=True)
    else:
        y = d.holding(array.reshape(d.one_of([(1, count), (count, 1), (count, 1, 1)])), 3, constant=True)
    for c in (x, y):
        shape = [*(d.extent() for _ in range(2 - c.ndim)), *c.shape]
        dtype = str(c.dtype)
        other = d.fresh(shape, dtype, 0 if dtype.startswith("u") else -3, 3, False)
        d.op(d.one_of(["maximum", "add"]), other, c, peak=6 if c.dtype.is_float else 2.0**63)


def nearly_nothing(d: Drawing) -> None:
    """Add an operator that keeps the shape and may be mistaken for an identity."""
    kinds = ["pad", "slice", "transpose", "reshape", "repeat", "multiply", "divide", "cast", "reverse"]
    n, m = d.extent(), d.one_of([1, 2, 3])
    x = d.fresh([n, d.one_of([n, m])], d.one_of(["float32", "int32"]), constant=False)
    kind, peak, dtype = d.one_of(kinds), d.peak(x), str(x.dtype)
    if kind == "pad":
        by = [d.draw(st.integers(max(-2, -fixed(dim)), min(2, fixed(dim)))) for dim in x.shape]
        value = d.one_of([0, 2])
        y = d.op("nn.pad", x, peak=peak, pad_width=tuple((b, -b) for b in by), pad_value=value)
    elif kind == "slice":
        begin, end, step = d.one_of([(0, 99, 1), (-1, -99, -1), (-99, 99, 1)])
        y = d.op("strided_slice", x, peak=peak, begin=(begin,), end=(end,), strides=(step,), axes=(d.one_of([0, 1]),))
    elif kind == "transpose":
        y = d.op("transpose", x, peak=peak, axes=d.one_of([(0, 1), (1, 0), (-2, -1), None]))
    elif kind == "reshape":
        y = d.op("reshape", x, peak=peak, newshape=d.one_of([tuple(x.shape), tuple(x.shape)[::-1]]))
    elif kind == "repeat":
        y = d.op("repeat", x, peak=peak, repeats=1) if d.flag() else d.op("tile", x, peak=peak, reps=(1, 1))
    elif kind in ("multiply", "divide"):
        one = d.holding(np.array(d.one_of([1, 1, -1]), dtype), 1, constant=d.flag())
        y = d.op(kind, *((one, x) if kind == "multiply" and d.flag() else (x, one)), peak=peak)
    elif kind == "cast":
        y = d.op("cast", x, peak=peak, dtype=d.one_of([dtype, "int32", "float32"]))
    else:
        y = d.op("reverse", x, peak=peak, axis=d.one_of([0, 1, (0, 1)]))
    second_reader(d, y)


def joined(d: Drawing) -> None:
    """Concatenate computed values along any axis; they may also be read, concatenated or returned elsewhere."""

    def suits(v: Value) -> bool:
        static = all(isinstance(n, int) for n in v.shape)
        return v.ndim > 1 and not v.dtype.is_bool and static and d.elements(v.shape) * 3 <= LARGEST

    x = d.pick(suits)
    if not suits(x):
        x = d.fresh([d.one_of([2, 1, 3]), d.one_of([1, 2, 4]), d.one_of([1, 3, 8])], "float32", constant=False)
    parts: list[Value] = []
    for _ in range(d.draw(st.integers(2, 3))):
        kind = d.one_of(["nn.relu", "abs", "add", "itself", "again"])
        if str(x.dtype).startswith("u") and kind == "abs":
            kind = "nn.relu"
        if kind == "again" and parts:
            parts.append(d.one_of(parts))
        elif kind in ("itself", "again"):
            parts.append(x)
        elif kind == "add":
            peak = d.peak(x) + 3 if x.dtype.is_float else 2.0**63
            parts.append(d.op("add", x, d.fresh([x.shape[-1]], str(x.dtype)), peak=peak))
        else:
            parts.append(d.op(kind, x, peak=d.peak(x) if x.dtype.is_float else 2.0**63))
        second_reader(d, parts[-1])
    axis = d.draw(st.integers(0, x.ndim - 1))
    whole = d.op("concatenate", *parts, peak=d.peak(*parts), axis=axis)
    second_reader(d, whole)


def integer_pool(d: Drawing) -> None:
    """Add a pooling of integers that include the ends of their dtype, with padding that must not win."""
    dtype = d.one_of(["int8", "uint8", "int32", "int64"])
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    shape = [d.one_of([1, 2]), d.one_of([1, 3, 8]), d.draw(st.integers(1, 6)), d.draw(st.integers(1, 6))]
    kind = d.one_of(["ends", "least", "greatest", "all"])
    ends = {"ends": [low, low + 1, -1 if low else 1, 0, high], "least": [low], "greatest": [high]}.get(kind)
    array = d.rng.choice(np.array(ends, dtype), shape) if ends else d.rng.integers(low, high, shape, dtype)
    x = d.holding(array, 2.0**63)
    size = [min(d.one_of([1, 2, 3]), n) for n in shape[2:]]
    padding = tuple(d.draw(st.integers(0, k // 2)) for k in size)
    if d.draw(st.integers(0, 3)) == 0:
        d.op("nn.global_max_pool", x, peak=2.0**63)
        return
    d.op("nn.max_pool2d", x, peak=2.0**63, pool_size=tuple(size), strides=d.one_of([1, 2]), padding=padding)


def used_and_returned(d: Drawing) -> None:
    """Add a value that two operators read and that the graph also returns."""
    x = d.pick(lambda v: not v.dtype.is_bool)
    y = d.op("copy" if str(x.dtype).startswith("u") else "negative", x, peak=d.peak(x))
    d.returned.append(y)
    for _ in range(2):
        d.op(d.one_of(["nn.relu", "copy"]), y, peak=d.peak(y))


def alike_but_one(d: Drawing) -> None:
    """Add an operator (or a chain of two) several times, with a difference in one input, attribute, extent or
    connection.
    """
    shape = [max(d.extent(), 1), max(d.extent(), 1)]  # a maximum over nothing is infinite
    x = d.fresh(shape, "float32", constant=False)
    differs = d.one_of(["input", "attribute", "extent", "wire", "wire"])
    if differs == "input":
        kind = d.one_of(["subtract", "maximum", "multiply", "concatenate"])
        y, z = (d.fresh(shape, "float32", constant=False) for _ in range(2))
        attrs: dict[str, Any] = {"axis": 0} if kind == "concatenate" else {}
        results = [d.op(kind, *pair, peak=9, **attrs) for pair in ((x, y), (x, z), (z, y), (y, x))]
    elif differs == "wire":
        y = d.fresh(shape, "float32", constant=False)
        outer, inner = d.one_of(["subtract", "maximum"]), d.one_of(["abs", "nn.relu"])
        results = []
        for a, b in ((x, y), (y, x)):
            inner_results = [d.op(inner, a, peak=3) for _ in range(2)]
            results += [d.op(outer, inner_results[0], b, peak=6), d.op(outer, b, inner_results[1], peak=6)]
    elif differs == "attribute":
        results = [d.op("clip", x, peak=4, a_min=-1.0, a_max=top) for top in (1.0, 2.0)]
        results += [d.op("max", x, peak=3, axis=axis, keepdims=keep) for axis in (0, 1) for keep in (False, True)]
    else:
        shapes = (shape[::-1], [shape[0], max(d.extent(), 1)])
        others = [d.fresh(other, "float32", constant=False) for other in shapes]
        results = [d.op("nn.relu", v, peak=3) for v in (x, *others)]
    if d.flag():  # a value that the graph returns stays itself in every pass
        results = [d.op("negative", v, peak=d.peak(v)) for v in results]
    first = d.draw(st.integers(0, len(results) - 1))
    d.returned += results[first:] + results[:first]


PATTERNS: dict[str, Callable[[Drawing], None]] = {
    "convolution_chain": convolution_chain, "twins": twins, "equal_bytes": equal_bytes, "joined": joined,
    "nearly_nothing": nearly_nothing, "integer_pool": integer_pool, "used_and_returned": used_and_returned,
    "alike_but_one": alike_but_one,
}  # fmt: skip
