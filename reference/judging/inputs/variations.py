"""Vary inputs so that they reach the special cases of the two programs.

Plants are the landmarks of both programs (`inputs.landmarks`) and their neighbours in every argument, and values that
lead to their sites (`inputs.sites`). Probes are the same in one argument while the others are 0 or 1. Far inputs are
all beyond the largest of these, with one sign. Sweeps have numbers of every magnitude. Ties have few different
elements, the same in several arguments, with the largest at the corners. Full inputs are integers from the whole range
of their dtype, and ends are all its smallest or its largest; with several arguments or bools, also mixed
(`judging.inputs.corners`). If a program is undefined on an input, the modes leave the input out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from minitvm import expr as x

from ..programs import Parameter
from .corners import corners
from .preimages import Solution
from .rows import Values, bytes_of, extremes, largest, no_numbers, ramps, spread

if TYPE_CHECKING:
    from ..case import Case

PLANTED = 48  # numbers at most, drawn where there are more
ROUNDS = 5  # of plants, at most
ROUNDS_OF_FEW = 16  # where arguments are so small that few numbers have place in one round
FEW = 128  # elements of all arguments in all such rounds
ROUNDS_OF_BYTES = 32  # so that arguments of 8 elements and more hold every byte
ORDINARY = 16  # how far ordinary inputs reach
FARTHEST = 2**60
SWEPT = (None, 24)  # powers of 2 of which all elements are; None: each of another
LARGEST_POWER = 40
PARTS = (6, 2, 4)  # of the elements are planted where an argument is probed against itself
PROBES = len(PARTS)  # of one solution, at most
PROBED = 5  # of all
POLES = 2  # of one argument
SOURCES = 3  # different elements of an input with ties


@dataclass(frozen=True)
class Change:
    """A change of one argument: its elements are taken from other positions, and then some are overwritten; arrays are
    flat.
    """

    take: np.ndarray | None = None
    where: np.ndarray | None = None
    values: np.ndarray | None = None

    def on(self, array: Any, lift: Callable[[np.ndarray], Any] = lambda values: values) -> Any:
        """Return the changed argument; `lift` converts numbers to elements."""
        flat = np.array(array).reshape(-1)
        if self.take is not None:
            flat = flat[self.take]
        if self.where is not None and self.values is not None and self.where.any():
            flat[self.where] = lift(self.values[self.where])
        shaped = flat.reshape(np.shape(array))
        return shaped if isinstance(array, np.ndarray) else shaped[()]


Variation = Sequence[Change | None]  # one for each parameter, None: it stays


def varied(inputs: Sequence[Any], variation: Variation) -> list[Any]:
    """Return the changed arguments."""
    return [a if change is None else change.on(a) for a, change in zip(inputs, variation, strict=True)]


def variations(case: Case, inputs: Sequence[Any], whole: bool = False) -> Iterator[Variation]:
    """Yield the variations that may show a difference of these programs.

    With `whole`, planted floats are integers, and the results of `blend` and `ties` are left out: the exact mode adds
    them to the inputs that it has anyway. Arguments that are dimensions are not changed, nor are integers that may
    decide how often a loop runs.
    """
    rng = np.random.default_rng((case.seed, 0x91A2))
    sizes = [np.size(a) for a in inputs]
    lists = _lists(case, whole, rng)
    tied = ties(case, inputs)
    if tied is not None and not (whole and case.facts.looks_at_order):
        yield tied  # among plants there may be no tie left at the greatest element
    if case.facts.compares or not (whole and _ordinary(lists, sizes)):
        yield from _plants(lists, tied, sizes, rng, least=2)
    yield from _far(case, sizes, rng)
    yield from _probes(case, case.facts.probes, sizes, whole, rng)
    if case.facts.compares:
        yield from _meeting(case, inputs, rng)
    ints = [p.dtype.is_int and _chosen(case, p) for p in case.parameters]
    if any(ints):
        yield from _full(case.parameters, ints, sizes, rng, case.facts.converts)
    if case.facts.looks_at_order:
        yield from _rows(case, inputs, ramps)
        yield from _rows(case, inputs, partial(extremes, rng=rng), floats=whole)  # else `extreme_floats`
    if case.facts.classifies:
        yield from _rows(case, inputs, partial(no_numbers, rng=rng), integers=False)
    if case.elements is None:  # else the ends are looked at there
        yield from _rows(case, inputs, partial(bytes_of, rng=rng, rounds=ROUNDS_OF_BYTES))
        if any(ints):
            yield from _ends(case.parameters, ints, sizes)
        yield from _corners(case, sizes, rng)


def sweeps(case: Case, inputs: Sequence[Any], whole: bool = False) -> Iterator[Variation]:
    """Yield inputs with numbers of every magnitude, while a comparison or clip has a side that no input took yet."""
    rng = np.random.default_rng((case.seed, 0x5EEE))
    for step in SWEPT:
        if case.facts.covered:
            return
        changes: list[Change | None] = [None] * len(inputs)
        for k, p in enumerate(case.parameters):
            n = np.size(inputs[k])
            if not n or not _chosen(case, p):
                continue
            most = p.dtype.bits - 2 if p.dtype.is_int else LARGEST_POWER if p.dtype.bits > 16 else 14
            least = 0 if whole or p.dtype.is_int else -most // 2
            powers = rng.integers(least, most + 1, n) if step is None else np.full(n, min(step, most - 4))
            values = np.ldexp(1.0 if step is None else rng.integers(1, 16, n), np.maximum(powers, least))
            signs = np.ones(n) if p.dtype.kind == "uint" else rng.choice((-1, 1), n)
            changes[k] = _everywhere(values * signs, p.dtype)
        if any(c is not None for c in changes):
            yield changes


def between(case: Case, inputs: Sequence[Any]) -> Iterator[Variation]:
    """Yield the plants and probes that are not integers, for programs that were already judged on integers."""
    rng = np.random.default_rng((case.seed, 0xF8AC))
    sizes = [np.size(a) for a in inputs]
    lists: list[np.ndarray | None] = []
    for k, p in enumerate(case.parameters):
        broken_values = [v for v in case.facts.reached.get(k, ()) if v.denominator != 1]
        lists.append(
            _kept([broken_values], p, rng) if broken_values and p.dtype.is_float and _chosen(case, p) else None
        )
    yield from _plants(lists, None, sizes, rng)
    broken = [s for s in case.facts.probes if any(v.denominator != 1 for v in s.values)]
    yield from _probes(case, broken, sizes, False, rng)


def poles(case: Case, inputs: Sequence[Any]) -> Iterator[Variation]:
    """Yield inputs at which functions of the programs overflow or are undefined, in one argument at a time."""
    rng = np.random.default_rng((case.seed, 0x901E))
    values: dict[int, set[Fraction]] = {}
    for solution in case.facts.poles:
        values.setdefault(solution.place, set()).update(solution.values)
    for place, constants in sorted(values.items()):
        p, n = case.parameters[place], np.size(inputs[place])
        if not p.dtype.is_float or not n:
            continue
        every = _kept([constants], p, rng)
        m = max(1, n // 2)
        for k in range(min(math.ceil(every.size / m), POLES)):
            changes: list[Change | None] = [None] * len(inputs)
            changes[place] = _at(rng.permutation(n)[:m], every[(k * m + np.arange(m)) % every.size], n)
            yield changes


def _rows(case: Case, inputs: Sequence[Any], make: Callable[..., Iterator[Values]],
          floats: bool | Collection[int] = True, integers: bool = True) -> Iterator[Variation]:  # fmt: skip
    """Yield the variations that a function of `inputs.rows` makes, for floats (all, or those at some positions) and
    integers.
    """
    places = floats if not isinstance(floats, bool) else range(len(inputs) if floats else 0)
    moved = [_chosen(case, p) and bool(np.size(a)) and (k in places if p.dtype.is_float else integers)
             for k, (p, a) in enumerate(zip(case.parameters, inputs, strict=True))]  # fmt: skip
    if any(moved):
        for values in make(case.parameters, moved, [np.shape(a) for a in inputs]):
            yield [None if v is None else _everywhere(v, p.dtype) for v, p in zip(values, case.parameters, strict=True)]


def extreme_floats(case: Case, inputs: Sequence[Any]) -> Iterator[Variation]:
    """Yield rows of the two lowest and of the two highest values, for programs that depend on the order of their data.

    Only floats whose order matters are changed: a sum of others may overflow in one order of its terms and not in
    another.
    """
    rng = np.random.default_rng((case.seed, 0xE4D5))
    if case.facts.looks_at_order:
        yield from _rows(case, inputs, partial(extremes, rng=rng), floats=case.facts.compared)


def overflowing(case: Case, inputs: Sequence[Any]) -> Iterator[Variation]:
    """Yield floats whose sums overflow.

    There are none if products overflow as well, possibly at other places in the other program, or if the programs round
    to different dtypes, which is not judged.
    """
    if case.facts.multiplies or case.rounded:
        return
    yield from _rows(case, inputs, partial(largest, rng=np.random.default_rng((case.seed, 0x0F10))), integers=False)


def cancelling(case: Case, inputs: Sequence[Any]) -> Iterator[Variation]:
    """Yield rows for which differences of squares lose their digits."""
    yield from _rows(case, inputs, partial(spread, rng=np.random.default_rng((case.seed, 0xCA7C))), integers=False)


def blend(case: Case, inputs: Sequence[Any]) -> Variation | None:
    """Return a variation with integer landmarks, if they are no larger than ordinary inputs and all fit at once; else
    None.
    """
    rng = np.random.default_rng((case.seed, 0xB1E2D))
    lists, sizes = _lists(case, True, rng), [np.size(a) for a in inputs]
    return next(_plants(lists, None, sizes, rng), None) if _ordinary(lists, sizes) else None


def ties(case: Case, inputs: Sequence[Any]) -> Variation | None:
    """Return a variation in which each argument has few distinct elements, each at least twice; None if this cannot
    matter.

    It matters for programs that depend on order, and for integers whose successors are also used as indices.
    """
    rng = np.random.default_rng((case.seed, 0x71E5))
    changes: list[Change | None] = []
    for p, n in zip(case.parameters, map(np.size, inputs), strict=True):
        looks_at_ties = case.facts.looks_at_order or (p.dtype.is_int and case.facts.points)
        if not looks_at_ties or n < 2 or not _chosen(case, p):
            changes.append(None)
            continue
        few = rng.permutation(n)[: max(1, min(SOURCES, n // 2))]
        changes.append(Change(rng.permutation(np.resize(few, n))))
    return changes if any(c is not None for c in changes) else None


def _lists(case: Case, whole: bool, rng: np.random.Generator) -> list[np.ndarray | None]:
    marks, reached = sorted(case.facts.landmarks), case.facts.reached
    return [
        _numbers(p, marks, reached.get(k, ()), whole, rng) if (marks or k in reached) and _chosen(case, p) else None
        for k, p in enumerate(case.parameters)
    ]


def _ordinary(lists: Sequence[np.ndarray | None], sizes: Sequence[int]) -> bool:
    pairs = [(v, n) for v, n in zip(lists, sizes, strict=True) if v is not None and v.size and n]
    return all(np.abs(v).max() <= ORDINARY and v.size <= _places(n) for v, n in pairs)


def _places(size: int) -> int:
    """Return how many elements are planted at once."""
    return max(1, size * 3 // 4)


def _chosen(case: Case, p: Parameter) -> bool:
    if not p.is_input or p.dtype.is_bool or (p.shape is None and p.name in case.sizes):
        return False
    return p.dtype.is_float or (p.dtype.is_int and p.name not in case.facts.withheld)


def _numbers(p: Parameter, marks: Sequence[Fraction], reached: Collection[Fraction], whole: bool,
             rng: np.random.Generator) -> np.ndarray:  # fmt: skip
    """Return the landmarks and the values that lead to sites in a parameter's dtype, then their neighbours."""
    steps = (-1, 1) if whole or p.dtype.is_int else (-1, Fraction(-1, 2), Fraction(1, 2), 1)
    beside = {c + step for c in marks for step in steps}
    if whole or p.dtype.is_int:
        beside = {v for v in beside if v.denominator == 1}
    if p.dtype.is_int:
        beside |= {v + step for v in reached for step in (-1, 1) if v.denominator == 1}
    return _planted({*marks, *reached}, beside, p, whole, rng)


def _planted(values: frozenset[Fraction] | set[Fraction], beside: Collection[Fraction], p: Parameter, whole: bool,
             rng: np.random.Generator) -> np.ndarray:  # fmt: skip
    """Return the values that an argument can hold; for integers, then the integers next to other values, then
    `beside`.
    """
    if not p.dtype.is_int:
        return _kept([[v for v in values if v.denominator == 1] if whole else values, beside], p, rng)
    exact = {v for v in values if v.denominator == 1}
    near = {Fraction(w) for v in values - exact for w in (math.floor(v), math.ceil(v))}
    return _kept([exact, near, beside], p, rng)


def _kept(ranked: Sequence[Collection[Fraction]], p: Parameter, rng: np.random.Generator) -> np.ndarray:
    """Return the values that a dtype holds, each collection in random order before the next, up to a limit."""
    low, high = (Fraction(v) for v in (p.dtype.min, p.dtype.max))
    kept: list[Fraction] = []
    for values in ranked:
        held = sorted(v for v in set(values).difference(kept) if low <= v <= high)
        kept += [held[k] for k in rng.permutation(len(held))]
    return np.array([int(v) if p.dtype.is_int else float(v) for v in kept[:PLANTED]], p.dtype.numpy)


def _plants(lists: Sequence[np.ndarray | None], tied: Variation | None, sizes: Sequence[int],
            rng: np.random.Generator, least: int = 1) -> Iterator[Variation]:  # fmt: skip
    lists = [None if v is None or not v.size or not n else v for v, n in zip(lists, sizes, strict=True)]
    needed = [max(least, math.ceil(v.size / _places(n))) for v, n in zip(lists, sizes, strict=True) if v is not None]
    rounds = max(ROUNDS, min(ROUNDS_OF_FEW, FEW // max(1, sum(sizes))))
    for k in range(min(max(needed, default=0), rounds)):
        changes: list[Change | None] = []
        for place, (v, n) in enumerate(zip(lists, sizes, strict=True)):
            tie = None if tied is None else tied[place]
            if v is None:
                changes.append(tie)
                continue
            m = _places(n)
            at = rng.permutation(n)[:m]
            planted = _at(at, v[(k * m + np.arange(m)) % v.size], n)
            changes.append(Change(None if tie is None else tie.take, planted.where, planted.values))
        yield changes


def _far(case: Case, sizes: Sequence[int], rng: np.random.Generator) -> Iterator[Variation]:
    common = [2 * math.ceil(abs(c)) for c in case.facts.landmarks]
    least: dict[int, int] = {}
    for k, (p, n) in enumerate(zip(case.parameters, sizes, strict=True)):
        beyond = [v for v in (*common, *(2 * math.ceil(abs(c)) for c in case.facts.reached.get(k, ()))) if v > ORDINARY]
        farthest = int(p.dtype.max) // 2 if p.dtype.is_int else min(FARTHEST, int(p.dtype.max) // 2)
        beyond = [v for v in beyond if v <= farthest]
        if n and beyond and _chosen(case, p):
            least[k] = max(beyond)
    if not least:
        return
    for sign in (-1, 1):
        changes: list[Change | None] = []
        for k, (p, n) in enumerate(zip(case.parameters, sizes, strict=True)):
            if k not in least:
                changes.append(None)
                continue
            positive = p.dtype.kind == "uint" or sign > 0
            drawn = rng.integers(least[k], 2 * least[k] + 1, n)
            changes.append(_everywhere(drawn * (1 if positive else -1), p.dtype))
        yield changes


def _probes(case: Case, solutions: Sequence[Solution], sizes: Sequence[int], whole: bool,
            rng: np.random.Generator) -> Iterator[Variation]:  # fmt: skip
    """Yield variations with values planted in one argument while the others are 0 or 1."""
    left = PROBED
    for solution in solutions:
        p, n = case.parameters[solution.place], sizes[solution.place]
        if not n or not _chosen(case, p):
            continue
        values = _planted(solution.values, (), p, whole, rng)
        if not values.size:
            continue
        ground = dict(solution.ground)
        done = 0
        for k in range(min(PROBES, left)):
            own = solution.place in ground
            if not own and done >= values.size:
                break
            # First few nonzero elements among zeros, in case a sum uses several elements of the argument; then more.
            m = max(1, n // PARTS[k]) if own else _places(n)
            left -= 1
            changes: list[Change | None] = [None] * len(sizes)
            for place, beside in ground.items():
                if _chosen(case, case.parameters[place]):
                    changes[place] = _everywhere(np.full(sizes[place], beside), case.parameters[place].dtype)
            planted = _at(rng.permutation(n)[:m], values[(done + np.arange(m)) % values.size], n)
            done += m
            if own:
                assert planted.where is not None and planted.values is not None
                planted = _everywhere(np.where(planted.where, planted.values, ground[solution.place]), p.dtype)
            changes[solution.place] = planted
            yield changes


def _meeting(case: Case, inputs: Sequence[Any], rng: np.random.Generator) -> Iterator[Variation]:
    """Yield the same numbers at the same places of several arguments, and the best element of each at two corners."""
    data = [k for k, p in enumerate(case.parameters) if _chosen(case, p) and np.size(inputs[k])]
    if len(data) > 1:
        for few in (rng.integers(1, 9, 7), rng.integers(0, 3, 7)):
            changes: list[Change | None] = [None] * len(inputs)
            for k in data:
                p, n = case.parameters[k], np.size(inputs[k])
                changes[k] = _everywhere(np.resize(few, n), p.dtype)
            yield changes
    wide = [k for k in data if np.ndim(inputs[k]) > 1]
    for sign in (1, -1) if wide else ():
        changes = [None] * len(inputs)
        for k in wide:
            p, shape = case.parameters[k], np.shape(inputs[k])
            if sign < 0 and p.dtype.kind == "uint":
                continue
            values = rng.integers(0, 3, shape)
            for corner in range(1, 2 ** len(shape) - 1):
                values[tuple(-(corner >> axis & 1) for axis in range(len(shape)))] = 5
            changes[k] = _everywhere(sign * values.reshape(-1), p.dtype)
        yield changes


def _full(parameters: Sequence[Parameter], ints: Sequence[bool], sizes: Sequence[int],
          rng: np.random.Generator, converts: bool) -> Iterator[Variation]:  # fmt: skip
    """Yield integers from the whole range of the dtype, or small enough that sums or products fit; half at ends or near
    zero.
    """
    parts = [("bits", False), ("bits", True), *([("sum", False), ("product", False)] if converts else [])]
    for part, negative in parts:
        changes: list[Change | None] = []
        for p, is_int, n in zip(parameters, ints, sizes, strict=True):
            if not is_int:
                changes.append(None)
                continue
            low, high = int(p.dtype.min), -1 if negative and p.dtype.kind == "int" else int(p.dtype.max)
            if part != "bits":  # numbers of which a sum or a product is in range
                low, high = (bound // 4 if part == "sum" else int(math.copysign(math.isqrt(abs(bound)), bound))
                             for bound in (low, high))  # fmt: skip
            drawn = rng.integers(low, high, n, p.dtype.numpy, endpoint=True)
            marked = [v for v in (low, low + 1, -1, 0, 1, low // 2, high // 2 + 1, high - 1, high) if low <= v <= high]
            ends = np.array(marked, p.dtype.numpy)[rng.integers(0, len(marked), n)]
            changes.append(_everywhere(np.where(rng.integers(0, 2, n) == 1, ends, drawn), p.dtype))
        yield changes


def _ends(parameters: Sequence[Parameter], ints: Sequence[bool], sizes: Sequence[int]) -> Iterator[Variation]:
    """Yield inputs in which every element is the smallest of its dtype, or the largest."""
    for greatest in (False, True):
        changes: list[Change | None] = []
        for p, is_int, n in zip(parameters, ints, sizes, strict=True):
            if not is_int:
                changes.append(None)
                continue
            end = p.dtype.max if greatest else p.dtype.min
            changes.append(_everywhere(np.full(n, int(end), p.dtype.numpy), p.dtype))
        yield changes


def _corners(case: Case, sizes: Sequence[int], rng: np.random.Generator) -> Iterator[Variation]:
    for row in corners(cornered(case, sizes), rng):
        yield [None if v is None else _everywhere(np.full(n, v, p.dtype.numpy), p.dtype)
               for v, p, n in zip(row, case.parameters, sizes, strict=True)]  # fmt: skip


def cornered(case: Case, sizes: Sequence[int]) -> list[x.DType | None]:
    """Return the dtypes of the parameters that get the ends of their range, and None for the others."""
    return [p.dtype if n and ((p.dtype.is_int and _chosen(case, p)) or (p.dtype.is_bool and p.is_input)) else None
            for p, n in zip(case.parameters, sizes, strict=True)]  # fmt: skip


def _at(places: np.ndarray, values: np.ndarray, n: int) -> Change:
    where, planted = np.zeros(n, np.bool_), np.zeros(n, values.dtype)
    where[places], planted[places] = True, values
    return Change(None, where, planted)


def _everywhere(values: np.ndarray, dtype: x.DType) -> Change:
    return Change(None, np.ones(values.size, np.bool_), values.astype(dtype.numpy))
