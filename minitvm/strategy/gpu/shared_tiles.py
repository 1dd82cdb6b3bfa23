"""Contractions whose blocks of threads fetch together what all of them read, into storage that they share.

    for each tile of the result, on blockIdx:
        acc[rows, vectors] = 0                          # registers
        for ko:                                         # a piece of the sum
            A_shared[k, m], B_shared[k, n] = ...        # each thread fetches a part of both, vectors where they lie so
            wait
            for k: acc[r, v] += A_shared[k, r] * B_shared[k, v]
            wait
        out[rows, vectors] = epilogue(acc)

The sum is the outer axis of both tiles: rows of a thread are neighbours, which is one load, and so are the vectors of
neighbouring threads, which is no bank conflict. Vectors of one thread lie a row of threads apart, as virtual threads.
An operand that is contiguous along the sum is turned around on the way: its lines are then four elements longer, so
that neighbouring threads do not store to one bank. (The tiles of Volkov and Demmel, SC'08, as in CUTLASS and TVM.)

Extents that tiles do not divide are padded: the operands where they are fetched, with zeros, the result in registers.

Which elements a block needs follows from how an operand is indexed: of a convolution the tile of its input is the
matrix of implicit GEMM, and padding in front of it is computed where the tile is fetched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import prod
from typing import Any

from ...errors import ScheduleError
from ...expr import REDUCE, Call, Select, Var, walk
from ...tir import IndexMap, Schedule
from ...tir.nodes import BufferLoad, BufferStore
from ..blocks import block_of, constant_extent, extents, inlinable, largest_divisor
from ..roles import Roles, depends, operands, step_along
from .costs import APART, BANKS, BlockTile, ThreadTile
from .grid import fused, over_blocks


def schedule_shared(
    sch: Schedule, way: Roles, block: Any, main: Any, further: int | None, tile: ThreadTile, threads: BlockTile
) -> set[str]:  # fmt: skip
    """Schedule the sum `block` and what follows it, `main`; returns the names of the blocks that it scheduled."""
    wide = way.column if further is None or way.product.n > tile.lanes else further
    factors = _factors(way, further, wide, tile, threads)
    loads = _loads(way)
    copies = [_copied(sch, way, block, load, further) for load in loads]
    _pad(sch, block, main, copies, factors, threads.depth)
    loops = list(sch.get_loops(main))
    halves = {position: sch.split(loops[position], [None, *parts]) for position, parts in factors.items()}
    outer = [loop for position, loop in enumerate(loops) if position not in halves]
    outer += [parts[0] for parts in halves.values()]
    apart, spread, written = [], [], []
    for position, (_, *parts) in halves.items():
        if position != further:
            written.append(parts.pop())
        if position in (way.row, wide):
            spread.append(parts.pop())
        apart += parts
    sch.reorder(*outer, *apart, *spread, *written)
    thread = fused(sch, spread)
    over_blocks(sch, outer)
    for loop in apart:
        sch.bind(loop, "vthread")
    sch.bind(thread, "threadIdx.x")
    sch.compute_at(block, thread, preserve_unit_loops=True)
    around = list(sch.get_loops(block)).index(thread) + 1
    own = list(sch.get_loops(block))[around:]
    axes, reduction = own[: len(loops)], own[len(loops) :]
    pieces, inner = _pieces(sch, reduction, threads.depth)
    ordered = [*(axes[p] for p in range(len(axes)) if p not in halves), *(axes[p] for p in halves)]
    sch.reorder(*pieces, *inner, *ordered)
    piece = fused(sch, pieces)
    for copy in copies:
        sch.compute_at(copy, piece, preserve_unit_loops=True)
    for copy, load in zip(copies, loads, strict=True):
        _fetch(sch, copy, load, tile, threads.threads)
    init = sch.decompose_reduction(block, piece)
    for nest in (ordered, list(sch.get_loops(init))[around:], written):
        for loop in nest[:-1]:
            sch.unroll(loop)
        if tile.lanes > 1:
            sch.vectorize(nest[-1])
        else:
            sch.unroll(nest[-1])
    for copy in copies if threads.double else ():
        sch.annotate(copy, "double_buffer_scope", 0)
    return {block_of(sch, part).name for part in (init, block, main, *copies)}


def _factors(way: Roles, further: int | None, wide: int, tile: ThreadTile, threads: BlockTile) -> dict[int, list[int]]:
    """How each tiled axis is split: over virtual threads, over threads, and what a thread computes of it."""
    factors: dict[int, list[int]] = {}
    if way.row is not None:
        factors[way.row] = [threads.row_threads, tile.rows]
    if further is not None:
        factors[further] = [*_some(tile.blocks), *([threads.column_threads] if further == wide else [])]
    spread = [threads.column_threads] if wide == way.column else []
    factors[way.column] = [*_some(tile.vectors), *spread, tile.lanes]
    return factors


def _some(factor: int) -> list[int]:
    return [factor] if factor > 1 else []


def _loads(way: Roles) -> tuple[BufferLoad, BufferLoad]:
    """The operand of the rows, and that of the vectors."""
    loads = operands(way.block)
    assert loads is not None
    one, other = loads
    return (one, other) if other is way.vectors else (other, one)


# -- the tiles


def _copied(sch: Schedule, way: Roles, block: Any, load: BufferLoad, further: int | None) -> Any:
    """A copy of an operand in the order of its tile: what is outside, the axes of the sum, those of the tile."""
    now = block_of(sch, block)
    read = next(p for p, region in enumerate(now.reads) if region.buffer.name == load.buffer.name)
    operand = next(l for l in operands(now) or () if l.buffer is now.reads[read].buffer)
    used = [p for p, axis in enumerate(now.iter_vars) if depends(operand, axis.var)]
    last = way.column if load is way.vectors else way.row
    summed = [p for p in used if now.iter_vars[p].kind == REDUCE]
    tiled = [p for p in (further, last) if p in used]
    order = [*(p for p in used if p not in summed and p not in tiled), *summed, *tiled]
    as_tile = IndexMap.from_func(lambda *i: tuple(i[p] for p in order), ndim=len(now.iter_vars))
    return sch.reindex_cache_read(block, read, "shared", as_tile)


def _pad(sch: Schedule, block: Any, main: Any, copies: list[Any], factors: Mapping[int, list[int]], depth: int) -> None:
    """Pad the sum where tiles do not divide it; the copies become those that are padded."""
    now = block_of(sch, block)
    sizes = extents(axis.dom.extent for axis in now.iter_vars)
    spatial = [p for p, axis in enumerate(now.iter_vars) if axis.kind != REDUCE]
    multiples = [prod(factors.get(p, [1])) for p in spatial]
    multiples += _steps(sizes[len(spatial) :], depth)
    if all(size is not None and size % some == 0 for size, some in zip(sizes, multiples, strict=True)):
        return
    sch.pad_einsum(block, multiples)
    for number, copy in enumerate(copies):
        (reader,) = sch.get_consumers(copy)
        if block_of(sch, reader).name != block_of(sch, block).name:
            sch.compute_inline(copy)
            sch.set_scope(reader, 0, "shared")
            copies[number] = reader
    (reader,) = sch.get_consumers(block)
    if block_of(sch, reader).name != block_of(sch, main).name:
        sch.compute_inline(reader)
        sch.set_scope(block, 0, "local")


def _steps(sizes: Sequence[int | None], depth: int) -> list[int]:
    """How many steps of each loop of the sum, outer ones first, are in a piece of `depth` steps.

    They divide the loop, unless its divisors are much smaller.
    """
    steps: list[int] = []
    is_open = False
    for size in reversed(sizes):
        even = largest_divisor(size, depth)
        some = 1 if is_open else depth if size is None or 2 * even < depth < size else even
        is_open = is_open or size != some
        steps.insert(0, some)
        depth //= some
    return steps


def _pieces(sch: Schedule, reduction: Sequence[Any], depth: int) -> tuple[list[Any], list[Any]]:
    """The loops of the sum over pieces, and those over a piece, outer ones first."""
    steps = _steps([constant_extent(sch, loop) for loop in reduction], depth)
    halves = [sch.split(loop, [None, some]) for loop, some in zip(reduction, steps, strict=True)]
    return [over for over, _ in halves], [part for _, part in halves]


def _fetch(sch: Schedule, copy: Any, load: BufferLoad, tile: ThreadTile, threads: int) -> None:
    """Share out among all threads of the block what a piece needs of an operand."""
    made = block_of(sch, copy)
    assert isinstance(made.body, BufferStore)
    source = next(n for n in walk(made.body.value) if isinstance(n, BufferLoad) and n.buffer.name == load.buffer.name)
    iterators = [axis.var for axis in made.iter_vars]
    places = [
        iterators.index(index) for index in made.body.indices if isinstance(index, Var)
    ]  # as they lie in shared storage
    along = next((p for p in reversed(places) if step_along(source, iterators[p]) == 1), places[-1])
    own = list(sch.get_loops(copy))[-len(iterators) :]
    ordered = [own[p] for p in [*(p for p in places if p != along), along]]
    turned = along != places[-1]
    if turned and len(places) > 1 and tile.rows % APART == 0:
        sch.storage_align(copy, 0, len(places) - 2, BANKS, APART)
    is_whole = not any(isinstance(n, Select | Call) for n in walk(made.body.value))
    vector = _vector(sch, own[along], source, tile.lanes) if is_whole and not turned else 1
    sch.reorder(*ordered)
    whole = fused(sch, ordered)
    if _inline_producers(sch, copy):
        vector = 1
    _, thread, *lanes = sch.split(whole, [None, threads, *_some(vector)])
    sch.bind(thread, "threadIdx.x")
    for lane in lanes:
        sch.vectorize(lane)


def _vector(sch: Schedule, loop: Any, source: BufferLoad, lanes: int) -> int:
    """How many neighbours are fetched at once: those that surely lie at a multiple of their size."""
    extent, row = constant_extent(sch, loop), extents(source.buffer.shape)[-1]
    while lanes > 1 and (extent is None or row is None or extent % lanes or row % lanes):
        lanes //= 2
    return lanes


def _inline_producers(sch: Schedule, copy: Any) -> bool:
    """Compute what fills an operand where it is fetched, padding say; whether there was any."""
    inlined = False
    for producer in sch.get_producers(copy):
        if inlinable(sch.func, block_of(sch, producer)):
            with suppress(ScheduleError):
                sch.compute_inline(producer)
                inlined = True
    return inlined
