"""Inputs reach what programs compare with, clip to and narrow to; elements that are equal; whole ranges of integers."""

from __future__ import annotations

import numpy as np
import pytest

from minitvm.reference import check, random_inputs
from minitvm.reference.judging.case import Case
from minitvm.reference.judging.inputs.landmarks import landmarks, sized_by_data
from minitvm.reference.judging.inputs.sizes import chosen_sizes
from minitvm.reference.judging.inputs.variations import blend, variations, varied
from minitvm.tir.nodes import PrimFunc

from .written import each, function


def maximum(start: str, dtype: str) -> PrimFunc:
    return function(
        f"B[0] = {start}\nfor k in range(8):\n    B[0] = T.max(B[0], A[k])",
        f'A: T.Buffer((8,), "{dtype}"), B: T.Buffer((1,), "{dtype}")',
    )


def dot(dtype: str) -> PrimFunc:
    return function(
        f"""
        L = T.alloc_buffer((1,), "{dtype}")
        L[0] = T.{dtype}(0)
        for i in range(64):
            L[0] = L[0] + T.Cast("{dtype}", A[i]) * T.Cast("{dtype}", W[i])
        B[0] = T.Cast("int32", L[0])
        """,
        'A: T.Buffer((64,), "int8"), W: T.Buffer((64,), "int8"), B: T.Buffer((1,), "int32")',
    )


def argmax(compare: str) -> PrimFunc:
    return function(
        f"""
        M = T.alloc_buffer((1,), "float32")
        M[0] = T.min_value("float32")
        B[0] = -1
        for j in range(8):
            B[0] = T.Select(A[j] {compare} M[0], j, B[0])
            M[0] = T.Select(A[j] {compare} M[0], A[j], M[0])
        """,
        'A: T.Buffer((8,), "float32"), B: T.Buffer((1,), "int32")',
    )


def gather(last: int) -> PrimFunc:
    return function(
        f"for i in range(5):\n    B[i] = A[T.max(T.min(I[i], {last}), 0)]",
        'I: T.Buffer((5,), "int32"), A: T.Buffer((100,), "float32"), B: T.Buffer((5,), "float32")',
    )


def scatter(kind: str) -> PrimFunc:
    return function(
        f"for i in range(64):\n    B[i] = T.float32(0)\nfor i in {kind}(3):\n    B[T.bitwise_and(I[i], 63)] = A[i]",
        'I: T.Buffer((3,), "int32"), A: T.Buffer((3,), "float32"), B: T.Buffer((64,), "float32")',
    )


def step(compare: str, at: str) -> PrimFunc:
    return each(f"T.Select(A[i] {compare} T.float32({at}), T.float32(0.5), T.float32(0.25))")


PAIRS = {
    "a clip at 20 lost": (each("T.max(T.min(A[i], T.float32(20)), T.float32(-20))"), each("A[i]")),
    "a clip of one element": (each("T.min(A[i], T.float32(1000))", n=1), each("A[i]", n=1)),
    "an int8 saturation lost": (
        each('T.Cast("int8", T.max(T.min(T.Cast("int32", A[i]) * 3, 127), -128))', "int8"),
        each("A[i] * T.int8(3)", "int8"),
    ),
    "int32 through int16": (each("A[i]", "int32"), each('T.Cast("int32", T.Cast("int16", A[i]))', "int32")),
    "an int maximum that starts at -100": (maximum('T.min_value("int32")', "int32"), maximum("-100", "int32")),
    "a float maximum that starts at -100": (
        maximum('T.min_value("float32")', "float32"), maximum("T.float32(-100)", "float32"),
    ),
    "an int16 accumulator": (dot("int32"), dot("int16")),
    ">= for > at a tie": (step(">=", "0.5"), step(">", "0.5")),
    ">= for > at a tie of whole numbers": (step(">=", "300"), step(">", "300")),
    "the last of equals": (argmax(">"), argmax(">=")),
    "a gather that is clamped too early": (gather(99), gather(50)),
    "a parallel scatter that collides": (scatter("range"), scatter("T.parallel")),
}  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", PAIRS)
def test_what_ordinary_inputs_do_not_reach_is_found(name: str, seed: int) -> None:
    before, after = PAIRS[name]
    assert check(before, before, seed=seed)
    assert not check(before, after, seed=seed)


def case(before: PrimFunc, after: PrimFunc | None = None) -> Case:
    return Case(before, after or before, 0, chosen_sizes(before, 0, None))


@pytest.mark.parametrize("count", [1, 5, 64])
@pytest.mark.parametrize("whole", [True, False])
def test_every_neighbour_is_planted_in_every_argument(count: int, whole: bool) -> None:
    signature = ", ".join(f'{name}: T.Buffer(({count},), "float32")' for name in "ABC")
    body = f"for i in range({count}):\n    C[i] = T.max(A[i], T.float32(40)) + B[i]"
    one = case(function(body, signature))
    inputs = random_inputs(one.before)
    every = [varied(inputs, variation) for variation in variations(one, inputs, whole)]
    for k in range(2):
        seen = set(np.concatenate([made[k] for made in every]).tolist())
        assert {39.0, 40.0, 41.0} <= seen
        assert whole or {39.5, 40.5} <= seen
    assert all(np.array_equal(made[2], inputs[2], equal_nan=True) for made in every)  # an output stays


def test_small_landmarks_are_among_the_ordinary_inputs_of_exact_mode() -> None:
    """Two runs more for each would be the price of inputs of their own."""
    one = case(each("T.max(A[i], T.float32(3))"))
    inputs = random_inputs(one.before, magnitude=16)
    planted = blend(one, inputs)
    assert planted is not None
    made = varied(inputs, planted)[0]
    assert {2.0, 3.0, 4.0} <= set(made.tolist())
    assert np.count_nonzero(made == inputs[0]) >= 2
    for variation in variations(one, inputs, whole=True):  # rows in order and at the ends of the dtype, and no plants
        flat = varied(inputs, variation)[0].reshape(-1)
        assert np.ptp(np.diff(flat)) == 0 or np.abs(flat).min() > 1e38


@pytest.mark.parametrize("seed", range(3))
def test_what_is_added_where_others_point_may_collide(seed: int) -> None:
    """Without a mask: the places are ordinary numbers."""

    def added(kind: str) -> PrimFunc:
        return function(
            f"for i in range(32):\n    B[i] = T.float32(0)\nfor i in {kind}(4):\n    B[I[i] + 16] = A[i]",
            'I: T.Buffer((4,), "int32"), A: T.Buffer((4,), "float32"), B: T.Buffer((32,), "float32")',
        )

    assert check(added("range"), added("range"), seed=seed)
    assert not check(added("range"), added("T.parallel"), seed=seed)


def test_landmarks_are_those_of_data() -> None:
    guarded = each("T.if_then_else(i < 7, T.min(A[i], T.float32(6)), A[7 - i])")
    assert landmarks(guarded) == {6}
    assert landmarks(each("A[i] * T.float32(12)")) == frozenset()
    assert landmarks(each("T.Cast('int8', A[i])", "int32", "int8")) == {-128, 127}


def test_integers_that_say_how_often_a_loop_runs_stay() -> None:
    counted = function(
        "for i in range(8):\n    B[i] = 0\n    for j in range(T.min(N[i], 9)):\n        B[i] = B[i] + j",
        'N: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")',
    )
    assert sized_by_data(counted, frozenset())
    assert list(variations(case(counted), random_inputs(counted))) == []
    assert check(counted, counted)
    plain = each("A[i]", "int32")
    assert not sized_by_data(plain, frozenset())
    inputs = random_inputs(plain)
    assert max(abs(int(v)) for made in variations(case(plain), inputs) for v in varied(inputs, made)[0]) > 2**28


def test_inputs_that_before_does_not_take_are_left_out() -> None:
    """Planted indices are outside; so is a planted zero that divides."""
    unclamped = function(
        "for i in range(5):\n    B[i] = T.max(A[I[i]], T.float32(30))",
        'I: T.Buffer((5,), "int32"), A: T.Buffer((9,), "float32"), B: T.Buffer((5,), "float32")',
    )
    assert check(unclamped, unclamped, inputs=[np.arange(5, dtype="int32"), *random_inputs(unclamped)[1:]])
    assert check(each("T.max(A[i] / A[i], T.float32(0))"), each("T.float32(1)"), modes=("field",))
