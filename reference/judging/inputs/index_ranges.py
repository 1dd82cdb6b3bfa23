"""Find the integers that an index input may hold so that its accesses are within bounds; inputs are drawn from these.

The search starts with the extent that an index must stay in, and goes back to the parameters, through sums and products
with constants, clamps, choices and intermediate buffers. If a clamp or a remainder accepts any integer, there is no
limit on that side, and some integers are drawn beyond the extent, because the program defines their meaning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from minitvm import expr as x
from minitvm.errors import MinitvmError
from minitvm.te import nodes as te
from minitvm.tir import nodes as t

from ...meaning.scalar import evaluate
from ..programs import Program
from .preimages import Preimages
from .signs import nodes

DEPTH = 30


@dataclass(frozen=True)
class Span:
    """The integers from `low` to `high`; None means no limit on that side. `extent` is the extent of the dimension."""

    low: int | None
    high: int | None
    extent: int

    def meet(self, other: Span) -> Span:
        """Return the intersection."""
        lows = [v for v in (self.low, other.low) if v is not None]
        highs = [v for v in (self.high, other.high) if v is not None]
        return Span(max(lows, default=None), min(highs, default=None), min(self.extent, other.extent))

    def join(self, other: Span) -> Span:
        """Return the smallest span around both."""
        low = None if self.low is None or other.low is None else min(self.low, other.low)
        high = None if self.high is None or other.high is None else max(self.high, other.high)
        return Span(low, high, max(self.extent, other.extent))

    def mapped(self, low: Any, high: Any) -> Span:
        """Return a span whose ends are functions of these ends."""
        return Span(None if self.low is None else low(self.low), None if self.high is None else high(self.high),
                    self.extent)  # fmt: skip

    def limits(self, dtype: x.DType) -> tuple[int, int]:
        """Return the smallest and the largest integer of a dtype to draw; (1, 0) if there are none."""
        low = -self.extent - 2 if self.low is None else self.low
        high = 2 * self.extent + 2 if self.high is None else self.high
        return max(low, int(dtype.min)), min(high, int(dtype.max))


def index_spans(program: Program, dims: Mapping[x.Var, int]) -> dict[int, Span]:
    """Return, for each parameter that holds indices, by position, the integers that keep all accesses within bounds."""
    every = nodes(program)
    names = {n.var for n in every if isinstance(n, t.LetStmt | x.Let)}
    accesses = [n for n in every if isinstance(n, t.BufferLoad | t.BufferStore | te.TensorLoad) and _points(n, names)]
    if not accesses:
        return {}
    search = _Search(Preimages(program))
    for n in accesses:
        shape = n.tensor.shape if isinstance(n, te.TensorLoad) else n.buffer.shape
        for index, extent in zip(n.indices, shape, strict=True):
            size = _size(extent, dims)
            if size is not None and size > 0:
                search.within(index, Span(0, size - 1, size), frozenset(), DEPTH)
    return search.spans


def _points(n: Any, names: set[x.Var]) -> bool:
    """Return whether an index may depend on data: on a load, or on one of these names."""
    return any(isinstance(inner, t.BufferLoad | te.TensorLoad) or inner in names
               for i in n.indices if not isinstance(i, x.IntImm) for inner in x.walk(i))  # fmt: skip


def _size(extent: x.Expr, dims: Mapping[x.Var, int]) -> int | None:
    try:
        return int(evaluate(extent, {v: dims[v] for v in x.free_vars(extent)}))
    except (KeyError, MinitvmError):
        return None


class _Search:
    def __init__(self, back: Preimages) -> None:
        self.back = back
        self.spans: dict[int, Span] = {}

    def within(self, e: x.Expr, span: Span, seen: frozenset[Any], depth: int) -> None:
        """Record the spans of the parameters that keep an expression inside a span."""
        for place, own in self._needs(e, span, seen, depth).items():
            self.spans[place] = self.spans[place].meet(own) if place in self.spans else own

    def _needs(self, e: x.Expr, span: Span, seen: frozenset[Any], depth: int) -> dict[int, Span]:
        if depth == 0:
            return {}
        down = depth - 1
        if isinstance(e, t.BufferLoad | te.TensorLoad | x.Var):
            key, sources = self.back.behind(e)
            if key in self.back.places:
                return {self.back.places[key]: span} if key.dtype.is_int and _is_array(key) else {}
            if key in seen:
                return {}
            return _all(self._needs(s, span, seen | {key}, down) for s in sources)
        if isinstance(e, x.Cast | x.Broadcast):
            return self._needs(e.value, span, seen, down)
        if isinstance(e, x.Let):
            return self._needs(e.body, span, seen, down)
        if isinstance(e, x.Ramp):
            return self._needs(e.base, span, seen, down)
        if isinstance(e, x.Call) and e.op in ("if_then_else", "likely"):
            return self._either([e.args[-1], *e.args[1:-1]], span, seen, down)
        if isinstance(e, x.Select):
            return self._either([e.true_value, e.false_value], span, seen, down)
        if isinstance(e, x.BinaryOp):
            return self._binary(e, span, seen, down)
        return {place: Span(None, None, span.extent) for place in self.back.reach(e)}

    def _either(self, values: Sequence[x.Expr], span: Span, seen: frozenset[Any], depth: int) -> dict[int, Span]:
        """Return the spans for a choice: each value has its own spans, and an input may choose any of the values."""
        every = [self._needs(v, span, seen, depth) for v in values]
        joined: dict[int, Span] = {}
        for place in {p for one in every for p in one}:
            spans = [one.get(place, Span(None, None, span.extent)) for one in every]
            joined[place] = spans[0]
            for other in spans[1:]:
                joined[place] = joined[place].join(other)
        return joined

    def _binary(self, e: Any, span: Span, seen: frozenset[Any], depth: int) -> dict[int, Span]:
        if isinstance(e, x.Add | x.Sub | x.Mul) and self.back.reach(e.a) and self.back.reach(e.b):
            return {}
        left = bool(self.back.reach(e.a))
        mine, other = (e.a, e.b) if left else (e.b, e.a)
        c = other.value if isinstance(other, x.IntImm) else None
        if c is None and isinstance(e, x.Add | x.Sub):
            low, high = self._between(other)
            if isinstance(e, x.Add):
                return self._needs(mine, span.mapped(lambda v: v - low, lambda v: v - high), seen, depth)
            if left:
                return self._needs(mine, span.mapped(lambda v: v + high, lambda v: v + low), seen, depth)
            c = 0
        if c is not None:
            if isinstance(e, x.Add):
                return self._needs(mine, span.mapped(lambda v: v - c, lambda v: v - c), seen, depth)
            if isinstance(e, x.Sub) and left:
                return self._needs(mine, span.mapped(lambda v: v + c, lambda v: v + c), seen, depth)
            if isinstance(e, x.Sub):
                turned = Span(None if span.high is None else c - span.high, None if span.low is None else c - span.low,
                              span.extent)  # fmt: skip
                return self._needs(mine, turned, seen, depth)
            if isinstance(e, x.Mul) and c > 0:
                return self._needs(mine, span.mapped(lambda v: -(-v // c), lambda v: v // c), seen, depth)
            if isinstance(e, x.FloorDiv | x.Div) and left and c > 0:
                return self._needs(mine, span.mapped(lambda v: v * c, lambda v: v * c + c - 1), seen, depth)
            if isinstance(e, x.Min) and (span.high is None or c <= span.high):
                return self._needs(mine, Span(span.low, None, span.extent), seen, depth)
            if isinstance(e, x.Max) and (span.low is None or c >= span.low):
                return self._needs(mine, Span(None, span.high, span.extent), seen, depth)
            if isinstance(e, x.Min | x.Max):
                return self._needs(mine, span, seen, depth)
        return {place: Span(None, None, span.extent) for place in self.back.reach(e)}

    def _between(self, e: x.Expr) -> tuple[int, int]:
        """Return the smallest and the largest value of an expression of loop variables; (0, 0) if it is not simple."""
        if isinstance(e, x.IntImm):
            return e.value, e.value
        if isinstance(e, x.Var):
            return 0, max(0, self.extents.get(e, 1) - 1)
        if isinstance(e, x.Cast):
            return self._between(e.value)
        if isinstance(e, x.Add | x.Sub | x.Mul):
            (a, b), (c, d) = self._between(e.a), self._between(e.b)
            if isinstance(e, x.Add):
                return a + c, b + d
            if isinstance(e, x.Sub):
                return a - d, b - c
            corners = (a * c, a * d, b * c, b * d)
            return min(corners), max(corners)
        return 0, 0

    @cached_property
    def extents(self) -> dict[x.Var, int]:
        """Return the extents of loops that are constants."""
        extents: dict[x.Var, int] = {}
        for n in nodes(self.back.program):
            if isinstance(n, t.For) and isinstance(n.extent, x.IntImm):
                extents[n.var] = n.extent.value
            elif isinstance(n, x.IterVar) and n.dom is not None and isinstance(n.dom.extent, x.IntImm):
                extents[n.var] = n.dom.extent.value
        return extents


def _is_array(key: Any) -> bool:
    return not isinstance(key, x.Var)


def _all(needs: Any) -> dict[int, Span]:
    spans: dict[int, Span] = {}
    for one in needs:
        for place, span in one.items():
            spans[place] = spans[place].meet(span) if place in spans else span
    return spans
