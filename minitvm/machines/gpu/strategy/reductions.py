"""Schedule reductions on GPUs with a block of threads for each row, or a single thread for each row.

    for each row, on blockIdx:
        for k in shares of threadIdx.x: largest = max(largest, x[row, k])     # shuffles, or a tree in shared storage
        for k in shares of threadIdx.x: total += exp(x[row, k] - largest)
        for k in shares of threadIdx.x: result[row, k] = exp(x[row, k] - largest) / total

`rows` is for functions that normalise the rows of a tensor (softmax, layer norm). `reduction` is for functions with a
single reduction that reads each element of its largest operand once (sums, maxima, argmax, a matrix times a vector).
Many threads per row are worthwhile if rows are few or long, or if neighbouring threads read neighbouring elements. The
cost of combining the values of threads depends on the target: it is low if warps have shuffles, higher in shared
storage, and highest if that is no faster than memory. If the threads of a block run one after the other on a processor,
one thread is as good as many, and sums in vectors.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, log2
from typing import Any

from ....errors import ScheduleError
from ....expr import REDUCE
from ....strategy import blocks
from ....strategy.candidate import Candidate, Cost, Knob, Unfit
from ....strategy.registry import rule
from ....strategy.rows import normalizes_rows
from ....target import Target
from ....tir import Schedule
from ....tir.analysis.block_regions import regions_read
from ....tir.analysis.updates import recognised
from ....tir.annotations import LANES
from ....tir.nodes import BufferStore, PrimFunc
from . import held_rows
from .costs import processors_of
from .fallback import THREADS, on_the_grid, spatial_instances, threads_of_a_block, usual_threads
from .grid import fused, over_blocks, over_blocks_and_threads

_OPEN = 256  # what an open length counts as
# Cycles of a multiprocessor, fitted to softmax and layer norm of 16384 x 4096 on an H200.
_SHUFFLE, _BARRIER = 25.0, 60.0
_IN_TURN = 12.0  # steps of a loop that a barrier takes where threads run one after the other
_SLOW = 4.0  # times as much does a barrier cost where shared storage is memory
_SCATTERED = 4.0  # times as long does a load take that neighbours do not share
_ELEMENT = 4  # bytes
_FROM_MEMORY, _FROM_L2, _FROM_CACHE = 0.42, 0.12, 0.04  # an element, read and written in all, or read again
_CACHE = 144 << 10  # bytes of a multiprocessor's cache that rows find room in
_LATENCY, _LOADED, _STEP = 600.0, 200.0, 12.0  # until the first element is there, one again, and each step
_BLOCKS = 32  # that a multiprocessor keeps at most


@rule("gpu", normalizes_rows)
def rows(func: PrimFunc, target: Target) -> Iterator[Candidate]:
    """Yield candidates that compute the blocks of a row one after the other, in one block of threads.

    The knobs are the number of threads, and whether they keep the row in registers.
    """
    *_, result = blocks.blocks_of(func)
    *leading, last = blocks.extents(axis.dom.extent for axis in result.iter_vars)
    count, length = blocks.volume(leading, _OPEN), last or _OPEN
    meetings = sum(map(blocks.is_reduction, blocks.blocks_of(func)))

    lanes = max(1, int(target.vector_lanes("float32")))
    others = threads_of_a_block(count, target)

    def price(threads: int, held: bool) -> Cost:
        in_vectors = lanes if held or (threads == 1 and _in_turn(target)) else 1
        steps = sum(ceil(length / threads) / in_vectors for _ in blocks.blocks_of(func))
        passes = 1 if held else sum(1 for _ in blocks.blocks_of(func))
        return _price(count, length, steps, threads, passes, meetings, target, neighbours=threads > 1)

    def apply(sch: Schedule, threads: int, held: bool) -> None:
        blocks.inline_injective(sch)
        *before, final = (block.name for block in blocks.blocks_of(sch.func))
        leading = sch.get_loops(sch.get_block(final))[:-1]
        if threads == 1:
            _thread_a_row(sch, leading, before, others, lanes)
            return
        row = _blocks_of_threads(sch, leading)
        done: set[str] = set()
        if held:
            done = held_rows.hold(sch, row, before, final, threads, lanes)
        else:
            for name in reversed(before):
                sch.compute_at(sch.get_block(name), row, preserve_unit_loops=True)
        room = int(getattr(target, "max_shared_memory_per_block", 32 << 10)) // 4
        for name in before:
            whole = not blocks.is_reduction(blocks.block_of(sch, sch.get_block(name)))
            if whole and name in done:
                continue
            if not whole or (last or room) * blocks.widest(result) <= room:
                blocks.attempt(lambda name=name: sch.set_scope(sch.get_block(name), 0, "shared"))  # type: ignore[misc]
        for name in (*before, final):
            if name not in done:
                _shared_out(sch, name, threads, 1, lanes=lanes)

    for threads in (1, *_team_sizes(length, target)):
        for held in (False, True) if threads > 1 and _holds(last, threads, lanes, target) else (False,):
            yield Candidate(knobs={"threads": threads, "held": held}, price=price, apply=apply)


def _holds(length: int | None, threads: int, lanes: int, target: Target) -> bool:
    """Return whether the threads of a block may keep a row in registers: they run at the same time, and the row
    fits.
    """
    return target.local_memory_helps and not _in_turn(target) and held_rows.fits(length, threads, lanes)


def _thread_a_row(sch: Schedule, leading: list[Any], before: list[str], threads: int, lanes: int) -> None:
    """Compute each row by one thread, keeping values with one element per row in its registers."""
    row = over_blocks_and_threads(sch, leading, threads)
    for name in reversed(before):
        sch.compute_at(sch.get_block(name), row, preserve_unit_loops=True)
    for name in before:
        block = blocks.block_of(sch, sch.get_block(name))
        if not blocks.is_reduction(block):
            continue
        blocks.attempt(lambda name=name: sch.set_scope(sch.get_block(name), 0, "local"))  # type: ignore[misc]
        if lanes > 1 and blocks.reduces_along_last(block):
            inner = sch.get_loops(sch.get_block(name))[-1]
            blocks.attempt(lambda inner=inner: sch.annotate(inner, LANES, lanes))  # type: ignore[misc]


def reads_once(func: PrimFunc) -> bool:
    """Return whether a function has one reduction, which reads each element of its largest operand at most once."""
    block = blocks.only_reduction(func)
    if block is None or not regions_read(block):
        return False
    others = [b for b in blocks.blocks_of(func) if b is not block]
    if any(not isinstance(b.body, BufferStore) for b in others):
        return False
    steps = spatial_instances(block) * blocks.volume(blocks.reduced(block), _OPEN)
    return steps <= max(blocks.volume(r.buffer.shape, _OPEN) for r in regions_read(block))


@rule("gpu", reads_once)
def reduction(func: PrimFunc, target: Target) -> Iterator[Candidate]:
    """Yield candidates with a block of threads per result, and one with a single thread per result. The knob is the
    number of threads.
    """
    block = blocks.only_reduction(func)
    if block is None:
        return
    length, count = blocks.volume(blocks.reduced(block), _OPEN), spatial_instances(block)
    read = recognised(block)
    if isinstance(read, str):
        raise Unfit(f"reduction: {read}")
    ordered, along_last = not read[1].reducer.commutative, blocks.reduces_along_last(block)
    lanes = max(1, int(target.vector_lanes("float32")))
    others = usual_threads(func, target)

    def price(threads: int) -> Cost:
        alone_in_vectors = threads == 1 and _in_turn(target) and along_last
        steps = ceil(length / threads) / (lanes if alone_in_vectors else 1)
        near = along_last and not ordered if threads > 1 else not along_last
        return _price(count, length, steps, threads, 1, 1, target, neighbours=near)

    def apply(sch: Schedule, threads: int) -> None:
        blocks.inline_injective(sch)
        name = block.name
        if threads > 1:
            _team_a_result(sch, name, threads, ordered)
        for other in [b.name for b in blocks.blocks_of(sch.func)]:
            if threads == 1 or other not in _done(sch):
                blocks.attempt(lambda other=other: on_the_grid(sch, other, others, lanes))  # type: ignore[misc]

    for threads in (1, *_team_sizes(length, target)):
        knobs: dict[str, Knob] = {"threads": threads}
        yield Candidate(knobs=knobs, price=price, apply=apply)


def _done(sch: Schedule) -> set[str]:
    """Return the names of the blocks whose loops are already bound."""
    names = [b.name for b in blocks.blocks_of(sch.func)]
    return {n for n in names if any(getattr(sch.get(l), "thread", None) for l in sch.get_loops(sch.get_block(n)))}


def _team_a_result(sch: Schedule, name: str, threads: int, ordered: bool) -> None:
    """Use a block of threads for each result of a reduction."""
    handle = sch.get_block(name)
    block = blocks.block_of(sch, handle)
    loops = list(sch.get_loops(handle))
    kinds = [axis.kind for axis in block.iter_vars]
    if len(kinds) != len(loops):
        raise Unfit("reduction: wanted a loop for each iterator")
    spatial = [loop for loop, kind in zip(loops, kinds, strict=True) if kind != REDUCE]
    over = [loop for loop, kind in zip(loops, kinds, strict=True) if kind == REDUCE]
    if loops != [*spatial, *over]:
        sch.reorder(*spatial, *over)
    _blocks_of_threads(sch, spatial or [sch.add_unit_loop(loops[0])])
    _shared_out(sch, name, threads, 1, ordered)


def _blocks_of_threads(sch: Schedule, loops: list[Any]) -> Any:
    """Bind some loops to blocks of threads. Return the innermost of the resulting loops."""
    if not loops:
        raise ScheduleError("wanted a loop over rows")
    return over_blocks(sch, loops)


def _shared_out(sch: Schedule, name: str, threads: int, outside: int, ordered: bool = False, lanes: int = 1) -> None:
    """Share out the work of a block inside of a row among threads, by neighbouring elements or (`ordered`) in
    stretches.

    A thread computes `lanes` neighbours at once if the block is not a reduction and they are contiguous.
    """
    inner = list(sch.get_loops(sch.get_block(name)))[outside:]
    inner = [loop for loop in inner if getattr(sch.get(loop), "thread", None) is None]
    if not inner:
        return
    block = blocks.block_of(sch, sch.get_block(name))
    if lanes > 1 and not blocks.is_reduction(block) and blocks.contiguous_along_last(block):
        extent = blocks.constant_extent(sch, inner[-1])
        if extent is not None and extent % lanes == 0 and extent >= lanes * threads:
            over, vector = sch.split(inner[-1], [None, lanes])
            sch.vectorize(vector)
            inner = [*inner[:-1], over]
    whole = fused(sch, inner)
    own, team = sch.split(whole, [None, threads]) if not ordered else reversed(sch.split(whole, [threads, None]))
    del own
    sch.bind(team, "threadIdx.x")


def _team_sizes(length: int, target: Target) -> list[int]:
    """Return the numbers of threads that may share a row."""
    limit = min(int(getattr(target, "max_threads_per_block", 256)), 1024)
    least = max(2, int(getattr(target, "warp_size", 1)))
    sizes = [n for n in (2**k for k in range(1, 11)) if least <= n <= limit and n <= max(least, length)]
    return sizes or [least]


def _in_turn(target: Target) -> bool:
    """Return whether the threads of a block run one after the other, on a processor with vectors."""
    return int(getattr(target, "warp_size", 32)) <= 1 and not target.local_memory_helps


def _price(
    count: int, length: int, steps: float, threads: int, passes: int, meetings: int, target: Target, neighbours: bool
) -> Cost:  # fmt: skip
    """Return the cycles of `count` rows of `length` elements, each computed by `threads` threads.

    Each thread does `steps` steps and combines values with the others `meetings` times. A row is read `passes` times:
    once from memory, and then from the multiprocessor's cache if the rows in progress fit in it, or else from L2.
    Threads with few steps wait for their loads and for each other; other rows on the same multiprocessor hide this.
    """
    levels = ceil(log2(threads)) if threads > 1 else 0
    warp = int(getattr(target, "warp_size", 32))
    slower = 1.0 if target.local_memory_helps else _SLOW
    if _in_turn(target):  # each thread of the block comes to each barrier
        return Cost(count * threads * (steps + meetings * _IN_TURN * slower * (levels + 1 if levels else 0)))
    if getattr(target, "has_shuffles", False):
        meeting = _SHUFFLE * levels + (_BARRIER if threads > warp else 0.0)
    else:
        meeting = _BARRIER * slower * (levels + 1 if levels else 0)
    rows = THREADS if threads == 1 else 1  # of a block
    processors = processors_of(target)
    resident = max(1, min(_BLOCKS, int(target.threads_per_multiprocessor) // (threads * rows))) * rows
    beside = max(1, min(resident, ceil(count / processors)))
    again = _FROM_CACHE if beside * length * _ELEMENT <= _CACHE else _FROM_L2
    spread = 1.0 if neighbours or warp <= 1 else _SCATTERED
    moved = length * spread * (_FROM_MEMORY + (passes - 1) * again)
    waiting = _LATENCY + passes * _LOADED + steps * _STEP * spread + meetings * meeting
    waves = ceil(count / (processors * resident))
    return Cost(waves * (beside * moved + waiting) + threads / 1e3)
