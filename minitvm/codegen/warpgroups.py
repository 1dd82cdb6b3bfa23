"""How CUDA kernels spell the instructions of a warpgroup: an accumulator is one variable, a tuple of a thread's sums.

Of each 8 columns of an accumulator of 64 rows a thread holds four sums: of warp w, in rows 16w + g and 16w + g + 8, the
columns 2t and 2t + 1, where g = lane // 4 and t = lane % 4. `runtime/cuda/warpgroups.py` has the operations.
PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16", "Matrix Descriptor Format".
"""

from __future__ import annotations

from typing import Any

from ..errors import Unsupported
from ..expr import EQ, IntImm, const
from ..target.cuda_capability import has_warpgroups
from ..tir.nodes import Instruction, Tile
from ..tir.tensor_intrin.warpgroups import ACCUMULATOR, CHUNK, DEPTH, ROWS, columns_of, steps_of
from .operands import constant_stride, plain, refused, start_of, stride_of

_CORE = 8 * CHUNK * 2  # bytes of a core matrix: 8 rows of 16 bytes


def fill(emitter: Any, stmt: Instruction) -> None:
    """An accumulator of zeros."""
    _needs(emitter, stmt)
    (tile,) = stmt.tiles
    zeros = emitter.operation(f"wgmma_zeros_{ROWS}x{columns_of(stmt.name)}")
    emitter.line(f"{_sums(emitter, tile)} = {zeros}()")


def store(emitter: Any, stmt: Instruction) -> None:
    """An accumulator to memory: each thread its pairs of neighbours."""
    _needs(emitter, stmt)
    fragment, place = stmt.tiles
    array, start = start_of(emitter, place)
    row = emitter.word(emitter.index(stride_of(emitter, place, 0)))
    emitter.line(
        f"{emitter.operation('wgmma_store')}({_sums(emitter, fragment)}, {array}, {emitter.word(start)}, {row}, "
        f"{emitter.lane})"
    )


def multiply(emitter: Any, stmt: Instruction) -> None:
    """A `wgmma.mma_async` for each 16 steps, together a group, for which the threads wait."""
    _needs(emitter, stmt)
    a, b, c = stmt.tiles
    turned = stmt.name.endswith("_nt")
    kind = "bf16" if a.buffer.dtype == "bfloat16" else "f16"
    name = emitter.operation(f"wgmma_{ROWS}x{columns_of(stmt.name)}x{DEPTH}_{kind}{'_nt' if turned else ''}")
    sums = _sums(emitter, c)
    (array_a, start_a), (array_b, start_b) = (start_of(emitter, tile) for tile in (a, b))
    apart_a, apart_b = (_apart(emitter, stmt, tile) for tile in (a, b))
    # Core matrices of 8 rows lie one behind the other; along its rows an operand goes on in the next chunk.
    offsets_a = f"{2 * apart_a}, {_CORE}"
    offsets_b = f"{2 * apart_b}, {_CORE}" if turned else f"{_CORE}, {2 * apart_b}"
    emitter.line(f"{emitter.operation('wgmma_fence')}()")
    for step in range(0, steps_of(stmt.name), DEPTH):
        at_a = emitter.word(f"{start_a} + {step // CHUNK * apart_a}")
        at_b = emitter.word(f"{start_b} + {step // CHUNK * apart_b if turned else step * CHUNK}")
        emitter.line(f"{sums} = {name}({sums}, {array_a}, {at_a}, {offsets_a}, {array_b}, {at_b}, {offsets_b})")
    emitter.line(f"{emitter.operation('wgmma_commit')}()")
    emitter.line(f"{emitter.operation('wgmma_wait')}(0)")


def _sums(emitter: Any, tile: Tile) -> str:
    """The variable of an accumulator; refuses one whose place is not constant, or not whole rows of 64."""
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
    """Elements from one chunk of an operand to the next; refuses places that a descriptor does not have."""
    chunk, row, column = (constant_stride(emitter, tile, axis) for axis in range(3))
    first = tile.places[0].indices[0]
    starts = emitter.analyzer.can_prove(EQ(plain(emitter, first) % CHUNK, const(0, first.dtype)))
    if (row, column) != (CHUNK, 1) or chunk % CHUNK or not starts:
        raise refused(
            emitter, stmt, "chunks of rows of 8 elements, all at multiples of 16 bytes",
            f"the strides {chunk}, {row} and {column}, from {first}",
        )  # fmt: skip
    return chunk


def _needs(emitter: Any, stmt: Instruction) -> None:
    if not has_warpgroups(emitter.target):
        found = getattr(emitter.target, "arch", "") or "no architecture"
        raise refused(emitter, stmt, "a device of sm_90a", found)
