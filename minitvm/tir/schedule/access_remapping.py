"""Give a buffer another layout: every access to the old buffer becomes an access to the new one at the
mapped indices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ... import expr as ex
from ...arith import Analyzer
from .. import nodes as tir
from ..analysis import block_regions
from ..analysis.tree import Tree
from ..conditions import conjuncts, is_const
from ..index_map import IndexMap
from ..index_sums import with_remainders_inside
from ..op import if_then_else
from .state import nest_around

Mapped = Callable[[Sequence[ex.Expr]], Sequence[ex.Expr]]

SIDES = {"read": block_regions.numbered_reads, "write": block_regions.numbered_writes}


def chosen_region(block: tir.BlockRealize, buffer: object) -> tir.BufferRegion | None:
    """Return the region of a block that `buffer` selects: ("read", i), ("write", i), the name of a buffer, or the
    buffer itself.

    Returns None if there is no such region.
    """
    reads, writes = (regions(block.block) for regions in SIDES.values())
    if isinstance(buffer, list | tuple) and len(buffer) == 2 and buffer[0] in SIDES:
        regions, position = SIDES[buffer[0]](block.block), buffer[1]
        return regions[position] if isinstance(position, int) and 0 <= position < len(regions) else None
    named = [
        r for r in (*reads, *writes) if r.buffer is buffer or (isinstance(buffer, str) and r.buffer.name == buffer)
    ]
    return named[0] if named and all(r.buffer is named[0].buffer for r in named) else None


def relaid(stmt: Any, old: tir.Buffer, new: tir.Buffer, mapped: Mapped) -> Any:
    """Return a statement in which each access to `old` becomes an access to `new` at `mapped(indices)`, simplified.

    The signatures of the blocks change accordingly, except that no regions are added to a root block.
    """
    root = stmt.block if isinstance(stmt, tir.BlockRealize) else None
    domains: dict[ex.Var, ex.Range] = {}

    def go(node: Any) -> Any:
        if isinstance(node, tir.For):
            domains[node.var] = ex.Range(node.start, node.extent)
        elif isinstance(node, tir.Block):
            domains.update((it.var, it.dom) for it in node.iter_vars)
        visible = isinstance(node, tir.Block) and node is not root and old in block_regions.buffers_touched(node)
        rebuilt = ex.map_children(node, go)
        if isinstance(rebuilt, tir.BufferLoad | tir.BufferStore) and rebuilt.buffer is old:
            return ex.replace(rebuilt, buffer=new, indices=tuple(_simple(i, domains) for i in mapped(rebuilt.indices)))
        if isinstance(rebuilt, tir.BufferRegion) and rebuilt.buffer is old:
            return new.full_region()
        return _with_regions(rebuilt, old, new, domains) if visible else rebuilt

    return go(stmt)


def _simple(index: ex.Expr, domains: Mapping[ex.Var, ex.Range]) -> ex.Expr:
    """Simplify a new index as TVM does: some parts that have only a single value stay in the index.

    TVM keeps a variable if it is the whole index, or if it is divided by a constant larger than its extent. For
    example, `v // 4` is kept for a `v` with three values, although it is always 0.
    """
    plain = Analyzer().simplify(index)
    if isinstance(plain, ex.Var):
        return plain
    kept: set[ex.Var] = set()
    for part in ex.walk(plain):
        if isinstance(part, ex.FloorDiv | ex.FloorMod) and isinstance(part.a, ex.Var) and part.a in domains:
            extent = domains[part.a].extent
            if isinstance(extent, ex.IntImm) and isinstance(part.b, ex.IntImm) and extent.value < part.b.value:
                kept.add(part.a)
    analyzer = Analyzer({v: domains[v] for v in ex.free_vars(index) if v in domains and v not in kept})
    return with_remainders_inside(analyzer.simplify(index))


def _with_regions(block: tir.Block, old: tir.Buffer, new: tir.Buffer, domains: Mapping[ex.Var, ex.Range]) -> tir.Block:
    def change(region: tir.BufferRegion) -> tir.BufferRegion:
        if region.buffer is old:
            # The block hands out the address of `old`, which cannot follow: `addresses_follow` refuses the step.
            return new.full_region()
        if region.buffer is not new:
            return region
        sides = zip(region.region, new.shape, strict=True)
        return tir.BufferRegion(new, tuple(_plain(r, dim, domains) for r, dim in sides))

    reads, writes = block_regions.regions_touched(block)
    return ex.replace(block, reads=tuple(map(change, reads)), writes=tuple(map(change, writes)))


def _plain(r: ex.Range, dim: ex.Expr, domains: Mapping[ex.Var, ex.Range]) -> ex.Range:
    """Simplify a range. If it would become the minimum or maximum of several bounds, return the full
    dimension instead.
    """
    if any(isinstance(part, ex.Min | ex.Max) for part in (*ex.walk(r.start), *ex.walk(r.extent))):
        return ex.Range(ex.const(0, dim.dtype), dim)
    return ex.Range(_simple(r.start, domains), _simple(r.extent, domains))


def point_block(
    name: str,
    shape: Sequence[ex.Expr],
    body: Callable[[tuple[ex.Var, ...]], tir.BufferStore],
    predicate: Callable[[tuple[ex.Var, ...]], ex.Expr] | None = None,
    loop_name: str = "ax",
) -> tir.Stmt:
    """Return `for ax0, ... in grid(*shape): with block(name): body(v0, ...)`, where the iterators cover the whole
    shape.
    """
    loops = [ex.Var(f"{loop_name}{d}", dim.dtype) for d, dim in enumerate(shape)]
    iters = tuple(
        ex.IterVar(ex.Var(f"v{d}", dim.dtype), ex.Range(ex.const(0, dim.dtype), dim)) for d, dim in enumerate(shape)
    )
    store = body(tuple(it.var for it in iters))
    block = block_regions.with_declared_regions(tir.Block(iters, (), (), name, store))
    condition = ex.const(True) if predicate is None else predicate(tuple(loops))
    return nest_around(tir.BlockRealize(tuple(loops), condition, block), loops, shape)


def in_old_layouts(func: tir.PrimFunc, moved: Mapping[tir.Buffer, tuple[tir.Buffer, IndexMap]]) -> tir.PrimFunc:
    """Return the function with its parameters in their old layouts, with code that copies them to the new layouts and
    back.

    `moved` maps each current parameter to (the old parameter, the map from the old to the new layout). The result lets
    the oracle compare a function whose parameters have changed with its old version.
    """
    root = tir.root_block(func)
    stored = {node.buffer for node in ex.find(func.body, tir.BufferStore)}
    before: list[tir.Stmt] = []
    after: list[tir.Stmt] = []
    for now, (was, index_map) in moved.items():

        def copied_in(
            v: tuple[ex.Var, ...], now: tir.Buffer = now, was: tir.Buffer = was, m: IndexMap = index_map
        ) -> tir.BufferStore:
            return tir.BufferStore(now, tir.BufferLoad(was, v), tuple(m.map_indices(v)))

        def copied_out(
            v: tuple[ex.Var, ...], now: tir.Buffer = now, was: tir.Buffer = was, m: IndexMap = index_map
        ) -> tir.BufferStore:
            return tir.BufferStore(was, tir.BufferLoad(now, tuple(m.map_indices(v))), v)

        # By default, the oracle passes empty arrays for the buffers that the function writes: there is nothing to copy.
        if now not in stored:
            before.append(point_block(f"{was.name}_in", was.shape, copied_in))
        if now in stored:
            after.append(point_block(f"{was.name}_out", was.shape, copied_out))
    body = tir.Seq.of(*before, root.body, *after)
    block = block_regions.with_declared_regions(
        ex.replace(root, body=body, alloc_buffers=(*root.alloc_buffers, *moved))
    )
    params = tuple(moved[p][0] if isinstance(p, tir.Buffer) and p in moved else p for p in func.params)
    assert isinstance(func.body, tir.BlockRealize)  # root_block
    return tir.PrimFunc(params, ex.replace(func.body, block=block), func.attrs)


def with_simple_indices(node: Any, analyzer: Analyzer) -> Any:
    """Simplify the indices of all accesses in a node, and its regions; `analyzer` must know the loops
    around the node.
    """

    def go(at: Any) -> Any:
        if isinstance(at, tir.For):
            analyzer.bind(at)
        elif isinstance(at, tir.Block):
            for it in at.iter_vars:
                analyzer.bind(it)
        rebuilt = ex.map_children(at, go)
        if isinstance(rebuilt, tir.BufferLoad | tir.BufferStore):
            return ex.replace(rebuilt, indices=tuple(analyzer.simplify(i) for i in rebuilt.indices))
        if isinstance(rebuilt, tir.BufferRegion):
            return ex.replace(rebuilt, region=tuple(analyzer.simplify(r) for r in rebuilt.region))
        return rebuilt

    return go(node)


# --- The writer of a buffer whose new layout has padding: its loops run over the new shape, padding included.


def whole_nest(tree: Tree, producer: tir.BlockRealize, buffer: tir.Buffer) -> tir.For | None:
    """Return the outermost loop of the nest of `producer`, if this nest does nothing but store each element of a buffer
    once; None otherwise.
    """
    # Iterations are independent: the block writes this buffer only, each element once, and does not read it.
    store, block = producer.block.body, producer.block
    plain = isinstance(store, tir.BufferStore) and block.init is None and not block.alloc_buffers
    if not plain or conjuncts(producer.predicate) or buffer in block_regions.buffers_read(block):
        return None
    assert isinstance(store, tir.BufferStore)
    loops = tree.loops_above(producer)
    if not loops or len(loops) != len(producer.iter_values) or len(store.indices) != len(loops):
        return None
    if any(l.kind != tir.ForKind.SERIAL or l.annotations or l.var in ex.free_vars(block) for l in loops):
        return None
    chained = [*loops[1:], producer]
    if any(loop.body is not inner for loop, inner in zip(loops, chained, strict=True)):
        return None
    analyzer = Analyzer()
    loop_of = {loop.var: loop for loop in loops}
    axis_of = {it.var: (it, v) for it, v in zip(block.iter_vars, producer.iter_values, strict=True)}
    seen: set[ex.Var] = set()
    for index, dim in zip(store.indices, buffer.shape, strict=True):
        if not isinstance(index, ex.Var) or index not in axis_of or index in seen:
            return None
        seen.add(index)
        it, value = axis_of[index]
        if it.kind != ex.SPATIAL or not isinstance(value, ex.Var) or value not in loop_of:
            return None
        loop = loop_of[value]
        whole = is_const(loop.start, 0) and is_const(it.dom.start, 0)
        if not whole or not all(analyzer.can_prove_equal(e, dim) for e in (loop.extent, it.dom.extent)):
            return None
    return loops[0]


def over_new_shape(
    producer: tir.BlockRealize,
    new: tir.Buffer,
    there: IndexMap,
    back: IndexMap,
    where: ex.Expr,
    pad: Callable[[Sequence[ex.Expr]], ex.Expr],
) -> tir.Stmt:
    """Return the producer as a nest over the shape of `new`. The nest stores the value of `pad` in the padding, and the
    producer's value elsewhere.
    """
    store = producer.block.body
    assert isinstance(store, tir.BufferStore)  # whole_nest
    # An index that stays keeps its name.
    names = [e.name if isinstance(e, ex.Var) else f"axis{k}" for k, e in enumerate(there.final_indices)]
    loops = [ex.Var(name, d.dtype) for name, d in zip(names, new.shape, strict=True)]
    domains = [ex.Range(ex.const(0, d.dtype), d) for d in new.shape]
    iters = tuple(ex.IterVar(ex.Var(f"v_{l.name}", l.dtype), r) for l, r in zip(loops, domains, strict=True))
    here = tuple(it.var for it in iters)
    elements: dict[ex.Var, ex.Expr] = {
        index: value
        for index, value in zip(store.indices, back.map_indices(here), strict=True)
        if isinstance(index, ex.Var)
    }
    padding = ex.substitute(where, dict(zip(back.initial_indices, here, strict=True)))
    value = if_then_else(padding, pad(here), ex.substitute(store.value, elements))
    block = block_regions.with_declared_regions(
        ex.replace(producer.block, iter_vars=iters, body=tir.BufferStore(new, value, here))
    )
    return nest_around(ex.replace(producer, iter_values=tuple(loops), block=block), loops, new.shape)


def with_allocation(body: Any, old: tir.Buffer, new: tir.Buffer) -> Any:
    """Return a statement in which the block that allocated `old` allocates `new` instead."""

    def change(node: ex.Node) -> ex.Node | None:
        if isinstance(node, tir.Block) and old in node.alloc_buffers:
            return ex.replace(node, alloc_buffers=tuple(new if b is old else b for b in node.alloc_buffers))
        return None

    return ex.rewrite(body, change)
