"""Carried values of a loop whose extents an iteration changes: a list that grows, a queue that shrinks.

A carried value of a graph's loop has one type. So one whose extent changes is carried as memory for the most entries
that there can be, and their number:

    x [n, ..]                          becomes        room [most, ..], length
    x = body(x), with f(n) entries                    length = bind_size(length, n); x = leading(room, n)
                                                      room, length = pad(body(x), most), f(n)

The bound follows from f. If f(n) <= max(n + c, d) for all n, there are at most max(n_0, d) + t * c entries after t
iterations: induction over t, where c is at least 0.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ...errors import Unsupported
from ...expr import Add, Cast, Div, Expr, FloorDiv, IntImm, Max, Min, Select, SizeVar, Sub, Var, free_vars
from ...expr.largest import largest
from ...graph.nodes import Dim
from ...topi.shapes import differ, larger, same, simple

Axis = tuple[int, int]  # a carried value, and an axis of it


class Traced(Exception):
    """What an iteration made of the carried values: their shapes, and the bounds of the sizes that it bound."""

    def __init__(self, shapes: Sequence[Sequence[Dim]], bounds: Mapping[Var, Dim]) -> None:
        super().__init__()
        self.shapes, self.bounds = shapes, bounds


@dataclass(frozen=True, slots=True)
class Extents:
    """Which extents of carried values change, with the most entries that there can be, and which stay as they are.

    Of the latter, what an iteration makes is taken for equal to what it began with, and a run checks it.
    """

    most: Mapping[Axis, Dim] = field(default_factory=dict)
    kept: frozenset[Axis] = frozenset()


def extents(
    trace: Callable[[Mapping[Axis, SizeVar]], Traced],
    begin: Sequence[Sequence[Dim]],
    iterations: Callable[[], Dim],
    longest: Dim | None,
) -> Extents:
    """The extents of a loop whose carried values begin with those shapes.

    `trace(sizes)` is an iteration in which some extents are variables, `iterations()` bounds how many there are, and
    `longest` the extents that have no other bound.
    Raises `Unsupported` for an extent without a bound.
    """
    sizes: dict[Axis, SizeVar] = {}
    kept: set[Axis] = set()
    while True:
        traced = trace(sizes)
        unlike = {
            (k, axis): SizeVar("entries")
            for k, (old, new) in enumerate(zip(begin, traced.shapes, strict=True))
            for axis, pair in enumerate(zip(old, new, strict=True))
            if (k, axis) not in sizes and (k, axis) not in kept and not same(*pair)
        }
        if not unlike:
            try:
                return Extents(_bounded(sizes, traced, begin, iterations, longest), frozenset(kept))
            except Unsupported:
                doubtful = {at for at in sizes if _may_stay(traced.shapes[at[0]][at[1]], begin[at[0]][at[1]], sizes)}
                if not doubtful:
                    raise
            kept |= doubtful
            sizes = {at: size for at, size in sizes.items() if at not in doubtful}
            continue
        tried = {**sizes, **unlike}
        traced = trace(tried)
        for (k, axis), size in unlike.items():
            new = traced.shapes[k][axis]
            own: set[Var] = {*tried.values(), *traced.bounds}
            if isinstance(new, Expr) and not differ(new, begin[k][axis]) and not _depends(new, own, traced.bounds):
                kept.add((k, axis))
            else:
                sizes[k, axis] = size


def _may_stay(new: Dim, old: Dim, sizes: Mapping[Axis, SizeVar]) -> bool:
    """Whether an extent that has no bound may be what it was: that of parts whose sizes data decide, put together.

    So an update in the middle of an array is written: what is in front, the new entries, what is behind.
    """
    return isinstance(new, Expr) and not differ(new, old) and not set(free_vars(new)) & {*sizes.values()}


def _bounded(
    sizes: Mapping[Axis, SizeVar],
    traced: Traced,
    begin: Sequence[Sequence[Dim]],
    iterations: Callable[[], Dim],
    longest: Dim | None,
) -> dict[Axis, Dim]:
    """A bound of each extent, in an order in which it depends only on those before it."""
    most: dict[Axis, Dim] = {}
    while len(most) < len(sizes):
        errors: dict[Axis, Unsupported] = {}
        bounds: dict[Var, Dim] = {**traced.bounds, **{sizes[at]: bound for at, bound in most.items()}}
        before = len(most)
        for at in (at for at in sizes if at not in most):
            (k, axis), others = at, {size for other, size in sizes.items() if other not in most and other != at}
            new = traced.shapes[k][axis]
            try:
                if _depends(new, others, bounds):
                    raise Unsupported(f"{new} depends on other extents that change")
                most[at] = _after_many(begin[k][axis], reach(new, sizes[at], bounds), iterations)
            except Unsupported as reason:
                errors[at] = reason
        if len(most) == before:
            at, error = next(iter(errors.items()))
            if longest is None:
                raise error
            most[at] = larger(begin[at[0]][at[1]], longest)
    return most


def _after_many(begin: Dim, each: Reach, iterations: Callable[[], Dim]) -> Dim:
    """A bound of an extent after all iterations."""
    total = begin if each.least is None else larger(begin, each.least)
    grows = 0 if each.more is None else larger(each.more, 0)
    return total if isinstance(grows, int) and not grows else simple(total + grows * iterations())


@dataclass(frozen=True, slots=True)
class Reach:
    """A number is at most max(n + more, least), where n is the extent that an iteration begins with.

    None as `more`: it does not depend on n; as `least`: nothing is below n + more.
    """

    more: Dim | None
    least: Dim | None

    def plus(self, amount: Dim) -> Reach:
        """The reach of the number and a constant amount."""
        return Reach(*(None if end is None else simple(end + amount) for end in (self.more, self.least)))

    def joined(self, other: Reach) -> Reach:
        """The reach of whichever of two numbers is larger."""
        return Reach(_larger(self.more, other.more), _larger(self.least, other.least))


def _larger(a: Dim | None, b: Dim | None) -> Dim | None:
    return b if a is None else a if b is None else larger(a, b)


def _depends(dim: Dim, on: Collection[Var], bounds: Mapping[Var, Dim]) -> bool:
    """Whether one of some variables is in a dimension, or in the bound of a variable that is."""
    return any(v in on for v in _with_bounds(dim, bounds))


def _with_bounds(dim: Dim, bounds: Mapping[Var, Dim]) -> Iterator[Var]:
    for v in free_vars(dim) if isinstance(dim, Expr) else ():
        yield v
        if v in bounds:
            yield from _with_bounds(bounds[v], bounds)


def reach(dim: Dim, own: Var, bounds: Mapping[Var, Dim]) -> Reach:
    """How far a dimension is above the extent `own`; `bounds` are those of other variables that an iteration binds.

    Raises `Unsupported` where it may be a multiple of `own`, or a bound is not found.
    """
    if not _depends(dim, {own}, bounds):
        return Reach(None, simple(largest(dim, bounds)))
    if dim is own:
        return Reach(0, None)
    if isinstance(dim, Var):
        return reach(bounds[dim], own, bounds)
    if isinstance(dim, Cast):
        return reach(dim.value, own, bounds)
    if isinstance(dim, Max):
        return reach(dim.a, own, bounds).joined(reach(dim.b, own, bounds))
    if isinstance(dim, Select):
        return reach(dim.true_value, own, bounds).joined(reach(dim.false_value, own, bounds))
    if isinstance(dim, Min):
        sides = sorted((dim.a, dim.b), key=lambda side: _depends(side, {own}, bounds))
        return reach(sides[0], own, bounds)
    if isinstance(dim, Add):
        for a, b in ((dim.a, dim.b), (dim.b, dim.a)):
            if not _depends(b, {own}, bounds):
                return reach(a, own, bounds).plus(largest(b, bounds))
    if isinstance(dim, Sub) and _depends(dim.a, {own}, bounds):
        least = dim.b.value if isinstance(dim.b, IntImm) else 0 if isinstance(dim.b, Var) else None
        if least is not None:  # a size is at least 0
            return reach(dim.a, own, bounds).plus(-least)
    if isinstance(dim, FloorDiv | Div) and isinstance(dim.b, IntImm) and dim.b.value >= 1:
        return reach(dim.a, own, bounds).joined(Reach(0, 0))
    raise Unsupported(f"there is no bound of {dim} after many iterations")
