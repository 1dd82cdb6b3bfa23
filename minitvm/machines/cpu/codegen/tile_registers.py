"""Write instructions on tile registers in CPU kernels. Each tile of a buffer becomes a variable."""

from __future__ import annotations

from typing import Any

from ....errors import Unsupported
from ....expr import IntImm
from ....tir.nodes import Instruction, Tile
from ...simd.codegen.operands import start_of, stride_of
from ...simd.tile_intrinsics import SCOPE, WORDS, rows_of, step_of, words_of


def zero(emitter: Any, stmt: Instruction) -> None:
    """Write a tile of zeros."""
    (tile,) = stmt.tiles
    emitter.line(f"{_variable(emitter, tile)} = {emitter.use('tile_zero')}({rows_of(stmt.name)})")


def load(emitter: Any, stmt: Instruction) -> None:
    """Write a load of a tile from memory."""
    memory, tile = stmt.tiles
    step = emitter.place(emitter.analyzer.simplify(stride_of(emitter, memory, 0) * step_of(stmt.name)))
    place = f"{', '.join(start_of(emitter, memory))}, {step}"
    emitter.line(f"{_variable(emitter, tile)} = {emitter.use('tile_load')}({place}, {rows_of(stmt.name)})")


def dot(emitter: Any, stmt: Instruction) -> None:
    """Write the product of two tiles, added to a third one."""
    a, b, c = (_variable(emitter, tile) for tile in stmt.tiles)
    emitter.line(f"{c} = {emitter.use(f'tile_dot_{words_of(stmt.name)}')}({c}, {a}, {b}, {rows_of(stmt.name)})")


def store(emitter: Any, stmt: Instruction) -> None:
    """Write a store of a tile to memory."""
    tile, memory = stmt.tiles
    place = f"{', '.join(start_of(emitter, memory))}, {emitter.place(stride_of(emitter, memory, 0))}"
    emitter.line(f"{emitter.use('tile_store')}({place}, {_variable(emitter, tile)}, {rows_of(stmt.name)})")


def _variable(emitter: Any, tile: Tile) -> str:
    """Return the variable of a tile. It depends on the tile's place in the buffer, which must be constant."""
    buffer, index = tile.buffer, emitter.analyzer.simplify(tile.places[0].indices[0])
    if buffer.scope != SCOPE:
        raise Unsupported(f"{buffer.name}: a tile is storage of the scope {SCOPE}, found {buffer.scope}")
    if not isinstance(index, IntImm):
        raise Unsupported(
            f"{buffer.name}[{index}]: a tile is held in a register, which has no address\n"
            "  wanted: a constant place in the buffer\n  try:    unroll the loops around the instruction"
        )
    row = stride_of(emitter, tile, 0)
    if not isinstance(row, IntImm) or row.value != WORDS:
        raise Unsupported(
            f"{buffer.name}[{index}]: a tile has rows of {WORDS} words, found rows that are {row} apart\n"
            f"  wanted: a buffer whose last axis has {WORDS} elements"
        )
    name: str = emitter.tile(buffer, index.value)
    return name
