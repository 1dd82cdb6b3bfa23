"""Exercise 15: the register tile, from the data of a core.

A micro-kernel (the innermost part of a matrix product) keeps a tile of C in rows x vectors vector registers. In each
step it loads `vectors` vectors of B and `rows` elements of A, each into all lanes of a vector. Then it does rows *
vectors multiply-adds, one into each register of the tile. A `Core` (lessons/pipeline.py) can start at most `core.ports`
multiply-adds and `core.loads` loads in each cycle. The sum in a register can be used `core.latency` cycles after its
multiply-add has started. Write

    cycles(rows, vectors, core) -> Fraction

It returns the average number of cycles of a step if there are very many steps one after another. The number must be
exact. (You may return an int if the number is whole, but not a float.) And write

    tile(core) -> (rows, vectors)

It returns the tile that does the most multiply-adds in a cycle. If several tiles are equally good, return one of those
with the fewest loads for each multiply-add. A tile needs rows * vectors registers for itself, one register for each
vector of B, and one for an element of A. Together these must be at most `core.registers`. (A core has at least 3
registers. We use Fractions because two equally fast tiles must not differ by a rounding error.)

    core = Core(registers=16, latency=4, ports=2, loads=2)
    cycles(1, 2, core)   ->   Fraction(4)
    cycles(4, 3, core)   ->   Fraction(6)
    tile(core)           ->   (4, 3)

Check it with: minitvm lesson 15 --check
"""

from __future__ import annotations

from fractions import Fraction

from lessons.pipeline import Core


def cycles(rows: int, vectors: int, core: Core) -> Fraction:
    """The cycles of one step in the long run."""
    raise NotImplementedError("cycles(rows, vectors, core): the text at the top describes the task")


def tile(core: Core) -> tuple[int, int]:
    """The rows and vectors of the best tile."""
    raise NotImplementedError("tile(core): the text at the top describes the task")
