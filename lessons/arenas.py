"""Memory plans: values that live from a step to a later one, and random networks of them.

values = random_values(seed=3)
clash = overlap(values, offsets)        two that live at the same time in the same bytes, or None
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Live:
    """A value of `nbytes` bytes, written in step `first` and read for the last time in step `last`."""

    nbytes: int
    first: int
    last: int


def overlap(values: Sequence[Live], offsets: Sequence[int]) -> tuple[int, int] | None:
    """The positions of two values that share a byte while both live."""
    for (i, a), (j, b) in itertools.combinations(enumerate(values), 2):
        together = a.first <= b.last and b.first <= a.last
        share = offsets[i] < offsets[j] + b.nbytes and offsets[j] < offsets[i] + a.nbytes
        if together and share and a.nbytes and b.nbytes:
            return i, j
    return None


def arena(values: Sequence[Live], offsets: Sequence[int]) -> int:
    """The bytes of the arena, up to the last one used."""
    return max((offset + value.nbytes for value, offset in zip(values, offsets, strict=True)), default=0)


def lower_bound(values: Sequence[Live]) -> int:
    """The most bytes that live in one step: no plan needs less."""
    steps = {value.first for value in values}
    return max((sum(v.nbytes for v in values if v.first <= step <= v.last) for step in steps), default=0)


def random_values(seed: int) -> list[Live]:
    """The values of a network: each step writes one; most are read in the next step, some are kept for a branch."""
    rng = random.Random(seed)
    steps = rng.randint(5, 40)
    sizes, waits = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32), (1, 1, 1, 2, 3, 5, 8, 13)
    return [
        Live(64 * rng.choice(sizes), step, min(steps, step + rng.choice(waits)))
        for step in range(steps)
    ]  # fmt: skip
