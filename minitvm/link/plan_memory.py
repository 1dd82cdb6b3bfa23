"""Static memory planning: values whose lifetimes do not overlap share the bytes of one arena.

The algorithm is greedy by size with best fit: it places the largest value first, and each value in the smallest gap
that is free during its whole life (Pisarchyk and Lee, "Efficient memory management for deep neural net inference",
2020). Values of symbolic size come after the values of constant size. Values whose sizes are multiples of one
expression, such as 4096 n and 1024 n, are planned like constants in units of n. Other values share a place only if
their sizes are the same expression.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from ..executable.nodes import Dim
from ..expr import Expr, IntImm, Mul, structural_equal

ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A value of `nbytes` bytes that is in use from step `first` to step `last`, both included."""

    name: str
    nbytes: Dim
    first: int
    last: int

    def meets(self, other: Lifetime) -> bool:
        """Return whether the two lifetimes overlap."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True, slots=True)
class Plan:
    """The offset of each value in the arena, in the order of the values, and the size of the arena, all in bytes.

    `lower_bound` is the largest number of bytes in use at one step, counting values of constant size; no plan can be
    smaller.
    """

    offsets: tuple[Dim, ...]
    size: Dim
    lower_bound: int


def plan_memory(values: Sequence[Lifetime], alignment: int = ALIGNMENT) -> Plan:
    """Return a plan in which values with overlapping lifetimes do not overlap. Offsets are multiples of `alignment`."""
    offsets: dict[int, Dim] = {}
    fixed = {i: _aligned(int(v.nbytes), alignment) for i, v in enumerate(values) if not isinstance(v.nbytes, Expr)}
    places, end = _packed(values, fixed)
    offsets.update(places)
    size: Dim = end
    multiples, others = _multiples(values, alignment)
    for unit, numbers in multiples:
        places, end = _packed(values, numbers)
        offsets.update({index: _sum(size, unit, place) for index, place in places.items()})
        size = _sum(size, unit, end)
    size = _place_alone(values, others, offsets, size, alignment)
    return Plan(tuple(offsets[i] for i in range(len(values))), size, _lower_bound(values, fixed))


def _packed(values: Sequence[Lifetime], sizes: dict[int, int]) -> tuple[dict[int, int], int]:
    """Place the values whose indices are in `sizes`. Return the offset of each by index, and the end of the last one.
    `sizes` are multiples of one unit.
    """
    places: dict[int, int] = {}
    for index in sorted(sizes, key=lambda i: (-sizes[i], values[i].first, i)):
        busy = sorted((places[p], sizes[p]) for p in places if values[p].meets(values[index]))
        places[index] = _best_gap(busy, sizes[index])
    return places, max((places[i] + sizes[i] for i in places), default=0)


def _multiples(values: Sequence[Lifetime], alignment: int) -> tuple[list[tuple[Expr, dict[int, int]]], list[int]]:
    """Group values whose sizes are multiples of the same unit. Each unit comes with its multiples, rounded up to the
    alignment.

    For example, 4096 n and 1024 n are 4096 and 1024 times the unit n. A multiple of the alignment times any unit is
    again a multiple of the alignment, so places need no rounding that depends on the unit. The second list holds the
    other values: those that rounding would make more than an eighth larger, and those that are alone in their unit.
    """
    groups: list[tuple[list[Expr], Expr, dict[int, int]]] = []
    for index, value in enumerate(values):
        if not isinstance(value.nbytes, Expr):
            continue
        number, symbols = _factors(value.nbytes)
        rounded = _aligned(number, alignment)
        if number <= 0 or (rounded - number) * 8 > number:
            continue
        group = next((g for g in groups if _same_factors(g[0], symbols)), None)
        if group is None:
            group = (symbols, reduce(operator.mul, symbols), {})
            groups.append(group)
        group[2][index] = rounded
    shared = [(unit, numbers) for _, unit, numbers in groups if len(numbers) > 1]
    planned = {index for _, numbers in shared for index in numbers}
    return shared, [i for i, v in enumerate(values) if isinstance(v.nbytes, Expr) and i not in planned]


def _factors(size: Dim) -> tuple[int, list[Expr]]:
    """Split a size into a number and symbolic factors."""
    if isinstance(size, Mul):
        (a, left), (b, right) = _factors(size.a), _factors(size.b)
        return a * b, [*left, *right]
    if isinstance(size, IntImm):
        return size.value, []
    return (1, [size]) if isinstance(size, Expr) else (int(size), [])


def _same_factors(a: Sequence[Expr], b: Sequence[Expr]) -> bool:
    left = list(b)
    for factor in a:
        place = next((k for k, other in enumerate(left) if structural_equal(factor, other)), None)
        if place is None:
            return False
        left.pop(place)
    return not left


def _sum(size: Dim, unit: Expr, number: int) -> Dim:
    """Return `size + unit * number`, simplified if one of the terms is 0."""
    if not number:
        return size
    return size + unit * number if isinstance(size, Expr) or size else unit * number


def _best_gap(busy: Sequence[tuple[int, int]], size: int) -> int:
    """Return the offset of the smallest gap between busy stretches that can hold `size` bytes, or the end if none
    can.
    """
    best: tuple[int, int] | None = None
    end = 0
    for offset, length in busy:
        gap = offset - end
        if gap >= size and (best is None or gap < best[0]):
            best = (gap, end)
        end = max(end, offset + length)
    return best[1] if best is not None else end


def _place_alone(
    values: Sequence[Lifetime], indices: Sequence[int], offsets: dict[int, Dim], size: Dim, alignment: int
) -> Dim:
    """Place the values with these `indices` after the first `size` bytes, and return the new end.

    Values of equal size share a place if their lifetimes do not overlap.
    """
    chunks: list[tuple[Expr, Dim, list[int]]] = []
    for index in indices:
        value = values[index]
        assert isinstance(value.nbytes, Expr)
        for extent, offset, members in chunks:
            if structural_equal(extent, value.nbytes) and not any(values[m].meets(value) for m in members):
                offsets[index] = offset
                members.append(index)
                break
        else:
            offsets[index] = size
            chunks.append((value.nbytes, size, [index]))
            end = (value.nbytes + (alignment - 1)) // alignment * alignment
            size = size + end if isinstance(size, Expr) or size else end
    return size


def _lower_bound(values: Sequence[Lifetime], fixed: dict[int, int]) -> int:
    steps = {values[i].first for i in fixed}
    return max((sum(n for i, n in fixed.items() if values[i].first <= s <= values[i].last) for s in steps), default=0)


def _aligned(nbytes: int, alignment: int) -> int:
    return -(-nbytes // alignment) * alignment
