"""Substitute one block into another: compute_inline, reverse_compute_inline."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .... import expr as ex
from ....arith import Analyzer
from ...analysis import block_regions
from ...analysis.bindings import covers_domain
from ...analysis.block_kinds import Scope, why_not_complete
from ...analysis.boxes import in_iterators
from ...analysis.dependences import Access, accesses, overwritten
from ...analysis.effects import effects
from ...analysis.surely import fills
from ...analysis.tree import Tree
from ...conditions import both, conjuncts, is_const
from ...nodes import Block, BlockRealize, Buffer, BufferLoad, BufferRegion, BufferStore, MatchBufferRegion, Stmt
from .. import programs as on
from ..inverse_reads import at_iterators, box_read, iteration_at, loads_of, way_back, where_read
from ..moving import broken_flow, uncovered
from ..registry import Failure, holds_inside, primitive, requirement
from ..requirements import own_iterators
from ..state import ScheduleState
from .compute_at import inputs_settled, not_output, region_cover


@requirement
def complete(state: ScheduleState, block: BlockRealize) -> Failure | None:
    """the block is complete: all its iterators are spatial, it is the only writer, it precedes all readers, and it has
    no init
    """
    reason = why_not_complete(Scope.around(state.home(block), block), block)
    return None if reason is None else Failure({block.block: "this block"}, "a complete block", reason)


@requirement
def one_store(state: ScheduleState, block: BlockRealize) -> Failure | None:
    """the body is one store, and runs in every iteration"""
    return _why_not_one_store(state.home(block), block)


def _why_not_one_store(tree: Tree, block: BlockRealize) -> Failure | None:
    body = block.block.body
    if not isinstance(body, BufferStore) or body.predicate is not None or block.block.init is not None:
        return Failure({block.block: "this block"}, "a body of one store", type(body).__name__)
    predicate = in_iterators(tree, block)
    if predicate is None or conjuncts(predicate):
        return Failure(
            {block: "this predicate"}, "a block that runs at every iteration", f"only where {block.predicate}"
        )
    return None


def _store(block: BlockRealize) -> BufferStore:
    body = block.block.body
    assert isinstance(body, BufferStore)  # one_store
    return body


@requirement
def plain_indices(state: ScheduleState, block: BlockRealize) -> Failure | None:
    """the store's indices are constants and distinct iterators, among them all iterators that the stored value uses

    No other element of the buffer is ever written. Therefore every read has the same constants as indices, and its
    other indices determine the value.
    """
    store = _store(block)
    seen: list[ex.Var] = []
    iterators = {it.var for it in block.block.iter_vars}
    for index in store.indices:
        if isinstance(index, ex.IntImm):
            continue
        if not isinstance(index, ex.Var) or index not in iterators or any(index is v for v in seen):
            written = f"{store.buffer.name}[{', '.join(map(str, store.indices))}]"
            return Failure({store: "here"}, "distinct iterators or constants as indices", written)
        seen.append(index)
    used = {v for v in ex.free_vars(store.value) if v in iterators}
    if used - set(seen):
        return Failure(
            {store: "here"},
            "a value that follows from the indices",
            f"it uses {', '.join(v.name for v in used - set(seen))}",
        )
    return None


visible_loads = holds_inside(
    "visible_loads", "consumers read the buffer by plain loads only, not as a matched or opaque region"
)


@primitive(
    aka={"Halide": "inline (the default)", "Exo": "inline"},
    past="was inlined",
    requires=[own_iterators, complete, one_store, plain_indices, not_output, inputs_settled],
)
def compute_inline(state: ScheduleState, block: BlockRealize) -> None:
    """Compute a producer's value wherever it is read, instead of storing it.

    before:
        B = T.alloc_buffer((8,))
        for i in range(8):
            with T.block("B"): B[vi] = A[vi] * 2.0
        for i in range(8):
            with T.block("C"): C[vi] = B[vi] + 1.0
    call: `sch.compute_inline("B")`
    after:
        for i in range(8):
            with T.block("C"): C[vi] = A[vi] * 2.0 + 1.0

    A block whose result is never read is removed.
    """
    tree = state.home(block)
    scope = Scope.around(tree, block)
    store = _store(block)
    analyzer = Analyzer()

    def inlined(load: BufferLoad) -> ex.Expr:
        # An index may be loaded from memory, with another dtype.
        pairs = zip(store.indices, load.indices, strict=True)
        places = {v: ex.as_expr(i).astype(v.dtype) for v, i in pairs if isinstance(v, ex.Var)}
        value: ex.Expr = ex.substitute(store.value, places)
        return value

    consumers = scope.consumers(block)
    _refuse_loads_between(tree, scope, consumers, store.buffer)
    changes: dict[Stmt, Stmt | None] = {block: None}
    for consumer in consumers:
        new = _with_loads(consumer.block, store.buffer, inlined, analyzer)
        if _mentions(new, store.buffer):
            raise visible_loads.refuse(
                Failure(
                    {consumer.block: "this consumer"},
                    f"plain loads of {store.buffer.name}",
                    "it passes the buffer on as a region",
                )
            )
        changes[consumer] = _with_control(ex.replace(consumer, block=new), store.buffer, inlined)
    _apply(state, tree, changes, scope, store.buffer)
    for consumer in consumers:
        _check_flow(state, consumer)


compute_inline.refuses(own_iterators, "sch.compute_inline('B')", on.LOOP_IN_THE_BODY)
compute_inline.refuses(complete, "sch.compute_inline('C')", on.MATMUL)
compute_inline.refuses(one_store, "sch.compute_inline('outer')", on.NESTED)
compute_inline.refuses(plain_indices, "sch.compute_inline('B')", on.SPARSE)
compute_inline.refuses(not_output, "sch.compute_inline('D')", on.CHAIN)
compute_inline.refuses(inputs_settled, "sch.compute_inline('B')", on.OVERWRITTEN)


def _apply(state: ScheduleState, tree: Tree, changes: dict[Stmt, Stmt | None], scope: Scope, gone: Buffer) -> None:
    state.set_func(tree, tree.rebuild(changes))
    realize = state.block(scope.realize.block.id)
    assert realize is not None  # the scope itself stays
    kept = tuple(b for b in realize.block.alloc_buffers if b is not gone)
    state.replace({realize.block: ex.replace(realize.block, alloc_buffers=kept)})


def _check_flow(state: ScheduleState, block: BlockRealize) -> None:
    now = state.block(block.block.id)
    assert now is not None  # it was rewritten, not removed
    failure = broken_flow(state, state.home(now), now)
    if failure is not None:
        raise region_cover.refuse(failure)


def _with_loads(block: Block, buffer: Buffer, value: Any, analyzer: Analyzer) -> Block:
    """Replace each load of `buffer` in a block with `value(load)`, and update the declared regions of this block and of
    the blocks inside it.
    """
    readers = {node.id for node in ex.find(block, Block) if buffer in block_regions.buffers_read(node)}

    def change(node: ex.Node) -> ex.Node | None:
        if isinstance(node, BufferLoad) and node.buffer is buffer:
            replacement: ex.Node = value(node)
            return replacement
        if isinstance(node, Block) and node.id in readers:
            order = [touch.buffer for touch in effects(node).reads]  # in which the body reads them now
            reads = sorted(block_regions.regions_read(node), key=lambda r: order.index(r.buffer))
            return ex.replace(node, reads=_simplified(reads, node, analyzer))
        return None

    changed: Block = ex.rewrite(block, change)
    return changed


def _simplified(regions: Sequence[BufferRegion], block: Block, analyzer: Analyzer) -> tuple[BufferRegion, ...]:
    for it in block.iter_vars:
        if not is_const(it.dom.extent, 1):  # an iterator with one value stays in the indices
            analyzer.bind(it)
    return tuple(BufferRegion(r.buffer, tuple(analyzer.simplify(d) for d in r.region)) for r in regions)


def _with_control(realize: BlockRealize, buffer: Buffer, value: Callable[[BufferLoad], ex.Expr]) -> BlockRealize:
    """Replace each load of `buffer` in the bindings and the predicate of a block realization with `value(load)`."""

    def change(node: ex.Node) -> ex.Node | None:
        return value(node) if isinstance(node, BufferLoad) and node.buffer is buffer else None

    values = tuple(ex.rewrite(v, change) for v in realize.iter_values)
    return ex.replace(realize, iter_values=values, predicate=ex.rewrite(realize.predicate, change))


def _refuse_loads_between(tree: Tree, scope: Scope, consumers: Sequence[BlockRealize], buffer: Buffer) -> None:
    """Raise `Refused` if the buffer is read in a statement outside of blocks and their predicates and bindings."""
    for access in accesses(tree, scope.realize.block.body):
        if access.buffer is buffer and not isinstance(access.spot, BufferRegion) and access.stmt not in consumers:
            fault = f"{buffer.name} in a statement between blocks"
            raise visible_loads.refuse(
                Failure({access.spot: "here"}, f"{buffer.name} read in blocks and their predicates only", fault)
            )


def _mentions(node: ex.Node, buffer: Buffer) -> bool:
    return any(
        (part.source.buffer if isinstance(part, MatchBufferRegion) else part.buffer) is buffer
        for part in ex.find(node, BufferLoad | BufferRegion | BufferStore | MatchBufferRegion)
    )


@dataclass(frozen=True)
class Merge:
    """The producer into which a consumer may be substituted, and the region and the loads through which the consumer
    reads the producer's result.
    """

    tree: Tree
    scope: Scope
    producer: BlockRealize
    read: BufferRegion
    loads: list[BufferLoad]

    @property
    def buffer(self) -> Buffer:
        return self.read.buffer


def _merge(state: ScheduleState, block: BlockRealize) -> Merge | None:
    tree = state.home(block)
    scope = Scope.around(tree, block)
    for read in block_regions.regions_read(block.block):
        writers = [b for b in scope.writers(read.buffer) if b is not block]
        if len(writers) == 1 and read.buffer in scope.allocated and scope.readers(read.buffer) == [block]:
            if (
                why_not_complete(scope, writers[0]) is None
                and len(block_regions.buffers_written(writers[0].block)) == 1
            ):
                return Merge(tree, scope, writers[0], read, loads_of(block, read.buffer))
    return None


@requirement
def one_producer(state: ScheduleState, block: BlockRealize, match: Merge | None) -> Failure | None:
    """the block is the only reader of a buffer that is allocated in the scope and written by one complete block"""
    if match is not None:
        return None
    scope = Scope.around(state.home(block), block)
    producers = scope.producers(block)
    reasons = [
        (p.block.name, why_not_complete(scope, p) or "is read elsewhere, or writes an output") for p in producers
    ]
    fault = ", ".join(f"{name}: {reason}" for name, reason in reasons)
    return Failure(
        {block.block: "this block"}, "a complete producer that only this block reads", fault or "no producer"
    )


@requirement
def producer_is_one_store(state: ScheduleState, match: Merge) -> Failure | None:
    """the producer's body is one store, which writes each element of its buffer"""
    producer = match.producer
    failure = _why_not_one_store(match.tree, producer)
    if failure is not None:
        return failure
    reason = fills(match.tree, producer, block_regions.regions_written(producer.block)[0], None)
    return None if reason is None else Failure({producer.block: "this producer"}, "every element written", reason)


@requirement
def reads_its_own_point(state: ScheduleState, block: BlockRealize, match: Merge) -> Failure | None:
    """all loads of the producer's buffer have the same indices

    The indices are either distinct iterators, among them all iterators with more than one value, or an injective
    quasi-affine map of the iterators whose inverse is known.
    """
    buffer, loads = match.buffer, match.loads
    for load in loads:
        if not ex.structural_equal(load.indices, loads[0].indices):
            return Failure({load: "this load"}, "one point", f"{loads[0]} and {load}")
    if loads and not at_iterators(loads[0]):
        back = way_back(block.block, loads[0])
        if not isinstance(back, str):
            return None
        expected = "distinct iterators as indices, or an injective map of the iterators"
        return Failure({loads[0]: "this load"}, expected, f"{loads[0]}: {back}")
    analyzer = Analyzer()
    for it in block.block.iter_vars:
        used = bool(loads) and any(it.var is i for i in loads[0].indices)
        if not used and not analyzer.can_prove(it.dom.extent <= 1):
            return Failure(
                {block.block: "this block"}, f"an index of {buffer.name} for every iterator", f"{it.var.name} is none"
            )
    return None


@requirement
def stays_in_the_buffer(state: ScheduleState, block: BlockRealize, match: Merge) -> Failure | None:
    """the iterators that index the producer's buffer stay inside its shape

    An iteration outside the shape, whose load is guarded, would have no corresponding iteration of the producer.
    """
    buffer, load = match.buffer, match.loads[0]
    analyzer = Analyzer()
    for index, dom, dim in zip(load.indices, box_read(block, load), buffer.shape, strict=True):
        if dom.start is index:  # the iterator of a block around both
            continue
        if analyzer.can_prove(dom.start >= 0) and analyzer.can_prove(dom.start + dom.extent <= dim):
            continue
        return Failure(
            {block.block: "this block"},
            f"iterations inside of {buffer.name}: {index} in [0, {dim})",
            f"{index} runs over [{dom.start}, {analyzer.simplify(dom.start + dom.extent)})",
            (f"compute_inline({match.producer.block.name})",),
        )
    return None


@requirement
def other_inputs_ready(state: ScheduleState, block: BlockRealize, match: Merge) -> Failure | None:
    """the block's other inputs are final before the producer runs, because the merged block reads them at that time"""
    producer, scope = match.producer, match.scope
    for other in scope.producers(block):
        if other is not producer and not scope.before(other, producer):
            return Failure(
                {other.block: "writes what it reads", producer.block: "comes earlier"},
                f"the other inputs of {block.block.name} written before {producer.block.name}",
                other.block.name,
            )
        if other is not producer and _changes(state, other, match, block):
            return Failure(
                {other.block: "writes what it reads", producer.block: "here it will be read"},
                f"the other inputs of {block.block.name} written before {producer.block.name} only",
                f"{other.block.name} may write them again, in a later iteration",
            )
    return None


def _changes(state: ScheduleState, other: BlockRealize, match: Merge, block: BlockRealize) -> bool:
    """Return whether the block may see different inputs if it runs in its producer's place, because the writer of an
    input shares a loop with the producer.
    """
    tree, producer = match.tree, match.producer
    loops = [l for l in tree.loops_above(other) if tree.inside(producer, l)]
    if not loops:
        return False
    stored = [a for a in accesses(tree, producer) if a.is_write]
    if tree.inside(block, loops[-1]) and uncovered(state, tree, producer, block) is None:
        if not overwritten(stored, stored, loops):
            return False  # each element is stored, and read, in one iteration
    written = [a for a in accesses(tree, other) if a.is_write]
    values = iteration_at(block, match.loads[0], _store(producer).indices)
    bindings = dict(zip((it.var for it in producer.block.iter_vars), producer.iter_values, strict=True))
    around = tuple(tree.all_loops_above(producer))
    others = [
        ex.substitute(ex.substitute(r, values), bindings)
        for r in block_regions.regions_read(block.block)
        if r.buffer is not match.buffer
    ]
    moved = [Access(producer, r.buffer, r.region, False, around, r) for r in others]
    own = [a for a in accesses(tree, block) if not a.is_write]
    return overwritten(moved, written, loops) or overwritten(own, written, [l for l in loops if tree.inside(block, l)])


@requirement
def runs_everywhere(state: ScheduleState, block: BlockRealize) -> Failure | None:
    """the block's loops cover its whole domain, because it will run wherever the producer runs in this domain"""
    tree = state.home(block)
    decides = tree.condition_above(block, None)
    if decides is not None:
        return Failure({decides: "around the block"}, "only loops around the block", f"only where {decides.condition}")
    if not block.block.iter_vars or covers_domain(block, tree.loops_above(block), state.analyzer(block)):
        return None
    values = ", ".join(f"{it.var.name} = {v}" for it, v in zip(block.block.iter_vars, block.iter_values, strict=True))
    return Failure({block.block: "its bindings"}, "bindings that reach every point of the domain", values)


@primitive(
    past="was inlined",
    requires=[
        own_iterators, complete, one_store, one_producer, producer_is_one_store, reads_its_own_point, runs_everywhere,
        stays_in_the_buffer, other_inputs_ready,
    ],
    match=_merge,
)  # fmt: skip
def reverse_compute_inline(state: ScheduleState, match: Merge, block: BlockRealize) -> None:
    """Compute a consumer inside its only producer, which then stores the consumer's value instead of its own.

    before:
        B = T.alloc_buffer((8,))
        for i in range(8):
            with T.block("B"): B[vi] = A[vi] * 2.0
        for i in range(8):
            with T.block("C"): C[vi] = B[vi] + 1.0
    call: `sch.reverse_compute_inline("C")`
    after:
        for i in range(8):
            with T.block("B"): C[vi] = A[vi] * 2.0 + 1.0
    """
    producer, buffer, load = match.producer, match.buffer, match.loads[0]
    inner, outer = _store(producer), _store(block)
    values = iteration_at(block, load, inner.indices)
    body = _replaced(outer, buffer, inner.value, values)
    merged = block_regions.with_declared_regions(ex.replace(producer.block, body=body))
    predicate = where_read(block, load, producer, inner.indices)
    bindings = dict(zip((it.var for it in producer.block.iter_vars), producer.iter_values, strict=True))
    realize = ex.replace(producer, block=merged, predicate=both(producer.predicate, ex.substitute(predicate, bindings)))
    _apply(state, match.tree, {block: None, producer: realize}, match.scope, buffer)
    _check_flow(state, realize)


_LATE_INPUT = """
def late_input(A: T.Buffer((8,)), D: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    C = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"): B[vi] = A[vi] * 2.0
    for i in range(8):
        with T.block("C"): C[vi] = A[vi] + 1.0
    for i in range(8):
        with T.block("D"): D[vi] = B[vi] + C[vi]
"""
_DOUBLED_ROWS = """
B = T.alloc_buffer((8,))
for i in range(8):
    with T.block("B"): B[vi] = A[vi] * 2.0
for i in range(8):
    with T.block("C"): C[vi] = B[vi // 2]
"""
_PARTLY_READ = """
A: T.Buffer((8,))
C: T.Buffer((8,))
B = T.alloc_buffer((8,))
for i in range(8):
    with T.block("B"): B[vi] = A[vi] * 2.0
for i in range(4):
    with T.block("C"):
        vi = T.axis.spatial(8, i + 2)
        C[vi] = B[vi]
"""
_READ_BEYOND = """
B = T.alloc_buffer((4,))
for i in range(4):
    with T.block("B"): B[vi] = A[vi]
for i in range(6):
    with T.block("C"): C[vi] = T.if_then_else(vi < 4, B[vi], 0.0)
"""
reverse_compute_inline.refuses(own_iterators, "sch.reverse_compute_inline('C')", on.LOOP_IN_THE_BODY)
reverse_compute_inline.refuses(complete, "sch.reverse_compute_inline('C')", on.MATMUL)
reverse_compute_inline.refuses(one_store, "sch.reverse_compute_inline('outer')", on.NESTED)
reverse_compute_inline.refuses(one_producer, "sch.reverse_compute_inline('C')", on.TWO_CONSUMERS)
reverse_compute_inline.refuses(producer_is_one_store, "sch.reverse_compute_inline('C')", on.SPARSE)
reverse_compute_inline.refuses(reads_its_own_point, "sch.reverse_compute_inline('C')", _DOUBLED_ROWS)
reverse_compute_inline.refuses(runs_everywhere, "sch.reverse_compute_inline('C')", _PARTLY_READ)
reverse_compute_inline.refuses(stays_in_the_buffer, "sch.reverse_compute_inline('C')", _READ_BEYOND)
reverse_compute_inline.refuses(other_inputs_ready, "sch.reverse_compute_inline('D')", _LATE_INPUT)


def _replaced(store: BufferStore, buffer: Buffer, value: ex.Expr, values: Mapping[ex.Var, ex.Expr]) -> BufferStore:
    def change(node: ex.Node) -> ex.Node | None:
        return value if isinstance(node, BufferLoad) and node.buffer is buffer else None

    # First replace the block's own iterators, then the load by the producer's value, which uses the producer's
    # iterators.
    moved = ex.substitute(store, values)
    result: BufferStore = ex.rewrite(moved, change)
    return result


def _each_block(state: ScheduleState) -> Iterator[tuple[Any, ...]]:
    tree = state.tree()
    return ((block,) for block in tree.blocks.values() if block is not tree.root)


compute_inline.space(_each_block)
reverse_compute_inline.space(_each_block)
