"""Loops over what a thread keeps in registers: written out, and vectors where a machine has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....tir import Schedule


def in_registers(sch: Schedule, lanes: int, *nests: Sequence[Any]) -> None:
    """Unroll nests of loops; the innermost of each, over `lanes` neighbours, is a vector if there are several."""
    for nest in nests:
        for loop in nest[:-1]:
            sch.unroll(loop)
        if lanes > 1:
            sch.vectorize(nest[-1])
        else:
            sch.unroll(nest[-1])


def parts_in_registers(
    sch: Schedule, block: Any, around: int, part: Any, axes: Sequence[Any], lane: Any, lanes: int
) -> Any:
    """Let a thread add up the parts of a sum: `part` is the loop over them, `axes` are those over its own results.

    `around` is how many loops stand outside of these, `lane` is the innermost loop of what follows the sum. Returns the
    block of the sum's first values.
    """
    init = sch.decompose_reduction(block, part)
    sch.unroll(part)  # all loads are under way at once
    in_registers(sch, lanes, axes, list(sch.get_loops(init))[around:], [lane])
    return init
