"""Exercise 13: the register tile, from the data of a core.

A micro-kernel keeps a tile of rows x vectors vector registers of C. In each step it loads `vectors` vectors of B and
`rows` elements of A (each into all lanes of a vector), and does rows * vectors multiply-adds, one into each register of
the tile. A `Core` (lessons/pipeline.py) starts at most `core.ports` multiply-adds and `core.loads` loads a cycle; the
sum in a register can be used `core.latency` cycles after its multiply-add has started. Write

    cycles(rows, vectors, core) -> Fraction

the cycles of one step in the long run, with many steps one after the other, exactly (an int will do where the number is
whole, a float will not), and

    tile(core) -> (rows, vectors)

the tile that does the most multiply-adds a cycle. Of several that do, return one with the fewest loads a multiply-add.
It needs a register for each part of the tile, one for each vector of B, and one for an element of A: no more than
`core.registers` together. (A core has at least 3 registers. Why Fractions? Two tiles that are equally fast must not
differ by a rounding error.)

    core = Core(registers=16, latency=4, ports=2, loads=2)
    cycles(1, 2, core)   ->   Fraction(4)
    cycles(4, 3, core)   ->   Fraction(6)
    tile(core)           ->   (4, 3)

Check it with: minitvm lesson 13 --check
"""

from __future__ import annotations

from fractions import Fraction

from lessons.pipeline import Core


def cycles(rows: int, vectors: int, core: Core) -> Fraction:
    """The cycles of one step in the long run."""
    raise NotImplementedError("cycles(rows, vectors, core): the text at the top says what is wanted")


def tile(core: Core) -> tuple[int, int]:
    """The rows and vectors of the best tile."""
    raise NotImplementedError("tile(core): the text at the top says what is wanted")
