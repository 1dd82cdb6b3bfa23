"""Winograd's minimal filtering for 3x3 convolutions of stride 1, on NCHW[x]c data.

F(m x m, 3x3) computes m x m outputs from an (m+2) x (m+2) tile of the input with (m+2)^2 multiplications instead of 9
m^2:

    Y = A^T [ (G g G^T) * (B^T d B) ] A

The product in the middle is summed over the input channels, so it is one matrix product for each of the (m+2)^2 places
of the tile. From Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (2016).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from .... import te
from ....errors import InputError
from ....expr import Expr, Select
from ....te import Tensor
from ....topi.shapes import Dim, dims, paddings, per_axis, plus, simple, times
from .blocked import SummedChannels

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
    """Return the worst-case factor by which the transforms magnify the rounding errors of direct convolution.

    Every sum of products passes through the three transforms in both directions, and each of them magnifies an error by
    at most its largest absolute row sum. (Barabasz et al., "Error analysis and improving the accuracy of Winograd
    convolution".)
    """
    norms = [max(sum(abs(float(v)) for v in row) for row in m[tile]) for m in (_INPUT, _WEIGHT, _OUTPUT)]
    return float(np.prod([n**2 for n in norms]))


def transformed_weights(weight: np.ndarray, tile: int) -> np.ndarray:
    """Return G g G^T of weights [O, I, 3, 3] as [m+2, m+2, O, I], computed in float64 and rounded once."""
    g = np.array(_WEIGHT[tile], dtype=np.float64)
    out, inner, *_ = weight.shape
    filters = weight.reshape(out * inner, -1).astype(np.float64)
    both = np.kron(g, g) @ filters.T  # one product: row (u, v) holds g[u, a] g[v, b] over (a, b)
    return both.astype(weight.dtype).reshape(len(g), len(g), out, inner)


def winograd_conv2d_nchwc(
    data: Tensor,
    weight: Tensor,
    *,
    tile: int,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    algorithm: Sequence[Any] = (),
    channels: int = 0,
) -> Tensor:
    """Return the 3x3 convolution of stride 1 of `data` [N, I/x, H, W, x] with transformed weights [O/(k y), t, t, I/x,
    x, k, y].

    t is `tile` + 2; the result is [N, O/y, OH, OW, y]. The products of one place and one panel (k blocks of output
    channels) read a contiguous part of the weights. Stages: `strips` (the rows of the image that a row of tiles reads,
    with padding; rows that two strips need are copied into both), `columns` (B^T d), `tiles` (B^T d B), `products`,
    `rows` (A^T M), `winograd` (A^T M A). Products are sums over the first `channels` of the data (0: all). The
    annotation `algorithm` records the choice.

    H and W may be symbolic, and taps may be `dilation` apart. In these cases, the stage `images` replaces `strips`;
    each phase of the input is a separate image in it (`_Grid`). Raises `InputError` for a tile that is not one of
    `TILES`, and for weights that do not fit.
    """
    if tile not in TILES:
        raise InputError(f"winograd: wanted a tile of {' or '.join(map(str, TILES))}, found {tile}")
    n, in_blocks, _, _, block = dims(data, "N, C/x, H, W, x")
    panels, places, _, weight_in, weight_block, panel, out_block = dims(weight, "O/(k y), t, t, I/x, x, k, y")
    out_blocks = panels * panel
    if places != tile + 2 or (weight_in, weight_block) != (in_blocks, block):
        raise InputError(f"winograd: weights {weight} do not fit a tile of {tile} and {in_blocks} blocks of {block}")
    grid = _Grid.of(data, tile, padding, dilation)
    pixels = (_strips if grid.regular else _images)(data, grid)
    count = len(grid.tiles)  # the axes of a list of tiles

    def column(b: Expr, ib: Expr, *at: Expr) -> Expr:
        u, x, c = at[count:]
        return _combined(_INPUT[tile], _by_parity(places), u, lambda k: pixels(b, ib, at[:count], k, x, c))

    def transformed(b: Expr, u: Expr, v: Expr, ib: Expr, *at: Expr) -> Expr:
        *p, c = at
        return _combined(_INPUT[tile], _by_parity(places), v, lambda k: columns[(b, ib, *p, u, k, c)])

    def product(b: Expr, u: Expr, v: Expr, ob: Expr, *at: Expr) -> Expr:
        *p, oc = at
        weights = weight[ob // panel, u, v, summed.block, summed.lane, ob % panel, oc]
        return te.sum(tiles[(b, u, v, summed.block, *p, summed.lane)] * weights, axis=[*summed.outer, *summed.inner])

    def row(b: Expr, ob: Expr, *at: Expr) -> Expr:
        *p, y, v, oc = at
        return _combined(_OUTPUT[tile], _in_pairs(places), y, lambda k: products[(b, k, v, ob, *p, oc)])

    def pixel(b: Expr, ob: Expr, y: Expr, x: Expr, oc: Expr) -> Expr:
        image, p, dy, dx = grid.place(b, y, x)
        return _combined(_OUTPUT[tile], _in_pairs(places), dx, lambda k: rows[(image, ob, *p, dy, k, oc)])

    images, names = grid.images(n), ["p"] if grid.regular else ["ty", "tx"]
    columns = te.compute(
        (images, in_blocks, *grid.tiles, places, places, block),
        column,
        name="columns",
        varargs_names=[*names, "u", "x", "c"],
    )
    tiles = te.compute(
        (images, places, places, in_blocks, *grid.tiles, block), transformed, name="tiles", varargs_names=[*names, "c"]
    )
    summed = SummedChannels.of(in_blocks, block, channels)
    products = te.compute(
        (images, places, places, out_blocks, *grid.tiles, out_block),
        product,
        name="products",
        varargs_names=[*names, "oc"],
    )
    rows = te.compute(
        (images, out_blocks, *grid.tiles, tile, places, out_block),
        row,
        name="rows",
        varargs_names=[*names, "y", "v", "oc"],
    )
    attrs: dict[str, Any] = {"op": "nn.contrib_winograd_conv2d_NCHWc", "tile": tile}
    if not grid.regular:
        attrs["dilation"] = grid.dilation
    if algorithm:
        attrs["algorithm"] = algorithm
    return te.compute((n, out_blocks, *grid.out, out_block), pixel, name="winograd", attrs=attrs)


@dataclass(frozen=True, slots=True)
class _Grid:
    """The tiles of an image: `down` x `across` of `tile` x `tile` pixels.

    `before` is the number of padding zeros (top, left), and `out` is the (height, width) of the result. With `dilation`
    (k, l), a result depends only on every k-th line and every l-th column. So the result consists of k*l results
    without dilation, called phases, and the tiles are those of one phase.
    """

    tile: int
    before: tuple[int, ...]
    dilation: tuple[int, ...]
    out: tuple[Dim, ...]
    down: Dim
    across: Dim

    @staticmethod
    def of(data: Tensor, tile: int, padding: int | Sequence[int], dilation: int | Sequence[int]) -> _Grid:
        """Return the grid of tiles for a convolution."""
        before, after = paddings(padding, 2)
        apart = per_axis(dilation, 2, "dilation")
        image = dims(data)[2:4]
        out = [simple(d + b + a - 2 * l) for d, b, a, l in zip(image, before, after, apart, strict=True)]
        down, across = (simple((size + l * tile - 1) // (l * tile)) for size, l in zip(out, apart, strict=True))
        return _Grid(tile, tuple(before), tuple(apart), tuple(out), down, across)

    @property
    def regular(self) -> bool:
        """Return whether there is one phase with constant extents; the tiles are then one list, row after row."""
        return self.dilation == (1, 1) and all(isinstance(size, int) for size in self.out)

    @property
    def tiles(self) -> tuple[Dim, ...]:
        """The shape of the list or grid of tiles."""
        return (self.down * self.across,) if self.regular else (self.down, self.across)

    def images(self, batch: Dim) -> Dim:
        """Return the number of images; each phase is a separate image."""
        return simple(batch * self.dilation[0] * self.dilation[1])

    def place(self, b: Expr, y: Expr, x: Expr) -> tuple[Expr, tuple[Expr, ...], Expr, Expr]:
        """Return the position of a pixel of the result: its image, its tile, and its line and column within the
        tile.
        """
        tile, (by, bx) = self.tile, self.dilation
        if self.regular:
            return b, ((y // tile) * self.across + x // tile,), y % tile, x % tile
        image = _phase(_phase(b, y, by), x, bx)
        return image, (y // (by * tile), x // (bx * tile)), _over(y, by) % tile, _over(x, bx) % tile


def _over(index: Expr, apart: int) -> Expr:
    return index // apart if apart > 1 else index


def _phase(image: Expr, index: Expr, apart: int) -> Expr:
    return image * apart + index % apart if apart > 1 else image


Pixels = Callable[[Expr, Expr, Sequence[Expr], int, Expr, Expr], Expr]


def _strips(data: Tensor, grid: _Grid) -> Pixels:
    """Return a function for the pixel at line `k` and column `x` of a tile, reading the rows of the image under a row
    of tiles.
    """
    n, in_blocks, height, width, block = dims(data)
    tile, (top, left) = grid.tile, grid.before

    def strip(b: Expr, ib: Expr, t: Expr, k: Expr, x: Expr, c: Expr) -> Expr:
        y = t * tile + k
        # Zeros around the image, and up to the end of the last tile.
        inside = te.all(y >= top, y < height + top, x >= left, x < width + left)
        return te.if_then_else(inside, data[b, ib, plus(y, -top), plus(x, -left), c], te.const(0, data.dtype))

    shape = (n, in_blocks, grid.down, tile + 2, grid.across * tile + 2, block)
    strips = te.compute(shape, strip, name="strips")

    def pixels(b: Expr, ib: Expr, p: Sequence[Expr], k: int, x: Expr, c: Expr) -> Expr:
        left_column = (p[0] % grid.across) * tile
        return strips[b, ib, p[0] // grid.across, k, left_column + x, c]

    return pixels


def _images(data: Tensor, grid: _Grid) -> Pixels:
    """Return a function for the pixels of a tile, reading the phases of the image with zeros around each of them."""
    n, in_blocks, height, width, block = dims(data)
    tile, (top, left), (by, bx) = grid.tile, grid.before, grid.dilation

    def phase(image: Expr, ib: Expr, y: Expr, x: Expr, c: Expr) -> Expr:
        b = _over(image, by * bx)
        line = y if by == 1 else y * by + _over(image, bx) % by
        column = x if bx == 1 else x * bx + image % bx
        inside = te.all(line >= top, line < height + top, column >= left, column < width + left)
        value = data[b, ib, plus(line, -top), plus(column, -left), c]
        return te.if_then_else(inside, value, te.const(0, data.dtype))

    shape = (grid.images(n), in_blocks, simple(grid.down * tile + 2), simple(grid.across * tile + 2), block)
    images = te.compute(shape, phase, name="images")
    return lambda b, ib, p, k, x, c: images[b, ib, plus(times(p[0], tile), k), plus(times(p[1], tile), x), c]


# Interpolation at a and at -a yields rows that differ only in signs: in B^T in every other coefficient, in A^T in the
# second of each pair. Sums are written group by group, so that the part that two rows share is the same expression.
def _by_parity(size: int) -> list[list[int]]:
    return [list(range(start, -1, -2)) for start in (size - 1, size - 2)]


def _in_pairs(size: int) -> list[list[int]]:
    return [[0], *([k, k + 1] for k in range(1, size - 1, 2)), [size - 1]] if size > 4 else [[k] for k in range(size)]


def _combined(matrix: Matrix, groups: list[list[int]], row: Expr, value: Callable[[int], Expr]) -> Expr:
    """Return row `row` of `matrix` times a vector of values. `row` is a loop variable that becomes constant by
    unrolling.
    """
    total = _sum(matrix[-1], groups, value)
    for number in reversed(range(len(matrix) - 1)):
        total = Select(row == number, _sum(matrix[number], groups, value), total)
    return total


def _sum(coefficients: Sequence[int | Fraction], groups: list[list[int]], value: Callable[[int], Expr]) -> Expr:
    """Return the sum of the terms with non-zero coefficients. The first coefficient of each group is factored out."""
    parts = []
    for group in groups:
        present = [k for k in group if coefficients[k]]
        if present:
            equal = len({abs(coefficients[k]) for k in present}) == 1
            lead = int(coefficients[present[0]]) if equal else 1 if coefficients[present[0]] > 0 else -1
            parts.append((lead, _signed([(int(coefficients[k]) // lead, value(k)) for k in present])))
    return _signed(parts)


def _signed(terms: Sequence[tuple[int, Expr]]) -> Expr:
    """Return a sum of terms with integer factors, with the positive terms first."""
    total: Expr | None = None
    for factor, term in sorted(terms, key=lambda term: term[0] < 0):
        scaled = term if abs(factor) == 1 else term * te.const(abs(factor), term.dtype)
        if total is None:
            total = scaled if factor > 0 else te.const(0, term.dtype) - scaled
        else:
            total = total + scaled if factor > 0 else total - scaled
    assert total is not None
    return total
