"""The operands of an instruction in source: where a tile starts, and how far apart its elements are."""

from __future__ import annotations

from typing import Any

from ..errors import Unsupported
from ..expr import Expr, IntImm
from ..tir.nodes import Tile


def start_of(emitter: Any, tile: Tile) -> tuple[str, str]:
    """(the array, the index of the tile's first element), as text. The storage of a tile is memory."""
    return emitter.names[tile.buffer], emitter.place(tile.places[0].indices[0])


def stride_of(emitter: Any, tile: Tile, axis: int) -> Expr:
    """How many elements of the flat buffer lie from one element of the tile to the next one along an axis."""
    stride: Expr = emitter.analyzer.simplify(tile.places[1 + axis].indices[0] - tile.places[0].indices[0])
    return stride


def constant_stride(emitter: Any, tile: Tile, axis: int) -> int:
    """The stride along an axis as a number; raises `Unsupported` where it is another one at each place."""
    stride = stride_of(emitter, tile, axis)
    if not isinstance(stride, IntImm):
        raise Unsupported(f"{tile.buffer.name}: an instruction with the stride {stride}\n  wanted: a constant stride")
    return stride.value
