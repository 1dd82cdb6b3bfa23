"""Filters with the learner's matrices, in exact fractions, and compares with the definition on all unit vectors."""

from __future__ import annotations

from fractions import Fraction
from types import ModuleType
from typing import Any

from hypothesis import strategies as st

from lessons.grading import attempt, cases, require


def shaped(found: Any, rows: int, columns: int) -> bool:
    """Whether a matrix has that shape and exact entries."""
    return (
        isinstance(found, list)
        and len(found) == rows
        and all(isinstance(row, list) and len(row) == columns for row in found)
        and all(isinstance(entry, int | Fraction) for row in found for entry in row)
    )


def check(module: ModuleType) -> None:
    """Raises AssertionError with small points for which the matrices are not those of the filter."""
    fractions = st.sampled_from([Fraction(a, b) for a in range(-3, 4) for b in (1, 2)])

    @cases(150, m=st.integers(1, 5), r=st.integers(1, 4), points=st.lists(fractions, min_size=7, unique=True))
    def filters(m: int, r: int, points: list[Fraction]) -> None:
        n = m + r - 1
        points = points[: n - 1]
        case = f"transforms({m}, {r}, [{', '.join(map(str, points))}])"
        found = attempt(case, module.transforms, m, r, list(points))
        require(isinstance(found, tuple) and len(found) == 3, f"{case} returned {found!r}, wanted three matrices")
        for name, made, shape in zip("AGB", found, ((m, n), (n, r), (n, n)), strict=True):
            require(shaped(made, *shape), f"{case}: {name} is {made!r}, wanted {shape[0]} rows of {shape[1]} Fractions")
        a, g, b = found
        told = f"{case} gives\n" + "\n".join(f"  {x} = {shown(y)}" for x, y in zip("AGB", found, strict=True))
        for i in range(m):
            for weight in range(r):
                for place in range(n):
                    value = sum(a[i][k] * g[k][weight] * b[k][place] for k in range(n))
                    wanted = int(place == i + weight)
                    require(
                        value == wanted,
                        f"{told}\nwith d = 0 but d[{place}] = 1, and g = 0 but g[{weight}] = 1: "
                        f"y[{i}] is {value}, wanted {wanted}",
                    )


def shown(matrix: list[list[Fraction]]) -> str:
    """Rows of plain numbers."""
    return "[" + ", ".join("[" + ", ".join(map(str, row)) + "]" for row in matrix) + "]"
