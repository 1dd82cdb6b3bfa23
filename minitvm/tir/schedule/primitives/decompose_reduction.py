"""Split reductions into an init and an update: decompose_reduction."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from ....arith import Analyzer
from ....expr import OPAQUE, REDUCE, SPATIAL, Expr, Var, find, free_vars, replace, substitute
from ...analysis.bindings import loops_binding, why_not_injective, why_not_started_first
from ...analysis.block_kinds import Scope, why_not_reduction
from ...analysis.block_regions import buffers_written, regions_written, with_declared_regions, without_init
from ...conditions import all_of, conjuncts, uses
from ...nodes import Block, BlockRealize, BufferLoad, For, Seq, Stmt
from .. import programs as on
from ..registry import Failure, primitive, requirement
from ..state import ScheduleState


@requirement
def reduction_block(state: ScheduleState, block: BlockRealize) -> Failure | None:
    """the block is a reduction: it has an init, it is the only writer of its buffers, all its iterators are spatial or
    reduction iterators, and no reduction iterator indexes the output
    """
    reason = why_not_reduction(Scope.around(state.home(block), block), block)
    return None if reason is None else Failure({block.block: "this block"}, "a reduction block", reason)


@requirement
def loop_around(state: ScheduleState, block: BlockRealize, loop: For) -> Failure | None:
    """the loop is around the block, in the same scope"""
    if loop in state.home(block).loops_above(block):
        return None
    return Failure(
        {loop: "this loop", block.block: "this block"}, f"a loop around {block.block.name}", "it is not around it"
    )


@requirement
def no_reduction_above(state: ScheduleState, block: BlockRealize, loop: For) -> Failure | None:
    """no loop around the loop that you pass binds a reduction iterator; otherwise the init would run again later"""
    reduced = loops_binding(block, (REDUCE, OPAQUE))
    for outer in state.home(block).loops_above(block):
        if outer is loop:
            return None
        if outer.var in reduced:
            return Failure(
                {outer: "reduces", loop: "this loop"},
                "a loop that is not inside a reduction loop",
                f"{outer.var.name} binds a reduction iterator",
                (f"decompose at {outer.var.name}",),
            )
    return None


@requirement
def separable_loops(state: ScheduleState, block: BlockRealize, loop: For) -> Failure | None:
    """from the loop inward, each loop binds either only spatial or only reduction iterators, and each condition of the
    predicate uses only loops of one of these kinds
    """
    loops = state.home(block).loops_above(block)
    inner = {l.var: l for l in loops[loops.index(loop) :]}
    spatial, reduced = loops_binding(block, SPATIAL), loops_binding(block, (REDUCE, OPAQUE))
    for var in inner:
        if var in spatial and var in reduced:
            return Failure(
                {inner[var]: "this loop"},
                "loops that bind spatial or reduction iterators, not both",
                f"{var.name} binds both",
                ("decompose before fusing such loops",),
            )
    for condition in conjuncts(block.predicate):
        used = set(free_vars(condition)) & inner.keys()
        if used & reduced and used - reduced:
            return Failure(
                {block: "this predicate"},
                "conditions on spatial loops or on reduction loops, not on both",
                str(condition),
            )
    return None


@requirement
def each_point_once(state: ScheduleState, block: BlockRealize, loop: For) -> Failure | None:
    """from the loop inward, all loops map injectively to the block's iterators, so no sum is started twice"""
    tree = state.home(block)
    loops = tree.loops_above(block)
    reason = why_not_injective(block, loops[loops.index(loop) :], state.analyzer(block))
    if reason is None:
        return None
    return Failure(
        {block.block: "its bindings"}, "each point of the iteration domain visited once below the loop", reason
    )


@requirement
def started_first(state: ScheduleState, block: BlockRealize, loop: For) -> Failure | None:
    """the first iteration of the loops is the reduction's first iteration, so that the init runs first"""
    loops = state.home(block).loops_above(block)
    reason = why_not_started_first(block, loops[loops.index(loop) :], state.analyzer(block))
    if reason is None:
        return None
    return Failure({block.block: "its bindings"}, "an init at the first iteration", reason)


@requirement
def alone_below(state: ScheduleState, block: BlockRealize, loop: For) -> Failure | None:
    """no other block below the loop touches the result before it is finished"""
    tree = state.home(block)
    scope = Scope.around(tree, block)
    written = set(buffers_written(block.block))
    reduced = loops_binding(block, (REDUCE, OPAQUE))
    around = [l for l in tree.loops_above(block) if l.var in reduced]
    for other in tree.blocks_in(loop):
        touched = bool(written & {*scope.read(other), *(r.buffer for r in regions_written(other.block))})
        if other is not block and touched and any(tree.inside(other, l) for l in around):
            return Failure(
                {other.block: "touches it", block.block: "accumulates"},
                "no reader inside the reduction loops",
                f"{other.block.name} is inside them",
            )
    return None


@requirement
def init_finds_its_inputs(state: ScheduleState, block: BlockRealize, loop: For) -> Failure | None:
    """no block below the loop writes an input of the init, because the init will run before all of them"""
    init = block.block.init
    assert init is not None  # reduction_block
    read = {n.buffer for n in find(init, BufferLoad)}
    for other in state.home(block).blocks_in(loop):
        overwritten = next((r.buffer for r in regions_written(other.block) if r.buffer in read), None)
        if other is not block and overwritten is not None:
            return Failure(
                {other.block: f"writes {overwritten.name}", block.block: "its init reads that"},
                f"{overwritten.name} written before {loop.var.name}",
                f"{other.block.name} is below it",
            )
    return None


def _copied(block: BlockRealize, inner: Sequence[For]) -> list[For]:
    """Return the loops in `inner` that the init needs."""
    spatial, reduced = loops_binding(block, SPATIAL), loops_binding(block, (REDUCE, OPAQUE))
    # A loop of one iteration binds nothing, and still a condition may name it.
    named = {v for c in _conditions(block, inner, reduced) for v in free_vars(c)}
    return [l for l in inner if l.var in spatial or l.var in named]


def _conditions(block: BlockRealize, inner: Sequence[For], reduced: Collection[Var]) -> list[Expr]:
    """Return the conditions of the predicate that also apply to the init."""
    inside = {l.var for l in inner}
    return [c for c in conjuncts(block.predicate) if not set(free_vars(c)) & inside & set(reduced)]


@requirement
def fixed_domains(state: ScheduleState, block: BlockRealize, loop: For) -> Failure | None:
    """from the loop inward, the domains of loops that the init needs do not depend on loops that it does not need"""
    loops = state.home(block).loops_above(block)
    inner = loops[loops.index(loop) :]
    copied = _copied(block, inner)
    left = [l.var for l in inner if l not in copied]
    for l in copied:
        if uses(l.start, left) or uses(l.extent, left):
            domain = f"[{l.start}, {Analyzer().simplify(l.start + l.extent)})"
            return Failure(
                {l: "its domain"},
                f"a domain of {l.var.name} that depends on no reduction loop",
                f"it runs over {domain}",
            )
    return None


@primitive(
    aka={"Halide": "update"}, past="was decomposed, which made",
    requires=[reduction_block, loop_around, no_reduction_above, separable_loops, each_point_once, started_first,
        alone_below, init_finds_its_inputs, fixed_domains],
)  # fmt: skip
def decompose_reduction(state: ScheduleState, block: BlockRealize, loop: For) -> BlockRealize:
    """Move the init of a reduction into its own loops before `loop`.

    before:
        for i, j, k in T.grid(8, 8, 8):
            with T.block("C"):
                with T.init(): C[vi, vj] = 0.0
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
    call: `init = sch.decompose_reduction("C", k)`
    after:
        for i, j in T.grid(8, 8):
            with T.block("C_init"): C[vi, vj] = 0.0
            for k in range(8):
                with T.block("C_update"): C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    Returns the init block; the handle of the block now refers to the update. If the extent of a reduction is symbolic,
    it may be 0 at run time. The old block then stored nothing, so its result was undefined, whereas the init block
    stores the init.
    """
    tree = state.home(block)
    old = block.block
    assert old.init is not None  # reduction_block
    loops = tree.loops_above(block)
    inner = loops[loops.index(loop) :]
    conditions = _conditions(block, inner, loops_binding(block, (REDUCE, OPAQUE)))
    copied = _copied(block, inner)
    renamed = {l.var: l.var.with_name(f"{l.var.name}_init") for l in copied}
    kept = {it.var: it.var.with_name(it.var.name) for it in old.iter_vars if it.kind == SPATIAL}
    iters = tuple(replace(it, var=kept[it.var]) for it in old.iter_vars if it.kind == SPATIAL)
    values = tuple(
        substitute(value, renamed)
        for it, value in zip(old.iter_vars, block.iter_values, strict=True)
        if it.kind == SPATIAL
    )
    predicate = all_of(substitute(c, renamed) for c in conditions)
    name, writes = f"{old.name}_init", tuple(substitute(r, kept) for r in regions_written(old))
    init = Block(iters, (), writes, name, substitute(old.init, kept), annotations=dict(old.annotations))
    nest: Stmt = BlockRealize(values, predicate, with_declared_regions(init))
    for l in reversed(copied):
        start, extent = substitute(l.start, renamed), substitute(l.extent, renamed)
        nest = For(renamed[l.var], start, extent, l.kind, nest, l.thread, dict(l.annotations))
    update = without_init(replace(old, name=f"{old.name}_update"))
    func = tree.rebuild({old: update})
    state.set_func(tree, func)
    again = state.loop(loop.var)
    assert again is not None  # only the block changed
    state.replace({again: Seq.of(nest, again)})
    placed = state.block(init.id)
    assert placed is not None  # it was just put there
    return placed


_OVERLAPPING_SUMS = """
A: T.Buffer((8, 4))
B: T.Buffer((8,))
for i, r, k in T.grid(4, 2, 4):
    with T.block("B"):
        vi = T.axis.spatial(8, i + r)
        vk = T.axis.reduce(4, k)
        with T.init(): B[vi] = 0.0
        B[vi] = B[vi] + A[vi, vk]
"""
_LATE_START = """
S = T.alloc_buffer((4,))
for i, k in T.grid(4, 8):
    with T.block("S"): S[vi] = A[vi, 0]
    with T.block("C"):
        with T.init(): C[vi] = S[vi]
        C[vi] = T.min(C[vi], A[vi, vk])
"""
decompose_reduction.refuses(reduction_block, "sch.decompose_reduction('B', sch.get_loops('B')[0])", on.CHAIN)
decompose_reduction.refuses(
    loop_around,
    "sch.cache_write('C', 0, 'local'); sch.decompose_reduction('C', sch.get_loops('C_local')[0])",
    on.MATMUL,
)
decompose_reduction.refuses(
    no_reduction_above,
    "sch.reorder(*[sch.get_loops('C')[n] for n in (2, 0, 1)]); sch.decompose_reduction('C', sch.get_loops('C')[1])",
    on.MATMUL,
)
decompose_reduction.refuses(separable_loops, "sch.decompose_reduction('B', f)", on.FUSED_SUM)
decompose_reduction.refuses(each_point_once, "sch.decompose_reduction('B', i)", _OVERLAPPING_SUMS)
decompose_reduction.refuses(started_first, "sch.decompose_reduction('B', k)", on.BACKWARD_SUM)
decompose_reduction.refuses(alone_below, "sch.decompose_reduction('B', k)", on.WATCHED_SUM)
decompose_reduction.refuses(init_finds_its_inputs, "sch.decompose_reduction('C', sch.get_loops('C')[1])", _LATE_START)
decompose_reduction.refuses(fixed_domains, "sch.decompose_reduction('C', k)", on.SHORT_ROWS)


@decompose_reduction.space
def _decompose_space(state: ScheduleState) -> Iterator[tuple[Any, ...]]:
    tree = state.tree()
    for block in tree.blocks.values():
        if block.block.init is not None:
            for loop in tree.loops_above(block):
                yield block, loop
