"""Shared storage shrinks to what one iteration of the threads' loop uses, where an iteration reads only its own."""

from __future__ import annotations

from minitvm.expr import walk
from minitvm.machines.gpu.transform.shrink_shared import shrink_shared
from minitvm.script import tir as T
from minitvm.tir.nodes import Block, PrimFunc


def shape_of_shared(func: PrimFunc) -> tuple[int, ...]:
    """The shape of the only shared buffer."""
    (buffer,) = [b for n in walk(func.body) if isinstance(n, Block) for b in n.alloc_buffers if b.scope == "shared"]
    return tuple(int(d.value) for d in buffer.shape)  # type: ignore[attr-defined]


@T.prim_func
def pieces(A: T.Buffer((4, 32), "float32"), C: T.Buffer((4, 8), "float32")):
    S = T.alloc_buffer((32,), scope="shared")
    for bx in T.thread_binding(4, thread="blockIdx.x"):
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            for ko in range(4):
                for t in T.thread_binding(8, thread="threadIdx.x"):
                    with T.block("S"):
                        vb, vk = T.axis.spatial(4, bx), T.axis.spatial(32, ko * 8 + t)
                        S[vk] = A[vb, vk]
                for ki in range(8):
                    with T.block("C"):
                        vb, vt = T.axis.spatial(4, bx), T.axis.spatial(8, tx)
                        vk = T.axis.reduce(32, ko * 8 + ki)
                        with T.init():
                            C[vb, vt] = T.float32(0.0)
                        C[vb, vt] = C[vb, vt] + S[vk]


@T.prim_func
def cut_off(A: T.Buffer((4, 40), "float32"), C: T.Buffer((4, 8), "float32")):
    S = T.alloc_buffer((40,), scope="shared")
    for bx in T.thread_binding(4, thread="blockIdx.x"):
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            for ko in range(4):
                for f in range(2):
                    for t in T.thread_binding(8, thread="threadIdx.x"):
                        with T.block("S"):
                            vb, vk = T.axis.spatial(4, bx), T.axis.spatial(40, ko * 10 + f * 8 + t)
                            T.where(f * 8 + t < 10)
                            S[vk] = A[vb, vk]
                for ki in range(10):
                    with T.block("C"):
                        vb, vt = T.axis.spatial(4, bx), T.axis.spatial(8, tx)
                        vk = T.axis.reduce(40, ko * 10 + ki)
                        with T.init():
                            C[vb, vt] = T.float32(0.0)
                        C[vb, vt] = C[vb, vt] + S[vk]


@T.prim_func
def handed_on(A: T.Buffer((4, 32), "float32"), C: T.Buffer((4, 8), "float32")):
    S = T.alloc_buffer((40,), scope="shared")
    for bx in T.thread_binding(4, thread="blockIdx.x"):
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            for ko in range(4):
                for t in T.thread_binding(8, thread="threadIdx.x"):
                    with T.block("S"):
                        vb, vk = T.axis.spatial(4, bx), T.axis.spatial(32, ko * 8 + t)
                        S[vk + 8] = A[vb, vk]
                for ki in range(8):
                    with T.block("C"):
                        vb, vt = T.axis.spatial(4, bx), T.axis.spatial(8, tx)
                        vk = T.axis.reduce(32, ko * 8 + ki)
                        with T.init():
                            C[vb, vt] = T.float32(0.0)
                        C[vb, vt] = C[vb, vt] + S[vk]


def test_storage_of_a_piece_is_enough() -> None:
    assert shape_of_shared(pieces) == (32,)
    assert shape_of_shared(shrink_shared(pieces)) == (8,)


def test_a_condition_that_ends_the_work_of_threads_leaves_no_hole() -> None:
    assert shape_of_shared(shrink_shared(cut_off)) == (16,)  # as its loops go without it


def test_what_a_later_iteration_reads_stays() -> None:
    assert shape_of_shared(shrink_shared(handed_on)) == (40,)
