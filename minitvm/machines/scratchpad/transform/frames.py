"""The frame of a transfer: the elements that a condition replaces with zeros."""

from __future__ import annotations

from dataclasses import dataclass

from ....errors import Unsupported
from ....expr import Call, find
from ....tir.conditions import conjuncts
from ....tir.nodes import Instruction
from .iterations import nest_of, where


@dataclass(frozen=True, slots=True)
class Frame:
    """The numbers of rows above and below, and of columns left and right, that are zeros and not read."""

    pads: tuple[int, int, int, int]


def frame_of(stmt: Instruction) -> Frame | None:
    """Return the frame of a transfer of rows and columns, its last two loops, or None if the transfer is unconditional.

    Raises `Unsupported` if the elements inside the frame do not form a box of rows and columns.
    """
    nest = nest_of(stmt)
    condition = next((n.args[0] for n in find(nest.inner, Call) if n.op == "if_then_else"), None)
    if condition is None:
        return None
    if len(nest.loops) < 2:
        raise Unsupported(f"{stmt.name}: a frame is around rows and columns; there is one loop")
    sizes = {var: len(values) for var, values in nest.values.items()}
    *outer, row, column = sizes
    own = where(stmt, conjuncts(condition), nest.values)
    if own is None:
        return _nothing(sizes[row], sizes[column])
    if any(len(own[v]) != sizes[v] for v in outer):
        raise Unsupported(f"{stmt.name}: a condition on a loop outside of rows and columns: {condition}")
    if not own[row] or not own[column]:
        return _nothing(sizes[row], sizes[column])
    pads: list[int] = []
    for var in (row, column):
        inside = own[var]
        if inside != list(range(inside[0], inside[-1] + 1)):
            raise Unsupported(f"{stmt.name}: {condition} leaves holes between rows or columns")
        pads += [inside[0], sizes[var] - 1 - inside[-1]]
    return Frame((pads[0], pads[1], pads[2], pads[3]))


def _nothing(rows: int, columns: int) -> Frame:
    """Return a frame without elements inside: either no rows, or rows without columns, whichever needs the smaller
    number.
    """
    return Frame((rows, 0, 0, 0) if rows <= columns else (0, 0, columns, 0))
