"""Which elements a statement touches: perhaps, surely, and before it has written them itself.

`effects(stmt)` is worked out from the body, predicates and indices included, in terms of the variables that are free in
the statement. A block's declared regions count only where the text shows nothing: foreign calls and views. The
precedent is the effect analysis of Exo (`new_eff.py`), with boxes in the place of sets.

A `Touch` keeps the loops and conditions between the statement and an access, so nothing is lost on the way up.
`Touch.box` is never too small; `Touch.certain` is never too large. Both are computed when they are asked for.
"""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...arith import Analyzer, regions
from ...arith.affine import variables
from ...expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    REDUCE,
    Call,
    Expr,
    IntImm,
    Let,
    Max,
    Min,
    Node,
    Not,
    Ramp,
    Range,
    Select,
    Var,
    children,
    const,
    structural_equal,
    substitute,
    walk,
)
from ...expr.conditions import all_of, certain_parts, conjuncts, is_const
from ..accesses import addresses
from ..nodes import (
    Allocate,
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    ForKind,
    If,
    LetStmt,
    MatchBufferRegion,
    Seq,
    While,
)

Box = regions.Box
_IN_ORDER = (ForKind.SERIAL, ForKind.UNROLLED)


@dataclass(frozen=True, slots=True)
class Touch:
    """One load, store or opaque use of a buffer in the text, seen from a statement around it.

    `ranges` are the elements (None: a dimension that only data tells), at each iteration of `loops` (outermost first)
    at which `conditions` hold. `sure` is False where something else decides whether it happens. `opaque` touches are
    those of foreign calls. `after` are the stores that come earlier in the text of the same loops (`shared`).
    """

    node: Node
    buffer: Buffer
    ranges: tuple[Range | None, ...]
    loops: tuple[For, ...] = ()
    conditions: tuple[Expr, ...] = ()
    sure: bool = True
    opaque: bool = False
    after: tuple[tuple[Touch, tuple[For, ...]], ...] = ()

    def box(self, analyzer: Analyzer | None = None, still: Iterable[Var] = ()) -> Box:
        """A box around all that is touched; of a dimension that cannot be bounded the whole one.

        The loops of the variables `still` stand still. The box may reach out of the
        buffer where a condition keeps the access inside.
        """
        analyzer = analyzer or Analyzer()
        whole = self.buffer.full_region().region
        known = [r if r is not None else all_ for r, all_ in zip(self.ranges, whole, strict=True)]
        held = set(still)
        domains = {l.var: Range(l.start, l.extent) for l in self.loops if l.var not in held}
        if not domains:
            return tuple(known)
        low = regions.evaluate([r.start for r in known], domains, analyzer, whole)
        if all(is_const(r.extent, 1) for r in known):
            return low.box
        high = regions.evaluate([r.start + (r.extent - 1) for r in known], domains, analyzer, whole)
        found = []
        for d, (first, last) in enumerate(zip(low.box, high.box, strict=True)):
            if d in low.unbounded or d in high.unbounded:
                found.append(whole[d])
            else:
                extent = analyzer.simplify(last.start + last.extent - first.start)
                found.append(Range(analyzer.simplify(first.start), extent))
        return tuple(found)

    def certain(self, analyzer: Analyzer | None = None, still: Iterable[Var] = ()) -> Box | None:
        """A box of which every element inside the buffer is touched in every run; None where none is shown.

        A condition is left out where it only keeps elements beyond the buffer's ends, and cuts the box where it bounds
        an index.
        """
        if not self.sure or None in self.ranges:
            return None
        analyzer = analyzer or Analyzer()
        held = set(still)
        loops = [l for l in self.loops if l.var not in held]
        moving = {l.var for l in loops}
        domains = {l.var: Range(l.start, l.extent) for l in loops}
        cuts = []
        for condition in self.conditions:
            cut = self._cut(condition, moving, domains, analyzer)
            if cut is None:
                return None
            cuts += cut
        indices: list[Expr] = []
        for d, r in enumerate(self.ranges):
            assert r is not None
            if is_const(r.extent, 1):
                indices.append(r.start)
                continue
            inside = Var(f"e{d}", r.start.dtype)
            domains[inside] = Range(const(0, inside.dtype), r.extent)
            indices.append(r.start + inside)
        found = regions.evaluate(indices, domains, analyzer)
        if not found.exact:
            return None
        if not all(self._runs(l, found.box, indices, domains, analyzer) for l in loops):
            return None
        box = list(found.box)
        for d, low, end in cuts:
            r = box[d]
            start = r.start if low is None else analyzer.simplify(Max(r.start, low))
            stop = r.start + r.extent if end is None else Min(r.start + r.extent, end)
            box[d] = Range(start, analyzer.simplify(Max(stop - start, const(0, start.dtype))))
        return tuple(box)

    def _runs(
        self, loop: For, box: Box, indices: Sequence[Expr], domains: Mapping[Var, Range], analyzer: Analyzer
    ) -> bool:
        """Whether a loop has an iteration, or the box is empty where it has none."""
        if analyzer.can_prove(loop.extent >= 1):
            return True
        empty = {**domains, loop.var: Range(loop.start, const(0, loop.extent.dtype))}
        without = regions.evaluate(indices, empty, analyzer)
        return any(analyzer.can_prove(r.extent <= 0) for r in without.box)

    def _cut(
        self, condition: Expr, moving: set[Var], domains: Mapping[Var, Range], analyzer: Analyzer
    ) -> list[tuple[int, Expr | None, Expr | None]] | None:
        """What a condition cuts off the box, as (dimension, start, end); None where it cannot be said."""
        with analyzer.constraint():
            for var, values in domains.items():
                analyzer.bind(var, values)
            if analyzer.can_prove(condition):
                return []
            if not isinstance(condition, LT | LE | GT | GE) or not condition.a.dtype.is_int:
                return None
            a, b = (analyzer.affine(e) for e in (condition.a, condition.b))
            slack = a - b if isinstance(condition, LT | LE) else b - a
            slack = slack - 1 if isinstance(condition, LE | GE) else slack  # the condition says slack < 0
            for d, (r, dim) in enumerate(zip(self.ranges, self.buffer.shape, strict=True)):
                assert r is not None
                index = analyzer.affine(r.start)
                beyond = index - analyzer.affine(dim)
                factors = {beyond.terms[t] // c for t, c in slack.terms.items() if t in beyond.terms}
                for q in {1, *factors}:
                    if q > 0 and analyzer.domain.nonnegative(beyond - slack.scaled(q)):
                        return []  # what it leaves out lies beyond the end
                if not is_const(r.extent, 1):
                    continue
                above, below = index - slack, index + slack
                if not any(v in moving for v in variables(above)):  # index < above
                    return [(d, None, analyzer.to_expr(above, r.start.dtype))]
                if not any(v in moving for v in variables(below)):  # index > below
                    return [(d, analyzer.to_expr(below + 1, r.start.dtype), None)]
        return None

    # -- on the way up

    def inside(self, loop: For) -> Touch:
        """The same in each iteration of a loop around it."""
        after = tuple((store.inside(loop), (loop, *shared)) for store, shared in self.after)
        same = dataclasses.replace(self, loops=(loop, *self.loops), after=after)
        return same.unknown({loop.var}) if _reads(loop.start) or _reads(loop.extent) else same

    def under(self, condition: Expr) -> Touch:
        """The same where a condition holds."""
        parts = tuple(conjuncts(condition))
        after = tuple((store.under(condition), shared) for store, shared in self.after)
        return dataclasses.replace(self, conditions=(*parts, *self.conditions), after=after) if parts else self

    def perhaps(self) -> Touch:
        """The same where something unknown decides."""
        return dataclasses.replace(self, sure=False, after=tuple((s.perhaps(), shared) for s, shared in self.after))

    def at(self, values: Mapping[Var, Expr]) -> Touch:
        """The same with values in place of variables; what is looked up in memory only data tells."""
        hidden = {v for v, value in values.items() if _reads(value)}
        if hidden:
            return self.unknown(hidden).at({v: value for v, value in values.items() if v not in hidden})
        if not values:
            return self
        ranges = tuple(r if r is None else substitute(r, values) for r in self.ranges)
        loops = tuple(
            dataclasses.replace(l, start=substitute(l.start, values), extent=substitute(l.extent, values))
            if _uses(l.start, values) or _uses(l.extent, values)
            else l
            for l in self.loops
        )
        conditions = tuple(substitute(c, values) for c in self.conditions)
        after = tuple((store.at(values), shared) for store, shared in self.after)
        return dataclasses.replace(self, ranges=ranges, loops=loops, conditions=conditions, after=after)

    def unknown(self, names: set[Var]) -> Touch:
        """The same where only data tells what some variables are."""
        hidden = set(names)
        for l in self.loops:  # outermost first
            if _uses(l.start, hidden) or _uses(l.extent, hidden):
                hidden.add(l.var)
        ranges = tuple(None if r is None or _uses(r, hidden) else r for r in self.ranges)
        loops = tuple(l for l in self.loops if l.var not in hidden)
        known = tuple(c for c in self.conditions if not _uses(c, hidden))
        sure = self.sure and len(known) == len(self.conditions) and len(loops) == len(self.loops)
        after = tuple((store.unknown(hidden), shared) for store, shared in self.after)
        return dataclasses.replace(self, ranges=ranges, loops=loops, conditions=known, sure=sure, after=after)


@dataclass(frozen=True, slots=True)
class Effects:
    """What one run of a statement reads and writes, in program order.

    `exposed` are the reads that may find what stood in memory before the run.
    """

    reads: tuple[Touch, ...] = ()
    writes: tuple[Touch, ...] = ()
    exposed: tuple[Touch, ...] = ()

    def then(self, later: Effects) -> Effects:
        """Of both, one after the other."""
        if not self.writes:
            exposed = later.exposed
        else:
            exposed = tuple(t for e in later.exposed if (t := _behind(e, self.writes)) is not None)
        return Effects(
            (*self.reads, *later.reads), (*self.writes, *later.writes), (*self.exposed, *exposed)
        )

    def each(self, change: Callable[[Touch], Touch]) -> Effects:
        """Every touch changed."""
        return Effects(*(tuple(map(change, part)) for part in (self.reads, self.writes, self.exposed)))

    def without(self, buffers: Iterable[Buffer]) -> Effects:
        """What is left for those who do not see some buffers."""
        hidden = set(buffers)
        if not hidden:
            return self
        return Effects(
            *(tuple(t for t in part if t.buffer not in hidden) for part in (self.reads, self.writes, self.exposed))
        )


_NOTHING = Effects()
_KNOWN: weakref.WeakKeyDictionary[Node, Effects] = weakref.WeakKeyDictionary()


def effects(node: Node) -> Effects:
    """What one run of a statement, or one evaluation of an expression, reads and writes.

    Everything is in terms of the variables that are free in it: loops around it stand still. The effects of a node are
    kept with it.
    """
    known = _KNOWN.get(node)
    if known is None:
        known = _KNOWN[node] = _effects(node)
    return known


def _effects(node: Node) -> Effects:
    if isinstance(node, Seq):
        return _in_turn(effects(s) for s in node.stmts)
    if isinstance(node, For):
        return effects(node.start).then(effects(node.extent)).then(_loop(node, effects(node.body)))
    if isinstance(node, If):
        then_case = effects(node.then_case).each(lambda t: _guarded(t, node.condition))
        found = effects(node.condition).then(then_case)
        if node.else_case is None:
            return found
        other = effects(node.else_case).each(lambda t: _guarded(t, Not(node.condition)))
        return Effects(
            (*found.reads, *other.reads),
            (*found.writes, *other.writes, *_in_both(effects(node.then_case).writes, effects(node.else_case).writes)),
            (*found.exposed, *other.exposed),
        )
    if isinstance(node, While):
        asked = effects(node.condition)
        return asked.then(effects(node.body).each(Touch.perhaps))
    if isinstance(node, LetStmt | Let):
        return effects(node.value).then(effects(node.body).each(lambda t: t.at({node.var: node.value})))
    if isinstance(node, Allocate):
        return effects(node.body).without([node.buffer])
    if isinstance(node, BlockRealize):
        return _realize(node)
    if isinstance(node, Block):
        return _block(node)
    return _accessed(node)


def _in_turn(parts: Iterable[Effects]) -> Effects:
    found = _NOTHING
    for part in parts:
        found = found.then(part)
    return found


def _accessed(node: Node) -> Effects:
    """Expressions, and statements that hold nothing but expressions."""
    if isinstance(node, Call) and (node.op == "tvm_access_ptr" or node.op == "address_of"):
        found = [a for a in addresses(node) if a.node is node]
        inner = node.args[0].indices if node.op == "address_of" and isinstance(node.args[0], BufferLoad) else ()
        touched = _in_turn(map(effects, inner))
        for a in found:
            touch = Touch(node, a.buffer, a.buffer.full_region().region, sure=False, opaque=True)
            touched = touched.then(Effects((touch,) if a.read else (), (), (touch,) if a.read else ()))
            touched = touched.then(Effects((), (touch,) if a.write else ()))
        return touched
    always, sometimes = ([], list(children(node))) if isinstance(node, Select) else certain_parts(node)
    found_in = _in_turn(map(effects, always))
    for child in sometimes:
        found_in = found_in.then(effects(child).each(Touch.perhaps))
    if isinstance(node, BufferLoad):
        touch = _element(node)
        return found_in.then(Effects((touch,), (), (touch,)))
    if isinstance(node, BufferStore):
        return found_in.then(Effects((), (_element(node),)))
    opaque = next((a for a in addresses(node) if a.node is node), None)
    if opaque is not None:
        touch = Touch(node, opaque.buffer, opaque.buffer.full_region().region, sure=False, opaque=True)
        return found_in.then(Effects((touch,), (), (touch,))).then(Effects((), (touch,)))
    return found_in


def _element(node: BufferLoad | BufferStore) -> Touch:
    dense = all(not isinstance(i, Ramp) or is_const(i.stride, 1) for i in node.indices)
    return Touch(node, node.buffer, tuple(map(_place, node.indices)), sure=dense and node.predicate is None)


def _place(index: Expr) -> Range | None:
    if _reads(index):
        return None
    if isinstance(index, Ramp) and index.base.dtype.lanes == 1 and isinstance(index.stride, IntImm):
        reach = index.stride.value * (index.lanes - 1)
        start = index.base if reach >= 0 else index.base + reach
        return Range(start, const(abs(reach) + 1, start.dtype))
    return Range(index, const(1, index.dtype)) if index.dtype.lanes == 1 else None


def _reads(e: Expr) -> bool:
    return any(isinstance(part, BufferLoad) for part in walk(e))


def _uses(node: Node, names: Iterable[Var]) -> bool:
    wanted = set(names)
    return bool(wanted) and any(isinstance(part, Var) and part in wanted for part in walk(node))


def _guarded(touch: Touch, condition: Expr) -> Touch:
    return touch.perhaps() if _reads(condition) else touch.under(condition)


def _in_both(one: Sequence[Touch], other: Sequence[Touch]) -> Iterator[Touch]:
    """What both branches of an `if` surely write: in neither is it known more precisely than by one box."""
    for a in one:
        box = a.certain()
        if box is None:
            continue
        for b in other:
            same = b.certain() if b.buffer is a.buffer else None
            if same is not None and regions.same(box, same, Analyzer()):
                yield Touch(a.node, a.buffer, box)
                break


def _loop(loop: For, body: Effects) -> Effects:
    found = body.each(lambda t: t.inside(loop))
    if loop.kind not in _IN_ORDER:
        return found
    exposed = [t for t in found.exposed if not any(_before_all(t, *pair) for pair in t.after)]
    return Effects(found.reads, found.writes, tuple(exposed))


def _behind(touch: Touch, stores: Sequence[Touch]) -> Touch | None:
    """A read that comes after stores: None where they cover it."""
    own = [s for s in stores if s.buffer is touch.buffer]
    if not own:
        return touch
    box = touch.box()
    for store in own:
        written = store.certain()
        if written is not None and _holds(written, box, touch.buffer, Analyzer()):
            return None
    pending = tuple((store, ()) for store in own if store.sure and store.conditions)
    return dataclasses.replace(touch, after=(*touch.after, *pending)) if pending else touch


def _before_all(touch: Touch, store: Touch, shared: Sequence[For]) -> bool:
    """Whether a store under a condition comes first for all that is read.

    It runs where the loops around both that its conditions name stand at their start, and the others where they stand
    for the read.
    """
    named = [l for l in shared if any(_uses(c, [l.var]) for c in store.conditions)]
    if not named or any(l.kind not in _IN_ORDER for l in named):
        return False
    starts: dict[Var, Expr] = {}
    for l in named:
        starts[l.var] = substitute(l.start, starts)
    fixed = {l.var for l in named}
    first = dataclasses.replace(
        store, loops=tuple(l for l in store.loops if l.var not in fixed), conditions=store.conditions, after=()
    ).at(starts)
    analyzer = Analyzer()
    still = [l for l in shared if l.var not in fixed]
    for l in still:
        analyzer.bind(l.var, Range(l.start, l.extent))
    box = first.certain(analyzer, [l.var for l in still])
    if box is None:
        return False
    return _holds(box, touch.box(analyzer, [l.var for l in still]), touch.buffer, analyzer)


def _holds(written: Box, read: Box, buffer: Buffer, analyzer: Analyzer) -> bool:
    """Whether one box holds what another one has inside of the buffer.

    What is read outside of it is an error, or a condition keeps the read from there.
    """
    return all(
        (analyzer.can_prove(w.start <= r.start) or analyzer.can_prove(w.start <= 0))
        and (
            analyzer.can_prove(r.start + r.extent <= w.start + w.extent)
            or analyzer.can_prove(dim <= w.start + w.extent)
        )
        for w, r, dim in zip(written, read, buffer.shape, strict=True)
    )


def _realize(node: BlockRealize) -> Effects:
    asked = _in_turn(map(effects, (*node.iter_values, node.predicate)))
    values = dict(zip((it.var for it in node.block.iter_vars), node.iter_values, strict=True))
    inside = effects(node.block).each(lambda t: _guarded(t.at(values), node.predicate))
    return asked.then(inside)


def _block(block: Block) -> Effects:
    body = effects(block.body)
    if block.init is not None:
        reduced = [it for it in block.iter_vars if it.kind == REDUCE]
        starts = all_of(EQ(it.var, it.dom.start.astype(it.var.dtype)) for it in reduced)
        body = effects(block.init).each(lambda t: t.under(starts)).then(body)
    for match in reversed(block.match_buffers):  # a view may be of a view
        body = _in_turn(effects(e) for r in match.source.region for e in (r.start, r.extent)).then(body)
        body = body.each(lambda t, match=match: _through(t, match) if t.buffer is match.buffer else t)  # type: ignore[misc]
    return _believed(block, body).without(block.alloc_buffers)


def _through(touch: Touch, match: MatchBufferRegion) -> Touch:
    """What is touched of the buffer behind a view."""
    source = match.source
    after = tuple((_through(store, match), shared) for store, shared in touch.after)
    region = _known_ranges(source.region)
    behind = dataclasses.replace(touch, buffer=source.buffer, ranges=region, after=after)
    front = len(source.region) - len(touch.ranges)
    same = front >= 0 and all(is_const(r.extent, 1) for r in source.region[:front])
    sides = zip(source.region[front:], match.buffer.shape, strict=True) if same else ()
    if not same or not all(structural_equal(r.extent, dim) for r, dim in sides):
        return dataclasses.replace(behind, loops=(), conditions=(), sure=False, after=())
    inner = tuple(
        None if own is None or r is None else Range(r.start + own.start.astype(r.start.dtype), own.extent)
        for r, own in zip(region[front:], touch.ranges, strict=True)
    )
    return dataclasses.replace(behind, ranges=(*region[:front], *inner))


def _known_ranges(region: Sequence[Range]) -> tuple[Range | None, ...]:
    return tuple(None if _reads(r.start) or _reads(r.extent) else r for r in region)


def _believed(block: Block, body: Effects) -> Effects:
    """The effects, with what foreign calls do as the block declares it."""
    opaque = {t.buffer for part in (body.reads, body.writes) for t in part if t.opaque}
    if not opaque:
        return body
    found: list[tuple[Touch, ...]] = []
    for part, declared in ((body.reads, block.reads), (body.writes, block.writes), (body.exposed, block.reads)):
        said = {r.buffer: Touch(r, r.buffer, _known_ranges(r.region)) for r in declared if r.buffer in opaque}
        called = {t.buffer for t in part if t.opaque}
        kept = [t for t in part if not (t.opaque and t.buffer in said)]
        found.append((*kept, *(t for b, t in said.items() if b in called)))
    return Effects(*found)
