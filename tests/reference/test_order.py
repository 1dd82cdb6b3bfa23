"""Order mode: what depends on the order of independent iterations, at both levels of loops."""

from __future__ import annotations

import pytest

from minitvm import expr as x
from minitvm import te
from minitvm.reference import check
from minitvm.script import tir as T
from minitvm.tir import nodes as t


@pytest.mark.parametrize("loop", ["parallel", "vectorized"])
def test_a_loop_that_carries_a_value(loop: str) -> None:
    kind = getattr(T, loop)

    @T.prim_func
    def serial(A: T.Buffer((6,), "float32"), C: T.Buffer((6,), "float32")):
        for i in range(6):
            C[0] = A[i]
        for i in range(1, 6):
            C[i] = A[i]

    @T.prim_func
    def racing(A: T.Buffer((6,), "float32"), C: T.Buffer((6,), "float32")):
        for i in kind(6):
            C[0] = A[i]
        for i in range(1, 6):
            C[i] = A[i]

    verdict = check(serial, racing, modes=["exact", "order"])
    assert not verdict
    assert verdict.mode == "order" and verdict.output == "C" and verdict.index == (0,)
    assert "C[0] depends on the order" in str(verdict) and "forward:" in str(verdict)
    assert check(serial, serial, modes=["exact", "order"])
    with_shadow = check(serial, racing, modes=["exact", "shadow", "order"])
    assert with_shadow.mode == "shadow" and len(with_shadow.accesses) == 2


@pytest.mark.parametrize("thread", ["threadIdx.x", "blockIdx.x"])
def test_threads_of_a_kernel(thread: str) -> None:
    """Each thread reads what its neighbour may have written already."""

    def kernel(reads: int) -> t.PrimFunc:
        source, target, shared = t.Buffer("A", (8,)), t.Buffer("C", (8,)), t.Buffer("S", (1,), scope="shared")
        i = x.Var("i")
        body = t.Seq.of(
            t.BufferStore(shared, source[i], (x.const(0),)),
            t.BufferStore(target, shared[0] if reads == 0 else source[i], (i,)),
        )
        after = t.BufferStore(target, shared[0], (x.const(0),))
        threads = t.For(i, x.const(0), x.const(8), t.ForKind.THREAD, body, thread)
        return t.PrimFunc((source, target), t.Allocate(shared, t.Seq.of(threads, after)), {"global_symbol": "main"})

    func = kernel(0)
    verdict = check(func, func, modes=["exact", "order"])
    assert not verdict and verdict.mode == "order" and verdict.index == (0,)


def test_tensor_expressions_have_no_order() -> None:
    a = te.placeholder((3,), name="A")
    program = [a, te.compute((3,), lambda i: a[i] + 1.0, name="B")]
    assert "order" in check(program, program, modes=["exact", "order"]).refused
