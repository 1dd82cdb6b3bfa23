"""Moves of quantised networks: islands of bytes between QuantizeLinear and DequantizeLinear, integer products."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import TensorProto

from .growing import MixedGraph, Unfit
from .moves import axis_of, move, ranked

# ONNX Runtime sums pairs of products in 16 bits on processors without VNNI: weights have 7 bits.


def _scale(g: MixedGraph, shape: Sequence[int] = ()) -> str:
    return g.constant(g.d.rng.uniform(0.02, 0.1, tuple(shape)).astype(np.float32))


def _zero(g: MixedGraph, dtype: str, shape: Sequence[int] = ()) -> str:
    return g.constant(g.d.data(shape, dtype, 100, 140) if dtype == "uint8" else g.d.data(shape, dtype, -9, 9))


def _quantised(g: MixedGraph, x: str, dtype: str | None = None) -> tuple[str, str, str]:
    scale, zero = _scale(g), _zero(g, dtype or g.d.one("uint8", "int8"))
    return g.hidden("QuantizeLinear", [x, scale, zero]), scale, zero


def _back(g: MixedGraph, q: tuple[str, str, str]) -> str:
    return g.node("DequantizeLinear", q)[0]


@move
def island(g: MixedGraph) -> None:
    """Bytes that are moved, cut or pooled before they are numbers again."""
    x = g.singles(ranked(1, 5))
    q, scale, zero = _quantised(g, x)
    a = g.arrays[x]
    kind = g.d.one("Identity", "Transpose", "Reshape", "Concat", "MaxPool", "Slice", "Relu")
    if kind == "Transpose":
        q = g.hidden(kind, [q], perm=g.d.permuted(range(a.ndim)))
    elif kind == "Reshape":
        q = g.hidden(kind, [q, g.ints(-1) if a.size else g.ints(0)])
    elif kind == "Concat":
        q = g.hidden(kind, [q, q], axis=axis_of(g, a))
    elif kind == "MaxPool" and a.ndim == 4:
        q = g.hidden(kind, [q], kernel_shape=[2, 2], pads=[0, 0, g.d.int(0, 1), 1])
    elif kind == "Slice":
        q = g.hidden(kind, [q, g.ints(0), g.ints(g.d.int(0, 4)), g.ints(axis_of(g, a))])
    _back(g, (q, scale, zero))


@move
def along_an_axis(g: MixedGraph) -> None:
    x = g.singles(ranked(1, 4))
    a = g.arrays[x]
    axis = axis_of(g, a)
    scale, zero = _scale(g, [a.shape[axis]]), _zero(g, "int8", [a.shape[axis]])
    g.node("DequantizeLinear", [g.hidden("QuantizeLinear", [x, scale, zero], axis=axis), scale, zero], axis=axis)


@move
def between_bytes(g: MixedGraph) -> None:
    """An operator of floats whose operands and result are bytes: what quantised networks look like."""
    x = g.singles(ranked(1, 4))
    left = _back(g, _quantised(g, x))
    kind = g.d.one("Add", "Mul", "MatMul", "Conv", "Relu", "Sigmoid", "Softmax", "AveragePool", "ConvTranspose", "Gemm")
    a = g.arrays[left]
    if kind in ("Add", "Mul"):
        y = g.hidden(kind, [left, _back(g, _quantised(g, g.operand(a.shape, "float32")))])
    elif kind in ("MatMul", "Gemm"):
        units = g.d.one(1, 4, 16)
        stored = g.constant(g.d.data([a.shape[-1], units], "int8", -60, 60))
        per = g.d.flag()
        weight = g.hidden(
            "DequantizeLinear", [stored, _scale(g, [units] if per else [])], **({"axis": 1} if per else {})
        )
        y = g.hidden(kind, [left, weight])
    elif kind in ("Conv", "ConvTranspose"):
        if a.ndim not in (3, 4) or not a.shape[1]:
            raise Unfit
        shape = [g.d.int(1, 4), a.shape[1]]
        shape = shape if kind == "Conv" else shape[::-1]
        kernel = [g.d.int(1, 3) for _ in range(a.ndim - 2)]
        stored = g.constant(g.d.data([*shape, *kernel], "int8", -60, 60))
        weight = g.hidden("DequantizeLinear", [stored, _scale(g)])
        y = g.hidden(kind, [left, weight], pads=[1] * (2 * len(kernel)), strides=[g.d.int(1, 2) for _ in kernel])
    elif kind == "AveragePool":
        if a.ndim != 4:
            raise Unfit
        y = g.hidden(kind, [left], kernel_shape=[2, 2])
    else:
        y = g.hidden(kind, [left])
    _back(g, _quantised(g, y))


@move
def dynamic(g: MixedGraph) -> None:
    x = g.singles(lambda a: a.ndim >= 2 and a.size > 0)
    q, scale, zero = g.node("DynamicQuantizeLinear", [x], 3, hidden=True)
    depth, units = g.arrays[x].shape[-1], g.d.one(1, 5, 16)
    w, wz = g.constant(g.d.data([depth, units], "int8", -60, 60)), g.constant(g.d.int(-3, 3), "int8")
    total = g.hidden("MatMulInteger", [q, w, zero, wz])
    g.node("Mul", [g.hidden("Cast", [total], to=TensorProto.FLOAT), g.hidden("Mul", [scale, _scale(g)])])


@move
def linear(g: MixedGraph) -> None:
    """QLinearMatMul and QLinearConv, and back to floats."""
    x = g.singles(lambda a: a.ndim >= 2 and a.shape[-1] > 0)  # of no terms ONNX Runtime's sum is whatever is there
    a = g.arrays[x]
    q = _quantised(g, x)
    scale, zero = g.constant(g.d.one(0.1, 0.5), "float32"), _zero(g, str(g.arrays[q[0]].dtype))
    if a.ndim == 4 and a.shape[1] and g.d.flag():
        filters = g.d.int(1, 4)
        w = g.constant(g.d.data([filters, a.shape[1], g.d.int(1, 3), g.d.int(1, 3)], "int8", -60, 60))
        per = [filters] if g.d.flag() else []
        bias = [g.constant(g.d.data([filters], "int32", -900, 900))] if g.d.flag() else []
        y = g.hidden("QLinearConv", [*q, w, _scale(g, per), g.constant(np.zeros(per, np.int8)), scale, zero, *bias],
                     pads=[g.d.int(0, 1) for _ in range(4)])  # fmt: skip
    else:
        units = g.d.one(1, 6, 16)
        w = g.constant(g.d.data([a.shape[-1], units], "int8", -60, 60))
        y = g.hidden("QLinearMatMul", [*q, w, _scale(g), g.constant(0, "int8"), scale, zero])
    _back(g, (y, scale, zero))
