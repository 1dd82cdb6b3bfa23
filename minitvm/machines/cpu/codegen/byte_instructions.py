"""Write instructions on bytes in kernels for Numba: `vpdpbusd` of AVX-512 VNNI, `dp4a` of CUDA, `tdpbssd` of AMX."""

from __future__ import annotations

from ....tir.nodes import Instruction
from ...simd.codegen.numba_statements import NumbaStatements
from ...simd.codegen.operands import start_of, stride_of


def dot_4x16(emitter: NumbaStatements, stmt: Instruction) -> None:
    """Write `dot_4x16_u8i8i32`: sixteen sums of four products each, in one operation on words."""
    a, b, c = stmt.tiles
    (bytes_of_a, at_a), (bytes_of_b, at_b), (sums, at_c) = (start_of(emitter, tile) for tile in (a, b, c))
    load_words, load, store = map(emitter.use, ("load_words", "load", "store"))
    word = f"{emitter.use('broadcast')}({emitter.use('extract')}({load_words}({bytes_of_a}, {at_a}, 1), 0), 16)"
    total = f"{emitter.use('dot4_add')}({word}, {load_words}({bytes_of_b}, {at_b}, 16), {load}({sums}, {at_c}, 16))"
    emitter.line(f"{store}({sums}, {at_c}, {total})")


def tile_dot(emitter: NumbaStatements, stmt: Instruction) -> None:
    """Write `tile_dot_16x16x64_i8i8i32`. The rows of each tile may be any distance apart."""
    places = []
    for tile in stmt.tiles:
        places += [*start_of(emitter, tile), emitter.place(stride_of(emitter, tile, 0))]
    emitter.line(f"{emitter.use('tile_dot_i8')}({', '.join(places)})")
