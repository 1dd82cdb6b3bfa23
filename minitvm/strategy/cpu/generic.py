"""The schedule of everything that has none of its own: parallel outer loops, vectors inside, legal for any function.

Each block is scheduled by itself: its spatial loops are fused up to the innermost one, which becomes vectors; what is
left outside runs in parallel when there is enough of it. A reduction runs inside the parallel loop; where its input is
contiguous along a spatial axis that axis becomes the vectors, otherwise the reduction is asked for lanes of its own.
Every step that the schedule refuses is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...errors import ScheduleError
from ...expr import REDUCE, IntImm, walk
from ...tir import Schedule
from ...tir.annotations import LANES
from ...tir.nodes import Block, BufferLoad, BufferStore, PrimFunc
from ...tir.transform.affine import coefficient, linear, moves
from ..registry import rule
from .blocks import blocks_of, inline_injective, is_reduction
from .tiling import cpu_of
from .turned import turned_copy

TASKS = 32  # iterations of a parallel loop that are enough to balance a team of threads
PARALLEL_WORK = 1 << 14  # elements read or written, below which waking another thread costs more than it saves


def anything(func: PrimFunc) -> bool:
    """Every function."""
    return True


@rule("cpu", anything, fallback=True)
def generic(sch: Schedule, target: Any) -> None:
    """Inline what is cheap, then schedule block by block."""
    inline_injective(sch)
    for name in [b.name for b in blocks_of(sch.func)]:
        attempt(lambda name=name: schedule_block(sch, name, target))  # type: ignore[misc]


def attempt(step: Callable[[], Any]) -> Any:
    """A step, or None where the schedule refuses it."""
    try:
        return step()
    except ScheduleError:
        return None


def schedule_block(sch: Schedule, name: str, target: Any) -> None:
    """Parallel and vector loops for one block."""
    outside = turned_copy(sch, name, target)
    if outside is not None:
        parallelized(sch, outside, work(next(b for b in blocks_of(sch.func) if b.name == name)))
        return
    handle = sch.get_block(name)
    block = next(b for b in blocks_of(sch.func) if b.name == name)
    loops = list(sch.get_loops(handle))
    kinds = [axis.kind for axis in block.iter_vars]
    if len(kinds) != len(loops):
        return
    spatial = [loop for loop, kind in zip(loops, kinds) if kind != REDUCE]
    reduced = [loop for loop, kind in zip(loops, kinds) if kind == REDUCE]
    if not spatial:
        return
    lanes = vector_lanes(block, target)
    extent = constant_extent(sch, spatial[-1])
    vectors = lanes > 1 and extent is not None and extent >= min(lanes, 4) and isinstance(block.body, BufferStore)
    if not is_reduction(block):
        inner = vectorized(sch, spatial[-1], lanes) if vectors else None
        outer = spatial[:-1] if inner is not None else spatial
        rest = [inner] if inner is not None else []
        parallelized(sch, [*outer, *rest], work(block))
        return
    if vectors and contiguous_along_last(block):
        tile, lane = sch.split(spatial[-1], [None, min(lanes, extent or lanes)])
        sch.reorder(*spatial[:-1], tile, *reduced, lane)
        attempt(lambda: sch.vectorize(lane))
        parallelized(sch, [*spatial[:-1], tile], work(block))
        return
    length = constant_extent(sch, reduced[-1])
    if length is not None and length >= 2 * lanes > 2 and reduces_along_last(block):
        attempt(lambda: sch.annotate(reduced[-1], LANES, 4 * lanes if length >= 16 * lanes else lanes))
    parallelized(sch, spatial, work(block))


def vectorized(sch: Schedule, loop: Any, lanes: int) -> Any:
    """Split a loop into vectors; returns the loop over them, or None where it is refused."""

    def split() -> Any:
        extent = constant_extent(sch, loop) or lanes
        outer, inner = sch.split(loop, [None, min(lanes, extent)])
        sch.vectorize(inner)
        return outer

    return attempt(split)


def parallelized(sch: Schedule, loops: list[Any], amount: int) -> None:
    """Fuse the outermost loops of a nest, as many as make enough tasks, and run them in parallel, if it pays.

    What need not be fused is not: the indices of a fused loop are divisions and remainders.
    """
    if amount < PARALLEL_WORK or not loops:
        return
    tasks, count = 1, 0
    for loop in loops:
        count += 1
        tasks *= constant_extent(sch, loop) or TASKS
        if tasks >= TASKS:
            break
    fused = attempt(lambda: sch.fuse(*loops[:count])) if count > 1 else loops[0]
    chosen = loops[0] if fused is None else fused
    attempt(lambda: sch.parallel(chosen))


def vector_lanes(block: Block, target: Any) -> int:
    """Lanes of the widest element that a block touches."""
    dtypes = [r.buffer.dtype for r in (*block.reads, *block.writes)]
    widest = max((d.bytes for d in dtypes), default=4)
    return max(1, cpu_of(target).vector_bytes // widest)


def constant_extent(sch: Schedule, loop: Any) -> int | None:
    """A loop's number of iterations, or None when it is symbolic."""
    extent = getattr(sch.get(loop), "extent", None)
    return extent.value if isinstance(extent, IntImm) else None


def work(block: Block) -> int:
    """How many times a block runs; many, where that is symbolic."""
    total = 1
    for axis in block.iter_vars:
        total *= axis.dom.extent.value if isinstance(axis.dom.extent, IntImm) else 256
    return total


def contiguous_along_last(block: Block) -> bool:
    """Whether the last spatial iterator is the last index of what is written and of all that it indexes."""
    last = [axis.var for axis in block.iter_vars if axis.kind != REDUCE][-1]
    return all(_last_index_only(n, last) for n in walk(block.body) if isinstance(n, BufferLoad | BufferStore))


def reduces_along_last(block: Block) -> bool:
    """Whether the last reduction iterator is contiguous in all that it indexes."""
    last = [axis.var for axis in block.iter_vars if axis.kind == REDUCE][-1]
    return all(_last_index_only(n, last) for n in walk(block.body) if isinstance(n, BufferLoad))


def _last_index_only(access: BufferLoad | BufferStore, var: Any) -> bool:
    *others, last = access.indices or (None,)
    if any(n is var for i in others for n in walk(i)):
        return False
    if last is None or not any(n is var for n in walk(last)):
        return True
    form = linear(last)
    return coefficient(form, var) == 1 and not moves(form.without(var), [var])
