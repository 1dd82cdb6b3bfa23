"""What a tiled reduction moves between caches, from the access maps of its block.

    nest 0    one step of the sum: a tile
    nest k    nest k-1 in the next loop around it: those of the sum from the innermost on, then those over the tiles

How many bytes a nest touches, whole lines, is a closed formula in the extents of the tile. A cache keeps what the
largest nest touches that fits it. What the loop around that nest touches comes once in each run of that loop, for what
two of its iterations share (a window that slides, an operand that does not change) is still there; a loop further out
brings all of it again. So the bytes that come into a cache are those of one nest, times the runs of that nest.
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
    """One index of an access: elements between neighbours in it, its extent, and how far it moves along each axis.

    An axis on which it depends in another way than by a factor is `folded`, with the divisor where that is a quotient:
    so many neighbours have the same index. It is 1 where nothing is known.
    """

    stride: int
    extent: int
    moves: tuple[tuple[str, int], ...]
    folded: tuple[tuple[str, int], ...]

    def reach(self, sizes: Mapping[str, Formula]) -> Formula:
        """From the first element that is touched to the last one, both included, where axes have these sizes."""
        result = formula(1)
        for name, step in self.moves:
            result = result + (sizes[name] + -1) * step
        for name, group in self.folded:
            result = result * groups_read(sizes[name], group)
        return result

    def distinct(self, sizes: Mapping[str, Formula]) -> Formula:
        """How many elements are touched: fewer than are reached, where there is a step between them."""
        reach = self.reach(sizes)
        if all(step == 1 for _, step in self.moves):
            return reach
        points = formula(1)
        for name, _ in self.moves:
            points = points * sizes[name]
        return points if len(self.moves) == 1 else Formula(minimum(points.expr, reach.expr))


def merged(load: BufferLoad) -> tuple[tuple[Expr, ...], tuple[int, ...]]:
    """Indices and extents of an access, where `x // n, x % n` on neighbouring dimensions, n the extent of the last one,
    is the single index x."""
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
    """The dimensions of an access to a buffer of that shape, as it depends on the axes of these names."""
    found = []
    for position, index in enumerate(indices):
        form = linear(index)
        moved = {name: abs(form.terms[var]) for var, name in names.items() if var in form.terms}
        used, groups = {names[n] for n in find(index, Var) if n in names}, groups_of([index], names)
        folded = tuple((name, groups.get(name, 1)) for name in sorted(used - set(moved)))
        found.append(Dimension(prod(shape[position + 1 :]), shape[position], tuple(moved.items()), folded))
    return tuple(found)


def groups_of(indices: Sequence[Expr], names: Mapping[Var, str]) -> Mapping[str, int]:
    """Axes that occur in quotients by one constant only, with it."""
    uses: dict[str, set[int]] = {}
    for index in indices:
        inside = {id(n.a): n.b.value for n in find(index, FloorDiv) if isinstance(n.b, IntImm)}
        for node in walk(index):
            if isinstance(node, Var) and node in names:
                uses.setdefault(names[node], set()).add(inside.get(id(node), 1))
    return {name: next(iter(by)) for name, by in uses.items() if len(by) == 1 and by != {1}}


def groups_read(tile: Formula, group: int) -> Formula:
    """How many groups of so many neighbours a tile reads; each result its own where tiles end inside of groups."""
    if group == 1:
        return tile
    whole, parts = formula(group), _rest(tile, formula(group)) * _rest(formula(group), tile)
    crosses = Formula(minimum(parts.expr, formula(1).expr))
    read = Formula(quotient(tile.expr + group - 1, whole.expr))
    return read + crosses * (tile + read * -1)


def _rest(a: Formula, b: Formula) -> Formula:
    """a % b."""
    return a + Formula(quotient(a.expr, b.expr)) * b * -1


def touched(dims: Sequence[Dimension], itemsize: int, sizes: Mapping[str, Formula], line: int) -> Formula:
    """Bytes of the lines that an access touches where axes have these sizes, wherever in a line it begins.

    Dimensions whose neighbours are within a line of one another make one stretch of memory; of the others each element
    is a stretch of its own.
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
    """A nest: the loop that is outermost in it, its iterations, the bytes that it touches of each operand."""

    name: str
    trips: Formula
    touched: tuple[Formula, ...]


def into(cache: int, touched: np.ndarray[Any, Any], trips: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Bytes that come into a cache of so many bytes while all nests run.

    `touched` are bytes by (nest, tiling), of all operands; `trips` the iterations of each nest's outermost loop.
    """
    held = np.maximum.accumulate(touched, axis=0) <= cache * FILLED
    around = np.minimum(held.sum(axis=0), len(touched) - 1)
    runs = np.cumprod(np.vstack([np.ones_like(trips[:1]), trips[:0:-1]]), axis=0)[::-1]
    which = np.arange(touched.shape[1])
    return touched[around, which] * runs[around, which]
