"""Wrong: a step need not take whole cycles; the next one fills the gap."""

from __future__ import annotations

from fractions import Fraction

from lessons.pipeline import Core


def cycles(rows: int, vectors: int, core: Core) -> Fraction:
    """The cycles of one step in the long run."""
    return max(
        Fraction(core.latency), Fraction(-(-rows * vectors // core.ports)), Fraction(-(-(rows + vectors) // core.loads))
    )


def tile(core: Core) -> tuple[int, int]:
    """The rows and vectors of the best tile."""

    def cost(tile: tuple[int, int]) -> tuple[Fraction, Fraction]:
        rows, vectors = tile
        return cycles(rows, vectors, core) / (rows * vectors), Fraction(rows + vectors, rows * vectors)

    sizes = range(1, core.registers + 1)
    return min(((r, v) for r in sizes for v in sizes if r * v + v + 1 <= core.registers), key=cost)
