"""Converters for functions of several tensors that broadcast, and for matrix products."""

from __future__ import annotations

import math
from typing import Any

from ....errors import UnsupportedOperator
from ...common.operand import Operand
from ..context import TorchNodeContext
from ..registry import converter


@converter("add.Tensor", "add.Scalar")
def add(n: TorchNodeContext) -> Any:
    """Return self + alpha * other."""
    a, b = _operands_of_sum(n)
    return n.op("logical_or" if n.dtype.is_bool else "add", a, b)


@converter("sub.Tensor", "sub.Scalar")
def sub(n: TorchNodeContext) -> Any:
    """Return self - alpha * other."""
    return n.op("subtract", *_operands_of_sum(n))


@converter("rsub.Tensor", "rsub.Scalar")
def rsub(n: TorchNodeContext) -> Any:
    """Return other - alpha * self."""
    a, b = (n.of_dtype(n.attr(name), n.dtype) for name in ("self", "other"))
    return n.op("subtract", b, scaled(n, a, n.attr("alpha")))


def _operands_of_sum(n: TorchNodeContext) -> tuple[Operand, Operand]:
    a, b = (n.of_dtype(n.attr(name), n.dtype) for name in ("self", "other"))
    return a, scaled(n, b, n.attr("alpha"))


def scaled(n: TorchNodeContext, x: Operand, factor: Any) -> Operand:
    """Return factor * x."""
    if isinstance(factor, int | float) and factor == 1:
        return x
    product: Operand = n.op("multiply", x, n.of_dtype(factor, x.dtype))
    return product


@converter("div.Tensor", "div.Scalar", "div.Tensor_mode", "div.Scalar_mode", "true_divide.Tensor")
def div(n: TorchNodeContext) -> Any:
    """Return the quotient, or its integer part (`trunc`), or its floor."""
    mode = n.attr("rounding_mode") if "rounding_mode" in n.values else None
    a, b = (n.of_dtype(n.attr(name), n.dtype) for name in ("self", "other"))
    if mode == "floor":
        return floored(n, a, b)
    quotient = n.op("divide", a, b)
    return n.op("trunc", quotient) if mode == "trunc" and n.dtype.is_float else quotient


@converter("floor_divide.default")
def floor_divide(n: TorchNodeContext) -> Any:
    return floored(n, *(n.of_dtype(n.attr(name), n.dtype) for name in ("self", "other")))


def floored(n: TorchNodeContext, a: Operand, b: Operand) -> Any:
    """Return the floor of the exact quotient, as in Python: 7.5 // 0.1 is 74, because 0.1 is a little more than a
    tenth.

    The remainder of `fmod` is exact, so a minus the remainder is a multiple of b, up to one rounding. A quotient of 0
    keeps its sign. If b is 0, the result is a / b.
    """
    if not n.dtype.is_float:
        return n.op("floor_divide", a, b)
    if n.dtype.bits < 32:
        return n.cast(_floored(n, n.cast(a, "float32"), n.cast(b, "float32")), n.dtype)
    return _floored(n, a, b)


def _floored(n: TorchNodeContext, a: Operand, b: Operand) -> Any:
    zero = n.of_dtype(0.0, a.dtype)
    rest, ratio = n.op("mod", a, b), n.op("divide", a, b)
    whole = n.op("divide", n.op("subtract", a, rest), b)
    signs_differ = n.op("logical_xor", n.op("less", b, zero), n.op("less", rest, zero))
    is_below = n.op("logical_and", n.op("not_equal", rest, zero), signs_differ)
    whole = n.op("where", is_below, n.op("subtract", whole, 1.0), whole)
    floor = n.op("floor", whole)
    nearest = n.op("where", n.op("greater", n.op("subtract", whole, floor), 0.5), n.op("add", floor, 1.0), floor)
    with_zeros = n.op("where", n.op("not_equal", whole, zero), nearest, n.op("multiply", ratio, zero))
    return n.op("where", n.op("equal", b, zero), ratio, with_zeros)


@converter("pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar")
def power(n: TorchNodeContext) -> Any:
    base, exponent = (n.of_dtype(n.attr(name), n.dtype) for name in ("self", "exponent"))
    number = n.attr("exponent")
    if isinstance(number, int | float):
        if number == 2:
            return n.op("multiply", base, base)
        if base.dtype.is_float and number in _POWERS:
            return n.op(_POWERS[number], base)
    if base.dtype.is_int:
        return _power_by_number(n, base, number) if isinstance(number, int) else _integer_power(n, base, exponent)
    return n.op("power", base, exponent)


def _power_by_number(n: TorchNodeContext, base: Operand, number: int) -> Operand:
    """Return an integer power as a product of squares, which is exact, unlike floats, which do not have 64 bits."""
    if number < 0:
        n.refuse(f"integers to the power of {number} are not supported")
    result: Operand = n.op("full", shape=() if number else n.shape, fill_value=1, dtype=str(base.dtype))
    while number:
        result = n.op("multiply", result, base) if number & 1 else result
        number >>= 1
        base = n.op("multiply", base, base) if number else base
    return result


def _integer_power(n: TorchNodeContext, base: Operand, exponent: Operand) -> Operand:
    """Return the product of the squares that the exponent's bits select. A negative exponent gives 0, except for 1 and
    -1.

    For 1 and -1, only the lowest bit matters. For other numbers, exponents of 256 and more overflow.
    """
    zero, one = n.of_dtype(0, base.dtype), n.of_dtype(1, base.dtype)
    result, square = one, base
    for bit in range(min(8, base.dtype.bits - 1)):
        is_set = n.op("not_equal", n.op("bitwise_and", exponent, n.of_dtype(1 << bit, base.dtype)), zero)
        result = n.op("where", is_set, n.op("multiply", result, square), result)
        square = n.op("multiply", square, square)
    is_unit = n.op("logical_or", n.op("equal", base, one), n.op("equal", base, n.of_dtype(-1, base.dtype)))
    vanishes = n.op("logical_and", n.op("less", exponent, zero), n.op("logical_not", is_unit))
    of_zero = n.op("logical_and", n.op("equal", base, zero), n.op("not_equal", exponent, zero))
    whole: Operand = n.op("where", n.op("logical_or", vanishes, of_zero), zero, result)
    return whole


_POWERS = {0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal", 1: "copy"}


def _register_number(aten: str, relay: str) -> None:
    @converter(f"{aten}.default")
    def _(n: TorchNodeContext) -> Any:
        """Return the larger or smaller number. If one is NaN, the result is the other one."""
        a, b = (n.cast(n[name], n.dtype) for name in ("self", "other"))
        if n.dtype.is_bool:
            return n.op("logical_or" if relay == "maximum" else "logical_and", a, b)
        extreme = n.op(relay, a, b)
        if not n.dtype.is_float:
            return extreme
        return n.op("where", n.op("isnan", a), b, n.op("where", n.op("isnan", b), a, extreme))


for _aten, _relay in {"fmax": "maximum", "fmin": "minimum"}.items():
    _register_number(_aten, _relay)


@converter("copysign.Tensor", "copysign.Scalar")
def copysign(n: TorchNodeContext) -> Any:
    """Return the magnitude of one number with the sign of another, including the signs of zeros and NaN."""
    x, other = (n.of_dtype(n.attr(name), n.dtype) for name in ("self", "other"))
    size = n.op("abs", x)
    return n.op("where", is_signed(n, other), n.op("negative", size), size)


@converter("signbit.default")
def signbit(n: TorchNodeContext) -> Any:
    return is_signed(n, n["self"])


def is_signed(n: TorchNodeContext, x: Operand) -> Operand:
    """Return whether each element has a minus sign."""
    if x.dtype.is_float:
        x = n.op("reinterpret", x, dtype=f"int{x.dtype.bits}")
    if x.dtype.kind != "int":
        nothing: Operand = n.op("full", shape=x.shape, fill_value=0, dtype="bool")
        return nothing
    result: Operand = n.op("less", x, n.of_dtype(0, x.dtype))
    return result


@converter("hypot.default")
def hypot(n: TorchNodeContext) -> Any:
    """Return sqrt(a^2 + b^2), divided by the larger one so that squares neither overflow nor underflow."""
    a, b = (n.op("abs", n.cast(n[name], n.dtype)) for name in ("self", "other"))
    high, low = n.op("maximum", a, b), n.op("minimum", a, b)
    zero, infinite = n.of_dtype(0.0, n.dtype), n.of_dtype(math.inf, n.dtype)
    share = n.op("divide", low, n.op("where", n.op("equal", high, zero), n.of_dtype(1.0, n.dtype), high))
    root = n.op("multiply", high, n.op("sqrt", n.op("add", n.op("multiply", share, share), 1.0)))
    is_infinite = n.op("logical_or", n.op("equal", a, infinite), n.op("equal", b, infinite))
    return n.op("where", is_infinite, infinite, root)


@converter("ldexp.Tensor")
def ldexp(n: TorchNodeContext) -> Any:
    """Return self * 2^other."""
    exponent = n.cast(n["other"], n.dtype)
    return n.op("multiply", n.cast(n["self"], n.dtype), n.op("power", n.of_dtype(2.0, n.dtype), exponent))


@converter("clamp.Tensor")
def clamp(n: TorchNodeContext) -> Any:
    x = n.cast(n["self"], n.dtype)
    low, high = n.optional("min"), n.optional("max")
    x = x if low is None else n.op("maximum", x, n.cast(low, n.dtype))
    return x if high is None else n.op("minimum", x, n.cast(high, n.dtype))


@converter("where.self")
def where(n: TorchNodeContext) -> Any:
    a, b = (n.of_dtype(n.attr(name), n.dtype) for name in ("self", "other"))
    return n.op("where", n["condition"], a, b)


@converter("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(n: TorchNodeContext) -> Any:
    return n.op("where", n["mask"], n.of_dtype(n.attr("value"), n.dtype), n["self"])


# --- matrix products ---


@converter("linear.default")
def linear(n: TorchNodeContext) -> Any:
    """Return x W' + b, with weights [outputs, inputs]."""
    x, weight, bias = n["input"], n["weight"], n.optional("bias")
    product = n.op("nn.dense", x, weight)
    return product if bias is None else n.op("add", product, bias)


@converter("addmm.default")
def addmm(n: TorchNodeContext) -> Any:
    return _with_addend(n, n.op("nn.matmul", n["mat1"], n["mat2"]))


@converter("baddbmm.default")
def baddbmm(n: TorchNodeContext) -> Any:
    return _with_addend(n, n.op("nn.matmul", n["batch1"], n["batch2"]))


@converter("addmv.default")
def addmv(n: TorchNodeContext) -> Any:
    return _with_addend(n, n.op("nn.matmul", n["mat"], n["vec"]))


@converter("addbmm.default")
def addbmm(n: TorchNodeContext) -> Any:
    return _with_addend(n, n.op("sum", n.op("nn.matmul", n["batch1"], n["batch2"]), axis=(0,)))


def _with_addend(n: TorchNodeContext, product: Operand) -> Any:
    """Return beta * self + alpha * product."""
    beta, total = n.attr("beta"), scaled(n, product, n.attr("alpha"))
    n.ignore("self")
    return total if beta == 0 else n.op("add", total, scaled(n, n["self"], beta))


@converter("_trilinear.default")
def trilinear(n: TorchNodeContext) -> Any:
    """Return the sum of products of three tensors, as in `nn.Bilinear`. `expand` lists the axes that each tensor
    lacks.
    """
    letters = "abcdefghijklmnopqrstuvwxyz"
    expanded = [n.attr(f"expand{k}") for k in (1, 2, 3)]
    rank = n["i1"].ndim + len(expanded[0])
    axes = [[a for a in range(rank) if a not in without] for without in (*expanded, n.attr("sumdim"))]
    *operands, result = ["".join(letters[a] for a in listed) for listed in axes]
    n.ignore("unroll_dim")
    return n.op("einsum", n["i1"], n["i2"], n["i3"], equation=f"{','.join(operands)}->{result}")


@converter("einsum.default")
def einsum(n: TorchNodeContext) -> Any:
    """Return an Einstein summation. The operator itself handles repeated labels."""
    equation = n.attr("equation").replace(" ", "")
    n.ignore("path")
    if "..." in equation:
        raise UnsupportedOperator(f"{n.where}: an ellipsis in {equation!r} is not supported")
    if "->" not in equation:
        labels = equation.replace(",", "")
        equation += "->" + "".join(sorted(c for c in set(labels) if labels.count(c) == 1))
    return n.op("einsum", *n.operands("tensors"), equation=equation)
