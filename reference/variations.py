"""Inputs made from others so that they reach what the two programs tell apart.

Plants: the landmarks of both programs (`reference.landmarks`) and their neighbours, each in every argument, among few
different elements, so that maxima are met twice and indices collide. Far: everything beyond the largest landmark, of
one sign. Full: integers of the whole range of their dtype, of both signs and
negative ones, and those of which a sum or a product is still in range. A program need not be
defined on these; then the modes leave them out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from minitvm import expr as x

from .programs import Parameter

if TYPE_CHECKING:
    from .modes.case import Case

PLANTED = 48  # numbers at most, drawn where there are more
ROUNDS = 5  # of plants, at most
ORDINARY = 16  # how far ordinary inputs reach
FARTHEST = 2**30
SOURCES = 3  # different elements of an input with ties


@dataclass(frozen=True)
class Change:
    """What is done to one argument: its elements taken from other places, then some overwritten; flat arrays."""

    take: np.ndarray | None = None
    where: np.ndarray | None = None
    values: np.ndarray | None = None

    def on(self, array: Any, lift: Callable[[np.ndarray], Any] = lambda values: values) -> Any:
        """The argument changed; `lift` makes elements of numbers."""
        flat = np.array(array).reshape(-1)
        if self.take is not None:
            flat = flat[self.take]
        if self.where is not None and self.values is not None and self.where.any():
            flat[self.where] = lift(self.values[self.where])
        shaped = flat.reshape(np.shape(array))
        return shaped if isinstance(array, np.ndarray) else shaped[()]


Variation = Sequence[Change | None]  # one for each parameter, None: it stays


def varied(inputs: Sequence[Any], variation: Variation) -> list[Any]:
    """Arguments changed."""
    return [a if change is None else change.on(a) for a, change in zip(inputs, variation, strict=True)]


def variations(case: Case, inputs: Sequence[Any], whole: bool = False) -> Iterator[Variation]:
    """The variations that these programs ask for.

    With `whole`, floats are planted as whole numbers only, and what `blend` and `ties` make is left out: exact mode
    puts these into the inputs that it has anyway. An argument that gives a dimension stays, and so do the integers
    that may say how often a loop runs.
    """
    rng = np.random.default_rng((case.seed, 0x91A2))
    sizes = [np.size(a) for a in inputs]
    lists = _lists(case, whole, rng)
    tied = ties(case, inputs)
    if tied is not None and not (whole and case.facts.looks_at_order):
        yield tied  # among plants there may be no tie left at the greatest element
    if not (whole and _ordinary(lists, sizes)):
        yield from _plants(lists, tied, sizes, rng)
    if case.facts.landmarks:
        yield from _far(case, sizes, rng)
    ints = [p.dtype.is_int and _chosen(case, p) for p in case.parameters]
    if any(ints):
        yield from _full(case.parameters, ints, sizes, rng)


def blend(case: Case, inputs: Sequence[Any]) -> Variation | None:
    """Whole landmarks planted, if they are no greater than ordinary inputs and there is place for all at once."""
    rng = np.random.default_rng((case.seed, 0xB1E2D))
    lists, sizes = _lists(case, True, rng), [np.size(a) for a in inputs]
    return next(_plants(lists, None, sizes, rng), None) if _ordinary(lists, sizes) else None


def ties(case: Case, inputs: Sequence[Any]) -> Variation | None:
    """The elements of each argument taken from few places, from each at least twice; for programs that may notice.

    Those are the ones that look at order, and of integers those that go on to where others point.
    """
    rng = np.random.default_rng((case.seed, 0x71E5))
    changes: list[Change | None] = []
    for p, n in zip(case.parameters, map(np.size, inputs)):
        wanted = case.facts.looks_at_order or (p.dtype.is_int and case.facts.points)
        if not wanted or n < 2 or not _chosen(case, p):
            changes.append(None)
            continue
        few = rng.permutation(n)[: max(1, min(SOURCES, n // 2))]
        changes.append(Change(rng.permutation(np.resize(few, n))))
    return changes if any(c is not None for c in changes) else None


def _lists(case: Case, whole: bool, rng: np.random.Generator) -> list[np.ndarray | None]:
    marks = sorted(case.facts.landmarks)
    return [_numbers(p, marks, whole, rng) if marks and _chosen(case, p) else None for p in case.parameters]


def _ordinary(lists: Sequence[np.ndarray | None], sizes: Sequence[int]) -> bool:
    pairs = [(v, n) for v, n in zip(lists, sizes) if v is not None and v.size and n]
    return all(np.abs(v).max() <= ORDINARY and v.size <= _places(n) for v, n in pairs)


def _places(size: int) -> int:
    """How many elements are planted at once."""
    return max(1, size * 3 // 4)


def _chosen(case: Case, p: Parameter) -> bool:
    if not p.given or p.dtype.is_bool or (p.shape is None and p.name in case.sizes):
        return False
    return p.dtype.is_float or (p.dtype.is_int and p.name not in case.facts.withheld)


def _numbers(p: Parameter, marks: Sequence[Fraction], whole: bool, rng: np.random.Generator) -> np.ndarray:
    """The landmarks and their neighbours, as numbers of a parameter's dtype."""
    steps = (-1, 0, 1) if whole or p.dtype.is_int else (-1, Fraction(-1, 2), 0, Fraction(1, 2), 1)
    around = {c + step for c in marks for step in steps}
    if whole or p.dtype.is_int:
        around = {v for v in around if v.denominator == 1}
    low, high = (Fraction(v) for v in (p.dtype.min, p.dtype.max))
    kept = sorted(v for v in around if low <= v <= high)
    if len(kept) > PLANTED:
        kept = [kept[k] for k in sorted(rng.choice(len(kept), PLANTED, replace=False))]
    return np.array([int(v) if p.dtype.is_int else float(v) for v in kept], p.dtype.numpy)


def _plants(lists: Sequence[np.ndarray | None], tied: Variation | None, sizes: Sequence[int],
            rng: np.random.Generator) -> Iterator[Variation]:  # fmt: skip
    lists = [None if v is None or not v.size or not n else rng.permutation(v) for v, n in zip(lists, sizes)]
    needed = [math.ceil(v.size / _places(n)) for v, n in zip(lists, sizes) if v is not None]
    for k in range(min(max(needed, default=0), ROUNDS)):
        changes: list[Change | None] = []
        for place, (v, n) in enumerate(zip(lists, sizes)):
            tie = None if tied is None else tied[place]
            if v is None:
                changes.append(tie)
                continue
            m = _places(n)
            at = rng.permutation(n)[:m]
            where, values = np.zeros(n, np.bool_), np.zeros(n, v.dtype)
            where[at], values[at] = True, v[(k * m + np.arange(m)) % v.size]
            changes.append(Change(None if tie is None else tie.take, where, values))
        yield changes


def _far(case: Case, sizes: Sequence[int], rng: np.random.Generator) -> Iterator[Variation]:
    beyond = [2 * math.ceil(abs(c)) for c in case.facts.landmarks if ORDINARY < 2 * abs(c) <= FARTHEST]
    if not beyond:
        return
    least = max(beyond)
    for sign in (-1, 1):
        changes: list[Change | None] = []
        for p, n in zip(case.parameters, sizes):
            if not n or not _chosen(case, p) or (p.dtype.is_int and 2 * least > int(p.dtype.max)):
                changes.append(None)
                continue
            positive = p.dtype.kind == "uint" or sign > 0
            changes.append(_everywhere(rng.integers(least, 2 * least + 1, n) * (1 if positive else -1), p.dtype))
        if any(c is not None for c in changes):
            yield changes


def _full(parameters: Sequence[Parameter], ints: Sequence[bool], sizes: Sequence[int],
          rng: np.random.Generator) -> Iterator[Variation]:  # fmt: skip
    for part, negative in (("bits", False), ("bits", True), ("sum", False), ("product", False)):
        changes: list[Change | None] = []
        for p, taken, n in zip(parameters, ints, sizes):
            if not taken:
                changes.append(None)
                continue
            low, high = int(p.dtype.min), -1 if negative and p.dtype.kind == "int" else int(p.dtype.max)
            if part != "bits":  # numbers of which a sum or a product is in range
                low, high = (bound // 4 if part == "sum" else int(math.copysign(math.isqrt(abs(bound)), bound))
                             for bound in (low, high))  # fmt: skip
            changes.append(_everywhere(rng.integers(low, high, n, p.dtype.numpy, endpoint=True), p.dtype))
        yield changes


def _everywhere(values: np.ndarray, dtype: x.DType) -> Change:
    return Change(None, np.ones(values.size, np.bool_), values.astype(dtype.numpy))
