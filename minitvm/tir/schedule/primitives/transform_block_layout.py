"""transform_block_layout: give a block new iterators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ....arith import Analyzer
from ....errors import MinitvmError
from ....expr import OPAQUE, Expr, IntImm, IterVar, Node, Range, Var, const, free_vars, replace, substitute
from ...analysis.dependences import accesses, reordered, touched_once
from ...analysis.tree import Tree
from ...conditions import conjuncts, is_const
from ...index_map import IndexMap
from ...nodes import BlockRealize, For, ForKind, Stmt
from .. import programs as on
from .. import requirements as req
from ..access_remapping import with_simple_indices
from ..registry import Failure, primitive, requirement
from ..state import ScheduleState, nest_around
from .transform_layout import fitting_map, made_map


def _nest(tree: Tree, block: BlockRealize) -> list[For] | None:
    """Return the loops around a block if they form a perfect nest around it, otherwise None."""
    loops = tree.loops_above(block)
    inside: list[Stmt] = [*loops[1:], block]
    return loops if loops and all(loop.body is inner for loop, inner in zip(loops, inside, strict=True)) else None


@requirement
def alone_in_its_nest(state: ScheduleState, block: BlockRealize) -> Failure | None:
    """the loops around the block contain nothing else, are serial, start at 0 and have no annotations"""
    tree = state.home(block)
    loops = tree.loops_above(block)
    if _nest(tree, block) is None:
        fault = "other statements in its loops" if loops else "no loop around it"
        return Failure({block.block: "this block"}, "loops that hold this block and nothing else", fault)
    for loop in loops:
        if loop.kind != ForKind.SERIAL or loop.annotations or not is_const(loop.start, 0):
            kind = f"annotated ({', '.join(loop.annotations)})" if loop.annotations else str(loop.kind)
            fault = f"{loop.var.name} starts at {loop.start}" if not is_const(loop.start, 0) else f"it is {kind}"
            return Failure({loop: "this loop"}, "a serial loop from 0 without annotations", fault)
    return None


@requirement
def loops_are_iterators(state: ScheduleState, block: BlockRealize) -> Failure | None:
    """each iterator is bound to one loop and covers its whole domain; each loop is bound to one iterator; there is no
    predicate
    """
    loops = {loop.var: loop for loop in state.home(block).loops_above(block)}
    if conjuncts(block.predicate):
        return Failure({block: "this predicate"}, "a block without predicate", str(block.predicate))
    left = dict(loops)
    analyzer = Analyzer()
    for it, value in zip(block.block.iter_vars, block.iter_values, strict=True):
        loop = left.pop(value, None) if isinstance(value, Var) else None
        if loop is None:
            return Failure(
                {block.block: "its bindings"}, "a loop of its own for every iterator", f"{it.var.name} = {value}"
            )
        if not is_const(it.dom.start, 0) or not analyzer.can_prove_equal(loop.extent, it.dom.extent):
            domain = f"[{it.dom.start}, {it.dom.start + it.dom.extent})"
            spots: dict[Node, str] = {loop: "this loop", block.block: f"{it.var.name} in {domain}"}
            expected = "a loop over the iterator's whole domain"
            return Failure(spots, expected, f"{loop.var.name} in [0, {loop.extent})")
    if left:
        loop = next(iter(left.values()))
        return Failure({loop: "this loop"}, "loops that are the value of an iterator", f"{loop.var.name} is none")
    return None


@requirement
def map_fits_iterators(state: ScheduleState, block: BlockRealize, index_map: Callable[..., Any]) -> Failure | None:
    """the map takes one index for each iterator of the block, and returns at least one index

    The new indices depend only on the old ones and on the sizes of the function.
    """
    count = len(block.block.iter_vars)
    return fitting_map(state.home(block), index_map, count, f"{block.block.name} has {count} iterators", block.block)


def _extents(block: BlockRealize) -> list[Expr]:
    return [it.dom.extent for it in block.block.iter_vars]


@requirement
def bijective_map(state: ScheduleState, block: BlockRealize, index_map: Callable[..., Any]) -> Failure | None:
    """the map is a bijection from the iteration domain to a domain of the same size, and its inverse is known"""
    mapping = made_map(index_map, len(block.block.iter_vars))
    expected = "a bijective quasi-affine map"
    try:
        mapping.inverse(_extents(block))
    except MinitvmError as error:
        domain = ", ".join(map(str, _extents(block)))
        return Failure({block.block: f"iterates over ({domain})"}, expected, str(error).split("\n")[0])
    return None


def _kinds(block: BlockRealize, mapping: IndexMap) -> list[str | tuple[str, ...]]:
    """Return the kind of each new iterator, or a tuple of kinds if it mixes iterators of several kinds."""
    by_var = dict(zip(mapping.initial_indices, block.block.iter_vars, strict=True))
    analyzer = Analyzer()
    new_kinds: list[str | tuple[str, ...]] = []
    for e in mapping.final_indices:
        used = [by_var[v] for v in free_vars(e) if v in by_var]
        # An iterator of one value decides nothing, unless there is no other.
        moving = [it for it in used if not analyzer.can_prove(it.dom.extent <= 1)] or used
        kinds = tuple(dict.fromkeys(it.kind for it in moving))
        new_kinds.append(kinds[0] if len(kinds) == 1 else kinds or "S")
    return new_kinds


@requirement
def kinds_stay_apart(state: ScheduleState, block: BlockRealize, index_map: Callable[..., Any]) -> Failure | None:
    """each new iterator comes either only from spatial or only from reduction iterators; no iterator is opaque"""
    mapping = made_map(index_map, len(block.block.iter_vars))
    for e, kind in zip(mapping.final_indices, _kinds(block, mapping), strict=True):
        if isinstance(kind, tuple) or kind == OPAQUE:
            names = {"S": "spatial", "R": "reduction", "O": "opaque"}
            text = " and ".join(names[k] for k in kind)
            return Failure(
                {block.block: "its iterators"},
                "new iterators that are spatial or reduction",
                f"{e} comes from {text} ones",
            )
    return None


@requirement
def order_of_accesses(state: ScheduleState, block: BlockRealize, index_map: Callable[..., Any]) -> Failure | None:
    """no value is read or overwritten out of order

    Suppose that access a in iteration p and access b in a later iteration q touch the same element, and that at least
    one of the two is a write. Then map(p) comes before map(q).
    """
    mapping = made_map(index_map, len(block.block.iter_vars))
    tree = state.home(block)
    loops = tree.loops_above(block)
    outer = [l for l in tree.all_loops_above(block) if l not in loops]
    above = [l.var for l in outer]
    touches = accesses(tree, block)
    new = mapping.map_indices(block.iter_values)
    witness = reordered(
        touches, [*above, *(l.var for l in loops)], [*above, *new],
        settled=lambda a, b: a is b and touched_once(outer, a),
    )  # fmt: skip
    if witness is None:
        return None
    return req.witnessed(touches, witness, f"in the order of ({', '.join(map(str, new))}) the second comes first")


@primitive(
    past="was replaced in",
    requires=[
        req.own_iterators, alone_in_its_nest, loops_are_iterators, map_fits_iterators, bijective_map, kinds_stay_apart,
        order_of_accesses,
    ],
)  # fmt: skip
def transform_block_layout(state: ScheduleState, block: BlockRealize, index_map: Callable[..., Any]) -> None:
    """Run a block in new loops: `index_map` maps each old iteration to a new one.

    before:
        for i, j in T.grid(8, 16):
            with T.block("B"): B[vi, vj] = A[vi, vj] * 2.0
    call: `sch.transform_block_layout("B", lambda i, j: (i * 16 + j,))`
    after:
        for axis0 in range(128):
            with T.block("B"):
                v0 = T.axis.spatial(128, axis0)
                B[v0 // 16, v0 % 16] = A[v0 // 16, v0 % 16] * 2.0

    The block stores the same values to the same elements, but in other iterations.
    """
    mapping = made_map(index_map, len(block.block.iter_vars))
    tree = state.home(block)
    extents = _extents(block)
    shape = mapping.map_shape(extents)
    back = mapping.inverse(extents)
    loops = [Var(f"axis{k}", d.dtype) for k, d in enumerate(shape)]
    iters = tuple(
        IterVar(Var(f"v{k}", d.dtype), Range(const(0, d.dtype), d), str(kind))
        for k, (d, kind) in enumerate(zip(shape, _kinds(block, mapping), strict=True))
    )
    values = dict(
        zip((it.var for it in block.block.iter_vars), back.map_indices([it.var for it in iters]), strict=True)
    )
    moved = replace(substitute(block.block, values), iter_vars=iters)
    moved = with_simple_indices(moved, state.analyzer(tree.scope(block)))
    nest = nest_around(replace(block, iter_values=tuple(loops), block=moved), loops, shape)
    state.replace({tree.loops_above(block)[0]: nest})


_RECURRENCE = """
for i, j in T.grid(8, 8):
    with T.block("A"): A[vi + 1, vj] = A[vi, vj] + 1.0
"""
transform_block_layout.refuses(
    req.own_iterators, "sch.transform_block_layout('B', lambda i: (i // 4, i % 4))", on.LOOP_IN_THE_BODY
)
transform_block_layout.refuses(
    alone_in_its_nest, "sch.transform_block_layout('C', lambda i: (i // 2, i % 2))", on.TWICE_IN_A_NEST
)
transform_block_layout.refuses(
    loops_are_iterators, "sch.transform_block_layout('A', lambda i: (i // 2, i % 2))", on.TAIL
)
transform_block_layout.refuses(
    map_fits_iterators, "sch.transform_block_layout('B', lambda i: (i // 2, i % 2))", on.SCALED
)
transform_block_layout.refuses(
    bijective_map, "sch.transform_block_layout('B', lambda i, j: (i // 3, i % 3, j))", on.SCALED
)
transform_block_layout.refuses(
    kinds_stay_apart, "sch.transform_block_layout('C', lambda i, j, k: (i, j * 4 + k))", on.MATMUL
)
transform_block_layout.refuses(
    order_of_accesses, "sch.transform_block_layout('A', lambda i, j: (7 - i, j))", _RECURRENCE
)


@transform_block_layout.space
def _transform_block_layout_space(state: ScheduleState) -> Iterator[tuple[Any, ...]]:
    tree = state.tree()
    for block in tree.blocks.values():
        if not block.block.iter_vars:
            continue
        for function in _reorderings(_extents(block)):
            yield block, IndexMap.from_func(function, ndim=len(block.block.iter_vars))


def _reorderings(extents: list[Expr]) -> Iterator[Callable[..., Any]]:
    """Yield maps to iteration spaces of other shapes. They depend only on their indices and constant extents."""
    yield lambda *i: (*i[:-1], i[-1] // 2, i[-1] % 2)
    yield lambda *i: i[::-1]
    if isinstance(extents[0], IntImm):
        yield lambda *i: (extents[0] - 1 - i[0], *i[1:])
    if len(extents) > 1 and isinstance(extents[1], IntImm):
        yield lambda *i: (i[0] * extents[1] + i[1], *i[2:])
        yield lambda *i: (i[1] % 2, *i[2:], i[0], i[1] // 2)
