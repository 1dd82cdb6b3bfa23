"""Sketches: how any reduction is tiled, made from primitives, with the decisions left open for a tuner.

    <producers>                                    # apart, or inlined
    for <tiles>, those of `inner` innermost:       # parallel
        acc[tile] = init                           # registers
        for <sum>, `last` innermost:
            for <tile>: acc[tile] = op(acc[tile], ..)   # unrolled; vectors of `lanes` along `vector`
        result[tile] = epilogue(acc[tile])

After the multi-level tiling sketches of Ansor (Zheng et al., OSDI 2020). Nothing here depends on what is computed: an
operator without a rule of its own is tuned by these. What a tile costs follows from the accesses (`sketch_costs`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...errors import ScheduleError
from ...expr import REDUCE
from ...tir import Schedule
from ...tir.nodes import Block, PrimFunc
from ..blocks import block_of, blocks_of, constant_extent, inline_injective, is_reduction
from ..candidate import Candidate, Cost, Knob, Unfit
from ..epilogues import epilogue
from ..registry import rule
from .conv2d import schedule_other_blocks
from .generic import BlockKnobs, stream_cost
from .sketch_costs import Reduction, TilingCost, fitting_tiles, knob, reduction_of, tiling_cost
from .streams import streams
from .tasks import in_parallel
from .tiling import cpu_of

_TILES = 12  # tiles that are yielded for each choice of the vectors' axis and of the innermost one
APART, INLINED = "apart", "inlined"


def has_one_reduction(func: PrimFunc) -> bool:
    """Whether a function has one block that reduces, of known extents."""
    block = _reduction(func)
    return block is not None and reduction_of(block) is not None


def _reduction(func: PrimFunc) -> Block | None:
    reductions = [block for block in blocks_of(func) if is_reduction(block)]
    return reductions[0] if len(reductions) == 1 else None


@rule("cpu", has_one_reduction, for_tuning=True)
def sketch(func: PrimFunc, target: Any) -> Iterator[Candidate]:
    """Tiles of any shape. For each axis of vectors and each innermost axis of tiles the cheapest by the formulas."""
    block, cpu = _reduction(func), cpu_of(target)
    found = None if block is None else reduction_of(block)
    if found is None:
        return
    reduction: Reduction = found
    widest = max(1, cpu.vector_bytes // reduction.itemsize)
    costs: dict[tuple[str, int, str], TilingCost] = {}

    def cost_of(vector: str, lanes: int, inner: str) -> TilingCost:
        key = vector, lanes, inner
        if key not in costs:
            costs[key] = tiling_cost(reduction, vector, lanes, inner, cpu)
        return costs[key]

    rest = _others(func, reduction, target)

    def price(vector: str, lanes: int, inner: str, **others: Any) -> Cost:
        return Cost(*map(float, cost_of(vector, lanes, inner).at(others))) + rest

    def apply(sch: Schedule, **knobs: Any) -> None:
        used = _tiled(sch, reduction, **knobs)
        schedule_other_blocks(sch, target, used)

    producers = [APART, INLINED] if _producers(func, reduction) else [APART]
    for vector in reduction.vector_axes():
        lanes = _lanes(vector.extent, widest)
        for inner in reduction.tiled:
            formulas = cost_of(vector.name, lanes, inner.name)
            tiles = fitting_tiles(reduction, vector.name, lanes, formulas, cpu.vector_registers, _TILES)
            for number, tile in enumerate(tiles):
                for how in producers if number < 2 else producers[:1]:
                    for last in reduction.summed if number == 0 else reduction.summed[-1:]:
                        knobs: dict[str, Knob] = {
                            "vector": vector.name, "lanes": lanes, "inner": inner.name, "last": last.name,
                            "unroll": 1, "producers": how, **tile,
                        }  # fmt: skip
                        yield Candidate(knobs=knobs, price=price, apply=apply, formulas=formulas.formulas())


def _others(func: PrimFunc, reduction: Reduction, target: Any) -> Cost:
    """The cost of the other blocks, each by itself; what is inlined costs nothing."""
    total, knobs, cpu = Cost(0.0), BlockKnobs.of(target), cpu_of(target)
    for block, stream in zip(blocks_of(func), streams(func), strict=True):
        if block is not reduction.block:
            total += stream_cost(stream, True, knobs, cpu)
    return total


def _lanes(columns: int, widest: int) -> int:
    """The lanes of vectors for so many columns: the widest, or fewer that are enough."""
    while widest >= 4 and widest // 2 >= columns:
        widest //= 2
    return widest


def _producers(func: PrimFunc, reduction: Reduction) -> list[Block]:
    """The blocks that make what the reduction reads."""
    read = {operand.load.buffer for operand in reduction.operands}
    return [block for block in blocks_of(func) if any(region.buffer in read for region in block.writes)]


def _tiled(
    sch: Schedule, reduction: Reduction, vector: str, lanes: int, inner: str, last: str, unroll: int, producers: str,
    **tile: int,
) -> set[str]:  # fmt: skip
    """Schedule the reduction, what it reads, and what follows; returns the names of the blocks that are scheduled."""
    kinds = [axis.kind for axis in reduction.block.iter_vars]
    if kinds != sorted(kinds, key=lambda kind: kind == REDUCE):
        raise Unfit("sketch: wanted the axes of the sum behind those of the result")
    if producers == INLINED:
        inline_injective(sch, within={block.name for block in _producers(sch.func, reduction)})
    block = sch.get_block(reduction.block.name)
    main = epilogue(sch, block)
    axes, count = reduction.spatial, len(reduction.spatial)
    loops = list(sch.get_loops(main))
    if len(loops) != count:
        raise Unfit("sketch: wanted as many axes behind the sum as its result has")
    place = next(p for p, axis in enumerate(axes) if axis.name == vector)
    outer, tiles, lane = [], [], None
    for position, (axis, loop) in enumerate(zip(axes, loops, strict=True)):
        if position == place:
            over, one, lane = sch.split(loop, [None, tile.get(knob(axis), 1), lanes])
        else:
            over, one = sch.split(loop, [None, tile.get(knob(axis), 1)])
        outer.append(over)
        tiles.append(one)
    assert lane is not None
    innermost = next(p for p, axis in enumerate(axes) if axis.name == inner)
    ordered = [*outer[:innermost], *outer[innermost + 1 :], outer[innermost]]
    sch.reorder(*ordered, *tiles[:place], *tiles[place + 1 :], tiles[place], lane)
    sch.compute_at(block, ordered[-1], preserve_unit_loops=True)
    own = list(sch.get_loops(block))[count:]
    spatial, summed = own[:count], own[count:]
    vectors, own_lane = sch.split(spatial[place], [None, lanes])
    summed = _ordered(summed, [axis.name for axis in reduction.summed], last)
    others = [loop for position, loop in enumerate(spatial) if position != place]
    if unroll > 1:
        rest, few = sch.split(summed[-1], [None, unroll])
        summed = [*summed[:-1], rest, few]
    sch.reorder(*summed, *others, vectors, own_lane)
    init = sch.decompose_reduction(block, summed[0])
    inits = list(sch.get_loops(init))[count:]
    if unroll > 1:
        sch.unroll(summed[-1])
    for nest in ([*others, vectors, own_lane], [*tiles[:place], *tiles[place + 1 :], tiles[place], lane]):
        _in_registers(sch, nest)
    _vector_nest(sch, inits, lanes)
    used = {block_of(sch, part).name for part in (init, block, main)}
    in_parallel(sch, ordered)
    return used


def _ordered(loops: Sequence[Any], names: Sequence[str], last: str) -> list[Any]:
    """The loops of the sum with the one of a name innermost."""
    if last not in names:
        raise ScheduleError(f"sketch: wanted one of {', '.join(names)} for last, found {last}")
    position = names.index(last)
    return [*loops[:position], *loops[position + 1 :], loops[position]]


def _in_registers(sch: Schedule, nest: Sequence[Any]) -> None:
    """Write a nest out, its innermost loop as vectors."""
    for loop in nest[:-1]:
        sch.unroll(loop)
    sch.vectorize(nest[-1])


def _vector_nest(sch: Schedule, loops: Sequence[Any], lanes: int) -> None:
    """The nest that starts the accumulators, in the order that it has: vectors along its last loop if it is one."""
    for loop in loops[:-1]:
        sch.unroll(loop)
    if constant_extent(sch, loops[-1]) == lanes:
        sch.vectorize(loops[-1])
