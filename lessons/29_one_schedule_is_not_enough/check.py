"""Draws machines, fetches the elements of each schedule's tiles thread by thread, and names a better schedule."""

from __future__ import annotations

import functools
from fractions import Fraction
from types import ModuleType

from hypothesis import strategies as st

from lessons.grading import attempt, cases, require

Way = tuple[int, int, bool]
SIDE, STEPS = 8, 8  # a block has SIDE x SIDE threads, and a piece has STEPS steps
WAYS = [(rows, columns, shared) for rows in range(1, 17) for columns in range(1, 17) for shared in (False, True)]


@functools.cache
def accesses(way: Way, separate: bool) -> int:
    """The accesses of one thread through the cache for a piece, from the accesses of all threads of the block."""
    rows, columns, shared = way
    read = sum(STEPS * (rows + columns) for _ in range(SIDE * SIDE))  # by all threads
    if not shared:
        return read // SIDE**2
    of_a = {(row, step) for row in range(SIDE * rows) for step in range(STEPS)}
    of_b = {(step, column) for column in range(SIDE * columns) for step in range(STEPS)}
    fetched = len(of_a) + len(of_b)  # each element of both tiles once
    return (fetched if separate else fetched + fetched + read) // SIDE**2


def limits(way: Way, registers: int, shared_bytes: int) -> str:
    """The limit that a schedule exceeds, in words; "" if it fits."""
    rows, columns, shared = way
    if (needed := rows * columns + rows + columns) > registers:
        return f"a thread needs {needed} registers"
    if shared and (needed := 4 * STEPS * SIDE * (rows + columns)) > shared_bytes:
        return f"a block needs {needed} bytes of shared memory"
    return ""


def check(module: ModuleType) -> None:
    """Raises AssertionError with the smallest machine for which there is a better schedule."""
    sizes = st.integers(0, 40).map(lambda k: 256 * k) | st.integers(0, 10000)

    @cases(300, registers=st.integers(3, 300), shared_bytes=sizes, separate=st.booleans())
    def chooses_the_best_schedule(registers: int, shared_bytes: int, separate: bool) -> None:
        case = f"choose({registers}, {shared_bytes}, {separate})"
        answer = attempt(case, module.choose, registers, shared_bytes, separate)
        sound = isinstance(answer, tuple) and answer in WAYS and isinstance(answer[2], bool)
        require(sound, f"{case} returned {answer!r}, wanted rows, columns from 1 to 16, and whether tiles are shared")
        require(not (said := limits(answer, registers, shared_bytes)), f"{case} is {answer}: {said}")

        def cost(way: Way) -> tuple[Fraction, int, bool, int]:
            rows, columns, shared = way
            done = STEPS * rows * columns
            return Fraction(accesses(way, separate), done), rows * columns + rows + columns, shared, rows

        best = min((way for way in WAYS if not limits(way, registers, shared_bytes)), key=cost)
        mine, fewest = cost(answer), cost(best)
        require(
            mine[0] == fewest[0],
            f"{case} is {answer}, with {mine[0]} accesses per multiply-add\n{best} fits, too, and has {fewest[0]}",
        )
        reason = "fewer registers" if fewest[1] < mine[1] else "nothing shared" if fewest[2] < mine[2] else "fewer rows"
        require(answer == best, f"{case} is {answer}\n{best} has as many accesses per multiply-add, and {reason}")
