"""Winograd's minimal filtering for 3x3 convolutions of stride 1, on NCHW[x]c data.

F(m x m, 3x3) computes m x m outputs from an (m+2) x (m+2) tile of the input with (m+2)^2 multiplications instead of 9
m^2:

    Y = A^T [ (G g G^T) * (B^T d B) ] A

where the product in the middle is summed over the input channels: one matrix product for each of the (m+2)^2 places of
the tile. From Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (2016).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from .. import te
from ..errors import InputError
from ..expr import Expr, Select
from ..te import Tensor
from .shapes import constant, dims, paddings, plus

__all__ = ["TILES", "transformed_weights", "winograd_conv2d_nchwc", "winograd_error_growth"]

Matrix = tuple[tuple[int | Fraction, ...], ...]

_INPUT: dict[int, Matrix] = {  # B^T
    2: ((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1)),
    4: (
        (4, 0, -5, 0, 1, 0),
        (0, -4, -4, 1, 1, 0),
        (0, 4, -4, -1, 1, 0),
        (0, -2, -1, 2, 1, 0),
        (0, 2, -1, -2, 1, 0),
        (0, 4, 0, -5, 0, 1),
    ),
}
_OUTPUT: dict[int, Matrix] = {  # A^T
    2: ((1, 1, 1, 0), (0, 1, -1, -1)),
    4: ((1, 1, 1, 1, 1, 0), (0, 1, -1, 2, -2, 0), (0, 1, 1, 4, 4, 0), (0, 1, -1, 8, -8, 1)),
}
_F = Fraction
_WEIGHT: dict[int, Matrix] = {  # G
    2: ((1, 0, 0), (_F(1, 2), _F(1, 2), _F(1, 2)), (_F(1, 2), _F(-1, 2), _F(1, 2)), (0, 0, 1)),
    4: (
        (_F(1, 4), 0, 0),
        (_F(-1, 6), _F(-1, 6), _F(-1, 6)),
        (_F(-1, 6), _F(1, 6), _F(-1, 6)),
        (_F(1, 24), _F(1, 12), _F(1, 6)),
        (_F(1, 24), _F(-1, 12), _F(1, 6)),
        (0, 0, 1),
    ),
}

TILES = tuple(sorted(_INPUT))
"""The m for which F(m x m, 3x3) is known here."""


def winograd_error_growth(tile: int) -> float:
    """By how much the transforms can magnify rounding errors of direct convolution, in the worst case.

    Every sum of products passes the three transforms in both directions; each magnifies a largest error by at most its
    largest absolute row sum. (Barabasz et al., "Error analysis and improving the accuracy of Winograd convolution".)
    """
    norms = [max(sum(abs(float(v)) for v in row) for row in m[tile]) for m in (_INPUT, _WEIGHT, _OUTPUT)]
    return float(np.prod([n**2 for n in norms]))


def transformed_weights(weight: np.ndarray, tile: int) -> np.ndarray:
    """G g G^T of weights [O, I, 3, 3] as [m+2, m+2, O, I], computed in float64 and rounded once."""
    g = np.array(_WEIGHT[tile], dtype=np.float64)
    out, inner, *_ = weight.shape
    filters = weight.reshape(out * inner, -1).astype(np.float64)
    both = np.kron(g, g) @ filters.T  # one product: row (u, v) holds g[u, a] g[v, b] over (a, b)
    return both.astype(weight.dtype).reshape(len(g), len(g), out, inner)


def winograd_conv2d_nchwc(
    data: Tensor, weight: Tensor, *, tile: int, padding: int | Sequence[int] = 0, algorithm: Sequence[Any] = ()
) -> Tensor:
    """3x3 convolution of stride 1 of `data` [N, I/x, H, W, x] with transformed weights [O/(k y), t, t, I/x, x, k, y].

    t is `tile` + 2; the result is [N, O/y, OH, OW, y]. The products of one place and one panel (k blocks of output
    channels) read a contiguous part of the weights. Stages: `strips` (the rows of the image that a row of tiles reads,
    with padding; rows that two strips need are copied into both), `columns` (B^T d),
    `tiles` (B^T d B), `products`, `rows` (A^T M), `winograd` (A^T M A). The annotation `algorithm` records the choice.
    """
    if tile not in TILES:
        raise InputError(f"winograd: wanted a tile of {' or '.join(map(str, TILES))}, found {tile}")
    n, in_blocks, height, width, block = dims(data, "N, C/x, H, W, x")
    panels, places, _, weight_in, weight_block, panel, out_block = dims(weight, "O/(k y), t, t, I/x, x, k, y")
    out_blocks = panels * panel
    if places != tile + 2 or (weight_in, weight_block) != (in_blocks, block):
        raise InputError(f"winograd: weights {weight} do not fit a tile of {tile} and {in_blocks} blocks of {block}")
    (top, left), (bottom, right) = paddings(padding, 2)
    out_height = constant(height, "an image's height") + top + bottom - 2
    out_width = constant(width, "an image's width") + left + right - 2
    down, across = -(-out_height // tile), -(-out_width // tile)

    def strip(b: Expr, ib: Expr, t: Expr, k: Expr, x: Expr, c: Expr) -> Expr:
        y = t * tile + k
        # Zeros around the image, and up to the end of the last tile.
        inside = te.all(y >= top, y < height + top, x >= left, x < width + left)
        return te.if_then_else(inside, data[b, ib, plus(y, -top), plus(x, -left), c], te.const(0, data.dtype))

    strips = te.compute((n, in_blocks, down, places, across * tile + 2, block), strip, name="strips")

    def column(b: Expr, ib: Expr, p: Expr, u: Expr, x: Expr, c: Expr) -> Expr:
        left_column = (p % across) * tile
        return _combined(
            _INPUT[tile], _by_parity(places), u, lambda k: strips[b, ib, p // across, k, left_column + x, c]
        )

    tiles_shape = (n, in_blocks, down * across)
    columns = te.compute((*tiles_shape, places, places, block), column, name="columns")
    tiles = te.compute(
        (n, places, places, in_blocks, down * across, block),
        lambda b, u, v, ib, p, c: _combined(_INPUT[tile], _by_parity(places), v, lambda k: columns[b, ib, p, u, k, c]),
        name="tiles",
    )
    ib, ic = te.reduce_axis((0, in_blocks), name="ib"), te.reduce_axis((0, block), name="ic")
    products = te.compute(
        (n, places, places, out_blocks, down * across, out_block),
        lambda b, u, v, ob, p, oc: te.sum(
            tiles[b, u, v, ib, p, ic] * weight[ob // panel, u, v, ib, ic, ob % panel, oc], axis=[ib, ic]
        ),
        name="products",
    )
    rows = te.compute(
        (n, out_blocks, down * across, tile, places, out_block),
        lambda b, ob, p, y, v, oc: _combined(
            _OUTPUT[tile], _in_pairs(places), y, lambda k: products[b, k, v, ob, p, oc]
        ),
        name="rows",
    )

    def pixel(b: Expr, ob: Expr, y: Expr, x: Expr, oc: Expr) -> Expr:
        p = (y // tile) * across + x // tile
        return _combined(_OUTPUT[tile], _in_pairs(places), x % tile, lambda k: rows[b, ob, p, y % tile, k, oc])

    shape = (n, out_blocks, out_height, out_width, out_block)
    attrs: dict[str, Any] = {"op": "nn.contrib_winograd_conv2d_NCHWc", "tile": tile}
    if algorithm:
        attrs["algorithm"] = algorithm
    return te.compute(shape, pixel, name="winograd", attrs=attrs)


# Interpolation at a and at -a yields rows that differ only in signs: in B^T in every other coefficient, in A^T in the
# second of each pair. Sums are written group by group, so that the part that two rows share is the same expression.
def _by_parity(size: int) -> list[list[int]]:
    return [list(range(start, -1, -2)) for start in (size - 1, size - 2)]


def _in_pairs(size: int) -> list[list[int]]:
    return [[0], *([k, k + 1] for k in range(1, size - 1, 2)), [size - 1]] if size > 4 else [[k] for k in range(size)]


def _combined(matrix: Matrix, groups: list[list[int]], row: Expr, value: Callable[[int], Expr]) -> Expr:
    """Row `row` of `matrix` times a vector of values; `row` is a loop variable, constant after unrolling."""
    total = _sum(matrix[-1], groups, value)
    for number in reversed(range(len(matrix) - 1)):
        total = Select(row == number, _sum(matrix[number], groups, value), total)
    return total


def _sum(coefficients: Sequence[int | Fraction], groups: list[list[int]], value: Callable[[int], Expr]) -> Expr:
    """The sum of the terms whose coefficients are not zero; the first coefficient of each group is factored out."""
    parts = []
    for group in groups:
        present = [k for k in group if coefficients[k]]
        if present:
            equal = len({abs(coefficients[k]) for k in present}) == 1
            lead = int(coefficients[present[0]]) if equal else 1 if coefficients[present[0]] > 0 else -1
            parts.append((lead, _signed([(int(coefficients[k]) // lead, value(k)) for k in present])))
    return _signed(parts)


def _signed(terms: Sequence[tuple[int, Expr]]) -> Expr:
    """A sum of terms with integer factors, the positive ones first."""
    total: Expr | None = None
    for factor, term in sorted(terms, key=lambda term: term[0] < 0):
        scaled = term if abs(factor) == 1 else term * te.const(abs(factor), term.dtype)
        if total is None:
            total = scaled if factor > 0 else te.const(0, term.dtype) - scaled
        else:
            total = total + scaled if factor > 0 else total - scaled
    assert total is not None
    return total
