"""Count the operations, loads, stores and distinct bytes of a kernel-level function by analysing its loops."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ... import expr as ex
from ...arith import Analyzer
from ..nodes import Buffer, PrimFunc, Stmt
from ..values import NotAnIndex, values
from .domain import PointDomain, variables
from .intervals import Intervals, TooMany, union
from .walk import Walk

# Operations that multiply; an addition fits into the same instruction.
PRODUCTS = ("mul", "dot4_u8i8", "dot2_bf16")


@dataclass(frozen=True, slots=True)
class Work:
    """The work done in one run of a kernel.

    `operations` counts arithmetic on data by name, not including index arithmetic; `flops` counts the operations on
    floats, and `integer_operations` the others. An operation on a vector counts once per lane. `loads` and `stores`
    count elements by buffer, including registers. `reads` and `writes` are the number of distinct bytes of each buffer
    in memory, that is, the bytes that would be moved if caches were perfect. `exact` is False if some number is known
    only at run time (because indices or conditions depend on memory); the numbers are then upper bounds.
    """

    operations: Mapping[str, int]
    flops: int
    integer_operations: int
    loads: Mapping[Buffer, int]
    stores: Mapping[Buffer, int]
    reads: Mapping[Buffer, int]
    writes: Mapping[Buffer, int]
    exact: bool

    @property
    def slots(self) -> int:
        """The arithmetic as a number of multiply-add slots, each of which can do one multiplication and one other
        operation.
        """
        fused = self.operations.get("fma", 0)
        products = sum(self.operations.get(name, 0) for name in PRODUCTS) + fused
        rest = sum(n for name, n in self.operations.items() if name not in (*PRODUCTS, "fma")) + fused
        return max(products, rest)

    def moved(self, func: PrimFunc) -> int:
        """Return the number of bytes of the function's parameters that are read, plus the number that are written."""
        return sum(self.reads.get(p, 0) + self.writes.get(p, 0) for p in func.buffers)


def count(func: PrimFunc, sizes: Mapping[ex.Var, int] | None = None, distinct: bool = True) -> Work:
    """Return the work done in one run of a kernel; `sizes` gives values to its scalar parameters and symbolic
    dimensions.

    If `distinct` is False, `reads` and `writes` stay empty, which saves most of the time.
    """
    counter = _Counter(distinct)
    counter.stmt(func.body, PointDomain(points=dict(sizes or {})))
    return counter.work()


def count_statement(stmt: Stmt, outer: Mapping[ex.Var, int]) -> Work:
    """Return the work done by a statement of a kernel in one iteration of the loops around it."""
    counter = _Counter()
    counter.stmt(stmt, PointDomain(points=dict(outer)))
    return counter.work()


def footprint(stmt: Stmt, outer: Mapping[ex.Var, int], registers: Collection[Buffer] = ()) -> int:
    """Return the number of distinct bytes of memory that a statement touches in one iteration of the loops around it.

    `registers` are the buffers of the kernel that are not in memory (`analysis.registers.in_registers`).
    """
    counter = _Counter()
    counter.stmt(stmt, PointDomain(points=dict(outer)))
    return counter.bytes_touched(registers)


@dataclass(slots=True)
class _Accesses:
    """The accesses of one kind (reads or writes) to one buffer, grouped by their strides."""

    count: int = 0
    bases: dict[tuple[tuple[int, int], ...], list[Any]] = field(default_factory=dict)
    anywhere: bool = False

    def touched(self) -> Intervals:
        """Return the set of elements that are touched; raise `TooMany` if it is too large to list."""
        parts = []
        for strides, bases in self.bases.items():
            part = Intervals.at(np.concatenate([np.asarray(b, np.int64).reshape(-1) for b in bases]))
            for step, times in strides:
                part = part.repeated(step, times)
            parts.append(part)
        return union(parts)


class _Counter(Walk[PointDomain]):
    def __init__(self, distinct: bool = True) -> None:
        super().__init__()
        self.distinct = distinct
        self.accesses: dict[str, dict[Buffer, _Accesses]] = {"read": {}, "write": {}}
        self.analyzer = Analyzer()

    def access(self, kind: str, buffer: Buffer, index: ex.Expr, predicate: ex.Expr | None, d: PointDomain) -> None:
        tally = self.accesses[kind].setdefault(buffer, _Accesses())
        if index.dtype.lanes > 1 and not isinstance(index, ex.Ramp):
            self.value(index, d)  # a gather: its indices may be loads
        if isinstance(index, ex.Ramp):
            lanes, stride = index.lanes, self.constant(index.stride, d)
            base = index.base
        else:
            lanes, stride, base = index.dtype.lanes, 0 if index.dtype.lanes == 1 else None, index
        masked = None if predicate is None else self.masked(predicate, lanes, d)
        tally.count += d.iterations * lanes if masked is None else masked
        if stride is None or (predicate is not None and masked is None) or not d.exact:
            self.exact = False
            tally.anywhere = True
            return
        if not self.distinct:
            return
        try:
            self.place(tally, base, stride, lanes, predicate, d)
        except NotAnIndex:
            self.exact = False
            tally.anywhere = True

    def place(
        self, tally: _Accesses, base: ex.Expr, stride: int, lanes: int, predicate: ex.Expr | None, d: PointDomain
    ) -> None:
        """Add the elements that an access touches to `tally`: a list of offsets, each of which is repeated along the
        free loops with their strides.
        """
        base = d.resolved(base)
        form = self.analyzer.affine(base)
        steps = {v: form.terms[v] for v in d.free if v in form.terms}
        others = {v for t in form.terms if not isinstance(t, ex.Var) for v in _inside(t)}
        mask = None if predicate is None else d.resolved(predicate)
        d = d.listing(others | (variables(mask) if mask is not None else set()))
        steps = {v: c for v, c in steps.items() if v in d.free}
        if d.iterations == 0:
            return
        start = {v: first for v, (first, _) in d.free.items()}
        offsets = np.asarray(values(base, {**d.points, **start}), np.int64)
        if mask is not None:
            held = lanes_of(mask, lanes, {**d.points, **start}, d.size)
            lane = stride * np.arange(lanes, dtype=np.int64)
            offsets = (np.broadcast_to(offsets, d.size)[:, None] + lane)[held]
            stride, lanes = 0, 1
        strides = [(stride, lanes), *((c, d.free[v][1]) for v, c in steps.items())]
        low = sum(c * (n - 1) for c, n in strides if c < 0)
        key = _together([(abs(c), n) for c, n in strides if c and n > 1])
        tally.bases.setdefault(key, []).append(offsets + low)

    def masked(self, predicate: ex.Expr, lanes: int, d: PointDomain) -> int | None:
        """Return the total number of lanes that a mask enables; None if it is known only at run time."""
        mask = d.resolved(predicate)
        try:
            listed = d.listing(variables(mask))
            held = lanes_of(mask, lanes, listed.points, listed.size)
        except NotAnIndex:
            return None
        return int(held.sum()) * (listed.iterations // max(listed.size, 1))

    def constant(self, x: ex.Expr, d: PointDomain) -> int | None:
        """Return the value of an expression if it is the same in all iterations; None otherwise."""
        try:
            distinct = np.unique(values(d.resolved(x), d.points))
        except NotAnIndex:
            return None
        return int(distinct[0]) if len(distinct) == 1 else None

    # -- results

    def elements(self, kind: str) -> dict[Buffer, int]:
        """Return, for each buffer in memory, the number of distinct elements that accesses of the kind `kind` touch.

        If the location of an access is unknown, the whole buffer counts.
        """
        counts = {}
        for buffer, accesses in self.accesses[kind].items():
            whole = self.size_of(buffer)
            if accesses.anywhere:
                counts[buffer] = accesses.count if whole is None else min(accesses.count, whole)
                continue
            try:
                counts[buffer] = accesses.touched().count if accesses.bases else 0
            except TooMany:
                self.exact = False
                counts[buffer] = accesses.count if whole is None else min(accesses.count, whole)
        return counts

    def size_of(self, buffer: Buffer) -> int | None:
        size = 1
        for dim in buffer.shape:
            if not isinstance(dim, ex.IntImm):
                return None
            size *= int(dim.value)
        return size

    def bytes_touched(self, registers: Collection[Buffer]) -> int:
        """Return the number of distinct bytes of all buffers that are read or written, not counting buffers in
        registers.
        """
        total = 0
        for buffer in {**self.accesses["read"], **self.accesses["write"]}:
            if buffer in registers:
                continue
            both = [kind[buffer] for kind in self.accesses.values() if buffer in kind]
            size = self.size_of(buffer)
            try:
                placed = not any(a.anywhere for a in both)
                parts = [a.touched() for a in both if a.bases] if placed else []
                elements = (union(parts).count if parts else 0) if placed else size
            except TooMany:
                elements = size
            total += (elements if elements is not None else sum(a.count for a in both)) * buffer.dtype.bytes
        return total

    def work(self) -> Work:
        counts = {kind: {b: a.count for b, a in by_buffer.items()} for kind, by_buffer in self.accesses.items()}
        kinds = ("read", "write") if self.distinct else ()
        distinct = {kind: {b: n * b.dtype.bytes for b, n in self.elements(kind).items()} for kind in kinds}
        return Work(
            dict(self.operations), self.flops, self.integers, counts["read"], counts["write"],
            distinct.get("read", {}), distinct.get("write", {}), self.exact,
        )  # fmt: skip


def _inside(term: Any) -> set[ex.Var]:
    """Return the variables inside a non-linear term."""
    from ...arith.affine import Affine
    from ...arith.affine import variables as form_variables

    return set(form_variables(Affine.of(term)))


def _together(strides: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Merge equal strides of (stride, count) pairs, and sort the pairs by stride. A sum i * s + j * s, where i takes n
    values and j takes m, takes n + m - 1 values.
    """
    lengths: dict[int, int] = {}
    for step, times in strides:
        lengths[step] = lengths.get(step, 1) + times - 1
    return tuple(sorted(lengths.items()))


def lanes_of(mask: ex.Expr, lanes: int, points: Mapping[ex.Var, Any], size: int) -> Any:
    """Return a bool array of shape [size, lanes] with the lanes that a vector of conditions enables."""
    columns = {v: p[:, None] if isinstance(p, np.ndarray) else p for v, p in points.items()}
    return np.broadcast_to(_lane_values(mask, columns), (size, lanes))


def _lane_values(x: ex.Expr, points: Mapping[ex.Var, Any]) -> Any:
    if isinstance(x, ex.Ramp):
        return _lane_values(x.base, points) + _lane_values(x.stride, points) * np.arange(x.lanes, dtype=np.int64)
    if isinstance(x, ex.Broadcast):
        return _lane_values(x.value, points)
    if x.dtype.lanes == 1:
        return values(x, points)
    if isinstance(x, ex.BinaryOp):
        # One lane each: the operators of `values` broadcast.
        a, b = ex.Var("a", x.a.dtype.scalar), ex.Var("b", x.b.dtype.scalar)
        single = type(x)(a, b)
        return values(single, {a: _lane_values(x.a, points), b: _lane_values(x.b, points)})
    raise NotAnIndex(str(x))
