"""The forms of a sketch: how a reduction is rewritten before it is tiled.

    plain     as it is written
    joined    neighbouring axes of the result that are one axis in all accesses become one axis
    packed    the operand that vectors read is copied in the order in which tiles read it, with axes joined if possible
    split     partial results for the lanes of a vector, and then their sum, if terms are contiguous and results are not
    phased    a sum over data with zeros between their elements is computed phase by phase (`result_phases`); the
              remaining sum has each of the forms above

`packed` turns a convolution into a matrix product (im2col), or transposes weights; `split` is for few results of long
sums. The accesses decide which forms a reduction has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from ....errors import ScheduleError
from ....expr import REDUCE, find
from ....strategy.blocks import block_named, block_of, constant_extent
from ....strategy.candidate import Unfit
from ....strategy.epilogues import epilogue, rearranged
from ....strategy.roles import Access, Axis, axes_of, depends, join_axes, joined
from ....tir import IndexMap, Schedule
from ....tir.analysis.block_regions import buffers_read, regions_read
from ....tir.nodes import Block, BufferLoad, BufferStore, PrimFunc
from ....tir.schedule.shared_steps import steps_of
from .result_phases import ResultPhases, in_phases, result_phases
from .sketch_costs import CONTIGUOUS, SAME, AccessedOperand, Reduction, reduction_of

PLAIN, JOINED, PACKED, SPLIT, PHASED = "plain", "joined", "packed", "split", "phased"
# The least number of results that must share an element to make copying worthwhile: if the copy has another order, and
# if it only moves rows closer together.
_FEW, _MANY = 4, 64


@dataclass(frozen=True, slots=True)
class Form:
    """A form: its name, the axes of the result after joining, the copied operand, and the axis of the sum that is
    split.

    The axis is split into this many lanes. With `phases`, the other fields describe the sum that is computed phase by
    phase.
    """

    name: str
    axes: tuple[Axis, ...]
    read: int | None = None
    split: str = ""
    lanes: int = 0
    phases: ResultPhases | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """Blocks of a schedule: the reduction, the block that writes its result, and the copy of an operand."""

    block: Any
    main: Any
    packed: Any = None


def forms(func: PrimFunc, reduction: Reduction, lanes: int) -> Iterator[Form]:
    """Yield the forms of a reduction on vectors of this many lanes, the plain form first.

    If it has phases, only forms of the phases are yielded, because the others would multiply zeros.
    """
    phases = result_phases(func, reduction.block)
    if phases is None:
        yield from _forms(func, reduction, lanes)
        return
    yield _plain(reduction)
    sch = steps_of(func).schedule()
    try:
        in_phases(sch, reduction.block.name, phases)
    except ScheduleError:
        return
    phased = reduction_of(block_named(sch.func, reduction.block.name))
    if phased is not None:
        for form in _forms(sch.func, phased, lanes):
            yield replace(form, name=f"{PHASED} {form.name}", phases=phases)


def _plain(reduction: Reduction) -> Form:
    return Form(PLAIN, tuple((p,) for p in range(len(reduction.spatial))))


def _forms(func: PrimFunc, reduction: Reduction, lanes: int) -> Iterator[Form]:
    block, store = reduction.block, reduction.block.body
    assert isinstance(store, BufferStore)
    behind = rearranged(func, block)
    kept = None if behind is None else behind.kept
    count = len(reduction.spatial)

    def joined(accesses: list[Access]) -> tuple[Axis, ...]:
        return axes_of(block, accesses, kept)

    yield _plain(reduction)
    loads: list[Access] = [operand.load for operand in reduction.operands]
    axes = joined([store, *loads])
    if len(axes) < count:
        yield Form(JOINED, axes)
    for operand in reduction.operands:
        others = [load for load in loads if load is not operand.load]
        axes = joined([store, *others])
        read = _read(block, operand.load)
        if read is not None and others and _is_worth_packing(reduction, operand, axes):
            yield Form(f"{PACKED} {operand.load.buffer.name}", axes, read)
    for axis in reduction.summed:
        kinds = {operand.along(axis) for operand in reduction.operands}
        if CONTIGUOUS in kinds and kinds <= {CONTIGUOUS, SAME} and axis.extent >= 2 * lanes > 2:
            yield Form(SPLIT, tuple((p,) for p in range(count + 1)), None, axis.name, lanes)


def _read(block: Block, load: BufferLoad) -> int | None:
    found = [p for p, region in enumerate(regions_read(block)) if region.buffer is load.buffer]
    return found[0] if len(found) == 1 else None


def _is_worth_packing(reduction: Reduction, operand: AccessedOperand, axes: tuple[Axis, ...]) -> bool:
    """Return whether an operand is read along the vectors and shared by enough results."""
    last = [reduction.spatial[p] for p in axes[-1]]
    shared = 1
    for axis in reduction.spatial:
        shared *= 1 if axis.name in operand.axes else axis.extent
    in_order = operand.along(last[-1]) == CONTIGUOUS and len(last) == 1
    return operand.along(last[-1]) != SAME and shared >= (_MANY if in_order else _FEW)


def prepared(sch: Schedule, name: str, form: Form) -> Prepared:
    """Rewrite the reduction with this name in a form. The element-wise blocks after it become one block with its
    result.

    Raises `ScheduleError` if that is impossible, and `Unfit` for a block whose axes are in another order.
    """
    if form.phases is not None:
        in_phases(sch, name, form.phases)
    block = sch.get_block(name)
    kinds = [axis.kind for axis in block_of(sch, block).iter_vars]
    if kinds != sorted(kinds, key=lambda kind: kind == REDUCE):
        raise Unfit("sketch: wanted the axes of the sum behind those of the result")
    if form.split:
        block = _split(sch, block, form)
    main = epilogue(sch, block)
    if len(sch.get_loops(main)) != sum(map(len, form.axes)):
        raise Unfit("sketch: wanted as many axes behind the sum as its result has")
    packed = None if form.read is None else _packed(sch, block, form, form.read)
    if any(len(axis) > 1 for axis in form.axes):
        join_axes(sch, block, main, form.axes)
    return Prepared(block, main, packed)


def _split(sch: Schedule, block: Any, form: Form) -> Any:
    """Compute partial results for the lanes of a vector along an axis of the sum. Return the block that computes
    them.
    """
    names = [axis.var.name for axis in block_of(sch, block).iter_vars]
    loop = sch.get_loops(block)[names.index(form.split)]
    extent = constant_extent(sch, loop)
    if extent is None or extent % form.lanes:
        raise ScheduleError(f"sketch: wanted whole vectors along {form.split}, found {extent} elements")
    _, lane = sch.split(loop, [None, form.lanes])
    return sch.rfactor(lane, len(form.axes) - 1)


def _packed(sch: Schedule, block: Any, form: Form, read: int) -> Any:
    """Copy operand number `read` with its axes in the order: outside axes, axes of the sum, vector axis.

    Returns the block that copies.
    """
    reads = block_of(sch, block)
    buffer = buffers_read(reads)[read]
    load = next(n for n in find(reads.body, BufferLoad) if n.buffer is buffer)
    needed = [depends(load, axis.var) for axis in reads.iter_vars]
    iterators, count = reads.iter_vars, sum(map(len, form.axes))
    outside = [axis for axis in form.axes[:-1] if any(needed[p] for p in axis)]
    summed = [(p,) for p in range(count, len(iterators)) if needed[p]]
    order = (*outside, *summed, form.axes[-1])
    where = IndexMap.from_func(lambda *places: joined(places, iterators, order), ndim=len(iterators))
    packed = sch.reindex_cache_read(block, read, "local", where)
    own = [p for p, is_needed in enumerate(needed) if is_needed]
    if len(block_of(sch, packed).iter_vars) != len(own):
        raise ScheduleError("sketch: wanted an axis of the copy for each axis on which what is copied depends")
    groups = [tuple(own.index(p) for p in axis if needed[p]) for axis in (*form.axes, *summed)]
    groups = [group for group in groups if group]
    if any(len(group) > 1 for group in groups):
        mine = [iterators[p] for p in own]
        sch.transform_block_layout(packed, IndexMap.from_func(lambda *at: joined(at, mine, groups), ndim=len(own)))
    return packed
