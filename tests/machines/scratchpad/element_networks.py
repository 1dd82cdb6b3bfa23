"""Networks of layers that a machine with a matrix array takes: products of int8 with their requantisation."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from minitvm.graph import Graph, GraphBuilder, Value
from minitvm.machines.vta.config import AluOptions, configured

# A small array, two rows of data at once, so that small tensors have several blocks; with all options.
SMALL = configured(
    "vta", "tsim", batch=2, block_in=4, block_out=4, uop_bytes=4096, inp_bytes=4096, wgt_bytes=8192, acc_bytes=16384,
    options=AluOptions(multiply_bits=8, pad_value=True, clip=True, widen=True),
)  # fmt: skip


def pixels(rng: Any, shape: tuple[int, ...]) -> np.ndarray:
    numbers: np.ndarray = rng.integers(-128, 128, shape)
    return numbers.astype(np.int8)


def layer(
    b: GraphBuilder, x: Value, weight: np.ndarray, *, shift: int = 7, low: int = -128, high: int = 127,
    offset: Any = None, **attrs: Any,
) -> Value:  # fmt: skip
    """A product, an offset of its channels, a shift, limits, int8."""
    y = b.op("qnn.conv2d" if weight.ndim == 4 else "qnn.dense", x, weight, **attrs)
    if offset is not None:
        y = b.op("add", y, np.asarray(offset, np.int32).reshape(-1, *[1] * (weight.ndim - 2)))
    if shift:
        y = b.op("right_shift", y, np.int32(shift))
    narrow: Value = b.op("cast", b.op("clip", y, a_min=low, a_max=high), dtype="int8")
    return narrow


def in_registers(draw: Any, b: GraphBuilder, x: Value, rng: Any) -> Value:
    """A layer that needs no array: a sum with itself, and of pixels a pool or a convolution of each channel alone."""
    kind = draw(st.sampled_from(["sum", "pool", "depthwise"] if x.ndim == 4 else ["sum"]))
    low, high = draw(st.sampled_from([(-128, 127), (0, 127), (-90, 90)]))
    if kind == "pool":
        size = draw(st.sampled_from([2, 3]))
        pooled: Value = b.op(
            "nn.max_pool2d", x, pool_size=size, strides=draw(st.sampled_from([1, 2])), padding=size - 2
        )
        return pooled
    if kind == "depthwise":
        weight = pixels(rng, (x.shape[1], 1, 3, 3))
        offset = draw(st.sampled_from([None, rng.integers(-900, 900, x.shape[1])]))
        return layer(b, x, weight, low=low, high=high, offset=offset, padding=1, groups=x.shape[1],
                     strides=draw(st.sampled_from([1, 2])))  # fmt: skip
    wide = b.op("cast", x, dtype="int32")
    steps = [np.int32(draw(st.integers(1, 3))), rng.integers(0, 4, (x.shape[1], *(1,) * (x.ndim - 2))).astype("int32")]
    left = b.op("left_shift", wide, draw(st.sampled_from(steps))) if draw(st.booleans()) else wide
    total = b.op("add", b.op("add", left, b.op("cast", x, dtype="int32")), np.int32(draw(st.sampled_from([2, 40000]))))
    limited = b.op("clip", b.op("right_shift", total, np.int32(2)), a_min=low, a_max=high)
    narrow: Value = b.op("cast", limited, dtype="int8")
    return narrow


def network(draw: Any, batch: int = 2, block: int = 4) -> tuple[Graph, list[np.ndarray]]:
    """One to three layers one behind the other, a sum beside one of them, and an input."""
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    b = GraphBuilder("layers")
    flat = draw(st.booleans())
    channels = draw(st.integers(-(-block // 2), 2 * block + 1))
    shape = (batch * draw(st.integers(1, 2)), channels, *(() if flat else (draw(st.integers(3, 6)), 5)))
    x = y = b.input("x", shape, "int8")
    outputs = []
    for _ in range(draw(st.integers(1, 3))):
        out = draw(st.integers(-(-block // 2), 2 * block + 1))
        kernel = draw(st.sampled_from([1, 3]))
        attrs: dict[str, Any] = {}
        if not flat:
            attrs = {"padding": kernel // 2, "strides": draw(st.sampled_from([1, 2]))}
        weight = pixels(rng, (out, channels, *(() if flat else (kernel, kernel))))
        offset = rng.integers(-5000, 5000, out) if draw(st.booleans()) else None
        low = draw(st.sampled_from([-128, 0]))
        y = layer(b, y, weight, shift=draw(st.integers(0, 9)), low=low, offset=offset, **attrs)
        if draw(st.booleans()):  # the host reads it, too
            outputs.append(b.op("cast", y, dtype="int32"))
        if draw(st.integers(0, 2)) == 0 and (flat or min(y.shape[2:]) > 1) and out > 1:
            y = in_registers(draw, b, y, rng)
        channels = out
    return b.build([*outputs, y]), [pixels(rng, x.shape)]
