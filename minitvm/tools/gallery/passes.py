# mypy: ignore-errors
# TVMScript is Python by its letters only.
"""Bad calls of reduce_in_passes."""

from __future__ import annotations

from minitvm.script import tir as T

from . import programs
from .case import CASES, on
from .moving import loop_in_a_sum


@T.prim_func
def scores_beside(A: T.Buffer((8, 64), "float32"), M: T.Buffer((8,), "float32"), L: T.Buffer((8,), "float32")):
    S = T.alloc_buffer((8, 64))
    for i, j in T.grid(8, 64):
        with T.block("S"):
            vi, vj = T.axis.remap("SS", [i, j])
            S[vi, vj] = A[vi, vj] * 0.125
        with T.block("softmax"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                M[vi] = T.min_value("float32")
                L[vi] = 0.0
            top: T.float32 = T.max(M[vi], S[vi, vj])
            L[vi] = L[vi] * T.exp(M[vi] - top) + T.exp(S[vi, vj] - top)
            M[vi] = top


CASES.update(
    {
        "reduce_in_passes.reduction_block": on(programs.chain, lambda sch: sch.reduce_in_passes("B")),
        "reduce_in_passes.reduces_alone": on(scores_beside, lambda sch: sch.reduce_in_passes("softmax")),
        "reduce_in_passes.own_iterators": on(loop_in_a_sum, lambda sch: sch.reduce_in_passes("C")),
        "reduce_in_passes.relative_sums": on(programs.matmul, lambda sch: sch.reduce_in_passes("C")),
    }
)
