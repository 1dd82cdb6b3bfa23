"""Move a block below another loop: find the iterations that run there, build loops for them, and check all reads."""

from __future__ import annotations

from collections.abc import Sequence

from ... import expr as ex
from ...arith import Analyzer, regions
from ...errors import InputError
from ..analysis.bindings import loop_ranges, reaches_every_point, why_not_injective
from ..analysis.block_kinds import Scope
from ..analysis.block_regions import buffers_written, regions_read, regions_written
from ..analysis.boxes import Box, bound_box, in_iterators, touched
from ..analysis.surely import reaches_all, surely_written
from ..analysis.tree import Tree
from ..conditions import all_of, conjuncts, is_const, rising
from ..index_map import IndexMap
from ..nodes import BlockRealize, Buffer, BufferLoad, BufferRegion, For, Seq, Stmt
from .registry import Failure
from .state import ScheduleState, guard, nest_around


def solve(
    index: ex.Range, target: ex.Range, iterators: Sequence[ex.Var], analyzer: Analyzer
) -> tuple[ex.Var, ex.Range] | None:
    """Return the only iterator used in one dimension of an access, and the range of the iterator's values for which the
    access overlaps `target`.

    The access must have the form `[v * c + o, v * c + o + e)` or `v // c`, with a single iterator v and constants c > 0
    and e. Returns None for any other access.
    """
    used = {part for part in ex.find(index.start, ex.Var) if part in iterators}
    if len(used) != 1 or not isinstance(index.extent, ex.IntImm):
        return None
    var = used.pop()
    quotient = _quotient_of(index, var, target, analyzer)
    if quotient is not None:
        return var, quotient
    stride = regions.stride_of(index.start, var, analyzer)
    if stride is None or stride <= 0:
        return None
    offset = analyzer.simplify(index.start - var * stride)
    if any(part is var for part in ex.walk(offset)):
        return None
    reach = index.extent.value - 1
    first = analyzer.simplify(target.start - offset + (stride - 1 - reach))
    last = analyzer.simplify(target.start + target.extent - 1 - offset)
    if stride > 1:
        first, last = analyzer.simplify(first // stride), analyzer.simplify(last // stride)
    return var, ex.Range(first, analyzer.simplify(last - first + 1))


def _quotient_of(index: ex.Range, var: ex.Var, target: ex.Range, analyzer: Analyzer) -> ex.Range | None:
    """Return the range of v for which `v // c` is in `target`, that is, from first * c to last * c + c - 1; None if the
    index does not have this form.
    """
    start = index.start
    if not (isinstance(start, ex.FloorDiv) and start.a is var and isinstance(start.b, ex.IntImm) and start.b.value > 0):
        return None
    if not is_const(index.extent, 1):
        return None
    return ex.Range(analyzer.simplify(target.start * start.b), analyzer.simplify(target.extent * start.b))


def _from_points(
    region: BufferRegion, box: Box, iterators: Sequence[ex.IterVar], analyzer: Analyzer
) -> dict[ex.Var, ex.Range] | None:
    """Return the ranges of the iterators for which the single element at their indices is inside the box.

    Returns None unless the indices are a bijective quasi-affine map of their iterators with a known inverse. For
    example, in `B[v0 * 16 + v1]`, index p belongs to v0 = p // 16 and v1 = p % 16.
    """
    indices = tuple(r.start for r in region.region)
    used = [it for it in iterators if any(it.var is part for index in indices for part in ex.walk(index))]
    if not all(is_const(r.extent, 1) for r in region.region) or not all(is_const(it.dom.start, 0) for it in used):
        return None
    if all(isinstance(index, ex.Var | ex.IntImm) for index in indices):
        return None  # nothing to invert
    if {v for index in indices for v in ex.free_vars(index)} - {it.var for it in used}:
        return None
    there = IndexMap(tuple(it.var for it in used), indices).simplified()
    try:
        back = there.inverse([it.dom.extent for it in used])
    except InputError:
        return None
    steps = [ex.Var(f"p{d}", r.start.dtype) for d, r in enumerate(box)]
    places = [r.start if is_const(r.extent, 1) else r.start + step for r, step in zip(box, steps, strict=True)]
    domains = {step: ex.Range(ex.const(0, step.dtype), r.extent) for r, step in zip(box, steps, strict=True)}
    values = [analyzer.simplify(value) for value in back.map_indices(places)]
    reached = regions.evaluate(values, domains, analyzer)
    if reached.unbounded:
        return None
    return {it.var: values for it, values in zip(used, reached.box, strict=True)}


def iterator_ranges(
    block: BlockRealize,
    needed: Sequence[tuple[BufferRegion, Box]],
    analyzer: Analyzer,
    kinds: Sequence[str] = (ex.SPATIAL,),
) -> dict[ex.Var, ex.Range]:
    """Return {iterator: range} for the iterators of the kinds `kinds` that an access in `needed` determines. The range
    holds the values for which the access overlaps its box.
    """
    iterators = [it for it in block.block.iter_vars if it.kind in kinds]
    variables = [it.var for it in iterators]
    ranges: dict[ex.Var, ex.Range] = {}
    for region, box in needed:
        solved = _from_points(region, box, iterators, analyzer)
        if solved is None:
            each = (solve(index, target, variables, analyzer) for index, target in zip(region.region, box, strict=True))
            pairs = [pair for pair in each if pair is not None]
        else:
            pairs = list(solved.items())
        for var, values in pairs:
            earlier = ranges.get(var)
            ranges[var] = values if earlier is None else regions.hull((earlier,), (values,), analyzer)[0]
    return ranges


def ranges_in(shared: Sequence[For], tree: Tree, block: BlockRealize) -> dict[ex.Var, ex.Range]:
    """Return the ranges of the iterators that are determined by one iteration of the `shared` loops.

    These loops stay around a block that moves. Each of their iterations must run only the iterations of the block that
    belong to it. Otherwise the block would overwrite values that a consumer reads there (S[j] = A[i, j], read in the
    loop over i), or read values that are gone.
    """
    variables = {loop.var for loop in shared}
    inner = [loop for loop in tree.loops_above(block) if loop.var not in variables]
    analyzer = Analyzer.inside(*tree.all_loops_above(block))
    reached = regions.evaluate(block.iter_values, loop_ranges(inner), analyzer)
    ranges = {}
    for d, (it, value) in enumerate(zip(block.block.iter_vars, block.iter_values, strict=True)):
        if it.kind == ex.SPATIAL and d not in reached.unbounded and not variables.isdisjoint(ex.free_vars(value)):
            ranges[it.var] = reached.box[d]
    return ranges


def run_through(it: ex.IterVar, ranges: dict[ex.Var, ex.Range], analyzer: Analyzer) -> ex.Range:
    """Return the range for an iterator in its new loop: a range that covers the needed values, or the iterator's domain
    if that is not larger.
    """
    needed = ranges.get(it.var)
    most = None if needed is None else analyzer.bounds(needed.extent)[1]
    if needed is None or most is None or analyzer.can_prove(it.dom.extent <= int(most)):
        return it.dom
    return ex.Range(needed.start, ex.const(max(int(most), 1), it.var.dtype))


def nest_for(
    block: BlockRealize,
    ranges: dict[ex.Var, ex.Range],
    predicate: ex.Expr,
    analyzer: Analyzer,
    preserve_unit_loops: bool,
) -> Stmt:
    """Put a block into new loops (`ax0`, ...) that run its iterators over `ranges`, clipped to their domains.

    An iterator that is not in `ranges` covers its whole domain. `predicate` is in terms of the iterators.
    """
    loops: list[tuple[ex.Var, ex.Expr]] = []
    values: list[ex.Expr] = []
    conditions: list[ex.Expr] = []
    for it in block.block.iter_vars:
        dtype = it.var.dtype
        run = run_through(it, ranges, analyzer)
        start, extent = run.start, run.extent
        if is_const(extent, 1) and not preserve_unit_loops:
            value = analyzer.simplify(start)
        else:
            loop = ex.Var(f"ax{len(loops)}", dtype)
            loops.append((loop, extent))
            analyzer.bind(loop, ex.Range(ex.const(0, dtype), extent))
            start = analyzer.simplify(start)
            value = loop if is_const(start, 0) else start + loop
        values.append(value)
        for condition in (value >= it.dom.start, value < it.dom.start + it.dom.extent):
            if not analyzer.can_prove(condition):
                conditions.append(rising(analyzer.simplify(condition)))
    bindings = dict(zip((it.var for it in block.block.iter_vars), values, strict=True))
    conditions += [rising(analyzer.simplify(ex.substitute(c, bindings))) for c in conjuncts(predicate)]
    nest = guard(ex.replace(block, iter_values=tuple(values), predicate=ex.const(True)), all_of(conditions))
    return nest_around(nest, [loop for loop, _ in loops], [extent for _, extent in loops])


def insert(
    tree: Tree, loop: For, nest: Stmt, after: Sequence[BlockRealize], before: Sequence[BlockRealize], index: int
) -> Stmt | str:
    """Return the loop with `nest` inserted into its body after all blocks in `after` and before all blocks in `before`,
    or a message that says why there is no such position.

    `index` is a position among the statements of the body; -1 means the last possible one, -2 the first possible one.
    """
    stmts = list(loop.body.stmts) if isinstance(loop.body, Seq) else [loop.body]
    first = max((k + 1 for k, s in enumerate(stmts) if any(tree.inside(b, s) for b in after)), default=0)
    last = min((k for k, s in enumerate(stmts) if any(tree.inside(b, s) for b in before)), default=len(stmts))
    if first > last:
        return "the statement that it must follow comes after one that it must precede"
    position = {-1: last, -2: first}.get(index, index)
    if not first <= position <= last:
        return f"index {index}; possible are {first} to {last}, -1 for the last and -2 for the first of them"
    return ex.replace(loop, body=Seq.of(*stmts[:position], nest, *stmts[position:]))


def uncovered(state: ScheduleState, tree: Tree, producer: BlockRealize, consumer: BlockRealize) -> Failure | None:
    """Return a `Failure` if a consumer reads an element that its producer did not write in the same iteration of their
    shared loops.

    Returns None if every read is covered: the box that the producer fills in one iteration of the shared loops contains
    the box that the consumer reads in that iteration.
    """
    early = _asked_too_early(tree, producer, consumer)
    if early is not None:
        return early
    shared = [l for l in tree.loops_above(producer) if tree.inside(consumer, l)]
    if not shared:
        return None
    analyzer = state.analyzer(shared[-1])
    for read in reads(tree, consumer):
        for write in regions_written(producer.block):
            if read.buffer is not write.buffer:
                continue
            box = written(tree, producer, write, shared[-1], analyzer)
            produced = _inside(box, read.buffer, analyzer)
            consumed = _inside(touched(tree, consumer, read, shared[-1], analyzer), read.buffer, analyzer)
            if not regions.covers(produced, consumed, analyzer) or not _filled(
                tree, producer, write, shared[-1], analyzer
            ):
                return Failure(
                    {
                        producer.block: f"writes {box_text(read.buffer, produced)}",
                        consumer.block: f"reads {box_text(read.buffer, consumed)}",
                    },
                    f"what {consumer.block.name} reads written in the same iteration of {shared[-1].var.name}",
                    f"{box_text(read.buffer, consumed)} is read, {box_text(read.buffer, produced)} is written",
                )
    return None


def reads(tree: Tree, block: BlockRealize) -> tuple[BufferRegion, ...]:
    """Return the regions that a block reads, in terms of its iterators and the loops around it.

    These are the regions that its body reads, and the elements that decide whether and where it runs.
    """
    read = list(regions_read(block.block))
    for _, load in tree.controls(block):
        plain = not any(_is_hidden(tree, n) for i in load.indices for n in ex.walk(i))
        points = tuple(ex.Range(i, ex.const(1, i.dtype)) for i in load.indices)
        read.append(BufferRegion(load.buffer, points) if plain else load.buffer.full_region())
    return tuple(read)


def _is_hidden(tree: Tree, part: ex.Node) -> bool:
    """Return whether a part of an index is a load, or a variable of a let. Boxes over loops cannot describe such an
    index.
    """
    return isinstance(part, BufferLoad) or (isinstance(part, ex.Var) and part in tree.moving and part not in tree.loops)


def _asked_too_early(tree: Tree, producer: BlockRealize, consumer: BlockRealize) -> Failure | None:
    """Return a `Failure` if a condition, bound or let around both a producer and its consumer reads an element before
    the producer writes it.
    """
    written = set(buffers_written(producer.block))
    for at, load in tree.controls(consumer):
        if load.buffer in written and at is not consumer and tree.inside(producer, at):
            return Failure(
                {load: f"decides where {consumer.block.name} runs", producer.block: f"writes {load.buffer.name}"},
                f"{load.buffer.name} written before it is asked for",
                f"{load} is asked for around {producer.block.name}, which writes it",
            )
    return None


def _inside(box: Box, buffer: Buffer, analyzer: Analyzer) -> Box:
    return regions.intersect(box, buffer.full_region().region, analyzer)


def written(tree: Tree, producer: BlockRealize, write: BufferRegion, within: For, analyzer: Analyzer) -> Box:
    """Return the box that a block writes in one iteration of `within`.

    If a condition excludes some of the block's iterations there, it is the box that the others certainly fill, if one
    can be proved. For example, `for i, j in T.grid(8, 4)` with `v = i * 2 + j` and `T.where(j < 2)` writes `B[i * 2 :
    i * 2 + 2]`.
    """
    if _excludes(tree, producer, within):
        box = surely_written(tree, producer, write.buffer, within, analyzer)
        if box is not None:
            return box
    return touched(tree, producer, write, within, analyzer)


def _excludes(tree: Tree, producer: BlockRealize, within: For) -> bool:
    """Return whether a condition inside `within` may exclude points that the block computes in another iteration.

    A predicate over the iterators alone excludes the same points in every iteration of `within`. If two iterations are
    never one point, no other iteration computes an excluded one, for example after a split that does not divide.
    """
    if tree.condition_above(producer, within) is not None:
        return True
    loops = tree.loops_above(producer)
    return in_iterators(tree, producer) is None and (
        why_not_injective(producer, loops, Analyzer.inside(*tree.all_loops_above(producer))) is not None
    )


def _filled(tree: Tree, producer: BlockRealize, write: BufferRegion, within: For, analyzer: Analyzer) -> bool:
    """Return whether a block fills the box `written` in each iteration of `within`."""
    if _excludes(tree, producer, within):
        return surely_written(tree, producer, write.buffer, within, analyzer) is not None
    return _dense(tree, producer, write, within, analyzer)


def _dense(tree: Tree, producer: BlockRealize, write: BufferRegion, within: For, analyzer: Analyzer) -> bool:
    loops = tree.loops_above(producer)
    inner = loops[loops.index(within) + 1 :]
    if any(not is_const(r.extent, 1) for r in write.region):
        return reaches_all(producer.block, write, True)  # a tile
    return reaches_every_point([r.start for r in bound_box(producer, write)], loop_ranges(inner), analyzer)


def box_text(buffer: Buffer, box: Box) -> str:
    """Return a box as text, for example `B[i, 0 : 0 + 8]`."""
    end = Analyzer().simplify
    parts = [str(r.start) if is_const(r.extent, 1) else f"{r.start} : {end(r.start + r.extent)}" for r in box]
    return f"{buffer.name}[{', '.join(parts)}]"


def broken_flow(state: ScheduleState, tree: Tree, block: BlockRealize) -> Failure | None:
    """Return a `Failure` if a read no longer finds its value after a block has moved; None if all reads do."""
    scope = Scope.around(tree, block)
    for producer in scope.producers(block):
        if not scope.before(producer, block):
            return Failure(
                {producer.block: "comes later", block.block: "reads what it writes"},
                "producers before their consumers",
                f"{producer.block.name} after {block.block.name}",
            )
        failure = uncovered(state, tree, producer, block)
        if failure is not None:
            return failure
    for consumer in scope.consumers(block):
        if not scope.before(block, consumer):
            return Failure(
                {consumer.block: "comes earlier", block.block: "writes what it reads"},
                "producers before their consumers",
                f"{consumer.block.name} before {block.block.name}",
            )
        failure = uncovered(state, tree, block, consumer)
        if failure is not None:
            return failure
    return None
