"""Schedules for a GPU: storage that threads share or own, copies that they make together, all down to kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitvm import te
from minitvm.compat.tvm.schedule.testing import verify_trace_roundtrip
from minitvm.errors import ScheduleError, Unsupported
from minitvm.expr import walk
from minitvm.reference import check, kernel
from minitvm.script import from_source
from minitvm.tir.nodes import Allocate, For, PrimFunc
from minitvm.tir.schedule import Schedule
from minitvm.tir.transform import lower
from minitvm.tir.verifier import verify

from . import programs
from .thread_programs import own_loops, scheduled_for_gpu

MODES = ("exact", "shadow", "order")


def tiled(func: PrimFunc, verify: bool = False) -> tuple[Schedule, Any, dict[str, Any]]:
    """A product of 16 x 16 x 16 on 2 x 2 blocks of 4 x 4 threads."""
    sch = Schedule(func, verify=verify)
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    (by, ty, i2), (bx, tx, j2), (k0, k1) = sch.split(i, [2, 4, 2]), sch.split(j, [2, 4, 2]), sch.split(k, [4, 4])
    sch.reorder(by, bx, ty, tx, k0, k1, i2, j2)
    for loop, axis in ((by, "blockIdx.y"), (bx, "blockIdx.x"), (ty, "threadIdx.y"), (tx, "threadIdx.x")):
        sch.bind(loop, axis)
    return sch, block, {"bx": bx, "tx": tx, "ty": ty, "k0": k0, "k1": k1}


def fetched(sch: Schedule, block: Any, index: int, loop: Any) -> Any:
    """An input copied to shared storage at a loop, by all threads."""
    copy = sch.cache_read(block, index, "shared")
    sch.compute_at(copy, loop)
    _, y, x = sch.split(sch.fuse(*own_loops(sch, copy)), [None, 4, 4])
    sch.bind(y, "threadIdx.y")
    sch.bind(x, "threadIdx.x")
    return copy


@pytest.mark.parametrize("verified", [False, True])
def test_the_product_of_every_gpu_tutorial(verified: bool) -> None:
    """Tiles in shared storage, fetched together; parts of them in registers, as is the result.

    Where each step is verified, the oracle has compared the programs already.
    """
    func = programs.matmul(16, 16, 16)
    sch, block, at = tiled(func, verified)
    sch.reverse_compute_at(sch.cache_write(block, 0, "local"), at["tx"])
    for index in (0, 1):
        fetched(sch, block, index, at["k0"])
        sch.compute_at(sch.cache_read(block, index, "local"), at["k1"])
    sch.decompose_reduction(block, at["k0"])
    verify(sch.func)
    verify_trace_roundtrip(sch, func)
    module = lower(sch.func)
    if not verified:
        assert check(func, sch.func, modes=(*MODES, "field"))
        assert check(func, module, modes=(*MODES, "field"))
    (body,) = [f.body for f in module.functions.values() if not f.attrs.get("host")]
    assert [n.thread for n in walk(body) if isinstance(n, For) and n.thread] == [
        "blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x",
    ]  # fmt: skip
    storage = {(n.buffer.scope, int(n.buffer.shape[0])) for n in walk(body) if isinstance(n, Allocate)}
    assert storage == {("shared", 32), ("local", 4), ("local", 2)}
    assert str(module).count("tvm_storage_sync") == 2  # a tile is as large as an iteration of k_0


def test_a_copy_that_is_not_shared_out_is_made_by_one_thread() -> None:
    func = programs.matmul(16, 16, 16)
    sch, block, at = tiled(func)
    sch.compute_at(sch.cache_read(block, 0, "shared"), at["k0"])
    assert check(func, sch.func, modes=MODES)
    module = lower(sch.func)
    assert check(func, module, modes=MODES)
    assert "ty == 0" in str(module).replace("i_1", "ty")


def test_local_storage_of_a_thread_holds_what_it_needs_alone() -> None:
    """Threads that read the same elements copy them each for itself."""
    func = programs.matmul(16, 16, 16)
    sch, block, at = tiled(func)
    sch.compute_at(sch.cache_read(block, 1, "local"), at["tx"])
    assert check(func, sch.func, modes=MODES)
    assert check(func, lower(sch.func), modes=MODES)


def test_global_storage_belongs_to_nobody() -> None:
    sch, block, at = tiled(programs.matmul(16, 16, 16))
    copy = sch.cache_read(block, 1, "global")
    with pytest.raises(ScheduleError, match="no_races"):
        sch.compute_at(copy, at["tx"])


def test_a_loop_is_shared_out_where_each_thread_did_all_of_it_for_all() -> None:
    sch, block, at = tiled(programs.matmul(16, 16, 16))
    local = sch.cache_read(block, 0, "local")
    sch.compute_at(local, at["k0"])
    own = own_loops(sch, local)
    with pytest.raises(ScheduleError, match="is taken by i_1; what ax1 does depends on i_1"):
        sch.bind(own[1], "threadIdx.y")
    shared = sch.cache_read(block, 1, "shared")
    sch.compute_at(shared, at["k0"])
    first, second = own_loops(sch, shared)
    with pytest.raises(ScheduleError, match="ax1 has extent 8, j_1 has 4"):
        sch.bind(second, "threadIdx.x")
    with pytest.raises(ScheduleError, match="blockIdx.x is taken by j_0"):
        sch.bind(first, "blockIdx.x")
    sch.bind(first, "threadIdx.x")


def test_what_is_written_for_oneself_is_not_shared_out() -> None:
    a = te.placeholder((4, 4), name="A")
    sch = Schedule(te.create_prim_func([a, te.compute((4, 4), lambda i, j: a[i, j] + 1.0, name="B")]))
    i, j = sch.get_loops("B")
    sch.bind(i, "threadIdx.x")
    with pytest.raises(ScheduleError, match="what j does depends on i"):
        sch.bind(j, "threadIdx.x")


def test_compiled_code_for_a_grid_is_refused_with_the_loop() -> None:
    from minitvm import build
    from minitvm.errors import Unsupported

    sch, _, _ = tiled(programs.matmul(16, 16, 16))
    with pytest.raises(Unsupported, match=r"found:  i_0 is bound to blockIdx.y, an axis of a GPU's grid"):
        build(sch.func)


@given(st.data())
def test_schedules_for_a_gpu_keep_the_meaning(data: Any) -> None:
    func, sch = scheduled_for_gpu(data.draw)
    verify(sch.func)
    verdict = check(func, sch.func, modes=MODES)
    assert verdict, f"{verdict}\n{sch.trace}\n{sch.func.script()}"
    module = lower(sch.func)
    verdict = check(func, module, modes=MODES)
    assert verdict, f"lowered: {verdict}\n{sch.trace}\n{module.script()}"


@settings(max_examples=8)
@given(st.data())
def test_steps_after_a_schedule_for_a_gpu_keep_the_meaning(data: Any) -> None:
    """Lanes around what threads share, and copies of copies that other blocks read."""
    func, sch = scheduled_for_gpu(data.draw)
    for _ in range(data.draw(st.integers(1, 3))):
        call = sch.draw(lambda n: data.draw(st.integers(0, n - 1)), "cache_write", "vectorize", "reorder", tries=4)
        if call is not None:
            sch.apply(call)
    verdict = check(func, sch.func, modes=MODES, shrink=False)
    assert verdict, f"{verdict}\n{sch.trace}\n{sch.func.script()}"


@settings(max_examples=20)
@given(st.data())
def test_kernels_of_a_grid_run_alike_in_both_modes(data: Any) -> None:
    func, sch = scheduled_for_gpu(data.draw)
    module, rng = lower(sch.func), np.random.default_rng(0)
    shapes = [tuple(int(d) for d in b.shape) for b in func.buffers]
    arrays = [rng.integers(-4, 5, shape).astype("float32") for shape in shapes]
    fast, slow = [a.copy() for a in arrays], [a.copy() for a in arrays]
    kernel.run(module, *fast)
    kernel.run(module, *slow, mode="slow", order="shuffled", seed=3)
    for one, other in zip(fast, slow, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("condition", ["L[0] > 0.0", "M[0] > 0.0", "vx % 3 != 0"])
def test_threads_that_differ_do_not_wait_for_each_other(condition: str) -> None:
    """Whether a thread takes a branch may depend on it through its variable, or through storage that it owns."""
    func = from_source(f"""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    L = T.alloc_buffer((1,), scope="local")
    M = T.alloc_buffer((1,), scope="shared")
    S = T.alloc_buffer((8,), scope="shared")
    for tx in T.thread_binding(8, "threadIdx.x"):
        with T.block("B"):
            vx = T.axis.spatial(8, tx)
            T.reads(A[0:8], L[0], M[0], S[0:8])
            T.writes(B[vx], L[0], M[0], S[vx])
            L[0] = A[vx]
            M[0] = A[0]
            if {condition}:
                S[vx] = A[vx]
                B[vx] = S[7 - vx]
""")
    if condition.startswith("M"):
        assert "tvm_storage_sync" in str(lower(func))
        return
    with pytest.raises(Unsupported, match="some threads would not reach a barrier"):
        lower(func)


@pytest.mark.parametrize("writes", [True, False])
def test_threads_do_not_wait_inside_of_a_while(writes: bool) -> None:
    """Without a barrier there, another thread's element would be read before it is written."""
    func = from_source(f"""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), n: T.Buffer((1,), "int32"), B: T.Buffer((8,), "float32")):
    L = T.alloc_buffer((1,), "int32", scope="local")
    S = T.alloc_buffer((8,), scope="shared")
    for tx in T.thread_binding(8, "threadIdx.x"):
        S[tx] = A[tx]
        L[0] = 0
        while L[0] < n[0]:
            B[tx] = S[7 - tx]
            {"S[tx] = B[tx]" if writes else ""}
            L[0] = L[0] + 1
""")
    if not writes:
        assert str(lower(func)).count("tvm_storage_sync") == 1  # before the loop
        return
    with pytest.raises(Unsupported, match="while L.*threads would have to wait inside of it(.|\n)*uses of S"):
        lower(func)
