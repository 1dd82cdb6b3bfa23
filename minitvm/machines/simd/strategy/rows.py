"""Schedule softmax, layer norm, instance norm and group norm: all blocks of a row in one loop over the rows.

    for row in parallel:
        for k: largest = max(largest, x[row, k])
        for k: power[k] = exp(x[row, k] - largest)
        for k: total += power[k]
        for k: result[row, k] = power[k] / total

A row is read from memory once, and stays in the caches closest to the core until the last of these loops. It may be an
image, a group of channels, or a block of channels whose sums are vectors.
"""

from __future__ import annotations

from collections.abc import Iterator

from ....expr import REDUCE
from ....expr.conditions import is_const
from ....strategy import blocks
from ....strategy.candidate import Candidate, Cost, Unfit
from ....strategy.registry import rule
from ....strategy.roles import loops_as_one
from ....strategy.rows import Normalized, normalized
from ....target import CPU, Target
from ....tir import Schedule
from ....tir.annotations import LANES
from ....tir.nodes import PrimFunc
from .generic import PARALLEL_WORK, vectorized
from .model import shared, streamed
from .streams import StreamedBlock, streams
from .tasks import fused_tasks
from .tiling import cpu_of

_OPEN = 256  # what an open length counts as
_SUMS = (4, 1)  # vectors in which a sum is kept: one waits for itself
_FEWEST_LANES = 4  # in which a sum is kept; fewer cost more to add up than they save
_TURNS = 4  # of a loop over several vectors of sums, which are enough to pay for adding these up


def normalizes(func: PrimFunc) -> bool:
    """Return whether a function is a normalisation along rows that this rule can schedule."""
    return normalized(func) is not None


@rule("cpu", normalizes)
def rows(func: PrimFunc, target: Target) -> Iterator[Candidate]:
    """Yield schedules that compute the blocks of a row one after the other. Only the lengths of vectors and sums
    vary.
    """
    cpu, work_of, form = cpu_of(target), streams(func), normalized(func)
    assert form is not None
    *_, result = blocks.blocks_of(func)
    sizes = blocks.extents(axis.dom.extent for axis in result.iter_vars)
    leading, length = sizes[: form.outside], blocks.volume(sizes[form.outside :], _OPEN) * form.together
    if form.outside:
        leading[-1] = leading[-1] and leading[-1] // form.together
    if blocks.volume(leading, _OPEN) < cpu.cores and blocks.volume(leading) * length >= PARALLEL_WORK:
        raise Unfit(f"{blocks.volume(leading)} rows for {cpu.cores} cores: there is more to share inside of a row")
    moved = sum(
        blocks.volume(buffer.shape, _OPEN) * buffer.dtype.bytes for buffer in func.params if hasattr(buffer, "shape")
    )

    def price(vector_bytes: int, sums: int) -> Cost:
        arithmetic = sum(_cycles(stream, vector_bytes, sums, cpu) for stream in work_of)
        cost = Cost(arithmetic, streamed(moved, cpu))
        return cost * shared(blocks.volume(leading, _OPEN), cpu)

    def apply(sch: Schedule, vector_bytes: int, sums: int) -> None:
        blocks.inline_injective(sch)
        *before, last = (block.name for block in blocks.blocks_of(sch.func))
        handle = sch.get_block(last)
        loops = list(sch.get_loops(handle))
        if len(loops) != len(result.iter_vars):
            raise Unfit(f"{len(loops)} loops around {last} for {len(result.iter_vars)} axes: wanted one for each")
        outside, row = loops[: form.outside], list(enumerate(loops))[form.outside :]
        if form.together > 1:
            outside[-1], member = sch.split(outside[-1], [None, form.together])
            sch.reorder(*outside, member)
        loops_as_one(sch, handle, row)
        task, *others = fused_tasks(sch, outside)
        for name in reversed(before):
            sch.compute_at(sch.get_block(name), (task, *others)[-1])
        for name in (*before, last):
            _in_vectors(sch, name, 1 + len(others), vector_bytes, sums, form)
        if blocks.volume(leading, _OPEN) * length >= PARALLEL_WORK:
            sch.parallel(task)

    for vector_bytes in (cpu.vector_bytes, max(1, cpu.vector_bytes // 2)):
        for sums in _SUMS:
            if sums > 1 and (form.lanes or length < _TURNS * sums * max(1, vector_bytes // blocks.widest(result))):
                continue
            yield Candidate(knobs={"vector_bytes": vector_bytes, "sums": sums}, price=price, apply=apply)


def _in_vectors(sch: Schedule, name: str, outside: int, vector_bytes: int, sums: int, form: Normalized) -> None:
    """Schedule the loops of a block that are inside the loops over rows. The first `outside` loops are over rows."""
    handle = sch.get_block(name)
    block = blocks.block_of(sch, handle)
    inside = list(sch.get_loops(handle))[outside:]
    lanes = max(1, vector_bytes // blocks.widest(block))
    if not inside or lanes == 1:
        return
    if not blocks.is_reduction(block):
        vectorized(sch, inside[-1], lanes)
        return
    summed = [(p, axis) for p, axis in enumerate(block.iter_vars) if axis.kind == REDUCE]
    summed = [(p, axis) for p, axis in summed if not is_const(axis.dom.extent, 1)]
    if not summed:
        return
    kept, over = inside[: -len(summed)], inside[-len(summed) :]
    if form.lanes and kept and blocks.contiguous_along_last(block):
        tile, lane = sch.split(kept[-1], [None, min(lanes, blocks.constant_extent(sch, kept[-1]) or lanes)])
        sch.reorder(tile, *over, lane)
        sch.vectorize(lane)
    elif blocks.reduces_along_last(block):
        *_, along = loops_as_one(sch, handle, [(p, loop) for (p, _), loop in zip(summed, over, strict=True)])
        filled = _filled_lanes(blocks.constant_extent(sch, along), lanes)
        if filled >= _FEWEST_LANES:
            sch.annotate(along, LANES, sums * filled)


def _filled_lanes(length: int | None, lanes: int) -> int:
    """Return how many lanes of a vector a sum of this length fills: a power of two, or all if the length is unknown."""
    return lanes if length is None else min(lanes, 1 << max(0, length.bit_length() - 1))


def _cycles(stream: StreamedBlock, vector_bytes: int, sums: int, cpu: CPU) -> float:
    """Return the cycles of one block: its vector operations, and the time that a sum waits for its previous step."""
    lanes = max(1, min(vector_bytes, cpu.vector_bytes) // stream.itemsize)
    if stream.summed == 1:
        return stream.instances / min(lanes, max(1, stream.row)) * stream.operations / cpu.fma_ports
    vectors = stream.instances / stream.summed * -(-stream.summed // (sums * lanes)) * sums
    return float(vectors * stream.operations / cpu.fma_ports * max(1.0, cpu.chains / sums))
