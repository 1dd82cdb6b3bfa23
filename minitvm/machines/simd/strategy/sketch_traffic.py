"""Predict the bytes that a tiled reduction moves between caches, from the access maps of its block.

    nest 0    one step of the sum: a tile
    nest k    nest k-1 in the next loop around it: those of the sum from the innermost on, then those over the tiles

The bytes that a nest accesses, in whole cache lines, are a closed formula in the tile's extents. A cache keeps the data
of the largest nest that fits in it. The loop around that nest loads its data once per run, because data that two of its
iterations share (a sliding window, an unchanged operand) are still cached. Each iteration of a loop further out loads
all of it again. So the bytes moved into a cache are the bytes of one nest, times the number of its runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ....arith.formula import Formula, formula, minimum, quotient
from ....expr import Expr, FloorDiv, FloorMod, IntImm, Var, find, structural_equal, walk
from ....expr.conditions import is_const
from ....strategy.blocks import extents
from ....tir.nodes import BufferLoad
from ....tir.transform.affine import linear

FILLED = 0.75  # of a cache: lines of two operands displace one another, and the result passes through it


@dataclass(frozen=True, slots=True)
class Dimension:
    """One index of an access: its stride in elements, its extent, and how far it moves along each axis.

    An axis on which it does not depend by a constant factor is in `folded`. If it depends by a quotient, the number
    there is the divisor, so this many neighbours have the same index; otherwise it is 1.
    """

    stride: int
    extent: int
    moves: tuple[tuple[str, int], ...]
    folded: tuple[tuple[str, int], ...]

    def reach(self, sizes: Mapping[str, Formula]) -> Formula:
        """Return the distance from the first to the last accessed element, both included, for these extents of the
        axes.
        """
        result = formula(1)
        for name, step in self.moves:
            result = result + (sizes[name] + -1) * step
        for name, group in self.folded:
            result = result * groups_read(sizes[name], group)
        return result

    def distinct(self, sizes: Mapping[str, Formula]) -> Formula:
        """Return the number of accessed elements. It is smaller than the reach if there are steps between them."""
        reach = self.reach(sizes)
        if all(step == 1 for _, step in self.moves):
            return reach
        points = formula(1)
        for name, _ in self.moves:
            points = points * sizes[name]
        return points if len(self.moves) == 1 else Formula(minimum(points.expr, reach.expr))


def merged(load: BufferLoad) -> tuple[tuple[Expr, ...], tuple[int, ...]]:
    """Return the indices and extents of an access, with `x // n, x % n` on neighbouring dimensions merged to x.

    n must be the extent of the second of these dimensions.
    """
    indices = list(load.indices)
    shape = [extent or 1 for extent in extents(load.buffer.shape)]
    position = len(indices) - 2
    while position >= 0:
        outer, inner, n = indices[position], indices[position + 1], shape[position + 1]
        if isinstance(outer, FloorDiv) and isinstance(inner, FloorMod) and structural_equal(outer.a, inner.a):
            if is_const(outer.b, n) and is_const(inner.b, n):
                indices[position : position + 2] = [outer.a]
                shape[position : position + 2] = [shape[position] * n]
        position -= 1
    return tuple(indices), tuple(shape)


def dimensions(indices: Sequence[Expr], shape: Sequence[int], names: Mapping[Var, str]) -> tuple[Dimension, ...]:
    """Return the dimensions of an access to a buffer of this shape. `names` maps variables to the names of axes."""
    found = []
    for position, index in enumerate(indices):
        form = linear(index)
        moved = {name: abs(form.terms[var]) for var, name in names.items() if var in form.terms}
        used, groups = {names[n] for n in find(index, Var) if n in names}, groups_of([index], names)
        folded = tuple((name, groups.get(name, 1)) for name in sorted(used - set(moved)))
        found.append(Dimension(prod(shape[position + 1 :]), shape[position], tuple(moved.items()), folded))
    return tuple(found)


def groups_of(indices: Sequence[Expr], names: Mapping[Var, str]) -> Mapping[str, int]:
    """Return the axes that occur only in quotients by a single constant, with this constant."""
    uses: dict[str, set[int]] = {}
    for index in indices:
        inside = {id(n.a): n.b.value for n in find(index, FloorDiv) if isinstance(n.b, IntImm)}
        for node in walk(index):
            if isinstance(node, Var) and node in names:
                uses.setdefault(names[node], set()).add(inside.get(id(node), 1))
    return {name: next(iter(by)) for name, by in uses.items() if len(by) == 1 and by != {1}}


def groups_read(tile: Formula, group: int) -> Formula:
    """Return how many groups of `group` neighbours a tile reads, allowing for tiles that end inside a group."""
    if group == 1:
        return tile
    whole, parts = formula(group), _rest(tile, formula(group)) * _rest(formula(group), tile)
    crosses = Formula(minimum(parts.expr, formula(1).expr))
    read = Formula(quotient(tile.expr + group - 1, whole.expr))
    return read + crosses * (tile + read * -1)


def _rest(a: Formula, b: Formula) -> Formula:
    """Return a % b."""
    return a + Formula(quotient(a.expr, b.expr)) * b * -1


def touched(dims: Sequence[Dimension], itemsize: int, sizes: Mapping[str, Formula], line: int) -> Formula:
    """Return the bytes of the cache lines that an access touches for these extents of the axes, whatever its alignment.

    Dimensions whose neighbours are at most a line apart form one stretch of memory. In other dimensions, each element
    is a separate stretch.
    """
    stretch, count = formula(1), formula(1)
    for one in dims:
        steps = [step for _, step in one.moves] or [1]
        if one.stride * min(steps) * itemsize <= line:
            stretch = stretch + (one.reach(sizes) + -1) * one.stride
        else:
            count = count * one.distinct(sizes)
    return count * (stretch * itemsize + (line - itemsize))


@dataclass(frozen=True, slots=True)
class Nest:
    """A loop nest: the name of its outermost loop, the iterations of that loop, and the bytes of each operand that it
    accesses.
    """

    name: str
    trips: Formula
    touched: tuple[Formula, ...]


def into(cache: int, touched: np.ndarray[Any, Any], trips: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the bytes that are moved into a cache of `cache` bytes while all nests run.

    `touched` holds bytes by (nest, tiling), for all operands together. `trips` holds the iterations of each nest's
    outermost loop.
    """
    held = np.maximum.accumulate(touched, axis=0) <= cache * FILLED
    around = np.minimum(held.sum(axis=0), len(touched) - 1)
    runs = np.cumprod(np.vstack([np.ones_like(trips[:1]), trips[:0:-1]]), axis=0)[::-1]
    which = np.arange(touched.shape[1])
    return touched[around, which] * runs[around, which]
