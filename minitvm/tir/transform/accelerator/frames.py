"""The frame of a transfer: which of its elements a condition replaces by zeros."""

from __future__ import annotations

from dataclasses import dataclass

from ....errors import Unsupported
from ....expr import Call, walk
from ...conditions import conjuncts
from ...nodes import Instruction
from .iterations import nest_of, where


@dataclass(frozen=True, slots=True)
class Frame:
    """Rows above and below, columns left and right, that are zeros and not read."""

    pads: tuple[int, int, int, int]


def frame_of(stmt: Instruction) -> Frame | None:
    """The frame of a transfer of rows and columns, its last two loops; None where nothing is conditional.

    Raises `Unsupported` where the elements that are there are no box of rows and columns.
    """
    nest = nest_of(stmt)
    condition = next((n.args[0] for n in walk(nest.inner) if isinstance(n, Call) and n.op == "if_then_else"), None)
    if condition is None:
        return None
    if len(nest.loops) < 2:
        raise Unsupported(f"{stmt.name}: a frame is around rows and columns; there is one loop")
    sizes = {var: len(values) for var, values in nest.values.items()}
    *outer, row, column = sizes
    own = where(stmt, conjuncts(condition), nest.values)
    if own is None:
        return Frame((sizes[row], 0, sizes[column], 0))
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
