"""Move a block below another loop: compute_at, reverse_compute_at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ....arith import Analyzer, regions
from ....expr import OPAQUE, REDUCE, SPATIAL
from ...analysis.bindings import covers_domain, loops_binding, why_not_injective, why_not_started_first
from ...analysis.block_kinds import Scope, why_neither
from ...analysis.block_regions import buffers_written, regions_read, regions_written
from ...analysis.boxes import Box, hull, in_iterators, relax, touched
from ...analysis.dependences import accesses, commute, conflicting_pairs, overwritten
from ...analysis.surely import fills
from ...analysis.tree import Tree
from ...nodes import BlockRealize, BufferRegion, For, ForKind, Seq
from .. import programs as on
from .. import requirements as req
from ..insertion import refuse_races
from ..moving import box_text, broken_flow, insert, iterator_ranges, nest_for, ranges_in, reads, uncovered, written
from ..registry import Failure, holds_inside, primitive, requirement
from ..reruns import why_other_iterations, writes_once
from ..state import ScheduleState
from ..thread_storage import sharing_threads


@dataclass(frozen=True)
class Flow:
    """The surroundings of a block that is to be moved: its function and scope, the readers of its results (consumers),
    and the writers of its inputs (producers).
    """

    tree: Tree
    scope: Scope
    consumers: list[BlockRealize]
    producers: list[BlockRealize]


def _flow(state: ScheduleState, block: BlockRealize) -> Flow:
    tree = state.home(block)
    scope = Scope.around(tree, block)
    return Flow(tree, scope, scope.consumers(block), scope.producers(block))


@requirement
def same_scope(state: ScheduleState, block: BlockRealize, loop: For) -> Failure | None:
    """the block and the loop are in the same block"""
    tree = state.home(block)
    if loop in tree.order and tree.scope(block) is tree.scope(loop):
        return None
    return Failure(
        {block.block: "this block", loop: "this loop"},
        "a block and a loop of one scope",
        f"{loop.var.name} is inside another block",
    )


@requirement
def loop_not_around(state: ScheduleState, block: BlockRealize, loop: For) -> Failure | None:
    """the loop is not already around the block"""
    if not state.home(block).inside(block, loop):
        return None
    return Failure(
        {loop: "this loop", block.block: "is inside it"},
        "a loop that is not around the block yet",
        f"{block.block.name} is inside {loop.var.name}",
    )


@requirement
def only_loops_around(state: ScheduleState, block: BlockRealize, loop: For) -> Failure | None:
    """between the block (or the loop) and their scope there are only loops, and no conditions"""
    tree = state.home(block)
    for start in (block, loop):
        for outer in tree.above(start):
            if isinstance(outer, BlockRealize):
                break
            if outer is not tree.scope(block).block and not isinstance(outer, For | Seq):
                return Failure(
                    {outer: "this statement"},
                    "only loops around the block and the loop",
                    f"{type(outer).__name__} around {block.block.name}",
                )
    return None


@requirement
def complete_or_reduction(state: ScheduleState, block: BlockRealize) -> Failure | None:
    """the block is complete or a reduction, so it can run again and then computes the same values"""
    reason = why_neither(Scope.around(state.home(block), block), block)
    return None if reason is None else Failure({block.block: "this block"}, "a complete or a reduction block", reason)


@requirement
def not_output(state: ScheduleState, block: BlockRealize) -> Failure | None:
    """the block writes only buffers that are allocated in its scope"""
    scope = Scope.around(state.home(block), block)
    if not scope.is_output(block):
        return None
    names = ", ".join(r.buffer.name for r in regions_written(block.block) if r.buffer not in scope.allocated)
    return Failure(
        {block.block: "this block"},
        "a block that writes only buffers allocated in its scope",
        f"{names} is seen outside",
        ("reverse_compute_at on it", "cache_write first"),
    )


@requirement
def consumers_below(block: BlockRealize, loop: For, match: Flow) -> Failure | None:
    """there are consumers, and all of them are below the loop"""
    if not match.consumers:
        return Failure({block.block: "this block"}, "a block that others read", "no consumer")
    for consumer in match.consumers:
        if not match.tree.inside(consumer, loop):
            return Failure(
                {loop: "this loop", consumer.block: "is not below it"},
                f"all consumers of {block.block.name} below {loop.var.name}",
                f"{consumer.block.name} is elsewhere",
            )
    return None


@requirement
def inputs_settled(state: ScheduleState, block: BlockRealize) -> Failure | None:
    """the block's inputs are written before it and do not change later, so it reads the same values at its new place"""
    scope = Scope.around(state.home(block), block)
    for producer in scope.producers(block):
        if not scope.before(producer, block):
            return Failure(
                {block.block: "reads", producer.block: "writes later"},
                "inputs that are written before only",
                f"{producer.block.name} writes an input of {block.block.name} after it",
            )
        if loops_binding(producer, OPAQUE):
            return Failure(
                {producer.block: "has opaque iterators"},
                "producers with spatial and reduction iterators",
                producer.block.name,
            )
        if _changes(state, producer, block):
            return Failure(
                {block.block: "reads", producer.block: "writes in each iteration"},
                "inputs that are written before only",
                f"{producer.block.name} may write what {block.block.name} reads again, in a later iteration",
            )
    return None


def _changes(state: ScheduleState, producer: BlockRealize, block: BlockRealize) -> bool:
    """Return whether a consumer that recomputes the block may see different inputs than the block did.

    This can happen if a loop around the block and the producer has moved on, and the producer has overwritten its
    result.
    """
    tree = state.home(block)
    loops = [l for l in tree.loops_above(producer) if tree.inside(block, l)]
    if not loops or not any(r.buffer is w.buffer for r in reads(tree, block) for w in regions_written(producer.block)):
        return False
    consumers = Scope.around(tree, block).consumers(block)
    if tree.condition_above(block, loops[-1]) is None and all(
        tree.inside(c, loops[-1]) and uncovered(state, tree, block, c) is None for c in consumers
    ):
        return False  # all of it happens in one iteration
    own = [a for a in accesses(tree, block) if not a.is_write]
    return overwritten(own, [a for a in accesses(tree, producer) if a.is_write], loops)


@requirement
def producers_done(block: BlockRealize, loop: For, match: Flow) -> Failure | None:
    """there are producers below the loop, and all other producers come before it

    No producer below the loop reduces over the loop or over a loop around it.
    """
    tree, scope, producers = match.tree, match.scope, match.producers
    below = [p for p in producers if tree.inside(p, loop)]
    if not below:
        return Failure(
            {loop: "this loop", block.block: "this block"},
            f"a producer of {block.block.name} below the loop",
            f"none below {loop.var.name}",
        )
    around = {l.var: l for l in (*tree.loops_above(loop), loop)}
    for producer in producers:
        if producer not in below and not scope.before(producer, loop):
            return Failure(
                {producer.block: "this producer", loop: "this loop"},
                "every producer below the loop or before it",
                f"{producer.block.name} comes after {loop.var.name}",
            )
    for producer in below:
        reduced = loops_binding(producer, (REDUCE, OPAQUE)) & around.keys()
        if reduced:
            var = next(iter(reduced))
            return Failure(
                {around[var]: "this loop", producer.block: "reduces over it"},
                f"{producer.block.name} finished within one iteration of {loop.var.name}",
                f"it goes on in the next iteration of {var.name}",
                ("reorder the reduction loops inward",),
            )
    return None


@requirement
def producers_fill(block: BlockRealize, loop: For, match: Flow) -> Failure | None:
    """the producers below the loop fill their buffers, so for each iteration of the block there is a loop iteration in
    which its inputs are ready"""
    tree, read = match.tree, match.scope.read(block)
    for producer in match.producers:
        for region in regions_written(producer.block):
            reason = (
                fills(tree, producer, region, None) if region.buffer in read and tree.inside(producer, loop) else None
            )
            if reason is not None:
                return Failure(
                    {producer.block: "this producer"}, f"every element of {region.buffer.name} written", reason
                )
    return None


known_predicate = holds_inside("known_predicate", "the block's predicate can be expressed in terms of its iterators")
free_position = holds_inside(
    "free_position", "the loop's body has a position after the producers and before the consumers"
)
region_cover = holds_inside(
    "region_cover",
    """in each iteration of the loops that a producer and its consumer share, the consumer reads only elements that the
    producer has written in the same iteration""",
)
covers_own_domain = holds_inside(
    "covers_own_domain", "every iteration of the block still runs in some iteration of the loop"
)
same_iterations = holds_inside(
    "same_iterations",
    """the block runs the same iterations at its new place, with the same result: the old bindings take all values of a
    box that contains the new iterations; each point of a reduction runs once, and the first point of its domain runs
    first; and if several iterations write one element, their order stays the same""",
)


@primitive(
    aka={"Halide": "compute_at", "Exo": "fuse"},
    requires=[
        same_scope, loop_not_around, only_loops_around, req.own_iterators, complete_or_reduction, not_output,
        consumers_below, inputs_settled,
    ],
    match=_flow,
)  # fmt: skip
def compute_at(
    state: ScheduleState,
    match: Flow,
    block: BlockRealize,
    loop: For,
    preserve_unit_loops: bool = False,
    index: int = -1,
) -> None:
    """Compute a producer below a loop of its consumers: each iteration computes the elements that it needs.

    before:
        B = T.alloc_buffer((8, 8))
        for i, j in T.grid(8, 8):
            with T.block("B"): B[vi, vj] = A[vi, vj] * 2.0
        for x, y in T.grid(8, 8):
            with T.block("C"): C[vx, vy] = B[vx, vy] + 1.0
    call: `sch.compute_at("B", x)`
    after:
        B = T.alloc_buffer((8, 8))
        for x in range(8):
            for ax0 in range(8):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [x, ax0])
                    B[vi, vj] = A[vi, vj] * 2.0
            for y in range(8):
                with T.block("C"): C[vx, vy] = B[vx, vy] + 1.0

    If the parts that consumers read overlap (a halo), some elements are computed more than once. A buffer in "shared"
    storage is computed for all threads of the block; bind the new loops to threadIdx to share the work among the
    threads. `index` is the position in the loop's body: -1 is the last possible position, and -2 the first.
    """
    tree, analyzer = match.tree, state.analyzer(loop)
    needed = []
    for write in regions_written(block.block):
        threads = sharing_threads(tree, loop, write.buffer)
        boxes = [
            relax(touched(tree, c, read, loop, analyzer), threads, analyzer, write.buffer)
            for c in match.consumers
            for read in reads(tree, c)
            if read.buffer is write.buffer
        ]
        if boxes:
            needed.append((write, hull(boxes, analyzer)))
    _move(state, match, block, loop, needed, preserve_unit_loops, index)


_GUARDED = """
n: T.int32
B = T.alloc_buffer((8,))
if n > 3:
    for i in range(8):
        with T.block("B"): B[vi] = A[vi] * 2.0
for i in range(8):
    with T.block("C"): C[vi] = B[vi]
"""
compute_at.refuses(same_scope, "sch.compute_at('outer', j)", on.NESTED)
compute_at.refuses(loop_not_around, "sch.compute_at('C', i)", on.MATMUL)
compute_at.refuses(only_loops_around, "sch.compute_at('B', sch.get_loops('C')[0])", _GUARDED)
compute_at.refuses(req.own_iterators, "sch.compute_at('B', sch.get_loops('C')[0])", on.LOOP_IN_THE_BODY)
compute_at.refuses(complete_or_reduction, "sch.compute_at('B', sch.get_loops('C')[0])", on.WRITTEN_TWICE)
compute_at.refuses(not_output, "sch.compute_at('D', sch.get_loops('C')[0])", on.CHAIN)
compute_at.refuses(consumers_below, "sch.compute_at('B', sch.get_loops('C')[0])", on.TWO_CONSUMERS)
compute_at.refuses(inputs_settled, "sch.compute_at('B', sch.get_loops('C')[0])", on.OVERWRITTEN)


@primitive(
    aka={"Exo": "fuse"},
    requires=[
        same_scope, loop_not_around, only_loops_around, req.own_iterators, complete_or_reduction, inputs_settled,
        producers_done, producers_fill,
    ],
    match=_flow,
)  # fmt: skip
def reverse_compute_at(
    state: ScheduleState,
    match: Flow,
    block: BlockRealize,
    loop: For,
    preserve_unit_loops: bool = False,
    index: int = -1,
) -> None:
    """Compute a consumer below a loop of its producers: an iteration computes each element whose inputs are ready.

    before:
        B = T.alloc_buffer((8, 8))
        for i, j in T.grid(8, 8):
            with T.block("B"): B[vi, vj] = A[vi, vj] * 2.0
        for x, y in T.grid(8, 8):
            with T.block("C"): C[vx, vy] = B[vx, vy] + 1.0
    call: `sch.reverse_compute_at("C", i)`
    after:
        B = T.alloc_buffer((8, 8))
        for i in range(8):
            for j in range(8):
                with T.block("B"): B[vi, vj] = A[vi, vj] * 2.0
            for ax0 in range(8):
                with T.block("C"):
                    vx, vy = T.axis.remap("SS", [i, ax0])
                    C[vx, vy] = B[vx, vy] + 1.0
    """
    tree, analyzer = match.tree, state.analyzer(loop)
    needed: list[tuple[BufferRegion, Box]] = []
    for producer in match.producers:
        if not tree.inside(producer, loop):
            continue
        for read in regions_read(block.block):
            for write in regions_written(producer.block):
                if write.buffer is read.buffer and not any(r is read for r, _ in needed):
                    _check_reach(tree, block, read, producer, write)
                    needed.append((read, written(tree, producer, write, loop, analyzer)))
    splits_sums = block.block.init is not None and _in_any_order(tree, block)
    _move(state, match, block, loop, needed, preserve_unit_loops, index, splits_sums)


reverse_compute_at.refuses(same_scope, "sch.reverse_compute_at('outer', j)", on.NESTED)
reverse_compute_at.refuses(loop_not_around, "sch.reverse_compute_at('C', i)", on.MATMUL)
reverse_compute_at.refuses(only_loops_around, "sch.reverse_compute_at('B', sch.get_loops('C')[0])", _GUARDED)
reverse_compute_at.refuses(req.own_iterators, "sch.reverse_compute_at('C', sch.get_loops('B')[0])", on.LOOP_IN_THE_BODY)
reverse_compute_at.refuses(
    complete_or_reduction, "sch.reverse_compute_at('B', sch.get_loops('C')[0])", on.WRITTEN_TWICE
)
reverse_compute_at.refuses(inputs_settled, "sch.reverse_compute_at('B', sch.get_loops('C')[0])", on.OVERWRITTEN)
reverse_compute_at.refuses(
    producers_done, "sch.cache_write('C', 0, 'local'); sch.reverse_compute_at('C_local', k)", on.MATMUL
)
reverse_compute_at.refuses(producers_fill, "sch.reverse_compute_at('C', sch.get_loops('B')[0])", on.SPARSE)
reverse_compute_at.refuses(region_cover, "sch.reverse_compute_at('C', sch.get_loops('B')[0])", on.CHAIN)


def _in_any_order(tree: Tree, block: BlockRealize) -> bool:
    """Return whether the terms of a block's sums may be added in any order."""
    written = set(buffers_written(block.block))
    own = [access for access in accesses(tree, block) if access.buffer in written]
    return all(commute(a, b) for a, b in conflicting_pairs(own))


def _refuse_partial_sums(state: ScheduleState, tree: Tree, moved: BlockRealize, loop: For) -> None:
    """Raise `Refused` if a moved reduction is split by a loop around it and the parts do not add up to the whole sum.

    Each iteration of the loop may add some of the terms. That is legal only if together they add each term exactly once
    and start with the first term, and if no consumer reads in between.
    """
    loops, analyzer = tree.loops_above(moved), state.analyzer(moved)
    last = next(k for k, outer in enumerate(loops) if outer.var is loop.var)
    reduced = loops_binding(moved, (REDUCE,))
    first = next((k for k, outer in enumerate(loops[: last + 1]) if outer.var in reduced), None)
    if first is None:
        return
    reason = why_not_injective(moved, loops[first:], analyzer) or why_not_started_first(moved, loops, analyzer)
    if reason is None and not covers_domain(moved, loops, analyzer):
        reason = f"the loops do not reach every iteration of block {moved.block.name}"
    if reason is None and any(tree.inside(c, loops[first]) for c in Scope.around(tree, moved).consumers(moved)):
        reason = f"a consumer inside {loops[first].var.name} reads what is not complete yet"
    if reason is not None:
        expected = f"each term of {moved.block.name} added once before anything reads the sum"
        raise same_iterations.refuse(Failure({moved.block: "its bindings"}, expected, reason))


def _check_reach(
    tree: Tree, block: BlockRealize, read: BufferRegion, producer: BlockRealize, write: BufferRegion
) -> None:
    # An iteration runs where its inputs are produced. An iteration that reads outside of the produced elements (under a
    # condition) would not run at all.
    analyzer = Analyzer()
    loops = [For(it.var, it.dom.start, it.dom.extent, ForKind.SERIAL, block) for it in block.block.iter_vars]
    reached = relax(read.region, loops, analyzer, read.buffer)
    produced = touched(tree, producer, write, None, analyzer)
    if not regions.covers(produced, reached, analyzer):
        raise covers_own_domain.refuse(
            Failure(
                {block.block: "reads", producer.block: "writes"},
                f"all of what {block.block.name} reads written below the loop",
                f"{box_text(read.buffer, reached)} is read, {box_text(read.buffer, produced)} is written",
            )
        )


def _move(
    state: ScheduleState,
    flow: Flow,
    block: BlockRealize,
    loop: For,
    needed: list[tuple[BufferRegion, Box]],
    preserve_unit_loops: bool,
    index: int,
    splits_sums: bool = False,
) -> None:
    tree = flow.tree
    predicate = in_iterators(tree, block)
    if predicate is None:
        raise known_predicate.refuse(
            Failure({block.block: "this block"}, "a predicate over the block's iterators", str(block.predicate))
        )
    analyzer = state.analyzer(loop)
    shared = [l for l in tree.loops_above(block) if tree.inside(loop, l)]
    kinds = (SPATIAL, REDUCE) if splits_sums else (SPATIAL,)
    ranges = {**ranges_in(shared, tree, block), **iterator_ranges(block, needed, analyzer, kinds)}
    reason = why_other_iterations(tree, block, ranges, analyzer) or _why_left_over(state, flow, block, shared)
    if reason is not None:
        expected = f"bindings of {block.block.name} that run through what will run at {loop.var.name}"
        raise same_iterations.refuse(Failure({block.block: "its bindings"}, expected, reason))
    nest = nest_for(block, ranges, predicate, analyzer, preserve_unit_loops)
    placed = insert(tree, loop, nest, flow.producers, flow.consumers, index)
    if isinstance(placed, str):
        raise free_position.refuse(
            Failure({loop: "this loop"}, "a place after the producers and before the consumers", placed)
        )
    state.set_func(tree, tree.rebuild({block: None, loop: placed}))
    moved = state.block(block.block.id)
    assert moved is not None  # it was just put there
    new_tree = state.home(moved)
    if splits_sums:
        _refuse_partial_sums(state, new_tree, moved, loop)
    failure = broken_flow(state, new_tree, moved)
    if failure is not None:
        raise region_cover.refuse(failure)
    refuse_races(state, moved)


def _why_left_over(state: ScheduleState, flow: Flow, block: BlockRealize, shared: Sequence[For]) -> str | None:
    """Return None if each consumer reads only elements that the block writes in the same iteration of `shared`.

    Otherwise return a message that gives the reason. A block that writes each element only once is always fine, because
    it writes the same value in any iteration.
    """
    if not shared or writes_once(block):
        return None
    failures = (uncovered(state, flow.tree, block, consumer) for consumer in flow.consumers)
    return next((failure.found for failure in failures if failure is not None), None)


@compute_at.space
def _compute_at_space(state: ScheduleState) -> Iterator[tuple[Any, ...]]:
    tree = state.tree()
    for block in tree.blocks.values():
        if block is not tree.root:
            for consumer in Scope.around(tree, block).consumers(block):
                for loop in tree.loops_above(consumer):
                    yield block, loop


@reverse_compute_at.space
def _reverse_compute_at_space(state: ScheduleState) -> Iterator[tuple[Any, ...]]:
    tree = state.tree()
    for block in tree.blocks.values():
        if block is not tree.root:
            for producer in Scope.around(tree, block).producers(block):
                for loop in tree.loops_above(producer):
                    yield block, loop
