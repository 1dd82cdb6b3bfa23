"""Find the loops that carry a dependence. Schedules need them to reorder loops and to run iterations in parallel.

Two accesses to one buffer, at least one of them a write, *conflict between iterations of loop l* if they touch the same
element in two iterations that differ in l. The quick test here either proves that there is no conflict or is
inconclusive. If it is inconclusive, `arith.dependence` decides exactly and gives a counterexample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import expr as ex
from ...arith import Analyzer
from ...arith.dependence import Access as Point
from ...arith.dependence import Dependence, Undecided, find_dependence
from ...arith.iter_map import detect
from ...expr.node import kept_with_node
from ..conditions import all_of, is_const, uses
from ..nodes import Block, BlockRealize, Buffer, BufferLoad, BufferRegion, BufferStore, For, Stmt
from ..values import NotAnIndex, values
from .bindings import iteration_map, loop_ranges
from .block_kinds import is_update
from .block_regions import regions_read, regions_written
from .threads import is_thread, owns
from .touches import Touch
from .tree import Tree, own_expressions, sub_statements

_LARGEST_TABLE = 1 << 20  # the most iterations of one loop that are enumerated to check that a map is injective


@dataclass(frozen=True, slots=True)
class Access:
    """A box of a buffer that one statement reads or writes, as a function of loop variables. Messages point at the node
    `spot`.
    """

    stmt: Stmt
    buffer: Buffer
    box: tuple[ex.Range, ...]
    is_write: bool
    loops: tuple[For, ...]
    spot: ex.Node


def accesses(tree: Tree, stmt: Stmt) -> list[Access]:
    """Return the accesses inside a statement. The accesses of a block are those that its signature declares."""
    return list(_accesses(stmt, tuple(tree.all_loops_above(stmt))))


def _accesses(stmt: Stmt, loops: tuple[For, ...]) -> Iterator[Access]:
    if isinstance(stmt, BlockRealize):
        block = stmt.block
        bindings = dict(zip((it.var for it in block.iter_vars), stmt.iter_values, strict=True))
        for regions, is_write in ((regions_written(block), True), (regions_read(block), False)):
            for region in regions:
                box = tuple(ex.substitute(r, bindings) for r in region.region)
                yield Access(stmt, region.buffer, box, is_write, loops, region)
        yield from _loads(stmt, (*stmt.iter_values, stmt.predicate), loops)
        return
    own = (*loops, stmt) if isinstance(stmt, For) else loops
    yield from _loads(stmt, tuple(own_expressions(stmt)), loops)
    if isinstance(stmt, BufferStore):
        yield Access(
            stmt, stmt.buffer, tuple(ex.Range(i, ex.const(1, i.dtype)) for i in stmt.indices), True, loops, stmt
        )
    for inner in sub_statements(stmt):
        yield from _accesses(inner, own)


def exact(
    pairs: Iterable[tuple[Access, Access]],
    before: Sequence[For],
    after: Sequence[For],
    parallel: bool,
    accumulating: bool = False,
) -> Dependence | Undecided | None:
    """Return a dependence that a new order of loops violates, `Undecided` if this cannot be decided, or None if there
    is no such dependence.

    `before` and `after` list all loops, outermost first. `pairs` are the pairs of accesses that the quick test could
    not decide. With `parallel`, the iterations of the last loop of `after` are unordered; with `accumulating`, two
    iterations may nevertheless accumulate into the same element.
    """
    both = [pair for a, b in pairs for pair in ((a, b), (b, a))]
    asked = {(id(a), id(b)) for a, b in both}
    touches = list({id(a): a for a, _ in both}.values())
    return reordered(
        touches, [l.var for l in before], [l.var for l in after], parallel, accumulating,
        lambda a, b: (id(a), id(b)) not in asked,
    )  # fmt: skip


def reordered(
    accesses: Sequence[Access],
    before: Sequence[ex.Expr],
    after: Sequence[ex.Expr],
    parallel: bool = False,
    accumulating: bool = False,
    settled: Callable[[Access, Access], bool] = lambda a, b: False,
) -> Dependence | Undecided | None:
    """Like `exact`, but each order is a list of expressions over the loop variables.

    All pairs are tested except those that are `settled`.
    """
    sources = {point_of(access): access for access in accesses}
    points = list(sources)
    free = after[-1] if parallel else None
    may_commute = not parallel or accumulating
    return find_dependence(
        points,
        {point: in_step(sources[point], before, free) for point in points},
        {point: in_step(sources[point], after, free) for point in points},
        (len(after) - 1,) if parallel else (),
        lambda a, b: settled(sources[a], sources[b]) or (may_commute and commute(sources[a], sources[b])),
    )


def exchanging(loops: Sequence[For], buffer: Buffer) -> list[For]:
    """Return the loops over threads that share a buffer.

    These threads run in lockstep: an element that one of them writes is visible to the others at the next statement.
    Statements are therefore ordered across all of these threads, not for each thread alone.
    """
    return [l for l in loops if is_thread(l) and not owns(l, buffer.scope)]


def in_step(access: Access, order: Sequence[Any], free: ex.Expr | None = None) -> tuple[Any, ...]:
    """Return `order` with 0 in place of the loops over threads that share the buffer of an access, because these
    threads run in lockstep. The loop of the variable `free` stays.
    """
    hidden = {l.var for l in exchanging(access.loops, access.buffer)} - {free}
    return tuple(0 if isinstance(e, ex.Var) and e in hidden else e for e in order)


def overwritten(reads: Sequence[Access], writes: Sequence[Access], shared: Sequence[For]) -> bool:
    """Return whether one of `writes` may overwrite an element that one of `reads` read in an earlier iteration of the
    `shared` loops.

    Within one iteration, the writes run before the reads.
    """
    if not shared or not any(a.buffer is b.buffer for a in reads for b in writes):
        return False
    order = tuple(l.var for l in shared)
    sources = {point_of(a): a for a in (*writes, *reads)}
    first, last = list(sources)[: len(writes)], list(sources)[len(writes) :]
    at = {point: in_step(access, order) for point, access in sources.items()}
    before = {**{p: (0, *at[p], 0) for p in first}, **{p: (0, *at[p], 1) for p in last}}
    after = {**{p: (0, *at[p], 0) for p in first}, **{p: (1, *at[p], 1) for p in last}}
    dependence = find_dependence([*first, *last], before, after, (), lambda a, b: not (a in last and b in first))
    return dependence is not None


def point_of(access: Access, more: tuple[ex.Expr, ...] = ()) -> Point:
    """Convert an access to a `Point` for `arith.dependence`: one element of its box, with the indices
    `more` appended.
    """
    condition = access.stmt.predicate if isinstance(access.stmt, BlockRealize) else True
    domain = {l.var: ex.Range(l.start, l.extent) for l in access.loops}
    return point_at(access.buffer, access.box, domain, access.is_write, condition, more)


def point_at(
    buffer: Buffer,
    box: Sequence[ex.Range],
    domain: Mapping[ex.Var, ex.Range],
    write: bool,
    condition: Any,
    more: tuple[ex.Expr, ...] = (),
) -> Point:
    """Build a `Point` for `arith.dependence` from one element of a box, with the indices `more` appended."""
    within = dict(domain)
    indices: list[ex.Expr] = []
    for d, r in enumerate(box):
        if is_const(r.extent, 1):
            indices.append(r.start)
            continue
        inside = ex.Var(f"e{d}", r.start.dtype)  # an element of a box that is wider than one
        within[inside] = ex.Range(ex.const(0, inside.dtype), r.extent)
        indices.append(r.start + inside)
    return Point(buffer, (*indices, *more), within, write, condition)


def touched_point(touch: Touch, write: bool, around: Mapping[ex.Var, ex.Range] | None = None) -> Point:
    """Convert a touch to a `Point` for `arith.dependence`; it runs over the touch's own loops and the loops
    `around`.
    """
    domain = {**(around or {}), **loop_ranges(touch.loops)}
    return point_at(touch.buffer, touch.sides(), domain, write, all_of(touch.conditions))


def _loads(stmt: Stmt, expressions: Iterable[ex.Expr], loops: tuple[For, ...]) -> Iterator[Access]:
    for e in expressions:
        for part in ex.find(e, BufferLoad):
            box = tuple(ex.Range(i, ex.const(1, i.dtype)) for i in part.indices)
            yield Access(stmt, part.buffer, box, False, loops, part)


def conflicting_pairs(accesses: Sequence[Access]) -> Iterator[tuple[Access, Access]]:
    """Yield the pairs of accesses to the same buffer that include a write. Each write is also paired with itself."""
    for i, a in enumerate(accesses):
        for b in accesses[i:]:
            if a.buffer is b.buffer and (a.is_write or b.is_write):
                yield a, b


def commute(a: Access, b: Access) -> bool:
    """Return whether two accesses belong to a block that only accumulates into them, so that its iterations may run in
    any order.

    The init of a block runs at the first values of its reductions. For each element, this is the first iteration in any
    order of the loops, unless a loop drives both a reduction and a spatial iterator (`k = f % 3, i = f // 3`).
    """
    if a.stmt is not b.stmt or not isinstance(a.stmt, BlockRealize):
        return False
    block = a.stmt.block
    if not any(it.kind == "R" for it in block.iter_vars) or not is_update(block):
        return False
    return block.init is None or not _is_mixed(a.stmt)


def _is_mixed(realize: BlockRealize) -> bool:
    """Return whether some loop drives both a reduction iterator and a spatial iterator of a block."""
    reducing: set[ex.Var] = set()
    others: set[ex.Var] = set()
    for it, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
        (reducing if it.kind == "R" else others).update(ex.free_vars(value))
    return not reducing.isdisjoint(others)


def shown_apart(outer: Sequence[For], loop: For, a: Access, b: Access) -> bool:
    """Return whether it is proved that two accesses never touch the same element in iterations that differ in `loop`.

    `outer` are the loops around `loop`: both iterations agree in them, except in threads that share the buffer.
    """
    if a is b and touched_once(outer, a):
        return True
    apart = exchanging(outer, a.buffer)
    outer = [l for l in outer if l not in apart]
    # Write each index as base(l) + rest. Iterations l, l' can only meet where |base(l) - base(l')| < w, with w from
    # the bounds of rest - rest' over all other loops. If every base is a multiple of some g >= w, then they meet only
    # where base(l) = base(l') in all dimensions: never, if l -> (base_d(l))_d is injective.
    analyzer = Analyzer.inside(*outer, *a.loops)
    renamed: dict[ex.Var, ex.Expr] = {}
    fixed = {l.var for l in outer} | {loop.var}
    for l in b.loops:
        if l.var not in fixed:
            fresh = l.var.with_name(l.var.name + "_")
            renamed[l.var] = fresh
            analyzer.bind(fresh, ex.Range(ex.substitute(l.start, renamed), ex.substitute(l.extent, renamed)))
    keys: list[ex.Expr] = []
    for mine, theirs in zip(a.box, b.box, strict=True):
        base = _base(analyzer, loop, mine, theirs, renamed)
        if base is not None:
            keys.append(base)
    return injective(loop, keys)


def touched_once(outer: Sequence[For], access: Access) -> bool:
    """Return whether an access touches each element at most once while the loops inside `outer` run, as well as any
    outer threads that share the buffer.

    Two facts prove this. Different iterations give the block's iterators different values, because the iterators are an
    injective map of the loops. Different values give different elements, because the indices are an injective map of
    the iterators. The second fact is cached for each block, and stays valid if its loops are split or fused. The first
    fact is cached for each set of loops, and stays valid if their kinds change. If it holds for a set of running loops,
    it also holds for each part of the set.
    """
    realize, region = access.stmt, access.spot
    if not isinstance(realize, BlockRealize) or not isinstance(region, BufferRegion):
        return False
    if not _indices_tell(realize.block, region):
        return False
    agreed = set(outer) - set(exchanging(outer, access.buffer))
    inner = [l for l in access.loops if l not in agreed]
    domains = frozenset([(l.var, l.start, l.extent) for l in access.loops])
    shown, left_open = _known_loops(realize).setdefault(domains, (set(), set()))
    running = frozenset([l.var for l in inner])
    if running in left_open:
        return False
    if not shown and not left_open:  # a caller that asks about one loop will ask about the next: answer for all now
        counting = [l for l in access.loops if any(uses(value, [l.var]) for value in realize.iter_values)]
        every = frozenset([l.var for l in counting])
        (shown if _iterates_once(realize, access.loops, counting) else left_open).add(every)
    if not any(running <= others for others in shown):
        once = _iterates_once(realize, access.loops, inner)
        (shown if once else left_open).add(running)
        return once
    return True


def _iterates_once(realize: BlockRealize, loops: Sequence[For], inner: Sequence[For]) -> bool:
    """Return whether any two iterations of the loops `inner` give the block's iterators different values, all within
    their domains.

    `loops` are all loops around the block.
    """
    analyzer = Analyzer.inside(*loops)
    if not iteration_map(realize, inner, analyzer, "injective"):
        return False
    with analyzer.constraint(realize.predicate):
        return all(
            analyzer.can_prove(it.dom.start <= value) and analyzer.can_prove(value < it.dom.start + it.dom.extent)
            for it, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)
        )


@kept_with_node
def _known_loops(realize: BlockRealize) -> dict[Any, tuple[set[frozenset[ex.Var]], set[frozenset[ex.Var]]]]:  # noqa: ARG001
    """Return a cache of the results of `_iterates_once`, keyed by the domains of the loops around a block.

    Each entry has two sets: the loop sets for which the property is proved, and those for which it is not.
    """
    return {}


def _indices_tell(block: Block, region: BufferRegion) -> bool:
    """Return whether a region is a single element that differs for different values of the block's iterators."""
    known = _known_indices(block)
    if region not in known:
        domain = {it.var: it.dom for it in block.iter_vars if not is_const(it.dom.extent, 1)}
        indices = [r.start for r in region.region]
        single = all(is_const(r.extent, 1) for r in region.region)
        named = domain.keys() <= {v for index in indices for v in ex.free_vars(index)}
        known[region] = (
            single and named and (bool(detect(indices, domain, level="injective")) or _differ(indices, domain))
        )
    return known[region]


@kept_with_node
def _known_indices(block: Block) -> dict[BufferRegion, bool]:  # noqa: ARG001 (the key of the cache)
    return {}


def _differ(indices: Sequence[ex.Expr], domain: Mapping[ex.Var, ex.Range]) -> bool:
    """Return whether the indices differ at any two different points of the domain.

    This uses integer sets, which can prove cases that `detect` (iterator maps) cannot.
    """
    point = Point("elements", tuple(indices), domain, True)
    order: tuple[Any, ...] = tuple(domain)
    return find_dependence([point], {point: order}, {point: order}, tuple(range(len(order)))) is None


def _base(
    analyzer: Analyzer, loop: For, mine: ex.Range, theirs: ex.Range, renamed: dict[ex.Var, ex.Expr]
) -> ex.Expr | None:
    other = ex.Range(ex.substitute(theirs.start, renamed), ex.substitute(theirs.extent, renamed))
    zero: dict[ex.Var, ex.Expr] = {loop.var: loop.start}
    base = analyzer.simplify(mine.start - ex.substitute(mine.start, zero))
    if any(v is not loop.var for v in ex.free_vars(base)) or isinstance(base, ex.IntImm):
        return None
    rest, rest_other = ex.substitute(mine.start, zero), ex.substitute(other.start, zero)
    if not analyzer.can_prove_equal(other.start - rest_other, base):
        return None
    _, most = analyzer.bounds(rest + mine.extent - 1 - rest_other)
    least, _ = analyzer.bounds(rest - (rest_other + other.extent - 1))
    step, offset = analyzer.modular(base)
    if step == 0 or offset != 0:
        step = _step(loop, base)
    if most is None or least is None or max(int(most), -int(least)) >= step:
        return None
    return base


def _table(loop: For, e: ex.Expr) -> np.ndarray[Any, Any] | None:
    if not isinstance(loop.start, ex.IntImm) or not isinstance(loop.extent, ex.IntImm):
        return None
    if loop.extent.value > _LARGEST_TABLE:
        return None
    iterations = np.arange(loop.start.value, loop.start.value + loop.extent.value, dtype=np.int64)
    try:
        return np.broadcast_to(values(e, {loop.var: iterations}), iterations.shape)
    except NotAnIndex:
        return None


def _step(loop: For, base: ex.Expr) -> int:
    table = _table(loop, base)
    return 1 if table is None else int(np.gcd.reduce(table)) or 1


def injective(loop: For, keys: Sequence[ex.Expr]) -> bool:
    """Return whether the keys, which use only the loop's variable, differ between any two iterations of the loop."""
    if isinstance(loop.extent, ex.IntImm) and loop.extent.value <= 1:
        return True
    if not keys:
        return False
    if any(_is_linear(key, loop.var) for key in keys):
        return True
    columns = [_table(loop, key) for key in keys]
    if any(column is None for column in columns):
        return False
    table = np.stack([c for c in columns if c is not None], axis=1)
    return len(np.unique(table, axis=0)) == len(table)


def _is_linear(e: ex.Expr, var: ex.Var) -> bool:
    if e is var:
        return True
    return isinstance(e, ex.Mul) and e.a is var and isinstance(e.b, ex.IntImm) and e.b.value != 0
