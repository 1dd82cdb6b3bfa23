"""Merge and partition loops: merge turns several loops into one, loop_partition turns one loop into several."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from .... import expr as ex
from ....arith import Analyzer, dependence
from ...analysis.bindings import loop_ranges, loops_binding
from ...analysis.block_regions import with_declared_regions, without_init
from ...analysis.dependences import Access, accesses, in_step, point_of
from ...analysis.tree import Tree, fresh_copy, statements
from ...conditions import is_const
from ...nodes import Block, BlockId, BlockRealize, For, ForKind, Seq, Stmt
from .. import programs as on
from .. import requirements as req
from ..registry import Failure, primitive, requirement
from ..state import ScheduleState, tidy
from ..views import with_buffers

# ---- merge ---------------------------------------------------------------------------------------------------------


@requirement
def at_least_two(state: ScheduleState, loops: Sequence[For]) -> Failure | None:
    """there are at least two loops, and they are different"""
    if len(set(loops)) == len(loops) >= 2:
        return None
    return Failure(dict.fromkeys(loops, ""), "two different loops, or more", f"{len(set(loops))} of {len(loops)}")


@requirement
def sibling_nests(state: ScheduleState, loops: Sequence[For]) -> Failure | None:
    """the nests of the loops are statements of one sequence, in one block

    In each nest, from its outermost loop to the loop that you pass, the body of each loop is the next loop.
    """
    tree = state.home(loops[0])
    homes = []
    for loop in loops:
        top = _nest(tree, loop)[0] if loop in tree.order else loop
        parent = tree.parent.get(top)
        if not isinstance(parent, Seq):
            expected = "loops of different nests, which are statements of one sequence"
            return Failure({loop: "this loop"}, expected, f"{top.var.name} is not one of several statements")
        homes.append((parent, top, loop))
    for (first, top, loop), (second, other, later) in itertools.pairwise(homes):
        if first is not second or top is other:
            expected = "loops of different nests, which are statements of one sequence"
            fault = "they are in one nest" if top is other else "their nests are in different places"
            return Failure({loop: "this loop", later: "and this one"}, expected, fault)
    return None


@requirement
def same_depth(state: ScheduleState, loops: Sequence[For]) -> Failure | None:
    """all loops are at the same depth, counted from the sequence of nests"""
    tree = state.home(loops[0])
    depths = {loop: len(_nest(tree, loop)) for loop in loops}
    if len(set(depths.values())) == 1:
        return None
    fault = ", ".join(f"{depths[loop]} for {loop.var.name}" for loop in loops)
    return Failure(dict.fromkeys(loops, ""), "loops at the same depth of their nests", fault)


@requirement
def plain_nests(state: ScheduleState, loops: Sequence[For]) -> Failure | None:
    """the loops, and the loops around them in their nests, are serial, start at 0, and have no annotation or thread"""
    tree = state.home(loops[0])
    nests = [loop for l in loops for loop in _nest(tree, l)]
    for loop in nests:
        if loop.kind not in (ForKind.SERIAL, ForKind.THREAD):
            fault, way = f"{loop.var.name} is {loop.kind}", "do this before the loop gets its kind"
            return Failure({loop: "here"}, "a serial loop", fault, (way,))
    return req.plain_loops.check(state=state, loops=nests) or req.starts_at_zero.check(state=state, loops=nests)


@requirement
def same_extents(state: ScheduleState, loops: Sequence[For]) -> Failure | None:
    """at each depth, down to the loops that you pass, the loops of all nests have the same extent"""
    tree = state.home(loops[0])
    first = _nest(tree, loops[0])
    analyzer = state.analyzer(loops[0])
    for other in loops[1:]:
        renamed: dict[ex.Var, ex.Expr] = {}
        for mine, theirs in zip(first, _nest(tree, other), strict=True):
            if not analyzer.can_prove_equal(mine.extent, ex.substitute(theirs.extent, renamed)):
                return Failure(
                    {mine: f"{mine.extent} iterations", theirs: f"{theirs.extent} iterations"},
                    "equal extents at each depth",
                    f"{mine.extent} and {theirs.extent}",
                    ("split or loop_partition the longer one",),
                )
            renamed[theirs.var] = mine.var
    return None


@requirement
def keeps_order_of_nests(state: ScheduleState, loops: Sequence[For]) -> Failure | None:
    """no value is read or overwritten out of order

    Suppose nest A comes before nest B, and both access the same element, A in iteration p and B in iteration q of the
    merged loops. If at least one access is a write, p must not come after q. A statement between two nests must not
    access an element that an earlier nest accesses, if at least one of the two accesses is a write.
    """
    tree = state.home(loops[0])
    nests = _ordered(tree, loops)
    tops = [nest[0] for nest in nests]
    parent = tree.parent[tops[0]]
    assert isinstance(parent, Seq)  # sibling_nests holds
    stmts = parent.stmts[parent.stmts.index(tops[0]) : parent.stmts.index(tops[-1]) + 1]
    above = [l.var for l in tree.all_loops_above(tops[0])]
    # Merged statements are put where the last of them is, so all other statements come before them.
    points: list[dependence.Access] = []
    before: dict[dependence.Access, tuple[Any, ...]] = {}
    after: dict[dependence.Access, tuple[Any, ...]] = {}
    touches: list[Access] = []
    depth = len(nests[0])
    for place, stmt in enumerate(stmts):
        for access in accesses(tree, stmt):
            point = point_of(access)
            inner = [l.var for l in access.loops[len(above) :]]
            mine, rest = (inner[:depth], inner[depth:]) if stmt in tops else ([], inner)
            points.append(point)
            touches.append(access)
            padded = (*mine, *[0] * (depth - len(mine)))
            before[point] = in_step(access, (*above, place, *padded, 0, *rest))
            moved = len(stmts) if stmt in tops else place
            after[point] = in_step(access, (*above, moved, *padded, place, *rest))
    witness = dependence.find_dependence(points, before, after)
    if witness is None:
        return None
    names = " and ".join(loop.var.name for loop in loops)
    return req.witnessed(touches, witness, f"with {names} merged the second comes first")


def _nest(tree: Tree, loop: For) -> list[For]:
    """Return a loop together with the loops around it that contain nothing else, outermost first."""
    nest = [loop]
    while isinstance(outer := tree.parent.get(nest[0]), For):
        nest.insert(0, outer)
    return nest


def _ordered(tree: Tree, loops: Sequence[For]) -> list[list[For]]:
    return [_nest(tree, loop) for loop in sorted(loops, key=lambda l: tree.order[l])]


@primitive(
    past="was merged into",
    aka={"Halide": "compute_with", "Exo": "fuse"},
    requires=[at_least_two, sibling_nests, same_depth, plain_nests, same_extents, keeps_order_of_nests],
)
def merge(state: ScheduleState, *loops: For) -> For:
    """Merge the loops of neighbouring nests: one iteration of the new loop does the work of one iteration of each.

    before:
        for i, j in T.grid(8, 4):
            with T.block("B"): B[vi, vj] = A[vi, vj] * 2.0
        for x, y in T.grid(8, 4):
            with T.block("C"): C[vx, vy] = A[vx, vy] + 1.0
    call: `i_m = sch.merge(i, x)`
    after:
        for i_m in range(8):
            for j in range(4):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i_m, j])
                    B[vi, vj] = A[vi, vj] * 2.0
            for y in range(4):
                with T.block("C"):
                    vx, vy = T.axis.remap("SS", [i_m, y])
                    C[vx, vy] = A[vx, vy] + 1.0

    The loops around the loops that you pass are merged too. The merged nest replaces the last of the nests. Within an
    iteration, the parts keep their order.
    """
    tree = state.home(loops[0])
    nests = _ordered(tree, loops)
    variables = [ex.Var(f"{loop.var.name}_m", loop.var.dtype) for loop in nests[0]]
    parts: list[Stmt] = []
    for nest in nests:
        parts.append(ex.substitute(nest[-1].body, {l.var: v for l, v in zip(nest, variables, strict=True)}))
    merged: Stmt = Seq.of(*parts)
    renamed: dict[ex.Var, ex.Expr] = {l.var: v for l, v in zip(nests[0], variables, strict=True)}
    for loop, var in reversed(list(zip(nests[0], variables, strict=True))):
        merged = For(var, loop.start, ex.substitute(loop.extent, renamed), ForKind.SERIAL, merged)
    changes: dict[Stmt, Stmt | None] = {nest[0]: None for nest in nests}
    state.replace({**changes, nests[-1][0]: merged})
    return _required(state, variables[-1])


merge.refuses(at_least_two, "sch.merge(i)", on.MATMUL)
merge.refuses(sibling_nests, "sch.merge(*sch.get_loops('C')[:2])", on.MATMUL)
merge.refuses(same_depth, "sch.merge(sch.get_loops('B')[0], sch.get_loops('C')[1])", on.TWO_ROWS)
merge.refuses(
    plain_nests,
    "sch.parallel(sch.get_loops('C')[0]); sch.merge(sch.get_loops('B')[1], sch.get_loops('C')[1])",
    on.TWO_ROWS,
)
merge.refuses(same_extents, "sch.merge(sch.get_loops('B')[0], sch.get_loops('C')[0])", on.CHAIN)
merge.refuses(keeps_order_of_nests, "sch.merge(sch.get_loops('B')[0], sch.get_loops('C')[0])", on.TWO_ROWS)


@merge.space
def _merge_space(state: ScheduleState) -> Iterator[tuple[Any, ...]]:
    tree = state.tree()
    for stmt in tree.order:
        if not isinstance(stmt, Seq):
            continue
        nests = [_chain_below(s) for s in stmt.stmts if isinstance(s, For)]
        for first, second in itertools.pairwise(nests):
            for one, other in zip(first, second, strict=False):
                yield one, other
                yield other, one
        if len(nests) > 2:
            yield nests[0][0], nests[2][0]
            yield nests[0][0], nests[1][0], nests[2][0]


def _chain_below(loop: For) -> list[For]:
    nest = [loop]
    while isinstance(nest[-1].body, For):
        nest.append(nest[-1].body)
    return nest


# ---- loop_partition ------------------------------------------------------------------------------------------------


@requirement
def known_bounds(state: ScheduleState, loop: For) -> Failure | None:
    """the loop's start and extent are constants; the starts and extents of the loops around it depend on no loop"""
    if not (isinstance(loop.start, ex.IntImm) and isinstance(loop.extent, ex.IntImm)):
        fault = f"{loop.var.name} runs from {loop.start}, {loop.extent} times"
        return Failure({loop: "this loop"}, "a loop with constant bounds", fault)
    around = state.home(loop).loops_above(loop)
    variables = {outer.var for outer in around}
    for outer in around:
        if variables.intersection((*ex.free_vars(outer.start), *ex.free_vars(outer.extent))):
            fault = f"{outer.var.name} runs from {outer.start}, {outer.extent} times"
            return Failure({outer: "around it"}, "loops around it whose bounds depend on no other loop", fault)
    return None


@requirement
def positive_factors(state: ScheduleState, loop: For, factors: Sequence[Any]) -> Failure | None:
    """there is at least one factor; factors are positive constants, except that one may be None"""
    numbers = [f for f in factors if f is not None]
    expected = "positive integers, and None for at most one of them"
    if (
        len(factors) - len(numbers) > 1
        or not factors
        or any(not isinstance(f, int | ex.IntImm) or int(f) < 1 for f in numbers)
    ):
        return Failure({loop: ""}, expected, f"[{', '.join(map(str, factors))}]")
    return None


@requirement
def leaves_a_rest(state: ScheduleState, loop: For, factors: Sequence[Any]) -> Failure | None:
    """sum(factors) < extent, because the remaining iterations form a range too"""
    total, extent = sum(int(f) for f in factors if f is not None), _value(loop.extent)
    if total < extent:
        return None
    return Failure(
        {loop: f"{extent} iterations"},
        f"factors whose sum is below {extent}",
        f"{' + '.join(str(f) for f in factors if f is not None)} = {total}",
        ("leave out the last factor: the rest is a range of its own",),
    )


@requirement
def starts_in_one_part(state: ScheduleState, loop: For, factors: Sequence[Any]) -> Failure | None:
    """a reduction that continues from one range to the next starts in the first range

    In each other range, some reduction iterator is never at its start.
    """
    tree = state.home(loop)
    for block in _going_on(tree, loop):
        for first, extent in _ranges(loop, factors)[1:]:
            if not _never_starts(tree, block, loop, first, extent):
                return Failure(
                    {loop: "this loop", block.block: "starts a sum"},
                    f"a loop that starts the reduction of {block.block.name} in its first iterations only",
                    f"it may start at {loop.var.name} = {first} or after, too",
                    ("decompose_reduction first",),
                )
    return None


def _value(e: ex.Expr) -> int:
    return e.value if isinstance(e, ex.IntImm) else 0


def _going_on(tree: Tree, loop: For) -> list[BlockRealize]:
    """Return the blocks in a loop that have an init and reduce over this loop, so that the reduction continues from one
    iteration to the next.
    """
    return [
        b
        for b in tree.blocks_in(loop)
        if b.block.init is not None and loop.var in loops_binding(b, (ex.REDUCE, ex.OPAQUE))
    ]


def _never_starts(tree: Tree, block: BlockRealize, loop: For, first: int, extent: int) -> bool:
    """Return whether a block's init certainly does not run in the iterations [first, first + extent) of a loop."""
    ranges = loop_ranges(tree.all_loops_above(block))
    dtype = loop.var.dtype
    analyzer = Analyzer({**ranges, loop.var: ex.Range(ex.const(first, dtype), ex.const(extent, dtype))})
    return any(
        it.kind == ex.REDUCE and analyzer.can_prove(value > it.dom.start)
        for it, value in zip(block.block.iter_vars, block.iter_values, strict=True)
    )


def _ranges(loop: For, factors: Sequence[Any]) -> list[tuple[int, int]]:
    """Return (first iteration, number of iterations) for each part. A factor None stands for the iterations that the
    other factors leave.

    Without a None, the remaining iterations become an additional part at the end.
    """
    start, left = _value(loop.start), _value(loop.extent) - sum(int(f) for f in factors if f is not None)
    counts = [left if f is None else int(f) for f in factors]
    if None not in list(factors):
        counts.append(left)
    return [(start + sum(counts[:k]), count) for k, count in enumerate(counts)]


@primitive(
    past="was partitioned into",
    aka={"Exo": "cut_loop"},
    requires=[req.plain_loops, known_bounds, positive_factors, leaves_a_rest, starts_in_one_part],
)
def loop_partition(
    state: ScheduleState, loop: For, factors: Sequence[int | ex.Expr | None], preserve_unit_iters: bool = True
) -> list[For]:
    """Partition a loop into consecutive loops of `factors` iterations each; the remaining iterations form one more.

    before:
        for i in range(8):
            with T.block("B"): B[vi] = A[vi] * 2.0
    call: `i0, i1 = sch.loop_partition(i, [2])`
    after:
        with T.block("B_i_common"):
            with T.block("B_i0_partition"):
                for i0 in range(2):
                    with T.block("B_i0"):
                        vi = T.axis.spatial(8, i0)
                        B[vi] = A[vi] * 2.0
            with T.block("B_i1_partition"):
                for i1 in range(2, 8):
                    with T.block("B_i1"):
                        vi = T.axis.spatial(8, i1)
                        B[vi] = A[vi] * 2.0

    If a factor is None, its loop gets the remaining iterations. The order of iterations stays the same, so no
    dependence can break. A reduction that continues in a later range does so without its init. In TVM, the blocks
    around the ranges declare that they touch nothing; in minitvm they declare the regions that they actually touch.
    """
    tree = state.home(loop)
    blocks = tree.blocks_in(loop)
    name = f"{blocks[0].block.name}_{loop.var.name}" if blocks else loop.var.name
    around = tree.loops_above(loop)
    going_on = {b.block.id for b in _going_on(tree, loop)}
    part_loops: list[For] = []
    parts: list[Stmt] = []
    for k, (first, extent) in enumerate(_ranges(loop, factors)):
        body = _without_init(loop.body, going_on) if k > 0 else loop.body
        part = _copy_of_range(state, loop, body, k, first, extent, preserve_unit_iters)
        part_loops.append(part)
        parts.append(wrapped(part, f"{name}{k}_partition", around, blocks))
    common = wrapped(Seq.of(*parts), f"{name}_common", around, blocks)
    state.replace({loop: common})
    return [_required(state, part.var) for part in part_loops]


loop_partition.refuses(
    req.plain_loops, "sch.bind(i, 'blockIdx.x'); sch.loop_partition(sch.get_loops('C')[0], [2])", on.MATMUL
)
loop_partition.refuses(known_bounds, "sch.loop_partition(i, [2])", on.SYMBOLIC_MATMUL)
loop_partition.refuses(positive_factors, "sch.loop_partition(i, [None, 2, None])", on.MATMUL)
loop_partition.refuses(leaves_a_rest, "sch.loop_partition(i, [2, 6])", on.MATMUL)
loop_partition.refuses(starts_in_one_part, "sch.loop_partition(f, [12])", on.FUSED_SUM)
loop_partition.refuses(
    req.threads_add_up,
    "sch.bind(sch.split(k, [2, None])[0], 'threadIdx.x'); sch.loop_partition(sch.get_loops('C')[3], [1])",
    on.MATMUL,
)


def _copy_of_range(
    state: ScheduleState, loop: For, body: Stmt, k: int, first: int, extent: int, preserve_unit_iters: bool
) -> For:
    copied = fresh_copy(ex.replace(loop, body=body))
    assert isinstance(copied, For)  # as the original
    suffix = f"_{loop.var.name}{k}"
    var = ex.Var(f"{loop.var.name}{k}", loop.var.dtype)
    inner: Stmt = _own_names(ex.substitute(copied.body, {copied.var: var}), suffix)
    dtype = loop.var.dtype
    part = For(var, ex.const(first, dtype), ex.const(extent, dtype), ForKind.SERIAL, inner)
    tidied = tidy(part, state.analyzer(state.home(loop).parent[loop]), preserve_unit_iters, state.domains(loop))
    assert isinstance(tidied, For)  # tidy keeps loops
    return tidied


def _own_names(stmt: Stmt, suffix: str) -> Stmt:
    """Return a statement whose blocks have new names, and whose allocated or matched buffers are new buffers."""
    blocks = [s for s in statements(stmt) if isinstance(s, Block)]
    defined = [b for block in blocks for b in (*block.alloc_buffers, *(m.buffer for m in block.match_buffers))]
    own = with_buffers(stmt, {buffer: ex.replace(buffer) for buffer in defined})
    return _map_blocks(own, lambda block: ex.replace(block, name=block.name + suffix))


def _map_blocks(stmt: Stmt, change: Any) -> Stmt:
    changed: Stmt = ex.rewrite(stmt, lambda node: change(node) if isinstance(node, Block) else None)
    return changed


def _without_init(stmt: Stmt, blocks: set[BlockId]) -> Stmt:
    """Remove the init from the blocks with the ids `blocks`. These then continue from the values in their buffers, and
    declare that they read them.
    """

    def go(block: Block) -> Block:
        return without_init(block) if block.id in blocks else block

    return _map_blocks(stmt, go) if blocks else stmt


def wrapped(
    body: Stmt, name: str, around: Sequence[For], blocks: Sequence[BlockRealize], keep_unit: bool = True
) -> BlockRealize:
    """Wrap a statement in a new block that has an iterator for each surrounding loop that the statement uses.

    `blocks` are the blocks inside. A loop over which one of them reduces becomes an opaque iterator. Without
    `keep_unit`, the variable of a loop with a single iteration is replaced by its start.
    """
    used = set(ex.free_vars(body))
    iterators: list[ex.IterVar] = []
    values: list[ex.Expr] = []
    fixed: dict[ex.Var, ex.Expr] = {}
    for outer in around:
        if outer.var not in used:
            continue
        if not keep_unit and is_const(outer.extent, 1):
            fixed[outer.var] = outer.start
            continue
        in_order = any(outer.var in loops_binding(b, (ex.REDUCE, ex.OPAQUE)) for b in blocks)
        var = ex.Var(f"v{outer.var.name}", outer.var.dtype)
        iterators.append(ex.IterVar(var, ex.Range(outer.start, outer.extent), ex.OPAQUE if in_order else ex.SPATIAL))
        values.append(outer.var)
    fixed |= {v: it.var for v, it in zip(values, iterators, strict=True)}  # type: ignore[misc]
    inside = ex.substitute(body, fixed)
    block = with_declared_regions(Block(tuple(iterators), (), (), name, inside))
    return BlockRealize(tuple(values), ex.const(True), block)


@loop_partition.space
def _loop_partition_space(state: ScheduleState) -> Iterator[tuple[Any, ...]]:
    for loop in state.tree().loops.values():
        extent = _value(loop.extent)
        yield loop, [1]
        yield loop, [2, None] if extent > 3 else [None, 1]
        if extent > 3:
            yield loop, [1, 2]
            yield loop, [1, None, 1], False


def _required(state: ScheduleState, var: ex.Var) -> For:
    loop = state.loop(var)
    assert loop is not None  # it was just made
    return loop
