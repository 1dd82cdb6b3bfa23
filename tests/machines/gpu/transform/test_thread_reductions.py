"""Reductions over threads: partial results, an all-reduction, shuffles or a tree, and what each level means by them."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from minitvm import reference, te
from minitvm.errors import ExecutionError, ScheduleError, Unsupported
from minitvm.expr import Call, structural_equal, walk
from minitvm.expr.intrin import SHUFFLES
from minitvm.machines.gpu.transform.lower_thread_reductions import lower_thread_reductions
from minitvm.script import from_source
from minitvm.target import Target
from minitvm.tir.all_reduce import AllReduce
from minitvm.tir.nodes import BufferLoad, BufferStore, IRModule, PrimFunc
from minitvm.tir.schedule import Schedule
from minitvm.tir.transform import lower
from minitvm.tir.verifier import verify
from tests.fewer import number
from tests.tir.schedule import programs
from tests.tir.transform.reductions_on_threads import on_threads

TARGETS = (None, "cuda")
MODES = ("exact", "shadow")


@settings(max_examples=number(3, 6), deadline=None, phases=[Phase.generate, Phase.reuse])
@given(st.data())
def test_each_level_means_the_reduction(data: st.DataObject) -> None:
    """The schedule, the program with all-reductions, its text, and the kernels by a tree and by shuffles."""
    try:
        func, sch = on_threads(data.draw)
    except ScheduleError:
        return
    for target in TARGETS:
        try:
            combined = lower_thread_reductions(sch.func)
            kernels = lower(sch.func, target and Target(target))
        except Unsupported as error:
            assert "cross-thread reduction" in str(error)
            return
        verdict = reference.check(func, kernels, shrink=False, modes=MODES)
        assert verdict, f"{verdict}\n{sch.func.script()}\n{kernels.script()}"
    verify(combined)
    assert reference.check(func, combined, shrink=False, modes=MODES)
    assert structural_equal(from_source(combined.script()), combined)


def rows(m: int, n: int, threads: int, *, target: str | None = "cuda", dtype: str = "float32") -> IRModule:
    """The kernels of sums over rows, `threads` a row."""
    return lower(summed(m, n, threads, dtype), target and Target(target))


def summed(m: int, n: int, threads: int, dtype: str = "float32") -> PrimFunc:
    a = te.placeholder((m, n), dtype, name="A")
    k = te.reduce_axis((0, n), name="k")
    b = te.compute((m,), lambda i: te.sum(a[i, k], axis=k), name="B")
    sch = Schedule(te.create_prim_func([a, b]))
    i, k = sch.get_loops("B")
    sch.bind(i, "blockIdx.x")
    sch.bind(sch.split(k, [None, threads])[1], "threadIdx.x")
    return sch.func


def counted(module: IRModule) -> tuple[int, int, int]:
    """(shuffles, barriers, accesses to shared storage) in the text of the kernels."""
    calls = [n.op for _, f in module.items() for n in walk(f.body) if isinstance(n, Call)]
    accesses = [n for _, f in module.items() for n in walk(f.body) if isinstance(n, BufferLoad | BufferStore)]
    shared = [n for n in accesses if n.buffer.scope == "shared"]
    return sum(op in SHUFFLES for op in calls), calls.count("tvm_storage_sync"), len(shared)


@pytest.mark.parametrize(
    ("threads", "shuffles", "barriers", "accesses"),
    [(2, 2, 0, 0), (8, 4, 0, 0), (20, 6, 0, 0), (32, 6, 0, 0), (64, 7, 1, 2), (100, 8, 1, 2), (256, 9, 1, 2)],
)
def test_warps_shuffle_and_meet_once(threads: int, shuffles: int, barriers: int, accesses: int) -> None:
    assert counted(rows(2, 300, threads)) == (shuffles, barriers, accesses)


@pytest.mark.parametrize(("threads", "barriers"), [(2, 2), (8, 4), (20, 5), (24, 5), (64, 7)])
def test_a_tree_has_a_barrier_a_level(threads: int, barriers: int) -> None:
    """One before each level and one before all read the total; none where a thread reads what it wrote itself."""
    assert counted(rows(2, 300, threads, target="opencl"))[:2] == (0, barriers)


def test_a_last_warp_of_few_lanes_takes_the_tree() -> None:
    """Each warp adds up what all warps have: one with fewer lanes than there are warps would leave some out."""
    assert counted(rows(1, 700, 33 + 32))[0] == 0
    assert counted(rows(1, 700, 35))[0] > 0


def test_a_block_in_a_loop_waits_before_its_storage_is_used_again() -> None:
    a = te.placeholder((6, 64), name="A")
    k = te.reduce_axis((0, 64), name="k")
    b = te.compute((6,), lambda i: te.sum(a[i, k], axis=k), name="B")
    func = te.create_prim_func([a, b])
    sch = Schedule(func)
    i, k = sch.get_loops("B")
    sch.bind(sch.split(i, [2, None])[0], "blockIdx.x")
    sch.bind(k, "threadIdx.x")
    for target in ("cuda", "opencl"):
        kernels = lower(sch.func, Target(target))
        assert reference.check(func, kernels)
        without = without_barrier(kernels, -1)  # the one at the end of the loop
        verdict = reference.check(func, without, shrink=False)
        assert not verdict and "conflicting" in str(verdict)


def without_barrier(module: IRModule, which: int) -> IRModule:
    """The module with one barrier of its kernels gone."""
    text = module.script().splitlines()
    lines = [k for k, line in enumerate(text) if "tvm_storage_sync" in line]
    del text[lines[which]]
    parsed = from_source("\n".join(text))
    assert isinstance(parsed, IRModule)
    return parsed


def test_every_barrier_of_a_tree_is_missed() -> None:
    func = summed(2, 40, 8)
    kernels = lower(func, Target("opencl"))
    for which in range(counted(kernels)[1]):
        verdict = reference.check(func, without_barrier(kernels, which), shrink=False)
        assert not verdict and ("conflicting" in str(verdict) or "uninitialised" in str(verdict))


ALL_REDUCED = """
@T.prim_func
def main(A: T.Buffer((3, 40), "{dtype}"), B: T.Buffer((3, 40), "{dtype}")):
    for b in T.thread_binding(3, thread="blockIdx.x"):
        for t in T.thread_binding(40, thread="threadIdx.x"):
            with T.block("B"):
                vb, vt = T.axis.remap("SS", [b, t])
                R = T.alloc_buffer((1,), "{dtype}", scope="local")
                with T.attr(T.comm_reducer(lambda x, y: {combine}, [{identity}]), "reduce_scope",
                            T.reinterpret("handle", T.uint64(0))):
                    T.tvm_thread_allreduce(T.uint32(1), A[vb, vt], vt < 33, R[0], t)
                B[vb, vt] = R[0] - A[vb, vt]
"""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("dtype", "combine", "identity"),
    [("float32", "x + y", "T.float32(0)"), ("int32", "T.max(x, y)", "T.min_value('int32')"),
     ("int64", "T.Select(x < y, x, y)", "T.max_value('int64')")],
)  # fmt: skip
def test_an_all_reduction_of_a_text(dtype: str, combine: str, identity: str, target: str | None) -> None:
    """What TVM writes is read, printed, run and lowered; a thread for which the condition is false gives nothing."""
    func = from_source(ALL_REDUCED.format(dtype=dtype, combine=combine, identity=identity))
    assert isinstance(func, PrimFunc)
    assert structural_equal(from_source(func.script()), func)
    verify(func)
    a = np.random.default_rng(0).integers(-50, 50, (3, 40)).astype(dtype)
    whole = {"x + y": np.sum, "T.max(x, y)": np.max}.get(combine, np.min)(a[:, :33], axis=1, keepdims=True)
    for mode in ("fast", "slow"):
        b = np.empty_like(a)
        reference.tir.run(func, a, b, mode=mode)
        np.testing.assert_array_equal(b, whole - a)
    kernels = lower(func, target and Target(target))
    for mode in ("fast", "slow"):
        b = np.empty_like(a)
        reference.kernel.run(kernels, a, b, mode=mode)
        np.testing.assert_array_equal(b, whole - a)


def shuffled(expression: str, threads: int = 32, around: str = "if True:") -> PrimFunc:
    func = from_source(f"""
@T.prim_func(lowered=True)
def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for t in T.thread_binding({threads}, thread="threadIdx.x"):
        B[t] = T.float32(0)
        {around}
            B[t] = {expression}
""")
    assert isinstance(func, PrimFunc)
    return func


def lanes_of(func: PrimFunc, mode: str) -> list[int]:
    """Whose value each thread gets."""
    b = np.zeros(64, "float32")
    reference.kernel.run(func, np.arange(64, dtype="float32"), b, mode=mode, inout=["B"])
    return [int(v) for v in b]


FULL = "T.uint32(4294967295)"


@pytest.mark.parametrize("mode", ["fast", "slow"])
@pytest.mark.parametrize(
    ("call", "source"),
    [
        ("tvm_warp_shuffle({m}, A[t], 3, 32, 32)", lambda t: 3),
        ("tvm_warp_shuffle({m}, A[t], 11, 8, 32)", lambda t: t // 8 * 8 + 3),
        ("tvm_warp_shuffle_down({m}, A[t], 5, 32, 32)", lambda t: t + 5 if t + 5 < 32 else t),
        ("tvm_warp_shuffle_down({m}, A[t], 5, 8, 32)", lambda t: t + 5 if t % 8 < 3 else t),
        ("tvm_warp_shuffle_up({m}, A[t], 2, 16, 32)", lambda t: t - 2 if t % 16 > 1 else t),
        ("tvm_warp_shuffle_xor({m}, A[t], 9, 32, 32)", lambda t: t ^ 9),
        ("tvm_warp_shuffle_xor({m}, A[t], 9, 8, 32)", lambda t: t ^ 9 if (t ^ 9) < t // 8 * 8 + 8 else t),
    ],
)
def test_shuffles_take_the_lane_that_cuda_says(call: str, source: Any, mode: str) -> None:
    assert lanes_of(shuffled("T." + call.format(m=FULL)), mode)[:32] == [source(t) for t in range(32)]


@pytest.mark.parametrize("mode", ["fast", "slow"])
@pytest.mark.parametrize(
    ("func", "message"),
    [
        (lambda: shuffled(f"T.tvm_warp_shuffle({FULL}, A[t], 0, 32, 32)", around="if t < 7:"), "lane 7 .* never comes"),
        (lambda: shuffled(f"T.tvm_warp_shuffle({FULL}, A[t], 0, 32, 32)", 20), "lane 20 .* does not exist"),
        (lambda: shuffled("T.tvm_warp_shuffle(T.uint32(255), A[t], 9, 32, 32)", around="if t < 8:"),
         "lane 0 reads from lane 9, which does not take part"),
        (lambda: shuffled("T.tvm_warp_shuffle_down(T.uint32(255), A[t], 1, 32, 32)", around="if t < 8:"),
         "lane 7 reads from lane 8, which does not take part"),
        (lambda: shuffled("T.tvm_warp_shuffle(T.uint32(255), A[t], 0, 32, 32)", around="if t < 9:"),
         "lane 8 of a warp takes part"),
        (lambda: shuffled(f"T.tvm_warp_shuffle({FULL}, A[t], 0, 12, 32)"), "a width of 12"),
    ],
)  # fmt: skip
def test_what_cuda_leaves_undefined_is_an_error(func: Any, message: str, mode: str) -> None:
    with pytest.raises(ExecutionError, match=message):
        lanes_of(func(), mode)


def test_lanes_that_part_may_shuffle_among_themselves() -> None:
    """The halves of a warp, each with its own mask, and at its own place in the text."""
    func = from_source("""
@T.prim_func(lowered=True)
def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for t in T.thread_binding(32, thread="threadIdx.x"):
        if t < 16:
            B[t] = T.tvm_warp_shuffle(T.uint32(65535), A[t], 3, 32, 32)
        else:
            B[t] = T.tvm_warp_shuffle(T.uint32(4294901760), A[t], 20, 32, 32)
""")
    assert isinstance(func, PrimFunc)
    assert lanes_of(func, "fast")[:32] == [3] * 16 + [20] * 16


def test_a_warp_is_counted_along_x_first() -> None:
    func = from_source(f"""
@T.prim_func(lowered=True)
def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for y in T.thread_binding(8, thread="threadIdx.y"):
        for x in T.thread_binding(8, thread="threadIdx.x"):
            B[y * 8 + x] = T.tvm_warp_shuffle_down({FULL}, A[y * 8 + x], 8, 32, 32)
""")
    assert isinstance(func, PrimFunc)
    for mode in ("fast", "slow"):
        assert lanes_of(func, mode) == [t + 8 if t % 32 < 24 else t for t in range(64)]


def test_what_is_refused_names_the_loop_and_the_block() -> None:
    sch = Schedule(programs.matmul(4, 4, 4))
    _, j, k = sch.get_loops("C")
    fused = sch.fuse(j, k)
    with contextlib.suppress(ScheduleError):
        sch.bind(fused, "threadIdx.x")
    message = r"cross-thread reduction: j_k_fused, bound to threadIdx\.x, drives a reduction of C"
    with pytest.raises(Unsupported, match=message) as refused:
        lower(sch.func)
    assert "j_k_fused binds both kinds of iterators" in str(refused.value)


def test_opencl_refuses_shuffles() -> None:
    from minitvm.machines.opencl.codegen import statements as opencl

    with pytest.raises(Unsupported, match=r"OpenCL 1\.2 has no warps"):
        opencl.generate(shuffled(f"T.tvm_warp_shuffle({FULL}, A[t], 0, 32, 32)"))


def test_all_reductions_are_gone_from_kernels() -> None:
    for _, func in rows(2, 50, 16).items():
        assert not any(isinstance(n, AllReduce) for n in walk(func.body))
