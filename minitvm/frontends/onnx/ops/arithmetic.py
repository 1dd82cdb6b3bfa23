"""Converters for functions of several tensors that broadcast, and for matrix products."""

from __future__ import annotations

from typing import Any

from ...common.operand import Operand
from ..context import NodeContext
from ..registry import converter


def _chain(relay: str) -> Any:
    def convert(n: NodeContext) -> Any:
        total, *rest = n.present
        for x in rest:
            total = n.op(relay, total, x)
        return n.op("copy", total) if not rest else total

    return convert


for _name, _relay in {"Max": "maximum", "Min": "minimum", "Sum": "add"}.items():
    converter(_name)(_chain(_relay))


@converter("Mean")
def mean(n: NodeContext) -> Any:
    return n.op("divide", _chain("add")(n), len(n.inputs))


@converter("Mod")
def mod(n: NodeContext) -> Any:
    """Return the remainder: `fmod` 1 takes the sign of the dividend, and 0 takes that of the divisor."""
    return n.op("mod" if n.attr("fmod", 0) else "floor_mod", n[0], n[1])


@converter("Pow")
def power(n: NodeContext) -> Any:
    """Return the power, in the base's dtype. An integer base with a float exponent is computed in floats."""
    base, exponent = n[0], n[1]
    if base.dtype == exponent.dtype:
        return n.op("power", base, exponent)
    if base.dtype.is_float:
        return n.op("power", base, n.cast(exponent, base.dtype))
    if exponent.dtype.is_float:
        result = n.op("power", n.cast(base, "float64"), n.cast(exponent, "float64"))
        return n.cast(result, base.dtype)
    return n.op("power", base, n.cast(exponent, base.dtype))


@converter("BitShift")
def bit_shift(n: NodeContext) -> Any:
    names = {"LEFT": "left_shift", "RIGHT": "right_shift"}
    direction = n.attr("direction")
    if direction not in names:
        n.refuse_attribute("direction")
    return n.op(names[direction], n[0], n[1])


@converter("Gemm")
def gemm(n: NodeContext) -> Any:
    """Return alpha * A' B' + beta * C."""
    a, b, c = n[0], n[1], n.optional(2)
    alpha, beta = n.attr("alpha", 1.0), n.attr("beta", 1.0)
    if a.ndim != 2 or b.ndim != 2:
        n.refuse(f"A and B have two dimensions, found {a} and {b}")
    a = n.op("transpose", a, axes=(1, 0)) if n.attr("transA", 0) else a
    product = n.op("nn.dense", a, b) if n.attr("transB", 0) else n.op("nn.matmul", a, b)
    product = _scaled(n, product, alpha)
    if c is None or beta == 0:
        return product
    return n.onto("add", product, _scaled(n, c, beta))


def _scaled(n: NodeContext, x: Operand, factor: float) -> Operand:
    if factor == 1:
        return x
    if not x.dtype.is_float and factor != int(factor):
        n.refuse_dtype(x.dtype)
    return n.op("multiply", x, factor if x.dtype.is_float else int(factor))
