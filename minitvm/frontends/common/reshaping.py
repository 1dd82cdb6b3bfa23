"""Reshapes between symbolic dimensions: find which dimensions must be equal so that the numbers of elements are equal.

For example, (b, h, w, 16) can become (b, h // 4, 4, w // 4, 4, 16) if h is 4 * (h // 4), and likewise for w. Factors
that both shapes have cancel. The remaining factors are grouped by their variables: h with h // 4, and w with w // 4.
The constant factor of each group, which is 4 here, is found from a sample at which all divisions are exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ...expr import Expr, FloorDiv, FloorMod, IntImm, Mul, Var, as_expr, const, free_vars, substitute, walk
from ...graph.nodes import Dim
from ...topi.shapes import is_one, product, same, simple
from .matching import Pairs

_SMOOTH = 5040  # a multiple of all numbers up to 10
_PRIMES = (11, 13, 17, 19, 23, 29, 31, 37)


def fitted_shape(shape: Sequence[Dim], requested: Sequence[Dim]) -> tuple[Pairs, tuple[Dim, ...]] | None:
    """Return the dimensions of `shape` that must be replaced, with their new forms, and the requested shape without -1.

    Returns None if no way is found in which the shapes fit together.
    """
    unknown = next((a for a, d in enumerate(requested) if isinstance(d, int) and d == -1), None)
    old = _Factors.of(shape)
    new = _Factors.of([d for a, d in enumerate(requested) if a != unknown])
    if old.number == 0 or new.number == 0:
        return None
    old, new = _cancelled(old, new)
    groups = _groups(old.symbols, new.symbols, unknown is not None)
    if groups is None:
        return None
    number, free = new.number, []
    factors: list[tuple[Expr, Dim]] = []
    for factor, parts, multiple in groups:
        if not parts and unknown is not None:
            free.append(factor)
            continue
        if multiple is None:
            if number % old.number:
                return None
            multiple = number // old.number
        if number % multiple:
            return None
        number //= multiple
        factors.append((factor, simple(product([multiple, *parts]))))
    rest = product(free)
    if unknown is not None and old.number % number:
        shared = math.gcd(old.number, number)
        step = number // shared
        if len(free) != 1:
            return None
        kept = simple(free[0] // step)
        factors.append((free[0], simple(kept * step)))
        rest, number = kept, shared
    if unknown is None and number != old.number:
        return None
    filled = list(requested)
    if unknown is not None:
        filled[unknown] = simple(product([old.number // number, rest]))
    pairs = _pairs(shape, factors)
    anew = [next((b for a, b in pairs if isinstance(d, Expr) and same(a, d)), d) for d in shape]
    return (pairs, tuple(filled)) if same(product(anew), product(filled)) else None


@dataclass
class _Factors:
    """A product: a number times symbolic factors."""

    number: int
    symbols: list[Expr]

    @staticmethod
    def of(dims: Sequence[Dim]) -> _Factors:
        number, symbols = 1, []
        for dim in dims:
            for factor in _factors(dim):
                if isinstance(factor, int):
                    number *= factor
                else:
                    symbols.append(factor)
        return _Factors(number, symbols)


def _factors(dim: Dim) -> list[Dim]:
    if isinstance(dim, IntImm):
        return [dim.value]
    if isinstance(dim, Mul):
        return [*_factors(dim.a), *_factors(dim.b)]
    return [dim]


def _cancelled(old: _Factors, new: _Factors) -> tuple[_Factors, _Factors]:
    left, right = list(old.symbols), []
    for factor in new.symbols:
        place = next((k for k, other in enumerate(left) if same(other, factor)), None)
        if place is None:
            right.append(factor)
        else:
            left.pop(place)
    shared = math.gcd(old.number, new.number)
    return _Factors(old.number // shared, left), _Factors(new.number // shared, right)


Group = tuple[Expr, list[Expr], int | None]


def _groups(old: list[Expr], new: list[Expr], inferred: bool) -> list[Group] | None:
    """Return each old factor with the new factors that it is a multiple of, and the multiple (None: to be inferred)."""
    parts: list[list[Expr]] = [[] for _ in old]
    strangers = []
    for factor in new:
        own = set(free_vars(factor))
        near = [k for k, other in enumerate(old) if own & set(free_vars(other))]
        if near:
            parts[min(near, key=lambda k: len(set(free_vars(old[k])) ^ own))].append(factor)
        else:
            strangers.append(factor)
    alone = [k for k, some in enumerate(parts) if not some]
    if strangers:
        if len(alone) != 1 or inferred:
            return None
        parts[alone[0]] = strangers
    elif alone and not inferred and len(alone) > 1:
        return None
    groups: list[Group] = []
    for k, factor in enumerate(old):
        multiple = None if k in alone else _multiple(factor, parts[k])
        if k not in alone and multiple is None:
            return None
        groups.append((factor, parts[k], multiple))
    # The multiple of a group without a sample follows from the numbers, after those of the others.
    return sorted(groups, key=lambda group: group[2] is None)


def _multiple(factor: Expr, parts: Sequence[Expr]) -> int | None:
    variables = list(dict.fromkeys([*free_vars(factor), *(v for p in parts for v in free_vars(p))]))
    if len(variables) > len(_PRIMES):
        return None
    sample: dict[Var, Expr] = {v: const(_SMOOTH * p, v.dtype) for v, p in zip(variables, _PRIMES, strict=False)}
    values = [simple(substitute(as_expr(e), sample)) for e in (factor, *parts)]
    whole, divisor = values[0], math.prod(v for v in values[1:] if isinstance(v, int))
    if not all(isinstance(v, int) for v in values) or not whole or not divisor or whole % divisor:
        return None
    return int(whole // divisor)


def _pairs(shape: Sequence[Dim], factors: Sequence[tuple[Expr, Dim]]) -> Pairs:
    """Return the dimensions of a shape whose factors are replaced, with their new forms."""
    pairs: Pairs = []
    for dim in shape:
        if not isinstance(dim, Expr):
            continue
        parts = [next((new for old, new in factors if isinstance(f, Expr) and same(old, f)), f) for f in _factors(dim)]
        anew = simple(product(parts))
        if not same(anew, dim) and not any(same(dim, old) for old, _ in pairs):
            pairs.append((dim, anew))
    return pairs


def with_inferred(shape: Sequence[Dim], requested: Sequence[Dim]) -> tuple[Dim, ...]:
    """Return the requested shape with -1 replaced by the remaining extent, rounded down."""
    rest = product([d for d in requested if not (isinstance(d, int) and d == -1)])
    inferred = 0 if is_zero(rest) else simple(product(shape) // rest)
    return tuple(inferred if isinstance(d, int) and d == -1 else d for d in requested)


def is_zero(dim: Dim) -> bool:
    """Return whether an extent is the number 0."""
    return isinstance(dim, int) and dim == 0


def exact(shape: Sequence[Dim], requested: Sequence[Dim]) -> bool:
    """Return whether a shape certainly has as many elements as another. With -1, return whether no constant divisor
    remains.
    """
    if not any(isinstance(d, int) and d == -1 for d in requested):
        return same(product(shape), product(requested))
    rest = [d for d in requested if not (isinstance(d, int) and d == -1)]
    _, new = _cancelled(_Factors.of(shape), _Factors.of(rest))
    return not new.symbols and is_one(new.number)


def divisors(dim: Dim) -> list[Expr]:
    """Return the symbolic divisors that occur in a dimension."""
    if not isinstance(dim, Expr):
        return []
    divided = (d.b for d in walk(dim) if isinstance(d, FloorDiv | FloorMod))
    return [b for b in divided if not isinstance(b, IntImm)]
