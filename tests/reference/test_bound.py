"""Bound mode: bounds hold for every order and every honest implementation, and are narrow enough to catch faults."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minitvm
from minitvm import expr as x
from minitvm import te
from minitvm.errors import Unsupported
from minitvm.reference import check
from minitvm.reference.domains import bound, bound_functions
from minitvm.reference.domains import bound_numbers as numbers
from minitvm.reference.domains.bound_numbers import CELL, error_of, exact, format_of
from minitvm.script import tir as T
from minitvm.tir.transform.pipeline import lower
from tests.fewer import examples

F32 = format_of(x.DType("float32"))
small = st.floats(-100, 100, width=32)
errors = st.sampled_from([0.0, 1e-7, 1e-4, 0.5])


def cell(value: float, error: float) -> Any:
    made = np.zeros((), CELL)
    made["value"], made["terms"], made["mass"] = value, error, abs(value) + error
    return made[()]


def moved(value: float, by: float) -> Any:
    """A float32 at most that far away."""
    near = np.float32(value + by)
    return near if by and abs(float(near) - value) <= abs(by) else np.float32(value)


def within(cells: Any, found: Any, f: Any = F32) -> bool:
    error = float(error_of(cells, f))
    if error == 0 and not np.isfinite(cells["value"]):
        return bool(f.numpy(found) == cells["value"] or (found != found and np.isnan(cells["value"])))
    return math.isinf(error) or abs(Fraction(float(found)) - Fraction(float(cells["value"]))) <= Fraction(error)


# --- single operations: operands inside their intervals give a result inside the result's, rounded or not ---------

OPERATIONS: dict[str, tuple[Any, Callable[[Any, Any], Any]]] = {
    "add": (numbers.add, lambda a, b: a + b),
    "subtract": (lambda a, b, f: numbers.add(a, b, f, -1.0), lambda a, b: a - b),
    "multiply": (numbers.multiply, lambda a, b: a * b),
    "divide": (numbers.divide, lambda a, b: a / b),
    "floor_divide": (numbers.floor_divide, lambda a, b: np.floor(a / b)),
    "truncated_remainder": (lambda a, b, f: numbers.remainder(a, b, f, np.trunc), np.fmod),
    "floored_remainder": (lambda a, b, f: numbers.remainder(a, b, f, np.floor), np.remainder),
    "minimum": (bound_functions.MINIMUM, np.minimum),
    "maximum": (bound_functions.MAXIMUM, np.maximum),
    "pow": (lambda a, b, f: bound_functions.apply("pow", [a, b], f), np.power),
    "atan2": (lambda a, b, f: bound_functions.apply("atan2", [a, b], f), np.arctan2),
    "hypot": (lambda a, b, f: bound_functions.apply("hypot", [a, b], f), np.hypot),
    "copysign": (lambda a, b, f: bound_functions.apply("copysign", [a, b], f), np.copysign),
}


@pytest.mark.parametrize("name", OPERATIONS)
@examples(65, 200)
@given(small, errors, st.floats(-1, 1), small, errors, st.floats(-1, 1))
def test_binary_operations(name: str, a: float, ea: float, s: float, b: float, eb: float, r: float) -> None:
    operation, function = OPERATIONS[name]
    with np.errstate(all="ignore"):
        cells = operation(cell(a, ea), cell(b, eb), F32)
        p, q = moved(a, s * ea), moved(b, r * eb)
        assert within(cells, function(p, q))  # computed in float32
        assert within(cells, function(np.float64(p), np.float64(q)))  # not rounded


def test_a_sign_that_may_turn_is_rounded_outward() -> None:
    made = bound_functions.apply("copysign", [cell(7.621165501235613e-19, 0.5), cell(-0.0, 0.0001)], F32)
    assert within(made, np.float32(0.5))


@pytest.mark.parametrize("name", [*bound_functions._MONOTONE, *bound_functions._INTEGRAL, "sin", "cos", "tan", "cosh"])
@examples(30, 100)
@given(a=st.one_of(st.floats(-3, 3, width=32), small), ea=errors, s=st.floats(-1, 1))
def test_functions(name: str, a: float, ea: float, s: float) -> None:
    with np.errstate(all="ignore"):
        cells = bound_functions.apply(name, [cell(a, ea)], F32)
        p = moved(a, s * ea)
        truth = _truth(name, p)
        assert within(cells, truth)
        assert within(cells, np.float32(truth))


def _truth(name: str, p: Any) -> Any:
    wide = np.longdouble(p)
    named: dict[str, Any] = {**bound_functions._MONOTONE, **bound_functions._INTEGRAL}
    named.update(sin=np.sin, cos=np.cos, tan=np.tan, cosh=np.cosh)
    return np.float64(named[name](wide))


def test_exact_operands_stay_exact() -> None:
    two, three = exact(np.float32(2)), exact(np.float32(3))
    assert error_of(numbers.multiply(two, three, F32), F32) == 0
    assert error_of(bound_functions.MAXIMUM(two, three, F32), F32) == 0
    assert error_of(numbers.add(two, exact(np.float32(0)), F32), F32) == 0
    assert error_of(numbers.divide(two, three, F32), F32) > 0


# --- programs ------------------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(st.integers(2, 40), st.sampled_from(["float16", "bfloat16", "float32", "float64"]), st.integers(0, 10**6))
def test_any_association_of_a_sum_is_within_its_bound(count: int, dtype: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    kind: Any = np.dtype(dtype).type
    # Cancellation: large terms that almost vanish against each other.
    terms = (rng.standard_normal(count) * 10.0 ** rng.integers(-3, 3, count)).astype(kind)
    terms[count // 2 :] -= terms[: count - count // 2]
    f = format_of(x.DType(dtype))
    total = exact(terms[0])
    for term in terms[1:]:
        total = numbers.add(total, exact(term), f)
    for _ in range(5):
        queue = list(rng.permutation(terms))
        while len(queue) > 1:
            a, b = queue.pop(rng.integers(len(queue))), queue.pop(rng.integers(len(queue)))
            queue.append(kind(a + b))
        assert within(total, queue[0], f)
    assert within(total, math.fsum(map(float, terms)), f)


def softmax(m: int = 3, n: int = 17) -> list[Any]:
    a = te.placeholder((m, n), name="A")
    k, l = te.reduce_axis((0, n), "k"), te.reduce_axis((0, n), "l")
    top = te.compute((m,), lambda i: te.max(a[i, k], axis=k), name="top")
    power = te.compute((m, n), lambda i, j: te.exp(a[i, j] - top[i]), name="power")
    total = te.compute((m,), lambda i: te.sum(power[i, l], axis=l), name="total")
    return [a, te.compute((m, n), lambda i, j: power[i, j] / total[i], name="B")]


def gelu(n: int = 33) -> list[Any]:
    a = te.placeholder((n,), name="A")
    half = 0.5 * a.dtype.numpy.type(1)
    return [a, te.compute((n,), lambda i: a[i] * half * (1.0 + te.erf(a[i] * 0.70710677)), name="B")]


def norm(m: int = 4, n: int = 29) -> list[Any]:
    a = te.placeholder((m, n), name="A")
    k, l = te.reduce_axis((0, n), "k"), te.reduce_axis((0, n), "l")
    mean = te.compute((m,), lambda i: te.sum(a[i, k], axis=k), name="sum")
    var = te.compute((m,), lambda i: te.sum((a[i, l] - mean[i] / n) * (a[i, l] - mean[i] / n), axis=l), name="var")
    return [a, te.compute((m, n), lambda i, j: (a[i, j] - mean[i] / n) * te.rsqrt(var[i] / n + 1e-5), name="B")]


PROGRAMS = [softmax, gelu, norm]


@pytest.mark.parametrize("program", PROGRAMS)
def test_all_levels_and_compiled_code_are_within_bounds(program: Callable[[], list[Any]], rng: Any) -> None:
    tensors = program()
    func = te.create_prim_func(tensors)
    a = (3 * rng.standard_normal(tuple(int(d) for d in tensors[0].shape))).astype("float32")
    out = np.full(tuple(int(d) for d in tensors[-1].shape), np.nan, "float32")
    assert check(tensors, func, modes=["bound"])
    lowered = lower(func, None, "f")
    assert check(func, lowered, modes=["bound"]).mode == "bound"
    at_level = [bound.evaluate(p, [a, out])[1] for p in (tensors, func, lowered)]
    for one in at_level:
        assert one is not None and at_level[0] is not None
        assert (np.abs(one.value - at_level[0].value) <= one.error + at_level[0].error).all()
    found = out.copy()
    minitvm.build(func)(a, found)
    verdict = bound.compare(func, [a, out], [a, found])
    assert verdict, verdict
    # Narrow: a fault of one part in ten thousand of one element is seen, however small that element is.
    must = at_level[1]
    assert must is not None and (must.error <= 1e-4 * np.abs(must.value) + 1e-5).all()
    smallest = np.unravel_index(np.argmin(np.abs(found)), found.shape)
    found[smallest] += 10 * must.error[smallest]
    assert not bound.compare(func, [a, out], [a, found])


def test_a_reassociated_sum_is_accepted_and_a_dropped_term_is_not() -> None:
    @T.prim_func
    def forward(A: T.Buffer((50,), "float32"), C: T.Buffer((1,), "float32")):
        C[0] = T.float32(0)
        for i in range(50):
            C[0] = C[0] + A[i] * T.float32(0.3)

    @T.prim_func
    def backward(A: T.Buffer((50,), "float32"), C: T.Buffer((1,), "float32")):
        C[0] = T.float32(0)
        for i in range(50):
            C[0] = C[0] + A[49 - i] * T.float32(0.3)

    @T.prim_func
    def short(A: T.Buffer((50,), "float32"), C: T.Buffer((1,), "float32")):
        C[0] = T.float32(0)
        for i in range(49):
            C[0] = C[0] + A[i] * T.float32(0.3)

    assert check(forward, backward, modes=["bound"])
    verdict = check(forward, short, modes=["bound"])
    assert not verdict
    assert verdict.mode == "bound" and "+-" in str(verdict)


def test_a_choice_near_a_tie_takes_in_both_sides() -> None:
    @T.prim_func
    def func(A: T.Buffer((2,), "float32"), C: T.Buffer((2,), "float32")):
        for i in range(2):
            C[i] = T.Select(A[i] / T.float32(3) * T.float32(3) > T.float32(1), T.float32(5), T.float32(7))

    found = bound.evaluate(func, [np.array([1, 4], "f"), np.zeros(2, "f")])[1]
    assert found is not None
    assert found.error.tolist() == [2.0, 0.0]
    assert found.value[1] == 5


def test_what_a_tie_decides_beside_floats_is_undecided() -> None:
    @T.prim_func
    def func(A: T.Buffer((2,), "float32"), C: T.Buffer((2,), "int32")):
        for i in range(2):
            C[i] = T.Select(A[i] / T.float32(3) * T.float32(3) > T.float32(1), 1, 0)

    with pytest.raises(bound.Undecided, match="nearer to a tie"):
        bound.evaluate(func, [np.array([1, 4], "f"), np.zeros(2, "i")])
    found = bound.evaluate(func, [np.array([2, 4], "f"), np.zeros(2, "i")])[1]
    assert found is not None and found.value.tolist() == [1, 1]


def test_infinities_and_nan_must_be_met() -> None:
    @T.prim_func
    def func(A: T.Buffer((5,), "float32"), C: T.Buffer((5,), "float32")):
        for i in range(5):
            C[i] = T.exp(A[i]) - T.float32(1)

    a = np.array([np.inf, -np.inf, np.nan, 1000, 88.72], "f")
    must = bound.evaluate(func, [a, np.zeros(5, "f")])[1]
    assert must is not None
    assert must.value[:4].tolist()[:2] == [np.inf, -1] and np.isnan(must.value[2]) and must.value[3] == np.inf
    assert must.error[[0, 2, 3]].tolist() == [0, 0, 0]
    with np.errstate(all="ignore"):
        found = np.exp(a) - np.float32(1)
    assert not must.wrong(found).any()
    found[3] = 3e38
    assert must.wrong(found).tolist() == [False, False, False, True, False]


def test_what_may_overflow_in_some_order_is_undecided() -> None:
    @T.prim_func
    def func(A: T.Buffer((3,), "float16"), C: T.Buffer((1,), "float16")):
        C[0] = T.float16(0)
        for i in range(3):
            C[0] = C[0] + A[i]

    found = bound.evaluate(func, [np.array([6e4, -6e4, 6e4], "float16"), np.zeros(1, "float16")])[1]
    assert found is not None and found.undecided.all()
    fine = bound.evaluate(func, [np.array([6e3, -6e3, 6e3], "float16"), np.zeros(1, "float16")])[1]
    assert fine is not None and fine.error[0] < 20


def test_functions_without_an_analysis_are_refused() -> None:
    with pytest.raises(Unsupported, match="no error analysis for nonsense"):
        bound_functions.apply("nonsense", [exact(np.float32(1))], F32)


def test_every_float_function_of_the_language_has_a_declared_error() -> None:
    free = {"floor", "ceil", "trunc", "round", "nearbyint", "abs", "copysign", "fmod", "fma", "round_tf32"}
    named = {row.name for row in x.INTRINSICS.values() if row.domain == "float" and row.result == "same"}
    assert named - free == set(bound_functions.DECLARED)


COMPILED = ["exp", "log", "tanh", "sigmoid", "erf", "sqrt", "rsqrt", "sin", "log1p", "exp2", "atan"]


@pytest.mark.parametrize("name", COMPILED)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_compiled_functions_keep_what_is_declared(name: str, dtype: str, rng: Any) -> None:
    a = te.placeholder((4096,), dtype, name="A")
    func = te.create_prim_func([a, te.compute((4096,), lambda i: x.call(name, a[i]), name="B")])
    given_ = np.abs(8 * rng.standard_normal(4096)).astype(dtype)
    out = np.zeros(4096, dtype)
    found = out.copy()
    minitvm.build(func)(given_, found)
    verdict = bound.compare(func, [given_, out], [given_, found])
    assert verdict, verdict
