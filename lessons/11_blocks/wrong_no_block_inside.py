"""Wrong: has another block in the tile, which is not called step."""

from __future__ import annotations

from minitvm.script import tir as T
from minitvm.tir import PrimFunc


def in_tiles(m: int, n: int, k: int, t: int) -> PrimFunc:
    """C = A @ B by a block "tile" of t x t x t."""

    @T.prim_func
    def product(
        A: T.Buffer((m, k), "float32"),
        B: T.Buffer((k, n), "float32"),
        C: T.Buffer((m, n), "float32"),
    ):
        for i, j, r in T.grid(m // t, n // t, k // t):
            with T.block("tile"):
                vi, vj, vr = T.axis.remap("SSR", [i, j, r])
                T.reads(A[vi * t : vi * t + t, vr * t : vr * t + t], B[vr * t : vr * t + t, vj * t : vj * t + t])
                T.writes(C[vi * t : vi * t + t, vj * t : vj * t + t])
                with T.init():
                    for a, b in T.grid(t, t):
                        with T.block("start"):
                            va, vb = T.axis.remap("SS", [a, b])
                            C[vi * t + va, vj * t + vb] = T.float32(0)
                for a, b, c in T.grid(t, t, t):
                    with T.block("mul"):
                        va, vb, vc = T.axis.remap("SSR", [a, b, c])
                        C[vi * t + va, vj * t + vb] = (
                            C[vi * t + va, vj * t + vb] + A[vi * t + va, vr * t + vc] * B[vr * t + vc, vj * t + vb]
                        )

    return product
