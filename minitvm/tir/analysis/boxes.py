"""Compute boxes for schedules: the elements that a block touches while some of its loops run and the outer ones stay
fixed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ... import expr as ex
from ...arith import Analyzer, regions
from .. import nodes as tir
from ..conditions import all_of, conjuncts, is_const
from .bindings import loop_ranges
from .tree import Tree

Box = tuple[ex.Range, ...]


def relax(box: Box, loops: Sequence[tir.For], analyzer: Analyzer, buffer: tir.Buffer) -> Box:
    """Return the box that `box` covers while `loops` (outermost first) run. A dimension without known bounds becomes
    the full dimension.
    """
    return swept(box, loop_ranges(loops), analyzer, buffer)


def swept(box: Box, domains: Mapping[ex.Var, ex.Range], analyzer: Analyzer, buffer: tir.Buffer) -> Box:
    """Like `relax`, but for variables that run over `domains`."""
    with analyzer.constraint():
        return regions.swept(box, regions.Moving(domains, analyzer), buffer.full_region().region, analyzer)


def clip(box: Box, buffer: tir.Buffer, analyzer: Analyzer) -> Box:
    """Return the part of a box that is inside the buffer. The box is only cut where it provably reaches outside; the
    result may be empty.

    If the result covers a whole axis, its range has exactly the extent of the axis, even if this extent may be
    negative, such as `(n - 3) // 2 + 1` results of a convolution. Legal: an axis with a negative extent has no element,
    and a loop over it has no iteration.
    """
    clipped = []
    for r, dim in zip(box, buffer.shape, strict=True):
        start, end = r.start, r.start + r.extent
        if analyzer.can_prove(start <= 0):
            start = ex.const(0, dim.dtype)
        if analyzer.can_prove(end >= dim):
            end = dim
        if start is r.start and end is not dim:
            clipped.append(r)
            continue
        extent = analyzer.simplify(end - start)
        whole = end is dim and is_const(start, 0)
        if not whole and not analyzer.can_prove(extent >= 0):
            extent = analyzer.simplify(ex.binary(ex.Max, extent, 0))
        clipped.append(ex.Range(start, extent))
    return tuple(clipped)


def bound_box(realize: tir.BlockRealize, region: tir.BufferRegion) -> Box:
    """Return a region from a block's signature as a function of the loops around the block."""
    bindings = dict(zip((it.var for it in realize.block.iter_vars), realize.iter_values, strict=True))
    return tuple(ex.substitute(r, bindings) for r in region.region)


def touched(
    tree: Tree, realize: tir.BlockRealize, region: tir.BufferRegion, within: tir.Stmt | None, analyzer: Analyzer
) -> Box:
    """Return the box that a block touches in one iteration of the loop `within`; if `within` is None, in one run of its
    scope.
    """
    loops = tree.loops_above(realize)
    if isinstance(within, tir.For) and within in loops:
        loops = loops[loops.index(within) + 1 :]
    return relax(bound_box(realize, region), loops, analyzer, region.buffer)


def hull(boxes: Sequence[Box], analyzer: Analyzer) -> Box:
    """Return the smallest box that contains all `boxes`."""
    return regions.hull_of(list(boxes), analyzer)


def with_buffer(node: ex.Node, old: tir.Buffer, new: tir.Buffer, moved: Callable[[Box], Box]) -> ex.Node:
    """Replace `old` by `new` in all loads, stores and regions; addresses stay those of `old`.

    `moved` maps a box of `old` to the box of `new` that holds its elements.
    """

    def change(at: ex.Node) -> ex.Node | None:
        if isinstance(at, tir.BufferRegion) and at.buffer is old:
            return ex.replace(at, buffer=new, region=moved(at.region))
        if isinstance(at, tir.BufferLoad | tir.BufferStore) and at.buffer is old:
            box = tuple(ex.Range(i, ex.const(1)) for i in at.indices)
            return ex.replace(at, buffer=new, indices=tuple(r.start for r in moved(box)))
        return None

    changed: ex.Node = ex.rewrite(node, change)
    return changed


def in_iterators(tree: Tree, realize: tir.BlockRealize) -> ex.Expr | None:
    """Express a block's predicate as a condition on its iterators, leaving out parts that follow from their domains.
    Return None if this is not possible.

    For example, a split makes predicates such as `i_0 * 32 + i_1 < 100`. With `v_i = i_0 * 32 + i_1` this is `v_i <
    100`.
    """

    analyzer = Analyzer.inside(*tree.all_loops_above(realize))
    own = {loop.var for loop in tree.loops_above(realize)}
    kept: list[ex.Expr] = []
    inside = Analyzer.inside(*realize.block.iter_vars)
    for condition in conjuncts(realize.predicate):
        said = _by_iterators(condition, realize, analyzer, own)
        if said is None:
            return None
        if not inside.can_prove(said):
            kept.append(said)
    return all_of(kept)


def _by_iterators(
    condition: ex.Expr, realize: tir.BlockRealize, analyzer: Analyzer, loops: set[ex.Var]
) -> ex.Expr | None:
    from ...expr import CompareOp

    pairs = zip(realize.block.iter_vars, realize.iter_values, strict=True)
    alone: dict[ex.Var, ex.Expr] = {v: it.var for it, v in pairs if isinstance(v, ex.Var) and v in loops}
    renamed: ex.Expr = ex.substitute(condition, alone)
    if not any(v in loops for v in ex.free_vars(renamed)):
        return renamed
    if not isinstance(condition, CompareOp):
        return None
    for it, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
        for left in (condition.a, condition.b):
            other = condition.b if left is condition.a else condition.a
            rest = analyzer.simplify(left - value)
            if any(v in loops for v in (*ex.free_vars(rest), *ex.free_vars(other))):
                continue
            said = it.var + rest
            return type(condition)(said, other) if left is condition.a else type(condition)(other, said)
    return None
