"""Whether a loop's iterations pass values on to each other through a buffer.

An iteration is followed in program order. `written` is a list of boxes that were surely written, each dimension a base
over the variables that are fixed at that point and an interval. A read that lies in none of them may see a value from
an earlier iteration.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...expr import Expr, IntImm, Var, children, const, walk
from ..conditions import conjuncts, uses
from ..nodes import Allocate, Buffer, BufferLoad, BufferStore, For, ForKind, If, LetStmt, Seq, Stmt
from .affine import Affine, Interval, Ranges, coefficient, interval, linear, moves, slack, with_loop
from .simplify import fold
from .unroll import bind


@dataclass(frozen=True, slots=True)
class Box:
    """A set of elements: in each dimension `[base + low, base + high]`."""

    dims: tuple[tuple[Affine, int, int], ...]


class _MayCarry(Exception):
    """A read that nothing before it in the same iteration covers."""


def carries_no_value(loop: For, buffer: Buffer, ranges: Ranges) -> bool:
    """Whether each iteration of `loop` reads from `buffer` only what the same iteration wrote before.

    Sound, not complete: False where it cannot tell.
    """
    try:
        _Coverage(buffer).scan(loop.body, [], dict(with_loop(loop, ranges)), [])
    except _MayCarry:
        return False
    return True


class _Coverage:
    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer

    def scan(self, stmt: Stmt, written: list[Box], ranges: dict[Var, Interval], guards: list[Expr]) -> list[Box]:
        """Check the reads of a statement, given what was written; returns what it surely writes besides."""
        if isinstance(stmt, Seq):
            new: list[Box] = []
            for part in stmt.stmts:
                new += self.scan(part, written + new, ranges, guards)
            return new
        if isinstance(stmt, For):
            return self.loop(stmt, written, ranges, guards)
        if isinstance(stmt, If):
            return self.branch(stmt, written, ranges, guards)
        for child in children(stmt):
            if isinstance(child, Expr):
                self.reads(child, written, ranges)
        if isinstance(stmt, Allocate):
            return self.scan(stmt.body, written, ranges, guards)
        if isinstance(stmt, LetStmt):
            found = self.scan(stmt.body, written, ranges, guards)
            return [box for box in found if not self.mentions(box, stmt.var)]
        if isinstance(stmt, BufferStore) and stmt.buffer is self.buffer and stmt.predicate is None:
            certain = all(self.only_bounds(guard, stmt, ranges) for guard in guards)
            return [Box(tuple((linear(i), 0, 0) for i in stmt.indices))] if certain else []
        inner = [child for child in children(stmt) if isinstance(child, Stmt)]
        for child in inner:  # a while loop, whatever comes: its writes may not happen
            self.scan(child, written, ranges, guards)
        return []

    def loop(self, stmt: For, written: list[Box], ranges: dict[Var, Interval], guards: list[Expr]) -> list[Box]:
        for e in (stmt.start, stmt.extent):
            self.reads(e, written, ranges)
        inner = dict(with_loop(stmt, ranges))
        first: list[Box] = []
        ordered = stmt.kind in (ForKind.SERIAL, ForKind.UNROLLED)
        certain = isinstance(stmt.extent, IntImm) and stmt.extent.value > 0
        if ordered and certain and _branches_on(stmt):
            # The first iteration runs before all others: what it writes, they may read.
            start = {stmt.var: stmt.start.astype(stmt.var.dtype)}
            first = self.scan(bind(stmt.body, start), written, inner, guards)
        found = self.scan(stmt.body, written + first, inner, guards)
        if not certain:
            return []
        swept = [self.swept(box, stmt.var, inner.get(stmt.var)) for box in found]
        return first + [box for box in swept if box is not None]

    def branch(self, stmt: If, written: list[Box], ranges: dict[Var, Interval], guards: list[Expr]) -> list[Box]:
        self.reads(stmt.condition, written, ranges)
        condition = fold(stmt.condition, ranges)
        if isinstance(condition, IntImm):
            chosen = stmt.then_case if condition.value else stmt.else_case
            return self.scan(chosen, written, ranges, guards) if chosen is not None else []
        found = self.scan(stmt.then_case, written, ranges, [*guards, *conjuncts(condition)])
        if stmt.else_case is not None:
            self.scan(stmt.else_case, written, ranges, [*guards, const(False)])
        return found

    def reads(self, e: Expr, written: list[Box], ranges: dict[Var, Interval]) -> None:
        for node in walk(e):
            if isinstance(node, BufferLoad) and node.buffer is self.buffer and not self.covered(node, written, ranges):
                raise _MayCarry

    def covered(self, load: BufferLoad, written: list[Box], ranges: dict[Var, Interval]) -> bool:
        indices = [linear(i) for i in load.indices]
        return any(all(map(lambda i, dim: self.inside(i, dim, ranges), indices, box.dims)) for box in written)

    def inside(self, index: Affine, dim: tuple[Affine, int, int], ranges: dict[Var, Interval]) -> bool:
        base, low, high = dim
        found = interval(index - base, ranges)
        return found is not None and low <= found[0] and found[1] <= high

    def swept(self, box: Box, var: Var, values: Interval | None) -> Box | None:
        """All elements of a box as `var` takes all its values; None where that leaves gaps."""
        touched = [d for d, (base, _, _) in enumerate(box.dims) if moves(base, [var])]
        if not touched:
            return box
        # One dimension only, else the sweep is a diagonal; steps no longer than what one iteration writes.
        base, low, high = box.dims[touched[0]]
        step = coefficient(base, var)
        rest = base.without(var)
        hidden = moves(rest, [var])
        if len(touched) > 1 or values is None or hidden or abs(step) > high - low + 1:
            return None
        ends = (step * values[0], step * values[1])
        dims = list(box.dims)
        dims[touched[0]] = (rest, low + min(ends), high + max(ends))
        return Box(tuple(dims))

    def mentions(self, box: Box, var: Var) -> bool:
        return any(moves(base, [var]) for base, _, _ in box.dims)

    def only_bounds(self, guard: Expr, store: BufferStore, ranges: dict[Var, Interval]) -> bool:
        """Whether a condition keeps out nothing but elements beyond the buffer's end: those nobody can read.

        The guard is `slack < 0`. It is one of those if `slack >= 0` implies `index >= dim` in some dimension, which
        holds when `index - dim >= q * slack` for some q > 0.
        """
        kept_out = slack(guard)
        if kept_out is None:
            return False
        for index, dim in zip(store.indices, store.buffer.shape):
            beyond = linear(index) - linear(dim)
            factors = {beyond.terms[t] // c for t, c in kept_out.terms.items() if t in beyond.terms}
            for q in {1, *factors}:
                room = interval(beyond - kept_out.scaled(q), ranges) if q > 0 else None
                if room is not None and room[0] >= 0:
                    return True
        return False


def _branches_on(loop: For) -> bool:
    return any(isinstance(node, If) and uses(node.condition, [loop.var]) for node in walk(loop.body))
