"""A matrix times one column: every element of the matrix is used once, so memory is all that counts.

    for i in parallel:
        for k, in several vectors:              # the row as it lies in memory; the column stays in the L1 cache
            lanes += A[i, k] * b[k]
        C[i] = epilogue(sum of the lanes)

One vector more than the latency of a multiply-add allows for would do; several hide that of the memory as well.
"""

from __future__ import annotations

from typing import Any

from ...tir import Schedule
from ...tir.annotations import LANES
from ...tir.nodes import PrimFunc
from ..registry import rule
from .blocks import blocks_of, inline_injective, is_reduction
from .generic import parallelized, vector_lanes, work
from .matmul import MatmulBlock, as_matmul

_VECTORS = 4


def _product(func: PrimFunc) -> MatmulBlock | None:
    reductions = [b for b in blocks_of(func) if is_reduction(b)]
    found = as_matmul(reductions[0]) if len(reductions) == 1 else None
    return found if found is not None and found.n == 1 else None


def has_matvec(func: PrimFunc) -> bool:
    """Whether the only reduction is a product with a matrix of one column."""
    return _product(func) is not None


@rule("cpu", has_matvec)
def matvec(sch: Schedule, target: Any) -> None:
    """Rows in parallel, each summed in several vectors; the epilogue is computed row by row."""
    inline_injective(sch)
    found = _product(sch.func)
    others = [b.name for b in blocks_of(sch.func) if not is_reduction(b)]
    if found is None or len(others) > 1:
        return
    loops = list(sch.get_loops(found.block.name))
    lanes = vector_lanes(found.block, target)
    width = _VECTORS * lanes if found.depth >= 4 * _VECTORS * lanes else lanes
    column, depth = loops[found.j], loops[found.k]
    rows = [loop for loop in loops if loop not in (column, depth)]
    sch.reorder(*rows, column, depth)
    if found.depth >= 2 * lanes > 2:
        sch.annotate(depth, LANES, width)
    if others:
        sch.reverse_compute_at(others[0], rows[-1])
    parallelized(sch, rows, work(found.block))
