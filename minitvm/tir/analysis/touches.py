"""One access to a buffer as seen from a statement around it: its elements, its loops and its conditions.

`Touch.box` is never too small; `Touch.certain` is never too large. Both are computed on demand.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache

from ... import expr as ex
from ...arith import Analyzer, plain_affine, regions
from ...arith.affine import Affine, variables
from ...expr.node import through_slots
from .. import nodes as tir
from ..conditions import conjuncts, is_const, reads_memory, uses
from .bindings import reaches_every_point

Box = regions.Box


@through_slots
@dataclass(frozen=True, slots=True, eq=False)
class Touch:
    """One load, store or opaque use of a buffer in a program, as seen from a statement around it.

    `ranges` are the elements touched in each iteration of `loops` (outermost first) in which `conditions` hold; an
    entry is None for a dimension that depends on data. `sure` is False if other, unknown conditions decide whether the
    touch happens. `opaque` touches come from foreign calls. `accumulated` reads read the elements that a block with an
    init updates. `after` lists the stores that come earlier in the same loops (`shared`).
    """

    node: ex.Node
    buffer: tir.Buffer
    ranges: tuple[ex.Range | None, ...]
    loops: tuple[tir.For, ...] = ()
    conditions: tuple[ex.Expr, ...] = ()
    sure: bool = True
    opaque: bool = False
    accumulated: bool = False
    after: tuple[tuple[Touch, tuple[tir.For, ...]], ...] = ()
    _box: Box | None = field(default=None, init=False, repr=False)
    _certain: tuple[Box | None] | None = field(default=None, init=False, repr=False)
    _stretches: tuple[tuple[Affine, int] | None, ...] | None = field(default=None, init=False, repr=False)

    @property
    def most(self) -> Box:
        """The box of all elements that this touch may access while its loops run, computed once (see `box`)."""
        if self._box is None:
            object.__setattr__(self, "_box", self.box())
        assert self._box is not None
        return self._box

    @property
    def least(self) -> Box | None:
        """The box of elements that are certainly touched while all loops of this touch run; None if no such box is
        known.

        This is `certain()` without arguments, computed once and cached.
        """
        if self._certain is None:
            object.__setattr__(self, "_certain", (self.certain(),))
        assert self._certain is not None
        return self._certain[0]

    @property
    def stretches(self) -> tuple[tuple[Affine, int] | None, ...]:
        """The result of `stretch` for each dimension over all loops, computed once; None for a dimension that depends
        on data.
        """
        if self._stretches is None:
            found = tuple(None if r is None else stretch(r, self.loops) for r in self.ranges)
            object.__setattr__(self, "_stretches", found)
        assert self._stretches is not None
        return self._stretches

    def sides(self) -> Box:
        """Return the elements touched in one iteration. A dimension that depends on data becomes the full dimension."""
        whole = self.buffer.full_region().region
        return tuple(r if r is not None else all_ for r, all_ in zip(self.ranges, whole, strict=True))

    def box(self, analyzer: Analyzer | None = None, still: Iterable[ex.Var] = ()) -> Box:
        """Return a box around all elements that are touched. A dimension without known bounds becomes the full
        dimension.

        The loops with variables in `still` are fixed; an index that does not depend on the other loops is kept as
        written. The box may reach outside of the buffer if a condition keeps the access inside.
        """
        whole = self.buffer.full_region().region
        box = list(self.sides())
        loops = self._loops_but(still)
        running = {l.var for l in loops}
        moved = [d for d, r in enumerate(box) if uses(r, running)]
        if not moved:
            return tuple(box)
        with _running(loops, analyzer) as moving:
            around = tuple(whole[d] for d in moved)
            sides = regions.swept(tuple(box[d] for d in moved), moving, around, analyzer or Analyzer())
        for d, side in zip(moved, sides, strict=True):
            box[d] = side
        return tuple(box)

    def _loops_but(self, still: Iterable[ex.Var]) -> tuple[tir.For, ...]:
        held = set(still)
        return tuple(l for l in self.loops if l.var not in held) if held else self.loops

    def certain(self, analyzer: Analyzer | None = None, still: Iterable[ex.Var] = ()) -> Box | None:
        """Return a box whose elements (as far as they are inside the buffer) are all touched in every run; None if no
        such box can be proved.

        A condition that only excludes elements beyond the buffer's ends is ignored; a condition that bounds an index
        cuts the box. Loops that do not influence the element are fixed at their start, because one iteration is enough.
        """
        if not self.sure or None in self.ranges:
            return None
        loops = self._loops_but(still)
        domains = {l.var: ex.Range(l.start, l.extent) for l in loops}
        indices: list[ex.Expr] = []
        lanes: dict[ex.Var, ex.Range] = {}
        for d, r in enumerate(self.ranges):
            assert r is not None
            if is_const(r.extent, 1):
                indices.append(r.start)
                continue
            inside = ex.Var(f"e{d}", r.start.dtype)
            lanes[inside] = ex.Range(ex.const(0, inside.dtype), r.extent)
            indices.append(r.start + inside)
        cuts = []
        with _running(loops, analyzer, lanes) as moving:
            first = self._starts(loops)
            for condition in self.conditions:
                cut = self._cut(condition, set(domains), moving.analyzer)
                if cut is None and uses(condition, first):
                    cut = self._cut(ex.substitute(condition, first), set(domains), moving.analyzer)
                if cut is None:
                    return None
                cuts += cut
            swept = moving.region(indices)
        analyzer = analyzer or Analyzer()
        if not swept.exact and not (
            _by_parts(indices) and reaches_every_point(indices, {**domains, **lanes}, analyzer)
        ):
            return None
        if not all(self._runs(l, indices, {**domains, **lanes}, analyzer) for l in loops):
            return None
        box = list(swept.box)
        for d, low, end in cuts:
            r = box[d]
            start = r.start if low is None else analyzer.simplify(ex.Max(r.start, low))
            stop = r.start + r.extent if end is None else ex.Min(r.start + r.extent, end)
            box[d] = ex.Range(start, analyzer.simplify(ex.Max(stop - start, ex.const(0, start.dtype))))
        return tuple(box)

    def _starts(self, loops: Sequence[tir.For]) -> dict[ex.Var, ex.Expr]:
        """Return the start values of the loops that do not influence which element is touched."""
        deciding = {v for r in self.ranges if r is not None for v in ex.free_vars(r)}
        for l in reversed(loops):
            if l.var in deciding:
                deciding.update(ex.free_vars(l.start), ex.free_vars(l.extent))
        starts: dict[ex.Var, ex.Expr] = {}
        for l in loops:
            if l.var not in deciding:
                starts[l.var] = ex.substitute(l.start, starts)
        return starts

    def steps(self) -> tuple[Affine, dict[int, int]] | None:
        """Return (first element, count for each step length) of a one-dimensional access pattern; None for any other
        touch.

        For example, `for i in range(8): for j in range(4): A[i * 20 + j]` starts at 0, with 8 elements at steps of 20
        and 4 at steps of 1.
        """
        if len(self.ranges) != 1:
            return None
        (r,) = self.ranges
        if r is None or not isinstance(r.extent, ex.IntImm):
            return None
        first = plain_affine(r.start)
        steps = {1: r.extent.value} if r.extent.value > 1 else {}
        for l in reversed(self.loops):
            if not isinstance(l.start, ex.IntImm) or not isinstance(l.extent, ex.IntImm) or l.extent.value < 1:
                return None
            step = first.terms.get(l.var, 0)
            first = first.without(l.var) + step * l.start.value
            if any(v is l.var for v in variables(first)) or step < 0 or (step and step in steps):
                return None
            if step and l.extent.value > 1:
                steps[step] = l.extent.value
        merged: dict[int, int] = {}  # 4 steps of 16 and 16 steps of 1 together are 64 steps of 1
        last = 0
        for step, count in sorted(steps.items()):
            if last and step == last * merged[last]:
                merged[last] *= count
            else:
                merged[step], last = count, step
        return first, merged

    def elements_at_most(self) -> int | None:
        """Return an upper bound on the number of elements that one run touches; None if unknown.

        Each iteration of the loops that influence the index touches one element or vector. If the index depends on
        data, all loops count.
        """
        by_data = None in self.ranges
        if by_data and not (self.sure and isinstance(self.node, tir.BufferLoad | tir.BufferStore)):
            return None  # a loop whose bound depends only on data may be missing
        lanes = max((i.dtype.lanes for i in getattr(self.node, "indices", ())), default=1)
        counts: list[ex.Expr] = (
            [ex.const(lanes, "int64")] if by_data else [r.extent for r in self.ranges if r is not None]
        )
        deciding = {v for r in self.ranges if r is not None for v in ex.free_vars(r.start)}
        for l in reversed(self.loops):
            if by_data or l.var in deciding:
                deciding |= set(ex.free_vars(l.start))
                counts.append(l.extent)
        total = 1
        for count in counts:
            if not isinstance(count, ex.IntImm):
                return None
            total *= max(count.value, 0)
        return total

    def _runs(
        self, loop: tir.For, indices: Sequence[ex.Expr], domains: Mapping[ex.Var, ex.Range], analyzer: Analyzer
    ) -> bool:
        """Return whether a loop has at least one iteration, or the box is empty if it has none."""
        if loop.extent.value >= 1 if isinstance(loop.extent, ex.IntImm) else analyzer.can_prove(loop.extent >= 1):
            return True
        empty = {**domains, loop.var: ex.Range(loop.start, ex.const(0, loop.extent.dtype))}
        without = regions.evaluate(indices, empty, analyzer)
        return any(analyzer.can_prove(r.extent <= 0) for r in without.box)

    def _cut(
        self, condition: ex.Expr, moving: set[ex.Var], analyzer: Analyzer
    ) -> list[tuple[int, ex.Expr | None, ex.Expr | None]] | None:
        """Return how a condition limits the box, as a list of (dimension, start, end); None if unknown."""
        if analyzer.can_prove(condition):
            return []
        if not isinstance(condition, ex.LT | ex.LE | ex.GT | ex.GE) or not condition.a.dtype.is_int:
            return None
        a, b = (analyzer.affine(e) for e in (condition.a, condition.b))
        slack = a - b if isinstance(condition, ex.LT | ex.LE) else b - a
        slack = slack - 1 if isinstance(condition, ex.LE | ex.GE) else slack  # the condition says slack < 0
        for d, (r, dim) in enumerate(zip(self.ranges, self.buffer.shape, strict=True)):
            assert r is not None
            index = analyzer.affine(r.start)
            beyond = index - analyzer.affine(dim)
            factors = {beyond.terms[t] // c for t, c in slack.terms.items() if t in beyond.terms}
            for q in {1, *factors}:
                if q > 0 and analyzer.domain.nonnegative(beyond - slack.scaled(q)):
                    return []  # the elements that it leaves out are beyond the end
            if not is_const(r.extent, 1):
                continue
            above, below = index - slack, index + slack
            if not any(v in moving for v in variables(above)):  # index < above
                return [(d, None, analyzer.to_expr(above, r.start.dtype))]
            if not any(v in moving for v in variables(below)):  # index > below
                return [(d, analyzer.to_expr(below + 1, r.start.dtype), None)]
        return None

    # -- on the way up

    def inside(self, loop: tir.For) -> Touch:
        """Return this touch repeated in each iteration of a loop around it."""
        after = tuple([(store.inside(loop), (loop, *shared)) for store, shared in self.after])
        same = self._changed((loop, *self.loops), self.conditions, self.sure, after)
        return same.unknown({loop.var}) if reads_memory(loop.start) or reads_memory(loop.extent) else same

    def under(self, condition: ex.Expr) -> Touch:
        """Return this touch restricted by a condition."""
        parts = tuple(conjuncts(condition))
        if not parts:
            return self
        after = tuple([(store.under(condition), shared) for store, shared in self.after])
        return self._changed(self.loops, (*parts, *self.conditions), self.sure, after)

    def perhaps(self) -> Touch:
        """Return this touch marked as one that may or may not happen."""
        after = tuple([(store.perhaps(), shared) for store, shared in self.after])
        return self._changed(self.loops, self.conditions, False, after)

    def _changed(
        self,
        loops: tuple[tir.For, ...],
        conditions: tuple[ex.Expr, ...],
        sure: bool,
        after: tuple[tuple[Touch, tuple[tir.For, ...]], ...],
    ) -> Touch:
        """Return a copy with these fields changed. This is faster than `dataclasses.replace`, which matters because
        every statement around an access creates a new touch.
        """
        return Touch(self.node, self.buffer, self.ranges, loops, conditions, sure, self.opaque, self.accumulated, after)

    def at(self, values: Mapping[ex.Var, ex.Expr]) -> Touch:
        """Return this touch with values substituted for variables.

        A variable whose value is read from memory becomes unknown.
        """
        hidden = {v for v, value in values.items() if reads_memory(value)}
        if hidden:
            return self.unknown(hidden).at({v: value for v, value in values.items() if v not in hidden})
        if not values:
            return self
        ranges = tuple(r if r is None or not uses(r, values) else ex.substitute(r, values) for r in self.ranges)
        loops = tuple(
            dataclasses.replace(l, start=ex.substitute(l.start, values), extent=ex.substitute(l.extent, values))
            if uses(l.start, values) or uses(l.extent, values)
            else l
            for l in self.loops
        )
        conditions = tuple(ex.substitute(c, values) for c in self.conditions)
        after = tuple((store.at(values), shared) for store, shared in self.after)
        return dataclasses.replace(self, ranges=ranges, loops=loops, conditions=conditions, after=after)

    def unknown(self, names: set[ex.Var]) -> Touch:
        """Return this touch for the case that the variables `names` depend on data, so that their values are
        unknown.
        """
        hidden = set(names)
        for l in self.loops:  # outermost first
            if uses(l.start, hidden) or uses(l.extent, hidden):
                hidden.add(l.var)
        ranges = tuple(None if r is None or uses(r, hidden) else r for r in self.ranges)
        loops = tuple(l for l in self.loops if l.var not in hidden)
        conditions = tuple(c for c in self.conditions if not uses(c, hidden))
        sure = self.sure and len(conditions) == len(self.conditions) and len(loops) == len(self.loops)
        after = tuple((store.unknown(hidden), shared) for store, shared in self.after)
        return dataclasses.replace(self, ranges=ranges, loops=loops, conditions=conditions, sure=sure, after=after)


def _by_parts(indices: Sequence[ex.Expr]) -> bool:
    """Return whether an index contains quotients or remainders, such as those of a split loop."""
    return any(isinstance(n, ex.FloorDiv | ex.FloorMod) for index in indices for n in ex.walk(index))


@contextmanager
def _running(
    loops: tuple[tir.For, ...], analyzer: Analyzer | None, inner: Mapping[ex.Var, ex.Range] | None = None
) -> Iterator[regions.Moving]:
    """Context manager: yield the running loops and inner variables as a `Moving`, with the facts that the analyzer
    knows.
    """
    if analyzer is None and not inner:
        yield _moving(loops)
        return
    analyzer = analyzer or Analyzer()
    with analyzer.constraint():
        yield regions.Moving({**{l.var: ex.Range(l.start, l.extent) for l in loops}, **(inner or {})}, analyzer)


@lru_cache(maxsize=64)
def _moving(loops: tuple[tir.For, ...]) -> regions.Moving:
    return regions.Moving({l.var: ex.Range(l.start, l.extent) for l in loops}, Analyzer())


def stretch(r: ex.Range, loops: Sequence[tir.For]) -> tuple[Affine, int] | None:
    """Return (start, extent) of the elements that a range covers while loops run, if both ends are certainly reached.

    Returns None if this is not certain: the index is not a sum of multiples of the loop variables, an extent is not
    constant, or possibly nothing is touched (a mask may disable all lanes).
    """
    if not isinstance(r.extent, ex.IntImm) or r.extent.value < 1 or r.start.dtype.lanes > 1:
        return None
    start, extent = plain_affine(r.start), r.extent.value
    for loop in reversed(loops):  # inner ones first: their start may depend on outer ones
        factor = start.terms.get(loop.var, 0)
        if not factor:
            continue
        if not isinstance(loop.extent, ex.IntImm):
            return None
        reach = factor * (loop.extent.value - 1)
        start = start.without(loop.var) + plain_affine(loop.start).scaled(factor) + min(0, reach)
        extent += abs(reach)
    moving = {loop.var for loop in loops}
    return None if any(v in moving for v in variables(start)) else (start, extent)


def of_element(node: tir.BufferLoad | tir.BufferStore) -> Touch:
    """Return the touch of a single load or store. A vector access touches the elements from its first to
    its last lane.
    """
    dense = all(not isinstance(i, ex.Ramp) or is_const(i.stride, 1) for i in node.indices)
    ranges = tuple(map(_place, node.indices))
    if node.predicate is not None:
        lanes = [d for d, i in enumerate(node.indices) if isinstance(i, ex.Ramp)]
        count = _first_lanes(node.predicate)
        if count is None or len(lanes) != 1 or ranges[lanes[0]] is None:
            return Touch(node, node.buffer, ranges, sure=False)
        masked = ranges[lanes[0]]
        assert masked is not None
        if dense:  # the lanes that a mask allows are the first ones
            extent = ex.const(count, masked.extent.dtype)
            ranges = tuple(ex.Range(masked.start, extent) if d == lanes[0] else r for d, r in enumerate(ranges))
    return Touch(node, node.buffer, ranges, sure=dense)


def _first_lanes(mask: ex.Expr) -> int | None:
    """Return how many leading lanes a mask `[b, b + 1, ...] < [n, n, ...]` enables; None if this is unknown."""
    if not isinstance(mask, ex.LT) or not isinstance(mask.a, ex.Ramp) or not isinstance(mask.b, ex.Broadcast):
        return None
    first, step, end = mask.a.base, mask.a.stride, mask.b.value
    if not isinstance(first, ex.IntImm) or not isinstance(end, ex.IntImm) or not is_const(step, 1):
        return None
    return max(0, min(end.value - first.value, mask.a.lanes))


def _place(index: ex.Expr) -> ex.Range | None:
    if reads_memory(index):
        return None
    if isinstance(index, ex.Ramp) and index.base.dtype.lanes == 1 and isinstance(index.stride, ex.IntImm):
        reach = index.stride.value * (index.lanes - 1)
        start = index.base if reach >= 0 else index.base + reach
        return ex.Range(start, ex.const(abs(reach) + 1, start.dtype))
    return ex.Range(index, ex.const(1, index.dtype)) if index.dtype.lanes == 1 else None


def known_ranges(region: Sequence[ex.Range]) -> tuple[ex.Range | None, ...]:
    """Return the ranges of a region, with None for each range that depends on data."""
    return tuple(None if reads_memory(r.start) or reads_memory(r.extent) else r for r in region)


def through_view(touch: Touch, match: tir.MatchBufferRegion) -> Touch:
    """Convert a touch of a view to a touch of the underlying buffer."""
    source = match.source
    after = tuple((through_view(store, match), shared) for store, shared in touch.after)
    region = known_ranges(source.region)
    behind = dataclasses.replace(touch, buffer=source.buffer, ranges=region, after=after)
    front = len(source.region) - len(touch.ranges)
    same = front >= 0 and all(is_const(r.extent, 1) for r in source.region[:front])
    sides = zip(source.region[front:], match.buffer.shape, strict=True) if same else ()
    if not same or not all(ex.structural_equal(r.extent, dim) for r, dim in sides):
        return dataclasses.replace(behind, loops=(), conditions=(), sure=False, after=())
    inner = tuple(
        None if own is None or r is None else ex.Range(r.start + own.start.astype(r.start.dtype), own.extent)
        for r, own in zip(region[front:], touch.ranges, strict=True)
    )
    return dataclasses.replace(behind, ranges=(*region[:front], *inner))
