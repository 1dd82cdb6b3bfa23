"""Sketches: tile any reduction with schedule primitives, and leave the decisions to a tuner.

    <producers>                                    # apart, or inlined
    <operand in the order of tiles>                # as a whole; or a panel, in the loop over vectors
    for <tiles>, those of `inner` innermost:       # parallel
        acc[tile] = init                           # registers
        for <sum>, `last` innermost:
            for <tile>: acc[tile] = op(acc[tile], ..)   # unrolled; vectors of `lanes` along `vector`
        result[tile] = epilogue(acc[tile])

This follows the multi-level tiling sketches of Ansor (Zheng et al., OSDI 2020). Nothing here depends on the operation:
sketches tune operators for which there is no specific rule. The cost of a tile follows from the accesses
(`sketch_costs`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

from ....errors import ScheduleError
from ....strategy.blocks import block_of, blocks_of, inline_injective, only_reduction, volume
from ....strategy.candidate import Candidate, Cost, Knob
from ....strategy.registry import rule
from ....strategy.tile_nest import LANES, REGISTERS, TileNest
from ....target import CPU, Target
from ....tir import Schedule
from ....tir.analysis.block_regions import buffers_read, buffers_written
from ....tir.nodes import Block, Buffer, BufferStore, PrimFunc
from ....tir.schedule.shared_steps import steps_of
from .conv2d import schedule_other_blocks
from .generic import BlockKnobs, stream_cost
from .panels import pack_panel, pack_whole
from .sketch_costs import Reduction, TilingCost, fitting_tiles, knob, operations, reduction_of, tiling_cost
from .sketch_forms import Form, forms, prepared
from .streams import streams
from .tasks import in_parallel
from .tiling import cpu_of

_TILES = 12  # tiles that are yielded for each form, axis of vectors and order of loops
_COPIED = 0.4  # cycles that an element takes which is packed, in order or gathered: measured on Emerald Rapids
APART, INLINED = "apart", "inlined"
WHOLE, PANEL, NOTHING = "whole", "panel", "nothing"  # what is packed at a time


def has_one_reduction(func: PrimFunc) -> bool:
    """Return whether a function has exactly one reduction block, with constant extents."""
    block = only_reduction(func)
    return block is not None and reduction_of(block) is not None


@dataclass(frozen=True, slots=True)
class Way:
    """A form of a reduction, the resulting reduction, and the additional cost of other blocks and of copying an
    operand.
    """

    form: Form
    reduction: Reduction
    rest: Cost
    copied: frozenset[str]  # the axes on which the copy depends
    burdens: Mapping[Buffer, int]  # operations by which an element of what is read is made

    def order(self, vector: str, inner: str, pack: str) -> tuple[tuple[str, ...], int]:
        """Return the order of the loops over tiles, outermost first, and how many of them are shared among the cores.

        A panel is the part of the copy that a tile needs. It is made in the loop over vectors, and used in all loops
        inside it.
        """
        names = [axis.name for axis in self.reduction.spatial if axis.name != inner]
        if pack != PANEL:
            return (*names, inner), len(names) + 1
        outside = [name for name in names if name in self.copied and name != vector]
        inside = [name for name in names if name not in self.copied]
        return (*outside, vector, *inside, inner), len(outside) + 1


@rule("cpu", has_one_reduction, for_tuning=True)
def sketch(func: PrimFunc, target: Target) -> Iterator[Candidate]:
    """Yield tiles of any shape for each form: the cheapest ones for each choice of the vector axis and loop order."""
    block, cpu = only_reduction(func), cpu_of(target)
    written = None if block is None else reduction_of(block)
    if block is None or written is None:
        return
    widest = max(1, cpu.vector_bytes // written.itemsize)
    known = {form.name: form for form in forms(func, written, widest)}

    @cache
    def way_of(form: str) -> Way | None:
        return _way(func, block.name, known[form], target)

    priced: dict[tuple[Any, ...], Cost] = {}
    costs: dict[tuple[str, ...], TilingCost] = {}

    def cost_of(
        form: str, vector: str, lanes: int, inner: str, last: str, pack: str, producers: str
    ) -> TilingCost:  # fmt: skip
        key = form, vector, str(lanes), inner, last, pack, producers
        if key not in costs:
            way = way_of(form)
            if way is None:
                raise LookupError(form)
            order, tasks = way.order(vector, inner, pack)
            again = way.burdens if producers == INLINED and not way.copied else {}
            costs[key] = tiling_cost(way.reduction, vector, lanes, order, last, cpu, tasks, again)
        return costs[key]

    def price(
        form: str, vector: str, lanes: int, inner: str, last: str, pack: str,
        unroll: int,  # noqa: ARG001 (a knob)
        producers: str, **tile: int,
    ) -> Cost:  # fmt: skip
        key = (form, vector, lanes, inner, last, pack, producers, *tile.items())
        if key not in priced:
            formulas = cost_of(form, vector, lanes, inner, last, pack, producers)
            priced[key] = Cost(*map(float, formulas.at(tile))) + beside(form, pack)
        return priced[key]

    def beside(form: str, pack: str) -> Cost:
        way = way_of(form)
        assert way is not None
        return way.rest + Cost(0.0, _written(way, cpu)) if pack == WHOLE else way.rest

    def apply(sch: Schedule, form: str, **knobs: Any) -> None:
        way = way_of(form)
        assert way is not None
        used = _tiled(sch, block.name, way, **knobs)
        schedule_other_blocks(sch, target, used)

    makers = [APART, INLINED] if makers_of(func, block) else [APART]
    for name in known:
        way = way_of(name)
        if way is None:
            continue
        for vector in way.reduction.vector_axes():
            lanes = _lanes(vector.extent, widest)
            for inner, last, pack, how in product(way.reduction.tiled, way.reduction.summed, _packing(way), makers):
                if pack == PANEL and (inner.name in way.copied or vector.name not in way.copied):
                    continue
                formulas = cost_of(name, vector.name, lanes, inner.name, last.name, pack, how)
                most = _TILES if how == APART else _TILES // 4
                fitting = fitting_tiles(way.reduction, vector.name, lanes, formulas, cpu.vector_registers, most)
                for tile, cost in fitting:
                    key = (name, vector.name, lanes, inner.name, last.name, pack, how, *tile.items())
                    priced[key] = Cost(*cost) + beside(name, pack)
                    knobs: dict[str, Knob] = {
                        "form": name, "vector": vector.name, "lanes": lanes, "inner": inner.name, "last": last.name,
                        "pack": pack, "unroll": 1, "producers": how, **tile,
                    }  # fmt: skip
                    yield Candidate(knobs=knobs, price=price, apply=apply, formulas=formulas.formulas())


def _packing(way: Way) -> tuple[str, ...]:
    return (PANEL, WHOLE) if way.copied else (NOTHING,)


def _way(func: PrimFunc, name: str, form: Form, target: Target) -> Way | None:
    """Return a form with its costs, or None if the function cannot be brought into this form."""
    sch = steps_of(func).schedule()  # forms begin alike, and candidates begin as their form does
    try:
        made = prepared(sch, name, form)
    except ScheduleError:
        return None
    block = block_of(sch, made.block)
    reduction = reduction_of(block)
    if reduction is None:
        return None
    own = [block_of(sch, one).name for one in (made.block, made.main, made.packed) if one is not None]
    rest, copied = _others(sch.func, own, target), frozenset[str]()
    if made.packed is not None:
        copy = block_of(sch, made.packed)
        buffer = buffers_written(copy)[0]
        copied = next(one.axes for one in reduction.operands if one.load.buffer is buffer)
        rest += Cost(0.0, volume(buffer.shape) * _COPIED)
    burdens = {
        buffers_written(maker)[0]: operations(maker.body.value)
        for maker in makers_of(sch.func, block)
        if isinstance(maker.body, BufferStore)
    }
    return Way(form, reduction, rest, copied, burdens)


def _written(way: Way, cpu: CPU) -> float:
    """Return the cycles for writing a whole copy to the last-level cache and reading it again."""
    copied = (one.nbytes for one in way.reduction.operands if one.axes == way.copied)
    return 2 * max(copied, default=0) / float(cpu.l3_rate)


def _others(func: PrimFunc, own: Sequence[str], target: Target) -> Cost:
    """Return the cost of all blocks except `own`, each scheduled separately. Inlined blocks cost nothing."""
    total, knobs, cpu = Cost(0.0), BlockKnobs.of(target), cpu_of(target)
    for block, stream in zip(blocks_of(func), streams(func), strict=True):
        if block.name not in own:
            total += stream_cost(stream, True, knobs, cpu)
    return total


def _lanes(columns: int, widest: int) -> int:
    """Return the number of lanes for this many columns: the widest, or fewer if those are enough."""
    while widest >= 4 and widest // 2 >= columns:
        widest //= 2
    return widest


def makers_of(func: PrimFunc, block: Block) -> list[Block]:
    """Return the blocks that compute the buffers that a block reads."""
    read = set(buffers_read(block))
    return [one for one in blocks_of(func) if one is not block and not read.isdisjoint(buffers_written(one))]


def _tiled(
    sch: Schedule, name: str, way: Way, vector: str, lanes: int, inner: str, last: str, pack: str, unroll: int,
    producers: str, **tile: int,
) -> set[str]:  # fmt: skip
    """Schedule the reduction, its producers and its consumers. Return the names of the scheduled blocks."""
    reduction = way.reduction
    if pack == PANEL and vector not in way.copied:
        raise ScheduleError(f"sketch: wanted a form whose copy depends on {vector} for panels, found {way.form.name}")
    made = prepared(sch, name, way.form)
    block, main = made.block, made.main
    if producers == INLINED:
        reader = block_of(sch, block if made.packed is None else made.packed)
        inline_injective(sch, within={maker.name for maker in makers_of(sch.func, reader)})
    nest, axes = TileNest(sch, block, main), [axis.name for axis in reduction.spatial]
    place = axes.index(vector)
    for position, axis in enumerate(reduction.spatial):
        vectors = {LANES: lanes} if position == place else {}
        nest.cut(position, registers=tile.get(knob(axis), 1), **vectors)
    names, tasks = way.order(vector, inner, pack)
    nest.order(nest.outside_first([place]), [axes.index(name) for name in names])
    own, summed = nest.axes_and_steps(nest.sum_in_tile())
    parts = sch.split(own[place], [None, lanes])
    summed = _ordered(summed, [axis.name for axis in reduction.summed], last)
    own = [*(own[axis] for axis in nest.axes[:-1]), *parts]
    if unroll > 1:
        rest, few = sch.split(summed[-1], [None, unroll])
        summed = [*summed[:-1], rest, few]
    sch.reorder(*summed, *own)
    inits = list(sch.get_loops(nest.start(summed[0])))[-len(own) :]
    if unroll > 1:
        sch.unroll(summed[-1])
    for loops in (own, [*nest.at(REGISTERS), *nest.at(LANES)], inits):
        _in_registers(sch, loops)
    if pack == PANEL:
        pack_panel(sch, made.packed, nest.grid[place], lanes, shortest=lanes)
    elif made.packed is not None:
        pack_whole(sch, made.packed, lanes, shortest=lanes)
    in_parallel(sch, nest.tiles[:tasks])
    return nest.names(*([] if made.packed is None else [made.packed]))


def _ordered(loops: Sequence[Any], names: Sequence[str], last: str) -> list[Any]:
    """Return the loops around the sum with the loop named `last` innermost."""
    if last not in names:
        raise ScheduleError(f"sketch: wanted one of {', '.join(names)} for last, found {last}")
    position = names.index(last)
    return [*loops[:position], *loops[position + 1 :], loops[position]]


def _in_registers(sch: Schedule, nest: Sequence[Any]) -> None:
    """Unroll a nest, and vectorise its innermost loop."""
    for loop in nest[:-1]:
        sch.unroll(loop)
    sch.vectorize(nest[-1])
