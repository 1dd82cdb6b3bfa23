"""Expressions over sizes have the same values in C as in Python, or none if they do not fit in 64 bits."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm import expr as e
from minitvm.errors import MinitvmError
from minitvm.executable import evaluate
from minitvm.export.c.sizes import SizeWriter, helper_text
from tests.export.c.programs import SANITIZED, STRICT, call, needs_gcc
from tests.fewer import examples

N, M = e.Var("n", "int64"), e.Var("m", "int64")
NUMBERS = (0, 1, -1, 2, 3, -7, 63, 64, 2**31, -(2**40), 2**62, 2**63 - 1, -(2**63) + 1)
_BINARY = (e.Add, e.Sub, e.Mul, e.Div, e.Mod, e.FloorDiv, e.FloorMod, e.Min, e.Max)
_COMPARED = (e.EQ, e.NE, e.LT, e.LE, e.GT, e.GE)
_BITS = ("bitwise_and", "bitwise_or", "bitwise_xor")
_SHIFTS = ("shift_left", "shift_right")


_AMOUNTS = st.integers(-1, 70)  # Python's integers grow by so many bits


def constant(number: int) -> e.Expr:
    """An int64."""
    return e.IntImm(number, "int64")


def numbers(inner: st.SearchStrategy[e.Expr]) -> st.SearchStrategy[e.Expr]:
    """Integers that are made of others."""
    condition = st.builds(lambda f, a, b: f(a, b), st.sampled_from(_COMPARED), inner, inner)
    both = st.builds(lambda f, a, b: f(a, b), st.sampled_from((e.And, e.Or)), condition, condition)
    test = condition | both | st.builds(e.Not, condition)
    return (
        st.builds(lambda f, a, b: f(a, b), st.sampled_from(_BINARY), inner, inner)
        | st.builds(e.Select, test, inner, inner)
        | st.builds(lambda op, a, b: e.Call("int64", op, (a, b)), st.sampled_from(_BITS), inner, inner)
        | st.builds(lambda op, a, n: e.Call("int64", op, (a, constant(n))), st.sampled_from(_SHIFTS), inner, _AMOUNTS)
        | st.builds(lambda a: e.Call("int64", "abs", (a,)), inner)
        | st.builds(lambda a, d: e.Cast("int64", e.Cast(d, a)), inner, st.sampled_from(("int8", "uint16", "int32")))
    )


EXPRESSIONS = st.recursive(st.sampled_from((N, M)) | st.sampled_from(NUMBERS).map(constant), numbers, max_leaves=8)


def in_python(x: e.Expr, n: int, m: int) -> int | None:
    """The value of an expression, or None if it does not exist."""
    try:
        return int(evaluate(x, {N: n, M: m}))
    except (MinitvmError, ValueError, OverflowError, MemoryError):
        return None


@needs_gcc
@examples(5, 50, deadline=None)
@given(st.lists(EXPRESSIONS, min_size=30, max_size=30))
def test_values_in_c(tmp_path_factory: pytest.TempPathFactory, expressions: list[e.Expr]) -> None:
    folder = tmp_path_factory.mktemp("sizes")
    body: list[str] = []
    writer = SizeWriter({N: "n", M: "m"}, body, "return;")
    for x in expressions:
        body.append(f'    printf("%lld\\n", (long long){writer.value(x)});')
    pairs = list(itertools.product(NUMBERS, (0, 1, -3, 5, 2**62)))
    calls = "\n".join(f"    run(INT64_C({n}), INT64_C({m}));" for n, m in pairs)
    text = "\n".join(
        [
            "#include <stdint.h>", "#include <stdio.h>", helper_text(writer.helpers),
            "static void run(int64_t n, int64_t m)", "{", "    (void)n, (void)m;", *body, "}",
            "int main(void)", "{", calls, "}",
        ]
    )  # fmt: skip
    (folder / "main.c").write_text(text)
    call("gcc", "-std=c11", *STRICT, *SANITIZED, "-o", "main", "main.c", folder=folder)
    printed = iter(call("./main", folder=folder).split())
    for (n, m), x in itertools.product(pairs, expressions):
        result, value = int(next(printed)), in_python(x, n, m)
        if result != -(2**63):
            assert result == value, (x, n, m)
        else:
            assert value is None or too_large(x, n, m), (x, n, m)


def too_large(x: e.Expr, n: int, m: int) -> bool:
    """Whether a part of an expression does not fit in 64 bits; a part of a branch that is not taken may be one."""
    parts = [in_python(part, n, m) for part in e.walk(x) if isinstance(part, e.Expr)]
    return any(part is None or abs(part) >= 2**63 for part in parts)
