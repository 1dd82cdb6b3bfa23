"""Schedule copies that read along one axis and write along another: changes of layout, and transposes.

Both axes are tiled by the lanes of a vector. The tile is unrolled along the axis that is contiguous in the source, and
vectorised along the axis that is contiguous in the result. The pass `transpose_tiles` turns this into shuffles. A copy
may write a constant instead of some elements along the written axis, for example zeros in an incomplete block of
channels. If an extent is symbolic, the last tile may be cut; `unswitch_tiles` makes a separate version for the other
tiles.
"""

from __future__ import annotations

from typing import Any

from ....errors import ScheduleError
from ....expr import REDUCE, Expr, FloorMod, IntImm, Var, walk
from ....strategy.blocks import constant_extent
from ....target import Target
from ....tir import Schedule
from ....tir.nodes import Block, BufferStore
from ..transform.transpose_tiles import LARGEST, SMALLEST, guarded_load
from .tiling import cpu_of

_OPEN = 16  # what an open extent counts as: a constant one that is larger is better shared among threads
_OPEN_SIDE = 8  # of a tile along an open axis: what is left of it is copied element by element


def turned_copy(sch: Schedule, name: str, target: Target) -> list[Any] | None:
    """Schedule a copy that reads along one axis and writes along another. Return the loops outside its tiles, or None
    for any other block.
    """
    handle = sch.get_block(name)
    block = sch.get(handle)
    assert isinstance(block, Block)
    ends = contiguous_ends(block)
    if ends is None or len(sch.get_loops(handle)) != len(block.iter_vars):
        return None
    body = block.body
    assert isinstance(body, BufferStore)
    copy = guarded_load(body.value)
    assert copy is not None
    axes = [axis.var for axis in block.iter_vars]
    lanes = min(LARGEST, cpu_of(target).vector_bytes // max(1, body.buffer.dtype.bytes))
    try:
        with sch.all_or_nothing():
            return _tiled(sch, handle, axes, (body.indices, copy.load.indices), ends, lanes)
    except (ScheduleError, _TooSmall):
        return None


def contiguous_ends(block: Block) -> tuple[tuple[Var, int | None], tuple[Var, int | None]] | None:
    """Return the axes along which a copy writes and reads, or None for a block that is not a copy or uses a single
    axis.
    """
    body = block.body
    copy = guarded_load(body.value) if isinstance(body, BufferStore) and block.init is None else None
    if copy is None or not isinstance(body, BufferStore):
        return None
    axes = [axis.var for axis in block.iter_vars]
    if any(axis.kind == REDUCE for axis in block.iter_vars) or not body.indices or not copy.load.indices:
        return None
    to, of = _contiguous(body.indices[-1], axes), _contiguous(copy.load.indices[-1], axes)
    if to is None or of is None or to[0] is of[0] or any(item is of[0] for item in walk(copy.condition)):
        return None
    return to, of


class _TooSmall(Exception):
    """No tile of a useful size fits."""


def _tiled(sch: Schedule, handle: Any, axes: list[Var], indices: Any, ends: Any, lanes: int) -> list[Any]:
    loops = dict(zip(axes, sch.get_loops(handle), strict=True))
    outer, inner = [], []
    for (var, modulus), others in zip(ends, (ends[1][0], ends[0][0]), strict=True):
        loop = loops.pop(var)
        if modulus is not None:
            over, loop = sch.split(loop, [None, modulus])
            outer.append(over)
        neighbour = None if modulus is not None else _joined(var, others, axes, indices, loops)
        if neighbour is not None and None not in (constant_extent(sch, loop), constant_extent(sch, loops[neighbour])):
            loop = sch.fuse(loops.pop(neighbour), loop)
        side = _side(constant_extent(sch, loop), lanes)
        over, tile = sch.split(loop, [None, side])
        outer.append(over)
        inner.append(tile)
    columns, rows = inner
    # The longest loop alone is enough to share among threads: if it were fused with others, its indices would be
    # divisions.
    outside = sorted([*loops.values(), *outer], key=lambda loop: -(constant_extent(sch, loop) or _OPEN))
    sch.reorder(*outside, rows, columns)
    sch.unroll(rows)
    sch.vectorize(columns)
    return outside


def _contiguous(index: Expr, axes: list[Var]) -> tuple[Var, int | None] | None:
    """Return the axis that the last index consists of, and m if it is `axis % m` (else None). Returns None for other
    indices.
    """
    if isinstance(index, Var) and index in axes:
        return index, None
    if isinstance(index, FloorMod) and isinstance(index.b, IntImm) and isinstance(index.a, Var) and index.a in axes:
        return index.a, int(index.b.value)
    return None


def _joined(var: Var, other: Var, axes: list[Var], indices: Any, loops: dict[Var, Any]) -> Var | None:
    """Return the axis before `var` if both are neighbours in both buffers, and so form one long axis."""
    position = axes.index(var)
    if position == 0:
        return None
    front = axes[position - 1]
    if front is other or front not in loops:
        return None
    for side in indices:
        places = [k for k, index in enumerate(side) if index is var]
        if len(places) != 1 or places[0] == 0 or side[places[0] - 1] is not front:
            return None
    return front


def _side(extent: int | None, lanes: int) -> int:
    """Return the side of a tile: the largest power of two that divides the axis, or one with a remainder if that is
    small.

    Most of a remainder is transposed in smaller squares.
    """
    if extent is None:
        return min(_OPEN_SIDE, lanes)
    side = lanes
    while side >= SMALLEST and extent % side:
        side //= 2
    if side < min(8, lanes) and extent >= 2 * SMALLEST:
        side = min(8, lanes)
    if side < SMALLEST:
        raise _TooSmall
    return side
