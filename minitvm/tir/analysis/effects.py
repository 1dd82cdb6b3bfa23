"""Which elements a statement touches: perhaps, surely, and before it has written them itself.

`effects(stmt)` is worked out from the body, predicates and indices included, in terms of the variables that are free in
the statement. A block's declared regions count only where the text shows nothing: foreign calls and views. The
precedent is the effect analysis of Exo (`new_eff.py`), with boxes in the place of sets.

A `Touch` (`touches`) keeps the loops and conditions between the statement and an access, so nothing is lost on the way.
"""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ...arith import Analyzer, regions
from ...expr import (
    EQ,
    REDUCE,
    Call,
    Expr,
    FloatImm,
    IntImm,
    Let,
    Node,
    Not,
    Range,
    Select,
    Var,
    children,
    substitute,
    walk,
)
from ...expr.conditions import certain_parts
from ..conditions import all_of, reads_memory, uses
from ..nodes import (
    Allocate,
    Block,
    BlockRealize,
    Buffer,
    BufferData,
    BufferLoad,
    BufferRegion,
    BufferStore,
    For,
    ForKind,
    If,
    LetStmt,
    Seq,
    Stmt,
    While,
)
from .accesses import addresses
from .touches import Box, Touch, known_ranges, of_element, through_view

Some = frozenset[Buffer] | None

_IN_ORDER = (ForKind.SERIAL, ForKind.UNROLLED)


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
        if self is _NOTHING:
            return later
        if later is _NOTHING:
            return self
        if not self.writes:
            exposed = later.exposed
        else:
            exposed = tuple(t for e in later.exposed if (t := _behind(e, self.writes)) is not None)
        return Effects((*self.reads, *later.reads), (*self.writes, *later.writes), (*self.exposed, *exposed))

    def each(self, change: Callable[[Touch], Touch]) -> Effects:
        """Every touch changed; what is exposed stays one of the reads."""
        if self is _NOTHING:
            return self
        changed = {id(t): change(t) for part in (self.reads, self.writes, self.exposed) for t in part}
        return Effects(*(tuple(changed[id(t)] for t in part) for part in (self.reads, self.writes, self.exposed)))

    def without(self, buffers: Iterable[Buffer]) -> Effects:
        """What is left for those who do not see some buffers."""
        hidden = set(buffers)
        if not hidden:
            return self
        return Effects(
            *(tuple(t for t in part if t.buffer not in hidden) for part in (self.reads, self.writes, self.exposed))
        )


_NOTHING = Effects()
_KNOWN: weakref.WeakKeyDictionary[Node, dict[Some, Effects]] = weakref.WeakKeyDictionary()
_TOUCHED: weakref.WeakKeyDictionary[Stmt, frozenset[Buffer]] = weakref.WeakKeyDictionary()


def effects(node: Node, of: Some = None) -> Effects:
    """What one run of a statement, or one evaluation of an expression, reads and writes; `of`: of some buffers only.

    Everything is in terms of the variables that are free in it: loops around it stand still. The effects of a statement
    are kept with it.
    """
    if not isinstance(node, Stmt):
        return _effects(node, of)
    if of is not None and of.isdisjoint(_touched(node)):
        return _NOTHING
    known = _KNOWN.get(node)
    if known is None:
        known = _KNOWN[node] = {}
    if of not in known:
        known[of] = _effects(node, of)
    return known[of]


def exposes(stmt: Stmt, buffer: Buffer) -> bool:
    """Whether a run of a statement may find in a buffer what stood there before the run.

    Of a loop's body: whether an iteration may find what another one has left.
    """
    return bool(effects(stmt, frozenset([buffer])).exposed)


def _touched(stmt: Stmt) -> frozenset[Buffer]:
    """The buffers that occur in a statement: others have no effects in it."""
    known = _TOUCHED.get(stmt)
    if known is None:
        found: set[Buffer] = set()
        if isinstance(stmt, BufferStore):
            found.add(stmt.buffer)
        for child in children(stmt):
            if isinstance(child, Stmt):
                found |= _touched(child)
            else:
                found |= {n.buffer for n in walk(child) if isinstance(n, BufferLoad | BufferData | BufferRegion)}
        known = _TOUCHED[stmt] = frozenset(found)
    return known


def _effects(node: Node, of: Some) -> Effects:
    if isinstance(node, IntImm | FloatImm | Var):
        return _NOTHING
    if isinstance(node, Seq):
        return _in_turn(effects(s, of) for s in node.stmts)
    if isinstance(node, For):
        return effects(node.start, of).then(effects(node.extent, of)).then(_loop(node, effects(node.body, of)))
    if isinstance(node, If):
        then_case = effects(node.then_case, of).each(lambda t: _guarded(t, node.condition))
        found = effects(node.condition, of).then(then_case)
        if node.else_case is None:
            return found
        other = effects(node.else_case, of).each(lambda t: _guarded(t, Not(node.condition)))
        return Effects(
            (*found.reads, *other.reads),
            (
                *found.writes,
                *other.writes,
                *_in_both(effects(node.then_case, of).writes, effects(node.else_case, of).writes),
            ),
            (*found.exposed, *other.exposed),
        )
    if isinstance(node, While):
        asked = effects(node.condition, of)
        return asked.then(effects(node.body, of).each(Touch.perhaps))
    if isinstance(node, LetStmt | Let):
        return effects(node.value, of).then(effects(node.body, of).each(lambda t: t.at({node.var: node.value})))
    if isinstance(node, Allocate):
        return effects(node.body, of).without([node.buffer])
    if isinstance(node, BlockRealize):
        return _realize(node, of)
    if isinstance(node, Block):
        return _block(node, of)
    return _accessed(node, of)


def _in_turn(parts: Iterable[Effects]) -> Effects:
    found = _NOTHING
    for part in parts:
        found = found.then(part)
    return found


def _accessed(node: Node, of: Some) -> Effects:
    """Expressions, and statements that hold nothing but expressions."""
    if isinstance(node, Call) and (node.op == "tvm_access_ptr" or node.op == "address_of"):
        found = [a for a in addresses(node) if a.node is node and (of is None or a.buffer in of)]
        inner = node.args[0].indices if node.op == "address_of" and isinstance(node.args[0], BufferLoad) else ()
        touched = _in_turn(effects(e, of) for e in inner)
        for a in found:
            touch = Touch(node, a.buffer, a.buffer.full_region().region, sure=False, opaque=True)
            touched = touched.then(Effects((touch,) if a.read else (), (), (touch,) if a.read else ()))
            touched = touched.then(Effects((), (touch,) if a.write else ()))
        return touched
    always, sometimes = ([], list(children(node))) if isinstance(node, Select) else certain_parts(node)
    found_in = _in_turn(effects(e, of) for e in always)
    for child in sometimes:
        found_in = found_in.then(effects(child, of).each(Touch.perhaps))
    if isinstance(node, BufferLoad | BufferStore) and of is not None and node.buffer not in of:
        return found_in
    if isinstance(node, BufferLoad):
        touch = of_element(node)
        return found_in.then(Effects((touch,), (), (touch,)))
    if isinstance(node, BufferStore):
        return found_in.then(Effects((), (of_element(node),)))
    opaque = next((a for a in addresses(node) if a.node is node), None) if isinstance(node, Call | BufferData) else None
    if opaque is not None and (of is None or opaque.buffer in of):
        touch = Touch(node, opaque.buffer, opaque.buffer.full_region().region, sure=False, opaque=True)
        return found_in.then(Effects((touch,), (), (touch,))).then(Effects((), (touch,)))
    return found_in


def _guarded(touch: Touch, condition: Expr) -> Touch:
    return touch.perhaps() if reads_memory(condition) else touch.under(condition)


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
    for store in own:
        if store.least is not None and _holds(store.least, touch.most, touch.buffer, Analyzer()):
            return None
    pending = tuple((store, ()) for store in own if store.sure and store.conditions)
    return dataclasses.replace(touch, after=(*touch.after, *pending)) if pending else touch


def _before_all(touch: Touch, store: Touch, shared: Sequence[For]) -> bool:
    """Whether a store under a condition comes first for all that is read.

    It runs where the loops around both that its conditions name stand at their start, and the others where they stand
    for the read.
    """
    named = [l for l in shared if any(uses(c, [l.var]) for c in store.conditions)]
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

    def at_most(a: Expr, b: Expr) -> bool:
        if isinstance(a, IntImm) and isinstance(b, IntImm):
            return a.value <= b.value
        return a is b or analyzer.can_prove(a <= b)

    def end(r: Range) -> Expr:
        if isinstance(r.start, IntImm) and isinstance(r.extent, IntImm):
            return IntImm(r.start.value + r.extent.value, r.start.dtype)
        return r.start + r.extent

    return all(
        (at_most(w.start, r.start) or analyzer.can_prove(w.start <= 0))
        and (at_most(end(r), end(w)) or at_most(dim, end(w)))
        for w, r, dim in zip(written, read, buffer.shape, strict=True)
    )


def _realize(node: BlockRealize, of: Some) -> Effects:
    asked = _in_turn(effects(e, of) for e in (*node.iter_values, node.predicate))
    values = dict(zip((it.var for it in node.block.iter_vars), node.iter_values, strict=True))
    inside = effects(node.block, of).each(lambda t: _guarded(t.at(values), node.predicate))
    return asked.then(inside)


def _block(block: Block, of: Some) -> Effects:
    if of is not None:
        for match in block.match_buffers:
            of = of | {match.buffer} if match.source.buffer in of else of
    body = effects(block.body, of)
    if block.init is not None:
        reduced = [it for it in block.iter_vars if it.kind == REDUCE]
        starts = all_of(EQ(it.var, it.dom.start.astype(it.var.dtype)) for it in reduced)
        body = effects(block.init, of).each(lambda t: t.under(starts)).then(body)
    for match in reversed(block.match_buffers):  # a view may be of a view
        body = _in_turn(effects(e, of) for r in match.source.region for e in (r.start, r.extent)).then(body)
        body = body.each(lambda t, match=match: through_view(t, match) if t.buffer is match.buffer else t)  # type: ignore[misc]
    return _believed(block, body).without(block.alloc_buffers)


def _believed(block: Block, body: Effects) -> Effects:
    """The effects, with what foreign calls do as the block declares it."""
    opaque = {t.buffer for part in (body.reads, body.writes) for t in part if t.opaque}
    if not opaque:
        return body
    found: list[tuple[Touch, ...]] = []
    for part, declared in ((body.reads, block.reads), (body.writes, block.writes), (body.exposed, block.reads)):
        said = {r.buffer: Touch(r, r.buffer, known_ranges(r.region)) for r in declared if r.buffer in opaque}
        called = {t.buffer for t in part if t.opaque}
        kept = [t for t in part if not (t.opaque and t.buffer in said)]
        found.append((*kept, *(t for b, t in said.items() if b in called)))
    return Effects(*found)
