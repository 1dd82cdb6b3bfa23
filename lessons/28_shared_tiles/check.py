"""Serves the threads of a warp step by step, as banks do, and compares the learner's numbers with what it sees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from hypothesis import strategies as st

from lessons.grading import attempt, cases, require

BANKS = 32


@dataclass(frozen=True)
class Reading:
    """What the threads of a warp read at once: `wide` elements each, from their places in a tile."""

    wide: int
    places: tuple[tuple[int, int], ...]

    def told(self) -> tuple[int, list[tuple[int, int]]]:
        """What the learner sees."""
        return self.wide, list(self.places)

    def served(self, line: int) -> list[list[int]]:
        """The elements that are handed out in each step: of each bank the first that is still asked for."""
        handed_out = []
        for first in range(0, len(self.places), BANKS // self.wide):
            group = self.places[first : first + BANKS // self.wide]
            asked = sorted({row * line + column + k for row, column in group for k in range(self.wide)})
            while asked:
                one_a_bank = {element % BANKS: element for element in reversed(asked)}
                handed_out.append(sorted(one_a_bank.values()))
                asked = [element for element in asked if one_a_bank[element % BANKS] != element]
        return handed_out

    def __str__(self) -> str:
        return f"wide {self.wide}, {len(self.places)} places {list(self.places)}"


@st.composite
def readings(draw: Callable[..., Any]) -> Reading:
    """Threads in a grid over a tile, some rows and columns apart along both axes of the grid; or a few anywhere."""
    wide = draw(st.sampled_from([1, 2, 4]))
    if draw(st.booleans()):
        anywhere = st.tuples(st.integers(0, 4), st.integers(0, 3).map(lambda k: k * wide))
        return Reading(wide, tuple(draw(st.lists(anywhere, min_size=1, max_size=12))))
    threads, across = draw(st.integers(1, BANKS)), draw(st.sampled_from([1, 2, 4, 8, 16, 32]))
    (row, column), (row_on, column_on) = (draw(st.tuples(st.integers(0, 2), st.integers(0, 2))) for _ in range(2))
    grid = [(t // across, t % across) for t in range(threads)]
    return Reading(wide, tuple((u * row + v * row_on, (u * column + v * column_on) * wide) for u, v in grid))


def check(module: ModuleType) -> None:
    """Raises AssertionError with the smallest access whose steps are wrong, or tile whose lines are no good."""

    @cases(250, line=st.integers(1, 70), reading=readings())
    def every_thread_is_served_in_as_many_steps(line: int, reading: Reading) -> None:
        line += -line % reading.wide
        what = f"with line {line}, {reading}:\n"
        answer = attempt(what, module.steps, line, *reading.told())
        served = reading.served(line)
        require(isinstance(answer, int), f"{what}steps returned {answer!r}; wanted a number")
        after = f"after step {answer} element {served[answer][0]} is" if 0 <= answer < len(served) else ""
        require(answer >= len(served), f"{what}steps returned {answer}; {after or 'something is'} still asked for")
        last = f"after step {len(served)} all threads have what they read"
        require(answer == len(served), f"{what}steps returned {answer}; {last}, since the steps hand out {served}")

    def judge(what: str, width: int, accesses: list[Reading]) -> None:
        each = max((reading.wide for reading in accesses), default=1)
        answer = attempt(what, module.shortest_line, width, [reading.told() for reading in accesses])
        fits = isinstance(answer, int) and answer >= width
        require(fits, f"{what}shortest_line returned {answer!r}; wanted a number of at least {width}")
        astray = f"a thread reads {each} elements at once: wanted a multiple of {each}"
        require(answer % each == 0, f"{what}shortest_line returned {answer}; {astray}")
        needed = {length: total(accesses, length) for length in range(width, width + 2 * BANKS) if length % each == 0}
        fewest = min(needed.values())
        best = next(length for length, count in needed.items() if count == fewest)
        found = f"{what}shortest_line returned {answer}, with {total(accesses, answer)} steps"
        require(total(accesses, answer) == fewest, f"{found}; with {best} there are {fewest}")
        require(answer == best, f"{found}; {best} has as many and is shorter")

    @cases(120, width=st.integers(1, 66), accesses=st.lists(readings(), max_size=2))
    def lines_are_as_short_as_they_can_be(width: int, accesses: list[Reading]) -> None:
        listed = "\n".join(f"    {reading}" for reading in accesses) or "    no accesses"
        judge(f"with width {width} and\n{listed}\n", width, accesses)

    @cases(32, width=st.integers(32, 66), bank=st.integers(0, BANKS - 1))
    def one_length_of_32_is_best(width: int, bank: int) -> None:
        accesses = [Reading(1, ((0, c), (1, 0))) for c in range(BANKS) if c != bank]
        judge(f"shortest_line({width}, [(1, [(0, c), (1, 0)]) for c in range(32) if c != {bank}]):\n", width, accesses)


def total(accesses: list[Reading], line: int) -> int:
    """The steps of all accesses together. A group takes as many as its busiest bank has elements."""
    steps = 0
    for reading in accesses:
        for first in range(0, len(reading.places), BANKS // reading.wide):
            group = reading.places[first : first + BANKS // reading.wide]
            elements = {row * line + column + k for row, column in group for k in range(reading.wide)}
            steps += max(Counter(element % BANKS for element in elements).values())
    return steps
