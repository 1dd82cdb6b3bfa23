"""Compute the elements that a statement may touch, certainly touches, and reads before it writes them.

`effects(stmt)` is computed from the body, including predicates and indices, as a function of the variables that are
free in the statement. The declared regions of a block are used only where the text shows nothing: for foreign calls and
views. This follows the effect analysis of Exo (`new_eff.py`), with boxes instead of sets.

A `Touch` (`touches`) keeps the loops and conditions between the statement and an access, so no information is lost.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ... import expr as ex
from ...arith import Analyzer, regions
from ...arith.affine import Affine, structural_key
from ...expr.conditions import certain_parts
from ...expr.node import kept_with_node
from ...expr.visitor import accessed, handed_out
from .. import nodes as tir
from ..conditions import all_of, reads_memory, uses
from .accesses import HandedAddress, addresses
from .touches import Box, Touch, known_ranges, of_element, through_view

Some = frozenset[tir.Buffer] | None

_IN_ORDER = (tir.ForKind.SERIAL, tir.ForKind.UNROLLED)


@dataclass(frozen=True)
class Effects:
    """The reads and writes in one run of a statement, in program order.

    `expose` computes which reads are exposed. It runs on demand, because it is rarely needed and compares each read
    with all stores before it.
    """

    reads: tuple[Touch, ...] = ()
    writes: tuple[Touch, ...] = ()
    expose: Callable[[], Iterable[Touch]] = tuple

    @cached_property
    def exposed(self) -> tuple[Touch, ...]:
        """The reads that may see values from before the run."""
        return tuple(self.expose())

    def each(self, change: Callable[[Touch], Touch]) -> Effects:
        """Apply `change` to every touch. Exposed touches remain exposed."""
        if self is _NOTHING:
            return self
        reads = {id(t): change(t) for t in self.reads}
        return Effects(
            tuple(reads.values()),
            tuple(map(change, self.writes)),
            lambda: (reads[id(t)] if id(t) in reads else change(t) for t in self.exposed),
        )

    def without(self, buffers: Iterable[tir.Buffer]) -> Effects:
        """Return the effects on all buffers except `buffers`."""
        hidden = set(buffers)
        if not hidden:
            return self

        def seen(touches: Iterable[Touch]) -> tuple[Touch, ...]:
            return tuple(t for t in touches if t.buffer not in hidden)

        return Effects(seen(self.reads), seen(self.writes), lambda: seen(self.exposed))


_NOTHING = Effects()
_AROUND: ContextVar[tuple[tir.For, ...]] = ContextVar("around", default=())  # the loops around a requested statement


def effects(node: ex.Node, of: Some = None) -> Effects:
    """Return the reads and writes in one run of a statement or one evaluation of an expression. If `of` is given, only
    the buffers in `of` are considered.

    The result is a function of the free variables: loops around the statement are fixed. The effects of a statement are
    cached with it.
    """
    if not isinstance(node, tir.Stmt):
        named = accessed(node) | handed_out(node)
        return _NOTHING if not named or (of is not None and of.isdisjoint(named)) else _effects(node, of)
    if of is not None and of.isdisjoint(_touched(node)):
        return _NOTHING
    cache = _cache(node)
    if of not in cache:
        cache[of] = _effects(node, of)
    return cache[of]


@kept_with_node
def _cache(stmt: tir.Stmt) -> dict[Some, Effects]:  # noqa: ARG001 (the key of the cache)
    return {}


def exposes(stmt: tir.Stmt, buffer: tir.Buffer, around: Sequence[tir.For] = ()) -> bool:
    """Return whether a statement may read values that were in a buffer before the statement ran.

    For the body of a loop, this means that an iteration may read values that another iteration wrote. `around` are the
    loops outside of the statement, outermost first; the elements read and written are compared within each iteration of
    these loops.
    """
    own = effects(stmt, frozenset([buffer]))
    if not own.exposed or not around:
        return bool(own.exposed)
    token = _AROUND.set(tuple(around))
    try:
        return any(True for _ in own.expose())
    finally:
        _AROUND.reset(token)


@kept_with_node
def _touched(stmt: tir.Stmt) -> frozenset[tir.Buffer]:
    """Return the buffers that occur in a statement; it has no effect on any other buffer."""
    buffers: set[tir.Buffer] = set()
    if isinstance(stmt, tir.BufferStore):
        buffers.add(stmt.buffer)
    for child in ex.children(stmt):
        if isinstance(child, tir.Stmt):
            buffers |= _touched(child)
        else:
            buffers |= (
                accessed(child)
                if isinstance(child, ex.Expr) and not handed_out(child)
                else {n.buffer for n in ex.find(child, tir.BufferLoad | tir.BufferData | tir.BufferRegion)}
            )
    return frozenset(buffers)


def _effects(node: ex.Node, of: Some) -> Effects:
    if isinstance(node, ex.IntImm | ex.FloatImm | ex.Var):
        return _NOTHING
    if isinstance(node, tir.Seq):
        return _in_turn(effects(s, of) for s in node.stmts)
    if isinstance(node, tir.For):
        return _in_turn((effects(node.start, of), effects(node.extent, of), _loop(node, effects(node.body, of))))
    if isinstance(node, tir.If):
        asked = effects(node.condition, of)
        then_case = effects(node.then_case, of).each(lambda t: guarded(t, node.condition))
        if node.else_case is None:
            return _in_turn((asked, then_case))
        other = effects(node.else_case, of).each(lambda t: guarded(t, ex.Not(node.condition)))
        in_both = _in_both(effects(node.then_case, of).writes, effects(node.else_case, of).writes)
        either = Effects(
            (*then_case.reads, *other.reads),
            (*then_case.writes, *other.writes, *in_both),
            lambda: (*then_case.exposed, *other.exposed),
        )
        return _in_turn((asked, either))
    if isinstance(node, tir.While):
        asked = effects(node.condition, of)
        return _in_turn((asked, effects(node.body, of).each(Touch.perhaps)))
    if isinstance(node, tir.LetStmt | ex.Let):
        body = effects(node.body, of).each(lambda t: t.at({node.var: node.value}))
        return _in_turn((effects(node.value, of), body))
    if isinstance(node, tir.Instruction | tir.Async):  # operands only name locations
        return effects(node.body, of)
    if isinstance(node, tir.Allocate):
        return effects(node.body, of).without([node.buffer])
    if isinstance(node, tir.BlockRealize):
        return _realize(node, of)
    if isinstance(node, tir.Block):
        return _block(node, of)
    return _accessed(node, of)


def _in_turn(parts: Iterable[Effects]) -> Effects:
    """Combine the effects of statements that run one after the other."""
    acting = [part for part in parts if part.reads or part.writes]
    if len(acting) < 2:
        return acting[0] if acting else _NOTHING

    def expose() -> Iterator[Touch]:
        stores: list[Touch] = []
        for part in acting:
            yield from (t for e in part.exposed if (t := _behind(e, stores)) is not None)
            stores += part.writes

    return Effects(tuple(t for p in acting for t in p.reads), tuple(t for p in acting for t in p.writes), expose)


def _accessed(node: ex.Node, of: Some) -> Effects:
    """Return the effects of an expression, or of a statement that contains only expressions."""
    if isinstance(node, ex.Expr) and not handed_out(node):
        reads: dict[Any, Touch] = {}
        if _add_reads(node, of, True, reads, set()):
            found = tuple(reads.values())
            return Effects(found, (), lambda: found)
    opaque = isinstance(node, ex.Call | tir.BufferData) and handed_out(node)
    handed = [_of_address(a) for a in addresses(node) if a.node is node and _among(a.buffer, of)] if opaque else []
    if isinstance(node, ex.Call) and (node.op == "tvm_access_ptr" or node.op == "address_of"):
        inner = node.args[0].indices if node.op == "address_of" and isinstance(node.args[0], tir.BufferLoad) else ()
        return _in_turn([*(effects(e, of) for e in inner), *handed])
    always, sometimes = ([], list(ex.children(node))) if isinstance(node, ex.Select) else certain_parts(node)
    parts = [*(effects(e, of) for e in always), *(effects(e, of).each(Touch.perhaps) for e in sometimes)]
    if isinstance(node, tir.BufferLoad) and _among(node.buffer, of):
        return _in_turn([_of_read(of_element(node)), *parts])  # first in the text
    if isinstance(node, tir.BufferStore) and _among(node.buffer, of):
        return _in_turn([*parts, Effects((), (of_element(node),))])
    return _in_turn([*parts, *handed])


def _add_reads(node: ex.Node, of: Some, sure: bool, reads: dict[Any, Touch], seen: set[tuple[ex.Node, bool]]) -> bool:
    """Collect the reads of an expression without foreign calls, in program order; return False if it contains a `Let`.

    Equal loads touch the same element, so they count as one read.
    """
    buffers = accessed(node)
    if not buffers or (node, sure) in seen or (of is not None and of.isdisjoint(buffers)):
        return True
    seen.add((node, sure))
    if isinstance(node, ex.Let):
        return False
    if isinstance(node, tir.BufferLoad) and _among(node.buffer, of):
        key = node.buffer, structural_key(node.indices), structural_key(node.predicate), sure
        if key not in reads:
            touch = of_element(node)
            reads[key] = touch if sure else touch.perhaps()
    always, sometimes = ([], list(ex.children(node))) if isinstance(node, ex.Select) else certain_parts(node)
    return all(_add_reads(e, of, sure, reads, seen) for e in always) and all(
        _add_reads(e, of, False, reads, seen) for e in sometimes
    )


def _among(buffer: tir.Buffer, of: Some) -> bool:
    return of is None or buffer in of


def _of_read(touch: Touch) -> Effects:
    return Effects((touch,), (), lambda: (touch,))


def _of_address(address: HandedAddress) -> Effects:
    """Return the effects of passing an address to a foreign call, which may read and write the entire buffer."""
    whole = address.buffer.full_region().region
    touch = Touch(address.node, address.buffer, whole, sure=False, opaque=True)
    read = _of_read(touch) if address.read else _NOTHING
    return _in_turn((read, Effects((), (touch,)) if address.write else _NOTHING))


def guarded(touch: Touch, condition: ex.Expr) -> Touch:
    """Return the touch under a condition. If the condition reads memory, all we know is that the touch may happen."""
    return touch.perhaps() if reads_memory(condition) else touch.under(condition)


def _in_both(one: Sequence[Touch], other: Sequence[Touch]) -> Iterator[Touch]:
    """Yield the boxes that both branches of an `if` certainly write.

    Only boxes that are written identically in both branches are reported.
    """
    boxes: dict[tir.Buffer, regions.Boxes] = {}
    asked = {touch.buffer for touch in one}
    for touch in other:
        box = touch.least if touch.buffer in asked else None
        if box is not None:
            boxes.setdefault(touch.buffer, regions.Boxes()).add(box)
    for touch in one:
        box = touch.least if touch.buffer in boxes else None
        if box is not None and boxes[touch.buffer].hold(box):
            yield Touch(touch.node, touch.buffer, box)


def _loop(loop: tir.For, body: Effects) -> Effects:
    inside = body.each(lambda t: t.inside(loop))
    if loop.kind not in _IN_ORDER:
        return inside

    def expose() -> Iterator[Touch]:
        return (t for t in inside.exposed if not any(_before_all(t, *pair) for pair in t.after))

    return Effects(inside.reads, inside.writes, expose)


def _behind(touch: Touch, stores: Sequence[Touch]) -> Touch | None:
    """Return the read `touch` if earlier `stores` may leave a part of it exposed, or None if they cover it."""
    own = [s for s in stores if s.buffer is touch.buffer]
    if not own:
        return touch
    analyzer = Analyzer.inside(*_AROUND.get())
    for store in own:
        least = store.least if not store.conditions else _where_read(store, touch).least
        if least is not None and holds(least, touch.most, touch.buffer, analyzer):
            return None
    steps = touch.steps()
    if steps is not None and any(_same_pattern(store, steps) for store in own):
        return None
    pending = tuple((store, ()) for store in own if store.sure and store.conditions)
    return dataclasses.replace(touch, after=(*touch.after, *pending)) if pending else touch


def _where_read(store: Touch, read: Touch) -> Touch:
    """Return a store without the conditions that certainly hold whenever the read happens.

    These are the conditions of the read itself, if they do not change in the loops of the store or of the read.
    """
    moved = [loop.var for loop in (*store.loops, *read.loops)]
    held = [c for c in read.conditions if not uses(c, moved) and not reads_memory(c)]
    left = tuple(c for c in store.conditions if not any(ex.structural_equal(c, h) for h in held))
    return store if len(left) == len(store.conditions) else dataclasses.replace(store, conditions=left)


def _same_pattern(store: Touch, read: tuple[Affine, dict[int, int]]) -> bool:
    """Return whether a store certainly touches all elements of a read, because both have the same start and steps."""
    written = None if store.conditions or not store.sure else store.steps()
    if written is None:
        return False
    return written[0] == read[0] and all(written[1].get(step, 1) >= count for step, count in read[1].items())


def _before_all(touch: Touch, store: Touch, shared: Sequence[tir.For]) -> bool:
    """Return whether a conditional store, such as an init in `if k == 0`, certainly happens before all reads of
    `touch`.

    It does if the loops in its conditions run in order, and if the store covers the reads when these loops are at their
    start and the other shared loops are at the same iteration as the reads.
    """
    named = [l for l in shared if any(uses(c, [l.var]) for c in store.conditions)]
    if not named or any(l.kind not in _IN_ORDER for l in named):
        return False
    starts: dict[ex.Var, ex.Expr] = {}
    for l in named:
        starts[l.var] = ex.substitute(l.start, starts)
    fixed = {l.var for l in named}
    first = dataclasses.replace(
        store, loops=tuple(l for l in store.loops if l.var not in fixed), conditions=store.conditions, after=()
    ).at(starts)
    still = [l for l in shared if l.var not in fixed]
    analyzer = Analyzer.inside(*still)
    box = first.certain(analyzer, [l.var for l in still])
    if box is None:
        return False
    return holds(box, touch.box(analyzer, [l.var for l in still]), touch.buffer, analyzer)


def holds(written: Box, read: Box, buffer: tir.Buffer, analyzer: Analyzer) -> bool:
    """Return whether `written` contains `read`; the part of `read` that is outside of the buffer does not matter.

    The part outside can be ignored: a read there is an error, or a condition prevents it.
    """

    def at_most(a: ex.Expr, b: ex.Expr) -> bool:
        if isinstance(a, ex.IntImm) and isinstance(b, ex.IntImm):
            return a.value <= b.value
        return a is b or analyzer.can_prove(a <= b)

    def end(r: ex.Range) -> ex.Expr:
        if isinstance(r.start, ex.IntImm) and isinstance(r.extent, ex.IntImm):
            return ex.IntImm(r.start.value + r.extent.value, r.start.dtype)
        return r.start + r.extent

    return all(
        (at_most(w.start, r.start) or analyzer.can_prove(w.start <= 0))
        and (at_most(end(r), end(w)) or at_most(dim, end(w)))
        for w, r, dim in zip(written, read, buffer.shape, strict=True)
    )


def _realize(node: tir.BlockRealize, of: Some) -> Effects:
    asked = _in_turn(effects(e, of) for e in (*node.iter_values, node.predicate))
    values = dict(zip((it.var for it in node.block.iter_vars), node.iter_values, strict=True))
    inside = effects(node.block, of).each(lambda t: guarded(t.at(values), node.predicate))
    return _in_turn((asked, inside))


def _block(block: tir.Block, of: Some) -> Effects:
    if of is not None:
        for match in block.match_buffers:
            of = of | {match.buffer} if match.source.buffer in of else of
    body = effects(block.body, of)
    if block.init is not None:
        reduced = [it for it in block.iter_vars if it.kind == ex.REDUCE]
        starts = all_of(ex.EQ(it.var, it.dom.start.astype(it.var.dtype)) for it in reduced)
        body = _in_turn((effects(block.init, of).each(lambda t: t.under(starts)), body))
    for match in reversed(block.match_buffers):  # a view may be of a view
        body = _in_turn([*(effects(e, of) for r in match.source.region for e in (r.start, r.extent)), body])
        body = body.each(lambda t, match=match: through_view(t, match) if t.buffer is match.buffer else t)  # type: ignore[misc]
    body = _believed(block, body).without(block.alloc_buffers)
    if block.init is None:
        return body
    shown = [t for t in body.reads if not t.opaque]
    updated = {t.buffer for t in shown} - {t.buffer for t in shown if not _is_updated(t, body.writes)}
    marked = body.each(lambda t: dataclasses.replace(t, accumulated=t.buffer in updated and not t.opaque))
    return Effects(marked.reads, body.writes, marked.expose)


def _is_updated(read: Touch, writes: Sequence[Touch]) -> bool:
    """Return whether each element that is read is also written in the same iteration of the same loops."""
    return any(w.buffer is read.buffer and _same_place(read, w) for w in writes)


def _same_place(a: Touch, b: Touch) -> bool:
    """Return whether two touches access the same element in each iteration.

    If the location depends on data, the indices must be textually equal.
    """
    if None not in a.ranges:
        return ex.structural_equal(a.ranges, b.ranges)
    if not isinstance(a.node, tir.BufferLoad) or not isinstance(b.node, tir.BufferStore):
        return False
    return ex.structural_equal(a.node.indices, b.node.indices)


def _believed(block: tir.Block, body: Effects) -> Effects:
    """Return the effects of a block. For foreign calls, the block's declared regions are used."""
    opaque = {t.buffer for part in (body.reads, body.writes) for t in part if t.opaque}
    if not opaque:
        return body

    def believed(touches: Sequence[Touch], declared: Sequence[tir.BufferRegion]) -> tuple[Touch, ...]:
        said = {r.buffer: Touch(r, r.buffer, known_ranges(r.region)) for r in declared if r.buffer in opaque}
        called = {t.buffer for t in touches if t.opaque}
        kept = [t for t in touches if not (t.opaque and t.buffer in said)]
        return (*kept, *(t for b, t in said.items() if b in called))

    return Effects(
        believed(body.reads, block.reads),
        believed(body.writes, block.writes),
        lambda: believed(body.exposed, block.reads),
    )
