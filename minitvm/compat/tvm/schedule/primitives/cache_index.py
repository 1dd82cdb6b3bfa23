"""Index computations done once and kept in memory: cache_index."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from typing import Any

from ..... import expr as ex
from .....arith import Analyzer
from .....tir.analysis.block_kinds import Scope
from .....tir.analysis.block_regions import buffers_written, regions_read
from .....tir.analysis.tree import Tree
from .....tir.conditions import is_const, reads_memory
from .....tir.nodes import Block, BlockRealize, Buffer, BufferLoad, BufferStore, Stmt
from .....tir.schedule import programs as on
from .....tir.schedule.access_remapping import point_block
from .....tir.schedule.insertion import Insertion, start_of
from .....tir.schedule.registry import Failure, primitive, requirement
from .....tir.schedule.requirements import known_scope
from .....tir.schedule.staging import free_name, point_region
from .....tir.schedule.state import ScheduleState


@requirement
def valid_threshold(state: ScheduleState, block: BlockRealize, cse_thresh: int) -> Failure | None:
    """cse_thresh >= 0"""
    if isinstance(cse_thresh, int) and cse_thresh >= 0:
        return None
    return Failure({block.block: "this block"}, "cse_thresh of 0 or more", repr(cse_thresh))


@requirement
def one_level(state: ScheduleState, block: BlockRealize) -> Failure | None:
    """the block contains no other block, so its index computations depend only on its own iterators"""
    inner = next((n for n in ex.find(block.block.body, Block)), None)
    if inner is None:
        return None
    return Failure(
        {inner: "is inside"},
        f"a block with no block inside, as {block.block.name} is not",
        f"block {inner.name} inside it",
        (f"cache_index({inner.name}, ...)",),
    )


@primitive(past="has its indices cached in", requires=[valid_threshold, known_scope, one_level])
def cache_index(
    state: ScheduleState, block: BlockRealize, storage_scope: str, cse_thresh: int = 0
) -> list[BlockRealize]:
    """Compute the indices of a block's loads in advance, for all its iterations, and look them up in the block.

    before:
        for i, j in T.grid(8, 8):
            with T.block("B"): B[vi, vj] = A[vi // 4 + vj // 4, vj // 2]
    call: `sch.cache_index("B", "global")`
    after:
        index_var_0 = T.alloc_buffer((8, 8), "int32")
        index_var_1 = T.alloc_buffer((8,), "int32")
        for ax0, ax1 in T.grid(8, 8):
            with T.block("index_0"): index_var_0[v0, v1] = v0 // 4 + v1 // 4
        for ax0 in range(8):
            with T.block("index_1"): index_var_1[v0] = v0 // 2
        for i, j in T.grid(8, 8):
            with T.block("B"): B[vi, vj] = A[index_var_0[vi, vj], index_var_1[vj]]

    With `cse_thresh=0`, each computed index is cached once. With `cse_thresh=n` and n > 0, each subexpression that
    occurs at least n times in the indices is cached, starting with the largest. An index is not cached if it depends on
    data, may divide by zero, or uses variables other than the block's iterators, sizes and parameters. If no index can
    be cached, the program does not change.
    """
    tree = state.home(block)
    candidates = _chosen(tree, block.block, cse_thresh)
    if not candidates:
        return []
    scope = Scope.around(tree, block)
    step = Insertion(tree, scope)
    body, init = block.block.body, block.block.init
    reads = list(regions_read(block.block))
    written = set(buffers_written(block.block))
    for number, value in enumerate(candidates):
        used = [it for it in block.block.iter_vars if any(part is it.var for part in ex.walk(value))]
        name = free_name(tree, f"index_var_{number}")
        cached = Buffer(name, tuple(it.dom.extent for it in used), value.dtype, storage_scope)
        place = tuple(Analyzer().simplify(it.var - it.dom.start) for it in used)
        load = BufferLoad(cached, place)
        body = _looked_up(body, value, load, written)
        init = None if init is None else _looked_up(init, value, load, written)
        step.copies.append((start_of(scope), _stage(cached, value, used, free_name(tree, f"index_{number}"))))
        step.allocated.append(cached)
        reads.append(point_region(cached, place))
    step.rewritten[block.block] = ex.replace(block.block, body=body, init=init, reads=tuple(reads))
    return step.apply(state)


cache_index.refuses(valid_threshold, "sch.cache_index('C', 'global', -1)", on.MATMUL)
cache_index.refuses(known_scope, "sch.cache_index('C', 'globl')", on.MATMUL)
cache_index.refuses(one_level, "sch.cache_index('outer', 'global')", on.NESTED)


def _chosen(tree: Tree, block: Block, cse_thresh: int) -> list[ex.Expr]:
    """The computations to cache, in order of appearance or, of parts, the largest first."""
    # What a block reads back from its own output must stay recognisable as the element that it writes.
    written = set(buffers_written(block))
    indices = [i for part in (block.init, block.body) if part is not None for i in _load_indices(part, written)]
    usable = {it.var for it in block.iter_vars if not tree.moves(it.dom.start, it.dom.extent)}
    unusable = {*tree.moving, *(n.var for n in ex.find(block, ex.Let))} - usable
    if cse_thresh == 0:
        return _distinct([i for i in indices if _eligible(i, usable, unusable)])
    computations: list[ex.Expr] = []
    parts = _distinct([p for i in indices for p in ex.find(i, ex.Expr) if _eligible(p, usable, unusable)])
    for part in sorted(parts, key=_size, reverse=True):
        if (
            sum(ex.structural_equal(p, part) for i in indices for p in ex.walk(i) if isinstance(p, type(part)))
            >= cse_thresh
        ):
            computations.append(part)
            name = ex.Var("cached", part.dtype)  # what is looked up hides the parts that it is made of
            indices = [_replaced(i, part, name) for i in indices]
    return computations


def _load_indices(stmt: Stmt, written: set[Buffer]) -> Iterator[ex.Expr]:
    for node in ex.walk(stmt):
        if isinstance(node, BufferLoad) and node.buffer not in written:
            yield from node.indices


def _eligible(e: ex.Expr, usable: Set[ex.Var], unusable: Set[ex.Var]) -> bool:
    if isinstance(e, ex.Var | ex.IntImm) or not e.dtype.is_int or e.dtype.lanes > 1 or reads_memory(e):
        return False
    variables = ex.free_vars(e)
    if not any(v in usable for v in variables) or any(v in unusable for v in variables):
        return False
    # It is computed at every point of the domain, also where the block does not run.
    divisors = [p.b for p in ex.find(e, ex.FloorDiv | ex.FloorMod)]
    return all(isinstance(d, ex.IntImm) and d.value != 0 for d in divisors) and not _may_fail(e)


def _may_fail(e: ex.Expr) -> bool:
    return any(type(p).__name__ in ("Div", "Mod", "Call", "Let") for p in ex.walk(e))


def _distinct(computations: Sequence[ex.Expr]) -> list[ex.Expr]:
    kept: list[ex.Expr] = []
    for e in computations:
        if not any(ex.structural_equal(e, other) for other in kept):
            kept.append(e)
    return kept


def _size(e: ex.Expr) -> int:
    return sum(1 for _ in ex.walk(e))


def _replaced(e: Any, part: ex.Expr, by: ex.Expr) -> Any:
    """The expression with each occurrence of a part replaced."""

    def change(node: ex.Node) -> ex.Node | None:
        return by if type(node) is type(part) and ex.structural_equal(node, part) else None

    return ex.rewrite(e, change)


def _looked_up(stmt: Stmt, value: ex.Expr, load: BufferLoad, written: set[Buffer]) -> Any:
    """The statement with a value looked up wherever it stands in an index of a load."""

    def change(node: ex.Node) -> ex.Node | None:
        if isinstance(node, BufferLoad) and node.buffer not in written:
            indices = tuple(_replaced(i, value, load) for i in node.indices)
            moved = any(a is not b for a, b in zip(indices, node.indices, strict=True))
            return ex.replace(node, indices=indices) if moved else None
        return None

    return ex.rewrite(stmt, change)


def _stage(cached: Buffer, value: ex.Expr, used: Sequence[ex.IterVar], name: str) -> Stmt:
    def store(point: tuple[ex.Var, ...]) -> BufferStore:
        shifted = any(_shifted(it) for it in used)
        moved = {it.var: v + it.dom.start if shifted else v for it, v in zip(used, point, strict=True)}
        result = ex.substitute(value, moved)
        return BufferStore(cached, Analyzer().simplify(result) if shifted else result, point)

    return point_block(name, [it.dom.extent for it in used], store)


def _shifted(it: ex.IterVar) -> bool:
    return not is_const(it.dom.start, 0)


@cache_index.space
def _cache_index_space(state: ScheduleState) -> Iterator[tuple[Any, ...]]:
    tree = state.tree()
    for block in tree.blocks.values():
        if block is not tree.root:
            for threshold in (0, 2):
                if one_level.check(state=state, block=block) is None and _chosen(tree, block.block, threshold):
                    yield block, "global", threshold
