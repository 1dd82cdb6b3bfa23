"""Whether every access of a function lies inside its buffer: each load and store that is not shown to.

`accesses(func)` walks the function in program order. It uses what loops, predicates, branches and `T.assume` say, and
the last value stored at a place. Each load becomes a variable for the `Analyzer`. After a store that may change the
element, the load gets a new variable, so whatever was learned about the old value stays true.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ...arith import Analyzer
from ...arith.affine import Affine, structural_key
from ...expr import (
    GE,
    LE,
    LT,
    And,
    Broadcast,
    Call,
    DataVar,
    Expr,
    IntImm,
    Let,
    Node,
    Not,
    Or,
    Ramp,
    Range,
    SizeVar,
    Var,
    children,
    const,
    find,
    free_vars,
    map_children,
    rewrite,
    walk,
)
from ...expr.visitor import accessed, handed_out, variables
from ..assumptions import is_assumption
from ..conditions import is_const
from ..nodes import (
    Allocate,
    Async,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    If,
    Instruction,
    LetStmt,
    MatchBufferRegion,
    PrimFunc,
    Seq,
    Stmt,
    While,
)
from .invariants import Invariant, Refuted, invariants

_LARGEST = 60  # nodes of a stored value that is remembered


@dataclass(frozen=True, slots=True)
class Unshown:
    """An access (or the region of a view) that is not shown to be inside of axis `axis`; `index` is resolved.

    `condition` is what was to be shown. `loops` are the variables around it with their ranges, `conditions` what holds
    there.
    """

    node: Node
    buffer: Buffer
    axis: int
    index: Expr
    condition: Expr
    loops: tuple[tuple[Var, Range], ...]
    conditions: tuple[Expr, ...]
    facts: tuple[Affine, ...]
    data: Mapping[Var, BufferLoad]
    stored: Mapping[Buffer, tuple[Expr | None, Expr | None]]
    positive: frozenset[Var]

    @property
    def by_data(self) -> list[Expr]:
        """The loads that the index is made of."""
        return [self.data[v] for v in free_vars(self.condition) if v in self.data]


@dataclass(frozen=True, slots=True)
class Accesses:
    """The accesses of a function that are not shown, and the conditions on sizes that it assumes."""

    unshown: tuple[Unshown, ...]
    assumed: tuple[Expr, ...]


def accesses(func: PrimFunc) -> Accesses:
    """What is not shown of a function's accesses."""
    walk = _Walk(func, {})
    walk.run()
    limits = [a.buffer.shape[a.axis] for a in walk.result if a.by_data]
    if limits:
        walk = _Walk(func, invariants(func, walk.sizes, limits, lambda guesses: _refuted(func, guesses)))
        walk.run()
    return Accesses(tuple(walk.result), tuple(walk.assumed))


def _refuted(func: PrimFunc, guesses: Mapping[Buffer, Invariant]) -> Refuted:
    walk = _Walk(func, guesses, checking=False)
    walk.run()
    return walk.broken


_Elements = dict[Any, tuple[tuple[Expr, ...], Expr]]  # what is known of a buffer's elements, by their indices' keys


def sizes_of(func: PrimFunc) -> list[Var]:
    """The variables of a function's shapes, and its scalar parameters that are no data."""
    named = {v: None for b in func.buffers for d in (*b.shape, *b.strides, b.elem_offset) for v in free_vars(d)}
    named.update((p, None) for p in func.params if isinstance(p, Var) and p.dtype.is_int)
    return list(named)


class _Walk:
    def __init__(self, func: PrimFunc, invariants: Mapping[Buffer, Invariant], checking: bool = True) -> None:
        self.func = func
        self.checking = checking
        self.invariants = invariants
        self.broken: dict[tuple[Buffer, int], int] = {}
        self.analyzer = Analyzer()
        self.env: dict[Var, Expr] = {}
        self.loops: list[tuple[Var, Range]] = []
        self.conditions: list[Expr] = []
        self.elements: dict[Buffer, _Elements] = {}
        self.viewed: dict[Buffer, Buffer] = {}  # the buffers that views are parts of
        self.guarded: dict[Buffer, tuple[MatchBufferRegion, list[tuple[int, Expr, Expr, Expr]]]] = {}
        self.origin: dict[Var, BufferLoad] = {}
        self.memo: dict[Node, Expr] = {}
        self.checked: list[set[Node]] = [set()]  # expressions whose loads are checked, in the scopes around
        self.result: list[Unshown] = []
        self.assumed: list[Expr] = []
        self.sizes = frozenset(sizes_of(func))
        named = {v for b in func.buffers for d in b.shape for v in variables(d)}
        self.positive = frozenset(v for v in self.sizes if v in named or isinstance(v, SizeVar))  # not negative

    def run(self) -> None:
        for var in self.sizes:
            if var.dtype.is_int:
                least = 0 if var in self.positive else int(var.dtype.min)
                self.analyzer.bind(var, (least, int(var.dtype.max)))
        with self.analyzer.constraint(*self.func.attrs.get("facts", ())):
            self.stmt(self.func.body)

    # -- statements -------------------------------------------------------------------------------------------------

    def stmt(self, s: Stmt) -> None:
        method = getattr(self, "on_" + type(s).__name__, None)
        if method is not None:
            method(s)
        else:
            for child in children(s):
                if isinstance(child, Stmt):
                    self.stmt(child)
                elif isinstance(child, Expr):
                    self.expr(child)

    def on_Seq(self, s: Seq) -> None:
        with ExitStack() as stack:
            for part in s.stmts:
                self.stmt(part)
                fact = self.fact_behind(part)
                if fact is not None:
                    stack.enter_context(self.holding(fact))

    def fact_behind(self, s: Stmt) -> Expr | None:
        if isinstance(s, While):
            return self.resolve(Not(s.condition))
        if isinstance(s, Evaluate) and isinstance(s.value, Call) and is_assumption(s):
            condition: Expr = self.resolve(s.value.args[0])
            if variables(condition) <= self.sizes and not accessed(condition):
                self.assumed.append(condition)
            return condition
        return None

    def on_Evaluate(self, s: Evaluate) -> None:
        if not is_assumption(s):
            self.expr(s.value)
            self.forget(handed_out(s.value))  # a foreign call may write what it is handed

    def on_For(self, s: For) -> None:
        self.expr(s.start)
        self.expr(s.extent)
        domain = Range(self.resolve(s.start), self.resolve(s.extent))
        if isinstance(domain.extent, IntImm) and domain.extent.value <= 0:
            return  # without an iteration
        self.forget(touched_writes(s.body))
        with self.analyzer.constraint():
            self.analyzer.bind(s.var, domain)
            self.loops.append((s.var, domain))
            if not isinstance(domain.extent, IntImm):
                with self.analyzer.constraint(domain.extent > 0):
                    self.stmt(s.body)
            else:
                self.stmt(s.body)
            self.loops.pop()
        self.forget(touched_writes(s.body))

    def on_While(self, s: While) -> None:
        self.forget(touched_writes(s.body))
        self.expr(s.condition)
        with self.holding(self.resolve(s.condition)):
            self.stmt(s.body)
        self.forget(touched_writes(s.body))

    def on_If(self, s: If) -> None:
        self.expr(s.condition)
        condition = self.resolve(s.condition)
        before = dict(self.elements)
        with self.holding(condition):
            self.stmt(s.then_case)
        then, self.elements = self.elements, before
        self.changed()
        if s.else_case is not None:
            before = dict(self.elements)
            with self.holding(Not(condition)):
                self.stmt(s.else_case)
        self.join(condition, touched_writes(s), then)

    def join(self, condition: Expr, written: Iterable[Buffer], then: Mapping[Buffer, _Elements]) -> None:
        """After an `if`, an element has the value that one of the branches left in it."""
        self.changed()
        for buffer in written:
            first, second = then.get(buffer, {}), self.elements.get(buffer, {})
            if first is second:
                continue
            joined: _Elements = {}
            for key, (place, value) in first.items():
                other = second[key][1] if key in second else self.unknown(BufferLoad(buffer, place))
                if value is other:
                    joined[key] = place, value
                elif buffer.dtype.is_int and _is_small(value) and _is_small(other):
                    joined[key] = place, Call(value.dtype, "if_then_else", (condition, value, other))
            self.elements[buffer] = joined

    def on_LetStmt(self, s: LetStmt) -> None:
        self.expr(s.value)
        self.env[s.var] = self.resolve(s.value)
        self.changed()
        self.stmt(s.body)

    def on_Allocate(self, s: Allocate) -> None:
        self.stmt(s.body)

    def on_BufferStore(self, s: BufferStore) -> None:
        for index in s.indices:
            self.expr(index)
        self.expr(s.value)
        self.access(s)
        value = self.resolve(s.value) if s.buffer.dtype.is_int and s.predicate is None else None
        if s.buffer in self.invariants:
            self.keeps(s.buffer, self.resolve(s.value))
        place = tuple(map(self.resolve, s.indices))
        self.forget([s.buffer])
        if value is not None and _is_small(value):
            self.elements[s.buffer][structural_key(place)] = place, value

    def on_BlockRealize(self, s: BlockRealize) -> None:
        for value in s.iter_values:
            self.expr(value)
        self.expr(s.predicate)
        block = s.block
        values = [self.resolve(v) for v in s.iter_values]
        predicate = self.resolve(s.predicate)
        with self.holding(predicate):
            for it, value in zip(block.iter_vars, values, strict=True):
                self.env[it.var] = value
            self.changed()
            guarded = bool(find(block.body, Instruction))
            for match in block.match_buffers:
                self.view(match, guarded)
            if block.init is not None:
                self.stmt(block.init)
                self.forget(touched_writes(block.init))  # it runs at the first iteration only
            self.stmt(block.body)

    def on_Instruction(self, s: Instruction) -> None:
        self.stmt(s.body)

    def on_Async(self, s: Async) -> None:
        self.stmt(s.body)

    # -- expressions ------------------------------------------------------------------------------------------------

    def expr(self, e: Node) -> None:
        """Check the loads of an expression."""
        if not self.checking or not accessed(e) or any(e in checked for checked in self.checked):
            return
        self.checked[-1].add(e)
        if isinstance(e, BufferLoad):
            for index in e.indices:
                self.expr(index)
            self.access(e)
        elif isinstance(e, Call) and e.op == "if_then_else":
            self.expr(e.args[0])
            condition = self.resolve(e.args[0])
            with self.holding(condition):
                self.expr(e.args[1])
            with self.holding(Not(condition)):
                self.expr(e.args[2])
        elif isinstance(e, And | Or) and e.dtype.lanes == 1:
            self.expr(e.a)
            first = self.resolve(e.a)
            with self.holding(first if isinstance(e, And) else Not(first)):
                self.expr(e.b)
        elif isinstance(e, Let):
            self.expr(e.value)
            self.env[e.var] = self.resolve(e.value)
            self.expr(e.body)
        else:
            for child in children(e):
                self.expr(child)

    # -- what is known ----------------------------------------------------------------------------------------------

    @contextmanager
    def holding(self, condition: Expr) -> Iterator[None]:
        if is_const(condition, 1):
            yield
            return
        self.bind_loads(condition)
        self.conditions.append(condition)
        self.checked.append(set())
        with self.analyzer.constraint(condition):
            yield
        self.checked.pop()
        self.conditions.pop()

    def changed(self) -> None:
        """What was worked out of expressions is of no more use: an element or an iterator has another value."""
        self.memo.clear()
        for checked in self.checked:
            checked.clear()

    def forget(self, buffers: Iterable[Buffer]) -> None:
        """Elements of these buffers may have other values from here on."""
        for buffer in buffers:
            whole = self.viewed.get(buffer, buffer)
            related = [view for view, other in self.viewed.items() if other is whole]
            self.elements.update({other: {} for other in (buffer, whole, *related)})
        self.changed()

    def unknown(self, load: BufferLoad) -> Var:
        """A variable for what a load reads."""
        var = DataVar(load.buffer.name, load.dtype)
        self.origin[var] = load
        return var

    def resolve(self, e: Any) -> Any:
        """An expression in terms of loop variables, sizes and variables of loads."""
        if isinstance(e, Var):
            return self.env.get(e, e)
        if isinstance(e, IntImm) or not isinstance(e, Node):
            return e
        known = self.memo.get(e)
        if known is None:
            known = self.memo[e] = self._resolve(e)
        return known

    def _resolve(self, e: Node) -> Any:
        if isinstance(e, BufferLoad):
            place = tuple(map(self.resolve, e.indices))
            known = self.elements.setdefault(e.buffer, {})
            key = structural_key(place)
            if key not in known or e.dtype.lanes > 1:
                known[key] = place, self.unknown(e)
            return known[key][1]
        if isinstance(e, Let):
            self.env[e.var] = self.resolve(e.value)
            return self.resolve(e.body)
        return map_children(e, self.resolve)

    def keeps(self, buffer: Buffer, value: Expr) -> None:
        """Note how many guesses of each end of an invariant a stored value is not shown to keep."""
        invariant = self.invariants[buffer]
        for number, (kind, guesses) in enumerate(((GE, invariant.lows), (LE, invariant.highs))):
            kept = next((k for k, end in enumerate(guesses) if self.shown(kind(value, end))), len(guesses))
            if kept:
                self.broken[buffer, number] = max(kept, self.broken.get((buffer, number), 0))

    def shown(self, condition: Expr) -> bool:
        self.bind_loads(condition)
        if self.analyzer.can_prove(condition):
            return True
        choice = next((c for c in find(condition, Call) if c.op == "if_then_else"), None)
        if choice is None:
            return False
        case, first, second = choice.args  # shown in both cases, it is shown
        for holds, value in ((case, first), (Not(case), second)):
            with self.analyzer.constraint(holds):
                if not self.shown(_with(condition, choice, value)):
                    return False
        return True

    def fits(self, index: Expr, extent: int) -> bool:
        """Whether the ranges of an index's terms alone show that it is from 0 to the extent: as nearly always."""
        self.bind_loads(index)
        form = self.analyzer.normal_form(index)
        low, high = (None, None) if form is None else self.analyzer.domain.interval(form)
        return low is not None and high is not None and low >= 0 and high < extent

    def bind_loads(self, e: Expr) -> None:
        """What is known of the loads in an expression goes into the scope that asks."""
        if not self.invariants:
            return
        for var in variables(e):
            origin = self.origin.get(var)
            if origin is not None and origin.buffer in self.invariants and var not in self.analyzer.domain.ranges:
                low, high = self.invariants[origin.buffer].ends
                if high is not None and not isinstance(high, IntImm):  # it also tells about the sizes in the bound
                    self.analyzer.assume(LE(var, high))
                self.analyzer.bind(var, (low, high))

    # -- accesses ---------------------------------------------------------------------------------------------------

    def view(self, match: MatchBufferRegion, guarded: bool) -> None:
        """Check the region that a buffer is matched to.

        An instruction may leave out what its own condition excludes, such as the padding of an image: the region of a
        `guarded` view is to be inside wherever an element of it is accessed.
        """
        source = match.source
        self.viewed[match.buffer] = self.viewed.get(source.buffer, source.buffer)
        region = [
            (axis, self.resolve(r.start), self.resolve(dim), self.resolve(r.extent))
            for axis, (r, dim) in enumerate(zip(source.region, source.buffer.shape, strict=True))
        ]
        if guarded:
            self.guarded[match.buffer] = match, region
        else:
            self.region(match, region)

    def region(self, match: MatchBufferRegion, region: list[tuple[int, Expr, Expr, Expr]]) -> None:
        for axis, start, dim, extent in region:
            self.inside(match, match.source.buffer, axis, start, dim, extent)
        if match.source.buffer in self.guarded:
            self.region(*self.guarded[match.source.buffer])

    def access(self, node: BufferLoad | BufferStore) -> None:
        if not self.checking:
            return
        if node.buffer in self.guarded:
            self.region(*self.guarded[node.buffer])
        lanes = max((i.dtype.lanes for i in node.indices), default=1)
        if lanes > 1:
            lane = Var("lane")
            with self.analyzer.constraint():
                self.analyzer.bind(lane, lanes)
                self.loops.append((lane, Range(const(0), const(lanes))))
                mask = const(True) if node.predicate is None else of_lane(self.resolve(node.predicate), lane)
                with self.holding(mask):
                    for axis, index in enumerate(node.indices):
                        self.inside(node, node.buffer, axis, of_lane(self.resolve(index), lane))
                self.loops.pop()
            return
        mask = const(True) if node.predicate is None else self.resolve(node.predicate)
        with self.holding(mask):
            for axis, index in enumerate(node.indices):
                self.inside(node, node.buffer, axis, self.resolve(index))

    def inside(
        self, node: Node, buffer: Buffer, axis: int, index: Expr, dim: Expr | None = None, count: Expr | None = None
    ) -> None:
        dim = self.resolve(buffer.shape[axis]) if dim is None else dim
        if isinstance(index, IntImm) and isinstance(dim, IntImm) and count is None and 0 <= index.value < dim.value:
            return
        wide = "int64" if index.dtype.bits > 32 or dim.dtype.bits > 32 or index.dtype.kind == "uint" else "int32"
        index, dim = index.astype(wide), dim.astype(wide)
        last = index if count is None else index + count.astype(wide) - const(1, wide)
        if count is None and isinstance(dim, IntImm) and self.fits(index, dim.value):
            return
        for condition in (GE(index, const(0, wide)), LT(last, dim)):
            if not self.shown(condition):
                facts = tuple(self.analyzer.domain.facts)
                self.result.append(
                    Unshown(
                        node,
                        buffer,
                        axis,
                        index,
                        condition,
                        tuple(self.loops),
                        tuple(self.conditions),
                        facts,
                        self.origin,
                        {b: i.ends for b, i in self.invariants.items()},
                        self.positive,
                    )
                )


def _with(e: Expr, old: Expr, new: Expr) -> Expr:
    changed: Expr = rewrite(e, lambda part: new if part is old else None)
    return changed


def of_lane(e: Any, lane: Var) -> Any:
    """One lane of a vector expression."""
    if isinstance(e, Ramp):
        return e.base + e.stride * lane.astype(e.stride.dtype)
    if isinstance(e, Broadcast):
        return e.value
    return map_children(e, lambda c: of_lane(c, lane))


def touched_writes(s: Stmt) -> set[Buffer]:
    return {store.buffer for store in find(s, BufferStore)} | handed_out(s)


def _is_small(e: Node) -> bool:
    return sum(1 for _ in islice(walk(e), _LARGEST)) < _LARGEST
