"""Stage buffers (see `staging`) of which each iteration of a block touches a single element."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ... import expr as ex
from ...arith import Analyzer, regions
from .. import nodes as tir
from ..analysis.bindings import covers_domain, why_not_initialised
from ..analysis.block_regions import regions_read, with_declared_regions
from ..analysis.boxes import relax, with_buffer
from ..analysis.effects import effects
from ..analysis.surely import reaches_all, why_not_filled
from ..analysis.touches import Touch
from ..conditions import all_of, conjuncts, reads_memory, uses
from .insertion import Insertion, place_beside, start_of
from .moving import box_text, nest_for
from .registry import Failure, holds_inside
from .staging import BufferPart, box_written, initialised, is_input, point_region
from .state import ScheduleState, guard
from .updates import copied_nest


@dataclass(frozen=True)
class PointPart(BufferPart):
    """A part of which each iteration of the block touches a single element, at `indices`.

    If there is no such element, `reason` says why, and there are no indices.
    """

    indices: tuple[ex.Expr, ...]
    reason: str | None

    @property
    def iterators(self) -> list[ex.IterVar]:
        """The iterators that the indices use, in the block's order."""
        return [it for it in self.block.block.iter_vars if any(uses(i, [it.var]) for i in self.indices)]


def by_point(part: BufferPart) -> PointPart:
    """Return a part as a `PointPart`."""
    point = _point(part.block.block, part.buffer)
    indices, reason = ((), point) if isinstance(point, str) else (point, None)
    return PointPart(part.tree, part.scope, part.block, part.region, part.write, indices, reason)


def _point(block: tir.Block, buffer: tir.Buffer) -> tuple[ex.Expr, ...] | str:
    """Return the indices of the single element of `buffer` that each iteration of a block touches, or a message that
    says why there is no such element.
    """
    points: list[tuple[ex.Expr, ...]] = []
    for node in ex.walk(block):
        if isinstance(node, tir.Block) and node is not block:
            return f"block {node.name} stands inside it"
        if isinstance(node, tir.BufferLoad | tir.BufferStore) and node.buffer is buffer:
            points.append(node.indices)
    if block.match_buffers:
        return "it matches views"
    if not points:
        return f"it has no load or store of {buffer.name} itself"
    for other in points[1:]:
        if not ex.structural_equal(points[0], other):
            shown = [", ".join(map(str, indices)) for indices in (points[0], other)]
            return f"it uses {buffer.name}[{shown[0]}] and {buffer.name}[{shown[1]}]"
    inside = {n.var for n in ex.find(block, tir.For | tir.LetStmt | ex.Let)}
    if any(reads_memory(i) or uses(i, inside) for i in points[0]):
        return f"{buffer.name}[{', '.join(map(str, points[0]))}] is no function of its iterators"
    return points[0]


copies_its_values = holds_inside(
    "copies_its_values",
    """elements are written before they are copied in, and the block writes all elements that are copied back: the
    block also runs for every combination of iterator values for which the copy runs, or the element is an input""",
)


# ---- the copy ------------------------------------------------------------------------------------------------------


def stage_points(
    state: ScheduleState, part: PointPart, cached: tir.Buffer, places: tuple[ex.Expr, ...], copied_loops: bool
) -> tir.BlockRealize:
    """Insert a block that copies between the buffer and `cached`, and make the part's block use `cached` at `places`.
    Returns the block that copies.

    With `copied_loops`, the copy has the same loops as the part's block, if these reach every element to be copied.
    Otherwise its loops cover the domains of the iterators.
    """
    tree, scope, realize, buffer = part.tree, part.scope, part.block, part.buffer
    writers = [] if part.write else scope.writers(buffer)
    if part.write:
        place = place_beside(tree, realize, [r for r in scope.readers(buffer) if r is not realize])
    elif not copied_loops:
        place = place_beside(tree, realize, writers, after=False)
    else:
        place = place_beside(tree, writers[0], [realize]) if writers else start_of(scope)
    block = _stage_block(part, cached, places)
    nest, exact = _copied_nest(part, block, place.within) if copied_loops else (None, False)
    if part.write:
        _refuse_unwritten(state, part, place.within, over_domains=nest is None)
    if nest is None:
        nest = _domain_nest(state, part, block, place.within)
    if not part.write:
        _refuse_uninitialised(state, part, writers, nest, place.within, exact)
    used = with_buffer(realize.block, buffer, cached, lambda _: point_region(cached, places).region)
    assert isinstance(used, tir.Block)
    changed: dict[tir.Stmt, tir.Stmt] = {realize.block: with_declared_regions(used)}
    return Insertion(tree, scope, changed, [(place, nest)], [cached]).apply_one(state)


def _stage_block(part: PointPart, cached: tir.Buffer, places: tuple[ex.Expr, ...]) -> tir.Block:
    fresh = {it.var: it.var.with_name(it.var.name) for it in part.iterators}
    iters = tuple(ex.IterVar(fresh[it.var], it.dom, ex.SPATIAL) for it in part.iterators)
    original, copy = ([ex.substitute(i, fresh) for i in indices] for indices in (part.indices, places))
    source, target = (part.buffer, original), (cached, copy)
    if part.write:
        source, target = target, source
    body = tir.BufferStore(target[0], tir.BufferLoad(source[0], tuple(source[1])), tuple(target[1]))
    return with_declared_regions(tir.Block(iters, (), (), cached.name, body))


def _refuse_unwritten(state: ScheduleState, part: PointPart, within: tir.Stmt, over_domains: bool) -> None:
    """Raise `Refused` if the part's block may leave an element unwritten that is copied back. The loops of the copy are
    the block's own or, with `over_domains`, cover the domains of the iterators.
    """
    tree, realize, name = part.tree, part.block, part.buffer.name
    expected = "an init of each element before what is added to it"
    reason = why_not_initialised(realize, tree.loops_above(realize), state.analyzer(realize))
    if reason is None and not reaches_all(realize.block, point_region(part.buffer, part.indices), write=True):
        expected = f"{name} written in every iteration"
        reason = f"{realize.block.name} may leave out {name}[{', '.join(map(str, part.indices))}]"
    if reason is None and over_domains:
        expected = "every combination of its iterators run through"
        reason = _why_not_run_through(part, within)
    if reason is not None:
        raise copies_its_values.refuse(Failure({realize.block: "this block"}, expected, reason))


def _why_not_run_through(part: PointPart, within: tir.Stmt) -> str | None:
    """Return None if the block provably runs for every combination of its iterators' values in each run of `within`,
    otherwise the reason why this is not proved.

    If `within` is a loop, the values are those that the iterators take inside it; if it is a block, the values are the
    iterators' domains. The copy's loops cover the same values.
    """
    tree, realize = part.tree, part.block
    loops = tree.loops_above(realize)
    analyzer = Analyzer.inside(*tree.all_loops_above(realize))
    if not isinstance(within, tir.For) and not covers_domain(realize, loops, analyzer):
        return f"the loops do not reach every iteration of block {realize.block.name}"
    region = point_region(_of_iterators(part), [it.var for it in part.iterators])
    return why_not_filled(tree, realize, [Touch(region, region.buffer, region.region)], region, within)


def _of_iterators(part: PointPart) -> tir.Buffer:
    """Return a buffer that has one element for each combination of the iterators' values."""
    return tir.Buffer(part.buffer.name, tuple(it.dom.start + it.dom.extent for it in part.iterators))


def _domain_nest(state: ScheduleState, part: PointPart, block: tir.Block, within: tir.Stmt) -> tir.Stmt:
    """Return loops over the domains of the iterators or, within a shared loop, over the values that the iterators take
    there.
    """
    tree, realize = part.tree, part.block
    analyzer = state.analyzer(within)
    ranges: dict[ex.Var, ex.Range] = {}
    if isinstance(within, tir.For):
        loops = tree.loops_above(realize)
        inner = loops[loops.index(within) + 1 :]
        bindings = dict(zip(realize.block.iter_vars, realize.iter_values, strict=False))
        values = [bindings[it] for it in part.iterators]
        box = relax(tuple(ex.Range(v, ex.const(1, v.dtype)) for v in values), inner, analyzer, _of_iterators(part))
        ranges = dict(zip((it.var for it in block.iter_vars), box, strict=False))
    nest = nest_for(
        tir.BlockRealize(tuple(it.var for it in block.iter_vars), ex.const(True), block),
        ranges,
        ex.const(True),
        analyzer,
        True,
    )
    return _guarded(part, nest, state.analyzer(within))


def _guarded(part: PointPart, nest: tir.Stmt, analyzer: Analyzer) -> tir.Stmt:
    """Return a nest whose block runs only where its element is inside the buffer."""
    at = nest
    while isinstance(at, tir.For):
        analyzer.bind(at)
        at = at.body
    assert isinstance(at, tir.BlockRealize)
    bindings = dict(zip((it.var for it in part.iterators), at.iter_values, strict=True))
    conditions: list[ex.Expr] = []
    with analyzer.constraint(*conjuncts(at.predicate)):
        for index, dim in zip(part.indices, part.buffer.shape, strict=True):
            value = analyzer.simplify(ex.substitute(index, bindings))
            conditions += [c for c in (value >= 0, value < dim) if not analyzer.can_prove(c)]
    return guard(nest, all_of(conditions))


def _copied_nest(part: PointPart, block: tir.Block, within: tir.Stmt) -> tuple[tir.Stmt | None, bool]:
    """Return (copies of the loops around the part's block, with `block` inside; whether they reach exactly the elements
    that the part's block reads).

    Loops that do not index the buffer are left out. The nest is None if a predicate connects them with other loops, or
    if a statement decides whether the block runs.
    """
    tree, realize = part.tree, part.block
    if tree.condition_above(realize, within) is not None:
        return None, False
    loops = tree.loops_above(realize)
    if isinstance(within, tir.For):
        loops = loops[loops.index(within) + 1 :]
    bindings = dict(zip(realize.block.iter_vars, realize.iter_values, strict=True))
    values = tuple(bindings[it] for it in part.iterators)
    used: list[tir.For] = []
    for loop in reversed(loops):
        if any(uses(e, [loop.var]) for e in (*values, *(x for l in used for x in (l.start, l.extent)))):
            used.insert(0, loop)
    dropped = [loop for loop in loops if loop not in used]
    if any(uses(c, [l.var for l in dropped]) for c in conjuncts(realize.predicate)):
        return None, False
    always = all(isinstance(l.extent, ex.IntImm) and l.extent.value > 0 for l in dropped)
    if part.write and not always:
        return None, False  # a loop that never runs writes nothing
    serial = [tir.For(l.var, l.start, l.extent, tir.ForKind.SERIAL, l.body) for l in used]
    nest = copied_nest(serial, tir.BlockRealize(values, realize.predicate, block))
    return _guarded(part, nest, Analyzer.inside(*tree.all_loops_above(realize))), always


def _refuse_uninitialised(
    state: ScheduleState, part: PointPart, writers: Sequence[tir.BlockRealize], stage: tir.Stmt,
    within: tir.Stmt,
    exact: bool,
) -> None:  # fmt: skip
    """Raise `Refused` if the copy may read an element that has not been written when the copy runs."""
    tree, buffer, realize = part.tree, part.buffer, part.block
    if not writers:
        guarded = any(not t.sure or t.conditions for t in effects(realize.block.body, frozenset([buffer])).reads)
        if is_input(tree, buffer) or (exact and not guarded):
            return
        raise initialised.refuse(
            Failure(
                {realize.block: f"reads {buffer.name}"},
                f"every element of {buffer.name} that is copied has a value",
                f"{buffer.name} is no input, and the copy may read more of it than {realize.block.name} does",
            )
        )
    analyzer = state.analyzer(within)
    filled = box_written(state, tree, writers[0], buffer, within)
    loops: list[tir.For] = []
    at = stage
    while isinstance(at, tir.For):
        loops.append(at)
        at = at.body
    assert isinstance(at, tir.BlockRealize)
    bindings = dict(zip((it.var for it in at.block.iter_vars), at.iter_values, strict=False))
    read = tuple(ex.substitute(r, bindings) for r in regions_read(at.block)[0].region)
    needed = relax(read, loops, analyzer, buffer)
    whole = buffer.full_region().region
    filled, needed = (regions.intersect(box, whole, analyzer) for box in (filled, needed))
    if not regions.covers(filled, needed, analyzer):
        raise copies_its_values.refuse(
            Failure(
                {writers[0].block: f"writes {box_text(buffer, filled)}"},
                f"all of {box_text(buffer, needed)} written before it is copied",
                f"{box_text(buffer, filled)} is written",
            )
        )
