"""The sizes at which programs with symbolic dimensions are compared.

A split without its predicate goes wrong where a size is no multiple of the factor, a lost tail where it is odd, a
constant in the place of a size wherever it is another. So there are several sizes, chosen by the numbers that stand in
the two programs: 1, a prime above them, a number that is no multiple of any, one that is, and 0.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np

from minitvm import expr as x
from minitvm.errors import InputError

from .arguments import chosen_sizes, dimensions, extents
from .programs import Program, parameters
from .signs import nodes

LARGEST = 64  # numbers above this are taken for other things than factors
ELEMENTS = 1 << 14  # of all arguments together: an interpreter runs the programs at every one of these sizes
ITERATIONS = 1 << 12  # the product of all sizes
FIRST_PRIME = 11


def sizes_to_try(before: Program, after: Program, seed: int, given: Mapping[str, int] | None,
                 several: bool = True) -> list[dict[str, int]]:  # fmt: skip
    """A size for every dimension, by name, several times; the first by chance, so that seeds differ.

    What is given stays. Raises `InputError` where a name is none of the programs', or a size is negative.
    """
    _require_names(before, after, given or {})
    first = chosen_sizes(before, seed, given)
    names = [name for name in first if name not in (given or {})]
    if not names or not several:
        return [first]
    # Each dimension another number of the list: two that were exchanged then differ.
    values = _telling(_factors(before) | _factors(after), seed)
    rounds = [[*values[r:], *values[:r]] for r in range(len(values))]
    found = [first, *({**first, **dict(zip(names, itertools.cycle(numbers)))} for numbers in rounds)]
    small = dict(zip(names, itertools.cycle((2, 3))))
    found += [{**first, **small, name: 0} for name in names[:3]]
    found.append({**first, **dict.fromkeys(names, values[2])})  # what is defined for equal sizes only
    found = [one for k, one in enumerate(found) if one not in found[:k]]
    return [one for one in found if _affordable(before, names, one)] or [first]


def size_names(before: Program, after: Program) -> set[str]:
    """The names that `sizes` may have: symbolic dimensions and scalar arguments of either program."""
    rng, both = np.random.default_rng(0), (before, after)
    scalars = {p.name for program in both for p in parameters(program) if p.shape is None}
    return scalars | {v.name for program in both for v in dimensions(program, rng, {})}


def _require_names(before: Program, after: Program, given: Mapping[str, int]) -> None:
    known = size_names(before, after)
    unknown = sorted(set(given) - known)
    if unknown:
        told = ", ".join(sorted(known)) or "none"
        raise InputError(f"sizes names {', '.join(unknown)}, which is no dimension of these programs; theirs: {told}")
    dims = {v.name for v in dimensions(before, np.random.default_rng(0), {})}
    negative = [f"{name} = {size}" for name, size in given.items() if name in dims and size < 0]
    if negative:
        raise InputError(f"a size cannot be negative: {', '.join(negative)}")


def _factors(program: Program) -> set[int]:
    """The numbers in a program by which sizes may be divided, or with which they may be compared."""
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


def _affordable(program: Program, names: Sequence[str], sizes: Mapping[str, int]) -> bool:
    """Whether the arguments are few enough, and there are such: no extent is negative."""
    dims = dimensions(program, np.random.default_rng(0), sizes)
    shapes = [extents(p, dims) for p in parameters(program) if p.shape is not None]
    if any(n < 0 for shape in shapes for n in shape):
        return False
    count = math.prod(sizes[name] for name in names)
    return count <= ITERATIONS and sum(math.prod(shape) for shape in shapes) <= ELEMENTS
