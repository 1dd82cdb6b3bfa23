"""Winograd's convolution as tensor expressions, and the direct one that it must equal (Lavin and Gray, 2016)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from minitvm import expr as x
from minitvm import te

Matrix = Sequence[Sequence[Fraction]]


def matrix(text: str) -> list[list[Fraction]]:
    return [[Fraction(word) for word in line.split()] for line in text.strip().splitlines()]


# (output transform A^T, filter transform G, data transform B^T)
F2: tuple[Matrix, Matrix, Matrix] = (
    matrix("1 1 1 0\n 0 1 -1 -1"),
    matrix("1 0 0\n 1/2 1/2 1/2\n 1/2 -1/2 1/2\n 0 0 1"),
    matrix("1 0 -1 0\n 0 1 1 0\n 0 -1 1 0\n 0 1 0 -1"),
)
F4: tuple[Matrix, Matrix, Matrix] = (
    matrix("1 1 1 1 1 0\n 0 1 -1 2 -2 0\n 0 1 1 4 4 0\n 0 1 -1 8 -8 1"),
    matrix("1/4 0 0\n -1/6 -1/6 -1/6\n -1/6 1/6 -1/6\n 1/24 1/12 1/6\n 1/24 -1/12 1/6\n 0 0 1"),
    matrix("4 0 -5 0 1 0\n 0 -4 -4 1 1 0\n 0 4 -4 -1 1 0\n 0 -2 -1 2 1 0\n 0 2 -1 -2 1 0\n 0 4 0 -5 0 1"),
)


def constants(values: Matrix, name: str, rounded: bool) -> te.Tensor:
    """A matrix as a tensor: rationals, or the float32 numbers that they round to."""

    def element(i: Any, j: Any) -> x.Expr:
        chosen: x.Expr = x.const(0.0)
        for row, line in enumerate(values):
            for column, value in enumerate(line):
                if value:
                    constant = x.FloatImm(float(np.float32(float(value))) if rounded else value, "float32")
                    chosen = x.Select(x.And(x.EQ(i, x.const(row)), x.EQ(j, x.const(column))), constant, chosen)
        return chosen

    return te.compute((len(values), len(values[0])), element, name=name)


def placeholders(channels: int, filters: int, size: int) -> tuple[te.Tensor, te.Tensor]:
    data = te.placeholder((channels, size + 2, size + 2), name="data")
    return data, te.placeholder((filters, channels, 3, 3), name="weight")


def direct(channels: int, filters: int, size: int) -> list[Any]:
    """The convolution without padding, `size` outputs along each axis."""
    data, weight = placeholders(channels, filters, size)
    c, r, s = (te.reduce_axis((0, n), name=k) for n, k in ((channels, "c"), (3, "r"), (3, "s")))
    out = te.compute(
        (filters, size, size), lambda k, y, z: te.sum(data[c, y + r, z + s] * weight[k, c, r, s], axis=[c, r, s]),
        name="out",
    )  # fmt: skip
    return [data, weight, out]


def winograd(
    channels: int, filters: int, size: int, matrices: tuple[Matrix, Matrix, Matrix], rounded: bool = False
) -> list[Any]:
    """The same by F(m x m, 3 x 3): transforms of tiles and filters, products summed over channels, the way back."""
    m, n = len(matrices[0]), len(matrices[0][0])
    data, weight = placeholders(channels, filters, size)
    back, g, b = (constants(v, name, rounded) for v, name in zip(matrices, ("AT", "G", "BT")))
    tiles = size // m

    def axes(extent: int) -> list[Any]:
        return [te.reduce_axis((0, extent), name=f"r{k}") for k in range(2)]

    i, j = axes(3)
    u = te.compute(
        (n, n, filters, channels),
        lambda e, f, k, c: te.sum(weight[k, c, i, j] * g[e, i] * g[f, j], axis=[i, j]), name="U",
    )  # fmt: skip
    p, q = axes(n)
    v = te.compute(
        (n, n, channels, tiles, tiles),
        lambda e, f, c, y, z: te.sum(data[c, y * m + p, z * m + q] * b[e, p] * b[f, q], axis=[p, q]), name="V",
    )  # fmt: skip
    c = te.reduce_axis((0, channels), name="c")
    product = te.compute(
        (n, n, filters, tiles, tiles), lambda e, f, k, y, z: te.sum(u[e, f, k, c] * v[e, f, c, y, z], axis=c), name="M"
    )
    e, f = axes(n)
    inverse = te.compute(
        (filters, tiles, tiles, m, m),
        lambda k, y, z, h, w: te.sum(product[e, f, k, y, z] * back[h, e] * back[w, f], axis=[e, f]), name="Y",
    )  # fmt: skip
    out = te.compute((filters, size, size), lambda k, y, z: inverse[k, y // m, z // m, y % m, z % m], name="out")
    return [data, weight, out]
