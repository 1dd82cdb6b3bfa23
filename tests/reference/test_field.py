"""Field mode: what holds by algebra is accepted for all inputs, what does not is told apart, at every level."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm import expr as x
from minitvm import te, tir
from minitvm.errors import ExecutionError, Unsupported
from minitvm.lowering import lower_function, schedule_function
from minitvm.reference import Verdict, check
from minitvm.reference.domains.field import Field, NeedsCompanion, lift
from minitvm.reference.domains.field_order import OrderedField
from minitvm.reference.judging.case import Case
from minitvm.reference.judging.inputs.arguments import chosen_sizes, random_inputs
from minitvm.reference.judging.programs import execute
from minitvm.reference.strategies import prim_funcs
from minitvm.script import tir as T
from minitvm.target import Target
from minitvm.tir import nodes as t
from minitvm.tir.transform.pipeline import lower
from tests.fewer import examples

from .test_kernel import reversal
from .winograd import F2, F4, direct, winograd

Body = Callable[[x.Expr], x.Expr]


def field(before: Any, after: Any, **options: Any) -> Verdict:
    return check(before, after, modes=("field", "shadow"), **options)


def elementwise(body: Body, dtype: str = "float32") -> list[Any]:
    data = te.placeholder((9,), dtype, name="X")
    return [data, te.compute((9,), lambda i: body(data[i]), name="Y")]


def levels(tensors: list[Any]) -> list[Any]:
    func = te.create_prim_func(tensors)
    return [tensors, func, lower(func, None, "f")]


def call(op: str, *args: Any) -> x.Expr:
    return x.call(op, *args)


SAME: dict[str, tuple[Body, Body]] = {
    "a rational constant": (lambda v: v * x.FloatImm(Fraction(1, 6)), lambda v: v / 6.0),
    "its float": (lambda v: v * float(np.float32(1 / 6)), lambda v: v / 6.0),
    "distribution": (lambda v: (v + 1.0) * (v - 1.0), lambda v: v * v - 1.0),
    "a fused multiply-add": (lambda v: call("fma", v, v, v), lambda v: v * (v + 1.0)),
    "a common factor of functions": (lambda v: call("exp", v) * 2.0, lambda v: call("exp", v) + call("exp", v)),
    "rsqrt": (lambda v: call("rsqrt", v), lambda v: 1.0 / call("sqrt", v)),
    "sigmoid": (lambda v: call("sigmoid", v), lambda v: 1.0 / (1.0 + call("exp", 0.0 - v))),
    "a whole power": (lambda v: call("pow", v, x.const(3.0)), lambda v: v * v * v),
    "a negative power": (lambda v: call("pow", v, x.const(-2.0)), lambda v: 1.0 / (v * v)),
    "exp of zero": (lambda v: call("exp", v - v), lambda v: x.const(1.0)),
    "casts between floats": (lambda v: v.astype("float16").astype("float64").astype("float32"), lambda v: v),
    "relu": (lambda v: x.Max(v, x.const(0.0)), lambda v: x.Select(v > 0.0, v, x.const(0.0))),
    "a scaled maximum": (lambda v: x.Max(v * 2.0, x.const(0.0)), lambda v: x.Max(v, x.const(0.0)) * 2.0),
    "a maximum as a choice": (lambda v: x.Max(v, v * v), lambda v: call("if_then_else", v > v * v, v, v * v)),
    "abs": (lambda v: call("abs", v), lambda v: x.Max(v, 0.0 - v)),
    "an end of the order": (lambda v: x.Min(x.Max(v, x.const(-3.4028234663852886e38)), x.const(2.0)),
                            lambda v: x.Min(v, x.const(2.0))),
    "exp of an end": (lambda v: call("exp", x.Min(v, x.const(float("-inf")))), lambda v: x.const(0.0)),
    "truncation": (lambda v: v.astype("int32").astype("float32"), lambda v: call("trunc", v)),
    "a remainder": (lambda v: x.FloorMod(v, x.const(0.5)), lambda v: v - call("floor", v * 2.0) * 0.5),
    "comparison of equal formulas": (lambda v: x.Select(v * v >= v * v, v, 0.0 - v), lambda v: v),
    "max of functions": (lambda v: x.Max(call("exp", v), call("tanh", v)),
                         lambda v: x.Max(call("tanh", v), call("exp", v))),
    "max where nothing is known": (lambda v: x.Max(call("log", v - 9.0), call("sqrt", v - 9.0)),
                                   lambda v: x.Max(call("sqrt", v - 9.0), call("log", v - 9.0))),
    "a choice by a root": (lambda v: x.Select(call("sqrt", v) > 1.0, v, v * v),
                           lambda v: x.Select(x.LT(x.const(1.0), call("sqrt", v)), v, v * v)),
    "a choice by an arcsine": (lambda v: x.Select(call("asin", v) > 0.0, v, v * v),
                               lambda v: x.Select(x.LT(x.const(0.0), call("asin", v)), v, v * v)),
    "a guarded division by zero": (lambda v: x.Select(v - v > 1.0, v / (v - v), v), lambda v: v),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_what_holds_by_algebra_is_accepted_at_every_level(name: str) -> None:
    one, other = SAME[name]
    for after in levels(elementwise(other)):
        verdict = field(elementwise(one), after)
        assert verdict, verdict
        assert (verdict.mode, dict(verdict.refused)) == ("field", {})


DIFFERENT: dict[str, tuple[Body, Body]] = {
    "another constant": (lambda v: v * x.FloatImm(Fraction(1, 6)), lambda v: v * 0.16666),
    "exp is not linear": (lambda v: call("exp", v) * 2.0, lambda v: call("exp", v * 2.0)),
    "another function": (lambda v: call("exp", v), lambda v: call("exp2", v)),
    "min for max": (lambda v: x.Max(v, x.const(0.0)), lambda v: x.Min(v, x.const(0.0))),
    "another bound": (lambda v: x.Max(v, x.const(0.0)), lambda v: x.Max(v, x.const(1e-3))),
    "floor for trunc": (lambda v: call("floor", v), lambda v: call("trunc", v)),
    "a small term": (lambda v: v, lambda v: v + v * v * 1e-30),
    "a lost sign": (lambda v: call("abs", v), lambda v: v),
    "no end": (lambda v: x.Max(v, x.const(float("-inf"))), lambda v: x.const(float("-inf"))),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_what_does_not_hold_is_told_apart_at_every_level(name: str) -> None:
    one, other = DIFFERENT[name]
    for after in levels(elementwise(other)):
        verdict = field(elementwise(one), after)
        assert not verdict
        assert (verdict.mode, verdict.output) == ("field", "Y")


def test_a_difference_is_told_as_rationals_on_small_inputs() -> None:
    verdict = field(elementwise(lambda v: v / 6.0 + 0.5), elementwise(lambda v: v / 5.0 + 0.5))
    assert (verdict.before, verdict.after) == ("2/3", "7/10")
    assert str(verdict) == (
        "the programs differ in Y[0] (field mode, 1 of 9 elements)\n  before: 2/3\n  after:  7/10\n"
        "  X = 0 but 1 at [0] (9)"
    )


REFUSED: dict[str, tuple[Body, str]] = {
    "not a number": (lambda v: v / (v - v), "not a number"),
    "the bits of a float": (
        lambda v: x.Call("float32", "reinterpret", (x.Call("int32", "reinterpret", (v,)),)), "stored",
    ),
    "a tie": (lambda v: x.Select(call("log", v - 9.0) > 0.0, v, 0.0 - v), "could not decide"),
    "a NaN constant": (lambda v: v + float("nan"), "not a number"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_judged_is_refused(name: str) -> None:
    body, reason = REFUSED[name]
    for after in levels(elementwise(body)):
        verdict = check(elementwise(body), after, modes=("field", "floats"))
        assert reason in verdict.refused["field"]
        assert verdict.mode in ("bits", "close")


def test_given_inputs_leave_the_field_out() -> None:
    tensors = elementwise(lambda v: v + 1.0)
    verdict = check(tensors, tensors, inputs=[np.ones(9, "float32"), np.zeros(9, "float32")])
    assert verdict.refused["field"] == "field mode: inputs were given"


# ---- whole programs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rounded", [False, True], ids=["rationals", "floats"])
@pytest.mark.parametrize(("matrices", "size"), [(F2, 4), (F4, 8)], ids=["F(2x2, 3x3)", "F(4x4, 3x3)"])
def test_winograd_is_the_direct_convolution(matrices: Any, size: int, rounded: bool) -> None:
    before = direct(3, 2, size)
    for after in levels(winograd(3, 2, size, matrices, rounded)):
        verdict = field(before, after)
        assert verdict, verdict
        assert verdict.mode == "field"
        assert check(before, after)


@pytest.mark.parametrize("row", range(6))
def test_a_wrong_winograd_matrix_is_caught(row: int) -> None:
    back, g, b = F4
    wrong = [list(line) for line in g]
    wrong[row][row % 3] += Fraction(1, 1000)
    verdict = check(direct(1, 1, 4), winograd(1, 1, 4, (back, wrong, b)))
    assert not verdict
    assert verdict.mode == "field"


def softmax(stable: bool) -> list[Any]:
    data = te.placeholder((3, 7), name="X")
    k, r = te.reduce_axis((0, 7), name="k"), te.reduce_axis((0, 7), name="r")
    top = te.compute((3,), lambda i: te.max(data[i, k], axis=k), name="top")
    e = te.compute((3, 7), lambda i, j: x.call("exp", data[i, j] - top[i]), name="e")
    total = te.compute((3,), lambda i: te.sum(e[i, r], axis=r), name="total")
    if stable:
        return [data, te.compute((3, 7), lambda i, j: e[i, j] / total[i], name="Y")]
    factor = te.compute((3,), lambda i: 1.0 / total[i], name="factor")
    return [data, te.compute((3, 7), lambda i, j: factor[i] * e[i, j], name="Y")]


def test_softmax_with_a_reciprocal() -> None:
    for after in levels(softmax(False)):
        verdict = field(softmax(True), after)
        assert verdict, verdict
        assert verdict.mode == "field"


def test_schedules_with_rfactor_and_vectors() -> None:
    data, other = te.placeholder((6, 12), name="A"), te.placeholder((6, 12), name="B")
    k = te.reduce_axis((0, 12), name="k")
    out = te.compute((6,), lambda i: te.sum(data[i, k] / other[i, k], axis=k), name="C")
    func = te.create_prim_func([data, other, out])
    sch = tir.Schedule(func)
    _, k_loop = sch.get_loops("C")
    _, inner = sch.split(k_loop, [None, 4])
    sch.rfactor(inner, 0)
    sch.parallel(sch.get_loops("C")[0])
    for after in (sch.mod, lower(sch.func, None, "f")):
        verdict = check(func, after)
        assert verdict, verdict
        assert verdict.mode == "field"
        assert "exact" in verdict.refused


def test_indices_chosen_by_floats() -> None:
    """A cast to int chooses an element, decided by the companion."""

    def pick(scale: float) -> t.PrimFunc:
        @T.prim_func
        def func(A: T.Buffer((9,), "float32"), V: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
            for i in range(4):
                C[i] = A[T.max(T.min(T.Cast("int32", V[i] * T.float32(scale)), 8), 0)]

        return func

    assert field(pick(1.0), pick(1.0)).mode == "field"
    assert not field(pick(1.0), pick(2.0))


def test_argmax_carries_its_index() -> None:
    def fcombine(a: Any, b: Any) -> tuple[Any, Any]:
        return te.if_then_else(a[1] >= b[1], a[0], b[0]), te.if_then_else(a[1] >= b[1], a[1], b[1])

    def argmax(backward: bool) -> list[Any]:
        value = te.placeholder((3, 9), name="V")
        k = te.reduce_axis((0, 9), name="k")
        reducer = te.comm_reducer(fcombine, lambda i, v: (x.const(-1, i), x.FloatImm(float("-inf"), v)), name="argmax")
        at = 8 - k if backward else k
        first, second = te.compute((3,), lambda i: reducer((at, value[i, at]), axis=k), name="Y")
        return [value, first, second]

    assert field(argmax(False), argmax(True)).mode == "field"


def test_uninitialised_and_out_of_bounds_show_in_the_field_too() -> None:
    @T.prim_func
    def right(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            B[i] = A[i] * T.float32(0.3)

    @T.prim_func
    def partial(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(7):
            B[i] = A[i] * T.float32(0.3)

    @T.prim_func
    def beyond(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(9):
            B[i] = A[i] * T.float32(0.3)

    zero = elementwise(lambda v: v * 0.0)

    @T.prim_func
    def nothing(X: T.Buffer((9,), "float32"), Y: T.Buffer((9,), "float32")):
        for i in range(8):
            Y[i] = T.float32(0)

    assert not check(zero, nothing, modes=("field",))  # the last element is no zero either
    for wrong in (partial, beyond):
        verdict = field(right, wrong)
        assert not verdict
        assert verdict.mode == "shadow"
        assert verdict.finding is not None
    with pytest.raises(ExecutionError):
        field(beyond, right)


def normalisation(n: int = 33) -> list[Any]:
    data = te.placeholder((5, n), name="X")
    k, r = te.reduce_axis((0, n), name="k"), te.reduce_axis((0, n), name="r")
    mean = te.compute((5,), lambda i: te.sum(data[i, k], axis=k), name="mean")
    centred = te.compute((5, n), lambda i, j: data[i, j] - mean[i] / float(n), name="centred")
    square = te.compute((5,), lambda i: te.sum(centred[i, r] * centred[i, r], axis=r), name="square")
    scale = te.compute((5,), lambda i: x.call("rsqrt", square[i] / float(n) + 1e-5), name="scale")
    return [data, te.compute((5, n), lambda i, j: centred[i, j] * scale[i], name="Y")]


def biased_matmul(m: int = 19, n: int = 37, k: int = 11) -> list[Any]:
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), name="r")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    return [a, b, te.compute((m, n), lambda i, j: x.Max(c[i, j] * (1.0 / 3.0) + 0.1, x.const(0.0)), name="R")]


@pytest.mark.parametrize("make", [normalisation, biased_matmul])
def test_what_the_cpu_strategy_makes(make: Callable[[], list[Any]]) -> None:
    """Vectors, masked tails and tiles of registers, at tir and kernel level."""
    tensors, target = make(), Target("cpu")
    func = schedule_function(te.create_prim_func(tensors), target)
    module = lower_function(func, target).module
    assert any(isinstance(n, x.Ramp) for _, f in module.items() for n in x.walk(f.body))
    for after in (func, module):
        verdict = field(tensors, after)
        assert verdict, verdict
        assert verdict.mode == "field"


@pytest.mark.parametrize("domain", [Field(), OrderedField()], ids=["field", "ordered"])
@pytest.mark.parametrize("mode", ["slow", "fast"])
def test_vectors_masks_and_reductions_over_lanes(mode: str, domain: Field) -> None:
    a, c, i = t.Buffer("A", (11,)), t.Buffer("C", (3,)), x.Var("i")
    places = x.Ramp(i * 4, x.const(1), 4)
    load = t.BufferLoad(a, (places,), places < x.Broadcast(x.const(11), 4))
    two, one = x.Broadcast(x.const(2.0), 4), x.Broadcast(x.const(1.0), 4)
    vector = x.call("fma", load, two, x.Shuffle((x.call("exp", load), one), (0, 1, 2, 3)))
    store = t.BufferStore(c, x.Call(x.DType("float32"), "vector_reduce_add", (vector,)), (i,))
    loop = t.For(i, x.const(0), x.const(3), t.ForKind.SERIAL, store)
    func = t.PrimFunc((a, c), loop, {"global_symbol": "f"})
    values = np.arange(11.0)
    args = [domain.lift(values), domain.poison(3, x.DType("float32"))]
    execute(func, args, domain=domain, mode=mode)
    padded = domain.lift(np.append(values, 0.0))
    exp = domain.hash("exp", padded)
    wanted = domain.add(domain.multiply(padded, domain.lift(np.full(12, 2.0))), exp)
    total = wanted.reshape(3, 4)[:, 0]
    for lane in range(1, 4):
        total = domain.add(total, wanted.reshape(3, 4)[:, lane])
    assert domain.same(args[1], total).all()


@pytest.mark.parametrize("mode", ["slow", "fast"])
def test_thread_blocks_with_barriers(mode: str) -> None:
    case = Case(reversal(True), reversal(True), 0, {})
    inputs = lift(case.parameters, Field(), random_inputs(case.before), case.seed)
    execute(case.after, inputs, domain=Field(), mode=mode)
    assert (inputs[1]["r"].reshape(4, 8, 2) == inputs[0]["r"].reshape(4, 8, 2)[:, ::-1]).all()
    assert check(reversal(True), reversal(True)).ran == ("exact", "field", "shadow")
    assert check(reversal(True), reversal(False)).mode == "shadow"


def test_powers_are_the_same_for_one_element_and_for_many() -> None:
    """The exponents 0 to 8 at once, and each by itself."""
    data = te.placeholder((9,), name="X")
    many = te.compute((9,), lambda i: x.call("pow", data[i], i.astype("float32") - 2.0), name="Y")

    def product(i: Any) -> x.Expr:
        chosen: x.Expr = x.const(0.0)
        for k in range(9):
            value: x.Expr = x.const(1.0)
            for _ in range(abs(k - 2)):
                value = value * data[i]
            chosen = x.Select(x.EQ(i, x.const(k)), value if k >= 2 else 1.0 / value, chosen)
        return chosen

    verdict = field([data, many], [data, te.compute((9,), product, name="Y")])
    assert verdict, verdict
    slow = te.create_prim_func([data, many])
    case = Case(slow, slow, 0, {})
    results = []
    for mode in ("slow", "fast"):
        args = lift(case.parameters, Field(), random_inputs(slow), case.seed)
        execute(slow, args, domain=Field(), mode=mode)
        results.append(args[1])
    assert Field().same(*results).all()


@pytest.mark.parametrize("domain", [Field(), OrderedField()], ids=["field", "ordered"])
def test_tensor_expressions_one_element_at_a_time(domain: Field) -> None:
    tensors = normalisation(7)
    case = Case(tensors, tensors, 0, {})
    results = []
    for mode in ("slow", "fast"):
        args = lift(case.parameters, domain, random_inputs(tensors), case.seed)
        execute(tensors, args, domain=domain, mode=mode)
        results.append(args[-1])
    assert domain.same(*results).all()
    assert len(np.unique(results[0]["r"])) == results[0]["r"].size


@examples(15)
@given(prim_funcs(), st.integers(0, 3))
def test_levels_and_modes_agree_in_the_field(func: t.PrimFunc, seed: int) -> None:
    """Fast and slow, before and after lowering: the same elements."""
    case = Case(func, func, seed, chosen_sizes(func, seed, None))
    inputs = random_inputs(func, seed, case.sizes)
    for domain in (Field(), OrderedField()):
        results = set()
        try:
            for program in (func, lower(func, None, "f")):
                for mode in ("fast", "slow"):
                    args = [np.array(a) for a in lift(case.parameters, domain, inputs, case.seed)]
                    execute(program, args, True, case.sizes, domain=domain, mode=mode)
                    results.add(b"".join((a if a.dtype.names is None else a["r"]).tobytes() for a in args))
        except NeedsCompanion:
            assert type(domain) is Field
            continue
        assert len(results) == 1


def test_nothing_left_to_compare_with_is_an_error() -> None:
    tensors = elementwise(lambda v: x.Call("float32", "tvm_unknown", (v,)))
    with pytest.raises(Unsupported):
        check(tensors, tensors)
