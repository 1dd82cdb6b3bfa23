"""Hypothesis strategy: random scalar expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from minitvm.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    And,
    Call,
    Cast,
    Div,
    DType,
    Expr,
    FloorDiv,
    FloorMod,
    Let,
    Max,
    Min,
    Mod,
    Not,
    Or,
    Select,
    Var,
    binary,
    call,
    const,
)

Draw = Callable[[st.SearchStrategy[Any]], Any]

ARITHMETIC = ("+", "-", "*", "min", "max")
_COMPARISONS = (EQ, NE, LT, LE, GT, GE)


@st.composite
def exprs(
    draw: Draw,
    variables: Sequence[Expr] = (),
    dtype: str = "int32",
    max_depth: int = 3,
    divisions: bool = True,
    constants: tuple[int, int] = (-9, 9),
    intrinsics: bool = False,
) -> Expr:
    """Draw a scalar expression of a dtype over the given variables (in casts and conditions also over other dtypes).

    It has floor and truncating divisions by nonzero constants; float expressions have no divisions. Unsigned dtypes
    only get nonnegative constants. The dtype "bool" gives a condition. With `intrinsics`, it has lets, and intrinsics
    that do not round when they are applied to integers or halves.
    """
    if dtype == "bool":
        return _condition(draw, variables, max_depth, divisions, constants)
    if max_depth == 0 or draw(st.integers(0, 4)) == 0:
        return _leaf(draw, variables, dtype, constants)
    inner = exprs(variables, dtype, max_depth - 1, divisions, constants, intrinsics)
    if intrinsics and draw(st.booleans()):
        return _intrinsic(draw, inner, DType(dtype))
    is_float = dtype.startswith("float")
    choices = [*ARITHMETIC, "select", "if_then_else"]
    if divisions and not is_float:
        choices += ["//", "%", "truncdiv", "truncmod"]
    kind = draw(st.sampled_from(choices))
    if kind in ("select", "if_then_else"):
        condition = _condition(draw, variables, max_depth - 1, divisions, constants)
        first, second = draw(inner), draw(inner)
        return Select(condition, first, second) if kind == "select" else call("if_then_else", condition, first, second)
    if kind in ("//", "%", "truncdiv", "truncmod"):
        low = 1 if dtype.startswith("u") else constants[0]
        divisor = draw(_nonzero(low, constants[1]))
        node = {"//": FloorDiv, "%": FloorMod, "truncdiv": Div, "truncmod": Mod}[kind]
        return node(draw(inner), const(divisor, dtype))
    return combine(kind, draw(inner), draw(inner))


WHOLE = ("floor", "ceil", "trunc", "round", "nearbyint")
_TESTS = ("isnan", "isinf", "isfinite")
_BITS = ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "shift_left", "shift_right", "popcount")


def _intrinsic(draw: Draw, inner: st.SearchStrategy[Expr], dtype: DType) -> Expr:
    """Draw an intrinsic of one or two expressions whose value is again an integer."""
    a = draw(inner)
    of_any = ["let", "abs", "likely", "reinterpret"]
    of_floats = (*WHOLE, "copysign", "fmod", "test", "fma")
    fixed_point = ("q_multiply_shift", "dot4_u8i8") if dtype == "int32" else ()
    of_words = ("dot2_bf16", "round_tf32") if dtype == "float32" else ()
    kind = draw(st.sampled_from([*of_any, *((*of_floats, *of_words) if dtype.is_float else (*_BITS, *fixed_point))]))
    if kind == "let":
        variable = Var("t", dtype)
        return Let(variable, a, variable * variable - draw(inner))
    if kind == "abs" or kind in ("bitwise_not", "popcount"):
        return a if dtype.kind == "uint" and kind == "abs" else call(kind, a)
    if kind == "likely":
        return Select(call("likely", a > draw(inner)), a, draw(inner))
    if kind == "reinterpret":  # there and back
        other = DType({"int": "uint", "uint": "int", "float": "int"}[dtype.kind] + str(dtype.bits))
        return Call(dtype, "reinterpret", (Call(other, "reinterpret", (a,)),))
    if kind in WHOLE:
        return call(kind, a * const(0.5, dtype))
    if kind == "test":
        return Select(call(draw(st.sampled_from(_TESTS)), a), draw(inner), a)
    if kind == "fma":
        return call("fma", a, draw(inner), draw(inner))
    if kind == "dot2_bf16":
        words = call(kind, draw(st.sampled_from([const(0.0, "float32"), a])), draw(_words()), draw(_words()))
        return a + words
    if kind == "round_tf32":
        return call(kind, a + const(1 / 2048, dtype))
    if kind == "fmod":
        return call("fmod", a, const(draw(st.sampled_from([2, 3, -3])), dtype))
    if kind == "q_multiply_shift":
        return call(kind, a, draw(inner), const(draw(st.integers(2, 4))), const(draw(st.integers(0, 2))))
    if kind.startswith("shift"):
        return call(kind, a, const(draw(st.integers(0, 3)), dtype))
    return call(kind, a, draw(inner))


def _words() -> st.SearchStrategy[Expr]:
    """Draw two small integers in bfloat16, packed into an int32."""
    pairs = st.lists(st.integers(-3, 3), min_size=2, max_size=2)
    return pairs.map(lambda pair: const(int(np.array(pair, DType("bfloat16").numpy).view(np.int32)[0])))


def _nonzero(low: int, high: int) -> st.SearchStrategy[int]:
    """Draw an integer from low to high except zero, without filtering."""
    return st.sampled_from([v for v in sorted(range(low, high + 1), key=abs) if v])


def combine(kind: str, a: Expr, b: Expr) -> Expr:
    if kind in ("min", "max"):
        return binary(Min if kind == "min" else Max, a, b)
    return {"+": a.__add__, "-": a.__sub__, "*": a.__mul__}[kind](b)


def _leaf(draw: Draw, variables: Sequence[Expr], dtype: str, constants: tuple[int, int]) -> Expr:
    same = [v for v in variables if v.dtype == dtype]
    other = [Cast(v.dtype.__class__(dtype), v) for v in variables if v.dtype != dtype]
    pool = [*same, *same, *other]  # a cast is the rarer choice
    if pool and draw(st.integers(0, 3)) > 0:
        return draw(st.sampled_from(pool))
    low = max(0, constants[0]) if dtype.startswith("u") else constants[0]
    return const(draw(st.integers(low, constants[1])), dtype)


def _condition(
    draw: Draw, variables: Sequence[Expr], max_depth: int, divisions: bool, constants: tuple[int, int]
) -> Expr:
    kind = draw(st.sampled_from(["compare", "compare", "and", "or", "not"])) if max_depth > 0 else "compare"
    if kind == "compare":
        dtypes = sorted({str(v.dtype) for v in variables if not v.dtype.is_bool}) or ["int32"]
        inner = exprs(variables, draw(st.sampled_from(dtypes)), max(0, max_depth - 1), divisions, constants)
        return draw(st.sampled_from(_COMPARISONS))(draw(inner), draw(inner))
    first = _condition(draw, variables, max_depth - 1, divisions, constants)
    if kind == "not":
        return Not(first)
    second = _condition(draw, variables, max_depth - 1, divisions, constants)
    return And(first, second) if kind == "and" else Or(first, second)
