"""Wrong: rounds the number of steps down, so the last products are never added."""

from __future__ import annotations

from minitvm.script import tir as T
from minitvm.tir import PrimFunc


def two_steps(n: int, lanes: int) -> PrimFunc:
    """The dot product of length n plus the bias, in `lanes` partial sums."""
    steps = max(1, n // lanes)

    @T.prim_func
    def dot(
        A: T.Buffer((n,), "float32"),
        B: T.Buffer((n,), "float32"),
        bias: T.Buffer((1,), "float32"),
        Y: T.Buffer((1,), "float32"),
    ):
        part = T.alloc_buffer((lanes,), "float32")
        C = T.alloc_buffer((1,), "float32")
        for lane, step in T.grid(lanes, steps):
            with T.block("partial"):
                vl, vs = T.axis.remap("SR", [lane, step])
                with T.init():
                    part[vl] = T.float32(0)
                at = vl * steps + vs
                part[vl] = part[vl] + T.if_then_else(at < n, A[at] * B[at], T.float32(0))
        for lane in range(lanes):
            with T.block("C"):
                vl = T.axis.reduce(lanes, lane)
                with T.init():
                    C[0] = T.float32(0)
                C[0] = C[0] + part[vl]
        with T.block("Y"):
            Y[0] = C[0] + bias[0]

    return dot
