"""Rows that the threads of a block keep in registers while normalising them, so that each element is loaded once.

    for each row, on blockIdx:
        x_local[part, thread, lane] = x[row, ...]               # vectors, all loaded at the same time
        for each element of a thread: largest = max(largest, x_local[..])
        for each element of a thread: exp_local[..] = exp(x_local[..] - largest)
        ...

An element belongs to the same thread in every block: the threads take vectors in turn. So the storage for elements has
a dimension that is the number of the thread, and lowering gives each thread its part
(`machines.gpu.transform.threads_outside`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....expr import find
from ....strategy.blocks import block_of, blocks_of, extents, is_reduction
from ....tir import IndexMap, Schedule
from ....tir.analysis.block_regions import buffers_read, regions_read, regions_written
from ....tir.nodes import Block, Buffer, BufferLoad
from .grid import fused

_MOST = 32  # elements of one tensor that a thread holds


def fits(length: int | None, threads: int, lanes: int) -> bool:
    """Return whether rows of this length consist of whole vectors of all threads, and fit in their registers."""
    return length is not None and length % (threads * lanes) == 0 and length // threads <= _MOST


def hold(sch: Schedule, row: Any, before: Sequence[str], final: str, threads: int, lanes: int) -> set[str]:
    """Compute the blocks of a row inside its loop, and keep the row in registers between them.

    Returns the names of the blocks that are shared out among the threads: all except those with one element per row.
    """
    names = [*before, final]
    sizes = extents(axis.dom.extent for axis in block_of(sch, sch.get_block(final)).iter_vars)
    copies = [_copied(sch, buffer, names) for buffer in _rows_read(sch, names, sizes)]
    for name in reversed([*copies, *before]):
        sch.compute_at(sch.get_block(name), row, preserve_unit_loops=True)
    wide = [name for name in (*copies, *names) if _length(block_of(sch, sch.get_block(name))) == sizes[-1]]

    def places(*index: Any) -> list[Any]:
        return [*index[:-1], index[-1] // (threads * lanes), index[-1] // lanes % threads, index[-1] % lanes]

    for name in wide:
        block = sch.get_block(name)
        if name != final and not is_reduction(block_of(sch, block)):
            sch.set_scope(block, 0, "local")
            sch.transform_layout(block, ("write", 0), IndexMap.from_func(places, ndim=len(sizes)))
        part, thread, lane = sch.split(fused(sch, sch.get_loops(block)[1:]), [None, threads, lanes])
        sch.bind(thread, "threadIdx.x")
        sch.unroll(part)
        (sch.unroll if is_reduction(block_of(sch, block)) else sch.vectorize)(lane)
    return set(wide)


def _copied(sch: Schedule, buffer: Buffer, names: Sequence[str]) -> str:
    """Copy a tensor for all of the named blocks that read it, and return the name of the copying block."""
    users = [name for name in names if buffer in buffers_read(block_of(sch, sch.get_block(name)))]
    handles = [sch.get_block(name) for name in users]
    return block_of(sch, sch.cache_read(handles[0], buffer, "local", handles)).name


def _rows_read(sch: Schedule, names: Sequence[str], sizes: list[int | None]) -> list[Buffer]:
    """Return the tensors of the result's shape that come from outside of these blocks and that all readers access along
    rows.
    """
    blocks = [block for block in blocks_of(sch.func) if block.name in names]
    written = {region.buffer for block in blocks for region in regions_written(block)}
    read = dict.fromkeys(region.buffer for block in blocks for region in regions_read(block))
    return [
        buffer
        for buffer in read
        if buffer not in written
        and extents(buffer.shape) == sizes
        and all(
            load.indices[-1] is block.iter_vars[-1].var
            for block in blocks
            for load in find(block.body, BufferLoad)
            if load.buffer is buffer
        )
    ]


def _length(block: Block) -> int | None:
    """Return the extent of a block's last iterator."""
    return extents([block.iter_vars[-1].dom.extent])[0]
