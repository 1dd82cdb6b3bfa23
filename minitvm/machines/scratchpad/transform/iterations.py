"""The iterations of an instruction in which its guards hold, and instructions that run only some iterations.

    instruction("accel.reset", 4, 8, tile(C[0], C[8], C[1], ..)):       instruction("accel.reset", 2, 8, tile(..)):
        for y, x in grid(4, 8):                                    ->       for y, x in grid(2, 8):
            if y < 2: C[y*8 + x] = 0                                            C[y*8 + x] = 0

A guard is a condition between an instruction's loops and its operation on an element. Tiles at an edge have guards.

**Theorem.** If each guard depends on at most one loop, the iterations in which all guards hold form a box. *Reason*:
each guard is a linear inequality, so it keeps the values of its loop on one side of a number. All guards of a loop
together keep an interval, and different loops are independent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ....errors import Unsupported
from ....expr import EQ, GE, GT, LE, LT, NE, Expr, IntImm, Var, const, replace
from ....tir.analysis.scratchpads import extents_of
from ....tir.conditions import conjuncts
from ....tir.nodes import BufferLoad, For, If, Instruction, Stmt, Tile
from ....tir.transform.affine import linear
from ....tir.transform.unroll import bind

Values = dict[Var, list[int]]  # of each loop


@dataclass(frozen=True, slots=True)
class InstructionNest:
    """The loops of an instruction, the guards among them, and the operation on an element."""

    loops: tuple[For, ...]
    guards: tuple[Expr, ...]
    inner: Stmt

    @property
    def values(self) -> Values:
        """The values of each loop's variable."""
        return {loop.var: list(range(extent_of(loop))) for loop in self.loops}


def nest_of(stmt: Instruction) -> InstructionNest:
    """Return the nest at the start of an instruction's body."""
    loops: list[For] = []
    guards: list[Expr] = []
    inner, count = stmt.body, len(extents_of(stmt))
    while len(loops) < count or isinstance(inner, If):
        if isinstance(inner, If):
            guards += conjuncts(inner.condition)
            inner = inner.then_case
            continue
        assert isinstance(inner, For)  # an instruction's body begins with its loops
        loops.append(inner)
        inner = inner.body
    return InstructionNest(tuple(loops), tuple(guards), inner)


def extent_of(loop: For) -> int:
    """Return the constant extent of a loop of an instruction."""
    assert isinstance(loop.extent, IntImm)
    return loop.extent.value


_HOLDS: dict[type[Expr], Callable[[int], bool]] = {
    GE: lambda a: a >= 0, GT: lambda a: a > 0, LE: lambda a: a <= 0, LT: lambda a: a < 0, EQ: lambda a: a == 0,
    NE: lambda a: a != 0,
}  # fmt: skip


def where(stmt: Instruction, conditions: Sequence[Expr], values: Values) -> Values | None:
    """Return the values of each loop variable for which all conditions hold, or None if a condition never holds.

    Raises `Unsupported` for a condition that is not a linear comparison, or that depends on several loops.
    """
    left = dict(values)
    for condition in conditions:
        holds = _HOLDS.get(type(condition))
        if isinstance(condition, IntImm):
            if not condition.value:
                return None
            continue
        form = None if holds is None else linear(condition.a - condition.b)  # type: ignore[attr-defined]
        if form is None or holds is None or any(term not in left for term in form.terms) or len(form.terms) > 1:
            raise Unsupported(f"{stmt.name}: the condition {condition} is not one on rows or on columns")
        if not form.terms:
            if not holds(form.const):
                return None
            continue
        ((var, step),) = form.terms.items()
        left[var] = [v for v in left[var] if holds(step * v + form.const)]
    return left


def unguarded(stmt: Instruction) -> Instruction | None:
    """Return an instruction without guards for the iterations in which the guards hold, or None if there are none.

    Everything around the instruction must be constant. Raises `Unsupported` if the iterations do not form a box.
    """
    nest = nest_of(stmt)
    if not nest.guards:
        return stmt
    left, box = where(stmt, nest.guards, nest.values), list[tuple[int, int]]()
    if left is None:
        return None
    for values in left.values():
        if not values:
            return None
        if values != list(range(values[0], values[-1] + 1)):
            raise Unsupported(f"{stmt.name}: its guards leave holes: {', '.join(map(str, nest.guards))}")
        box.append((values[0], len(values)))
    return narrowed(stmt, box)


def narrowed(stmt: Instruction, box: Sequence[tuple[int, int]]) -> Instruction:
    """Return the instruction for a part of its iterations, given as (first, count) per loop. Guards are assumed to hold
    there.
    """
    nest = nest_of(stmt)
    operands: list[Any] = [const(count, "int32") for _, count in box]
    for operand in stmt.operands[len(box) :]:
        operands.append(_moved(operand, box) if isinstance(operand, Tile) else operand)
    starts = {loop.var: loop.var + first for loop, (first, _) in zip(nest.loops, box, strict=True) if first}
    body = bind(nest.inner, starts) if starts else nest.inner
    for loop, (_, count) in zip(reversed(nest.loops), reversed(box), strict=True):
        body = For(loop.var, loop.start, const(count, loop.extent.dtype), loop.kind, body)
    return Instruction(stmt.name, tuple(operands), _own(body), stmt.together)


def without_unit_loops(stmt: Instruction, kept: int) -> Instruction:
    """Return the instruction without its loops of one iteration. The last `kept` loops stay."""
    extents = extents_of(stmt)
    gone = [k for k, n in enumerate(extents[: len(extents) - kept or None]) if n == 1]
    operands: list[Any] = [n for k, n in enumerate(stmt.operands[: len(extents)]) if k not in gone]
    for operand in stmt.operands[len(extents) :]:
        if isinstance(operand, Tile):
            operand = Tile(tuple(place for k, place in enumerate(operand.places) if k - 1 not in gone))
        operands.append(operand)

    def without(inner: Stmt, loop: int) -> Stmt:
        if isinstance(inner, If):
            return replace(inner, then_case=without(inner.then_case, loop))
        if loop == len(extents):
            return inner
        assert isinstance(inner, For)  # an instruction's body begins with its loops
        if loop in gone:
            return without(bind(inner.body, {inner.var: inner.start}), loop + 1)
        return replace(inner, body=without(inner.body, loop + 1))

    return Instruction(stmt.name, tuple(operands), without(stmt.body, 0), stmt.together) if gone else stmt


def _own(body: Stmt) -> Stmt:
    """Return a copy of a statement with new loop variables."""
    copy: Stmt = bind(body, {})
    return copy


def _moved(tile: Tile, box: Sequence[tuple[int, int]]) -> Tile:
    first, *others = tile.places
    offset = [0] * len(first.indices)
    for (start, _), along in zip(box, others, strict=False):
        steps = [number(b) - number(a) for a, b in zip(first.indices, along.indices, strict=True)]
        offset = [o + start * step for o, step in zip(offset, steps, strict=True)]
    moved = [_shifted(place, offset) for place in (first, *others)]
    for k, (_, count) in enumerate(box):
        moved[1 + k] = moved[1 + k] if count > 1 else moved[0]
    return Tile(tuple(moved))


def _shifted(place: BufferLoad, steps: Sequence[int]) -> BufferLoad:
    if not any(steps):
        return place
    indices = tuple(const(number(i) + s, i.dtype) for i, s in zip(place.indices, steps, strict=True))
    return BufferLoad(place.buffer, indices)


def number(index: Expr) -> int:
    """Return the value of an index that is constant."""
    form = linear(index)
    assert form.is_const
    return form.const
