"""Wrong: fills the rows of B up in front, which is a factor of x too much."""

from __future__ import annotations

from fractions import Fraction
from math import prod

Matrix = list[list[Fraction]]


def polynomial(roots: list[Fraction]) -> list[Fraction]:
    """The coefficients of the product of (x - root), that of 1 first."""
    found = [Fraction(1)]
    for root in roots:
        found = [high - root * low for high, low in zip([Fraction(0), *found], [*found, Fraction(0)], strict=True)]
    return found


def transforms(m: int, r: int, points: list[Fraction]) -> tuple[Matrix, Matrix, Matrix]:
    """A (m x n), G (n x r) and B (n x n) for n = m + r - 1."""
    others = [points[:k] + points[k + 1 :] for k in range(len(points))]
    a = [[point**power for point in points] + [Fraction(power == m - 1)] for power in range(m)]
    g = []
    for point, rest in zip(points, others, strict=True):
        scale = prod((point - other for other in rest), start=Fraction(1))
        g.append([point**power / scale for power in range(r)])
    g.append([Fraction(power == r - 1) for power in range(r)])
    b = [[Fraction(0), *polynomial(rest)] for rest in others]
    b.append(polynomial(points))
    return a, g, b
