"""Chains between dequantised and quantised int8 with powers of two as scales, and what they mean in exact numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from minitvm.graph import Graph, GraphBuilder, Value

Draw = Any


@dataclass(frozen=True)
class Chain:
    """A network, its inputs, and its result: exact, halves rounded up."""

    graph: Graph
    inputs: tuple[np.ndarray, ...]
    result: np.ndarray


def chain(draw: Draw) -> Chain:
    """A product or a sum of two tensors; a bias, limits and a movement of elements may follow before the result."""
    b = GraphBuilder("chain")
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    inputs: list[np.ndarray] = []

    def data(shape: tuple[int, ...], exponent: int) -> tuple[Value, np.ndarray]:
        """Dequantised int8, the extremes among them, and the exact floats."""
        stored = rng.integers(-128, 128, shape).astype(np.int8)
        stored.flat[:2] = -128, 127
        inputs.append(stored)
        x = b.input(f"x{len(inputs)}", shape, "int8")
        return dequantized(b, x, exponent), np.ldexp(stored.astype(np.float64), -exponent)

    first, exact = data((1, 3, 4, 5), draw(st.integers(-1, 5)))
    kind = draw(st.sampled_from(["conv", "depthwise", "dense", "add", "alone"]))
    exponent = draw(st.integers(-2, 6))
    if kind in ("conv", "depthwise"):
        groups = 3 if kind == "depthwise" else 1
        weight, filters = weights(b, rng, (6, 3 // groups, 3, 2), exponent)
        y = b.op("nn.conv2d", first, weight, padding=(1, 0), groups=groups)
        exact = convolution(exact, filters, groups)
    elif kind == "dense":
        weight, matrix = weights(b, rng, (6, 5), exponent)
        y, exact = b.op("nn.dense", first, weight), exact @ matrix.T
    elif kind == "add":
        other, more = data((1, 3, 4, 5), exponent)
        y, exact = b.op("add", first, other), exact + more
    else:
        y = first
    if draw(st.booleans()):
        # A whole number of all units that can occur, so that rounding the bias to them changes nothing.
        bias = (rng.integers(-3, 4, exact.shape[1]) * 8).astype("float32")
        y = b.op("nn.bias_add", y, bias, axis=1)
        exact = exact + bias.astype(np.float64).reshape(1, -1, *[1] * (exact.ndim - 2))
    limits = draw(st.sampled_from(["none", "relu", "clip"]))
    if limits == "relu":
        y, exact = b.op("nn.relu", y), np.maximum(exact, 0)
    elif limits == "clip":
        y, exact = b.op("clip", y, a_min=-1.0, a_max=6.0), np.clip(exact, -1, 6)
    result = draw(st.integers(-3, 4))
    q = quantized(b, y, result)
    units = np.clip(np.floor(np.ldexp(exact, result) + 0.5), -128, 127).astype(np.int8)
    if draw(st.booleans()):  # through floats again, moved
        shape = (-1, exact.shape[-1])
        q = quantized(b, b.op("reshape", dequantized(b, q, result), newshape=shape), result)
        units = units.reshape(shape)
    return Chain(b.build(q), tuple(inputs), units)


def dequantized(b: GraphBuilder, x: Value, exponent: int) -> Value:
    made: Value = b.op("qnn.dequantize", x, np.float32(2.0**-exponent), np.int8(0), axis=0)
    return made


def quantized(b: GraphBuilder, x: Value, exponent: int) -> Value:
    made: Value = b.op("qnn.quantize", x, np.float32(2.0**-exponent), np.int8(0), axis=0, out_dtype="int8")
    return made


def weights(b: GraphBuilder, rng: Any, shape: tuple[int, ...], exponent: int) -> tuple[Value, np.ndarray]:
    stored = rng.integers(-127, 128, shape).astype(np.int8)
    return dequantized(b, b.constant(stored, "w"), exponent), np.ldexp(stored.astype(np.float64), -exponent)


def convolution(image: np.ndarray, filters: np.ndarray, groups: int) -> np.ndarray:
    """A convolution padded by 1 above and below, in NumPy."""
    image = np.pad(image, ((0, 0), (0, 0), (1, 1), (0, 0)))
    inner, high, wide = filters.shape[1:]
    windows = np.lib.stride_tricks.sliding_window_view(image, (high, wide), axis=(2, 3))
    parts = [
        np.einsum("nchwyx,ocyx->nohw", windows[:, g * inner : (g + 1) * inner], part)
        for g, part in enumerate(np.split(filters, groups))
    ]
    return np.concatenate(parts, axis=1)
