"""Schedule any function without a specific rule: one thread for each result. Always legal.

Element-wise blocks are inlined. The spatial loops of each other block are fused and distributed over blocks of threads,
in vectors if neighbouring results are contiguous. Each thread runs the whole reduction of its result. Blocks that
contain loops, such as scans and sorts, keep their parallel loops, which all threads share, or run on one thread.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from math import log2, prod

from ....expr import REDUCE
from ....strategy import blocks
from ....strategy.blocks import reduced
from ....strategy.candidate import Candidate, Cost
from ....strategy.registry import rule
from ....target import Target
from ....tir import Schedule
from ....tir.analysis.block_regions import buffers_read, buffers_written
from ....tir.annotations import LANES
from ....tir.nodes import Block, BufferStore, PrimFunc
from .costs import element_wise_cost, processors_of
from .grid import over_blocks_and_threads

THREADS = 64  # of a block: two warps, a wavefront, or what a Mali core likes
_WIDE = 256  # of a block where there are very many: each block costs about 130 cycles of a multiprocessor
_MANY = 32 << 10  # results for each multiprocessor
_BLOCKS = 64  # that are enough for a device whose cores run the threads of a block one after the other
_LONGEST = 1024
_OPEN = 256  # of an extent that is not known
_UNLIKED = 100.0  # cycles more for each factor of two by which a block has other than the best number of threads


def anything(func: PrimFunc) -> bool:  # noqa: ARG001 (a rule's condition)
    """Return True: this rule fits every function."""
    return True


@rule("gpu", anything, fallback=True)
def fallback(func: PrimFunc, target: Target) -> Iterator[Candidate]:
    """Yield candidates that inline cheap blocks and then use one thread for each result."""
    lanes = int(target.vector_lanes("float32"))
    limit = int(getattr(target, "max_threads_per_block", 256))
    instances = sum(spatial_instances(block) for block in blocks.blocks_of(func))
    liked = threads_of_a_block(instances, target)

    def price(inline: bool, threads: int) -> Cost:
        """Return the cycles of a multiprocessor. Inlined values are not moved; fewer threads hide less latency, and
        more leave some idle.
        """
        kept = [block for block in blocks.blocks_of(func) if not (inline and blocks.inlinable(func, block))]
        steps = {block: blocks.volume(reduced(block), _OPEN) for block in kept}
        words = sum(
            spatial_instances(block) * (len(buffers_read(block)) + len(buffers_written(block))) for block in kept
        )
        operations = sum(spatial_instances(block) * steps[block] for block in kept)
        cost = element_wise_cost(words, operations, max(steps.values(), default=0), target)
        return cost + Cost(_UNLIKED * abs(log2(threads / liked)))

    def apply(sch: Schedule, inline: bool, threads: int) -> None:
        if inline:
            blocks.inline_injective(sch)
        others_on_the_grid(sch, set(), threads, lanes)

    for threads in sorted({min(n, limit) for n in (liked // 2, liked, 2 * liked, 4 * liked)}):
        yield Candidate(knobs={"inline": True, "threads": threads}, price=price, apply=apply)
    yield Candidate(knobs={"inline": False, "threads": liked}, price=price, apply=apply)


def threads_of_a_block(instances: int, target: Target) -> int:
    """Return how many threads a block should have if there are `instances` threads in total."""
    limit = int(getattr(target, "max_threads_per_block", 256))
    if int(getattr(target, "warp_size", 32)) > 1:
        many = target.local_memory_helps and instances >= _MANY * max(1, processors_of(target))
        return min(_WIDE if many else THREADS, limit)
    wanted = 2 ** int(log2(max(1, instances // _BLOCKS)))  # each block costs about as much as some hundred threads
    return min(max(THREADS, wanted), _LONGEST, limit)


def usual_threads(func: PrimFunc, target: Target) -> int:
    """Return how many threads a block should have in kernels with one thread per result, judged by a function's largest
    block.
    """
    return threads_of_a_block(max(map(spatial_instances, blocks.blocks_of(func))), target)


def spatial_instances(block: Block) -> int:
    """Return the number of results of a block."""
    return prod([blocks.volume([axis.dom.extent], _OPEN) for axis in block.iter_vars if axis.kind != REDUCE] or [1])


def others_on_the_grid(sch: Schedule, used: Collection[str], threads: int, lanes: int = 1) -> None:
    """Schedule each block that is not in `used` with `on_the_grid`, unless that is refused."""
    for name in [block.name for block in blocks.blocks_of(sch.func)]:
        if name not in used:
            blocks.attempt(lambda name=name: on_the_grid(sch, name, threads, lanes))  # type: ignore[misc]


def on_the_grid(sch: Schedule, name: str, threads: int, lanes: int = 1) -> None:
    """Fuse the spatial loops of a block and distribute them over blocks of threads. Sums of neighbours use `lanes`
    parts.
    """
    handle = sch.get_block(name)
    block = next(b for b in blocks.blocks_of(sch.func) if b.name == name)
    loops = list(sch.get_loops(handle))
    kinds = [axis.kind for axis in block.iter_vars]
    if len(kinds) != len(loops):
        return
    spatial = [loop for loop, kind in zip(loops, kinds, strict=True) if kind != REDUCE]
    reduced = [loop for loop, kind in zip(loops, kinds, strict=True) if kind == REDUCE]
    if not spatial:
        spatial = [sch.add_unit_loop(loops[0] if loops else handle)]
    if reduced and loops != [*spatial, *reduced]:
        sch.reorder(*spatial, *reduced)
    element_wise = isinstance(block.body, BufferStore) and kinds and not reduced
    if lanes > 1 and element_wise and blocks.contiguous_along_last(block):
        extent = blocks.constant_extent(sch, spatial[-1])
        if extent is not None and extent % lanes == 0:
            last, vector = sch.split(spatial[-1], [None, lanes])
            sch.vectorize(vector)
            spatial = [*spatial[:-1], last]
    if lanes > 1 and reduced and blocks.reduces_along_last(block):
        blocks.attempt(lambda: sch.annotate(reduced[-1], LANES, lanes))
    over_blocks_and_threads(sch, spatial, threads)
