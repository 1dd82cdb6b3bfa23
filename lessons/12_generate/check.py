"""Replays the learner's schedules, in a small compiler that is right and in eight that each have one bug."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
from hypothesis import strategies as st

from lessons.grading import attempt, cases, require
from lessons.sampling import some

Step = tuple[Any, ...]
Bug = Callable[[list[Step], tuple[int, ...]], bool]  # of the steps up to this one, and the extents before it

NESTS = ([8], [4, 6], [2, 3, 4])
DRAWN = 200  # schedules for each nest
BUGS: dict[str, Bug] = {
    "a split whose factor is 1": lambda steps, loops: is_split(steps) and steps[-1][2] == 1,
    "a split whose factor is the whole extent": lambda steps, loops: (
        is_split(steps) and steps[-1][2] == loops[steps[-1][1]]
    ),
    "a split of a loop that is not the outermost": lambda steps, loops: is_split(steps) and steps[-1][1] > 0,
    "a split of a loop that the step before has fused": lambda steps, loops: (
        is_split(steps) and steps[-2:-1] == [("fuse", steps[-1][1])]
    ),
    "a fuse right after a swap": lambda steps, loops: [step[0] for step in steps[-2:]] == ["swap", "fuse"],
    "a fuse of the two innermost loops of at least three": lambda steps, loops: (
        steps[-1] == ("fuse", len(loops) - 2) and len(loops) > 2
    ),
    "a swap in a nest of four or more loops": lambda steps, loops: steps[-1][0] == "swap" and len(loops) > 3,
    "the sixth step of a schedule": lambda steps, loops: len(steps) == 6,
}


def is_split(steps: list[Step]) -> bool:
    """Whether the last step is a split."""
    return bool(steps[-1][0] == "split")


def order(extents: list[int], steps: list[Step], bug: Bug | None = None) -> list[int]:
    """The iterations in the order in which the scheduled nest runs them, by their numbers in the nest as written.

    A step that has the bug runs each iteration in the place of the next one. The steps must be legal.
    """
    nest = np.arange(np.prod(extents, dtype=int)).reshape(extents)
    for number, (kind, k, *factors) in enumerate(steps, 1):
        loops = nest.shape
        if kind == "swap":
            nest = nest.swapaxes(k, k + 1)
        elif kind == "fuse":
            nest = nest.reshape(*loops[:k], loops[k] * loops[k + 1], *loops[k + 2 :])
        else:
            nest = nest.reshape(*loops[:k], loops[k] // factors[0], factors[0], *loops[k + 1 :])
        if bug is not None and bug(steps[:number], loops):
            nest = np.roll(nest, -1)
    return [int(iteration) for iteration in nest.ravel()]


def complaint(extents: list[int], steps: Any) -> str:
    """The first step that is not legal, in words; "" if all are."""
    if not isinstance(steps, list) or len(steps) > 6:
        return "wanted a list of at most 6 steps"
    loops = list(extents)
    for number, step in enumerate(steps):
        kind, k, *factors = step if isinstance(step, tuple) and len(step) > 1 else ("", 0)
        if kind not in ("split", "fuse", "swap") or len(factors) != (kind == "split"):
            return f"step {number} is {step!r}, which is no step of the three kinds"
        now = f"and the extents are {loops} then"
        if not 0 <= k < len(loops) - (kind != "split"):
            return f"step {number} is {step}, {now}: " + (
                f"no loop {k}" if kind == "split" else f"no loops {k}, {k + 1}"
            )
        if kind == "split":
            if factors[0] < 1 or loops[k] % factors[0]:
                return f"step {number} is {step}, {now}: {factors[0]} does not divide {loops[k]}"
            loops[k : k + 1] = [loops[k] // factors[0], factors[0]]
        else:
            loops[k : k + 2] = [loops[k] * loops[k + 1]] if kind == "fuse" else [loops[k + 1], loops[k]]
    return ""


def check(module: ModuleType) -> None:
    """Raises AssertionError with the smallest schedule that is not legal, or with a bug that no schedule exposes."""

    @cases(400, data=st.data(), extents=st.lists(st.integers(1, 8), min_size=1, max_size=3))
    def draws_only_legal_schedules(data: st.DataObject, extents: list[int]) -> None:
        strategy = attempt(f"schedules({extents})", module.schedules, list(extents))
        require(isinstance(strategy, st.SearchStrategy), f"schedules({extents}) is {strategy!r}, and no strategy")
        steps = data.draw(strategy)
        require(not (said := complaint(extents, steps)), f"schedules({extents}) drew {steps}\n{said}")

    @cases(1, nests=st.just(NESTS))
    def finds_eight_bugs(nests: tuple[list[int], ...]) -> None:
        drawn = [(extents, steps) for extents in nests for steps in some(module.schedules(list(extents)), DRAWN)]
        drawn = [(extents, steps) for extents, steps in drawn if not complaint(extents, steps)]
        for name, bug in BUGS.items():
            exposed = any(order(extents, steps, bug) != order(extents, steps) for extents, steps in drawn)
            listed = ", ".join(map(str, nests))
            require(
                exposed, f"this bug is not found: {name}\nnone of {DRAWN} schedules for each of {listed} exposes it"
            )
