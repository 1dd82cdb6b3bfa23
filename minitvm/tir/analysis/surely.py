"""Decide whether a block certainly touches all of a region, and whether it reads all of it before writing to it."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence

from ...arith import Analyzer
from ...expr import REDUCE, Expr, IntImm, Not, structural_equal, walk
from ..conditions import conjuncts
from ..nodes import Block, BlockRealize, Buffer, BufferRegion, BufferStore, For, ForKind, If, LetStmt, Stmt, While
from .bindings import covers_domain, loops_binding, runs_everywhere
from .boxes import in_iterators, relax, touched
from .effects import effects, guarded, holds
from .touches import Box, Touch
from .tree import Tree

_MOST_POINTS = 4096  # the most elements of a region that are checked one by one


def reaches_all(block: Block, region: BufferRegion, write: bool) -> bool:
    """Return whether each iteration of a block certainly touches all of a region: writes it if `write` is set, reads it
    otherwise.

    This is computed from the body, because declared regions are only upper bounds.
    """
    touched = effects(block, frozenset([region.buffer]))
    return all_touched(touched.writes if write else touched.reads, region, _inside(block))


def reads_before_writing(block: Block, region: BufferRegion) -> bool:
    """Return whether each iteration of a block certainly reads all of a region, and reads each element before writing
    it.
    """
    return all_touched(first_reads(block, region.buffer), region, _inside(block))


def first_reads(block: Block, buffer: Buffer) -> list[Touch]:
    """Return the reads of `buffer` in one iteration of a block that see values from before the iteration."""
    touched = effects(block, frozenset([buffer]))
    latest: dict[int, int] = {}  # the last position of each node in the program, and the first
    earliest: dict[int, int] = {}
    for k, node in enumerate(walk(block)):
        after = k + sum(1 for _ in walk(node)) if isinstance(node, BufferStore) else k  # after the value that it stores
        latest[id(node)] = after
        earliest.setdefault(id(node), after)
    return [
        read
        for read in touched.reads
        if all(
            latest[id(read.node)] < earliest[id(write.node)] and _comes_first(read, write) for write in touched.writes
        )
    ]


def _comes_first(read: Touch, write: Touch) -> bool:
    """Return whether a read that precedes a write in program order never sees a value from that write, not even from an
    earlier iteration of a loop around both.

    This holds if each iteration reads exactly the elements that it writes: the first iteration that touches an element
    then reads it first. All accesses of a foreign call are assumed to happen at the same time.
    """
    if isinstance(read.node, BufferRegion) is not isinstance(write.node, BufferRegion):
        return False
    shared = {l.var for l in read.loops} & {l.var for l in write.loops}
    return not shared or (None not in read.ranges and structural_equal(read.ranges, write.ranges))


def fills(
    tree: Tree, realize: BlockRealize, region: BufferRegion, within: Stmt | None, empty_sums: bool = True
) -> str | None:
    """Return None if a block writes every element of its box in each run of `within`, otherwise why this is not proved.

    If `empty_sums` is False, each sum that a block initialises (`T.init`) is assumed to have at least one term.
    """
    touches = effects(realize.block, frozenset([region.buffer])).writes
    return why_not_filled(tree, realize, touches, region, within, [] if empty_sums else _terms(tree, realize))


def _terms(tree: Tree, realize: BlockRealize) -> list[Expr]:
    """Return conditions under which each sum that a block initialises has at least one term."""
    if realize.block.init is None:
        return []
    summed = loops_binding(realize, (REDUCE,))
    return [loop.extent >= 1 for loop in tree.all_loops_above(realize) if loop.var in summed]


def writes_all(tree: Tree, realize: BlockRealize, buffer: Buffer, within: Stmt | None) -> bool:
    """Return whether a block certainly writes every element of a buffer in each run of `within`, assuming that its sums
    are not empty.
    """
    touches = [_around(t, tree, realize, within) for t in effects(realize.block, frozenset([buffer])).writes]
    analyzer = Analyzer.inside(*tree.all_loops_above(realize))
    with analyzer.constraint(*_terms(tree, realize)):
        return all_touched(touches, buffer.full_region(), analyzer)


def surely_written(
    tree: Tree, realize: BlockRealize, buffer: Buffer, within: Stmt | None, analyzer: Analyzer
) -> Box | None:
    """Return a box of `buffer` whose elements a block certainly writes in each run of `within`, whatever its predicate
    and the conditions around it exclude. None if no such box can be proved.
    """
    touches = effects(realize.block, frozenset([buffer])).writes
    boxes = [_around(t, tree, realize, within).certain(analyzer) for t in touches]
    return next((box for box in boxes if box is not None), None)


def all_read(
    tree: Tree, readers: Sequence[BlockRealize], region: BufferRegion, within: Stmt | None, analyzer: Analyzer
) -> bool:
    """Return whether `readers` together certainly read all of a region in each run of `within`."""
    of = frozenset([region.buffer])
    touches = [_around(t, tree, reader, within) for reader in readers for t in effects(reader.block, of).reads]
    return all_touched(touches, region, analyzer)


def why_not_filled(
    tree: Tree, realize: BlockRealize, touches: Sequence[Touch], region: BufferRegion, within: Stmt | None,
    assuming: Sequence[Expr] = (),
) -> str | None:  # fmt: skip
    """Return None if the touches of a block cover the box of a region in each run of `within`, otherwise the reason."""
    name = realize.block.name
    analyzer = Analyzer.inside(*tree.all_loops_above(realize))
    with analyzer.constraint(*assuming):
        box = touched(tree, realize, region, within, analyzer)
        around = [_around(t, tree, realize, within) for t in touches]
        if all_touched(around, BufferRegion(region.buffer, box), analyzer):
            return None
        if within is None and _fills_by_domain(tree, realize, touches, region, analyzer):
            return None
    decides = tree.condition_above(realize, within)
    if decides is not None:
        return f"block {name} runs only where {decides.condition}"
    predicate = in_iterators(tree, realize)
    if predicate is None or conjuncts(predicate):
        return f"block {name} runs only where {realize.predicate}"
    if within is None and not covers_domain(realize, tree.loops_above(realize), analyzer):
        return f"the loops do not reach every iteration of block {name}"
    return f"block {name} may leave out elements of {region.buffer.name}"


def _fills_by_domain(
    tree: Tree, realize: BlockRealize, touches: Sequence[Touch], region: BufferRegion, analyzer: Analyzer
) -> bool:
    """Return whether a block covers a region because it runs at every point of its iteration domain.

    The block's touches are then as if its loops ran over the domain. A predicate that only cuts off surplus iterations,
    such as the one from `split`, excludes no point.
    """
    if tree.condition_above(realize, None) is not None:
        return False
    if not runs_everywhere(realize, tree.loops_above(realize), analyzer):
        return False
    loops = [For(it.var, it.dom.start, it.dom.extent, ForKind.SERIAL, realize) for it in realize.block.iter_vars]
    touches = [functools.reduce(Touch.inside, reversed(loops), touch) for touch in touches]
    box = relax(region.region, loops, analyzer, region.buffer)
    return all_touched(touches, BufferRegion(region.buffer, box), analyzer)


def _around(touch: Touch, tree: Tree, realize: BlockRealize, within: Stmt | None) -> Touch:
    """Return a touch of a block as seen from one run of the statement `within` around it; if `within` is None, from one
    run of the scope.
    """
    bindings = dict(zip((it.var for it in realize.block.iter_vars), realize.iter_values, strict=True))
    touch = guarded(touch.at(bindings), realize.predicate)
    inner: Stmt = realize
    for outer in tree.above(realize):
        if outer is within or isinstance(outer, Block):
            break
        if isinstance(outer, For):
            touch = touch.inside(outer)
        elif isinstance(outer, If):
            touch = guarded(touch, outer.condition if inner is outer.then_case else Not(outer.condition))
        elif isinstance(outer, LetStmt):
            touch = touch.at({outer.var: outer.value})
        elif isinstance(outer, While):
            touch = touch.perhaps()
        inner = outer
    return touch


def _inside(block: Block) -> Analyzer:
    return Analyzer.inside(*block.iter_vars)


def all_touched(touches: Sequence[Touch], region: BufferRegion, analyzer: Analyzer) -> bool:
    """Return whether every element of a region is certainly touched. Elements outside of the buffer do not count.

    Either a single touch covers the region, or the elements are covered by several touches at constant offsets from the
    start of the region.
    """
    boxes = [box for t in touches if (box := t.certain(analyzer)) is not None]
    if any(holds(box, region.region, region.buffer, analyzer) for box in boxes):
        return True
    sizes = [r.extent.value for r in region.region if isinstance(r.extent, IntImm)]
    if len(sizes) < len(region.region) or len(boxes) < 2 or math.prod(sizes) > _MOST_POINTS:
        return False
    places = {place for box in boxes for place in _places(box, region.region, sizes, analyzer)}
    return len(places) == math.prod(sizes)


def _places(box: Box, region: Box, sizes: Sequence[int], analyzer: Analyzer) -> Iterator[tuple[int, ...]]:
    """Yield the positions, relative to the start of a region, of the elements of a box that are inside the region.
    Yields nothing if they are only known at run time.
    """
    sides = []
    for r, own, size in zip(box, region, sizes, strict=True):
        first = analyzer.affine(r.start) - analyzer.affine(own.start)
        if not first.is_const or not isinstance(r.extent, IntImm):
            return
        sides.append(range(max(first.const, 0), min(first.const + r.extent.value, size)))
    yield from itertools.product(*sides)
