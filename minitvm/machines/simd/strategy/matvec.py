"""Schedule products of a matrix with a single column. Each matrix element is used once, so memory limits the speed.

    for i in parallel:
        for k, in several vectors:              # the row is contiguous in memory; the column stays in the L1 cache
            lanes += A[i, k] * b[k]
        C[i] = epilogue(sum of the lanes)

One vector more than the latency of a multiply-add requires would be enough; several vectors also hide memory
latency.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, log2

from ....expr import REDUCE
from ....expr.conditions import is_const
from ....strategy.blocks import blocks_of, inline_injective, is_reduction, only_reduction, volume
from ....strategy.candidate import Candidate, Cost, Unfit
from ....strategy.registry import rule
from ....strategy.roles import LONG, contiguous_along, depends, operands
from ....target import Target
from ....tir import Schedule
from ....tir.analysis.block_regions import buffers_written
from ....tir.annotations import LANES
from ....tir.nodes import Block, PrimFunc
from .generic import parallelized, vector_lanes, work
from .tiling import cpu_of

_VECTORS = 4


@dataclass(frozen=True, slots=True)
class Matvec:
    """A block `C[i..] += A[f(i, k)] * b[g(i, k)]` whose sum runs along the rows of A.

    `depth` is the extent of k, or a large number if it is symbolic. Each iterator i is an index of A; in a batch of
    products, some are also indices of b.
    """

    block: Block
    depth: int


def _product(func: PrimFunc) -> Matvec | None:
    block = only_reduction(func)
    loads = None if block is None else operands(block)
    if block is None or loads is None:
        return None
    summed = [axis for axis in block.iter_vars if axis.kind == REDUCE]
    if len(summed) != 1 or len(summed) == len(block.iter_vars):  # a single number is no row: `generic` sums in parts
        return None
    rows = [axis.var for axis in block.iter_vars if axis.kind != REDUCE and not is_const(axis.dom.extent, 1)]
    for matrix, column in (loads, loads[::-1]):
        alone = all(depends(matrix, var) for var in rows)
        along = is_const(summed[0].dom.extent, 1) or contiguous_along(matrix, summed[0].var)
        if alone and along and depends(column, summed[0].var):
            return Matvec(block, volume([summed[0].dom.extent], LONG))
    return None


def has_matvec(func: PrimFunc) -> bool:
    """Return whether the only reduction multiplies the rows of a matrix by one column, or is a batch of such
    products.
    """
    return _product(func) is not None


@rule("cpu", has_matvec)
def matvec(func: PrimFunc, target: Target) -> Iterator[Candidate]:
    """Yield schedules with rows in parallel, each summed in `width` lanes (1: no lanes). The epilogue is computed row
    by row.
    """
    product = _product(func)
    if product is None:
        return
    cpu, lanes, itemsize = (
        cpu_of(target),
        vector_lanes(product.block, target),
        buffers_written(product.block)[0].dtype.bytes,
    )
    rows, depth = work(product.block) // max(1, product.depth), product.depth

    def price(width: int) -> Cost:
        vectors = max(1, width // lanes)
        step = max(vectors / cpu.fma_ports, float(cpu.fma_latency))
        ends = cpu.fma_latency * log2(width)  # the lanes are added up
        matrix = itemsize * rows * depth
        return Cost(rows * (ceil(depth / width) * step + ends), matrix / cpu.memory_rate)

    def apply(sch: Schedule, width: int) -> None:
        _schedule(sch, width)

    for width, shortest in ((_VECTORS * lanes, 4 * _VECTORS * lanes), (lanes, lanes), (lanes // 2, lanes // 2), (1, 0)):
        if depth >= shortest and (lanes > 1 or width == 1):
            yield Candidate(knobs={"width": width}, price=price, apply=apply)


def _schedule(sch: Schedule, width: int) -> None:
    inline_injective(sch)
    product = _product(sch.func)
    others = [b.name for b in blocks_of(sch.func) if not is_reduction(b)]
    if product is None or len(others) > 1:
        raise Unfit(f"matvec: wanted one block at most beside the product, found {', '.join(others)}")
    *rows, depth = sch.get_loops(product.block.name)
    if len(rows) + 1 != len(product.block.iter_vars) or product.block.iter_vars[-1].kind != REDUCE:
        raise Unfit("matvec: wanted the axis of the sum behind those of the result")
    if width > 1:
        sch.annotate(depth, LANES, width)
    if others:
        sch.reverse_compute_at(others[0], rows[-1])
    parallelized(sch, rows, work(product.block))
