"""Plays the learner's cycles on the small core, and tries every tile against the learner's."""

from __future__ import annotations

from fractions import Fraction
from types import ModuleType

from hypothesis import strategies as st

from lessons.grading import attempt, cases, require
from lessons.pipeline import Core, cycles_a_step


def cycles(rows: int, vectors: int, core: Core) -> Fraction:
    """The cycles of a step in the long run, exactly."""
    return max(Fraction(core.latency), Fraction(rows * vectors, core.ports), Fraction(rows + vectors, core.loads))


def merit(rows: int, vectors: int, core: Core) -> tuple[Fraction, Fraction]:
    """Cycles and loads a multiply-add, exactly; the smaller, the better."""
    work = rows * vectors
    return cycles(rows, vectors, core) / work, Fraction(rows + vectors, work)


def registers(rows: int, vectors: int) -> int:
    """Those that a tile and the operands of a step take."""
    return rows * vectors + vectors + 1


def check(module: ModuleType) -> None:
    """Raises AssertionError with a small core on which the answer is wrong."""
    few = st.integers(1, 3)
    cores = st.builds(Core, registers=st.integers(3, 40), latency=st.integers(1, 6), ports=few, loads=few)

    @cases(120, rows=st.integers(1, 9), vectors=st.integers(1, 6), core=cores)
    def counts_the_cycles(rows: int, vectors: int, core: Core) -> None:
        case = f"cycles({rows}, {vectors}, {core})"
        found = attempt(case, module.cycles, rows, vectors, core)
        exact, played = cycles(rows, vectors, core), cycles_a_step(rows, vectors, core)
        # 48 steps are not quite the long run.
        require(
            abs(exact - played) <= 0.02 * played + 0.02, f"{case}: the core takes {played:.3g} cycles; please report it"
        )
        sound = isinstance(found, int | Fraction) and not isinstance(found, bool)
        require(sound, f"{case} returned {found!r}, wanted a Fraction, or an int: {exact!r}")
        require(found == exact, f"{case} is {found}\nplayed on that core, a step takes {exact} cycles in the long run")

    @cases(200, core=cores)
    def finds_the_best_tile(core: Core) -> None:
        case = f"tile({core})"
        found = attempt(case, module.tile, core)
        sound = isinstance(found, tuple) and len(found) == 2 and all(isinstance(n, int) and n > 0 for n in found)
        require(sound, f"{case} returned {found!r}, wanted a tuple of two numbers from 1, the rows and the vectors")
        rows, vectors = found
        needed = registers(rows, vectors)
        require(
            needed <= core.registers,
            f"{case} is {found}\nthat takes {rows} * {vectors} + {vectors} + 1 = {needed} registers",
        )
        better = min(
            ((r, v) for r in range(1, 40) for v in range(1, 40) if registers(r, v) <= core.registers),
            key=lambda other: merit(*other, core),
        )
        require(merit(*found, core) <= merit(*better, core), f"{case} is {found}: {told(found, core)}\n"
                f"{better} fits, too, and is better: {told(better, core)}")  # fmt: skip


def told(tile: tuple[int, int], core: Core) -> str:
    """What a tile costs, in words."""
    step, loads = merit(*tile, core)
    return f"{step} cycles and {loads} loads a multiply-add"
