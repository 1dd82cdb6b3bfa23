"""The frame of a transfer: which of its elements a condition replaces by zeros."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ....errors import Unsupported
from ....expr import EQ, GE, GT, LE, LT, NE, Call, Expr, IntImm, Var, walk
from ...analysis.scratchpads import extents_of
from ...conditions import conjuncts
from ...nodes import For, Instruction, Stmt
from ..affine import linear


@dataclass(frozen=True, slots=True)
class Frame:
    """Rows above and below, columns left and right, that are zeros and not read."""

    pads: tuple[int, int, int, int]


_HOLDS: dict[type[Expr], Callable[[int], bool]] = {
    GE: lambda a: a >= 0, GT: lambda a: a > 0, LE: lambda a: a <= 0, LT: lambda a: a < 0, EQ: lambda a: a == 0,
    NE: lambda a: a != 0,
}  # fmt: skip


def frame_of(stmt: Instruction) -> Frame | None:
    """The frame of a transfer of rows and columns, its last two loops; None where nothing is conditional.

    Raises `Unsupported` where the elements that are there are no box of rows and columns.
    """
    loops, inner = _loops(stmt)
    condition = next((n.args[0] for n in walk(inner) if isinstance(n, Call) and n.op == "if_then_else"), None)
    if condition is None:
        return None
    if len(loops) < 2:
        raise Unsupported(f"{stmt.name}: a frame is around rows and columns; there is one loop")
    own = {loop.var: list(range(_extent(loop))) for loop in loops}
    sizes = {var: len(values) for var, values in own.items()}
    for part in conjuncts(condition):
        var, values = _where(stmt, part, own)
        if var is None:
            own = {v: o if values else [] for v, o in own.items()}
        else:
            own[var] = [v for v in own[var] if v in values]
    *outer, row, column = [loop.var for loop in loops]
    if any(len(own[v]) != sizes[v] for v in outer):
        raise Unsupported(f"{stmt.name}: a condition on a loop outside of rows and columns: {condition}")
    pads: list[int] = []
    empty = not own[row] or not own[column]
    for var in (row, column):
        inside = own[var]
        if not empty and inside != list(range(inside[0], inside[-1] + 1)):
            raise Unsupported(f"{stmt.name}: {condition} leaves holes between rows or columns")
        pads += [sizes[var], 0] if empty else [inside[0], sizes[var] - 1 - inside[-1]]
    return Frame((pads[0], pads[1], pads[2], pads[3]))


def _loops(stmt: Instruction) -> tuple[list[For], Stmt]:
    """The loops of an instruction, and what it does to an element."""
    nest: list[For] = []
    inner = stmt.body
    for _ in extents_of(stmt):
        assert isinstance(inner, For)  # an instruction's body begins with its loops
        nest.append(inner)
        inner = inner.body
    return nest, inner


def _extent(loop: For) -> int:
    assert isinstance(loop.extent, IntImm)
    return loop.extent.value


def _where(stmt: Instruction, condition: Expr, own: dict[Var, list[int]]) -> tuple[Any, Any]:
    """(a loop's variable, its values for which a condition holds); (None, whether it does) where no loop decides."""
    holds = _HOLDS.get(type(condition))
    if isinstance(condition, IntImm):
        return None, bool(condition.value)
    form = None if holds is None else linear(condition.a - condition.b)  # type: ignore[attr-defined]
    if form is None or holds is None or any(term not in own for term in form.terms) or len(form.terms) > 1:
        raise Unsupported(f"{stmt.name}: the condition {condition} is not one on rows or on columns")
    if not form.terms:
        return None, holds(form.const)
    ((var, step),) = form.terms.items()
    return var, [v for v in own[var] if holds(step * v + form.const)]
