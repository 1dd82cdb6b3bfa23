# mypy: ignore-errors
# What stands in a @T.prim_func is TVMScript: names that Python never evaluates.
"""Descriptions of what TVM's instructions do with tiles of matrices: fill one, move one, add a product to one.

A tile that the registers of a warp hold may lie there as its own rows and columns, or in another order: `layout` gives
the place of an element.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ....expr import const
from ....tir.nodes import PrimFunc


def _as_written(row: Any, column: Any) -> tuple[Any, Any]:
    return row, column


@dataclass(frozen=True, slots=True)
class Fragment:
    """A tile of a matrix in storage: its rows and columns, and where each element is in a buffer of `shape`."""

    tile: tuple[int, int]
    dtype: str
    scope: str
    align: int = 64
    layout: Callable[[Any, Any], tuple[Any, Any]] = _as_written
    stored: tuple[int, int] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the buffer."""
        return self.stored or self.tile


def moved(source: Fragment, target: Fragment) -> PrimFunc:
    """The description of a load or store: a tile from one scope to another."""
    from ....tir.script import builtins as T

    rows, columns = source.tile

    @T.prim_func
    def desc(a: T.handle, c: T.handle) -> None:
        A = T.match_buffer(a, source.shape, source.dtype, align=source.align, offset_factor=16, scope=source.scope)
        C = T.match_buffer(c, target.shape, target.dtype, align=target.align, offset_factor=16, scope=target.scope)
        with T.block("root"):
            T.reads(A[0 : source.shape[0], 0 : source.shape[1]])
            T.writes(C[0 : target.shape[0], 0 : target.shape[1]])
            for i, j in T.grid(rows, columns):
                with T.block("move"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    a0, a1 = T.meta_var(source.layout(vi, vj))
                    c0, c1 = T.meta_var(target.layout(vi, vj))
                    C[c0, c1] = A[a0, a1]

    return desc


def filled(sums: Fragment) -> PrimFunc:
    """The description of a fill: zeros in a fragment of sums."""
    from ....tir.script import builtins as T

    zero, (rows, columns) = const(0, sums.dtype), sums.tile

    @T.prim_func
    def desc(c: T.handle) -> None:
        C = T.match_buffer(c, sums.shape, sums.dtype, align=sums.align, offset_factor=16, scope=sums.scope)
        with T.block("root"):
            T.reads()
            T.writes(C[0 : sums.shape[0], 0 : sums.shape[1]])
            for i, j in T.grid(rows, columns):
                with T.block("init"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    c0, c1 = T.meta_var(sums.layout(vi, vj))
                    C[c0, c1] = zero

    return desc


def product(
    first: Fragment, second: Fragment, sums: Fragment, trans_a: bool = False, trans_b: bool = False
) -> PrimFunc:
    """The description of sums += first * second; a transposed operand has the other's index of the sum in front."""
    from ....tir.script import builtins as T

    rows, columns = sums.tile
    depth = first.tile[0 if trans_a else 1]

    def widened(value):
        return value if first.dtype == sums.dtype else T.Cast(sums.dtype, value)

    def left(row, step):
        return first.layout(step, row) if trans_a else first.layout(row, step)

    def right(step, column):
        return second.layout(column, step) if trans_b else second.layout(step, column)

    @T.prim_func
    def desc(a: T.handle, b: T.handle, c: T.handle) -> None:
        A = T.match_buffer(a, first.shape, first.dtype, align=first.align, offset_factor=16, scope=first.scope)
        B = T.match_buffer(b, second.shape, second.dtype, align=second.align, offset_factor=16, scope=second.scope)
        C = T.match_buffer(c, sums.shape, sums.dtype, align=sums.align, offset_factor=16, scope=sums.scope)
        with T.block("root"):
            T.reads(
                C[0 : sums.shape[0], 0 : sums.shape[1]],
                A[0 : first.shape[0], 0 : first.shape[1]],
                B[0 : second.shape[0], 0 : second.shape[1]],
            )
            T.writes(C[0 : sums.shape[0], 0 : sums.shape[1]])
            for i, j, k in T.grid(rows, columns, depth):
                with T.block("update"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    a0, a1 = T.meta_var(left(vi, vk))
                    b0, b1 = T.meta_var(right(vk, vj))
                    c0, c1 = T.meta_var(sums.layout(vi, vj))
                    C[c0, c1] = C[c0, c1] + widened(A[a0, a1]) * widened(B[b0, b1])

    return desc
