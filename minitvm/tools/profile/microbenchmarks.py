"""The two kernels by which a machine is measured, as tir functions: how fast it multiplies, how fast it streams.

They go through the compiler like any other. Every thread of the team has one row of each buffer.
"""

# TVMScript is parsed, not run: a type checker's results for it mean nothing.
# mypy: disable-error-code="attr-defined,index,valid-type"

from __future__ import annotations

from ...script import tir as T
from ...tir.nodes import PrimFunc


def multiply_add(accumulators: int, lanes: int) -> PrimFunc:
    """`accumulators` independent chains of fused multiply-adds on vectors, all in registers.

    With as many chains as latency times ports, and no loads, only the multiply-add units limit the rate.
    """

    @T.prim_func
    def multiply_add(factor: T.Buffer((lanes,), "float32"), repeats: T.int32, tasks: T.int32, result: T.handle) -> None:
        C = T.match_buffer(result, (tasks, accumulators, lanes), "float32")
        sums = T.alloc_buffer((accumulators, lanes), scope="local")
        for task in T.parallel(tasks):
            for a in T.unroll(accumulators):
                for lane in T.vectorized(lanes):
                    sums[a, lane] = factor[lane]
            for _again in range(repeats):
                for a in T.unroll(accumulators):
                    for lane in T.vectorized(lanes):
                        sums[a, lane] = sums[a, lane] * factor[lane] + T.float32(0.5)
            for a in T.unroll(accumulators):
                for lane in T.vectorized(lanes):
                    C[task, a, lane] = sums[a, lane]

    return multiply_add


def triad(lanes: int) -> PrimFunc:
    """C = A + 3 B on every row, repeatedly: STREAM's triad (McCalpin, 1995), which moves 12 bytes per element."""

    @T.prim_func
    def triad(a: T.handle, b: T.handle, repeats: T.int32, c: T.handle) -> None:
        tasks, vectors = T.int32(), T.int32()
        A = T.match_buffer(a, (tasks, vectors, lanes), "float32")
        B = T.match_buffer(b, (tasks, vectors, lanes), "float32")
        C = T.match_buffer(c, (tasks, vectors, lanes), "float32")
        for task in T.parallel(tasks):
            for _again in range(repeats):
                for i in range(vectors):
                    for lane in T.vectorized(lanes):
                        C[task, i, lane] = A[task, i, lane] + B[task, i, lane] * T.float32(3)

    return triad
