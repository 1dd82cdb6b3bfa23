"""The programs that most tests of schedules begin with, made by te, and the handle of a loop by its position."""

from __future__ import annotations

from typing import Any

from minitvm import te
from minitvm.expr import Expr, SizeVar
from minitvm.tir.nodes import PrimFunc
from minitvm.tir.schedule import Schedule


def matmul(m: int | Expr = 8, n: int = 6, k: int = 4) -> PrimFunc:
    """C = A @ B as one reduction block "C" in loops i, j, k."""
    A, B = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    axis = te.reduce_axis((0, k), name="k")
    C = te.compute((m, n), lambda i, j: te.sum(A[i, axis] * B[axis, j], axis=axis), name="C")
    return te.create_prim_func([A, B, C])


def symbolic_matmul() -> PrimFunc:
    """As `matmul`, with a symbolic number of rows."""
    return matmul(SizeVar("m"))


def chain(rows: int = 10, columns: int = 6) -> PrimFunc:
    """B = A * 2; C = B[i] + B[i+1] + B[i+2] (a halo of two rows); D = C + 1."""
    A = te.placeholder((rows, columns), name="A")
    B = te.compute((rows, columns), lambda i, j: A[i, j] * 2.0, name="B")
    C = te.compute((rows - 2, columns), lambda i, j: B[i, j] + B[i + 1, j] + B[i + 2, j], name="C")
    D = te.compute((rows - 2, columns), lambda i, j: C[i, j] + 1.0, name="D")
    return te.create_prim_func([A, D])


def two_consumers(rows: int = 8) -> PrimFunc:
    """B = A * 2; C = B + 1; D = B - C."""
    A = te.placeholder((rows,), name="A")
    B = te.compute((rows,), lambda i: A[i] * 2.0, name="B")
    C = te.compute((rows,), lambda i: B[i] + 1.0, name="C")
    D = te.compute((rows,), lambda i: B[i] - C[i], name="D")
    return te.create_prim_func([A, D])


def loop(sch: Schedule, block: str, position: int = 0) -> Any:
    """The handle of a loop around a block, counted from the outermost."""
    return sch.get_loops(block)[position]
