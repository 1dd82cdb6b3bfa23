"""Move the loops around an element's instruction into the instruction, for the machine's sequencers to run.

    for y, x in grid(4, 8):
        instruction("accel.reset", tile(C[y*8 + x, 0], ..)): ...
->
    instruction("accel.reset", 4, 8, tile(C[0, 0], C[8, 0], C[1, 0], ..)):
        for y, x in grid(4, 8): ...

The first numbers are the extents of the loops. A tile gives its first element, the next element along each of the
loops, and then, as before, the next ones within an element. The body is the whole nest, so the meaning stays the same.
Conditions among the loops, which tiles at an edge have, stay in the body as guards of the instruction (`iterations`).
"""

from __future__ import annotations

from typing import Any

from ....expr import Expr, IntImm, Var, const, free_vars, map_children, replace, substitute
from ....tir.conditions import conjuncts
from ....tir.nodes import BufferLoad, For, ForKind, If, Instruction, PrimFunc, Stmt, Tile
from ....tir.transform.affine import Affine, expr, linear, moves
from ..instruction_set import operation_of


def fold_nests(func: PrimFunc) -> PrimFunc:
    """Fold each nest of serial loops with constant extents, and of conditions, around a single instruction."""
    return func.with_body(_fold(func.body))


def _fold(stmt: Any) -> Any:
    if not isinstance(stmt, Stmt):
        return stmt
    if isinstance(stmt, For | If):
        nest = _nest(stmt)
        inner = nest[-1]
        if isinstance(inner, Instruction) and operation_of(inner.name) is not None:
            loops = [part for part in nest if isinstance(part, For)]
            if _affine(loops, inner) and _apart(nest, loops):
                return _folded(nest[:-1], loops, inner)
    if isinstance(stmt, Instruction):
        return stmt
    return map_children(stmt, _fold)


def _nest(stmt: Stmt) -> list[Stmt]:
    """Return nested loops and conditions without an else branch, each alone in the one before, and the innermost
    statement.
    """
    nest: list[Stmt] = []
    inner: Stmt = stmt
    while True:
        nest.append(inner)
        if isinstance(inner, If) and inner.else_case is None:
            inner = inner.then_case
        elif isinstance(inner, For) and inner.kind in (ForKind.SERIAL, ForKind.UNROLLED) and _is_constant(inner):
            inner = inner.body
        else:
            return nest


def _is_constant(loop: For) -> bool:
    return isinstance(loop.extent, IntImm) and isinstance(loop.start, IntImm) and loop.start.value == 0


def _affine(loops: list[For], instruction: Instruction) -> bool:
    """Return whether each place moves by a constant step along each loop."""
    variables = [loop.var for loop in loops]
    terms = (
        term for tile in instruction.tiles for place in tile.places for i in place.indices for term in linear(i).terms
    )
    return all(isinstance(term, Var) or not moves(Affine.of(term), variables) for term in terms)


def _apart(nest: list[Stmt], loops: list[For]) -> bool:
    """Return whether each condition depends on at most one of the loops, so that it holds in a box of iterations."""
    conditions = [c for part in nest if isinstance(part, If) for c in conjuncts(part.condition)]
    return all(sum(loop.var in free_vars(c) for loop in loops) <= 1 for c in conditions)


def _folded(nest: list[Stmt], loops: list[For], instruction: Instruction) -> Instruction:
    variables = [loop.var for loop in loops]
    zero: dict[Var, Expr] = {v: const(0, v.dtype) for v in variables}

    def place(load: BufferLoad, moved: Var | None = None) -> BufferLoad:
        values = zero if moved is None else {**zero, moved: const(1, moved.dtype)}
        indices = tuple(expr(linear(substitute(i, values)), i.dtype) for i in load.indices)
        return BufferLoad(load.buffer, indices)

    operands: list[Tile | Expr] = [const(loop.extent.value, "int32") for loop in loops]  # type: ignore[attr-defined]
    for operand in instruction.operands:
        if isinstance(operand, Tile):
            first, *inner = operand.places
            along = [place(first, loop.var if loop.extent.value > 1 else None) for loop in loops]  # type: ignore[attr-defined]
            operands.append(Tile((place(first), *along, *map(place, inner))))
        elif not any(v in variables for v in free_vars(operand)):
            operands.append(operand)  # what differs from element to element is in the body
    body = instruction.body
    for part in reversed(nest):
        body = replace(part, kind=ForKind.SERIAL, body=body) if isinstance(part, For) else replace(part, then_case=body)
    return Instruction(instruction.name, tuple(operands), body, instruction.together)
