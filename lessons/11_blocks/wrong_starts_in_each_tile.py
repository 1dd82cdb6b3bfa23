"""Wrong: starts inside of the tile, so each step of the outer reduction begins anew."""

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
                for a, b, c in T.grid(t, t, t):
                    with T.block("step"):
                        va, vb, vc = T.axis.remap("SSR", [a, b, c])
                        with T.init():
                            C[vi * t + va, vj * t + vb] = T.float32(0)
                        C[vi * t + va, vj * t + vb] = (
                            C[vi * t + va, vj * t + vb] + A[vi * t + va, vr * t + vc] * B[vr * t + vc, vj * t + vb]
                        )

    return product
