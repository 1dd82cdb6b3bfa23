"""rfactor: split a reduction into two steps, the first of which computes partial results along one of its loops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .... import expr as ex
from ....arith import Analyzer
from ... import nodes as tir
from ...analysis.bindings import loops_binding, why_not_injective, why_not_started_first
from ...analysis.block_kinds import Scope, why_not_reduction
from ...analysis.block_regions import buffers_written, regions_touched, regions_written, with_declared_regions
from ...analysis.reducers import ReducerMatch
from ...analysis.tree import Tree
from ...analysis.updates import Update, recognised
from ...conditions import all_of, conjuncts, is_const, uses
from .. import programs as on
from ..registry import Failure, holds_inside, primitive, requirement
from ..requirements import own_iterators_below, starts_at_zero
from ..state import ScheduleState
from ..updates import copied_nest, fresh_loops, stored_together
from .kinds import serial_loop


@dataclass(frozen=True)
class LoopReduction:
    """The reduction that is to be split at a loop: the block below the loop, all loops around the block, and either the
    block's update with the matching reducer, or the reason why there is none.
    """

    tree: Tree
    block: tir.BlockRealize
    loops: list[tir.For]
    update: tuple[Update, ReducerMatch] | str


def _reduction(state: ScheduleState, loop: tir.For) -> LoopReduction:
    tree = state.home(loop)
    block = tree.blocks_in(loop)[0]
    return LoopReduction(tree, block, tree.loops_above(block), recognised(block.block))


def _reduction_loops(block: tir.BlockRealize, loops: Sequence[tir.For]) -> list[tir.For]:
    reduced = loops_binding(block, (ex.REDUCE, ex.OPAQUE))
    return [l for l in loops if l.var in reduced]


@requirement
def one_reduction_block(state: ScheduleState, loop: tir.For) -> Failure | None:
    """the block is a reduction, and is the only block below the outermost loop that binds a reduction iterator

    Some loops below that loop are absent from the second step, so another block there would run less often.
    """
    tree = state.home(loop)
    blocks = tree.blocks_in(loop)
    if len(blocks) != 1:
        return Failure({loop: "this loop"}, "one block below the loop", f"{len(blocks)} blocks")
    block = blocks[0]
    reason = why_not_reduction(Scope.around(tree, block), block)
    if reason is not None:
        return Failure({block.block: "this block"}, "a reduction block", reason)
    loops = tree.loops_above(block)
    outermost = next((l for l in loops if l in _reduction_loops(block, loops)), loop)
    at: tir.Stmt = outermost.body
    while at is not block:
        if not isinstance(at, tir.For):
            return Failure(
                {outermost: "the outermost reduction loop"},
                f"nothing but loops between {outermost.var.name} and block {block.block.name}",
                "several statements" if isinstance(at, tir.Seq) else type(at).__name__,
            )
        at = at.body
    return None


@requirement
def binds_only_reduction(state: ScheduleState, loop: tir.For, match: LoopReduction) -> Failure | None:
    """the loop binds at least one reduction iterator of the block and no other iterators, or it runs once and binds
    none; no loop binds iterators of both kinds
    """
    block = match.block
    spatial, reduced = loops_binding(block, ex.SPATIAL), loops_binding(block, (ex.REDUCE, ex.OPAQUE))
    # A single iteration on which nothing depends makes one partial result, which is the result.
    idle = is_const(loop.extent, 1) and loop.var not in spatial
    if not idle and (loop.var not in reduced or loop.var in spatial):
        kind = "a spatial iterator" if loop.var in spatial else "no iterator"
        ways = [l.var.name for l in _reduction_loops(block, match.loops) if l.var not in spatial]
        return Failure(
            {loop: "this loop"}, "a loop that binds reduction iterators only", f"{loop.var.name} binds {kind}",
            tuple(f"rfactor({name}, ...)" for name in ways[:3]),
        )  # fmt: skip
    for other in match.loops:
        if other.var in spatial and other.var in reduced:
            return Failure(
                {other: "this loop"}, "loops that bind spatial or reduction iterators, not both",
                f"{other.var.name} binds both", ("rfactor before fusing such loops",),
            )  # fmt: skip
    return None


@requirement
def first_below(state: ScheduleState, loop: tir.For, match: LoopReduction) -> Failure | None:
    """the block is the first block below its outermost loop, and no other block there writes its inputs

    The partial results are computed before that loop, in a separate nest.
    """
    tree, block = match.tree, match.block
    outermost = tree.loops_above(block)[0]
    inside = tree.blocks_in(outermost)
    if inside[0] is not block:
        return Failure(
            {block.block: "this block", inside[0].block: "comes first"},
            f"{block.block.name} first below its outermost loop {outermost.var.name}",
            f"{inside[0].block.name} comes first",
        )
    at: tir.Stmt = outermost
    while at is not block:
        inner = at.stmts[0] if isinstance(at, tir.Seq) else at.body if isinstance(at, tir.For) else None
        if inner is None:
            return Failure({at: "here"}, f"only loops around {block.block.name}", type(at).__name__)
        at = inner
    read = Scope.around(tree, block).read(block)
    for other in inside[1:]:
        for region in regions_written(other.block):
            if region.buffer in read:
                return Failure(
                    {other.block: "writes it", block.block: "reads it"},
                    f"{region.buffer.name} unchanged while {outermost.var.name} runs",
                    f"{other.block.name} writes {region.buffer.name}",
                )
    return None


@requirement
def each_point_once(state: ScheduleState, loop: tir.For, match: LoopReduction) -> Failure | None:
    """the loops map injectively and quasi-affinely to the block's iterators, and reduction iterators start when their
    loops start

    Therefore each element is started once, at the beginning, and each point contributes once.
    """
    block, loops = match.block, match.loops
    reason = why_not_injective(block, loops, state.analyzer(block)) or why_not_started_first(
        block, loops, state.analyzer(block)
    )
    if reason is None:
        return None
    expected = "each point visited once, the first of a reduction first"
    return Failure({block.block: "its bindings"}, expected, reason)


@requirement
def fixed_domains(state: ScheduleState, loop: tir.For, match: LoopReduction) -> Failure | None:
    """the loops of the second step, and the loops that become iterators, have domains that depend on no loop that
    disappears

    The start of the loop that you pass depends on no such loop either, and its extent depends on no loop at all.
    """
    block, loops = match.block, match.loops
    turned = _turned(block, loop, loops)
    outer = {l.var for l in loops}
    for l in turned:
        if uses(l.start, outer) or uses(l.extent, outer):
            return Failure(
                {l: "its domain"},
                f"a domain of {l.var.name} that depends on no loop",
                f"it runs over {_domain(l)}",
            )
    dropped = {l.var for l in _reduction_loops(block, loops) if l is not loop}
    for l in loops:
        if l.var not in dropped and (uses(l.start, dropped) or uses(l.extent, dropped)):
            return Failure(
                {l: "its domain"},
                f"a domain of {l.var.name} that depends on no other reduction loop",
                f"it runs over {_domain(l)}",
            )
    return None


def _domain(loop: tir.For) -> str:
    return f"[{loop.start}, {Analyzer().simplify(loop.start + loop.extent)})"


@requirement
def registered_reducer(state: ScheduleState, loop: tir.For, match: LoopReduction) -> Failure | None:
    """the body is the update of a registered associative reducer

    The registered reducers are sum, prod, min, max, argmin, argmax, and those that you add with `register_reducer`. If
    the body updates several buffers, each may have a separate reducer.
    """
    block, update = match.block.block, match.update
    if not isinstance(update, str):
        return None
    return Failure({block.body: "here"}, "the update of an associative reducer", update, ("register_reducer",))


@requirement
def keeps_order(state: ScheduleState, loop: tir.For, match: LoopReduction) -> Failure | None:
    """if the reducer is not commutative, the loop is the outermost reduction loop, so that values are combined in the
    old order

    Each iteration of the loop then combines a run of consecutive elements, and the partial results are combined in the
    order of these runs.
    """
    assert not isinstance(match.update, str)  # registered_reducer
    block, reducer = match.block, match.update[1].reducer
    if reducer.commutative:
        return None
    loops = _reduction_loops(block, match.loops)
    outside = [l for l in loops if match.loops.index(l) < match.loops.index(loop)]
    before = [l for l in outside if not is_const(l.extent, 1)]
    if not before or is_const(loop.extent, 1):
        return None
    outer = before[0].var.name
    return Failure(
        {before[0]: "runs outside it", block.block.body: "the order of equals decides"},
        f"the outermost reduction loop, as {reducer.name} is not commutative",
        f"{loop.var.name} runs inside {outer}: of two equals in iterations ({outer}=0, {loop.var.name}=1) and "
        f"({outer}=1, {loop.var.name}=0) the other one wins",
        (f"rfactor({outer}, ...)", "a reducer that breaks ties by the index"),
    )


@requirement
def fitting_axis(state: ScheduleState, factor_axis: int, match: LoopReduction) -> Failure | None:
    """-ndim - 1 <= factor_axis <= ndim, where ndim is the number of dimensions of the buffer that the block writes (for
    a block that writes whole rows, without the dimensions along them)
    """
    assert not isinstance(match.update, str)  # registered_reducer
    first = match.update[0].elements[0]
    buffer, ndim = first.buffer, len(first.places)
    if -ndim - 1 <= factor_axis <= ndim:
        return None
    return Failure(
        {match.block.block: "this block"},
        f"a factor_axis from {-ndim - 1} to {ndim}: {buffer.name} has {ndim} dimensions",
        str(factor_axis),
    )


slots_started = holds_inside(
    "slots_started",
    "if any iteration adds to a partial result, the first iteration starts it: the block's predicate p(j, r), over "
    "the loop j and the other reduction loops r, implies p(j, start of r)",
)


@primitive(
    aka={"Halide": "rfactor"}, past="was factored, which made", kind="RFactor",
    requires=[
        one_reduction_block, binds_only_reduction, serial_loop, starts_at_zero, first_below, each_point_once,
        fixed_domains, own_iterators_below, registered_reducer, keeps_order, fitting_axis,
    ],
    match=_reduction,
)  # fmt: skip
def rfactor(state: ScheduleState, match: LoopReduction, loop: tir.For, factor_axis: int) -> tir.BlockRealize:
    """Reduce in two steps: compute a partial result for each iteration of the loop, and then combine them.

    before:
        for i, j, k in T.grid(8, 4, 6):
            with T.block("B"):
                vi, vj, vk = T.axis.remap("SRR", [i, j, k])
                with T.init(): B[vi] = T.float32(0.0)
                B[vi] = B[vi] + A[vi, vj, vk]
    call: `rf = sch.rfactor(k, factor_axis=1)`
    after:
        B_rf = T.alloc_buffer((8, 6))
        for i, j, k in T.grid(8, 4, 6):
            with T.block("B_rf"):
                vk, vi, vj = T.axis.remap("SSR", [k, i, j])
                with T.init(): B_rf[vi, vk] = T.float32(0.0)
                B_rf[vi, vk] = B_rf[vi, vk] + A[vi, vj, vk]
        for i, k in T.grid(8, 6):
            with T.block("B"):
                vk, vi = T.axis.remap("RS", [k, i])
                with T.init(): B[vi] = T.float32(0.0)
                B[vi] = B[vi] + B_rf[vi, vk]

    In the first block, the loop is spatial, so it can be parallelised or vectorised there. The partial results have an
    additional dimension at `factor_axis` (counted from the end if negative). Returns the block of the partial results;
    the handles of the block and of the loops now refer to the combination. Floating-point numbers are added in a
    different order, so the result may be rounded differently. (Suriana, Adams and Kamil, "Parallel associative
    reductions in Halide".)
    """
    tree, block, loops = match.tree, match.block, match.loops
    assert not isinstance(match.update, str)  # registered_reducer
    update, reducer = match.update
    axis = factor_axis % (len(update.indices) + 1)
    partial = {e.buffer: _partial_buffer(e.buffer, loop.extent, e.place(axis)) for e in update.elements}
    first = _partial_results(block, loop, loops, update, reducer, partial, axis)
    second = _combination(state, block, loop, loops, update, reducer, partial, axis)
    nest = copied_nest(loops, first)
    scope = tree.scope(block)
    state.set_func(tree, tree.rebuild({loops[0]: tir.Seq.of(nest, _second_nest(loops[0], block, loops, loop, second))}))
    now = state.block(scope.block.id)
    assert now is not None  # only its body changed
    state.replace({now.block: ex.replace(now.block, alloc_buffers=(*now.block.alloc_buffers, *partial.values()))})
    placed = state.block(first.block.id)
    assert placed is not None  # it was just put there
    return placed


rfactor.refuses(one_reduction_block, "sch.rfactor(k, 0)", on.WATCHED_SUM)
rfactor.refuses(binds_only_reduction, "sch.rfactor(i, 0)", on.MATMUL)
rfactor.refuses(serial_loop, "sch.unroll(k); sch.rfactor(sch.get_loops('C')[2], 0)", on.MATMUL)
rfactor.refuses(starts_at_zero, "sch.rfactor(k, 0)", on.SUM_FROM_TWO)
rfactor.refuses(first_below, "sch.rfactor(k, 0)", on.AFTER_PRODUCER)
rfactor.refuses(each_point_once, "sch.rfactor(k, 0)", on.BACKWARD_SUM)
rfactor.refuses(fixed_domains, "sch.rfactor(k, 0)", on.TRIANGLE_SUMS)
rfactor.refuses(own_iterators_below, "sch.rfactor(k, 0)", on.LOOP_IN_A_SUM)
rfactor.refuses(registered_reducer, "sch.rfactor(k, 0)", on.ALTERNATING_SUM)
rfactor.refuses(keeps_order, "sch.split(k, [None, 4]); sch.rfactor(sch.get_loops('R')[1], 0)", on.FIRST_OF_EQUALS)
rfactor.refuses(fitting_axis, "sch.rfactor(k, 3)", on.MATMUL)
rfactor.refuses(slots_started, "sch.rfactor(j, 0)", on.LATE_SLOTS)


def _partial_buffer(buffer: tir.Buffer, extent: ex.Expr, axis: int) -> tir.Buffer:
    shape = (*buffer.shape[:axis], extent, *buffer.shape[axis:])
    return tir.Buffer(f"{buffer.name}_rf", shape, buffer.dtype, buffer.scope, align=buffer.align, device=buffer.device)


def _turned(block: tir.BlockRealize, loop: tir.For, loops: Sequence[tir.For]) -> list[tir.For]:
    """Return `loop` and the loops that occur in the same reduction binding as `loop`. All of them become iterators."""
    turned = [loop]
    for it, value in zip(block.block.iter_vars, block.iter_values, strict=True):
        inside = ex.free_vars(value)
        if it.kind == ex.REDUCE and loop.var in inside:
            turned += [l for l in loops if l.var in inside and l not in turned]
    return turned


def _partial_results(
    block: tir.BlockRealize, loop: tir.For, loops: Sequence[tir.For], update: Update, reducer: ReducerMatch,
    partial: Mapping[tir.Buffer, tir.Buffer], axis: int,
) -> tir.BlockRealize:  # fmt: skip
    """Return the block that computes the partial results, in terms of the old block's loops."""
    old = block.block
    iterators: list[ex.IterVar] = []
    values: list[ex.Expr] = []
    renamed: dict[ex.Var, ex.Expr] = {}
    names: dict[ex.Var, ex.Expr] = {}

    def add(l: tir.For, kind: str) -> None:
        var = ex.Var(f"v{l.var.name}", l.var.dtype)
        names[l.var] = var
        iterators.append(ex.IterVar(var, ex.Range(l.start, l.extent), kind))
        values.append(l.var)

    add(loop, ex.SPATIAL)
    for it, value in zip(old.iter_vars, block.iter_values, strict=True):
        inside = ex.free_vars(value)
        if it.kind == ex.REDUCE and loop.var in inside:
            for l in loops:
                if l.var in inside and l.var not in names:
                    add(l, ex.REDUCE)
            renamed[it.var] = ex.substitute(value, names)
            continue
        own = it.var.with_name(it.var.name)
        renamed[it.var] = own
        iterators.append(ex.replace(it, var=own))
        values.append(value)

    def moved(node: ex.Node) -> Any:
        return ex.substitute(node, renamed)

    places = {e.buffer: e.place(axis) for e in update.elements}
    starts = dict(zip(update.buffers, reducer.start(update.init), strict=True))

    def onto(node: ex.Node) -> ex.Node | None:
        """Redirect the accumulation to the buffers of partial results, at the new indices."""
        if not isinstance(node, tir.BufferLoad | tir.BufferStore) or node.buffer not in partial:
            return None
        point = _with_axis(node.indices, names[loop.var], places[node.buffer])
        if isinstance(node, tir.BufferLoad):
            return tir.BufferLoad(partial[node.buffer], point)
        return tir.BufferStore(partial[node.buffer], node.value, point)

    body: tir.Stmt = ex.rewrite(_fresh_lets(moved(old.body)), onto)
    begin = tir.Seq.of(*(e.around(tir.BufferStore(e.buffer, starts[e.buffer], e.indices)) for e in update.elements))
    init: tir.Stmt | None = ex.rewrite(fresh_loops(moved(begin)), onto)
    if len(partial) == 1 and not update.elements[0].loops and all(it.kind == ex.SPATIAL for it in iterators):
        # Each partial result is one element: there is nothing to start from.
        assert isinstance(body, tir.BufferStore)
        init, body = None, tir.BufferStore(body.buffer, moved(reducer.operand[0]), body.indices)
    partial_block = tir.Block(tuple(iterators), (), (), f"{old.name}_rf", body, init, annotations=dict(old.annotations))
    return tir.BlockRealize(tuple(values), block.predicate, with_declared_regions(partial_block))


def _with_axis(indices: tuple[ex.Expr, ...], slot: ex.Expr, axis: int) -> tuple[ex.Expr, ...]:
    return (*indices[:axis], slot, *indices[axis:])


def _fresh_lets(stmt: tir.Stmt) -> tir.Stmt:
    if not isinstance(stmt, tir.LetStmt):
        return stmt
    var = stmt.var.with_name(f"{stmt.var.name}_rf")
    return tir.LetStmt(var, stmt.value, _fresh_lets(ex.substitute(stmt.body, {stmt.var: var})))


def _combination(
    state: ScheduleState, block: tir.BlockRealize, loop: tir.For, loops: Sequence[tir.For], update: Update,
    reducer: ReducerMatch,
    partial: Mapping[tir.Buffer, tir.Buffer], axis: int,
) -> tir.BlockRealize:  # fmt: skip
    """Return the block that combines the partial results, in terms of the old block's loops. It keeps the old block's
    id and name.
    """
    old = block.block
    kept = [(it, value) for it, value in zip(old.iter_vars, block.iter_values, strict=True) if it.kind == ex.SPATIAL]
    slot = ex.Var(f"v{loop.var.name}", loop.var.dtype)
    iterators = (ex.IterVar(slot, ex.Range(loop.start, loop.extent), ex.REDUCE), *(it for it, _ in kept))
    own = tuple(e.old for e in update.elements)
    parts = tuple(
        tir.BufferLoad(partial[e.buffer], _with_axis(e.indices, slot, e.place(axis))) for e in update.elements
    )
    body = stored_together(update.elements, reducer.apply(own, parts))
    combined = ex.replace(old, iter_vars=iterators, body=body)
    read, written = regions_touched(combined)  # the init is still the old one, and may read memory
    first = list(partial.values())
    reads = sorted(read, key=lambda r: first.index(r.buffer) if r.buffer in first else len(first))
    combined = ex.replace(combined, reads=tuple(reads), writes=written)
    predicate = _where_started(state, block, loop, loops)
    return tir.BlockRealize((loop.var, *(value for _, value in kept)), predicate, combined)


def _where_started(state: ScheduleState, block: tir.BlockRealize, loop: tir.For, loops: Sequence[tir.For]) -> ex.Expr:
    """Return the condition under which the first block has stored a partial result: its predicate at the start of the
    loops that were removed.

    Raises `Refused` if the predicate may hold in a later iteration although it does not hold at the start.
    """
    gone = [l for l in _reduction_loops(block, loops) if l is not loop]
    at_start: dict[ex.Var, ex.Expr] = {}
    for l in gone:  # the start of a loop may depend on loops around it
        at_start[l.var] = ex.substitute(l.start, at_start)
    analyzer = state.analyzer(block)
    outside = Analyzer.inside(*(l for l in state.home(block).all_loops_above(block) if l not in gone))
    conditions = conjuncts(block.predicate)
    kept: list[ex.Expr] = []
    for condition in conditions:
        first = outside.simplify(ex.substitute(condition, at_start))
        if first is not condition and not _implied(analyzer, conditions, first):
            raise slots_started.refuse(
                Failure(
                    {block: "this predicate"},
                    f"{first} wherever {all_of(conditions)}: the first iteration starts the partial result",
                    "this could not be shown",
                    ("rfactor before the split that made the predicate",),
                )
            )
        if not outside.can_prove(first):
            kept.append(first)
    for l in gone:
        some = outside.simplify(ex.substitute(l.extent, at_start) > 0)
        if not outside.can_prove(some) and not _implied(outside, kept, some):
            kept.append(some)
    return all_of(kept)


def _implied(analyzer: Analyzer, conditions: Sequence[ex.Expr], goal: ex.Expr) -> bool:
    with analyzer.constraint(*conditions):
        return bool(analyzer.can_prove(goal))


def _second_nest(
    outermost: tir.For, block: tir.BlockRealize, loops: Sequence[tir.For], loop: tir.For, second: tir.BlockRealize
) -> tir.Stmt:
    """Return the old nest with the block `second` in place of `block`, and without any reduction loop except `loop`."""
    gone = {l for l in _reduction_loops(block, loops) if l is not loop}

    def go(stmt: tir.Stmt) -> tir.Stmt:
        if stmt is block:
            return second
        if isinstance(stmt, tir.For) and stmt in loops:
            return go(stmt.body) if stmt in gone else ex.replace(stmt, body=go(stmt.body))
        if isinstance(stmt, tir.Seq):
            return tir.Seq.of(go(stmt.stmts[0]), *stmt.stmts[1:])
        return stmt

    return go(outermost)


@rfactor.space
def _rfactor_space(state: ScheduleState) -> Iterator[tuple[Any, ...]]:
    tree = state.tree()
    for block in (b for b in tree.blocks.values() if b.block.init is not None):
        for loop in _reduction_loops(block, tree.loops_above(block)):
            for axis in range(buffers_written(block.block)[0].ndim + 1):
                yield loop, axis
