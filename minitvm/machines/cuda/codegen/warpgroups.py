"""Write the instructions of a warpgroup in CUDA kernels: an accumulator is one variable, a tuple of a thread's sums.

An accumulator has 64 rows. For each 8 columns, a thread of warp w holds four sums: in rows 16w + g and 16w + g + 8, the
columns 2t and 2t + 1, where g = lane // 4 and t = lane % 4. `machines/cuda/runtime/warpgroups.py` has the operations.
PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16", "Matrix Descriptor Format".
"""

from __future__ import annotations

from typing import Any

from ....errors import Unsupported
from ....expr import IntImm
from ....tir.nodes import Instruction, Tile
from ...simd.codegen.operands import constant_stride, divides, refused, start_of, stride_of
from ..capability import has_warpgroups
from ..tensor_intrin.warpgroups import ACCUMULATOR, DEPTH, ROWS, SLAB, columns_of, steps_of

_PIECE = 8  # elements of 16 bits in the pieces of a line that change places


def fill(emitter: Any, stmt: Instruction) -> None:
    """Write an accumulator of zeros."""
    _needs(emitter, stmt)
    (tile,) = stmt.tiles
    finish(emitter)
    zeros = emitter.operation(f"wgmma_zeros_{ROWS}x{columns_of(stmt.name)}")
    emitter.line(f"{_sums(emitter, tile)} = {zeros}()")


def store(emitter: Any, stmt: Instruction) -> None:
    """Write a store of an accumulator: each thread stores its pairs of neighbours, at once if their places are
    certainly even.
    """
    _needs(emitter, stmt)
    fragment, place = stmt.tiles
    finish(emitter)
    array, start = start_of(emitter, place)
    row = stride_of(emitter, place, 0)
    at_once = 2 if all(divides(emitter, index, 2) for index in (place.places[0].indices[0], row)) else 1
    emitter.line(
        f"{emitter.operation('wgmma_store')}({_sums(emitter, fragment)}, {array}, {emitter.to_index(start)}, "
        f"{emitter.to_index(emitter.index(row))}, {emitter.lane}, {at_once})"
    )


def multiply(emitter: Any, stmt: Instruction) -> None:
    """Write a `wgmma.mma_async` for each 16 steps, and commit them as one group.

    It runs asynchronously until the threads `finish` it: before a barrier, after which its operands may be overwritten,
    and before any other operation accesses the sums. This does not change the program's meaning, because without it,
    other warpgroups of a block may also lag behind with their products.
    """
    _needs(emitter, stmt)
    a, b, c = stmt.tiles
    turned = stmt.name.endswith("_nt")
    kind = "bf16" if a.buffer.dtype == "bfloat16" else "f16"
    name = emitter.operation(f"wgmma_{ROWS}x{columns_of(stmt.name)}x{DEPTH}_{kind}{'_nt' if turned else ''}")
    sums = _sums(emitter, c)
    (array_a, start_a), (array_b, start_b) = (start_of(emitter, tile) for tile in (a, b))
    apart_a, apart_b = (_apart(emitter, stmt, tile) for tile in (a, b))
    emitter.line(f"{emitter.operation('wgmma_fence')}()")
    for step in range(0, steps_of(stmt.name), DEPTH):
        # Along a line the next steps are neighbours; if lines go along the columns, they are further lines.
        at_a, along = (step // SLAB * apart + step % SLAB for apart in (apart_a, apart_b))
        at_b = along if turned else step * SLAB
        place_a, place_b = emitter.to_index(f"{start_a} + {at_a}"), emitter.to_index(f"{start_b} + {at_b}")
        operands = f"{array_a}, {place_a}, {array_b}, {place_b}"
        emitter.line(f"{sums} = {name}({sums}, {operands}, {2 * apart_b})")
    emitter.line(f"{emitter.operation('wgmma_commit')}()")


def finish(emitter: Any) -> None:
    """Write a wait for the products that the threads have begun."""
    emitter.line(f"{emitter.operation('wgmma_wait')}(0)")


def _sums(emitter: Any, tile: Tile) -> str:
    """Return the variable of an accumulator. Raises `Unsupported` if its place is not constant, or not whole rows of
    64.
    """
    buffer = tile.buffer
    index = emitter.analyzer.simplify(tile.places[0].indices[0])
    row = stride_of(emitter, tile, 0)
    if buffer.scope != ACCUMULATOR:
        raise Unsupported(
            f"{buffer.name}: the accumulator of a warpgroup is of scope {ACCUMULATOR}, found {buffer.scope}"
        )
    if not isinstance(index, IntImm) or not isinstance(row, IntImm):
        raise Unsupported(
            f"{buffer.name}[{index}]: an accumulator is held in registers, which have no addresses\n"
            "  wanted: a constant place in it\n  try:    unroll the loops around the instruction"
        )
    if index.value % (ROWS * row.value):
        raise Unsupported(f"{buffer.name}[{index}]: accumulators of a warpgroup lie {ROWS} rows apart")
    name: str = emitter.tile(buffer, (index.value,))
    return name


def _apart(emitter: Any, stmt: Instruction, tile: Tile) -> int:
    """Return the elements from one slab of an operand to the next. Raises `Unsupported` for places that no descriptor
    can express.

    The stride from the first line to the second one includes the swizzle: the second line's pieces are swapped in
    pairs, so it seems to start one piece later.
    """
    slab, line, element = (constant_stride(emitter, tile, axis) for axis in range(3))
    first = tile.places[0].indices[0]
    if (line, element) != (SLAB + _PIECE, 1) or slab % (SLAB * 8) or not divides(emitter, first, SLAB * 8):
        raise refused(
            emitter, stmt, "swizzled lines of 128 bytes, slabs and operands at multiples of 8 lines",
            f"the strides {slab}, {line} and {element}, from {first}",
        )  # fmt: skip
    return slab


def _needs(emitter: Any, stmt: Instruction) -> None:
    if not has_warpgroups(emitter.target):
        found = getattr(emitter.target, "arch", "") or "no architecture"
        raise refused(emitter, stmt, "a device of sm_90a", found)
