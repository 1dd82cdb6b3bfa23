"""Collect the facts about each block that determine the cost of streaming it through memory."""

from __future__ import annotations

from dataclasses import dataclass

from ....expr import REDUCE, Call, Node, children
from ....strategy import blocks
from ....tir.analysis.block_regions import buffers_touched
from ....tir.nodes import Block, BufferLoad, BufferStore, PrimFunc
from .turned import contiguous_ends

_LONG = 256  # what a symbolic extent counts as
_COSTLY = 20  # operations that a function such as exp is as good as


@dataclass(frozen=True, slots=True)
class StreamedBlock:
    """A block with `instances` of `operations` each, rows of `row` elements of `itemsize` bytes, and `summed` terms per
    result.

    `along` says that the terms are contiguous in memory, so that vectors of terms are summed; otherwise each result is
    an element of a vector. The block moves `nbytes`, unless it is `inlined`. `turns` says that it reads along one axis
    and writes along another.
    """

    instances: int
    operations: int
    row: int
    itemsize: int
    summed: int
    along: bool
    nbytes: int
    inlined: bool
    turns: bool


def streams(func: PrimFunc) -> list[StreamedBlock]:
    """Return the facts about each block of a function that is not scheduled yet."""
    return [_stream(func, block) for block in blocks.blocks_of(func)]


def _stream(func: PrimFunc, block: Block) -> StreamedBlock:
    instances = blocks.volume((axis.dom.extent for axis in block.iter_vars), _LONG)
    spatial = [axis.dom.extent for axis in block.iter_vars if axis.kind != REDUCE]
    buffers = buffers_touched(block)
    moved = sum(min(instances, blocks.volume(b.shape, _LONG)) * b.dtype.bytes for b in buffers)
    return StreamedBlock(
        instances,
        max(1, _operations(block.body)),
        blocks.volume(spatial[-1:], _LONG),
        max((b.dtype.bytes for b in buffers), default=4),
        blocks.volume(blocks.reduced(block), _LONG),
        blocks.is_reduction(block)
        and blocks.reduces_along_last(block)
        and not (spatial and blocks.contiguous_along_last(block)),
        moved,
        blocks.inlinable(func, block),
        contiguous_ends(block) is not None,
    )


def _operations(node: Node) -> int:
    """Return the number of operations on data. Index arithmetic does not count."""
    if isinstance(node, BufferLoad):
        return 0
    if isinstance(node, BufferStore):
        return _operations(node.value)
    inner = list(children(node))
    own = _COSTLY if isinstance(node, Call) and node.op in blocks.COSTLY else 1 if inner else 0
    return own + sum(map(_operations, inner))
