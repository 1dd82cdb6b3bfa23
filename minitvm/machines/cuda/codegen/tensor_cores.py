"""Write the instructions of tensor cores in CUDA kernels: tiles of fragments are tuples of a thread's registers.

A fragment is divided into *pieces* of 8 x 8 elements, and a thread holds two neighbours of each piece. Let g = lane //
4 and t = lane % 4. For the first factor and an accumulator, they are in row g and columns 2t, 2t + 1. For the second
factor, they are in rows (of the sum) 2t, 2t + 1 and column g. Two elements of 16 bits form one register, `u32`; each
element of an accumulator is one register. For float32 rounded to 10 bits, pieces are 8 x 4 and 4 x 8, and a thread
holds one element: row g and column t of the first factor, row t and column g of the second one. PTX ISA, "Matrix
Fragments for mma.m16n8k16 with floating point type", "Matrix Fragments for mma.m16n8k8".
"""

from __future__ import annotations

from typing import Any

from ....errors import Unsupported
from ....expr import IntImm
from ....tir.analysis.threads import is_of_a_warp
from ....tir.nodes import Buffer, Instruction, Tile
from ...simd.codegen.operands import constant_stride, divides, refused, start_of, stride_of
from ..capability import capability

PIECE = 8
_A = ((0, 0), (8, 0), (0, 8), (8, 8))  # the pieces of a tile in the order of an instruction's registers
_ROWS = ((0, 0), (8, 0))
_COLUMNS = ((0, 0), (0, 8))
_A_WORDS = ((0, 0), (8, 0), (0, 4), (8, 4))
_ROWS_OF_WORDS = ((0, 0), (4, 0))
_COLUMNS_OF_WORDS = ((0, 0), (0, 4))
# The tiles that a load brings, each with its pieces, and the operation.
LOADS = {
    "load_a": ((_A,), "ldmatrix_x4"),
    "load_b": ((_ROWS,), "ldmatrix_x2_trans"),
    "load_b_rows": ((_COLUMNS,), "ldmatrix_x2"),
    "load_b_pair": ((_ROWS, ((0, 8), (8, 8))), "ldmatrix_x4_trans"),
    "load_b_rows_pair": ((_COLUMNS, ((8, 0), (8, 8))), "ldmatrix_x4"),
}


def fill(emitter: Any, stmt: Instruction) -> None:
    """Write an accumulator of zeros."""
    _needs(emitter, stmt, 80)
    zero = f"{emitter.use('f32')}(0.0)"
    emitter.line(f"{_registers(emitter, stmt.tiles[0], _ROWS)} = ({', '.join([zero] * 4)})")


def store(emitter: Any, stmt: Instruction) -> None:
    """Write a store of an accumulator: each thread stores its two neighbours of each piece, in one access if aligned to
    8 bytes.
    """
    fragment, place = stmt.tiles
    sums = _registers(emitter, fragment, _ROWS)
    array, start = start_of(emitter, place)
    row = emitter.index(stride_of(emitter, place, 0))
    base = emitter.names.fresh("at_piece")
    lane = emitter.lane
    emitter.line(f"{base} = {emitter.to_index(f'{start} + ({lane} >> 2) * ({row}) + ({lane} & 3) * 2')}")
    stride, first = stride_of(emitter, place, 0), place.places[0].indices[0]
    together = all(divides(emitter, value, 2) for value in (stride, first))
    for k in (0, 2):
        offset = f"{base} + {k // 2 * PIECE} * ({row})"
        if together:
            pair = f"{emitter.use('insert')}({emitter.use('broadcast')}({sums}[{k}], 2), 1, {sums}[{k + 1}])"
            emitter.line(f"{emitter.use('store_whole')}({array}, {emitter.to_index(offset)}, {pair})")
            continue
        for half in (0, 1):
            emitter.line(f"{array}[{emitter.to_index(f'{offset} + {half}')}] = {sums}[{k + half}]")


def load_a(emitter: Any, stmt: Instruction) -> None:
    """Write `ldmatrix.x4`: lane l gives the address of row l % 16 in the left or the right half of the tile."""
    _load(emitter, stmt, "load_a", "({lane} & 15) * {row} + ({lane} >> 4) * 8")


def load_b(emitter: Any, stmt: Instruction) -> None:
    """Write `ldmatrix.x2.trans`: lanes 0 to 15 give the addresses of the rows; those of other lanes are ignored."""
    _load(emitter, stmt, "load_b", "({lane} & 15) * {row}")


def load_b_rows(emitter: Any, stmt: Instruction) -> None:
    """Write `ldmatrix.x2`: lanes 0 to 7 give the addresses of rows in the left half, 8 to 15 those in the right
    half.
    """
    _load(emitter, stmt, "load_b_rows", "({lane} & 7) * {row} + (({lane} >> 3) & 1) * 8")


def load_b_pair(emitter: Any, stmt: Instruction) -> None:
    """Write `ldmatrix.x4.trans` of two tiles: lanes 16 to 31 give the addresses of the rows of the right tile."""
    _load(emitter, stmt, "load_b_pair", "({lane} & 15) * {row} + ({lane} >> 4) * 8")


def load_b_rows_pair(emitter: Any, stmt: Instruction) -> None:
    """Write `ldmatrix.x4` of two tiles: lanes 16 to 31 give the addresses of the lower tile's rows, eight for each
    half.
    """
    place = "(({lane} & 7) + ({lane} >> 4) * 8) * {row} + (({lane} >> 3) & 1) * 8"
    _load(emitter, stmt, "load_b_rows_pair", place)


def load_a_words(emitter: Any, stmt: Instruction) -> None:
    """Write a load of each thread's elements of the first factor."""
    _load_words(emitter, stmt, _A_WORDS, turned=False)


def load_b_words(emitter: Any, stmt: Instruction) -> None:
    """Write a load of each thread's elements of the second factor, in which t counts rows."""
    _load_words(emitter, stmt, _ROWS_OF_WORDS, turned=True)


def load_b_rows_words(emitter: Any, stmt: Instruction) -> None:
    """Write a load of each thread's elements of the second factor's transpose, in which t counts columns."""
    _load_words(emitter, stmt, _COLUMNS_OF_WORDS, turned=False)


def _load_words(emitter: Any, stmt: Instruction, pieces: tuple[tuple[int, int], ...], turned: bool) -> None:
    # Products round their operands. Only products read a fragment, so each element is rounded once, here.
    _needs(emitter, stmt, 80)
    memory, fragment = stmt.tiles
    array, start = start_of(emitter, memory)
    row = emitter.index(stride_of(emitter, memory, 0))
    group, thread = f"({emitter.lane} >> 2)", f"({emitter.lane} & 3)"
    down, across = (thread, group) if turned else (group, thread)
    base = emitter.names.fresh("at_piece")
    emitter.line(f"{base} = {emitter.to_index(f'{start} + {down} * ({row}) + {across}')}")
    elements = [f"{array}[{emitter.to_index(f'{base} + {r} * ({row}) + {c}')}]" for r, c in pieces]
    words = ", ".join(f"{emitter.operation('tf32')}({element})" for element in elements)
    emitter.line(f"{_registers(emitter, fragment, pieces)} = ({words})")


def multiply(emitter: Any, stmt: Instruction) -> None:
    """Write `mma.sync.m16n8k16`, or `m16n8k8` for float32 that were rounded when they were loaded."""
    _needs(emitter, stmt, 80)
    a, b, c = stmt.tiles
    turned = stmt.name.endswith("_nt")
    if a.buffer.dtype == "float32":
        of_a, of_b, kind = _A_WORDS, _COLUMNS_OF_WORDS if turned else _ROWS_OF_WORDS, "8_tf32"
    else:
        kind = "16_bf16" if a.buffer.dtype == "bfloat16" else "16_f16"
        of_a, of_b = _A, _COLUMNS if turned else _ROWS
    factors, sums = [_registers(emitter, a, of_a), _registers(emitter, b, of_b)], _registers(emitter, c, _ROWS)
    emitter.line(f"{sums} = {emitter.operation(f'mma_16x8x{kind}')}({', '.join([*factors, sums])})")


def _load(emitter: Any, stmt: Instruction, kind: str, place: str) -> None:
    _needs(emitter, stmt, 75)
    memory, fragment = stmt.tiles
    tiles, operation = LOADS[kind]
    array, start = start_of(emitter, memory)
    row = constant_stride(emitter, memory, 0)
    first = memory.places[0].indices[0]
    if row % PIECE or not divides(emitter, first, PIECE):
        raise refused(emitter, stmt, "rows that begin at multiples of 16 bytes", f"the stride {row}, from {first}")
    at = emitter.to_index(f"{start} + {place.format(lane=emitter.lane, row=row)}")
    names = [_registers(emitter, fragment, pieces) for pieces in tiles]
    loaded = names[0] if len(names) == 1 else emitter.names.fresh("loaded")
    emitter.line(f"{loaded} = {emitter.operation(operation)}({array}, {at})")
    if len(names) > 1:
        for number, name in enumerate(names):
            emitter.line(f"{name} = ({loaded}[{2 * number}], {loaded}[{2 * number + 1}])")


def _registers(emitter: Any, tile: Tile, pieces: tuple[tuple[int, int], ...]) -> str:
    """Return the variable of a tile, with its registers in the order of these pieces.

    Raises `Unsupported` for a tile whose place is not constant or not on the grid of pieces.
    """
    buffer = tile.buffer
    index = emitter.analyzer.simplify(tile.places[0].indices[0])
    row, column = (stride_of(emitter, tile, axis) for axis in (0, 1))
    if not is_of_a_warp(buffer.scope):
        raise Unsupported(f"{buffer.name}: a fragment is storage of a warp, found {buffer.scope}")
    if not isinstance(index, IntImm) or not isinstance(row, IntImm) or not isinstance(column, IntImm):
        raise Unsupported(
            f"{buffer.name}[{index}]: a fragment is held in registers, which have no addresses\n"
            "  wanted: a constant place in it\n  try:    unroll the loops around the instruction"
        )
    fits = column.value == 1 and row.value % PIECE == 0 and index.value % PIECE == 0
    if not fits or (index.value // row.value) % PIECE:
        raise Unsupported(f"{buffer.name}[{index}]: tiles of a fragment lie at multiples of {PIECE} x {PIECE} elements")
    name: str = emitter.tile(buffer, tuple(index.value + r * row.value + c for r, c in pieces))
    return name


def _needs(emitter: Any, stmt: Instruction, least: int) -> None:
    found = capability(emitter.target)
    if found < least:
        raise refused(emitter, stmt, f"a device of sm_{least} or newer", f"sm_{found}")


def refuse_other_accesses(name: str, buffer: Buffer) -> Unsupported:
    """Return the error for a load or store of a fragment outside of instructions."""
    return Unsupported(
        f"{name}: {buffer.name}, a fragment that a warp holds in registers, is accessed element by element\n"
        "  wanted: only instructions on it\n  try:    tensorize the blocks that fill it and store it"
    )
