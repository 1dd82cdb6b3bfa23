"""Wrong: a mapping goes from the computation to the instruction."""

from __future__ import annotations

from itertools import permutations
from typing import Any


def mappings(computation: dict[str, Any], instruction: dict[str, Any]) -> list[dict[str, str]]:
    """All mappings of the instruction's loops to loops of the computation that fit."""
    ours, its = computation["loops"], instruction["loops"]
    found = []
    for chosen in permutations(ours, len(its)):
        mapping = dict(zip(its, chosen, strict=True))
        if all(tiles(ours[mapping[loop]], its[loop]) for loop in its) and fits(mapping, computation, instruction):
            found.append({b: a for a, b in mapping.items()})
    return found


def tiles(loop: int, tile: int) -> bool:
    """Whether a loop can be split into tiles."""
    return loop % tile == 0


def fits(mapping: dict[str, str], computation: dict[str, Any], instruction: dict[str, Any]) -> bool:
    """Whether operands have the mapped loops where the instruction's have its own."""

    def same(operand: str, other: str) -> bool:
        return all((loop in instruction[other]) == (mapping[loop] in computation[operand]) for loop in mapping)

    straight = same("left", "left") and same("right", "right")
    crossed = same("left", "right") and same("right", "left")
    return same("result", "result") and (straight or crossed)
