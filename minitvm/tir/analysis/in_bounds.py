"""Find every load and store of a function that is not proved to be inside its buffer.

`accesses(func)` walks the function in program order. It uses the facts from loops, predicates, branches and `T.assume`,
and the last value stored at a place. Each load becomes a variable for the `Analyzer`. After a store that may change the
element, the load gets a new variable, so facts about the old value stay true.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ... import expr as ex
from ...arith import Analyzer, fold
from ...arith.affine import Affine, structural_key
from ...expr import walk
from ...expr.visitor import accessed, handed_out, variables
from .. import nodes as tir
from ..assumptions import is_assumption
from ..conditions import is_const
from .invariants import Invariant, Refuted, invariants
from .widened import compared, widened

_LARGEST = 60  # nodes of a stored value that is remembered


@dataclass(frozen=True, slots=True)
class Unshown:
    """An access, or the region of a view, that is not proved to be within dimension `axis` of its buffer.

    `index` is the resolved index, and `condition` is the condition that could not be proved. `loops` are the variables
    around the access with their ranges, and `conditions` are the conditions that hold there.
    """

    node: ex.Node
    buffer: tir.Buffer
    axis: int
    index: ex.Expr
    condition: ex.Expr
    loops: tuple[tuple[ex.Var, ex.Range], ...]
    conditions: tuple[ex.Expr, ...]
    facts: tuple[Affine, ...]
    data: Mapping[ex.Var, tir.BufferLoad]
    stored: Mapping[tir.Buffer, tuple[ex.Expr | None, ex.Expr | None]]
    positive: frozenset[ex.Var]

    @property
    def by_data(self) -> list[ex.Expr]:
        """The loads that the index depends on."""
        return [self.data[v] for v in ex.free_vars(self.condition) if v in self.data]


@dataclass(frozen=True, slots=True)
class Accesses:
    """The accesses of a function that are not proved to be in bounds, and the conditions on sizes that the function
    assumes.
    """

    unshown: tuple[Unshown, ...]
    assumed: tuple[ex.Expr, ...]


def accesses(func: tir.PrimFunc) -> Accesses:
    """Find the accesses of a function that are not proved to be in bounds."""
    walk = _Walk(func, {})
    walk.run()
    limits = [a.buffer.shape[a.axis] for a in walk.result if a.by_data]
    if limits:
        walk = _Walk(func, invariants(func, walk.sizes, limits, lambda guesses: _refuted(func, guesses)))
        walk.run()
    return Accesses(tuple(walk.result), tuple(walk.assumed))


def _refuted(func: tir.PrimFunc, guesses: Mapping[tir.Buffer, Invariant]) -> Refuted:
    walk = _Walk(func, guesses, checking=False)
    walk.run()
    return walk.broken


_Elements = dict[
    Any, tuple[tuple[ex.Expr, ...], ex.Expr]
]  # the indices and known value of elements, keyed by the indices


def sizes_of(func: tir.PrimFunc) -> list[ex.Var]:
    """Return the variables in the shapes of a function's buffers, and its integer scalar parameters."""
    named = {v: None for b in func.buffers for d in (*b.shape, *b.strides, b.elem_offset) for v in ex.free_vars(d)}
    named.update((p, None) for p in func.params if isinstance(p, ex.Var) and p.dtype.is_int)
    return list(named)


class _Walk:
    def __init__(self, func: tir.PrimFunc, invariants: Mapping[tir.Buffer, Invariant], checking: bool = True) -> None:
        self.func = func
        self.checking = checking
        self.invariants = invariants
        self.broken: dict[tuple[tir.Buffer, int], int] = {}
        self.analyzer = Analyzer()
        self.env: dict[ex.Var, ex.Expr] = {}
        self.loops: list[tuple[ex.Var, ex.Range]] = []
        self.conditions: list[ex.Expr] = []
        self.elements: dict[tir.Buffer, _Elements] = {}
        self.viewed: dict[tir.Buffer, tir.Buffer] = {}  # the source of each view
        self.guarded: dict[tir.Buffer, tuple[tir.MatchBufferRegion, list[tuple[int, ex.Expr, ex.Expr, ex.Expr]]]] = {}
        self.origin: dict[ex.Var, tir.BufferLoad] = {}
        self.memo: dict[ex.Node, ex.Expr] = {}
        self.checked: list[set[ex.Node]] = [set()]  # expressions whose loads are checked, in the scopes around
        self.result: list[Unshown] = []
        self.assumed: list[ex.Expr] = []
        self.sizes = frozenset(sizes_of(func))
        named = {v for b in func.buffers for d in b.shape for v in variables(d)}
        self.positive = frozenset(v for v in self.sizes if v in named or isinstance(v, ex.SizeVar))  # not negative

    def run(self) -> None:
        for var in self.sizes:
            if var.dtype.is_int:
                least = 0 if var in self.positive else int(var.dtype.min)
                self.analyzer.bind(var, (least, int(var.dtype.max)))
        with self.analyzer.constraint(*self.func.attrs.get("facts", ())):
            self.stmt(self.func.body)

    # -- statements -------------------------------------------------------------------------------------------------

    def stmt(self, s: tir.Stmt) -> None:
        method = getattr(self, "on_" + type(s).__name__, None)
        if method is not None:
            method(s)
        else:
            for child in ex.children(s):
                if isinstance(child, tir.Stmt):
                    self.stmt(child)
                elif isinstance(child, ex.Expr):
                    self.expr(child)

    def on_Seq(self, s: tir.Seq) -> None:
        with ExitStack() as stack:
            for part in s.stmts:
                self.stmt(part)
                fact = self.fact_behind(part)
                if fact is not None:
                    stack.enter_context(self.holding(fact))

    def fact_behind(self, s: tir.Stmt) -> ex.Expr | None:
        if isinstance(s, tir.While):
            return self.resolve(ex.Not(s.condition))
        if isinstance(s, tir.Evaluate) and isinstance(s.value, ex.Call) and is_assumption(s):
            condition: ex.Expr = self.resolve(s.value.args[0])
            if variables(condition) <= self.sizes and not accessed(condition):
                self.assumed.append(condition)
            return condition
        return None

    def on_Evaluate(self, s: tir.Evaluate) -> None:
        if not is_assumption(s):
            self.expr(s.value)
            self.forget(handed_out(s.value))  # a foreign call may write to a buffer that it gets

    def on_For(self, s: tir.For) -> None:
        self.expr(s.start)
        self.expr(s.extent)
        domain = ex.Range(self.resolve(s.start), self.resolve(s.extent))
        if isinstance(domain.extent, ex.IntImm) and domain.extent.value <= 0:
            return  # without an iteration
        self.forget(touched_writes(s.body))
        with self.analyzer.constraint():
            self.analyzer.bind(s.var, domain)
            self.loops.append((s.var, domain))
            if not isinstance(domain.extent, ex.IntImm):
                with self.analyzer.constraint(domain.extent > 0):
                    self.stmt(s.body)
            else:
                self.stmt(s.body)
            self.loops.pop()
        self.forget(touched_writes(s.body))

    def on_While(self, s: tir.While) -> None:
        self.forget(touched_writes(s.body))
        self.expr(s.condition)
        with self.holding(self.resolve(s.condition)):
            self.stmt(s.body)
        self.forget(touched_writes(s.body))

    def on_If(self, s: tir.If) -> None:
        self.expr(s.condition)
        condition = self.resolve(s.condition)
        before = dict(self.elements)
        with self.holding(condition):
            self.stmt(s.then_case)
        then, self.elements = self.elements, before
        self.changed()
        if s.else_case is not None:
            before = dict(self.elements)
            with self.holding(ex.Not(condition)):
                self.stmt(s.else_case)
        self.join(condition, touched_writes(s), then)

    def join(self, condition: ex.Expr, written: Iterable[tir.Buffer], then: Mapping[tir.Buffer, _Elements]) -> None:
        """Merge the states after both branches of an `if`: each element has the value from one of the branches."""
        self.changed()
        for buffer in written:
            first, second = then.get(buffer, {}), self.elements.get(buffer, {})
            if first is second:
                continue
            joined: _Elements = {}
            for key, (place, value) in first.items():
                other = second[key][1] if key in second else self.unknown(tir.BufferLoad(buffer, place))
                if value is other:
                    joined[key] = place, value
                elif buffer.dtype.is_int and _is_small(value) and _is_small(other):
                    joined[key] = place, ex.Call(value.dtype, "if_then_else", (condition, value, other))
            self.elements[buffer] = joined

    def on_LetStmt(self, s: tir.LetStmt) -> None:
        self.expr(s.value)
        self.env[s.var] = self.resolve(s.value)
        self.changed()
        self.stmt(s.body)

    def on_Allocate(self, s: tir.Allocate) -> None:
        self.stmt(s.body)

    def on_BufferStore(self, s: tir.BufferStore) -> None:
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

    def on_BlockRealize(self, s: tir.BlockRealize) -> None:
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
            guarded = bool(ex.find(block.body, tir.Instruction))
            for match in block.match_buffers:
                self.view(match, guarded)
            if block.init is not None:
                self.stmt(block.init)
                self.forget(touched_writes(block.init))  # it runs at the first iteration only
            self.stmt(block.body)

    def on_Instruction(self, s: tir.Instruction) -> None:
        self.stmt(s.body)

    def on_Async(self, s: tir.Async) -> None:
        self.stmt(s.body)

    # -- expressions ------------------------------------------------------------------------------------------------

    def expr(self, e: ex.Node) -> None:
        """Check the loads in an expression."""
        if not self.checking or not accessed(e) or any(e in checked for checked in self.checked):
            return
        self.checked[-1].add(e)
        if isinstance(e, tir.BufferLoad):
            for index in e.indices:
                self.expr(index)
            self.access(e)
        elif isinstance(e, ex.Call) and e.op == "if_then_else":
            self.expr(e.args[0])
            condition = self.resolve(e.args[0])
            with self.holding(condition):
                self.expr(e.args[1])
            with self.holding(ex.Not(condition)):
                self.expr(e.args[2])
        elif isinstance(e, ex.And | ex.Or) and e.dtype.lanes == 1:
            self.expr(e.a)
            first = self.resolve(e.a)
            with self.holding(first if isinstance(e, ex.And) else ex.Not(first)):
                self.expr(e.b)
        elif isinstance(e, ex.Let):
            self.expr(e.value)
            self.env[e.var] = self.resolve(e.value)
            self.expr(e.body)
        else:
            for child in ex.children(e):
                self.expr(child)

    # -- what is known ----------------------------------------------------------------------------------------------

    @contextmanager
    def holding(self, condition: ex.Expr) -> Iterator[None]:
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
        """Drop cached results about expressions, because an element or an iterator has changed its value."""
        self.memo.clear()
        for checked in self.checked:
            checked.clear()

    def forget(self, buffers: Iterable[tir.Buffer]) -> None:
        """Forget the values of elements of these buffers, because they may change here."""
        for buffer in buffers:
            whole = self.viewed.get(buffer, buffer)
            related = [view for view, other in self.viewed.items() if other is whole]
            self.elements.update({other: {} for other in (buffer, whole, *related)})
        self.changed()

    def unknown(self, load: tir.BufferLoad) -> ex.Var:
        """Create a variable that represents the unknown value of a load."""
        var = ex.DataVar(load.buffer.name, load.dtype)
        self.origin[var] = load
        return var

    def resolve(self, e: Any) -> Any:
        """Rewrite an expression in terms of loop variables, sizes, and variables that stand for loads."""
        if isinstance(e, ex.Var):
            return self.env.get(e, e)
        if isinstance(e, ex.IntImm) or not isinstance(e, ex.Node):
            return e
        known = self.memo.get(e)
        if known is None:
            known = self.memo[e] = self._resolve(e)
        return known

    def _resolve(self, e: ex.Node) -> Any:
        if isinstance(e, tir.BufferLoad):
            place = tuple(map(self.resolve, e.indices))
            known = self.elements.setdefault(e.buffer, {})
            key = structural_key(place)
            if key not in known or e.dtype.lanes > 1:
                known[key] = place, self.unknown(e)
            return known[key][1]
        if isinstance(e, ex.Let):
            self.env[e.var] = self.resolve(e.value)
            return self.resolve(e.body)
        resolved = ex.map_children(e, self.resolve)
        if isinstance(resolved, ex.Cast):
            return fold.cast(resolved)
        return compared(resolved) if isinstance(resolved, ex.CompareOp) else resolved

    def keeps(self, buffer: tir.Buffer, value: ex.Expr) -> None:
        """For each end of a buffer's invariant, record how many guesses have to be dropped because the stored value is
        not proved to satisfy them.
        """
        invariant = self.invariants[buffer]
        for number, (kind, guesses) in enumerate(((ex.GE, invariant.lows), (ex.LE, invariant.highs))):
            kept = next((k for k, end in enumerate(guesses) if self.shown(kind(value, end))), len(guesses))
            if kept:
                self.broken[buffer, number] = max(kept, self.broken.get((buffer, number), 0))

    def shown(self, condition: ex.Expr) -> bool:
        self.bind_loads(condition)
        if self.analyzer.can_prove(condition):
            return True
        choice = next((c for c in ex.find(condition, ex.Call) if c.op == "if_then_else"), None)
        if choice is None:
            return False
        case, first, second = choice.args  # a condition that holds in both cases holds
        for holds, value in ((case, first), (ex.Not(case), second)):
            with self.analyzer.constraint(holds):
                if not self.shown(_with(condition, choice, value)):
                    return False
        return True

    def fits(self, index: ex.Expr, extent: int) -> bool:
        """Return whether the ranges of the terms alone prove that an index is in [0, extent). This quick test usually
        succeeds.
        """
        self.bind_loads(index)
        form = self.analyzer.normal_form(index)
        low, high = (None, None) if form is None else self.analyzer.domain.interval(form)
        return low is not None and high is not None and low >= 0 and high < extent

    def bind_loads(self, e: ex.Expr) -> None:
        """Tell the analyzer, within its current scope, the known bounds of the loads in an expression."""
        if not self.invariants:
            return
        for var in variables(e):
            origin = self.origin.get(var)
            if origin is not None and origin.buffer in self.invariants and var not in self.analyzer.domain.ranges:
                low, high = self.invariants[origin.buffer].ends
                if high is not None and not isinstance(high, ex.IntImm):  # it is also a fact about the sizes in it
                    self.analyzer.assume(ex.LE(var, high))
                self.analyzer.bind(var, (low, high))

    # -- accesses ---------------------------------------------------------------------------------------------------

    def view(self, match: tir.MatchBufferRegion, guarded: bool) -> None:
        """Check that the region of a matched buffer is inside the source buffer.

        An instruction may skip elements by a condition of its own, for example in the padding of an image. The
        region of a `guarded` view therefore only needs to be inside the buffer where an element of the view is
        accessed.
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

    def region(self, match: tir.MatchBufferRegion, region: list[tuple[int, ex.Expr, ex.Expr, ex.Expr]]) -> None:
        for axis, start, dim, extent in region:
            self.inside(match, match.source.buffer, axis, start, dim, extent)
        if match.source.buffer in self.guarded:
            self.region(*self.guarded[match.source.buffer])

    def access(self, node: tir.BufferLoad | tir.BufferStore) -> None:
        if not self.checking:
            return
        if node.buffer in self.guarded:
            self.region(*self.guarded[node.buffer])
        lanes = max((i.dtype.lanes for i in node.indices), default=1)
        if lanes > 1:
            lane = ex.Var("lane")
            with self.analyzer.constraint():
                self.analyzer.bind(lane, lanes)
                self.loops.append((lane, ex.Range(ex.const(0), ex.const(lanes))))
                mask = ex.const(True) if node.predicate is None else of_lane(self.resolve(node.predicate), lane)
                with self.holding(mask):
                    for axis, index in enumerate(node.indices):
                        self.inside(node, node.buffer, axis, of_lane(self.resolve(index), lane))
                self.loops.pop()
            return
        mask = ex.const(True) if node.predicate is None else self.resolve(node.predicate)
        with self.holding(mask):
            for axis, index in enumerate(node.indices):
                self.inside(node, node.buffer, axis, self.resolve(index))

    def inside(
        self,
        node: ex.Node,
        buffer: tir.Buffer,
        axis: int,
        index: ex.Expr,
        dim: ex.Expr | None = None,
        count: ex.Expr | None = None,
    ) -> None:
        dim = self.resolve(buffer.shape[axis]) if dim is None else dim
        if (
            isinstance(index, ex.IntImm)
            and isinstance(dim, ex.IntImm)
            and count is None
            and 0 <= index.value < dim.value
        ):
            return
        index, dim = widened(index), widened(dim)
        wide = "int64" if index.dtype.bits > 32 or dim.dtype.bits > 32 else "int32"
        index, dim = index.astype(wide), dim.astype(wide)
        last = index if count is None else index + count.astype(wide) - ex.const(1, wide)
        if count is None and isinstance(dim, ex.IntImm) and self.fits(index, dim.value):
            return
        for condition in (ex.GE(index, ex.const(0, wide)), ex.LT(last, dim)):
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


def _with(e: ex.Expr, old: ex.Expr, new: ex.Expr) -> ex.Expr:
    changed: ex.Expr = ex.rewrite(e, lambda part: new if part is old else None)
    return changed


def of_lane(e: Any, lane: ex.Var) -> Any:
    """Return the value of one lane of a vector expression."""
    if isinstance(e, ex.Ramp):
        return e.base + e.stride * lane.astype(e.stride.dtype)
    if isinstance(e, ex.Broadcast):
        return e.value
    return ex.map_children(e, lambda c: of_lane(c, lane))


def touched_writes(s: tir.Stmt) -> set[tir.Buffer]:
    return {store.buffer for store in ex.find(s, tir.BufferStore)} | handed_out(s)


def _is_small(e: ex.Node) -> bool:
    return sum(1 for _ in islice(walk(e), _LARGEST)) < _LARGEST
