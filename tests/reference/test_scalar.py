"""The meaning of scalar expressions, against Python's integers, `math` and `fractions`."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from minitvm import expr as x
from minitvm.errors import ExecutionError, Unsupported
from minitvm.expr.intrin import INTRINSICS
from minitvm.reference.domains.bound import evaluate
from minitvm.reference.fast.grid import MASK, RESERVED, GridCompiler
from minitvm.reference.meaning import intrinsics, operations, scalar
from tests.fewer import examples

from .written import each

INTS = [x.DType(d) for d in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")]
FLOATS = [x.DType(d) for d in ("float16", "bfloat16", "float32", "float64")]
FLOAT_UNARY = [
    "exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos",
    "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "sigmoid", "erf", "floor", "ceil", "trunc", "round",
    "nearbyint", "abs",
]  # fmt: skip


def integers_of(dtype: x.DType) -> st.SearchStrategy[int]:
    low, high = int(dtype.min), int(dtype.max)
    return st.one_of(st.integers(low, high), st.sampled_from([low, low + 1, 0, 1, high - 1, high]))


def on_grid(e: x.Expr, values: dict[x.Var, Any], mask: Any = None) -> np.ndarray:
    """The value of an expression at several points at once."""
    compiler = GridCompiler()
    slots = {var: compiler.define(var) for var in values}
    run = compiler.expr(e)
    env: list[Any] = [None] * compiler.size
    env[MASK] = mask
    for var, column in values.items():
        env[slots[var]] = np.asarray(column, var.dtype.numpy).reshape(-1, 1)
    with np.errstate(all="ignore"):
        return np.broadcast_to(run(env), (len(next(iter(values.values()))), 1)).reshape(-1)


def wrapped(value: int, dtype: x.DType) -> int:
    return (value - int(dtype.min)) % (1 << dtype.bits) + int(dtype.min)


def truncated(a: int, b: int) -> int:
    return int(Fraction(a, b))


INTEGER_OPERATORS: dict[type, Any] = {
    x.Add: lambda a, b: a + b, x.Sub: lambda a, b: a - b, x.Mul: lambda a, b: a * b,
    x.FloorDiv: lambda a, b: math.floor(Fraction(a, b)), x.FloorMod: lambda a, b: a - b * math.floor(Fraction(a, b)),
    x.Div: truncated, x.Mod: lambda a, b: a - b * truncated(a, b), x.Min: min, x.Max: max,
    x.LT: lambda a, b: a < b, x.LE: lambda a, b: a <= b, x.GT: lambda a, b: a > b, x.GE: lambda a, b: a >= b,
    x.EQ: lambda a, b: a == b, x.NE: lambda a, b: a != b,
}  # fmt: skip


@pytest.mark.parametrize("dtype", INTS)
@given(data=st.data())
def test_integer_operators_wrap(dtype: x.DType, data: st.DataObject) -> None:
    a, b = data.draw(integers_of(dtype)), data.draw(integers_of(dtype))
    left, right = x.DataVar("a", dtype), x.DataVar("b", dtype)
    for kind, meaning in INTEGER_OPERATORS.items():
        if b == 0 and kind in (x.Div, x.Mod, x.FloorDiv, x.FloorMod):
            continue
        e = kind(left, right)
        wanted = meaning(a, b)
        if not isinstance(wanted, bool):
            wanted = wrapped(wanted, dtype)
        assert scalar.evaluate(e, {left: a, right: b}) == wanted, (kind, a, b)
        assert on_grid(e, {left: [a], right: [b]}).tolist() == [wanted], (kind, a, b)
        folded = kind(left, x.IntImm(b, dtype))
        assert on_grid(folded, {left: [a]}).tolist() == [wanted]
        assert scalar.evaluate(folded, {left: a}) == wanted


@pytest.mark.parametrize("kind", [x.Div, x.Mod, x.FloorDiv, x.FloorMod])
def test_division_by_zero(kind: type) -> None:
    a, b = x.DataVar("a"), x.DataVar("b")
    with pytest.raises(ExecutionError, match="division"):
        scalar.evaluate(kind(a, b), {a: 1, b: 0})
    with pytest.raises(ExecutionError, match="division"):
        on_grid(kind(a, b), {a: [1, 2], b: [1, 0]})
    needed = np.array([[True], [False]])
    assert on_grid(kind(a, b), {a: [7, 2], b: [7, 0]}, needed)[0] == scalar.evaluate(kind(a, b), {a: 7, b: 7})


@pytest.mark.parametrize("dtype", FLOATS)
@given(data=st.data())
def test_float_operators_give_the_same_bits_on_values_and_arrays(dtype: x.DType, data: st.DataObject) -> None:
    numbers = st.floats(width=dtype.bits)
    a, b = dtype.numpy.type(data.draw(numbers)), dtype.numpy.type(data.draw(numbers))
    left, right = x.DataVar("a", dtype), x.DataVar("b", dtype)
    for kind in (x.Add, x.Sub, x.Mul, x.Div, x.Mod, x.FloorDiv, x.FloorMod, x.Min, x.Max, x.LT, x.EQ):
        e = kind(left, right)
        with np.errstate(all="ignore"):
            single = scalar.evaluate(e, {left: a, right: b})
        assert not isinstance(single, float) or isinstance(single, np.floating)
        if not isinstance(e, x.CompareOp):
            assert single.dtype == dtype.numpy
        both = np.asarray([single, on_grid(e, {left: [a], right: [b]})[0]])
        assert both[0] == both[1] or (both[0] != both[0] and both[1] != both[1])


@pytest.mark.parametrize("kind", [x.Min, x.Max])
def test_nan_wins(kind: type) -> None:
    nan, one = np.float32("nan"), np.float32(1)
    a, b = x.DataVar("a", "float32"), x.DataVar("b", "float32")
    for left, right in ((nan, one), (one, nan), (nan, nan)):
        assert np.isnan(scalar.evaluate(kind(a, b), {a: left, b: right}))
        assert np.isnan(on_grid(kind(a, b), {a: [left], b: [right]})).all()


@pytest.mark.parametrize("name", FLOAT_UNARY)
@pytest.mark.parametrize("dtype", FLOATS)
@examples(15)
@given(data=st.data())
def test_unary_intrinsics(name: str, dtype: x.DType, data: st.DataObject) -> None:
    """Within one unit in the last place of Python's `math` (which knows float64 only)."""
    value = dtype.numpy.type(data.draw(st.floats(-30, 30, width=dtype.bits)))
    wanted = _wanted(name, float(value))
    assume(wanted is not None)
    e = x.call(name, x.DataVar("v", dtype))
    var = e.args[0]  # type: ignore[attr-defined]
    with np.errstate(all="ignore"):
        found = scalar.evaluate(e, {var: value})
        target = dtype.numpy.type(wanted)
        step = np.spacing(np.abs(target)) if np.isfinite(target) else dtype.numpy.type(0)
    assert found.dtype == dtype.numpy
    assert found == target or abs(found - target) <= step * (2 if dtype.bits == 64 else 1), (name, value)
    assert on_grid(e, {var: [value, value]}).tobytes() == np.array([found, found]).tobytes()


def _wanted(name: str, v: float) -> float | None:
    functions: dict[str, Any] = {
        "exp2": lambda a: 2.0**a, "exp10": lambda a: 10.0**a, "rsqrt": lambda a: 1 / math.sqrt(a),
        "sigmoid": lambda a: 1 / (1 + math.exp(-a)), "abs": abs, "nearbyint": lambda a: float(round(a)),
        "round": lambda a: math.copysign(float(math.floor(Fraction(abs(a)) + Fraction(1, 2))), a),
        "floor": lambda a: float(math.floor(a)), "ceil": lambda a: float(math.ceil(a)),
        "trunc": lambda a: float(math.trunc(a)),
    }  # fmt: skip
    try:
        return float((functions.get(name) or getattr(math, name))(v))
    except (ValueError, ZeroDivisionError, OverflowError):
        return None  # outside the function's domain, or infinite


@pytest.mark.parametrize("dtype", FLOATS)
@given(data=st.data())
def test_fma_rounds_once(dtype: x.DType, data: st.DataObject) -> None:
    numbers = st.floats(allow_nan=False, allow_infinity=False, width=dtype.bits)
    kind: Any = dtype.numpy.type
    a, b, c = (kind(data.draw(numbers)) for _ in range(3))
    variables = [x.DataVar(n, dtype) for n in "abc"]
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    with np.errstate(all="ignore"):
        found = scalar.evaluate(x.call("fma", *variables), dict(zip(variables, (a, b, c))))
        wanted = operations.constant(x.FloatImm(exact, dtype))
    assert found == wanted, (a, b, c)


@pytest.mark.parametrize("dtype", INTS)
@given(data=st.data())
def test_bits_and_shifts(dtype: x.DType, data: st.DataObject) -> None:
    a, b, amount = (
        data.draw(integers_of(dtype)),
        data.draw(integers_of(dtype)),
        data.draw(st.integers(0, dtype.bits + 3)),
    )
    u, v = x.DataVar("u", dtype), x.DataVar("v", dtype)
    unsigned = a % (1 << dtype.bits)
    wanted = {
        "bitwise_and": a & b, "bitwise_or": a | b, "bitwise_xor": a ^ b,
    }  # fmt: skip
    for name, value in wanted.items():
        assert scalar.evaluate(x.call(name, u, v), {u: a, v: b}) == value
    assert scalar.evaluate(x.call("bitwise_not", u), {u: a}) == wrapped(~a, dtype)
    assert scalar.evaluate(x.call("popcount", u), {u: a}) == unsigned.bit_count()
    assert scalar.evaluate(x.call("shift_left", u, v), {u: a, v: amount}) == wrapped(a << amount, dtype)
    assert scalar.evaluate(x.call("shift_right", u, v), {u: a, v: amount}) == a >> amount


def test_a_negative_shift_is_refused() -> None:
    u = x.DataVar("u")
    with pytest.raises(ExecutionError, match="a shift by -1"):
        scalar.evaluate(u << u, {u: -1})


@pytest.mark.parametrize("source", FLOATS)
@pytest.mark.parametrize("target", INTS)
@examples(15)
@given(data=st.data())
def test_casts_to_integers_truncate(source: x.DType, target: x.DType, data: st.DataObject) -> None:
    value = source.numpy.type(data.draw(st.floats(width=source.bits)))
    v = x.DataVar("v", source)
    e = x.Cast(target, v)
    inside = math.isfinite(value) and target.min <= math.trunc(float(value)) <= target.max
    if not inside:
        with pytest.raises(ExecutionError, match="out of its range"):
            scalar.evaluate(e, {v: value})
        with pytest.raises(ExecutionError, match="out of its range"):
            on_grid(e, {v: [value]})
        assert on_grid(e, {v: [value, 1]}, np.array([[False], [True]]))[1] == 1
        return
    assert scalar.evaluate(e, {v: value}) == math.trunc(float(value))
    assert on_grid(e, {v: [value]}).tolist() == [math.trunc(float(value))]


@pytest.mark.parametrize("target", INTS + FLOATS + [x.DType("bool")])
@pytest.mark.parametrize("source", INTS)
@examples(15)
@given(data=st.data())
def test_casts_of_integers(source: x.DType, target: x.DType, data: st.DataObject) -> None:
    value = data.draw(integers_of(source))
    v = x.DataVar("v", source)
    with np.errstate(all="ignore"):
        found = scalar.evaluate(x.Cast(target, v), {v: value})
    if target.is_float:
        exact = operations.constant(x.FloatImm(Fraction(value), target))
        assert found == exact
    else:
        assert found == (value != 0 if target.is_bool else wrapped(value, target))
    with np.errstate(all="ignore"):
        assert on_grid(x.Cast(target, v), {v: [value]})[0] == found


def test_rationals_are_rounded_once() -> None:
    third = operations.constant(x.FloatImm(Fraction(1, 3), "float32"))
    assert isinstance(third, np.float32)
    neighbours = [np.nextafter(third, np.float32(d)) for d in (-1, 1)]
    error = abs(Fraction(float(third)) - Fraction(1, 3))
    assert all(error < abs(Fraction(float(n)) - Fraction(1, 3)) for n in neighbours)


def test_short_circuits() -> None:
    a = x.DataVar("a")
    unsafe = x.FloorDiv(x.const(1), a) > 0
    assert scalar.evaluate(x.And(x.NE(a, x.const(0)), unsafe), {a: 0}) is False
    assert scalar.evaluate(x.Or(x.EQ(a, x.const(0)), unsafe), {a: 0}) is True
    assert on_grid(x.And(x.NE(a, x.const(0)), unsafe), {a: [0, 1]}).tolist() == [False, True]
    assert on_grid(x.Or(x.EQ(a, x.const(0)), unsafe), {a: [0, 2]}).tolist() == [True, False]
    guarded = x.call("if_then_else", x.NE(a, x.const(0)), x.FloorDiv(x.const(6), a), x.const(-1))
    assert on_grid(guarded, {a: [0, 2]}).tolist() == [-1, 3]


def test_vectors() -> None:
    ramp = x.Ramp(x.const(3), x.const(2), 4)
    assert scalar.evaluate(ramp).tolist() == [3, 5, 7, 9]
    assert scalar.evaluate(x.Shuffle((ramp, x.Broadcast(x.const(1), 2)), (5, 0, 3))).tolist() == [1, 3, 9]
    assert scalar.evaluate(x.Shuffle((ramp,), (2,))) == 7
    total = x.Call(x.DType("int32"), "vector_reduce_add", (ramp * ramp,))
    assert scalar.evaluate(total) == 9 + 25 + 49 + 81
    chosen = x.call("if_then_else", ramp > 4, x.FloorDiv(x.Broadcast(x.const(100), 4), ramp - 3), ramp)
    assert scalar.evaluate(chosen).tolist() == [3, 50, 25, 16]
    unit = x.DataVar("unit")
    assert on_grid(x.Call(x.DType("int32"), "vector_reduce_max", (ramp * unit,)), {unit: [1, -1]}).tolist() == [9, -3]


def test_what_is_unknown_is_refused() -> None:
    with pytest.raises(Unsupported, match="magic"):
        scalar.evaluate(x.Call(x.DType("float32"), "magic", (x.const(1.0),)))
    with pytest.raises(Unsupported):
        scalar.evaluate(x.Add(x.const(True), x.const(True)))
    with pytest.raises(ExecutionError, match="v is used where it has no value"):
        scalar.evaluate(x.Var("v") + 1)


def test_reserved_slots_are_not_handed_out() -> None:
    assert GridCompiler().define(x.Var("v")) >= RESERVED


@pytest.mark.parametrize("name", sorted(row.name for row in INTRINSICS.values() if row.result in ("same", "bool")))
def test_an_intrinsic_of_numbers_is_a_number(name: str) -> None:
    """And that of arrays is the same, element by element."""
    row = INTRINSICS[name]
    for dtype in (x.DType("float32"), x.DType("int32")):
        try:
            function = intrinsics.meaning(name, dtype, dtype)
        except Unsupported:
            continue
        element = dtype.numpy.type(1)
        with np.errstate(all="ignore"):
            single = function(*[element] * row.arity)
            several = function(*[np.full(3, element)] * row.arity)
        assert np.shape(single) == ()
        assert np.shape(several) == (3,)
        np.testing.assert_array_equal(several, np.full(3, single))


@pytest.mark.parametrize("source", FLOATS)
@pytest.mark.parametrize("target", INTS)
def test_casts_at_the_ends_of_integers_have_one_meaning(source: x.DType, target: x.DType) -> None:
    """At every level and in bound mode: the truncated number, or undefined where that does not fit."""
    v = x.DataVar("v", source)
    e = x.Cast(target, v)
    ends = [float(end) * sign + step for end in (target.min, target.max) for sign in (1, 2) for step in (-1, 0, 1)]
    program = each(f'T.Cast("{target}", A[i])', str(source), str(target), n=1)
    with np.errstate(all="ignore"):
        values = [source.numpy.type(n) for n in (*ends, -0.5, -1.0, 1e30, math.inf, -math.inf, math.nan)]
    for value in values:
        args = [np.array([value], source.numpy), np.zeros(1, target.numpy)]
        inside = math.isfinite(value) and target.min <= math.trunc(float(value)) <= target.max
        if inside:
            assert scalar.evaluate(e, {v: value}) == math.trunc(float(value))
            assert on_grid(e, {v: [value]}).tolist() == [math.trunc(float(value))]
            assert evaluate(program, args)[1].value.tolist() == [math.trunc(float(value))]  # type: ignore[union-attr]
            continue
        with pytest.raises(ExecutionError, match="out of its range"):
            scalar.evaluate(e, {v: value})
        with pytest.raises(ExecutionError, match="out of its range"):
            on_grid(e, {v: [value]})
        with pytest.raises(ExecutionError, match="out of its range"):
            evaluate(program, args)
