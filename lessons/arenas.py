"""Memory plans: values that live from a step to a later one, and random networks of them.

values = random_values(seed=3)
clash = overlap(values, offsets)        two that live at the same time in the same bytes, or None
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from minitvm.executable.nodes import ArenaSlice, CallKernel, Executable

from .picture import Picture


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


def moved(executable: Executable, old: int, new: int, nbytes: int) -> Executable:
    """The executable with all slices of `nbytes` bytes at `old` moved to `new`."""
    steps = []
    for step in executable.steps:
        if isinstance(step, CallKernel):
            slices = [
                replace(arg, offset=new)
                if isinstance(arg, ArenaSlice) and (arg.offset, arg.nbytes) == (old, nbytes)
                else arg
                for arg in step.args
            ]
            step = replace(step, args=tuple(slices))
        steps.append(step)
    return replace(executable, steps=tuple(steps))


def plan_picture(values: Sequence[Live], offsets: Sequence[int]) -> Picture:
    """A plan as a picture: steps go down, bytes go right, and each box is a value."""
    size = arena(values, offsets)
    steps = max(value.last for value in values) + 1
    picture = Picture(860, 60 + 12 * steps)
    picture.words(20, 24, f"{len(values)} values in {size:,} bytes; {lower_bound(values):,} is the lower bound", 14)
    wide, high = 820 / size, 12
    picture.box(20, 40, 820, high * steps, "#dddddd")
    colours = ("#1f78b4", "#33a02c", "#e31a1c", "#ff7f00", "#6a3d9a", "#b15928", "#a6cee3", "#b2df8a", "#fdbf6f")
    for number, (value, offset) in enumerate(zip(values, offsets, strict=True)):
        picture.box(20 + offset * wide, 40 + value.first * high, value.nbytes * wide,
                    (value.last - value.first + 1) * high, colours[number % len(colours)], "white")  # fmt: skip
    return picture


C_SIZES = {"float": 4, "double": 8, "int8_t": 1, "uint8_t": 1, "int32_t": 4, "int64_t": 8}


@dataclass(frozen=True, slots=True)
class Placed:
    """An array of a plan, for a C program: `count` elements of the type `ctype`, from the byte `offset` on."""

    name: str
    ctype: str
    count: int
    offset: int

    @property
    def end(self) -> int:
        """The first byte after the array."""
        return self.offset + self.count * C_SIZES[self.ctype]
