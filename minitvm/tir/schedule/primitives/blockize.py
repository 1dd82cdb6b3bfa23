"""blockize: turns a subtree into a block."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .... import expr as ex
from ....arith import Analyzer
from ....arith.subspace import Divided, Division, subspace_divide
from ...analysis import block_regions
from ...analysis.bindings import loop_ranges, loops_binding
from ...analysis.tree import Tree, fresh_copy, statements
from ...conditions import conjuncts, is_const, uses
from ...nodes import Block, BlockId, BlockRealize, BufferLoad, BufferRegion, BufferStore, For, ForKind, Seq, Stmt
from .. import programs as on
from ..access_remapping import with_simple_indices
from ..registry import Failure, primitive, requirement
from ..state import ScheduleState
from .partition import wrapped


def _inside(loop: For) -> tuple[list[For], BlockRealize] | None:
    """Return the loops nested from `loop` inward and the only block inside them; None if they contain anything else."""
    loops = [loop]
    while isinstance(loops[-1].body, For):
        loops.append(loops[-1].body)
    below = loops[-1].body
    return (loops, below) if isinstance(below, BlockRealize) else None


@dataclass(frozen=True)
class Subtree:
    """The subtree that becomes a block: a nest of loops, the only block in it, and the block's bindings divided between
    these loops and the outer ones.
    """

    loops: list[For]
    block: BlockRealize
    divided: Divided


def _subtree(state: ScheduleState, target: For | list[BlockRealize]) -> Subtree | None:
    """Return the loops and the block that `target` contains; None if it is a list of blocks (see `one_run`)."""
    if not isinstance(target, For):
        return None
    tree = state.home(target)
    subtree = _inside(target)
    assert subtree is not None  # one_block_below
    loops, block = subtree
    ranges = loop_ranges([*tree.loops_above(target), *loops])
    return Subtree(loops, block, subspace_divide(block.iter_values, ranges, [l.var for l in loops], block.predicate))


@requirement
def one_block_below(state: ScheduleState, target: For | list[BlockRealize]) -> Failure | None:
    """below the loop there are only loops, each directly inside the previous, and the innermost contains one block"""
    if not isinstance(target, For):
        return None  # blocks: see one_run
    tree = state.home(target)
    if _inside(target) is not None:
        return None
    names = ", ".join(b.block.name for b in tree.blocks_in(target))
    return Failure(
        {target: "this loop"},
        "one block in loops that hold nothing else",
        f"blocks {names} and what joins them",
        ("blockize a loop further in",),
    )


@requirement
def fixed_inner_domains(
    state: ScheduleState, target: For | list[BlockRealize], match: Subtree | None
) -> Failure | None:
    """the loops below start at 0, and their extents do not depend on a loop around the subtree"""
    if match is None or not isinstance(target, For):
        return None
    tree = state.home(target)
    outer = [l.var for l in tree.loops_above(target)]
    for loop in match.loops:
        if not is_const(loop.start, 0) or uses(loop.extent, outer):
            return Failure(
                {loop: "this loop"},
                "a loop from 0 over an extent that is the same every time",
                f"{loop.var.name} runs over {loop.extent} from {loop.start}",
            )
    return None


@requirement
def bindings_divide(state: ScheduleState, target: For | list[BlockRealize], match: Subtree | None) -> Failure | None:
    """each iterator's value is outer * n + inner, where `inner` depends on the loops below and runs once through 0 <=
    inner < n, and `outer` is a quasi-affine function of the loops around

    Together the inner parts are a bijective map of the loops below.
    """
    if match is None or not isinstance(target, For) or not match.divided.errors:
        return None
    return Failure(
        {target: "from here inward", match.block.block: "its bindings"},
        "iterators that divide into a part of the outer loops and a part of the inner ones",
        match.divided.errors[0],
    )


@requirement
def predicate_divides(state: ScheduleState, match: Subtree | None) -> Failure | None:
    """each condition of the block's predicate uses only loops around the subtree or only loops of the subtree, and the
    conditions on loops of the subtree leave a box of iterations
    """
    if match is None or not match.divided.predicate_errors:
        return None
    return Failure(
        {match.block: "this predicate"},
        "conditions on outer loops or on inner loops",
        match.divided.predicate_errors[0],
        ("split by a factor that divides the extent", "pad_einsum or transform_layout pad it"),
    )


@requirement
def init_moves_out(state: ScheduleState, match: Subtree | None) -> Failure | None:
    """if the block has an init, all inits of a subtree may run before all its updates

    The loops are not thread loops, and the inner conditions do not use a reduction iterator. If the body reads a buffer
    that the init writes, it reads only the element that it accumulates into.
    """
    if match is None or match.block.block.init is None:
        return None
    loops, block, init = match.loops, match.block, match.block.block.init
    for loop in loops:
        if loop.kind == ForKind.THREAD:
            return Failure(
                {loop: "this loop"},
                "loops that are bound to no thread",
                f"bound to {loop.thread}",
                ("blockize before bind", "decompose_reduction"),
            )
    reducing = {
        v
        for it, e in zip(block.block.iter_vars, block.iter_values, strict=True)
        if it.kind == ex.REDUCE
        for v in ex.free_vars(e)
    }
    for condition in conjuncts(match.divided.inner_predicate):
        if uses(condition, reducing):
            return Failure({block: "this predicate"}, "conditions on the loops that initialise", f"{condition} reduces")
    stores = [s for s in statements(init) if isinstance(s, BufferStore)]
    for node in ex.walk(block.block.body):
        if not isinstance(node, BufferLoad) or all(s.buffer is not node.buffer for s in stores):
            continue
        if not any(s.buffer is node.buffer and ex.structural_equal(s.indices, node.indices) for s in stores):
            return Failure(
                {node: "loads what another iteration initialises"},
                "a body that reads the accumulated element",
                str(node),
                ("decompose_reduction",),
            )
    return None


def _run(tree: Tree, blocks: Sequence[BlockRealize]) -> tuple[Stmt, list[Stmt]]:
    """Return (the innermost loop around all blocks, or the block of their scope; the statements directly inside it that
    contain the blocks).
    """
    shared = [l for l in tree.loops_above(blocks[0]) if all(tree.inside(b, l) for b in blocks)]
    # A single block is taken alone; its loops stay around it.
    within: Stmt = shared[-1] if shared else tree.scope(blocks[0]).block
    body: Stmt = within.body  # type: ignore[attr-defined]
    parts = body.stmts if isinstance(body, Seq) else (body,)
    return within, [part for part in parts if any(b is part or tree.inside(b, part) for b in blocks)]


@requirement
def one_run(state: ScheduleState, target: For | list[BlockRealize]) -> Failure | None:
    """if you pass blocks instead of a loop, they are different blocks of one scope, and their nests are consecutive

    Each block has a loop nest inside the innermost loop that contains all of the blocks (or inside the scope, if there
    is no such loop). These nests directly follow each other, and contain no other block.
    """
    if isinstance(target, For):
        return None
    expected = "a loop, or a list of blocks whose nests follow one on the other"
    if not isinstance(target, list) or not target:
        spots: dict[ex.Node, str] = {target.block: "a block"} if isinstance(target, BlockRealize) else {}
        return Failure(spots, expected, "one block" if spots else "no block")
    tree = state.home(target[0])
    spots = {b.block: "named" for b in target}
    if len(spots) != len(target):
        return Failure(spots, "different blocks", "one of them twice")
    for b in target:
        if b is tree.root:
            return Failure({b.block: "named"}, expected, "the root block, which has no scope around it")
        if b not in tree.order or tree.scope(b) is not tree.scope(target[0]):
            return Failure(spots, "blocks of one scope", f"{b.block.name} is in another one")
    within, parts = _run(tree, target)
    for part in parts:
        inside = [part] if isinstance(part, BlockRealize) else tree.blocks_in(part)
        other = next((b for b in inside if b not in target), None)
        if other is not None:
            return Failure({**spots, other.block: "not named"}, expected, f"{other.block.name} is among them")
    body: Stmt = within.body  # type: ignore[attr-defined]
    places = [body.stmts.index(part) for part in parts] if isinstance(body, Seq) else [0]
    if places != list(range(places[0], places[0] + len(places))):
        return Failure(spots, expected, "there is something else between them")
    return None


@requirement
def reductions_inside(state: ScheduleState, target: For | list[BlockRealize]) -> Failure | None:
    """if you pass blocks instead of a loop, blocks with an init reduce only over loops inside the new block"""
    if isinstance(target, For):
        return None
    tree = state.home(target[0])
    within, _ = _run(tree, target)
    around = [*tree.loops_above(within), within] if isinstance(within, For) else []
    for b in target:
        for loop in around:
            if b.block.init is not None and loop.var in loops_binding(b, (ex.REDUCE, ex.OPAQUE)):
                expected = f"the reduction of {b.block.name} inside of the new block"
                spots: dict[ex.Node, str] = {loop: "around the new block", b.block: "reduces over it"}
                return Failure(spots, expected, f"it goes on over {loop.var.name}", ("decompose_reduction",))
    return None


@primitive(
    past="was made a block in",
    requires=[
        one_run, reductions_inside, one_block_below, fixed_inner_domains, bindings_divide, predicate_divides,
        init_moves_out,
    ],
    match=_subtree,
)  # fmt: skip
def blockize(
    state: ScheduleState, match: Subtree | None, target: For | list[BlockRealize], preserve_unit_iters: bool = True
) -> BlockRealize:
    """Turn the subtree of a loop into a block that contains the old block.

    before:
        for i, j, i_1, j_1 in T.grid(4, 2, 4, 8):
            with T.block("B"):
                vi = T.axis.spatial(16, i * 4 + i_1)
                vj = T.axis.spatial(16, j * 8 + j_1)
                B[vi, vj] = A[vi, vj] * 2.0
    call: `outer = sch.blockize(i_1)`
    after:
        for i, j in T.grid(4, 2):
            with T.block("B_o"):
                vi_o, vj_o = T.axis.remap("SS", [i, j])
                for i_1, j_1 in T.grid(4, 8):
                    with T.block("B"):
                        vi_i, vj_i = T.axis.remap("SS", [i_1, j_1])
                        B[vi_o * 4 + vi_i, vj_o * 8 + vj_i] = A[vi_o * 4 + vi_i, vj_o * 8 + vj_i] * 2.0

    The init of a reduction moves to the outer block, where it becomes a separate block. If an iterator of the outer
    block has only a single value, it is kept and bound to the surrounding loops with one iteration. With
    `preserve_unit_iters=False` it is replaced by a constant.

    If you pass a list of blocks whose nests directly follow each other, all of them are wrapped in one block
    "outer_B_C_", with an iterator for each surrounding loop that is used inside. The blocks themselves do not
    change.
    """
    if match is None or not isinstance(target, For):
        return _grouped(state, target, preserve_unit_iters)  # type: ignore[arg-type]
    loops, realize, divided = match.loops, match.block, match.divided
    block = realize.block
    outer_iters: list[ex.IterVar] = []
    outer_values: list[ex.Expr] = []
    inner_iters: list[ex.IterVar] = []
    inner_values: list[ex.Expr] = []
    whole: dict[ex.Var, ex.Expr] = {}
    for it, value, part in zip(block.iter_vars, realize.iter_values, divided.parts, strict=True):
        var = it.var.with_name(f"{it.var.name}_o")
        single = is_const(part.outer_range.extent, 1)
        outer_iters.append(ex.replace(it, var=var, dom=part.outer_range))
        outer_values.append(_of_unit_loops(value, loops, part) if single and preserve_unit_iters else part.outer)
        outside: ex.Expr = part.outer_range.start if single else var
        if is_const(part.inner_extent, 1):
            whole[it.var] = var if preserve_unit_iters else outside
            continue
        var = it.var.with_name(f"{it.var.name}_i")
        inner_iters.append(ex.replace(it, var=var, dom=ex.Range(ex.const(0, var.dtype), part.inner_extent)))
        inner_values.append(part.inner)
        whole[it.var] = var if is_const(outside, 0) else outside * part.inner_extent + var
    moving = [it for it in outer_iters if not is_const(it.dom.extent, 1)]  # one with one value stays in the indices
    analyzer = Analyzer.inside(*moving, *inner_iters)
    inner = with_simple_indices(ex.substitute(ex.replace(block, iter_vars=(), init=None), whole), analyzer)
    inner = ex.replace(inner, iter_vars=tuple(inner_iters))
    if block.init is not None:
        inner = block_regions.without_init(inner)
    body: Stmt = ex.replace(realize, iter_values=tuple(inner_values), predicate=divided.inner_predicate, block=inner)
    for loop in reversed(loops):
        body = ex.replace(loop, body=body)
    init = None
    if block.init is not None:
        moved = with_simple_indices(ex.substitute(block.init, whole), analyzer)
        init = _init_nest(block.name, moved, inner_iters, inner_values, loops, divided.inner_predicate)
    outer = Block(tuple(outer_iters), (), (), f"{block.name}_o", body, init, id=BlockId())
    around = Analyzer.inside(*moving)
    reads, writes = (_simple(regions, around) for regions in block_regions.regions_touched(outer))
    outer = ex.replace(outer, reads=reads, writes=writes)
    outer_realize = BlockRealize(tuple(outer_values), divided.outer_predicate, outer)
    state.replace({target: outer_realize})
    placed = state.block(outer.id)
    assert placed is not None  # it was just put there
    return placed


_READS_NEIGHBOUR = """
for i, k in T.grid(8, 4):
    with T.block("B"):
        T.reads(A[vi, vk], B[0:8])
        T.writes(B[vi])
        with T.init(): B[vi] = 0.0
        B[vi] = B[vi] + A[vi, vk] + B[7 - vi] * 0.0
"""
blockize.refuses(one_run, "sch.blockize(['B', 'D'])", on.TWO_CONSUMERS)
blockize.refuses(
    reductions_inside, "sch.compute_at(sch.cache_read('C', 0, 'local'), k); sch.blockize(['C', 'A_local'])", on.MATMUL
)
blockize.refuses(one_block_below, "sch.blockize(i)", on.TWICE_IN_A_NEST)
blockize.refuses(fixed_inner_domains, "sch.blockize(j)", on.TRIANGLE)
blockize.refuses(
    bindings_divide,
    "sch.reorder(*sch.split(sch.fuse(*sch.get_loops('C')[:2]), [None, 4])[::-1]); sch.blockize(sch.get_loops('C')[1])",
    on.MATMUL,
)
blockize.refuses(predicate_divides, "sch.blockize(i_1)", on.TAIL)
blockize.refuses(init_moves_out, "sch.blockize(i)", _READS_NEIGHBOUR)


def _of_unit_loops(value: ex.Expr, inner: Sequence[For], part: Division) -> ex.Expr:
    """Return the outer part of an iterator that has a single value in the outer block, in terms of the surrounding
    loops of extent 1.
    """
    outside = ex.substitute(value, {l.var: l.start for l in inner})
    if not ex.free_vars(outside):
        return part.outer
    simple: ex.Expr = Analyzer().simplify(outside // part.inner_extent)
    return simple


def _grouped(state: ScheduleState, blocks: Sequence[BlockRealize], preserve_unit_iters: bool) -> BlockRealize:
    """Wrap the nests of `blocks` in one block."""
    tree = state.home(blocks[0])
    within, parts = _run(tree, blocks)
    around = [*tree.loops_above(within), within] if isinstance(within, For) else []
    name = f"outer_{''.join(f'{b.block.name}_' for b in blocks)}"
    realize = wrapped(Seq.of(*parts), name, around, blocks, preserve_unit_iters)
    first, *rest = parts
    state.set_func(tree, tree.rebuild({first: realize, **dict.fromkeys(rest, None)}))
    placed = state.block(realize.block.id)
    assert placed is not None  # it was just put there
    return placed


def _simple(regions: tuple[BufferRegion, ...], analyzer: Analyzer) -> tuple[BufferRegion, ...]:
    return tuple(BufferRegion(r.buffer, tuple(analyzer.simplify(d) for d in r.region)) for r in regions)


def _init_nest(
    name: str, init: Stmt, iters: list[ex.IterVar], values: list[ex.Expr], loops: list[For], predicate: ex.Expr
) -> Stmt:
    """Return a block for the init, in loops over the spatial iterators of the subtree."""
    spatial = [(it, value) for it, value in zip(iters, values, strict=True) if it.kind == ex.SPATIAL]
    if not spatial:
        return fresh_copy(
            BlockRealize(
                (), ex.const(True), block_regions.with_declared_regions(Block((), (), (), f"{name}_init", init))
            )
        )
    own = {it.var: it.var.with_name(f"{it.var.name}_init") for it, _ in spatial}
    axes = tuple(ex.replace(it, var=own[it.var]) for it, _ in spatial)
    body = ex.substitute(init, own)
    block = block_regions.with_declared_regions(Block(axes, (), (), f"{name}_init", body))
    used = {v for _, value in spatial for v in ex.free_vars(value)} | set(ex.free_vars(predicate))
    nest: Stmt = BlockRealize(tuple(v for _, v in spatial), predicate, block)
    for loop in reversed(loops):
        if loop.var in used:
            nest = For(loop.var, loop.start, loop.extent, ForKind.SERIAL, nest)
    return fresh_copy(nest)


@blockize.space
def _blockize_space(state: ScheduleState) -> Iterator[tuple[Any, ...]]:
    tree = state.tree()
    for loop in tree.loops.values():
        yield (loop,)
        yield loop, False
    for seq in [s for s in statements(tree.func.body) if isinstance(s, Seq)]:
        for first, second in itertools.pairwise(seq.stmts):
            inside = [[p] if isinstance(p, BlockRealize) else tree.blocks_in(p) for p in (first, second)]
            if all(inside):
                yield [*inside[0], *inside[1]], len(inside[0]) == 1
