"""What the threads of a block do stage by stage, they do one after another inside of one loop over them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitvm.errors import Unsupported
from minitvm.expr import Call, walk
from minitvm.machines.gpu.transform.threads_outside import threads_outside
from minitvm.reference import kernel as kernel_reference
from minitvm.reference import tir as reference
from minitvm.script import from_source
from minitvm.script import tir as T
from minitvm.tir import Schedule
from minitvm.tir.nodes import Allocate, For, PrimFunc
from minitvm.tir.transform import lower
from tests.tir.transform.block_stages import BLOCKS, TILE, staged


def loops_over_threads(func: PrimFunc) -> list[str]:
    return [str(n.thread) for n in walk(func.body) if isinstance(n, For) and n.thread]


def barriers(func: PrimFunc) -> list[str]:
    calls = [n for n in walk(func.body) if isinstance(n, Call) and n.op == "tvm_storage_sync"]
    return [str(call.args[0]).strip('"') for call in calls]


@settings(max_examples=30)
@given(st.data())
def test_stages_hand_on_what_they_wrote(data: Any) -> None:
    func, sch = staged(data.draw)
    _same(func, sch)


@settings(max_examples=30)
@given(st.data())
def test_stages_over_different_axes_store_once(data: Any) -> None:
    """The threads of the other axes would otherwise all store what one of them has to."""
    func, sch = staged(data.draw, ("threadIdx.x", "threadIdx.y"))
    _same(func, sch)


def _same(func: PrimFunc, sch: Schedule) -> None:
    axes = {str(n.thread) for n in walk(sch.func.body) if isinstance(n, For) and n.thread}
    module = lower(sch.func, None, "main")
    array = np.arange(TILE * BLOCKS, dtype="int32")
    wanted, found = np.zeros_like(array), np.zeros_like(array)
    reference.run(func, array, wanted)
    kernel_reference.run(module, array, found)  # a race, as of a missing barrier, is an error there
    np.testing.assert_array_equal(found, wanted)
    for name, kernel in module.items():
        if name != "main" and isinstance(kernel, PrimFunc):
            assert sorted(loops_over_threads(kernel)) == sorted(axes)


@T.prim_func
def through_memory(A: T.Buffer((32,), "int32"), B: T.Buffer((32,), "int32"), C: T.Buffer((32,), "int32")) -> None:
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        for tx in T.thread_binding(16, thread="threadIdx.x"):
            with T.block("B"):
                v = T.axis.spatial(32, bx * 16 + tx)
                B[v] = A[v]
        for tx in T.thread_binding(16, thread="threadIdx.x"):
            with T.block("C"):
                v = T.axis.spatial(32, bx * 16 + tx)
                C[v] = B[v // 16 * 16 + 15 - v % 16]


def test_stages_that_meet_in_memory_get_a_barrier_for_it() -> None:
    kernel = lower(through_memory, None, "main")["main_kernel_0"]
    assert barriers(kernel) == ["global"]


@T.prim_func
def each_its_own(A: T.Buffer((32,), "int32"), B: T.Buffer((32,), "int32"), C: T.Buffer((32,), "int32")) -> None:
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        for tx in T.thread_binding(16, thread="threadIdx.x"):
            with T.block("B"):
                v = T.axis.spatial(32, bx * 16 + tx)
                B[v] = A[v]
        for tx in T.thread_binding(16, thread="threadIdx.x"):
            with T.block("C"):
                v = T.axis.spatial(32, bx * 16 + tx)
                C[v] = B[v] + 1


def test_stages_in_which_each_thread_keeps_to_its_own_get_none() -> None:
    assert barriers(lower(each_its_own, None, "main")["main_kernel_0"]) == []


@T.prim_func
def held(A: T.Buffer((2, 64), "int32"), C: T.Buffer((2, 64), "int32")) -> None:
    S = T.alloc_buffer((2, 4, 16), "int32", scope="local")
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        for k in range(4):
            for tx in T.thread_binding(16, thread="threadIdx.x"):
                with T.block("S"):
                    v, e = T.axis.spatial(2, bx), T.axis.spatial(64, k * 16 + tx)
                    S[v, e // 16, e % 16] = A[v, e]
        for k in range(4):
            for tx in T.thread_binding(16, thread="threadIdx.x"):
                with T.block("C"):
                    v, e = T.axis.spatial(2, bx), T.axis.spatial(64, k * 16 + tx)
                    C[v, e] = S[v, e // 16, e % 16] + S[v, 3 - e // 16, e % 16]


@pytest.mark.parametrize(("place", "scope"), [("e % 16", "local"), ("15 - e % 16", "shared"), ("e % 8", "shared")])
def test_local_storage_with_a_dimension_of_threads_is_each_threads_own(place: str, scope: str) -> None:
    """Of the last read the index along that dimension varies; a thread has 4 elements then, a block all."""
    text = held.script().replace("S[v, 3 - e // 16, e % 16]", f"S[v, 3 - e // 16, {place}]")
    func = from_source(text)
    module = lower(func, None, "main")
    (storage,) = {n.buffer for n in walk(module["main_kernel_0"].body) if isinstance(n, Allocate)}
    assert (storage.scope, int(storage.shape[0])) == (scope, 4 if scope == "local" else 64)
    assert barriers(module["main_kernel_0"]) == ([] if scope == "local" else ["shared"])
    array, wanted, found = (
        np.arange(128, dtype="int32").reshape(2, 64),
        np.zeros((2, 64), "int32"),
        np.zeros((2, 64), "int32"),
    )
    reference.run(func, array, wanted)
    kernel_reference.run(module, array, found)
    np.testing.assert_array_equal(found, wanted)


@T.prim_func
def one_for_all(A: T.Buffer((32,), "int32"), N: T.Buffer((2,), "int32"), C: T.Buffer((32,), "int32")) -> None:
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        with T.block("N"):
            v = T.axis.spatial(2, bx)
            N[v] = A[v * 16] + 1
        for tx in T.thread_binding(16, thread="threadIdx.x"):
            with T.block("C"):
                v = T.axis.spatial(32, bx * 16 + tx)
                C[v] = A[v] + N[v // 16]


def test_what_is_in_no_loop_over_threads_is_done_by_one() -> None:
    module = lower(one_for_all, None, "main")
    assert "if tx == 0" in module.script() and barriers(module["main_kernel_0"]) == ["global"]
    array, count, found = np.arange(32, dtype="int32"), np.zeros(2, "int32"), np.zeros(32, "int32")
    kernel_reference.run(module, array, count, found)
    np.testing.assert_array_equal(found, array + np.repeat(array[::16] + 1, 16))


def test_loops_that_start_at_different_threads_are_refused() -> None:
    def shifted(loop: For) -> For:
        from minitvm.expr import IntImm, replace

        return replace(loop, start=IntImm(1))

    (over,) = [n for n in walk(each_its_own.body) if isinstance(n, For) and n.thread == "blockIdx.x"]
    first, second = over.body.stmts  # type: ignore[attr-defined]
    from minitvm.expr import replace
    from minitvm.tir.nodes import Seq

    with pytest.raises(Unsupported, match="loops over threadIdx.x that start at 0, 1 in one block"):
        threads_outside(replace(over, body=Seq((first, shifted(second)))))


@T.prim_func
def added_by_another_axis(A: T.Buffer((8,), "int32"), B: T.Buffer((6,), "int32"), C: T.Buffer((8,), "int32")) -> None:
    L = T.alloc_buffer((8,), "int32", scope="local")
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        for ty in T.thread_binding(3, thread="threadIdx.y"):
            with T.block("B"):
                v = T.axis.spatial(6, bx * 3 + ty)
                B[v] = A[v]
        for tx in T.thread_binding(4, thread="threadIdx.x"):
            with T.block("L"):
                v = T.axis.spatial(8, bx * 4 + tx)
                L[v] = A[v]
            with T.block("C"):
                v = T.axis.spatial(8, bx * 4 + tx)
                C[v] = C[v] + L[v]


def test_what_a_stage_adds_from_its_own_storage_is_added_once() -> None:
    """Each of the three threads along y has an `L` of its own, but only the first adds it."""
    module = lower(added_by_another_axis, None, "main")
    arrays = [np.arange(8, dtype="int32"), np.zeros(6, "int32"), np.arange(8, dtype="int32")]
    kernel_reference.run(module, *arrays, inout=["C"])
    np.testing.assert_array_equal(arrays[1], np.arange(6))
    np.testing.assert_array_equal(arrays[2], 2 * np.arange(8))
