"""Carried values of a loop whose extents change in an iteration, such as a growing list or a shrinking queue.

A carried value of a graph's loop has a single type. So a value whose extent changes is carried as memory for the
largest possible number of entries, together with the actual number:

    x [n, ..]                          becomes        room [most, ..], length
    x = body(x), with f(n) entries                    length = bind_size(length, n); x = leading(room, n)
                                                      room, length = pad(body(x), most), f(n)

The bound follows from f. If f(n) <= max(n + c, d) for all n and c >= 0, there are at most max(n_0, d) + t * c entries
after t iterations, by induction over t.
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
    """Raised after tracing an iteration: it has the new shapes of the carried values, and the bounds of sizes that were
    bound.
    """

    def __init__(self, shapes: Sequence[Sequence[Dim]], bounds: Mapping[Var, Dim]) -> None:
        super().__init__()
        self.shapes, self.bounds = shapes, bounds


@dataclass(frozen=True, slots=True)
class Extents:
    """The extents of carried values that change, with their upper bounds, and those that stay the same.

    An extent in `kept` is assumed to be the same after an iteration, and a run checks this.
    """

    most: Mapping[Axis, Dim] = field(default_factory=dict)
    kept: frozenset[Axis] = frozenset()


def extents(
    trace: Callable[[Mapping[Axis, SizeVar]], Traced],
    begin: Sequence[Sequence[Dim]],
    iterations: Callable[[], Dim],
    longest: Dim | None,
) -> Extents:
    """Return the extents of a loop whose carried values begin with these shapes.

    `trace(sizes)` traces an iteration in which some extents are variables. `iterations()` returns an upper bound on the
    number of iterations, and `longest` is an upper bound for extents without another one. Raises `Unsupported` for an
    extent without a bound.
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
    """Return whether an extent without a bound may be unchanged, because it consists of joined parts of data-dependent
    sizes.

    Models write an update in the middle of an array this way: the part before it, the new entries, and the part after
    it.
    """
    return isinstance(new, Expr) and not differ(new, old) and not set(free_vars(new)) & {*sizes.values()}


def _bounded(
    sizes: Mapping[Axis, SizeVar],
    traced: Traced,
    begin: Sequence[Sequence[Dim]],
    iterations: Callable[[], Dim],
    longest: Dim | None,
) -> dict[Axis, Dim]:
    """Return a bound for each extent, in an order in which each bound depends only on earlier ones."""
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
    """Return a bound for an extent after all iterations."""
    total = begin if each.least is None else larger(begin, each.least)
    grows = 0 if each.more is None else larger(each.more, 0)
    return total if isinstance(grows, int) and not grows else simple(total + grows * iterations())


@dataclass(frozen=True, slots=True)
class Reach:
    """States that a number is at most max(n + more, least), where n is the extent at the start of an iteration.

    If `more` is None, the number does not depend on n. If `least` is None, the number is at most n + more.
    """

    more: Dim | None
    least: Dim | None

    def plus(self, amount: Dim) -> Reach:
        """Return the reach of the number plus a constant."""
        return Reach(*(None if end is None else simple(end + amount) for end in (self.more, self.least)))

    def joined(self, other: Reach) -> Reach:
        """Return the reach of the larger of two numbers."""
        return Reach(_larger(self.more, other.more), _larger(self.least, other.least))


def _larger(a: Dim | None, b: Dim | None) -> Dim | None:
    return b if a is None else a if b is None else larger(a, b)


def _depends(dim: Dim, on: Collection[Var], bounds: Mapping[Var, Dim]) -> bool:
    """Return whether a dimension contains one of some variables, directly or in the bound of another variable."""
    return any(v in on for v in _with_bounds(dim, bounds))


def _with_bounds(dim: Dim, bounds: Mapping[Var, Dim]) -> Iterator[Var]:
    for v in free_vars(dim) if isinstance(dim, Expr) else ():
        yield v
        if v in bounds:
            yield from _with_bounds(bounds[v], bounds)


def reach(dim: Dim, own: Var, bounds: Mapping[Var, Dim]) -> Reach:
    """Return how far a dimension exceeds the extent `own`. `bounds` holds the bounds of other variables that an
    iteration binds.

    Raises `Unsupported` if it may be a multiple of `own`, or if a bound is missing.
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
