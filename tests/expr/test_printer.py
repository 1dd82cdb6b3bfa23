"""Printed expressions mean what they print: Python evaluates the text to what the tree evaluates to."""

from __future__ import annotations

import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm import expr as x
from minitvm.expr import Expr, IntImm, Var
from minitvm.reference.strategies import exprs

NAMES = ["i", "j", "k"]
VARIABLES = [Var(name) for name in NAMES]


def truncdiv(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


PYTHON = {
    x.Add: operator.add, x.Sub: operator.sub, x.Mul: operator.mul, x.FloorDiv: operator.floordiv,
    x.FloorMod: operator.mod, x.Min: min, x.Max: max, x.EQ: operator.eq, x.NE: operator.ne, x.LT: operator.lt,
    x.LE: operator.le, x.GT: operator.gt, x.GE: operator.ge, x.And: lambda a, b: a and b, x.Or: lambda a, b: a or b,
    x.Div: truncdiv, x.Mod: lambda a, b: a - b * truncdiv(a, b),
}  # fmt: skip


def value_of(e: Expr, values: dict[str, int]) -> int:
    """The tree evaluated over unbounded integers, without its text."""
    if isinstance(e, Var):
        return values[e.name]
    if isinstance(e, IntImm):
        return e.value
    if isinstance(e, x.Not):
        return not value_of(e.a, values)
    operands = [value_of(c, values) for c in x.children(e)]  # type: ignore[arg-type]
    if isinstance(e, x.Select | x.Call):
        return operands[1] if operands[0] else operands[2]
    return PYTHON[type(e)](*operands)


FUNCTIONS = {
    "truncdiv": truncdiv,
    "truncmod": PYTHON[x.Mod],
    "Select": lambda c, a, b: a if c else b,
    "if_then_else": lambda c, a, b: a if c else b,
}


@given(exprs(VARIABLES, "int32", max_depth=6), st.lists(st.integers(-20, 20), min_size=3, max_size=3))
def test_text_evaluates_to_what_the_tree_does(e: Expr, numbers: list[int]) -> None:
    values = dict(zip(NAMES, numbers))
    assert eval(str(e), {**FUNCTIONS, **values}) == value_of(e, values)


@given(exprs(VARIABLES, "bool", max_depth=5), st.lists(st.integers(-5, 5), min_size=3, max_size=3))
def test_text_of_conditions_too(e: Expr, numbers: list[int]) -> None:
    values = dict(zip(NAMES, numbers))
    assert bool(eval(str(e), {**FUNCTIONS, **values})) == bool(value_of(e, values))


i, f = Var("i"), Var("f", "float32")


@pytest.mark.parametrize(
    ("e", "text"),
    [
        (i - (i - 1), "i - (i - 1)"),
        (i - i - 1, "i - i - 1"),
        ((i + 1) * 2, "(i + 1) * 2"),
        (i * (i // 2), "i * (i // 2)"),
        (i * -1, "i * -1"),
        (x.EQ(i < 3, i > 1), "(i < 3) == (i > 1)"),
        (x.Not(x.And(i < 3, i > 1)), "not (i < 3 and i > 1)"),
        (x.FloatImm(float("-inf"), "float16"), 'float16("-inf")'),
        (x.Cast(f.dtype, i), 'Cast("float32", i)'),
        (x.Call("int32", "reinterpret", (f,)), 'reinterpret("int32", f)'),
        (x.StringImm('a "b"'), '"a \\"b\\""'),
        (x.Shuffle((x.Ramp(i, x.const(1), 2),), (1, 0)), "Shuffle([Ramp(i, 1, 2)], [1, 0])"),
    ],
)
def test_texts(e: Expr, text: str) -> None:
    assert str(e) == text
