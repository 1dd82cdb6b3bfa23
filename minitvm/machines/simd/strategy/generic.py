"""Schedule any function for which there is no specific rule: parallel outer loops and vectors inside. Always legal.

Each block is scheduled separately. Its spatial loops except the innermost are fused and run in parallel if there is
enough work; the innermost one becomes vectors. A reduction runs inside the parallel loop. If its input is contiguous
along a spatial axis, or is gathered at data-dependent indices anyway, this axis becomes the vectors; otherwise the
reduction is split into lanes. Axes of a sum that are one axis in memory become one loop. Every step that the schedule
refuses is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from ....expr import REDUCE, IntImm
from ....strategy import blocks
from ....strategy.candidate import Candidate, Cost
from ....strategy.registry import rule
from ....strategy.roles import loops_as_one
from ....target import CPU, Target
from ....tir import Schedule
from ....tir.annotations import IN_STEP, LANES
from ....tir.nodes import Block, BufferStore, PrimFunc
from .model import shared, streamed
from .streams import StreamedBlock, streams
from .tasks import fused_tasks
from .tiling import cpu_of
from .turned import turned_copy

TASKS = 32  # iterations of a parallel loop that are enough to balance a team of threads
_WRITTEN_OUT = 16  # iterations of a reduction that may be unrolled
_OVERLAPPED = 4  # sums of neighbouring results that a core computes beside one another, measured on pools
_CODE = 1.2  # measured on pools: a body that is written out often is more to compile and to fetch
PARALLEL_WORK = 1 << 14  # elements read or written, below which waking another thread costs more than it saves


@dataclass(frozen=True, slots=True)
class BlockKnobs:
    """The decisions for blocks without a specific schedule.

    `vector_bytes` is the length of vectors (1: scalars). `tasks` is the wanted number of iterations of a parallel loop.
    `sums` is the number of vectors that hold a long sum. `turn` says whether transposing copies are tiled. `unroll` is
    the largest number of iterations of a reduction that are unrolled.
    """

    vector_bytes: int
    tasks: int = TASKS
    sums: int = 4
    turn: bool = True
    unroll: int = 1

    @staticmethod
    def of(target: Target) -> BlockKnobs:
        """Return the default knobs for a machine."""
        return BlockKnobs(int(cpu_of(target).vector_bytes))


def anything(func: PrimFunc) -> bool:  # noqa: ARG001 (a rule's condition)
    """Return True: this rule fits every function."""
    return True


@rule("cpu", anything, fallback=True)
def generic(func: PrimFunc, target: Target) -> Iterator[Candidate]:
    """Yield schedules that inline cheap blocks, and then schedule block by block."""
    yield from block_by_block(func, target)


def block_by_block(func: PrimFunc, target: Target) -> Iterator[Candidate]:
    """Yield the default decisions for the machine, and then variants that change one decision each."""
    cpu, usual = cpu_of(target), {"inline": True, **asdict(BlockKnobs.of(target))}
    work_of = streams(func)

    def price(inline: bool, **knobs: Any) -> Cost:
        total = Cost(0.0)
        for stream in work_of:
            total += stream_cost(stream, inline, BlockKnobs(**knobs), cpu)
        return total

    def apply(sch: Schedule, inline: bool, **knobs: Any) -> None:
        if inline:
            blocks.inline_injective(sch)
        for name in [b.name for b in blocks.blocks_of(sch.func)]:
            blocks.attempt(lambda name=name: schedule_block(sch, name, target, BlockKnobs(**knobs)))  # type: ignore[misc]

    yield Candidate(knobs=usual, price=price, apply=apply)
    for change in _changes(work_of, BlockKnobs.of(target)):
        yield Candidate(knobs={**usual, **change}, price=price, apply=apply)


def _changes(work_of: list[StreamedBlock], usual: BlockKnobs) -> Iterator[dict[str, bool | int]]:
    """Yield changes to single decisions that make a difference for a function."""
    yield {"vector_bytes": max(1, usual.vector_bytes // 2)}
    yield {"vector_bytes": 1}
    if any(stream.inlined for stream in work_of):
        yield {"inline": False}
    if any(stream.instances >= PARALLEL_WORK for stream in work_of):
        yield {"tasks": TASKS // 4}
        yield {"tasks": TASKS * 4}
    if any(stream.turns for stream in work_of):
        yield {"turn": False}
    if any(stream.summed > 1 and stream.along for stream in work_of):
        yield {"sums": 1}
    if any(1 < stream.summed <= _WRITTEN_OUT for stream in work_of):
        yield {"unroll": _WRITTEN_OUT}


def stream_cost(stream: StreamedBlock, inline: bool, knobs: BlockKnobs, cpu: CPU) -> Cost:
    """Return the cost of one block: its operations in vectors and the bytes that it moves, or nothing if it is
    inlined.
    """
    lanes = max(1, min(knobs.vector_bytes, cpu.vector_bytes) // stream.itemsize)
    if stream.turns and not knobs.turn:
        lanes = 1
    vectors = stream.instances / min(lanes, max(1, stream.row))
    # Each addition waits for the one before it, unless several vectors are summed independently.
    beside = knobs.sums if stream.along else _OVERLAPPED
    waits = max(1.0, cpu.chains / beside) if stream.summed > 1 else 1.0
    written_out = _CODE if 1 < stream.summed <= knobs.unroll else 1.0
    arithmetic = vectors * stream.operations / cpu.fma_ports * waits * written_out
    moved = 0 if inline and stream.inlined else stream.nbytes
    cost = Cost(arithmetic, streamed(moved, cpu))
    if stream.instances < PARALLEL_WORK:
        return cost
    return cost * shared(min(knobs.tasks, TASKS), cpu) + Cost(float(knobs.tasks))


def schedule_block(sch: Schedule, name: str, target: Target, knobs: BlockKnobs | None = None) -> None:
    """Schedule one block with parallel and vector loops."""
    knobs = knobs or BlockKnobs.of(target)
    outside = turned_copy(sch, name, target) if knobs.turn else None
    if outside is not None:
        amount = work(next(b for b in blocks.blocks_of(sch.func) if b.name == name))
        parallelized(sch, outside, amount, knobs.tasks)
        return
    handle = sch.get_block(name)
    block = next(b for b in blocks.blocks_of(sch.func) if b.name == name)
    loops = list(sch.get_loops(handle))
    kinds = [axis.kind for axis in block.iter_vars]
    if len(kinds) != len(loops):
        return
    spatial = [loop for loop, kind in zip(loops, kinds, strict=True) if kind != REDUCE]
    reduced = [loop for loop, kind in zip(loops, kinds, strict=True) if kind == REDUCE]
    lanes = max(1, knobs.vector_bytes // blocks.widest(block))
    if not spatial:
        if reduced and isinstance(block.body, BufferStore):
            _summed_in_parts(sch, handle, knobs, lanes)
        return
    extent = blocks.constant_extent(sch, spatial[-1])
    if extent is not None:
        long = extent >= min(lanes, 4)
    else:
        long = blocks.contiguous_along_last(block) or (not reduced and blocks.stays_in_rows(block))
    vectors = lanes > 1 and long and (reduced or isinstance(block.body, BufferStore))
    if lanes > 1 and IN_STEP in block.annotations:
        lines_in_lanes(sch, handle, spatial, knobs)
        return
    if not blocks.is_reduction(block):
        inner = vectorized(sch, spatial[-1], lanes) if vectors else None
        outer = spatial[:-1] if inner is not None else spatial
        rest = [inner] if inner is not None else []
        parallelized(sch, [*outer, *rest], work(block), knobs.tasks)
        return
    # Several numbers make no sum of lanes (a maximum and its place): lines are the lanes, and their elements gathered.
    lines = not isinstance(block.body, BufferStore) and (extent is None or extent >= lanes)
    if vectors and (blocks.contiguous_along_last(block) or blocks.reads_where_data_say(block) or lines):
        tile, lane = sch.split(spatial[-1], [None, min(lanes, extent or lanes)])
        sch.reorder(*spatial[:-1], tile, *reduced, lane)
        blocks.attempt(lambda: sch.vectorize(lane))
        parallelized(sch, [*spatial[:-1], tile], work(block), knobs.tasks)
    else:
        places = [p for p, kind in enumerate(kinds) if kind == REDUCE]
        reduced = loops_as_one(sch, handle, list(zip(places, reduced, strict=True)))
        length = blocks.constant_extent(sch, reduced[-1])
        a_vector = length is not None and max(2, lanes // 2) <= length < 2 * lanes
        if len(reduced) > 1 and a_vector and blocks.reduces_along_last(block):
            if blocks.attempt(lambda: _summed_apart(sch, handle, reduced[-1], lanes)) is not None:
                parallelized(sch, list(sch.get_loops(handle))[: len(spatial)], work(block), knobs.tasks)
                return
        enough = lanes if len(reduced) == 1 else 2 * lanes
        if (length is None or length >= enough) and lanes > 1 and blocks.reduces_along_last(block):
            _in_lanes(sch, reduced[-1], knobs, lanes)
        parallelized(sch, spatial, work(block), knobs.tasks)
    _written_out(sch, reduced, knobs.unroll)


def lines_in_lanes(sch: Schedule, handle: Any, loops: list[Any], knobs: BlockKnobs) -> None:
    """Vectorise blocks that run a loop program for each point: each point becomes a lane, and local storage becomes
    vectors.
    """
    block = blocks.block_of(sch, handle)
    own = max((buffer.dtype.bytes for buffer in block.alloc_buffers), default=1)
    lanes = max(1, knobs.vector_bytes // max(own, blocks.widest(block)))
    last = blocks.constant_extent(sch, loops[-1])
    if last is not None and last < lanes and len(loops) > 1:
        loops = [blocks.attempt(lambda: sch.fuse(*loops)) or loops[-1]]
    inner = vectorized(sch, loops[-1], lanes)
    outer = [*loops[:-1], inner or loops[-1]]
    parallelized(sch, outer, work(block) * blocks.steps_of(block), knobs.tasks)


def _summed_apart(sch: Schedule, block: Any, inner: Any, lanes: int) -> Any:
    """Sum in vectors if the innermost loop is as long as a vector: each lane sums over the other loops, then lanes are
    added.

    Returns the handle of the block that adds the lanes.
    """
    with sch.all_or_nothing():
        apart = sch.rfactor(inner, -1)
        *outside, over = sch.get_loops(block)
        sch.compute_at(apart, outside[-1])
        own = list(sch.get_loops(apart))[len(outside) :]
        lane, *summed = own
        sch.reorder(*summed, lane)
        sch.vectorize(lane)
        sch.annotate(over, LANES, blocks.constant_extent(sch, over) or lanes)
        return block


def _summed_in_parts(sch: Schedule, block: Any, knobs: BlockKnobs, lanes: int) -> None:
    """Sum all elements in parallel: each task sums a part in lanes, and then the parts are added."""
    amount, along = work(blocks.block_of(sch, block)), blocks.reduces_along_last(blocks.block_of(sch, block))
    loops = loops_as_one(sch, block, list(enumerate(sch.get_loops(block))))
    parts = blocks.largest_divisor(blocks.constant_extent(sch, loops[0]), knobs.tasks)

    def apart() -> Any:
        with sch.all_or_nothing():
            over, _ = sch.split(loops[0], [parts, None])
            part = sch.rfactor(over, 0)
            sch.parallel(sch.get_loops(part)[0])
            return part

    summed = blocks.attempt(apart) if amount >= PARALLEL_WORK and parts > 1 else None
    inner = sch.get_loops(block if summed is None else summed)[-1]
    if along and lanes > 1:
        _in_lanes(sch, inner, knobs, lanes)


def _in_lanes(sch: Schedule, loop: Any, knobs: BlockKnobs, lanes: int) -> None:
    """Sum over a loop in vectors, using several of them if the loop is long."""
    length = blocks.constant_extent(sch, loop)
    long = length is None or length >= 4 * knobs.sums * lanes
    blocks.attempt(lambda: sch.annotate(loop, LANES, knobs.sums * lanes if long else lanes))


def _written_out(sch: Schedule, loops: list[Any], most: int) -> None:
    """Unroll the innermost loops of a reduction while that makes at most `most` copies of the body."""
    copies = 1
    for loop in reversed(loops):
        copies *= blocks.constant_extent(sch, loop) or most + 1
        if copies > most:
            return
        if copies > 1:
            blocks.attempt(lambda loop=loop: sch.unroll(loop))  # type: ignore[misc]


def vectorized(sch: Schedule, loop: Any, lanes: int) -> Any:
    """Split a loop into vectors. Return the loop over them, or None if that is refused."""

    def split() -> Any:
        outer, inner = sch.split(loop, [None, min(lanes, blocks.constant_extent(sch, loop) or lanes)])
        sch.vectorize(inner)
        return outer

    return blocks.attempt(split)


def parallelized(sch: Schedule, loops: list[Any], amount: int, most: int = TASKS) -> None:
    """Fuse the outermost loops of a nest until they make `most` tasks, and run them in parallel if that is worthwhile.

    No more loops are fused than necessary, because the indices of a fused loop are divisions and remainders. A symbolic
    extent may be 1, so loops inside it are fused too, except the innermost one.
    """
    if amount < PARALLEL_WORK or not loops:
        return
    tasks, count, any_open = 1, 0, False
    for loop in loops:
        if any_open and loop is loops[-1]:
            break
        extent = blocks.constant_extent(sch, loop)
        any_open = any_open or extent is None
        count += 1
        tasks *= extent or 1
        if tasks >= most:
            break
    fused = blocks.attempt(lambda: fused_tasks(sch, loops[:count]))
    blocks.attempt(lambda: sch.parallel(fused[0] if fused else loops[0]))


def vector_lanes(block: Block, target: Target) -> int:
    """Return the number of lanes of a vector of the widest element that a block accesses."""
    return max(1, cpu_of(target).vector_bytes // blocks.widest(block))


def work(block: Block) -> int:
    """Return how often a block runs. A symbolic extent counts as 256."""
    total = 1
    for axis in block.iter_vars:
        total *= axis.dom.extent.value if isinstance(axis.dom.extent, IntImm) else 256
    return total
