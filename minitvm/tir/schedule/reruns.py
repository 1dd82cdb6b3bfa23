"""Check that a block can run in other loops, which means that it runs the same iterations and computes the same values.

A block's domain says which values its iterators may have; its bindings say which values they do have. New loops run
over the domains.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...arith import Analyzer, iter_map, regions
from ...expr import REDUCE, SPATIAL, Expr, IntImm, Mul, Range, Var
from ..analysis import bindings
from ..analysis.block_regions import buffers_written, regions_written
from ..analysis.tree import Tree
from ..conditions import is_const
from ..nodes import BlockRealize
from .moving import run_through


def why_other_iterations(
    tree: Tree, realize: BlockRealize, ranges: Mapping[Var, Range], analyzer: Analyzer
) -> str | None:
    """Return None if a block may run in loops over `ranges` (or over its domains) instead of its own loops, otherwise
    the reason.

    `analyzer` knows the loops at the new location. Predicates are not considered, because the block keeps its own.
    """
    block, loops = realize.block, tree.loops_above(realize)
    here = Analyzer.inside(*tree.all_loops_above(realize))
    if not bindings.covers_domain(realize, loops, here) and block.iter_vars:
        reason = _why_outside(tree, realize, dict(ranges), here, analyzer)
        if reason is not None:
            return reason
    if not writes_once(realize):
        reason = _why_another_order(realize, tree)
        if reason is not None:
            return reason
    if block.init is None:
        return None
    reduced = bindings.loops_binding(realize, REDUCE)
    first = next((k for k, l in enumerate(loops) if l.var in reduced), len(loops))
    return bindings.why_not_injective(realize, loops[first:], here) or bindings.why_not_started_first(
        realize, loops, here
    )


def _why_outside(
    tree: Tree, realize: BlockRealize, ranges: dict[Var, Range], here: Analyzer, there: Analyzer
) -> str | None:
    iterators, loops = realize.block.iter_vars, tree.loops_above(realize)
    shown = ", ".join(f"{it.var.name} = {v}" for it, v in zip(iterators, realize.iter_values, strict=True))
    if not bindings.reaches_every_point(realize.iter_values, bindings.loop_ranges(loops), here):
        return f"{shown} leave out points of the domain"
    reached = regions.evaluate(realize.iter_values, bindings.loop_ranges(loops), here)
    for d, it in enumerate(iterators):
        needed = regions.intersect((run_through(it, ranges, there),), (it.dom,), there)
        if d in reached.unbounded or not regions.covers((reached.box[d],), needed, there):
            end = there.simplify(needed[0].start + needed[0].extent)
            return f"{it.var.name} = {realize.iter_values[d]} is not shown to reach all of [{needed[0].start}, {end})"
    return None


def writes_once(realize: BlockRealize) -> bool:
    """Return whether the block writes each element for at most one combination of spatial iterator values."""
    spatial = [it for it in realize.block.iter_vars if it.kind == SPATIAL and not is_const(it.dom.extent, 1)]
    domains = {it.var: it.dom for it in spatial}
    for region in regions_written(realize.block):
        tiles = [_tile_of(r) if is_const(r.extent, 1) or r.start not in domains else None for r in region.region]
        if not domains.keys() - set(tiles):
            continue
        if any(not is_const(r.extent, 1) for r in region.region):
            return False
        if not iter_map.detect([Analyzer().simplify(r.start) for r in region.region], domains, level="injective"):
            return False
    return True


def _tile_of(r: Range) -> Var | None:
    """Return the variable `v` if a range has the form [v, v + 1) or [v * c, v * c + c); None otherwise."""
    if isinstance(r.start, Var):
        return r.start if isinstance(r.extent, IntImm) and r.extent.value >= 1 else None
    start = r.start
    if (
        isinstance(start, Mul)
        and isinstance(start.a, Var)
        and isinstance(start.b, IntImm)
        and isinstance(r.extent, IntImm)
    ):
        return start.a if start.b.value == r.extent.value else None
    return None


def _why_another_order(realize: BlockRealize, tree: Tree) -> str | None:
    # The new loops run through the iterators from first to last, the first the outermost.
    order: list[Expr] = [loop.var for loop in tree.loops_above(realize)]
    values = [
        v for v, it in zip(realize.iter_values, realize.block.iter_vars, strict=False) if not is_const(it.dom.extent, 1)
    ]
    places = [order.index(v) for v in values if v in order]
    if len(places) == len(values) and places == sorted(set(places)):
        return None
    name = buffers_written(realize.block)[0].name
    return f"iterations of {realize.block.name} that write one element of {name} would run in another order"
