"""Special mode: what breaks NaN, infinities, signed zeros and wrapping is seen; another order of a sum is no pass."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm import expr as x
from minitvm import tir
from minitvm.reference import check
from minitvm.reference import tir as loops
from minitvm.reference.judging.inputs.special import TURNS, same_bits, special_inputs, special_values, turns
from minitvm.reference.strategies import scheduled
from minitvm.script import from_source
from minitvm.script import tir as T
from minitvm.tir import nodes as t
from minitvm.tir.schedule import PRIMITIVES
from minitvm.tir.transform.pipeline import lower
from tests.fewer import examples


def assigning(value: str, dtype: str = "float32", n: int = 32) -> t.PrimFunc:
    """C[i] = value, of A[i] and B[i]."""
    return from_source(
        "from minitvm.script import tir as T\n@T.prim_func\n"
        f'def main(A: T.Buffer(({n},), "{dtype}"), B: T.Buffer(({n},), "{dtype}"), C: T.Buffer(({n},), "{dtype}")):\n'
        f"    for i in range({n}):\n        C[i] = {value}\n"
    )


def only_special(before: Any, after: Any) -> Any:
    return check(before, after, modes=["special"])


FAULTS = {
    "x * 0 -> 0": ("A[i] * T.float32(0) + B[i]", "B[i]"),
    "x - x -> 0": ("A[i] - A[i]", "T.float32(0)"),
    "x + 0 -> x": ("A[i] + T.float32(0)", "A[i]"),
    "0 - x -> -x": ("T.float32(0) - A[i]", "A[i] * T.float32(-1)"),
    "max that drops NaN": ("T.max(A[i], B[i])", "T.Select(A[i] > B[i], A[i], B[i])"),
    "x / y * y -> x": ("A[i] / B[i] * B[i]", "A[i]"),
    "not (a < b) -> a >= b": (
        "T.Select(A[i] < B[i], A[i], B[i])", "T.Select(A[i] >= B[i], B[i], A[i])",
    ),
    "abs by comparison": ("T.abs(A[i])", "T.Select(A[i] > T.float32(0), A[i], A[i] * T.float32(-1))"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_rewrites_that_forget_special_values(name: str) -> None:
    before, after = FAULTS[name]
    verdict = only_special(assigning(before), assigning(after))
    assert not verdict, name
    assert verdict.mode == "special" and verdict.output == "C"


@pytest.mark.parametrize(
    "before, after",
    [("A[i] * T.float32(1)", "A[i]"), ("A[i] - T.float32(0)", "A[i]"), ("A[i] * B[i]", "B[i] * A[i]")],
)
def test_rewrites_that_keep_them(before: str, after: str) -> None:
    assert only_special(assigning(before), assigning(after))


def test_integers_wrap() -> None:
    assert only_special(assigning("A[i] + B[i] - B[i]", "int8"), assigning("A[i]", "int8"))
    halves = assigning("(A[i] + B[i]) // T.int8(2)", "int8"), assigning("A[i] // T.int8(2) + B[i] // T.int8(2)", "int8")
    assert not only_special(*halves)
    assert not only_special(assigning("T.max(A[i], B[i])", "int8"),
                            assigning("T.Select(A[i] - B[i] > T.int8(0), A[i], B[i])", "int8"))  # fmt: skip


def test_lowering_keeps_divisions_of_the_least_integer() -> None:
    """A simplification of `x % -3` to `-(-x % 3)` was found by this mode: -x wraps."""
    func = assigning("A[i] % T.int32(-3) + A[i] // T.int32(-3)", "int32")
    assert only_special(func, lower(func, None, "f"))


def test_a_sum_in_another_order_is_refused_and_a_lost_term_found() -> None:
    @T.prim_func
    def func(A: T.Buffer((4, 9), "float32"), C: T.Buffer((4,), "float32")):
        for i, k in T.grid(4, 9):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + A[vi, vk]

    sch = tir.Schedule(func)
    _, k = sch.get_loops(sch.get_block("C"))
    k0, k1 = sch.split(k, [3, 3])
    sch.reorder(k1, k0)
    verdict = check(func, sch.func, modes=["special"], inputs=_hard(func))
    assert "were taken in another order" in verdict.refused["special"] and "special" not in verdict.ran
    source = func.script().replace("range(4, 9)", "").replace("T.grid(4, 9)", "T.grid(4, 8)")
    assert not check(func, from_source(source), modes=["special"])
    straight = tir.Schedule(func)
    straight.split(straight.get_loops(straight.get_block("C"))[1], [3, 3])
    assert only_special(func, straight.func)


def _hard(func: t.PrimFunc) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal((4, 9)).astype("f"), np.full(4, np.nan, "f")]


def test_the_sign_of_a_zero_sum_does_not_depend_on_the_order() -> None:
    @T.prim_func
    def func(A: T.Buffer((1, 3), "float32"), C: T.Buffer((1,), "float32")):
        for k in range(3):
            with T.block("C"):
                vk = T.axis.reduce(3, k)
                with T.init():
                    C[0] = T.float32(0)
                C[0] = C[0] + A[0, vk]

    negative = from_source(func.script().replace("C[0] = T.float32(0.0)", "C[0] = T.float32(-0.0)"))
    zeros = [np.full((1, 3), -0.0, "f"), np.zeros(1, "f")]
    assert not check(func, negative, modes=["special"], inputs=zeros)


def test_bits() -> None:
    a = np.array([0.0, -0.0, np.nan, 1, np.inf], "f")
    b = np.array([-0.0, -0.0, -np.nan, 1, -np.inf], "f")
    assert same_bits(a, b).tolist() == [False, True, True, True, False]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int8", "int32", "uint8", "int64"])
def test_every_kind_of_value_is_planted(dtype: str) -> None:
    func = assigning("A[i] + B[i]", dtype, n=400)
    planted = special_inputs(func, 0, {})[0]
    assert planted.dtype == dtype
    wanted = special_values(x.DType(dtype))
    for value in wanted:
        assert any(same_bits(np.array(value), found) for found in planted), value


def test_a_scalar_that_is_a_size_takes_no_turns() -> None:
    func = from_source("""
        @T.prim_func
        def main(a: T.handle, n: T.int32, b: T.handle):
            A = T.match_buffer(a, (n,), "float32")
            B = T.match_buffer(b, (n,), "float32")
            for i in range(n):
                B[i] = A[i]
    """)
    assert turns(func, {"n": 100}) == TURNS
    assert all(special_inputs(func, 5, {"n": 100}, turn=turn)[1] == 100 for turn in range(TURNS))


@pytest.mark.parametrize("n", [1, 3, 8])
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_in_turns_a_small_input_gets_every_value_too(n: int, dtype: str) -> None:
    func = assigning("A[i] + B[i]", dtype, n=n)
    made = [special_inputs(func, 5, {}, turn=turn) for turn in range(turns(func, {}))]
    for k in (0, 1):
        planted = np.concatenate([inputs[k] for inputs in made])
        for value in special_values(x.DType(dtype)):
            assert any(same_bits(np.array(value), found) for found in planted), (k, value)


@pytest.mark.parametrize("n", [1, 2, 8])
@pytest.mark.parametrize("seed", range(6))
def test_a_lost_zero_of_the_other_sign_is_seen_with_every_seed(n: int, seed: int) -> None:
    before, after = assigning("A[i] + T.float32(0)", n=n), assigning("A[i]", n=n)
    assert not check(before, after, modes=["special"], seed=seed)


def value_of_a_sum(random: Random) -> str:
    """A function, often one with jumps, of a sum of two to four terms."""
    terms = ["A[i]", "B[i]", "A[i] * T.float32(0.5)", "T.float32(0.25)", "T.float32(-0.25)", "T.float32(-0.0)"]
    total = " + ".join(random.choice(terms) for _ in range(random.randint(2, 4)))
    functions = ("ceil", "trunc", "round", "nearbyint", "floor", "abs")
    value = f"T.{random.choice(functions)}({total})" if random.random() < 0.8 else total
    others = ("{}", "{}", "{} * T.float32(-1)", "T.max({}, A[i])", "T.min({}, B[i])", "T.copysign({}, B[i])")
    return random.choice(others).format(value)


def test_the_sign_of_a_zero_is_told_whatever_sums_lie_behind_it() -> None:
    """`x + 0 -> x` is a difference exactly where x is -0 on one of the inputs; another order is no excuse for it."""
    seen = 0
    for seed in range(24):
        value = value_of_a_sum(Random(seed))
        before, after = assigning(value), assigning(f"{value} + T.float32(0)")
        negative = False
        for turn in range(turns(before, {})):
            inputs = special_inputs(before, 0, {}, turn=turn)
            loops.run(before, *inputs)
            negative = negative or bool((np.signbit(inputs[2]) & (inputs[2] == 0)).any())
        verdict = only_special(before, after)
        assert bool(verdict) != negative, f"{value}: {verdict}"
        seen += negative
    assert 6 < seen < 22


def test_integers_that_are_indices_stay_small() -> None:
    @T.prim_func
    def func(A: T.Buffer((20,), "float32"), B: T.Buffer((4,), "int32"), C: T.Buffer((4,), "float32")):
        for i in range(4):
            C[i] = A[B[i] + 8]

    assert only_special(func, func)


STEPS = (
    "split", "fuse", "reorder", "parallel", "vectorize", "unroll", "compute_at", "compute_inline", "cache_read",
    "cache_write", "decompose_reduction", "rfactor",
)  # fmt: skip


@examples(8, 25)
@given(scheduled(None, *(name for name in STEPS if name in PRIMITIVES)), st.integers(0, 99))
def test_schedules_keep_special_values(pair: Any, seed: int) -> None:
    """At tir and at kernel level; sums in another order and casts of what no integer holds are refused."""
    for after in (pair.after, lower(pair.after, None, "f")):
        verdict = check(pair.before, after, modes=["exact", "special"], seed=seed)
        assert verdict, verdict
        told = verdict.refused.get("special", "")
        assert "special" in verdict.ran or "another order" in told or "cast of" in told, verdict
