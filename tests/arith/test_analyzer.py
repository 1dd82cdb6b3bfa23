"""What the Analyzer makes of expressions that compilers write, and what it leaves alone because values would change."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm import tir
from minitvm.arith import Analyzer, simplify
from minitvm.expr import (
    EQ,
    NE,
    SPATIAL,
    Add,
    Call,
    Cast,
    Div,
    DType,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    IterVar,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Range,
    Select,
    SizeVar,
    Sub,
    Var,
    call,
    const,
    structural_equal,
)
from minitvm.tir.nodes import Buffer

i, j, x, y = Var("i"), Var("j"), Var("x"), Var("y")
n, m = SizeVar("n"), SizeVar("m")


@pytest.fixture
def analyzer() -> Analyzer:
    return Analyzer({i: 8, j: 16, n: (1, None)})


@pytest.mark.parametrize(
    ("e", "wanted"),
    [
        ((i * 16 + j) // 16, "i"),
        ((i * 16 + j) % 16, "j"),
        (x // 4 * 4 + x % 4, "x"),
        (x // 3 // 5, "x // 15"),
        (x % 12 // 4 * 4 + x % 4, "x % 12"),
        (j + i * 16, "i * 16 + j"),
        (3 - x + 2, "5 - x"),
        ((x * n + Min(j, n - 1)) // n, "x"),
        (((n + 1) * x) // (n + 1), "x"),
        (n * m // m, "n"),
        (i * 16 + j < 128, "bool(True)"),
        (i * 16 + j < 64, "i < 4"),
        (EQ(x * 2, const(3)), "bool(False)"),
        (Min(i, const(7)), "i"),
        (Max(x, x + 3), "x + 3"),
        ((n + 15) // 16 * 16 >= n, "bool(True)"),
        (call("if_then_else", i < 4, Min(i, const(3)), x), "if_then_else(i < 4, i, x)"),
        (Select(i < 4, Min(i, const(3)), x), "Select(i < 4, min(i, 3), x)"),
        ((i < 4) & (i < 6), "i < 4"),
        ((i < 8) | (x < 1), "bool(True)"),
        (~(x < 4), "x >= 4"),
        (Let(y, const(3), y + x), "x + 3"),
        (Cast(DType("int64"), i * 2 + i), 'Cast("int64", i) * int64(3)'),
        (x - x, "0"),
    ],
)
def test_what_is_simplified(analyzer: Analyzer, e: Expr, wanted: str) -> None:
    assert str(analyzer.simplify(e)) == wanted


def test_simple_expressions_are_the_same_object(analyzer: Analyzer) -> None:
    for e in (i * 16 + j, x, const(3), x // 7, i * 16 + j < 100, call("if_then_else", x < y, x, y)):
        assert analyzer.simplify(e) is e


def test_data_may_wrap_and_is_left_alone() -> None:
    """int32 from memory wraps: `(A[i] * 2) // 2` is not A[i], and A[i] < A[i] + 1 is not always true."""
    data = Buffer("A", (8,), "int32")[i]
    narrow = Buffer("B", (8,), "int8")[i]
    analyzer = Analyzer({i: 8})
    kept = (data * 2 // 2, (data * 16) % 16, data % -3, data // -3, data < data + 1, Max(data, data + 1))
    for e in (*kept, Cast(DType("int64"), data + 1)):
        simple = analyzer.simplify(e)
        assert structural_equal(simple, e), f"{e} -> {simple}"
    assert str(analyzer.simplify(data + i - data)) == "i"
    assert analyzer.bounds(data + 1) == (None, None)
    # int8 widened to int32 cannot wrap in a few operations.
    wide = Cast(DType("int32"), narrow)
    assert analyzer.bounds(wide * 2) == (-256, 254)
    assert analyzer.can_prove(wide < wide + 1)


def test_two_loads_of_one_cell_are_one_term() -> None:
    table = Buffer("A", (8,), "int32")
    assert str(simplify(table[i + 1] - table[1 + i])) == "0"
    assert str(simplify(table[i] - table[j])) == "A[i] - A[j]"


_ARITHMETIC = [Add, Sub, Mul, FloorDiv, FloorMod, Div, Mod, Min, Max]


@given(
    st.sampled_from(["int8", "uint8", "int16", "uint16", "uint32", "int32", "int64"]),
    st.sampled_from(_ARITHMETIC),
    st.data(),
)
def test_constants_fold_as_numpy_computes(dtype: str, kind: Any, data: st.DataObject) -> None:
    kind_of = DType(dtype)
    limits = (
        (int(kind_of.min), int(kind_of.max)) if kind_of.bits < 32 else (-1000 if kind_of.kind == "int" else 0, 1000)
    )
    a, b = data.draw(st.integers(*limits)), data.draw(st.integers(*limits))
    divides = kind in (FloorDiv, FloorMod, Div, Mod)
    if divides and b == 0:
        b = 1
    folded = simplify(kind(IntImm(a, kind_of), IntImm(b, kind_of)))
    p, q = np.array([a], dtype), np.array([b], dtype)
    numpy = {
        Add: lambda: p + q, Sub: lambda: p - q, Mul: lambda: p * q, FloorDiv: lambda: p // q, FloorMod: lambda: p % q,
        Div: lambda: np.array([abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)]).astype(dtype),
        Mod: lambda: np.fmod(p, q), Min: lambda: np.minimum(p, q), Max: lambda: np.maximum(p, q),
    }  # fmt: skip
    with np.errstate(all="ignore"):
        assert isinstance(folded, IntImm)
        assert folded.value == int(numpy[kind]()[0])
        assert folded.dtype == dtype


def test_narrow_and_unsigned_integers_keep_their_wrapping() -> None:
    a = Var("a", DType("int8"))
    u = Var("u", DType("uint32"))
    for e in (
        a + const(1, "int8") - const(1, "int8"),
        a * const(2, "int8") // const(2, "int8"),
        a < a + const(1, "int8"),
    ):
        assert structural_equal(simplify(e), e)
    assert structural_equal(
        simplify(u - const(1, "uint32") >= const(0, "uint32")), u - const(1, "uint32") >= const(0, "uint32")
    )
    assert simplify(a + const(0, "int8")) is a
    assert simplify(a * const(0, "int8")).value == 0
    assert simplify(Cast(DType("int8"), const(300))).value == 44


@given(st.sampled_from([Add, Sub, Mul, Div, Min, Max]), st.floats(width=32), st.floats(width=32))
def test_float_constants_fold_bit_for_bit(kind: Any, a: float, b: float) -> None:
    folded = simplify(kind(FloatImm(a), FloatImm(b)))
    if not isinstance(folded, FloatImm):
        assert kind in (Min, Max)  # ties and NaN are left
        return
    p, q = np.float32(a), np.float32(b)
    with np.errstate(all="ignore"):
        table = {Add: p + q, Sub: p - q, Mul: p * q, Div: p / q, Min: np.minimum(p, q), Max: np.maximum(p, q)}
    assert np.array_equal(np.float32(folded.value), table[kind], equal_nan=True)
    assert np.isnan(table[kind]) or np.signbit(folded.value) == np.signbit(table[kind])


def test_floats_keep_special_values() -> None:
    f = Var("f", DType("float32"))
    zero, one = const(0.0), const(1.0)
    for e in (f * zero, f + zero, f - f, f / f, EQ(f, f), f < f):
        assert structural_equal(simplify(e), e)
    assert simplify(f - zero) is f
    assert simplify(f * one) is f
    assert simplify(f + const(-0.0)) is f
    assert str(simplify(Call(DType("float32"), "exp", (f * (x - x + 2).astype("float32"),)))) == "exp(f * float32(2.0))"


def test_constraints_narrow_and_end(analyzer: Analyzer) -> None:
    with analyzer.constraint(i * 16 + j < 100):
        assert analyzer.bounds(i) == (0, 6)
        assert analyzer.can_prove(i * 16 + j <= 99)
        with analyzer.constraint(i > 5):
            assert analyzer.simplify(i).value == 6
    assert analyzer.bounds(i) == (0, 7)
    with pytest.raises(RuntimeError), analyzer.constraint(i < 2):
        raise RuntimeError
    assert analyzer.bounds(i) == (0, 7)


def test_bindings() -> None:
    analyzer = Analyzer()
    analyzer.bind(IterVar(i, Range.of(n), SPATIAL))
    analyzer.bind(j, Range(i * 4, const(4)))
    assert analyzer.can_prove(i < n)
    assert analyzer.can_prove(j < n * 4)
    assert analyzer.simplify(j // 4) is not None
    assert analyzer.bounds(j) == (0, None)
    analyzer.bind(i, (2, 5))
    assert not analyzer.can_prove(i < n)
    assert analyzer.bounds(n) == (0, None)


def test_symbolic_proofs() -> None:
    analyzer = Analyzer({n: (1, None), m: (1, None), x: n})
    assert analyzer.can_prove(n * m >= n)
    assert analyzer.can_prove(x * m + m <= n * m)
    assert not analyzer.can_prove(n > m)
    assert analyzer.can_prove_equal((x + n) % n, x)
    assert analyzer.can_prove(Min(n, m) <= m)
    assert not analyzer.can_prove(n >= 2)


def test_modular() -> None:
    analyzer = Analyzer({i: 8})
    assert analyzer.modular(i * 8 + x * 12 + 3) == (4, 3)
    assert analyzer.modular(const(5)) == (0, 5)


def test_importing_arith_leaves_sympy_and_islpy_alone() -> None:
    code = "import sys, minitvm.arith, minitvm.arith.dependence; print({'sympy', 'islpy', 'numba'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


@pytest.mark.parametrize(("op", "value"), [("bitwise_and", 4), ("bitwise_or", 7), ("bitwise_xor", 3)])
@pytest.mark.parametrize("dtype", ["int32", "int64", "int8", "uint8"])
def test_bitwise_operations_on_constants_are_folded(op: str, value: int, dtype: str) -> None:
    e = call(op, const(6, dtype), const(5, dtype))
    assert structural_equal(Analyzer().simplify(e), const(value, dtype))
    assert structural_equal(Analyzer().simplify(NE(e, const(value, dtype))), const(False))
    if dtype.startswith("int"):
        negative = Analyzer().simplify(call(op, const(-1, dtype), const(5, dtype)))
        assert negative.value == {"bitwise_and": 5, "bitwise_or": -1, "bitwise_xor": -6}[op]


def test_inside_of_loops_and_blocks() -> None:
    """Loops and iterators bring their own ranges, inner ones in terms of outer ones."""
    outer, inner, v = Var("i"), Var("j"), IterVar(Var("v"), Range(const(2), const(5)))
    body = tir.Evaluate(const(0))
    loops = [
        tir.For(outer, const(0), const(4), tir.ForKind.SERIAL, body),
        tir.For(inner, outer, const(3), tir.ForKind.SERIAL, body),
    ]
    analyzer = Analyzer.inside(*loops, v)
    assert [analyzer.bounds(e) for e in (outer, inner, v.var)] == [(0, 3), (0, 5), (2, 6)]
    assert analyzer.can_prove(inner >= outer) and not analyzer.can_prove(inner >= outer + 1)


def test_an_analyzer_is_given_back_without_the_garbage_collector() -> None:
    gc.disable()
    try:
        analyzer = Analyzer()
        analyzer.bind(i, 16)
        analyzer.simplify(tir.Select(i < 20, i * 2 + i, i // 3) // 5)
        with analyzer.constraint(i < 3):
            analyzer.simplify(i // 4)
        alive = weakref.ref(analyzer)
        del analyzer
        assert alive() is None
    finally:
        gc.enable()
