"""The sizes at which programs with symbolic dimensions are compared.

A split without its predicate is wrong if the size is not a multiple of the factor, a lost tail shows at odd sizes, and
a constant instead of a size shows at any other size. So several sizes are tried, chosen from the numbers in the two
programs: 1, a prime above them, a number that is not a multiple of any, one that is, and 0; and the sizes at which
conditions change (`inputs.size_conditions`).

A pipeline that is drained too early or a rolling buffer that is too small goes wrong in the third tile, and a cache
that is filled only once in the second. So one dimension at a time gets three of its largest tiles plus one element, and
two tiles minus one element (`rounds_to_try`). An integer argument that decides how often a loop runs counts as a
dimension.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from minitvm import expr as x
from minitvm.errors import InputError

from ..flow import Flow
from ..hints import hint
from ..programs import Program, parameters
from .arguments import chosen_sizes, dimensions, extents
from .signs import nodes
from .size_conditions import Change, changes
from .sizes_together import together

LARGEST = 64  # numbers above this are taken for other things than factors
ELEMENTS = 1 << 14  # of all arguments together: an interpreter runs the programs at every one of these sizes
ITERATIONS = 1 << 12  # the product of all sizes
FIRST_PRIME = 11
LARGEST_TILE = 1 << 10
THRESHOLDS = 6  # sizes at which conditions on one dimension change
FAR_ELEMENTS = 1 << 18  # of all arguments where one dimension is large, for the side of a condition
FAR_SIZES = 8  # of such sizes
SMALL = (2, 3)  # of the dimensions beside one that is large


def sizes_to_try(before: Program, after: Program, seed: int, fixed: Mapping[str, int] | None,
                 several: bool = True) -> list[dict[str, int]]:  # fmt: skip
    """Return several sets of sizes for all dimensions, by name; the first is random, so that seeds differ.

    Given sizes are kept. Raises `InputError` for a name that the programs do not have, or a negative size.
    """
    _require_names(before, after, fixed or {})
    first = chosen_sizes(before, seed, fixed)
    rng = np.random.default_rng((seed, 0x5CA1))
    first.update({n: int(rng.integers(1, 10)) for n in sorted(scalar_extents(before, after) - set(first))})
    names = [name for name in first if name not in (fixed or {})]
    if not names or not several:
        return [first]
    # Each dimension gets another number of the list, so that exchanged dimensions show.
    values = _telling(_factors(before) | _factors(after), seed)
    rounds = [[*values[r:], *values[:r]] for r in range(len(values))]
    candidates = [first, *({**first, **dict(zip(names, itertools.cycle(numbers)))} for numbers in rounds)]
    small = dict(zip(names, itertools.cycle(SMALL)))
    if not all(_affordable(before, names, one) for one in candidates):
        candidates += [{**first, **small, name: value} for name in names[:3] for value in values[1:]]
    candidates += [{**first, **small, name: 0} for name in names[:3]]
    candidates.append({**first, **dict.fromkeys(names, values[2])})  # what is defined for equal sizes only
    affordable = [one for one in candidates if _affordable(before, names, one)] or [first]
    candidates += [
        {**first, **small, **sizes}
        for one in _changes(before, after, names, affordable, small)
        for sizes in one.sizes
        if max(sizes.values()) <= LARGEST_TILE
    ][: THRESHOLDS * len(names)]
    candidates = [one for k, one in enumerate(candidates) if one not in candidates[:k]]
    affordable = [one for one in candidates if _affordable(before, names, one)]
    candidates += hint(lambda: together(before, after, names, affordable), [])
    return [one for one in candidates if _affordable(before, names, one)] or [first]


@dataclass(frozen=True)
class Round:
    """Sizes where `name` is several tiles long; the sizes `otherwise` are used if `before` is undefined at these."""

    name: str
    tile: int
    sizes: dict[str, int]
    otherwise: tuple[dict[str, int], ...] = ()
    side: str = ""  # of a condition on the dimension, which these sizes take; then there is no tile


def missed_sides(before: Program, after: Program, tried: Sequence[Mapping[str, int]],
                 fixed: Mapping[str, int] | None) -> tuple[list[Round], list[str]]:  # fmt: skip
    """Return sizes for the sides of conditions that no tried sizes take, and the sides that no affordable sizes
    take.
    """
    names = [name for name in tried[0] if name not in (fixed or {})]
    if not names or len(tried) < 2:
        return [], []
    small = dict(zip(names, itertools.cycle(SMALL)))
    rounds: list[Round] = []
    unreached: dict[str, None] = {}
    for one in _changes(before, after, names, tried, small):
        if not one.missed:
            continue
        every = [{**tried[0], **small, **sizes} for sizes in one.sizes]
        every = [sizes for sizes in every if _affordable(before, names, sizes, FAR_ELEMENTS, FAR_ELEMENTS)]
        if every and len(rounds) < FAR_SIZES:
            rounds += [Round(one.names[0], 1, sizes, side=one.text) for sizes in every[:2]]
        else:
            unreached[one.text] = None
    reached = {one.side for one in rounds}  # also by another dimension
    return rounds, [text for text in unreached if text not in reached]


def _changes(before: Program, after: Program, names: Sequence[str], tried: Sequence[Mapping[str, int]],
             beside: Mapping[str, int]) -> list[Change]:  # fmt: skip
    return hint(lambda: changes(before, after, names, tried, beside), [])


def rounds_to_try(before: Program, after: Program, tried: Sequence[Mapping[str, int]],
                  fixed: Mapping[str, int] | None) -> list[Round]:  # fmt: skip
    """Return, for each open dimension, sizes of three tiles plus one and of two tiles minus one.

    `tried` are the sizes that are tried anyway; if they have as many tiles, nothing is added.
    """
    first = tried[0]
    names = [name for name in first if name not in (fixed or {})]
    if not names or len(tried) < 2:
        return []
    small = dict(zip(names, itertools.cycle(SMALL)))
    result: list[Round] = []
    for name, tile in tiles(before, after, names).items():
        beside = {**first, **small}
        if not any(sizes[name] >= 3 * tile and sizes[name] % tile for sizes in tried):
            equal = {**first, **dict.fromkeys(names, 3 * tile + 1)}  # for what is defined for equal sizes only
            otherwise = {**beside, name: 3 * tile}, *([equal] if _affordable(before, names, equal) else [])
            result.append(Round(name, tile, {**beside, name: 3 * tile + 1}, otherwise))
        result.append(Round(name, tile, {**beside, name: 2 * tile - 1}))
    return result


def tiles(before: Program, after: Program, names: Sequence[str]) -> dict[str, int]:
    """Return, for each dimension, the largest number by which it, or a loop up to it, is divided, split or taken
    modulo.
    """
    largest: dict[str, int] = {}
    for program in (before, after):
        for e, number in _tilings(program):
            for name in names:
                if number > largest.get(name, 1) and name in e:
                    largest[name] = number
    return largest


def _tilings(program: Program) -> Iterator[tuple[set[str], int]]:
    """Yield the numbers that tile something, each with the names of the variables that it applies to."""
    flow = Flow(program)
    inner: dict[int, list[x.Node]] = {}
    for n in nodes(program):
        if isinstance(n, x.FloorDiv | x.FloorMod | x.Div | x.Mod | x.Mul) and n.dtype.is_int:
            for e, factor in ((n.a, n.b), (n.b, n.a)):
                if isinstance(factor, x.IntImm) and 2 <= abs(factor.value) <= LARGEST_TILE:
                    inner.setdefault(abs(factor.value), []).append(e)
    for number, expressions in inner.items():
        yield flow.variables(expressions), number


def scalar_extents(before: Program, after: Program) -> set[str]:
    """Return the integer arguments, by their names in `before`, that decide in a program how often something runs."""
    scalars = {k: p for k, p in enumerate(parameters(before)) if p.shape is None and p.dtype.is_int}
    if not scalars:
        return set()
    reached = {k for program in (before, after) for k in Flow(program).into_extents().parameters}
    return {p.name for k, p in scalars.items() if k in reached}


def size_names(before: Program, after: Program) -> set[str]:
    """Return the names that `sizes` may have: symbolic dimensions and scalar arguments of either program."""
    rng, both = np.random.default_rng(0), (before, after)
    scalars = {p.name for program in both for p in parameters(program) if p.shape is None}
    return scalars | {v.name for program in both for v in dimensions(program, rng, {})}


def _require_names(before: Program, after: Program, fixed: Mapping[str, int]) -> None:
    available = size_names(before, after)
    unknown = sorted(set(fixed) - available)
    if unknown:
        listed = ", ".join(sorted(available)) or "none"
        raise InputError(f"sizes names {', '.join(unknown)}, which is no dimension of these programs; theirs: {listed}")
    dims = {v.name for v in dimensions(before, np.random.default_rng(0), {})}
    negative = [f"{name} = {size}" for name, size in fixed.items() if name in dims and size < 0]
    if negative:
        raise InputError(f"a size cannot be negative: {', '.join(negative)}")


def _factors(program: Program) -> set[int]:
    """Return the numbers in a program by which sizes may be divided, or with which they may be compared."""
    return {
        abs(n.value) for n in nodes(program)
        if isinstance(n, x.IntImm) and not n.dtype.is_bool and 2 <= abs(n.value) <= LARGEST
    }  # fmt: skip


def _telling(factors: set[int], seed: int) -> list[int]:
    largest = sorted(factors)[-2:]
    above = math.prod(largest) if math.prod(largest) <= 2 * LARGEST else max(largest)
    prime = _prime_from(max(above + 1, FIRST_PRIME))
    others = [n for n in range(2, prime) if all(n % f for f in factors)]
    odd = others[seed % min(len(others), 3)] if others else 3
    common = math.lcm(*factors)
    multiple = common if factors and common <= 2 * LARGEST else max(largest, default=4)
    return [1, prime, odd, multiple]


def _prime_from(n: int) -> int:
    while any(n % d == 0 for d in range(2, math.isqrt(n) + 1)):
        n += 1
    return n


def _affordable(program: Program, names: Sequence[str], sizes: Mapping[str, int], elements: int = ELEMENTS,
                iterations: int = ITERATIONS) -> bool:  # fmt: skip
    """Return whether the arguments are small enough and possible, without a negative extent."""
    dims = dimensions(program, np.random.default_rng(0), sizes)
    shapes = [extents(p, dims) for p in parameters(program) if p.shape is not None]
    if any(n < 0 for shape in shapes for n in shape):
        return False
    count = math.prod(sizes[name] for name in names)
    return count <= iterations and sum(math.prod(shape) for shape in shapes) <= elements
