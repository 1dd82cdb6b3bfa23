"""View sums of products as products of matrices, whose tiles are fetched by blocks of threads.

This is possible if each axis of the result is an axis of the first operand, of the second, or of both. The axes of each
kind are joined: into rows, columns, and outside axes, which count separate products. The axes of the sum are joined
into steps. A convolution becomes the product of implicit GEMM: its rows are all pixels of the result, and its steps are
the input channels and the places of the kernel ("Implicit GEMM Convolution" in CUTLASS).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from ....expr import REDUCE
from ....expr.conditions import is_const
from ....strategy.blocks import behind, block_of, extents, inline_injective
from ....strategy.candidate import Unfit
from ....strategy.epilogues import inlined_forward
from ....strategy.roles import depends, joined, operands, step_along
from ....tir import IndexMap, Schedule
from ....tir.nodes import Block, BufferLoad, BufferStore
from .fetched_tiles import along, end_of, padded, relooped, run_of, staged

AT_ONCE = 16  # bytes that a thread fetches


@dataclass(frozen=True, slots=True)
class MatrixProduct:
    """A sum of products as `outside` products of matrices: `a` is rows by steps, and `b` is steps by columns.

    Each axis is a group of the block's iterators, given by their positions.
    """

    block: Block
    a: BufferLoad
    b: BufferLoad
    outside: tuple[int, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    steps: tuple[int, ...]

    def _extent(self, axis: Sequence[int]) -> int:
        return prod(size or 0 for size in extents(self.block.iter_vars[position].dom.extent for position in axis))

    @property
    def count(self) -> int:
        """The number of products."""
        return self._extent(self.outside)

    @property
    def m(self) -> int:
        return self._extent(self.rows)

    @property
    def n(self) -> int:
        return self._extent(self.columns)

    @property
    def k(self) -> int:
        return self._extent(self.steps)

    @property
    def bytes(self) -> int:
        """The bytes per element of the operand with the larger elements."""
        return max(int(load.buffer.dtype.bytes) for load in (self.a, self.b))

    @property
    def dtype(self) -> str:
        """The dtype of the first operand."""
        return str(self.a.buffer.dtype)

    @property
    def widest(self) -> int:
        """The largest number of elements that a thread fetches at once."""
        return AT_ONCE // self.bytes

    @property
    def axes(self) -> list[tuple[int, ...]]:
        """The axes of the block: each outside axis, then rows, columns and steps."""
        return [*((p,) for p in self.outside), self.rows, self.columns, self.steps]

    def outside_of(self, load: BufferLoad) -> list[int]:
        """Return the outside axes on which an operand depends."""
        return [p for p in self.outside if depends(load, self.block.iter_vars[p].var)]

    @property
    def is_plain(self) -> bool:
        """Return whether rows and columns consist of one iterator each."""
        return len(self.rows) == len(self.columns) == 1

    def divides(self, rows: int, columns: int, depth: int) -> bool:
        """Return whether tiles of this size divide the product evenly."""
        return self.m % rows == self.n % columns == self.k % depth == 0

    def tile_axes(self, load: BufferLoad, *axes: tuple[int, ...]) -> list[tuple[int, ...]]:
        """Return the axes of an operand's tile: each outside axis on which it depends, followed by `axes`."""
        return [*((p,) for p in self.outside_of(load)), *axes]

    def lies_along(self, load: BufferLoad, axis: Sequence[int]) -> bool:
        """Return whether neighbours along an axis are neighbours in an operand."""
        return step_along(load, end_of(self.block, axis).var) == 1

    def run(self, load: BufferLoad, tile: Sequence[Sequence[int]]) -> tuple[int, int]:
        """Return the axis of a tile along which an operand is contiguous, and how many neighbours can be loaded in one
        access.
        """
        axis = along(self.block, load, tile)
        return axis, run_of(self.block, load, tile[axis], self.widest)


def product_of_matrices(block: Block) -> MatrixProduct | None:
    """Return a sum as a product of matrices, or None if that is impossible or an extent is unknown."""
    loads, store = operands(block), block.body
    if loads is None or not isinstance(store, BufferStore):
        return None
    iterators = block.iter_vars
    spatial = [p for p, axis in enumerate(iterators) if axis.kind != REDUCE]
    steps = [p for p, axis in enumerate(iterators) if axis.kind == REDUCE]
    own = [iterators[p].var for p in spatial]
    is_whole = len(own) == len(store.indices) and all(a is b for a, b in zip(store.indices, own, strict=True))
    if None in extents(axis.dom.extent for axis in iterators) or not is_whole or spatial != list(range(len(spatial))):
        return None
    if not all(depends(load, iterators[p].var) for load in loads for p in steps):
        return None
    uses = {p: tuple(depends(load, iterators[p].var) for load in loads) for p in spatial}
    moving = [p for p in spatial if not is_const(iterators[p].dom.extent, 1)]
    # Results that are neighbours are columns.
    first, second = loads if not moving or uses[moving[-1]] == (False, True) else loads[::-1]
    swapped = first is not loads[0]
    rows = [p for p in spatial if uses[p] == ((False, True) if swapped else (True, False))]
    columns = [p for p in spatial if uses[p] == ((True, False) if swapped else (False, True))]
    # One image, and its operand has no index for it.
    outside = tuple(p for p in spatial if p not in rows and p not in columns)
    if not rows or not columns or any(uses[p] == (False, False) and p in moving for p in outside):
        return None
    return MatrixProduct(block, first, second, outside, tuple(rows), tuple(columns), tuple(steps))


def as_matrices(
    sch: Schedule, product: MatrixProduct, block: Any, tile: tuple[int, int, int],
    tiles: Sequence[Sequence[Sequence[int]]], scopes: tuple[str, str], always: bool = False, alone: bool = False,
) -> tuple[Any, list[Any]]:  # fmt: skip
    """Rewrite the sum as a product of matrices, padded to multiples of a tile of (rows, columns, steps).

    `tiles` gives the axes of the operands' tiles, and `scopes` the scopes of these tiles and of the result. Returns the
    block that reads the result from there, and the copies of the operands. The block is None if nothing follows the
    product and it is stored directly (never with `always`). With `alone`, the blocks after the product are already
    scheduled.
    """
    if not alone:
        inline_injective(sch, within=behind(sch.func, product.block.name))
    consumers = sch.get_consumers(block)
    if len(consumers) > 1:
        raise Unfit("matrices: wanted one block behind the product, which the others were inlined into")
    iterators, spatial = product.block.iter_vars, len(product.block.iter_vars) - len(product.steps)
    result = product.axes[:-1]
    last = None
    if always or consumers or not product.is_plain or not product.divides(*tile):
        matrix = IndexMap.from_func(lambda *i: joined(i, iterators, result), ndim=len(iterators))
        last = sch.reindex_cache_write(block, 0, scopes[1], matrix)
        last = last if alone else inlined_forward(sch, last)
        if len(block_of(sch, last).iter_vars) != spatial:
            raise Unfit("matrices: wanted as many axes behind the product as it has")
        relooped(sch, last, iterators, result)
    loads = (product.a, product.b)
    copies = [staged(sch, block, load.buffer.name, axes, scopes[0]) for load, axes in zip(loads, tiles, strict=True)]
    relooped(sch, block, iterators, product.axes)
    if last is not None:
        padded(sch, block, last, copies, [*[1] * len(product.outside), *tile], scopes[1])
    return last, copies
