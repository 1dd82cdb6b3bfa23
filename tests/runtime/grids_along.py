"""A kernel with one loop over a grid."""

from __future__ import annotations

from minitvm.script import from_source
from minitvm.target import Target
from minitvm.tir.nodes import PrimFunc
from minitvm.tir.transform import lower


def along(axis: str, extent: int) -> PrimFunc:
    """`B = A + 1`, each element by an iteration along an axis of the grid."""
    func = from_source(f"""
    @T.prim_func
    def main(A: T.Buffer(({extent},)), B: T.Buffer(({extent},))):
        for i in T.thread_binding({extent}, thread="{axis}"):
            with T.block("B"):
                vi = T.axis.remap("S", [i])
                B[vi] = A[vi] + T.float32(1)
    """)
    kernel: PrimFunc = lower(func, Target("cuda"), "main")["main_kernel_0"]
    return kernel
