"""What follows a reduction element by element, and is computed where its result still is in registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..arith.affine import structural_key
from ..errors import MinitvmError, ScheduleError
from ..expr import SPATIAL, Expr, FloorDiv, IntImm, IterVar, Range, Var, find, structural_equal
from ..expr.conditions import is_const
from ..tir import IndexMap, Schedule
from ..tir.nodes import Block, Buffer, BufferLoad, BufferStore, PrimFunc
from .blocks import behind, beside, block_of, blocks_of, contiguous_along_last, inline_injective, readers


def epilogue(sch: Schedule, block: Any, before: str = "") -> Any:
    """Let `block` accumulate in registers; returns the block that writes what it computed, epilogue included.

    The epilogue ends in front of the block of the name `before`, where there is one. What it reads beside the sums and
    is computed along memory (a residual that is dequantised) is computed where it is read.
    """
    # Branches of the epilogue (hard-swish reads the result twice) become one block with one reader of the result.
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
    """The same for a block of whose result a part is read, as behind padding: it accumulates in registers as it is.

    Raises `ScheduleError` where not one block reads it, once what is element-wise is inlined.
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
    """How the only reader of a block's result rearranges it, in a function without a schedule; None where none does."""
    consumers = readers(func, block)
    return rearrangement(consumers[0], block.writes[0].buffer) if len(consumers) == 1 else None


def _in_place_of(sch: Schedule, writer: Any, before: str) -> Any:
    """Let the only reader of `writer` take its place, in its order, if it reads each element once; gives the last one.

    C[i] = f(A[g(i)])  ->  C[inverse of g at j] = f(A[j]), where g is a bijection
    """
    consumers = sch.get_consumers(writer)
    if len(consumers) != 1 or block_of(sch, consumers[0]).name == before:
        return writer
    reader = consumers[0]
    order = rearrangement(block_of(sch, reader), block_of(sch, writer).writes[0].buffer)
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
    """How a block that reads each element of `source` once finds them: iteration i reads the element `places(i)`.

    Neighbours in its result are neighbours in the source, or every `step`-th of them is: the others differ along the
    axes of the source that are not `kept`, those that the block has as well.
    """

    places: IndexMap
    kept: tuple[int, ...]
    step: int


def rearrangement(reader: Block, source: Buffer) -> Rearrangement | None:
    """How a block reads each element of a buffer once; None where it does not, or would not write along lines."""
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
    """s where `read` is the index `written` divided by s; 1 where the two are one variable."""
    if not isinstance(written, Var):
        return None
    if read is written:
        return 1
    quotient = isinstance(read, FloorDiv) and read.a is written and isinstance(read.b, IntImm)
    return int(read.b.value) if quotient else None  # type: ignore[attr-defined]


def inlined_forward(sch: Schedule, writer: Any) -> Any:
    """Inline a block into its only reader, as long as that reads it element by element; gives the last."""
    while True:
        consumers = sch.get_consumers(writer)
        if len(consumers) != 1 or not _elementwise(sch, writer, consumers[0]):
            return writer
        sch.compute_inline(writer)
        writer = consumers[0]


def _elementwise(sch: Schedule, producer: Any, consumer: Any) -> bool:
    """Whether `consumer` writes at a point what it makes of `producer` at that point, the shapes being equal."""
    made, uses = block_of(sch, producer), block_of(sch, consumer)
    if any(v.kind != "S" for v in uses.iter_vars) or len(uses.writes) != 1:
        return False
    source, result = made.writes[0].buffer, uses.writes[0].buffer
    if len(source.shape) != len(result.shape) or not all(map(structural_equal, source.shape, result.shape)):
        return False
    if len(uses.iter_vars) != len(result.shape):
        return False
    reads = [r for r in uses.reads if r.buffer is source]
    regions = [*reads, uses.writes[0]]
    return bool(reads) and all(_is_point(region.region, uses.iter_vars) for region in regions)


def _is_point(region: Sequence[Range], point: Sequence[IterVar]) -> bool:
    # Of an iterator that is always 0 a region may say 0 in its place.
    return all(
        is_const(part.extent, 1)
        and (part.start is axis.var or (is_const(part.start, 0) and is_const(axis.dom.extent, 1)))
        for part, axis in zip(region, point, strict=True)
    )
