"""A processor core as small as can be: when can each multiply-add of a micro-kernel start?

    Core(registers=16, latency=4, ports=2, loads=2)
    cycles_a_step(6, 2, core)       in the long run, by playing it cycle after cycle

It takes from real cores what lesson 15 is about: units that are pipelined, results that come late, loads that share
ports. It has no caches, and looks ahead as far as it likes.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Core:
    """A core that starts up to `ports` multiply-adds and `loads` loads a cycle, on vectors.

    The result of a multiply-add can be used `latency` cycles after its start. There are `registers` vector registers.
    """

    registers: int
    latency: int
    ports: int
    loads: int


def starts(rows: int, vectors: int, core: Core, steps: int) -> list[list[int]]:
    """The cycle in which each multiply-add starts, step by step, for a tile of `rows` x `vectors` registers.

    A step loads `rows` elements of A, each into all lanes of a vector, and `vectors` vectors of B; then each register
    of the tile adds one product to what the step before left in it. Who waits longest goes first.
    """
    started: list[list[int]] = []
    busy: dict[int, int] = {}  # multiply-adds that start in a cycle
    for step in range(steps):
        now = []
        for place in range(rows * vectors):
            row, column = divmod(place, vectors)
            # Loads of all steps queue up, a step's vectors of B before its elements of A.
            needed = max(step * (rows + vectors) + column, step * (rows + vectors) + vectors + row)
            ready = needed // core.loads
            if step:
                ready = max(ready, started[-1][place] + core.latency)
            while busy.get(ready, 0) == core.ports:
                ready += 1
            busy[ready] = busy.get(ready, 0) + 1
            now.append(ready)
        started.append(now)
    return started


def cycles_a_step(rows: int, vectors: int, core: Core, steps: int = 48) -> float:
    """The cycles of a step in the long run: the first third of the steps is not counted."""
    played = starts(rows, vectors, core, steps)
    first = steps // 3
    return (max(played[-1]) - max(played[first])) / (steps - 1 - first)
