"""Undo rolling_buffer: produce a program in which the circular buffers have their full size again.

Element x of a circular buffer is stored at x % size, and unfolding changes these indices to x. `rolling_buffer` then
checks the result: rolling its buffers must lead back to the current program.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from ... import expr as ex
from ...arith import Analyzer
from ..analysis.block_kinds import Scope
from ..analysis.block_regions import with_declared_regions
from ..analysis.boxes import Box, with_buffer
from ..conditions import all_of, conjuncts, is_const
from ..nodes import BlockRealize, Buffer, BufferLoad, BufferStore, PrimFunc, Stmt


@dataclass(frozen=True, slots=True)
class Fold:
    """A buffer that is circular in dimension `dim`, the block that writes it, and the buffer with all its elements."""

    buffer: Buffer
    dim: int
    writer: BlockRealize
    whole: Buffer


def folds_before(scope: Scope, block: BlockRealize) -> list[Fold]:
    """Return the circular buffers that the block's result depends on, with their writers in program order."""
    folds: dict[Buffer, Fold | None] = {}
    pending = list(scope.read(block))
    while pending:
        buffer = pending.pop()
        if buffer not in folds and buffer in scope.allocated:
            folds[buffer] = _fold_of(scope, buffer)
            pending += [b for writer in scope.writers(buffer) for b in scope.read(writer)]
    return sorted((f for f in folds.values() if f is not None), key=lambda f: scope.tree.order[f.writer])


def _fold_of(scope: Scope, buffer: Buffer) -> Fold | None:
    """Return how a buffer is circular, as a `Fold`; None if it is not circular.

    A buffer is circular if all accesses take the index in one dimension modulo the size of this dimension.
    """
    writers = scope.writers(buffer)
    if len(writers) != 1 or all(it.kind != ex.OPAQUE for it in writers[0].block.iter_vars):
        return None
    stores = [s for s in ex.find(writers[0], BufferStore) if s.buffer is buffer]
    accesses = [*stores, *(l for l in ex.find(scope.realize, BufferLoad) if l.buffer is buffer)]
    for dim, size in enumerate(buffer.shape):
        if not all(_is_remainder(access.indices[dim], size) for access in accesses):
            continue
        analyzer = Analyzer.inside(*writers[0].block.iter_vars)
        ends = [analyzer.bounds(_element(s.indices[dim]))[1] for s in stores]
        constants = [bound for bound in ends if isinstance(bound, int)]
        if len(constants) == len(ends):
            shape = tuple(ex.const(max(constants) + 1, d.dtype) if k == dim else d for k, d in enumerate(buffer.shape))
            return Fold(buffer, dim, writers[0], replace_shape(buffer, shape))
    return None


def replace_shape(buffer: Buffer, shape: tuple[ex.Expr, ...]) -> Buffer:
    """Return a copy of a buffer with a different shape."""
    return Buffer(buffer.name, shape, buffer.dtype, buffer.scope, align=buffer.align, device=buffer.device)


def _is_remainder(index: ex.Expr, size: ex.Expr) -> bool:
    return isinstance(index, ex.FloorMod) and isinstance(size, ex.IntImm) and is_const(index.b, size.value)


def _element(index: ex.Expr) -> ex.Expr:
    return index.a if isinstance(index, ex.FloorMod) else index


def _whole(r: ex.Range) -> ex.Range:
    return ex.Range(_element(r.start), r.extent)


def unfold(scope: Scope, folds: Collection[Fold]) -> PrimFunc:
    """Return the scope's function with the buffers in `folds` no longer circular. Their writers compute full windows
    again.
    """
    changes: dict[Stmt, Stmt | None] = {}
    for realize in scope.blocks:
        changed = realize
        for fold in folds:
            changed = with_dimension(changed, fold.buffer, fold.whole, fold.dim, _whole, (ex.OPAQUE, ex.SPATIAL))
        if changed is not realize:
            changed = ex.replace(changed, block=with_declared_regions(changed.block))
        if any(fold.writer is realize for fold in folds):
            changed = ex.replace(
                changed, predicate=all_of([c for c in conjuncts(changed.predicate) if not isinstance(c, ex.Or)])
            )
        if changed is not realize:
            changes[realize] = changed
    func: PrimFunc = scope.tree.rebuild(changes)
    root = scope.realize.block
    wholes = {fold.buffer: fold.whole for fold in folds}

    def allocate(node: ex.Node) -> ex.Node | None:
        if isinstance(node, BlockRealize) and node.block.id == root.id:
            allocated = tuple(wholes.get(b, b) for b in node.block.alloc_buffers)
            return ex.replace(node, block=ex.replace(node.block, alloc_buffers=allocated))
        return None

    unfolded: PrimFunc = ex.rewrite(func, allocate)
    return unfolded


def with_dimension(
    realize: BlockRealize,
    old: Buffer,
    new: Buffer,
    dim: int,
    moved: Callable[[ex.Range], ex.Range],
    kinds: tuple[str, str],
) -> BlockRealize:
    """Return a block that accesses `new` instead of `old`. `moved` maps the range of an access in dimension `dim`; the
    iterators that it uses change from the first of `kinds` to the second.
    """
    used: set[ex.Var] = set()

    def change(box: Box) -> Box:
        used.update(ex.free_vars(box[dim]))
        return (*box[:dim], moved(box[dim]), *box[dim + 1 :])

    changed = with_buffer(realize, old, new, change)
    assert isinstance(changed, BlockRealize)
    if changed is realize:
        return realize
    before, now = kinds
    iters = tuple(
        ex.replace(it, kind=now) if it.kind == before and it.var in used else it for it in changed.block.iter_vars
    )
    return ex.replace(changed, block=ex.replace(changed.block, iter_vars=iters))
