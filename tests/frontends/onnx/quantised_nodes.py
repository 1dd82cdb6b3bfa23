"""Random nodes of quantised arithmetic."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .one_node import Drawing, Node
from .window_nodes import window


def _zero(d: Drawing, dtype: str, shape: Sequence[int] = ()) -> np.ndarray | None:
    return d.data(shape, dtype, *((0, 255) if dtype == "uint8" else (-128, 127))) if d.int(0, 3) else None


def _bytes(d: Drawing, shape: Sequence[int], dtype: str) -> np.ndarray:
    return d.data(shape, dtype, -128, 255 if dtype == "uint8" else 127)


def matmul_integer(d: Drawing) -> Node:
    m, k, n = d.int(1, 4), d.int(1, 5), d.int(1, 4)
    left, right = d.one("uint8", "int8"), d.one("uint8", "int8")
    inputs = {"a": _bytes(d, [m, k], left), "b": _bytes(d, [k, n], right), "za": _zero(d, left)}
    inputs["zb"] = _zero(d, right, d.one([], [n]))
    if inputs["zb"] is None:
        del inputs["zb"]
    return d.node("MatMulInteger", inputs)


def qlinear_matmul(d: Drawing) -> Node:
    """One scale and zero point a tensor, or one a row of the left operand, one a column of the right one."""
    m, k, n = d.int(1, 4), d.int(1, 5), d.int(1, 4)
    lead = [d.int(1, 2)] if d.flag() else []

    def scale(shape: Sequence[int]) -> np.ndarray:
        return np.asarray(d.rng.choice(np.array([0.5, 1.0, 2.0, 4.0], np.float32), shape), np.float32)

    rows, columns = ([*lead, m, 1], [*lead, 1, n]) if lead else ([m], [n])
    rows, columns = (d.one([], [1], each) for each in (rows, columns))
    left, right, out = (d.one("uint8", "int8") for _ in range(3))
    sa, sb, sy = scale(rows), scale(columns), scale([]) * np.float32(64)
    za, zb, zy = _bytes(d, rows, left), _bytes(d, columns, right), _bytes(d, [], out)
    inputs = {"a": _bytes(d, [*lead, m, k], left), "sa": sa, "za": za, "b": _bytes(d, [*lead, k, n], right), "sb": sb,
              "zb": zb, "sy": sy, "zy": zy}  # fmt: skip

    def definition() -> list[np.ndarray]:
        def real(q: np.ndarray, s: np.ndarray, z: np.ndarray, by_row: bool) -> np.ndarray:
            wide = (p[:, None] if by_row and p.ndim == 1 else p for p in (s, z.astype(np.float64)))
            by, zero = wide
            return (q - zero) * by

        exact = real(inputs["a"], sa, za, True) @ real(inputs["b"], sb, zb, False)
        limits = np.iinfo(out)
        return [np.clip(np.rint(exact / sy) + zy, limits.min, limits.max).astype(out)]

    return d.node("QLinearMatMul", inputs, definition=definition)


def conv_integer(d: Drawing) -> Node:
    extents = [d.int(3, 5), d.int(3, 5)]
    kernel, attrs = window(d, extents)
    channels, dtype = d.int(1, 3), d.one("uint8", "int8")
    inputs = {"x": _bytes(d, [1, channels, *extents], dtype), "w": _bytes(d, [d.int(1, 3), channels, *kernel], "uint8")}
    inputs["zx"] = _zero(d, dtype)
    inputs["zw"] = _zero(d, "uint8")
    if inputs["zw"] is None:
        del inputs["zw"]
    return d.node("ConvInteger", inputs, attrs)


def quantize(d: Drawing) -> Node:
    shape = d.shape(1, 3)
    axis, dtype = d.axis(len(shape)), d.one("uint8", "int8")
    several = d.flag()
    own = [shape[axis]] if several else []
    scale = np.asarray(d.rng.choice(np.array([0.5, 1.0, 2.0, 4.0], np.float32), own), np.float32)
    zero = d.data(own, dtype, -8, 8)
    attrs = {"axis": axis} if several else {}
    if d.flag():
        x = (d.data(shape, "float32", -300, 300) / 2).astype("float32")
        return d.node("QuantizeLinear", {"x": x, "s": scale, "z": zero}, attrs, opset=19)
    inputs = {"x": d.data(shape, dtype, -100, 100), "s": scale, "z": zero}
    return d.node("DequantizeLinear", inputs, attrs, opset=19)


def dynamic(d: Drawing) -> Node:
    low = d.one(-9, 0, 2)
    x = d.data(d.shape(1, 3), "float32", low, d.one(max(low, -1), max(low, 9)))
    return d.node("DynamicQuantizeLinear", {"x": x}, outputs=3)
