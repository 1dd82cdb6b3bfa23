"""Compares the learner's matrices with the text, row by row, in exact fractions."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import prod
from types import ModuleType
from typing import Any

from hypothesis import strategies as st

from lessons.grading import attempt, cases, require


def expected(m: int, r: int, points: list[Fraction]) -> dict[str, list[list[Fraction]]]:
    """A, G and B, each entry by its own formula."""
    n = m + r - 1
    others = [[point for point in points if point != one] for one in points]
    ends = [[Fraction(power == last) for power in range(last + 1)] for last in (m - 1, r - 1)]
    columns = [[point**power for power in range(m)] for point in points] + [ends[0]]
    g = [
        [point**power / prod((point - other for other in rest), start=Fraction(1)) for power in range(r)]
        for point, rest in zip(points, others, strict=True)
    ]
    b = [[coefficient(rest, power) for power in range(n)] for rest in [*others, points]]
    return {"A": [list(row) for row in zip(*columns, strict=True)], "G": [*g, ends[1]], "B": b}


def coefficient(roots: list[Fraction], power: int) -> Fraction:
    """The coefficient of x^power in the product of (x - root): the sum over which factors give their root."""
    picks = combinations(roots, len(roots) - power) if power <= len(roots) else ()
    return sum((prod((-root for root in pick), start=Fraction(1)) for pick in picks), start=Fraction(0))


def shaped(found: Any, rows: int, columns: int) -> bool:
    """Whether a matrix has that shape and exact entries."""
    return (
        isinstance(found, list)
        and len(found) == rows
        and all(isinstance(row, list) and len(row) == columns for row in found)
        and all(isinstance(entry, Fraction) for row in found for entry in row)
    )


def check(module: ModuleType) -> None:
    """Raises AssertionError with small points for which the matrices are not those of the filter."""
    fractions = st.sampled_from(
        [Fraction(sign * a, b) for b in (1, 2) for a in range(4) for sign in (1, -1)] + [Fraction(1, 1009)]
    )

    @cases(150, m=st.integers(1, 5), r=st.integers(1, 4), points=st.lists(fractions, min_size=7, unique=True))
    def filters(m: int, r: int, points: list[Fraction]) -> None:
        n = m + r - 1
        points = points[: n - 1]
        case = f"transforms({m}, {r}, [{', '.join(map(str, points))}])"
        found = attempt(case, module.transforms, m, r, list(points))
        require(isinstance(found, tuple) and len(found) == 3, f"{case} returned {found!r}, wanted three matrices")
        for name, made, shape in zip("AGB", found, ((m, n), (n, r), (n, n)), strict=True):
            require(
                shaped(made, *shape),
                f"{case}: {name} is {made!r}, wanted a list of {shape[0]} lists of {shape[1]} Fractions",
            )
        wanted = expected(m, r, points)
        for name, made in zip("AGB", found, strict=True):
            for row, (mine, right) in enumerate(zip(made, wanted[name], strict=True)):
                message = f"{case}: row {row} of {name} is {shown(mine)}, wanted {shown(right)}"
                require(mine == right, f"{message}; all of {name} is {', '.join(map(shown, made))}")


def shown(row: list[Fraction]) -> str:
    """Plain numbers."""
    return "[" + ", ".join(map(str, row)) + "]"
