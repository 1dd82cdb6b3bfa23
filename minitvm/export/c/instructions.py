"""How C kernels spell the instructions on bytes and on tiles: as calls of functions in plain C, or of built-in ones."""

from __future__ import annotations

from typing import Any

from ...errors import Unsupported
from ...expr import DType, IntImm
from ...machines.simd.codegen.operands import start_of, stride_of
from ...machines.simd.tile_intrinsics import rows_of, step_of
from ...tir.nodes import Instruction, Tile

_WORDS = DType("int32").with_lanes(16)


def spelling(name: str) -> Any:
    """Return the function that spells an instruction in C, or None."""
    if name in _NAMED:
        return _NAMED[name]
    for start, spell in _TILES.items():
        if name.startswith(start):
            return spell
    return None


def _at(emitter: Any, tile: Tile) -> str:
    """The address of the first element of a tile."""
    name, index = start_of(emitter, tile)
    return name if index == "0" else f"{name} + {index}"


def _dot_4x16(emitter: Any, stmt: Instruction) -> None:
    a, b, c = (_at(emitter, tile) for tile in stmt.tiles)
    word = f"{emitter.helper('all', _WORDS)}({emitter.helper('load_words', _WORDS.scalar)}({a}))"
    rows = f"{emitter.helper('load_words', _WORDS)}({b})"
    sums = f"{emitter.helper('load', _WORDS)}({c})"
    total = f"{emitter.use('dot4_add', _WORDS)}({word}, {rows}, {sums})"
    emitter.line(f"{emitter.helper('store', _WORDS)}({c}, {total});")


def _tile_dot_i8(emitter: Any, stmt: Instruction) -> None:
    places = [text for tile in stmt.tiles for text in (_at(emitter, tile), emitter.place(stride_of(emitter, tile, 0)))]
    emitter.line(f"{emitter.helper('tile_dot_i8', DType('int32'))}({', '.join(places)});")


def _variable(emitter: Any, tile: Tile) -> str:
    """The address of a tile. Its place in the buffer is constant."""
    index = emitter.analyzer.simplify(tile.places[0].indices[0])
    if not isinstance(index, IntImm):
        raise Unsupported(
            f"{tile.buffer.name}[{index}]: a tile is a register\n  wanted: a constant place in the buffer"
        )
    return f"{emitter.names[tile.buffer]} + {index.value}"


def _zero(emitter: Any, stmt: Instruction) -> None:
    (tile,) = stmt.tiles
    function = emitter.helper("tile_zero", tile.buffer.dtype)
    emitter.line(f"{function}({_variable(emitter, tile)}, {rows_of(stmt.name)});")


def _load(emitter: Any, stmt: Instruction) -> None:
    memory, tile = stmt.tiles
    step = emitter.place(emitter.analyzer.simplify(stride_of(emitter, memory, 0) * step_of(stmt.name)))
    function = emitter.helper("tile_load", tile.buffer.dtype)
    emitter.line(f"{function}({_variable(emitter, tile)}, {_at(emitter, memory)}, {step}, {rows_of(stmt.name)});")


def _dot(emitter: Any, stmt: Instruction) -> None:
    a, b, c = (_variable(emitter, tile) for tile in stmt.tiles)
    function = emitter.helper("tile_dot", stmt.tiles[2].buffer.dtype)
    emitter.line(f"{function}({c}, {a}, {b}, {rows_of(stmt.name)});")


def _store(emitter: Any, stmt: Instruction) -> None:
    tile, memory = stmt.tiles
    step = emitter.place(stride_of(emitter, memory, 0))
    function = emitter.helper("tile_store", tile.buffer.dtype)
    emitter.line(f"{function}({_at(emitter, memory)}, {step}, {_variable(emitter, tile)}, {rows_of(stmt.name)});")


_NAMED = {"dot_4x16_u8i8i32": _dot_4x16, "tile_dot_16x16x64_i8i8i32": _tile_dot_i8}
_TILES = {"tile_zero_": _zero, "tile_load_": _load, "tile_dot_": _dot, "tile_store_": _store}
