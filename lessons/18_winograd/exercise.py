"""Exercise 18: the matrices of F(m, r), from points.

F(m, r) computes m neighbouring results of a filter with r weights. It uses n = m + r - 1 numbers of a signal and n
products:

    y = A [ (G g) * (B d) ]        y[i] = d[i] g[0] + d[i + 1] g[1] + ... + d[i + r - 1] g[r - 1]

`points` are n - 1 different Fractions a[0], a[1], ...; the last point is infinity. For point number k:

- column k of A has the powers 1, a[k], a[k]^2, ..., up to the power m - 1;
- row k of G has the powers 1, a[k], a[k]^2, ..., up to the power r - 1. Each of them is divided by the product of
  (a[k] - a[j]) over all j other than k;
- row k of B has the coefficients of a polynomial, the product of (x - a[j]) over all j other than k. The constant
  coefficient comes first, then the coefficient of x, and so on. This polynomial has the degree n - 2, so the last of
  the n coefficients, which belongs to x^(n - 1), is 0.

For infinity, the last column of A is 0, ..., 0, 1, and the last row of G is 0, ..., 0, 1. The last row of B has the
coefficients of the product of (x - a[j]) over all j. Write

    transforms(m, r, points) -> (A, G, B)     each matrix is a list of rows, and a row is a list of Fractions

    transforms(1, 2, [Fraction(3)])   ->   A = [[1, 1]], G = [[1, 3], [0, 1]], B = [[1, 0], [-3, 1]]
                                           y0 = 1 d0 (g0 + 3 g1) + 1 (d1 - 3 d0) g1 = d0 g0 + d1 g1

Check it with: minitvm lesson 18 --check
"""

from __future__ import annotations

from fractions import Fraction

Matrix = list[list[Fraction]]


def transforms(m: int, r: int, points: list[Fraction]) -> tuple[Matrix, Matrix, Matrix]:
    """A (m x n), G (n x r) and B (n x n) for n = m + r - 1."""
    raise NotImplementedError("transforms(m, r, points): the text at the top describes the task")
