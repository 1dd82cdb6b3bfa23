"""Rows that are normalised, as by softmax and layer norm: all that is computed for a row, in one loop over the rows.

    for row in parallel:
        for k: largest = max(largest, x[row, k])
        for k: power[k] = exp(x[row, k] - largest)
        for k: total += power[k]
        for k: result[row, k] = power[k] / total

A row is read from memory once, and stays in the caches nearest to the core until the last of these loops.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...tir import Schedule
from ...tir.annotations import LANES
from ...tir.nodes import PrimFunc
from ..blocks import (
    blocks_of,
    extents,
    inline_injective,
    is_reduction,
    volume,
)
from ..candidate import Candidate, Cost, Unfit
from ..registry import rule
from ..rows import normalizes_rows
from .generic import PARALLEL_WORK, constant_extent, vectorized, widest
from .model import L3_BYTES, MEMORY_BYTES, shared
from .streams import Stream, streams
from .tasks import fused_tasks
from .tiling import cpu_of

_OPEN = 256  # what an open length counts as
_SUMS = (4, 1)  # vectors in which a sum is kept: one waits for itself
_TURNS = 4  # of a loop over several vectors of sums, which are enough to pay for adding these up


@rule("cpu", normalizes_rows)
def rows(func: PrimFunc, target: Any) -> Iterator[Candidate]:
    """The blocks of a row one after the other; only the lengths of vectors and of sums are decided."""
    cpu, work_of = cpu_of(target), streams(func)
    *_, result = blocks_of(func)
    *leading, last_extent = extents(axis.dom.extent for axis in result.iter_vars)
    length = last_extent or _OPEN
    if volume(leading, _OPEN) < cpu.cores and volume(leading) * length >= PARALLEL_WORK:
        raise Unfit(f"{volume(leading)} rows for {cpu.cores} cores: there is more to share inside of a row")
    moved = sum(volume(buffer.shape, _OPEN) * buffer.dtype.bytes for buffer in func.params if hasattr(buffer, "shape"))

    def price(vector_bytes: int, sums: int) -> Cost:
        arithmetic = sum(_cycles(stream, vector_bytes, sums, cpu) for stream in work_of)
        cost = Cost(arithmetic, moved / (L3_BYTES if moved <= cpu.l3.size else MEMORY_BYTES))
        return cost * shared(volume(leading, _OPEN), cpu)

    def apply(sch: Schedule, vector_bytes: int, sums: int) -> None:
        inline_injective(sch)
        *before, last = (block.name for block in blocks_of(sch.func))
        *outside, _ = sch.get_loops(sch.get_block(last))
        task, *others = fused_tasks(sch, outside)
        row = (task, *others)[-1]
        for name in reversed(before):
            sch.compute_at(sch.get_block(name), row)
        for block in list(blocks_of(sch.func)):
            inside = sch.get_loops(sch.get_block(block.name))[1 + len(others) :]
            lanes = max(1, vector_bytes // widest(block))
            if not inside or lanes == 1:
                continue
            if not is_reduction(block):
                vectorized(sch, inside[-1], lanes)
            elif (constant_extent(sch, inside[-1]) or _OPEN) >= 2 * lanes:
                sch.annotate(inside[-1], LANES, sums * lanes)
        if volume(leading, _OPEN) * length >= PARALLEL_WORK:
            sch.parallel(task)

    for vector_bytes in (cpu.vector_bytes, max(1, cpu.vector_bytes // 2)):
        for sums in _SUMS:
            if sums > 1 and length < _TURNS * sums * max(1, vector_bytes // widest(result)):
                continue
            yield Candidate(knobs={"vector_bytes": vector_bytes, "sums": sums}, price=price, apply=apply)


def _cycles(stream: Stream, vector_bytes: int, sums: int, cpu: Any) -> float:
    """Of one block: vectors of operations, and where a sum waits for the step before."""
    lanes = max(1, min(vector_bytes, cpu.vector_bytes) // stream.itemsize)
    if stream.summed == 1:
        return stream.instances / min(lanes, max(1, stream.row)) * stream.operations / cpu.fma_ports
    vectors = stream.instances / stream.summed * -(-stream.summed // (sums * lanes)) * sums
    return float(vectors * stream.operations / cpu.fma_ports * max(1.0, cpu.chains / sums))
