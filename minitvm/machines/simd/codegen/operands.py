"""Write the operands of an instruction: the start of a tile, and the distances between its elements."""

from __future__ import annotations

from typing import Any

from ....errors import Unsupported, report
from ....expr import EQ, Expr, IntImm, const, find, substitute, walk
from ....tir.nodes import Buffer, BufferLoad, BufferStore, Instruction, Stmt, Tile
from ....tir.script.printer import script
from .numba_statements import NumbaStatements


def start_of(emitter: NumbaStatements, tile: Tile) -> tuple[str, str]:
    """Return (the array, the index of the tile's first element) as text. The tile must be in memory, not in
    registers.
    """
    return emitter.names[tile.buffer], emitter.place(tile.places[0].indices[0])


def stride_of(emitter: NumbaStatements, tile: Tile, axis: int) -> Expr:
    """Return the distance, in elements of the flat buffer, between neighbouring elements of a tile along an axis."""
    stride: Expr = emitter.analyzer.simplify(tile.places[1 + axis].indices[0] - tile.places[0].indices[0])
    return stride


def constant_stride(emitter: NumbaStatements, tile: Tile, axis: int) -> int:
    """Return the stride along an axis as a number. Raises `Unsupported` if it is not constant."""
    stride = stride_of(emitter, tile, axis)
    if not isinstance(stride, IntImm):
        raise Unsupported(f"{tile.buffer.name}: an instruction with the stride {stride}\n  wanted: a constant stride")
    return stride.value


def plain(emitter: NumbaStatements, index: Any) -> Any:
    """Return an index after replacing variables that lets define with their values."""
    return substitute(index, dict(emitter.lets)) if emitter.lets else index


def divides(emitter: NumbaStatements, value: Expr, number: int) -> bool:
    """Return whether `value` can be proved to be a multiple of `number`."""
    return bool(emitter.analyzer.can_prove(EQ(plain(emitter, value) % number, const(0, value.dtype))))


def refused(emitter: NumbaStatements, stmt: Instruction, wanted: str, found: str) -> Unsupported:
    """Return the error for an instruction that a kernel cannot use."""
    program = script(emitter.kernel, mark={stmt: "here"}, context=2)
    return Unsupported(
        report(f"{emitter.kernel.name}: {stmt.name} cannot be used", program=program, wanted=wanted, found=found)
    )


def access_outside(buffer: Buffer, body: Stmt) -> BufferLoad | BufferStore | None:
    """Return the first load or store of a buffer that is not an operand of an instruction, or None."""
    inside = {n for i in find(body, Instruction) for n in walk(i)}
    accesses = (n for n in find(body, BufferLoad | BufferStore) if n.buffer is buffer)
    return next((n for n in accesses if n not in inside), None)
