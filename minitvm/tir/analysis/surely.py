"""Does a block surely touch all of a region, and before it writes it? Read off the effects."""

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

_MOST_POINTS = 4096  # elements of a region that are looked at one by one


def reaches_all(block: Block, region: BufferRegion, write: bool) -> bool:
    """Whether an iteration of a block surely touches all of a region: declared regions are bounds."""
    touched = effects(block, frozenset([region.buffer]))
    return all_touched(touched.writes if write else touched.reads, region, _inside(block))


def reads_before_writing(block: Block, region: BufferRegion) -> bool:
    """Whether an iteration of a block surely reads all of a region, each element before it writes it."""
    return all_touched(first_reads(block, region.buffer), region, _inside(block))


def first_reads(block: Block, buffer: Buffer) -> list[Touch]:
    """The reads in an iteration of a block that find what stood in the buffer before that iteration."""
    touched = effects(block, frozenset([buffer]))
    latest: dict[int, int] = {}  # where a node stands in the program; one that stands twice is read last, written first
    earliest: dict[int, int] = {}
    for k, node in enumerate(walk(block)):
        after = k + sum(1 for _ in walk(node)) if isinstance(node, BufferStore) else k  # behind what it stores
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
    """Whether a read that stands before a write in the text finds no element of it, though loops around both go on.

    Each of their iterations reads the elements that it writes, so the first that touches an element reads it first.
    What a foreign call does has no place in the text but that of the call.
    """
    if isinstance(read.node, BufferRegion) is not isinstance(write.node, BufferRegion):
        return False
    shared = {l.var for l in read.loops} & {l.var for l in write.loops}
    return not shared or (None not in read.ranges and structural_equal(read.ranges, write.ranges))


def fills(
    tree: Tree, realize: BlockRealize, region: BufferRegion, within: Stmt | None, empty_sums: bool = True
) -> str | None:
    """None where a block writes every element of its box in each run of `within`, else why that is not shown.

    Without `empty_sums` each sum that a block starts (`T.init`) is taken to have a term.
    """
    touches = effects(realize.block, frozenset([region.buffer])).writes
    return why_not_filled(tree, realize, touches, region, within, [] if empty_sums else _terms(tree, realize))


def _terms(tree: Tree, realize: BlockRealize) -> list[Expr]:
    """Conditions under which each sum that a block starts has a term."""
    if realize.block.init is None:
        return []
    summed = loops_binding(realize, (REDUCE,))
    return [loop.extent >= 1 for loop in tree.all_loops_above(realize) if loop.var in summed]


def writes_all(tree: Tree, realize: BlockRealize, buffer: Buffer, within: Stmt | None) -> bool:
    """Whether a block surely writes every element of a buffer in each run of `within`, where its sums have terms."""
    touches = [_around(t, tree, realize, within) for t in effects(realize.block, frozenset([buffer])).writes]
    analyzer = Analyzer.inside(*tree.all_loops_above(realize))
    with analyzer.constraint(*_terms(tree, realize)):
        return all_touched(touches, buffer.full_region(), analyzer)


def all_read(
    tree: Tree, readers: Sequence[BlockRealize], region: BufferRegion, within: Stmt | None, analyzer: Analyzer
) -> bool:
    """Whether blocks together surely read all of a region in each run of `within`."""
    of = frozenset([region.buffer])
    touches = [_around(t, tree, reader, within) for reader in readers for t in effects(reader.block, of).reads]
    return all_touched(touches, region, analyzer)


def why_not_filled(
    tree: Tree, realize: BlockRealize, touches: Sequence[Touch], region: BufferRegion, within: Stmt | None,
    assuming: Sequence[Expr] = (),
) -> str | None:  # fmt: skip
    """None where touches by a block cover the box of a region in each run of `within`, else why that is not shown."""
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
    """Whether a block that runs at every point of its domain touches all of a region, as loops over the domain would.

    A predicate that says where the last iterations end, as after `split`, leaves out no point.
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
    """What is touched inside of a block, as one run of `within` around it sees it (None: of its scope)."""
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
    """Whether every element of a region that lies in its buffer is surely touched: by one touch, or by several that
    each touch constant places beside the region's start."""
    boxes = [box for t in touches if (box := t.certain(analyzer)) is not None]
    if any(holds(box, region.region, region.buffer, analyzer) for box in boxes):
        return True
    sizes = [r.extent.value for r in region.region if isinstance(r.extent, IntImm)]
    if len(sizes) < len(region.region) or len(boxes) < 2 or math.prod(sizes) > _MOST_POINTS:
        return False
    places = {place for box in boxes for place in _places(box, region.region, sizes, analyzer)}
    return len(places) == math.prod(sizes)


def _places(box: Box, region: Box, sizes: Sequence[int], analyzer: Analyzer) -> Iterator[tuple[int, ...]]:
    """The elements of a box inside of a region, counted from the region's start; none where only a run tells."""
    sides = []
    for r, own, size in zip(box, region, sizes, strict=True):
        first = analyzer.affine(r.start) - analyzer.affine(own.start)
        if not first.is_const or not isinstance(r.extent, IntImm):
            return
        sides.append(range(max(first.const, 0), min(first.const + r.extent.value, size)))
    yield from itertools.product(*sides)
