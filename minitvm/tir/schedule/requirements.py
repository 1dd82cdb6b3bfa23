"""Legality conditions that several primitives share, each with its formal statement.

A check returns None if the condition holds, otherwise a `Failure` with the spots to mark, and what was expected and
found.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from ...arith import Analyzer
from ...arith.dependence import Dependence, Undecided
from ...expr import OPAQUE, REDUCE, Node, free_vars, replace
from ..analysis.bindings import loops_binding, not_quasi_affine, why_not_injective, why_not_started_first
from ..analysis.block_kinds import Scope, why_unstructured
from ..analysis.dependences import Access, accesses, commute, conflicting_pairs, exact, shown_apart, touched_once
from ..analysis.threads import adds_up
from ..analysis.tree import Tree
from ..annotations import COMMON_SCOPES, SCOPES, is_scope, suggestion
from ..conditions import is_const, uses
from ..nodes import BlockRealize, For, ForKind, LetStmt, Seq
from ..verifier.shared_rules import variables_are_defined
from .registry import Failure, invariant, requirement
from .state import ScheduleState
from .thread_storage import combined_alone, safe_storage


@requirement
def plain_loops(state: ScheduleState, loops: Sequence[For]) -> Failure | None:
    """no loop has an annotation or is bound to a thread

    A loop may be parallel, vectorised or unrolled. The result is serial in any case, as in TVM. This is legal, because
    the serial order is one of the orders that each of these kinds allows.
    """
    for loop in loops:
        if loop.kind == ForKind.THREAD:
            return Failure(
                {loop: "here"},
                "a loop that is bound to no thread axis",
                f"{loop.var.name} is bound to {loop.thread}",
                ("do this before the loop is bound",),
            )
        if loop.annotations:
            keys = ", ".join(loop.annotations)
            return Failure(
                {loop: "here"},
                "a loop without annotations",
                f"{loop.var.name} carries {keys}",
                (f'unannotate({loop.var.name}, "{next(iter(loop.annotations))}")',),
            )
    return None


@requirement
def starts_at_zero(state: ScheduleState, loops: Sequence[For]) -> Failure | None:
    """every loop starts at 0"""
    for loop in loops:
        if not is_const(loop.start, 0):
            return Failure({loop: "here"}, "a loop that starts at 0", f"{loop.var.name} starts at {loop.start}")
    return None


@requirement
def distinct_loops(state: ScheduleState, loops: Sequence[For]) -> Failure | None:
    """there is at least one loop, and the loops are different"""
    if not loops:
        return Failure({}, "at least one loop", "none")
    for i, loop in enumerate(loops):
        if any(other is loop for other in loops[:i]):
            return Failure({loop: "here"}, "different loops", f"{loop.var.name} twice")
    return None


@requirement
def single_chain(state: ScheduleState, loops: Sequence[For]) -> Failure | None:
    """all loops are on one path, and from the outermost to the innermost, each loop's body is the next loop"""
    tree = state.home(loops[0])
    ordered = sorted(loops, key=lambda l: tree.order[l])
    at = ordered[-1]
    while at is not ordered[0]:
        parent = tree.parent.get(at)
        if not isinstance(parent, For):
            branch = "several statements" if isinstance(parent, Seq) else "a block or condition"
            return Failure(
                {ordered[0]: "outermost", at: f"reached through {branch}"},
                "loops nested directly in each other, with nothing else between them",
                f"{branch} between {ordered[0].var.name} and {at.var.name}",
                ("move the statements in between with decompose_reduction or compute_at",),
            )
        at = parent
    missing = [l.var.name for l in ordered if not (l is ordered[0] or tree.inside(l, ordered[0]))]
    if missing:
        return Failure(
            {ordered[0]: ""}, "loops of one nest", f"{', '.join(missing)} is not inside {ordered[0].var.name}"
        )
    return None


def chain(tree: Tree, loops: Sequence[For]) -> list[For]:
    """Return all loops from the outermost to the innermost of `loops`, which must form a `single_chain`."""
    ordered = sorted(loops, key=lambda l: tree.order[l])
    outwards = [ordered[-1]]
    while outwards[-1] is not ordered[0]:
        outer = tree.parent[outwards[-1]]
        assert isinstance(outer, For)  # single_chain holds
        outwards.append(outer)
    return outwards[::-1]


def new_order(tree: Tree, loops: Sequence[For]) -> list[For]:
    """Return the chain of `loops` in its new order: `loops` fill their common positions in the order in which they are
    passed, and the other loops stay.
    """
    queue = iter(loops)
    moving = set(loops)
    return [next(queue) if loop in moving else loop for loop in chain(tree, loops)]


@requirement
def independent_domains(state: ScheduleState, loops: Sequence[For]) -> Failure | None:
    """no start or extent of a loop depends on a loop that is, or will be, inside it"""
    order = new_order(state.home(loops[0]), loops)
    for i, loop in enumerate(order):
        for inner in order[i + 1 :]:
            if uses(loop.start, [inner.var]) or uses(loop.extent, [inner.var]):
                return Failure(
                    {loop: "its domain", inner: "depends on this one"},
                    f"the domain of {loop.var.name} known outside {inner.var.name}",
                    f"{loop.var.name} runs over [{loop.start}, {loop.start + loop.extent})",
                )
    return None


@requirement
def no_opaque_iterators(state: ScheduleState, loops: Sequence[For]) -> Failure | None:
    """the blocks below have only spatial and reduction iterators; if an iterator is opaque, its order matters"""
    tree = state.home(loops[0])
    for loop in loops:
        for realize in tree.blocks_in(loop):
            if loop.var in loops_binding(realize, OPAQUE):
                return Failure(
                    {realize.block: "has an opaque iterator"},
                    "only spatial and reduction iterators",
                    f"{loop.var.name} binds an opaque iterator of block {realize.block.name}",
                )
    return None


@requirement
def affine_bindings(state: ScheduleState, loops: Sequence[For]) -> Failure | None:
    """the outermost loop that you pass, and all loops inside it, map injectively and quasi-affinely to the iterators of
    each block below

    The variables of the loops around them count as constants. Blocks without iterators are not checked.
    """
    tree = state.home(loops[0])
    outermost = chain(tree, loops)[0]
    for realize in {id(b): b for loop in loops for b in tree.blocks_in(loop)}.values():
        if not realize.block.iter_vars and realize.block.init is None:
            continue  # it declares nothing: `keeps_dependences` checks what each iteration touches
        reason = why_not_affine(tree, realize, outermost)
        if reason:
            return Failure(
                {realize.block: "its bindings"}, "an injective quasi-affine map from loops to iterators", reason
            )
    return None


def why_not_affine(tree: Tree, realize: BlockRealize, outermost: For) -> str | None:
    """Return None if the iterators of a block are an injective quasi-affine map of a loop and the loops inside it,
    otherwise the reason.
    """
    analyzer = Analyzer.inside(*tree.all_loops_above(realize))
    loops = tree.loops_above(realize)
    return why_not_injective(realize, loops[loops.index(outermost) :], analyzer, together=True)


@requirement
def quasi_affine_bindings(state: ScheduleState, loop: For) -> Failure | None:
    """the iterators of each block below the loop are quasi-affine functions of the loop variables"""
    # Injectivity is not required here: `no_races` shows that iterations do not touch the same elements.
    tree = state.home(loop)
    for realize in tree.blocks_in(loop):
        offender = not_quasi_affine(realize, tree.loops_above(realize), state.analyzer(realize))
        if offender is not None:
            it, value = offender
            expected = "iterators that are quasi-affine in the loops"
            return Failure({realize.block: "its bindings"}, expected, f"{it.var.name} = {value}")
    return None


@requirement
def keeps_dependences(state: ScheduleState, loops: Sequence[For]) -> Failure | None:
    """no value is read before it is written

    Suppose that access a in iteration p and access b in a later iteration q touch the same element, and that at least
    one of the two is a write. Then q must not come before p in the new order. To show this, minitvm checks that the
    loops that may carry such a dependence keep their order.
    """
    tree = state.home(loops[0])
    old = chain(tree, loops)
    order = new_order(tree, loops)
    above = tree.all_loops_above(old[0])
    touches = accesses(tree, old[0])
    # If the quick test has no answer, integer sets decide.
    unsettled = [(a, b) for a, b in conflicting_pairs(touches) if not _keeps_order(above, old, order, a, b)]
    witness = exact(unsettled, [*above, *old], [*above, *order], parallel=False) if unsettled else None
    if witness is None:
        return None
    names = ", ".join(loop.var.name for loop in order)
    return witnessed(touches, witness, f"in the order {names} the second comes first")


def _keeps_order(above: Sequence[For], old: Sequence[For], order: Sequence[For], a: Access, b: Access) -> bool:
    if commute(a, b) or (a is b and touched_once(above, a)):
        return True
    # Each loop is tested alone; the other loops of the chain are free on both sides.
    carrying = [l for l in old if not shown_apart(above, l, a, b)]
    return [l for l in order if l in carrying] == carrying


def witnessed(accesses: Sequence[Access], witness: Dependence | Undecided, consequence: str) -> Failure:
    """Return the failure for a requirement that a dependence violates, with both accesses marked and an example."""
    if isinstance(witness, Undecided):
        spots: dict[Node, str] = {a.spot: "" for a in accesses if a.is_write}
        return Failure(
            spots, "no value is read or overwritten out of order", f"this could not be decided: {witness.reason}"
        )
    spots = {}
    for end, at in ((witness.source, witness.source_at), (witness.sink, witness.sink_at)):
        place = next(a for a in accesses if a.buffer is end.buffer and a.is_write == end.write)
        iteration = ", ".join(f"{v.name}={value}" for v, value in at.items())
        verb = "writes" if end.write else "reads"
        name = f"{end.buffer.name}[{', '.join(map(str, witness.cell))}]"
        text = f"{verb} {name} at ({iteration})"
        spots[place.spot] = f"{spots[place.spot]}, {text}" if place.spot in spots else text
    return Failure(spots, "no value is read or overwritten out of order", f"{witness}; {consequence}")


@requirement
def structured_below(state: ScheduleState, loop: For) -> Failure | None:
    """every block below the loop is complete, is a reduction, or is the init or update block of a reduction that
    `decompose_reduction` has split"""
    # Other writers of the buffer do not matter here if iterations touch distinct elements, as `no_races` shows.
    tree = state.home(loop)
    for realize in tree.blocks_in(loop):
        reason = why_unstructured(realize.block)
        if reason:
            return Failure({realize.block: "this block"}, "complete or reduction blocks below the loop", reason)
    return None


@requirement
def only_spatial(state: ScheduleState, loop: For, thread_axis: str | None = None) -> Failure | None:
    """in every block below, only spatial iterators are bound to the loop; a threadIdx loop may bind reduction iterators
    too

    If a threadIdx loop binds a reduction iterator, the threads compute one result together. Such a reduction must begin
    with its init.
    """
    tree = state.home(loop)
    if str(thread_axis).startswith("threadIdx"):
        return _why_not_together(tree, loop)
    for realize in tree.blocks_in(loop):
        if loop.var in loops_binding(realize, (REDUCE, OPAQUE)):
            return Failure(
                {loop: "this loop", realize.block: "reduces over it"},
                "a loop that binds spatial iterators only",
                f"{loop.var.name} binds a reduction iterator of block {realize.block.name}",
                _ways_to_spatial(tree, loop, realize),
            )
    return None


def _why_not_together(tree: Tree, loop: For) -> Failure | None:
    # The threads' partial results are added to the init, so no step of the loop may come before the init.
    for realize in tree.blocks_in(loop):
        if realize.block.init is None or loop.var not in loops_binding(realize, (REDUCE,)):
            continue
        analyzer = Analyzer.inside(*tree.all_loops_above(realize))
        reason = why_not_started_first(realize, tree.loops_above(realize), analyzer)
        if reason is not None:
            return Failure(
                {loop: "this loop", realize.block: "its init"}, "a reduction that begins with its init", reason
            )
    return None


def _ways_to_spatial(tree: Tree, loop: For, realize: BlockRealize) -> tuple[str, ...]:
    partial = f"{realize.block.name}_rf"
    for producer in Scope.around(tree, realize).producers(realize):
        if producer.block.name == partial:  # it combines what rfactor made
            return (f"choose a spatial loop, of {realize.block.name} or of {partial}",)
    return f"rfactor({loop.var.name}, ...) makes it spatial for partial results", "choose a spatial loop"


@requirement
def no_races(state: ScheduleState, loop: For, thread_axis: str | None = None) -> Failure | None:
    """no iteration of the loop writes an element that another iteration accesses

    More precisely, let a and b be two accesses to one buffer, at least one of them a write, and let l and l' be two
    different iterations of the loop. Then the box of elements that a touches in l and the box of elements that b
    touches in l' have no element in common, whatever the iterations of the inner loops are. Some accesses are not
    checked: accesses to storage that each iteration on a GPU's grid owns, accesses to storage that the threads share
    and fill in step with the same values, and, if threads compute one result together, the accesses of a block that
    accumulates.
    """
    tree = state.home(loop)
    above = tree.all_loops_above(loop)
    bound = loop if thread_axis is None else replace(loop, kind=ForKind.THREAD, thread=thread_axis)
    safe = safe_storage(state, tree, loop, bound)
    together = adds_up(bound)
    safe |= combined_alone(tree, bound, inside=loop) if together else set()
    touches = [a for a in accesses(tree, loop) if a.buffer not in safe]
    pairs = [(a, b) for a, b in conflicting_pairs(touches) if not (together and commute(a, b))]
    unsettled = [(a, b) for a, b in pairs if not shown_apart(above, loop, a, b)]
    witness = None
    if unsettled:
        witness = exact(unsettled, [*above, loop], [*above, loop], parallel=True, accumulating=together)
    if witness is None:
        return None
    return witnessed(touches, witness, f"iterations of {loop.var.name} run in no order")


@invariant
def threads_add_up(state: ScheduleState) -> Failure | None:
    """a loop over threads that drives a reduction, or an opaque iterator that was a reduction, has no races
    (`no_races`)

    `bind` checks this for one reduction block. A later step may split this block, or put it into another block.
    """
    for tree in state.schedulable_trees():
        for loop in tree.loops.values():
            if loop.kind is not ForKind.THREAD or not str(loop.thread).startswith("threadIdx"):
                continue
            if any(loop.var in loops_binding(b, (REDUCE, OPAQUE)) for b in tree.blocks_in(loop)):
                failure = no_races.check(state=state, loop=loop)
                if failure is not None:
                    return failure
    return None


@requirement
def own_iterators(state: ScheduleState, block: BlockRealize) -> Failure | None:
    """the body of the block uses the block's iterators, but no variable of a loop or let around it, so it has the same
    meaning in another place
    """
    return uses_loops(state.home(block), block)


@requirement
def own_iterators_below(state: ScheduleState, loop: For) -> Failure | None:
    """the blocks below the loop use their iterators, but no variable of a loop around them"""
    tree = state.home(loop)
    return next((failure for b in tree.blocks_in(loop) if (failure := uses_loops(tree, b)) is not None), None)


def uses_loops(tree: Tree, realize: BlockRealize) -> Failure | None:
    scope = itertools.takewhile(lambda s: not isinstance(s, BlockRealize), tree.above(realize))
    around = {s.var: s for s in scope if isinstance(s, For | LetStmt)}
    used = next((v for v in free_vars(realize.block) if v in around), None) if around else None
    if used is None:
        return None
    name, spot = realize.block.name, around[used]
    what = "a loop" if isinstance(spot, For) else "a let"
    return Failure(
        {spot: "this loop" if isinstance(spot, For) else "this let", realize.block: f"uses {used.name}"},
        f"iterators of {name} where it uses {used.name}",
        f"{name} uses {used.name}, {what} around it, by itself",
    )


@invariant
def lets_hold(state: ScheduleState) -> Failure | None:
    """the variable of each let is used only in its body; code that moves out of the body would have no value for it"""
    for tree in state.schedulable_trees():
        lets = {stmt.var: stmt for stmt in tree.order if isinstance(stmt, LetStmt)}
        if not lets:
            continue
        for spot, fault in variables_are_defined(tree.func):
            let = next((stmt for var, stmt in lets.items() if var is spot), None)
            expected = f"{let.var.name} used below its let" if let is not None else "variables that are defined"
            return Failure({} if let is None else {let: "defined here"}, expected, fault)
    return None


@requirement
def known_scope(state: ScheduleState, block: BlockRealize, storage_scope: str) -> Failure | None:
    """storage_scope is global, shared, local, warp or the scope of a matrix unit or accelerator"""
    if is_scope(storage_scope):
        return None
    return Failure({block.block: ""}, COMMON_SCOPES, repr(storage_scope), suggestion(storage_scope, SCOPES))
