"""The program that grows through all lessons: Y = relu(A @ B + bias).

A is m x k, B is k x n, bias has n elements, Y is m x n; all are float32.
"""

from __future__ import annotations

import numpy as np

from minitvm.script import tir as T
from minitvm.tir.nodes import PrimFunc


def three_loops(m: int, n: int, k: int) -> PrimFunc:
    """The example as a person would write it first: three loops, everything in Y."""

    @T.prim_func
    def example(
        A: T.Buffer((m, k), "float32"),
        B: T.Buffer((k, n), "float32"),
        bias: T.Buffer((n,), "float32"),
        Y: T.Buffer((m, n), "float32"),
    ):
        for i, j in T.grid(m, n):
            Y[i, j] = T.float32(0)
            for r in range(k):
                Y[i, j] = Y[i, j] + A[i, r] * B[r, j]
            Y[i, j] = T.max(Y[i, j] + bias[j], T.float32(0))

    return example


def in_a_register(m: int, n: int, k: int) -> PrimFunc:
    """The example with the running sum in `total`, a buffer of scope "local": a register, not memory."""

    @T.prim_func
    def example(
        A: T.Buffer((m, k), "float32"),
        B: T.Buffer((k, n), "float32"),
        bias: T.Buffer((n,), "float32"),
        Y: T.Buffer((m, n), "float32"),
    ):
        total = T.alloc_buffer((1,), "float32", scope="local")
        for i, j in T.grid(m, n):
            total[0] = T.float32(0)
            for r in range(k):
                total[0] = total[0] + A[i, r] * B[r, j]
            Y[i, j] = T.max(total[0] + bias[j], T.float32(0))

    return example


def blocks(m: int, n: int, k: int) -> PrimFunc:
    """The example as two blocks, which say what they compute; the loops around them are free to change."""

    @T.prim_func
    def example(
        A: T.Buffer((m, k), "float32"),
        B: T.Buffer((k, n), "float32"),
        bias: T.Buffer((n,), "float32"),
        Y: T.Buffer((m, n), "float32"),
    ):
        C = T.alloc_buffer((m, n), "float32")
        for i, j, r in T.grid(m, n, k):
            with T.block("C"):
                vi, vj, vr = T.axis.remap("SSR", [i, j, r])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vr] * B[vr, vj]
        for i, j in T.grid(m, n):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = T.max(C[vi, vj] + bias[vj], T.float32(0))

    return example


def inputs(m: int, n: int, k: int, seed: int = 2) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Small whole numbers for A, B and bias, on which float32 makes no rounding error, and a Y to be written."""
    rng = np.random.default_rng(seed)
    a, b, bias = (rng.integers(-3, 4, shape).astype("float32") for shape in ((m, k), (k, n), (n,)))
    return a, b, bias, np.full((m, n), np.nan, "float32")


def expected(a: np.ndarray, b: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """What the example means, by NumPy."""
    return np.maximum(a @ b + bias, 0)
