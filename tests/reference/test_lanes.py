"""Vectors in both modes of the interpreters: masks within guards, lanes that meet, and which of two zeros is taken."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from minitvm import expr as x
from minitvm.errors import ExecutionError
from minitvm.expr import GE, LT, Broadcast, Max, Min, Ramp, call, const
from minitvm.reference import kernel
from minitvm.reference.domains.bound_numbers import add, exact, format_of
from minitvm.reference.meaning import scalar
from minitvm.tir.nodes import Buffer, BufferLoad, BufferStore, PrimFunc
from tests.reference.test_scalar import on_grid
from tests.tir.transform.kernel_programs import UPDATED, kernel_arguments, kernel_program


@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_random_kernels_leave_the_same_in_both_modes(dtype: str) -> None:
    for seed in range(60):
        func, arrays = kernel_program(seed, dtype), kernel_arguments(seed, dtype)
        left = []
        for mode in ("slow", "fast"):
            copies = [a.copy() for a in arrays]
            kernel.run(func, *copies, inout=UPDATED, mode=mode)
            left.append(copies)
        for slow, fast in zip(*left, strict=True):
            np.testing.assert_array_equal(slow, fast, err_msg=f"{seed}: {func}")
            np.testing.assert_array_equal(np.signbit(slow), np.signbit(fast), err_msg=f"{seed}: {func}")


@pytest.mark.parametrize("mode", ["slow", "fast"])
@pytest.mark.parametrize("guard", range(5))
@pytest.mark.parametrize("mask", range(5))
def test_lanes_that_a_guard_keeps_out_are_not_touched(mode: str, guard: int, mask: int) -> None:
    """Of 8 lanes the last ones lie outside of the buffer: guard and mask together leave only those within."""
    a, b = Buffer("A", (const(4),), "int32"), Buffer("B", (const(8),), "int32")
    lanes = Ramp(const(0), const(1), 8)
    load = BufferLoad(a, (lanes,), LT(lanes, Broadcast(const(4 + mask), 8)))
    value = call("if_then_else", LT(lanes, Broadcast(const(4 + guard), 8)), load, Broadcast(const(-1), 8))
    func = PrimFunc((a, b), BufferStore(b, value, (lanes,)), {"global_symbol": "k"})
    arrays = [np.arange(1, 5, dtype="int32"), np.zeros(8, "int32")]
    if min(guard, mask) > 0:
        with pytest.raises(ExecutionError, match="out of bounds"):
            kernel.run(func, *arrays, mode=mode)
    else:
        kernel.run(func, *arrays, mode=mode)
        kept = [0] * guard + [-1] * (4 - guard)  # a lane that is masked out is zero
        assert arrays[1].tolist() == [1, 2, 3, 4, *kept]


@pytest.mark.parametrize("mode", ["slow", "fast"])
@pytest.mark.parametrize("places", list(itertools.product(range(3), repeat=3)))
@pytest.mark.parametrize("active", [3, 2])
def test_lanes_of_a_scatter_that_meet_are_refused(mode: str, places: tuple[int, ...], active: int) -> None:
    index, b = Buffer("P", (const(3),), "int32"), Buffer("B", (const(3),), "int32")
    lanes = Ramp(const(0), const(1), 3)
    mask = GE(Broadcast(const(active - 1), 3), lanes)
    store = BufferStore(b, lanes + 1, (BufferLoad(index, (lanes,)),), mask if active < 3 else None)
    func = PrimFunc((index, b), store, {"global_symbol": "k"})
    arrays = [np.array(places, "int32"), np.zeros(3, "int32")]
    taken = places[:active]
    if len(set(taken)) < len(taken):
        with pytest.raises(ExecutionError, match="two lanes of one store"):
            kernel.run(func, *arrays, mode=mode, inout=["B"])
    else:
        kernel.run(func, *arrays, mode=mode, inout=["B"])
        assert {p: int(arrays[1][p]) for p in taken} == {p: k + 1 for k, p in enumerate(taken)}


@pytest.mark.parametrize("kind", [Max, Min])
def test_extremes_of_zeros_have_one_sign_in_both_modes(kind: type[x.BinaryOp]) -> None:
    a, b = x.DataVar("a", "float32"), x.DataVar("b", "float32")
    for one, other in itertools.product([0.0, -0.0, 1.0, -1.0, math.inf, math.nan], repeat=2):
        slow = scalar.evaluate(kind(a, b), {a: one, b: other})
        (fast,) = on_grid(kind(a, b), {a: [one], b: [other]}).tolist()
        assert (math.copysign(1, slow), repr(float(slow))) == (math.copysign(1, fast), repr(float(fast))), (one, other)


def test_a_sum_counts_its_additions_in_any_order() -> None:
    """The bound is one for every order of n numbers, so it counts n - 1 additions, however they are grouped."""
    f = format_of(x.DType("float32"))
    leaves = [exact(np.float64(k)) for k in range(1, 9)]
    in_turn = leaves[0]
    for leaf in leaves[1:]:
        in_turn = add(in_turn, leaf, f)
    level = leaves
    while len(level) > 1:
        level = [add(a, b, f) for a, b in itertools.pairwise(level)][::2]
    assert int(in_turn["adds"]) == int(level[0]["adds"]) == 7
