"""A matrix times one column: every element of the matrix is used once, so memory is all that counts.

    for i in parallel:
        for k, in several vectors:              # the row as it lies in memory; the column stays in the L1 cache
            lanes += A[i, k] * b[k]
        C[i] = epilogue(sum of the lanes)

One vector more than the latency of a multiply-add allows for would do; several hide that of the memory as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, log2
from typing import Any

from ...tir import Schedule
from ...tir.annotations import LANES
from ...tir.nodes import PrimFunc
from ..candidate import Candidate, Cost, Unfit
from ..registry import rule
from .blocks import blocks_of, inline_injective, is_reduction
from .generic import parallelized, vector_lanes, work
from .matmul import MatmulBlock, as_matmul
from .model import MEMORY_BYTES
from .tiling import cpu_of

_VECTORS = 4


def _product(func: PrimFunc) -> MatmulBlock | None:
    reductions = [b for b in blocks_of(func) if is_reduction(b)]
    found = as_matmul(reductions[0]) if len(reductions) == 1 else None
    return found if found is not None and found.n == 1 else None


def has_matvec(func: PrimFunc) -> bool:
    """Whether the only reduction is a product with a matrix of one column."""
    return _product(func) is not None


@rule("cpu", has_matvec)
def matvec(func: PrimFunc, target: Any) -> Iterator[Candidate]:
    """Rows in parallel, each summed in `width` lanes (1: one after the other); the epilogue is computed row by row."""
    product = _product(func)
    if product is None:
        return
    cpu, lanes, itemsize = (
        cpu_of(target),
        vector_lanes(product.block, target),
        product.block.writes[0].buffer.dtype.bytes,
    )
    rows, depth = work(product.block) // max(1, product.depth), product.depth

    def price(width: int) -> Cost:
        vectors = max(1, width // lanes)
        step = max(vectors / cpu.fma_ports, float(cpu.fma_latency))
        ends = cpu.fma_latency * log2(width)  # the lanes are added up
        matrix = itemsize * rows * depth
        return Cost(rows * (ceil(depth / width) * step + ends), matrix / MEMORY_BYTES)

    def apply(sch: Schedule, width: int) -> None:
        _schedule(sch, width)

    for width, shortest in ((_VECTORS * lanes, 4 * _VECTORS * lanes), (lanes, 2 * lanes), (1, 0)):
        if depth >= shortest and (lanes > 1 or width == 1):
            yield Candidate(knobs={"width": width}, price=price, apply=apply)


def _schedule(sch: Schedule, width: int) -> None:
    inline_injective(sch)
    product = _product(sch.func)
    others = [b.name for b in blocks_of(sch.func) if not is_reduction(b)]
    if product is None or len(others) > 1:
        raise Unfit(f"matvec: wanted one block at most beside the product, found {', '.join(others)}")
    loops = list(sch.get_loops(product.block.name))
    column, depth = loops[product.j], loops[product.k]
    rows = [loop for loop in loops if loop not in (column, depth)]
    sch.reorder(*rows, column, depth)
    if width > 1:
        sch.annotate(depth, LANES, width)
    if others:
        sch.reverse_compute_at(others[0], rows[-1])
    parallelized(sch, rows, work(product.block))
