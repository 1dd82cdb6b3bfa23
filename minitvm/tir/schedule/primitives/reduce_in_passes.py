"""reduce_in_passes: compute sums relative to a running reference only once the reference is known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .... import expr as ex
from ...analysis.bindings import loops_binding
from ...analysis.block_regions import with_declared_regions
from ...analysis.reducers import ReducerMatch
from ...analysis.tree import Tree
from ...analysis.updates import Update, recognised
from ...conditions import is_const
from ...nodes import Block, BlockRealize, Buffer, BufferLoad, BufferStore, For, ForKind, Seq, Stmt
from .. import programs as on
from ..registry import Failure, primitive, requirement
from ..requirements import uses_loops
from ..state import ScheduleState
from ..updates import copied_nest
from .decompose_reduction import reduction_block


@dataclass(frozen=True)
class RelativeUpdate:
    """The reduction that is to be done in two passes: the loops that contain only its block, and either the block's
    update with the matching reducer, or the reason why there is none.
    """

    loops: list[For]
    update: tuple[Update, ReducerMatch] | str


def _relative(state: ScheduleState, block: BlockRealize) -> RelativeUpdate:
    tree = state.home(block)
    return RelativeUpdate(_own_loops(tree, block), recognised(block.block))


def _own_loops(tree: Tree, block: BlockRealize) -> list[For]:
    """Return the loops around a block that contain no other statement, outermost first."""
    own: list[For] = []
    inner: Stmt = block
    for loop in reversed(tree.loops_above(block)):
        if loop.body is not inner:
            break
        own.insert(0, loop)
        inner = loop
    return own


@requirement
def reduces_alone(state: ScheduleState, block: BlockRealize, match: RelativeUpdate) -> Failure | None:
    """the loops that bind the block's reduction iterators contain nothing else, and are serial"""
    reduced = loops_binding(block, (ex.REDUCE, ex.OPAQUE))
    for loop in state.home(block).loops_above(block):
        if loop.var not in reduced:
            continue
        if loop not in match.loops:
            return Failure(
                {loop: "this loop", block.block: "reduces over it"},
                f"a loop with block {block.block.name} alone in it",
                "it contains other statements",
            )
        if loop.kind is not ForKind.SERIAL:
            return Failure({loop: "this loop"}, "serial loops", f"{loop.var.name} is {loop.kind.value}")
    return None


@requirement
def relative_sums(state: ScheduleState, block: BlockRealize, match: RelativeUpdate) -> Failure | None:
    """the body is the update of a reducer that is registered as `relative`

    Such a reducer has a reference, which is combined independently of the rest, and sums that are relative to the
    reference and start from 0. For example, the reference is a maximum, and the sums add exp(x - maximum).
    """
    if isinstance(match.update, str):
        return Failure({block.block.body: "here"}, "sums relative to a running reference", match.update)
    update, reducer = match.update
    if reducer.reducer.relative is None:
        names = ", ".join(b.name for b in update.buffers)
        return Failure(
            {block.block.body: "here"}, "sums relative to a running reference",
            f"{reducer.reducer.name} of {names}, which need no second pass",
        )  # fmt: skip
    for k, element in enumerate(update.elements):
        if k != reducer.reducer.relative.reference and not ex.structural_equal(
            element.init, ex.const(0, element.init.dtype)
        ):
            return Failure(
                {block.block: "its init"}, f"{element.buffer.name} started from 0", f"it starts from {element.init}"
            )
    return None


@requirement
def own_iterators(state: ScheduleState, block: BlockRealize) -> Failure | None:
    """the block uses its iterators, but no variable of a loop around it"""
    return uses_loops(state.home(block), block)


@primitive(
    past="was reduced in passes, which made", match=_relative,
    requires=[reduction_block, reduces_alone, own_iterators, relative_sums],
)  # fmt: skip
def reduce_in_passes(state: ScheduleState, match: RelativeUpdate, block: BlockRealize) -> list[BlockRealize]:
    """Reduce in two passes: first the reference, such as a maximum, and then the sums that are relative to it.

    before:
        for i, j in T.grid(8, 64):
            with T.block("softmax"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    M[vi] = T.min_value("float32")
                    L[vi] = T.float32(0)
                top: T.float32 = T.max(M[vi], S[vi, vj])
                L[vi] = L[vi] * T.exp(M[vi] - top) + T.exp(S[vi, vj] - top)
                M[vi] = top
    call: `weights, total = sch.reduce_in_passes("softmax")`
    after:
        softmax_weights = T.alloc_buffer((8, 64))
        for i, j in T.grid(8, 64):
            with T.block("softmax"):
                with T.init(): M[vi] = T.min_value("float32")
                M[vi] = T.max(M[vi], S[vi, vj])
        for i, j in T.grid(8, 64):
            with T.block("softmax_weights"): softmax_weights[vi, vj] = T.exp(S[vi, vj] - M[vi])
        for i, j in T.grid(8, 64):
            with T.block("L"):
                with T.init(): L[vi] = T.float32(0)
                L[vi] = L[vi] + softmax_weights[vi, vj]

    For example, a softmax in one pass rescales its sums whenever the maximum grows. After this step, the maximum is
    known before the sums begin, so nothing is rescaled. The sums are products that can be tiled and vectorised like any
    other product. The price is a buffer of weights. After `rfactor`, only the partial results are reduced in two
    passes; their combination still uses one pass. Together with `compute_at`, this is flash attention. Returns the
    block of the weights, followed by the block of each sum in the order in which the sums were stored; the handle of
    the block now refers to the reference. Floating-point sums are rounded differently. (Dao, Fu, Ermon, Rudra and Re,
    "FlashAttention", 2022.)
    """
    assert not isinstance(match.update, str)  # relative_sums
    update, reducer = match.update
    relative = reducer.reducer.relative
    assert relative is not None  # relative_sums
    tree, old = state.home(block), block.block
    reference = update.elements[relative.reference]
    score = reducer.operand[relative.reference]
    shape = tuple(it.dom.extent for it in old.iter_vars)
    weights = Buffer(f"{old.name}_weights", shape, score.dtype, reference.buffer.scope)
    at = tuple(it.var if is_const(it.dom.start, 0) else it.var - it.dom.start for it in old.iter_vars)
    weight = BufferLoad(weights, at)
    first = BlockRealize(
        block.iter_values,
        block.predicate,
        with_declared_regions(
            ex.replace(
                old,
                body=BufferStore(reference.buffer, reference.value, reference.indices),
                init=BufferStore(reference.buffer, reference.init, reference.indices),
            )
        ),
    )
    spatial = tuple(ex.replace(it, kind=ex.SPATIAL) for it in old.iter_vars)
    weigh = BufferStore(weights, relative.weight(score, reference.old), at)
    new = [_renamed(block, Block(spatial, (), (), weights.name, weigh))]
    rows: list[tuple[For, ...]] = [()]
    for k, (element, operand) in enumerate(zip(update.elements, reducer.operand, strict=True)):
        if k == relative.reference:
            continue
        part = weight if ex.structural_equal(operand, ex.const(1, operand.dtype)) else operand * weight
        store = BufferStore(element.buffer, element.old + part, element.indices)
        start = BufferStore(element.buffer, element.init, element.indices)
        own = tuple(ex.IterVar(l.var, ex.Range(l.start, l.extent), ex.SPATIAL) for l in element.loops)
        inside = BlockRealize((*block.iter_values, *(l.var for l in element.loops)), block.predicate, old)
        new.append(_renamed(inside, Block((*old.iter_vars, *own), (), (), element.buffer.name, store, start)))
        rows.append(element.loops)
    nests = [copied_nest([*match.loops, *row], realize) for row, realize in zip(rows, new, strict=True)]
    outermost = match.loops[0] if match.loops else block
    kept: Stmt = first
    for l in reversed(match.loops):
        kept = ex.replace(l, body=kept)
    scope = tree.scope(block)
    state.set_func(tree, tree.rebuild({outermost: Seq.of(kept, *nests)}))
    now = state.block(scope.block.id)
    assert now is not None  # only its body changed
    state.replace({now.block: ex.replace(now.block, alloc_buffers=(*now.block.alloc_buffers, weights))})
    placed = [state.block(realize.block.id) for realize in new]
    return [realize for realize in placed if realize is not None]


_SCORES_BESIDE = """
S = T.alloc_buffer((8, 64))
for i, j in T.grid(8, 64):
    with T.block("S"): S[vi, vj] = A[vi, vj] * 0.125
    with T.block("softmax"):
        with T.init():
            M[vi] = T.min_value("float32")
            L[vi] = 0.0
        top: T.float32 = T.max(M[vi], S[vi, vj])
        L[vi] = L[vi] * T.exp(M[vi] - top) + T.exp(S[vi, vj] - top)
        M[vi] = top
"""
reduce_in_passes.refuses(reduction_block, "sch.reduce_in_passes('B')", on.CHAIN)
reduce_in_passes.refuses(reduces_alone, "sch.reduce_in_passes('softmax')", _SCORES_BESIDE)
reduce_in_passes.refuses(own_iterators, "sch.reduce_in_passes('C')", on.LOOP_IN_A_SUM)
reduce_in_passes.refuses(relative_sums, "sch.reduce_in_passes('C')", on.MATMUL)


def _renamed(realize: BlockRealize, block: Block) -> BlockRealize:
    """Return a realization of `block` with new iterators, and with the bindings and the predicate of `realize`."""
    names: dict[ex.Var, ex.Expr] = {it.var: it.var.with_name(it.var.name) for it in block.iter_vars}
    iterators = tuple(ex.replace(it, var=names[it.var]) for it in block.iter_vars)
    init = None if block.init is None else ex.substitute(block.init, names)
    fresh = ex.replace(block, iter_vars=iterators, body=ex.substitute(block.body, names), init=init)
    return BlockRealize(realize.iter_values, realize.predicate, with_declared_regions(fresh))


@reduce_in_passes.space
def _reduce_in_passes_space(state: ScheduleState) -> Iterator[tuple[Any, ...]]:
    for block in state.tree().blocks.values():
        if block.block.init is not None:
            yield (block,)
