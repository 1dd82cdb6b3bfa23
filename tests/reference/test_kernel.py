"""The kernel level: host functions, threads, vectors, and blocks of threads that meet at barriers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minitvm import expr as x
from minitvm.errors import ExecutionError
from minitvm.reference import kernel
from minitvm.reference.listeners import Ledger
from minitvm.tir import nodes as t

SERIAL, PARALLEL, THREAD = t.ForKind.SERIAL, t.ForKind.PARALLEL, t.ForKind.THREAD
BARRIER = t.Evaluate(x.Call(x.DType("int32"), "tvm_storage_sync", (x.StringImm("shared"),)))


def loop(var: x.Var, extent: int, body: t.Stmt, kind: t.ForKind = SERIAL, thread: str | None = None) -> t.For:
    return t.For(var, x.const(0), x.const(extent), kind, body, thread)


def reversal(barrier: bool, n: int = 8, guard: bool = False) -> t.PrimFunc:
    """Each block of threads reverses its piece through shared memory."""
    source, target = t.Buffer("A", (4 * n,)), t.Buffer("C", (4 * n,))
    shared = t.Buffer("S", (n,), scope="shared")
    block, thread = x.Var("b"), x.Var("t")
    fill = t.BufferStore(shared, source[block * n + thread], (thread,))
    use = t.BufferStore(target, shared[n - 1 - thread], (block * n + thread,))
    meet: t.Stmt = t.If(thread < n - 2, BARRIER) if guard else BARRIER
    body = t.Seq.of(fill, meet if barrier else None, use)
    threads = loop(thread, n, body, THREAD, "threadIdx.x")
    return t.PrimFunc(
        (source, target),
        loop(block, 4, t.Allocate(shared, threads), THREAD, "blockIdx.x"),
        {"global_symbol": "reverse"},
    )


@pytest.mark.parametrize("mode", ["slow", "fast"])
@pytest.mark.parametrize("order", ["forward", "backward", "shuffled"])
def test_threads_meet_at_a_barrier(mode: str, order: str) -> None:
    data, found = np.arange(32, dtype="float32"), np.empty(32, "float32")
    ledger = Ledger()
    kernel.run(reversal(True), data, found, mode=mode, order=order, listeners=(ledger,) if mode == "slow" else ())
    assert (found.reshape(4, 8) == data.reshape(4, 8)[:, ::-1]).all()
    assert mode == "fast" or ledger.barriers == 32


@pytest.mark.parametrize("mode", ["slow", "fast"])
def test_a_missing_barrier_is_a_conflict(mode: str) -> None:
    data, found = np.arange(32, dtype="float32"), np.empty(32, "float32")
    with pytest.raises(ExecutionError) as caught:
        kernel.run(reversal(False), data, found, mode=mode, order="backward")
    assert str(caught.value) == (
        "conflicting accesses to element [3] of S: nothing orders them\n"
        "  read where b = 3, t = 4 by: S[7 - t]\n  written where b = 3, t = 3 by: S[t] = A[b * 8 + t]"
    )


@pytest.mark.parametrize("mode", ["slow", "fast"])
def test_a_divergent_barrier(mode: str) -> None:
    with pytest.raises(ExecutionError) as caught:
        kernel.run(reversal(True, guard=True), np.zeros(32, "f"), np.zeros(32, "f"), mode=mode, shadow=False)
    assert str(caught.value) == ("divergent barrier: thread t = 0 waits at a barrier that thread t = 6 never reaches")


def test_two_dimensions_of_threads_and_phases() -> None:
    """A transpose in shared memory, twice: phases must not conflict with each other."""
    source, target = t.Buffer("A", (16,)), t.Buffer("C", (16,))
    shared = t.Buffer("S", (16,), scope="shared")
    y, xx, step = x.Var("y"), x.Var("x"), x.Var("step")
    body = t.Seq.of(
        t.BufferStore(shared, source[y * 4 + xx], (y * 4 + xx,)), BARRIER,
        t.BufferStore(target, shared[xx * 4 + y], (y * 4 + xx,)), BARRIER,
    )  # fmt: skip
    threads = loop(y, 4, loop(xx, 4, loop(step, 2, body), THREAD, "threadIdx.x"), THREAD, "threadIdx.y")
    func = t.PrimFunc((source, target), t.Allocate(shared, threads), {"global_symbol": "transpose"})
    data = np.arange(16, dtype="float32")
    for mode in ("slow", "fast"):
        found = np.empty(16, "float32")
        kernel.run(func, data, found, mode=mode)
        assert (found.reshape(4, 4) == data.reshape(4, 4).T).all()


def saxpy(stride: int = 1) -> t.IRModule:
    """A host function with a workspace, a parallel vector kernel and a scalar argument."""
    a, c, scratch = t.Buffer("A", (32,)), t.Buffer("C", (32,)), t.Buffer("W", (32,))
    inner_a, inner_w, factor = t.Buffer("a", (32,)), t.Buffer("w", (32,)), x.Var("factor", "float32")
    i = x.Var("i")
    lanes = x.Ramp(i * 8, x.const(stride), 8)
    scale = loop(
        i, 4, t.BufferStore(inner_w, t.BufferLoad(inner_a, (lanes,)) * x.Broadcast(factor, 8), (lanes,)), PARALLEL
    )
    copy_w, copy_c, j = t.Buffer("w", (32,)), t.Buffer("c", (32,)), x.Var("j")
    copy = loop(j, 32, t.BufferStore(copy_c, copy_w[j] + 1.0, (j,)))
    value = x.Var("s", "float32")
    calls = t.Seq.of(t.KernelCall("scale", (a, scratch, value), parallel=True), t.KernelCall("copy", (scratch, c)))
    return t.IRModule({
        "main": t.PrimFunc((a, value, c), t.Allocate(scratch, calls), {"global_symbol": "main", "host": True}),
        "scale": t.PrimFunc((inner_a, inner_w, factor), scale, {"global_symbol": "scale"}),
        "copy": t.PrimFunc((copy_w, copy_c), copy, {"global_symbol": "copy"}),
    })  # fmt: skip


@pytest.mark.parametrize("mode", ["slow", "fast"])
@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_host_function(mode: str, threads: int) -> None:
    data, found = np.arange(32, dtype="float32").reshape(4, 8), np.empty((8, 4), "float32")
    kernel.run(saxpy(), data, 3.0, found, mode=mode, threads=threads, order="shuffled")
    assert (found.reshape(-1) == data.reshape(-1) * 3 + 1).all()


@pytest.mark.parametrize("mode", ["slow", "fast"])
def test_vector_store_to_one_element(mode: str) -> None:
    with pytest.raises(ExecutionError, match="two lanes of one store write the same element of W"):
        kernel.run(saxpy(stride=0), np.zeros(32, "float32"), 1.0, np.zeros(32, "float32"), mode=mode)


@pytest.mark.parametrize("mode", ["slow", "fast"])
def test_parallel_iterations_that_overlap(mode: str) -> None:
    with pytest.raises(ExecutionError) as caught:
        kernel.run(saxpy(stride=2), np.zeros(32, "float32"), 1.0, np.zeros(32, "float32"), mode=mode)
    assert "conflicting accesses to element [8] of W" in str(caught.value) or "out of bounds" in str(caught.value)


@pytest.mark.parametrize("mode", ["slow", "fast"])
def test_masked_vectors(mode: str) -> None:
    """The last vector is partly outside: its predicate keeps the lanes beyond the end untouched."""
    a, c, i = t.Buffer("A", (11,)), t.Buffer("C", (11,)), x.Var("i")
    places = x.Ramp(i * 4, x.const(1), 4)
    inside = places < x.Broadcast(x.const(11), 4)
    load = t.BufferLoad(a, (places,), inside)
    func = t.PrimFunc((a, c), loop(i, 3, t.BufferStore(c, load * x.Broadcast(x.const(2.0), 4), (places,), inside)), {})
    data, found = np.arange(11, dtype="float32"), np.full(11, -1, "float32")
    kernel.run(func, data, found, mode=mode)
    assert (found == data * 2).all()


@pytest.mark.parametrize("mode", ["slow", "fast"])
def test_gather_and_reduction_over_lanes(mode: str) -> None:
    a, index, c, i = t.Buffer("A", (16,)), t.Buffer("I", (16,), "int32"), t.Buffer("C", (4,)), x.Var("i")
    places = t.BufferLoad(index, (x.Ramp(i * 4, x.const(1), 4),))
    total = x.Call(x.DType("float32"), "vector_reduce_add", (t.BufferLoad(a, (places,)),))
    func = t.PrimFunc((a, index, c), loop(i, 4, t.BufferStore(c, total, (i,)), PARALLEL), {})
    data, order = np.arange(16, dtype="float32"), np.random.default_rng(0).permutation(16).astype("int32")
    found = np.empty(4, "float32")
    kernel.run(func, data, order, found, mode=mode)
    assert (found == data[order].reshape(4, 4).sum(1)).all()
    order[5] = 16
    with pytest.raises(ExecutionError, match=r"out of bounds: A\[.*\] at index \(16\)"):
        kernel.run(func, data, order, found, mode=mode)


def lowered(parallel: bool, vectorize: bool, n: int, split: int) -> tuple[Any, Any]:
    from minitvm import te, tir
    from minitvm.tir.transform.pipeline import lower

    a, b = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    sch = tir.Schedule(te.create_prim_func([a, b, c]))
    i, j, _ = sch.get_loops(sch.get_block("C"))
    outer, inner = sch.split(j, [None, split])
    sch.reorder(i, outer, sch.get_loops(sch.get_block("C"))[-1], inner)
    if vectorize:
        sch.vectorize(inner)
    if parallel:
        sch.parallel(i)
    return sch.mod, lower(sch.mod["main"], None, "matmul")


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("vectorize", [False, True])
@pytest.mark.parametrize(("n", "split"), [(8, 4), (7, 4)])
def test_a_lowered_matmul_computes_the_same_bits(parallel: bool, vectorize: bool, n: int, split: int) -> None:
    from minitvm.reference import tir as loops

    scheduled, module = lowered(parallel, vectorize, n, split)
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((n, n)).astype("float32") for _ in range(2))
    results = [np.empty((n, n), "float32") for _ in range(4)]
    loops.run(scheduled, a, b, results[0], mode="slow")
    loops.run(scheduled, a, b, results[1])
    kernel.run(module, a, b, results[2], mode="slow", threads=2, order="backward")
    kernel.run(module, a, b, results[3])
    assert len({r.tobytes() for r in results}) == 1
    np.testing.assert_allclose(results[0], a @ b, rtol=0, atol=1e-5)
