"""Epilogues: element-wise operators after a reduction, computed while its result is still in registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..arith.affine import structural_key
from ..errors import MinitvmError, ScheduleError
from ..expr import SPATIAL, Expr, FloorDiv, IntImm, IterVar, Range, Var, find, structural_equal
from ..expr.conditions import is_const
from ..tir import IndexMap, Schedule
from ..tir.analysis.block_regions import buffers_written, regions_read, regions_written
from ..tir.nodes import Block, Buffer, BufferLoad, BufferStore, PrimFunc
from .blocks import behind, beside, block_of, blocks_of, contiguous_along_last, inline_injective, readers


def epilogue(sch: Schedule, block: Any, before: str = "") -> Any:
    """Let `block` accumulate in registers, and return the block that writes the result, with the epilogue merged in.

    If `before` names a block, the epilogue ends before that block. A block that computes another operand of the
    epilogue and reads memory in order (for example, the dequantisation of a residual) is inlined into it.
    """
    # The branches of an epilogue (hard-swish reads the result twice) become one block that reads the result once.
    name = block_of(sch, block).name
    inlined = behind(sch.func, name)
    others = beside(sch.func, name)
    inlined |= {maker.name for maker in blocks_of(sch.func) if maker.name in others and _is_along_memory(maker)}
    if before:
        inlined -= {
            before,
            *behind(sch.func, before),
            *(block_of(sch, maker).name for maker in sch.get_producers(before)),
        }
    inline_injective(sch, within=inlined)
    return _in_place_of(sch, inlined_forward(sch, sch.cache_write(block, 0, "local")), before)


def epilogue_of_part(sch: Schedule, block: Any) -> Any:
    """Like `epilogue`, for a block of which only a part of the result is read, as after padding.

    The block itself accumulates in registers. Raises `ScheduleError` unless exactly one block reads it once the
    element-wise blocks have been inlined.
    """
    inline_injective(sch, within=behind(sch.func, block_of(sch, block).name))
    consumers = sch.get_consumers(block)
    if len(consumers) != 1:
        raise ScheduleError("an epilogue: wanted one reader of the sums")
    sch.set_scope(block, 0, "local")
    return inlined_forward(sch, consumers[0])


def _is_along_memory(maker: Block) -> bool:
    return any(axis.kind == SPATIAL for axis in maker.iter_vars) and contiguous_along_last(maker)


def rearranged(func: PrimFunc, block: Block) -> Rearrangement | None:
    """Return the `Rearrangement` that the only reader of a block's result performs, or None if there is none.

    The function must not be scheduled yet.
    """
    consumers = readers(func, block)
    return rearrangement(consumers[0], buffers_written(block)[0]) if len(consumers) == 1 else None


def _in_place_of(sch: Schedule, writer: Any, before: str) -> Any:
    """Inline `writer` into its only reader if that reads each element exactly once, and change the reader's iterators
    to the order of `writer`. Returns the block that now writes the result.

    C[i] = f(A[g(i)]) -> C[inverse of g at j] = f(A[j]), where g is a bijection
    """
    consumers = sch.get_consumers(writer)
    if len(consumers) != 1 or block_of(sch, consumers[0]).name == before:
        return writer
    reader = consumers[0]
    order = rearrangement(block_of(sch, reader), buffers_written(block_of(sch, writer))[0])
    if order is None:
        return writer
    try:
        with sch.all_or_nothing():
            sch.compute_inline(writer)
            sch.transform_block_layout(reader, order.places)
    except ScheduleError:
        return writer
    return reader


@dataclass(frozen=True, slots=True)
class Rearrangement:
    """A rearrangement of a tensor: in iteration i, a block reads the element `places(i)` of `source`, and each element
    once.

    If `step` is 1, neighbours in the result are neighbours in the source. Otherwise only every `step`-th element is,
    and the elements in between differ along axes of the source that are not in `kept`. The axes in `kept` are the same
    in both.
    """

    places: IndexMap
    kept: tuple[int, ...]
    step: int


def rearrangement(reader: Block, source: Buffer) -> Rearrangement | None:
    """Return the rearrangement with which a block reads each element of a buffer once.

    Returns None if the block does not read each element once, or does not read along lines.
    """
    store = reader.body
    if any(axis.kind != SPATIAL for axis in reader.iter_vars) or not isinstance(store, BufferStore):
        return None
    loads = {structural_key(n.indices): n for n in find(store, BufferLoad) if n.buffer is source}
    axes = tuple(axis.var for axis in reader.iter_vars)
    if len(loads) != 1 or not store.indices or len(source.shape) != len(axes):
        return None
    (load,) = loads.values()
    step = _step(load.indices[-1], store.indices[-1])
    places = IndexMap(axes, load.indices)
    try:
        places.inverse([axis.dom.extent for axis in reader.iter_vars])
        shape = places.map_shape([axis.dom.extent for axis in reader.iter_vars])
    except MinitvmError:
        return None
    if step is None or not all(map(structural_equal, shape, source.shape)):
        return None
    return Rearrangement(places, tuple(p for p, index in enumerate(load.indices) if isinstance(index, Var)), step)


def _step(read: Expr, written: Expr) -> int | None:
    """Return s if `read` is `written // s`, 1 if both are the same variable, or None otherwise."""
    if not isinstance(written, Var):
        return None
    if read is written:
        return 1
    quotient = isinstance(read, FloorDiv) and read.a is written and isinstance(read.b, IntImm)
    return int(read.b.value) if quotient else None  # type: ignore[attr-defined]


def inlined_forward(sch: Schedule, writer: Any) -> Any:
    """Inline a block into its only reader, repeatedly, while the reader is element-wise. Returns the last block."""
    while True:
        consumers = sch.get_consumers(writer)
        if len(consumers) != 1 or not _elementwise(sch, writer, consumers[0]):
            return writer
        sch.compute_inline(writer)
        writer = consumers[0]


def _elementwise(sch: Schedule, producer: Any, consumer: Any) -> bool:
    """Return whether `consumer` computes each point from the same point of `producer`, and both have the same shape."""
    made, uses = block_of(sch, producer), block_of(sch, consumer)
    if any(v.kind != "S" for v in uses.iter_vars) or len(buffers_written(uses)) != 1:
        return False
    source, result = buffers_written(made)[0], buffers_written(uses)[0]
    if len(source.shape) != len(result.shape) or not all(map(structural_equal, source.shape, result.shape)):
        return False
    if len(uses.iter_vars) != len(result.shape):
        return False
    reads = [r for r in regions_read(uses) if r.buffer is source]
    regions = [*reads, regions_written(uses)[0]]
    return bool(reads) and all(_is_point(region.region, uses.iter_vars) for region in regions)


def _is_point(region: Sequence[Range], point: Sequence[IterVar]) -> bool:
    # A region may have 0 in the place of an iterator that is always 0.
    return all(
        is_const(part.extent, 1)
        and (part.start is axis.var or (is_const(part.start, 0) and is_const(axis.dom.extent, 1)))
        for part, axis in zip(region, point, strict=True)
    )
