"""What constants of floats fold to, and what neutral elements leave, for all pairs of values that are special.

The judge is the interpreter. A fold may be left out; it may not change a bit, but those of a NaN.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from minitvm.arith import simplify
from minitvm.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    Cast,
    DataVar,
    Div,
    DType,
    Expr,
    FloatImm,
    IntImm,
    Max,
    Min,
    Mul,
    Sub,
    free_vars,
)
from minitvm.expr.dtypes import limits
from minitvm.reference.meaning.scalar import evaluate

FLOATS = ("float16", "bfloat16", "float32", "float64")
ARITHMETIC: tuple[Any, ...] = (Add, Sub, Mul, Div, Min, Max)
COMPARISONS: tuple[Any, ...] = (EQ, NE, LT, LE, GT, GE)


def special(dtype: str) -> list[float]:
    """Zeros of both signs, the ends of the range and beyond, NaN, and numbers that no rounding keeps apart."""
    of = limits(DType(dtype).numpy)
    tiny, most, step = float(of.smallest_subnormal), float(of.max), float(of.eps)
    one_side = [0.0, tiny, float(of.tiny), 0.5, 1.0, 1.0 + step, 3.0, most / 2, most, math.inf]
    return [math.nan, *one_side, *(-value for value in one_side)]


def same(a: Any, b: Any) -> bool:
    """Whether two numbers are the same in every bit, or both NaN."""
    a, b = np.float64(a), np.float64(b)
    return bool(np.isnan(a) and np.isnan(b)) or (a == b and bool(np.signbit(a) == np.signbit(b)))


def constants_fold_to_their_value() -> None:
    """All operations on all pairs of special constants."""
    for dtype, kind in itertools.product(FLOATS, (*ARITHMETIC, *COMPARISONS)):
        for a, b in itertools.product(special(dtype), repeat=2):
            e = kind(FloatImm(a, DType(dtype)), FloatImm(b, DType(dtype)))
            folded = simplify(e)
            if isinstance(folded, FloatImm | IntImm):
                assert folded.dtype == e.dtype
                assert same(folded.value, evaluate(e)), f"{e} -> {folded}, is {evaluate(e)}"


def neutral_elements_are_neutral() -> None:
    """An operation on a variable and a special constant, at all special values of the variable."""
    for dtype, kind, turned in itertools.product(FLOATS, ARITHMETIC, (False, True)):
        x = DataVar("x", DType(dtype))
        for constant in special(dtype):
            c = FloatImm(constant, DType(dtype))
            e: Expr = kind(c, x) if turned else kind(x, c)
            simple = simplify(e)
            for value in special(dtype):
                env = {x: DType(dtype).numpy.type(value)}
                got = evaluate(simple, {v: env[v] for v in free_vars(simple)})
                assert same(got, evaluate(e, env)), f"{e} -> {simple} at {value}"


def casts_of_constants_keep_their_value() -> None:
    """From every float to every other one."""
    for source, to in itertools.product(FLOATS, repeat=2):
        for value in (*special(source), *(v for v in special(to) if v == DType(source).numpy.type(v))):
            e = Cast(DType(to), FloatImm(value, DType(source)))
            folded = simplify(e)
            if isinstance(folded, FloatImm):
                assert same(folded.value, evaluate(e)), f"{e} -> {folded}, is {evaluate(e)}"


@pytest.mark.parametrize(
    "theorem", [constants_fold_to_their_value, neutral_elements_are_neutral, casts_of_constants_keep_their_value]
)
def test_floats_fold_bit_for_bit(theorem: Any) -> None:
    with np.errstate(all="ignore"):
        theorem()
