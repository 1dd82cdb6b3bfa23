"""Static memory planning: values whose lifetimes do not overlap share the bytes of one arena.

Greedy by size, best fit: the largest value first, each at the smallest gap that is free during its whole life
(Pisarchyk and Lee, "Efficient memory management for deep neural net inference", 2020). Values of symbolic size come
after the constant ones; two of them share a place only if their sizes are the same expression.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..expr import Expr, structural_equal
from .nodes import Dim

ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A value of `nbytes` bytes that is first written at step `first` and last read at step `last`, both included."""

    name: str
    nbytes: Dim
    first: int
    last: int

    def meets(self, other: Lifetime) -> bool:
        """Whether the lifetimes overlap."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True, slots=True)
class Plan:
    """The offset of each value in the arena, in the order given, and the arena's size, all in bytes.

    `lower_bound` is the most bytes that are alive at one step (of the values of constant size): no plan needs less.
    """

    offsets: tuple[Dim, ...]
    size: Dim
    lower_bound: int


def plan_memory(values: Sequence[Lifetime], alignment: int = ALIGNMENT) -> Plan:
    """Offsets, multiples of `alignment`, such that values with overlapping lifetimes do not overlap."""
    offsets: dict[int, Dim] = {}
    fixed = {i: _aligned(int(v.nbytes), alignment) for i, v in enumerate(values) if not isinstance(v.nbytes, Expr)}
    placed: list[int] = []
    for index in sorted(fixed, key=lambda i: (-fixed[i], values[i].first, i)):
        busy = sorted((int(offsets[p]), fixed[p]) for p in placed if values[p].meets(values[index]))  # type: ignore[arg-type]
        offsets[index] = _best_gap(busy, fixed[index])
        placed.append(index)
    size: Dim = max((int(offsets[i]) + fixed[i] for i in placed), default=0)  # type: ignore[arg-type]
    size = _place_symbolic(values, offsets, size, alignment)
    return Plan(tuple(offsets[i] for i in range(len(values))), size, _lower_bound(values, fixed))


def _best_gap(busy: Sequence[tuple[int, int]], size: int) -> int:
    """The offset of the smallest gap between busy stretches that holds `size` bytes; after all of them if none does."""
    best: tuple[int, int] | None = None
    end = 0
    for offset, length in busy:
        gap = offset - end
        if gap >= size and (best is None or gap < best[0]):
            best = (gap, end)
        end = max(end, offset + length)
    return best[1] if best is not None else end


def _place_symbolic(values: Sequence[Lifetime], offsets: dict[int, Dim], size: Dim, alignment: int) -> Dim:
    chunks: list[tuple[Expr, Dim, list[int]]] = []
    for index, value in enumerate(values):
        if not isinstance(value.nbytes, Expr):
            continue
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
