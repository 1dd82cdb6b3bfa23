"""The schedule of everything that has none of its own: parallel outer loops, vectors inside, legal for any function.

Each block is scheduled by itself: its spatial loops are fused up to the innermost one, which becomes vectors; what is
left outside runs in parallel when there is enough of it. A reduction runs inside the parallel loop; where its input is
contiguous along a spatial axis that axis becomes the vectors, and so it does where data decide what is read, which is
gathered in any case; otherwise the reduction is asked for lanes of its own.
Axes of a sum that are one axis in memory are one loop. Every step that the schedule refuses is left out.
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
    """How blocks are scheduled that have no schedule of their own.

    `vector_bytes` is the length of vectors (1: scalars), `tasks` how many iterations a parallel loop should have,
    `sums` the number of vectors in which a long sum is kept, `turn` whether copies that turn their input around are
    tiled, and `unroll` up to how many iterations of a reduction are written out.
    """

    vector_bytes: int
    tasks: int = TASKS
    sums: int = 4
    turn: bool = True
    unroll: int = 1

    @staticmethod
    def of(target: Target) -> BlockKnobs:
        """The knobs that are taken on a machine."""
        return BlockKnobs(int(cpu_of(target).vector_bytes))


def anything(func: PrimFunc) -> bool:  # noqa: ARG001 (a rule's condition)
    """Every function."""
    return True


@rule("cpu", anything, fallback=True)
def generic(func: PrimFunc, target: Target) -> Iterator[Candidate]:
    """Inline what is cheap, then schedule block by block."""
    yield from block_by_block(func, target)


def block_by_block(func: PrimFunc, target: Target) -> Iterator[Candidate]:
    """What is taken on the machine, and that with one decision changed."""
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
    """Other decisions that make a difference to a function."""
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
    """The cost of one block: its operations in vectors, and the bytes that it moves, unless it is inlined."""
    lanes = max(1, min(knobs.vector_bytes, cpu.vector_bytes) // stream.itemsize)
    if stream.turns and not knobs.turn:
        lanes = 1
    vectors = stream.instances / min(lanes, max(1, stream.row))
    # A sum waits for itself, unless several vectors are summed beside one another.
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
    """Parallel and vector loops for one block."""
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
    """A loop program for each point becomes a lane of vectors; an element of its own storage becomes a vector."""
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
    """A sum whose innermost loop is as long as a vector: each lane sums over the others, then the lanes are summed.

    Returns the handle of the block that sums the lanes.
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
    """A sum of all elements: parts of it are tasks, each summed in lanes, and then the parts are summed."""
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
    """Sum over a loop in vectors: in several of them where it is long."""
    length = blocks.constant_extent(sch, loop)
    long = length is None or length >= 4 * knobs.sums * lanes
    blocks.attempt(lambda: sch.annotate(loop, LANES, knobs.sums * lanes if long else lanes))


def _written_out(sch: Schedule, loops: list[Any], most: int) -> None:
    """Unroll the innermost loops of a reduction, as long as that makes `most` copies of the body at most."""
    copies = 1
    for loop in reversed(loops):
        copies *= blocks.constant_extent(sch, loop) or most + 1
        if copies > most:
            return
        if copies > 1:
            blocks.attempt(lambda loop=loop: sch.unroll(loop))  # type: ignore[misc]


def vectorized(sch: Schedule, loop: Any, lanes: int) -> Any:
    """Split a loop into vectors; returns the loop over them, or None where it is refused."""

    def split() -> Any:
        outer, inner = sch.split(loop, [None, min(lanes, blocks.constant_extent(sch, loop) or lanes)])
        sch.vectorize(inner)
        return outer

    return blocks.attempt(split)


def parallelized(sch: Schedule, loops: list[Any], amount: int, most: int = TASKS) -> None:
    """Fuse the outermost loops of a nest, as many as make `most` tasks, and run them in parallel, if it pays.

    What need not be fused is not: the indices of a fused loop are divisions and remainders. An open extent may be 1:
    then the loops inside have to make the tasks, but for the innermost one.
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
    """Lanes of the widest element that a block touches."""
    return max(1, cpu_of(target).vector_bytes // blocks.widest(block))


def work(block: Block) -> int:
    """How many times a block runs; many, where that is symbolic."""
    total = 1
    for axis in block.iter_vars:
        total *= axis.dom.extent.value if isinstance(axis.dom.extent, IntImm) else 256
    return total
