"""The writer of a buffer whose new layout has padding: its loops run over the new shape, padding included."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...arith import Analyzer
from ...expr import SPATIAL, Expr, IterVar, Range, Var, const, free_vars, replace, substitute
from ..analysis.declared import with_declared_regions
from ..analysis.tree import Tree
from ..conditions import conjuncts, is_const
from ..index_map import IndexMap
from ..nodes import BlockRealize, Buffer, BufferStore, For, ForKind, Stmt
from ..op import if_then_else
from .state import nest_around


def whole_nest(tree: Tree, producer: BlockRealize, buffer: Buffer) -> For | None:
    """The loops of a block that stores every element once and does nothing else, as their outermost; else None."""
    # Iterations are independent: the block writes this buffer only, each element once, and does not read it.
    store, block = producer.block.body, producer.block
    plain = isinstance(store, BufferStore) and block.init is None and not block.alloc_buffers
    if not plain or conjuncts(producer.predicate) or any(r.buffer is buffer for r in block.reads):
        return None
    assert isinstance(store, BufferStore)
    loops = tree.loops_above(producer)
    if not loops or len(loops) != len(producer.iter_values) or len(store.indices) != len(loops):
        return None
    if any(l.kind != ForKind.SERIAL or l.annotations or l.var in free_vars(block) for l in loops):
        return None
    chained = [*loops[1:], producer]
    if any(loop.body is not inner for loop, inner in zip(loops, chained, strict=True)):
        return None
    analyzer = Analyzer()
    loop_of = {loop.var: loop for loop in loops}
    axis_of = {it.var: (it, v) for it, v in zip(block.iter_vars, producer.iter_values, strict=True)}
    seen: set[Var] = set()
    for index, dim in zip(store.indices, buffer.shape, strict=True):
        if not isinstance(index, Var) or index not in axis_of or index in seen:
            return None
        seen.add(index)
        it, value = axis_of[index]
        if it.kind != SPATIAL or not isinstance(value, Var) or value not in loop_of:
            return None
        loop = loop_of[value]
        whole = is_const(loop.start, 0) and is_const(it.dom.start, 0)
        if not whole or not all(analyzer.can_prove_equal(e, dim) for e in (loop.extent, it.dom.extent)):
            return None
    return loops[0]


def over_new_shape(
    producer: BlockRealize,
    new: Buffer,
    there: IndexMap,
    back: IndexMap,
    where: Expr,
    pad: Callable[[Sequence[Expr]], Expr],
) -> Stmt:
    """The producer over the places of the new shape: in the padding the pad value, elsewhere its own."""
    store = producer.block.body
    assert isinstance(store, BufferStore)  # whole_nest
    # An index that stays keeps its name.
    names = [e.name if isinstance(e, Var) else f"axis{k}" for k, e in enumerate(there.final_indices)]
    loops = [Var(name, d.dtype) for name, d in zip(names, new.shape, strict=True)]
    domains = [Range(const(0, d.dtype), d) for d in new.shape]
    iters = tuple(IterVar(Var(f"v_{l.name}", l.dtype), r) for l, r in zip(loops, domains, strict=True))
    here = tuple(it.var for it in iters)
    elements: dict[Var, Expr] = {
        index: value
        for index, value in zip(store.indices, back.map_indices(here), strict=True)
        if isinstance(index, Var)
    }
    padding = substitute(where, dict(zip(back.initial_indices, here, strict=True)))
    value = if_then_else(padding, pad(here), substitute(store.value, elements))
    block = with_declared_regions(replace(producer.block, iter_vars=iters, body=BufferStore(new, value, here)))
    return nest_around(replace(producer, iter_values=tuple(loops), block=block), loops, new.shape)
