"""rolling_buffer: keep the elements that the next iteration needs again in a circular buffer."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .... import expr as ex
from ....arith import Analyzer, regions
from ... import nodes as tir
from ...analysis.bindings import loops_binding
from ...analysis.block_kinds import Scope, why_neither
from ...analysis.block_regions import buffers_written, regions_written
from ...analysis.boxes import Box, bound_box, in_iterators, relax
from ...analysis.tree import Tree, statements
from ...conditions import both, is_const, rising, uses
from ...values import values
from .. import programs as on
from ..moving import uncovered
from ..registry import Failure, Requirement, holds_inside, primitive, requirement
from ..state import ScheduleState
from ..unfolding import folds_before, replace_shape, unfold, with_dimension

_LONGEST = 4096  # the most iterations of a loop whose windows are compared one by one


@dataclass(frozen=True, slots=True)
class _Roll:
    """A dimension of a box that moves along one loop.

    Dimension `dim` of the box begins at `start`, and its `extent` is larger than `stride`. From one iteration of the
    loop to the next, `start` increases by at most `stride` and never decreases.
    """

    dim: int
    loop: tir.For
    start: ex.Expr
    stride: int
    extent: int

    @property
    def overlap(self) -> int:
        """The smallest number of positions in this dimension that the previous iteration has already computed."""
        return self.extent - self.stride


@requirement
def writes_it(state: ScheduleState, block: tir.BlockRealize, write_buffer_index: int) -> Failure | None:
    """0 <= write_buffer_index < the number of regions that the block writes"""
    count = len(buffers_written(block.block))
    if 0 <= write_buffer_index < count:
        return None
    return Failure({block.block: "this block"}, f"a write_buffer_index below {count}", str(write_buffer_index))


@dataclass(frozen=True, slots=True)
class _Flat:
    """The program that the requirements check, in which no buffer that the block depends on is circular.

    `state` contains that program, and `block` is the block in it. `behind` lists the blocks whose buffers were rolled,
    in the order in which they are rolled again.
    """

    state: ScheduleState
    block: tir.BlockRealize
    behind: tuple[tir.BlockId, ...] = ()

    def shown(self, failure: Failure | None, state: ScheduleState) -> Failure | None:
        """Return a failure whose spots refer to the corresponding loops and blocks in the program of `state`."""
        if failure is None or state is self.state:
            return failure
        spots: dict[ex.Node, str] = {}
        for spot, text in failure.spots.items():
            same: ex.Node | None = spot
            if isinstance(spot, tir.For):
                same = state.loop(spot.var)
            elif isinstance(spot, tir.Block | tir.BlockRealize):
                realize = state.block(spot.id if isinstance(spot, tir.Block) else spot.block.id)
                same = realize.block if realize is not None and isinstance(spot, tir.Block) else realize
            if same is not None:
                spots[same] = text
        return Failure(spots, failure.wanted, failure.found, failure.tries)


def _flat(state: ScheduleState, block: tir.BlockRealize) -> _Flat:
    """Return the program as it was before the buffers that the block depends on were rolled.

    The form of the accesses suggests what that program was. The guess is correct if rolling these buffers again,
    readers first, leads to the current program; then both programs compute the same results. A step is legal here if it
    is legal in the earlier program and if the buffers can be rolled again after it.
    """
    tree = state.home(block)
    scope = Scope.around(tree, block)
    folds = folds_before(scope, block)
    if not folds:
        return _Flat(state, block)
    name = next(name for name, func in state.mod.items() if func is tree.func)
    flat = ScheduleState(state.mod.with_function(name, unfold(scope, folds)), state.func_name)
    behind = tuple(fold.writer.block.id for fold in reversed(folds))
    before = flat.block(block.block.id)
    assert before is not None  # all blocks stay
    again = ScheduleState(flat.mod, flat.func_name)
    if _roll_again(again, behind) is not None or not ex.structural_equal(again.mod[name], tree.func):
        return _Flat(state, block)
    return _Flat(flat, before, behind)


def _roll_again(state: ScheduleState, blocks: Iterable[tir.BlockId]) -> Failure | None:
    """Roll, for each of `blocks`, the only buffer that the block writes; return a failure if that is not legal,
    otherwise None.
    """
    for key in blocks:
        block = state.block(key)
        assert block is not None
        for needed in _REQUIRED:
            failure = needed(state, block, 0)
            if failure is not None:
                return failure
        _roll(state, block, 0)
    return None


_Check = Callable[[ScheduleState, tir.BlockRealize, int], Failure | None]
_REQUIRED: list[_Check] = []


def _of_flat(check: _Check) -> Requirement:
    """Decorator: create a requirement on the program in which no buffer that the block depends on is circular."""
    _REQUIRED.append(check)

    def of_match(state: ScheduleState, match: _Flat, write_buffer_index: int) -> Failure | None:
        return match.shown(check(match.state, match.block, write_buffer_index), state)

    return Requirement(check.__name__, inspect.cleandoc(check.__doc__ or ""), of_match)


inputs_roll_again = holds_inside(
    "inputs_roll_again", "if buffers that the block reads are circular already, they can be rolled again after this one"
)


@_of_flat
def producer_of_temporary(state: ScheduleState, block: tir.BlockRealize, write_buffer_index: int) -> Failure | None:
    """the block is complete or a reduction, and writes only this buffer; the buffer is allocated in the scope, and
    other blocks read it only with plain loads"""
    tree = state.home(block)
    scope = Scope.around(tree, block)
    reason = why_neither(scope, block)
    if reason is None and len(buffers_written(block.block)) > 1:
        reason = f"block {block.block.name} writes {len(buffers_written(block.block))} buffers"
    if reason is not None:
        return Failure({block.block: "this block"}, "a complete or reduction block with one result", reason)
    buffer = buffers_written(block.block)[write_buffer_index]
    if buffer not in scope.allocated:
        fault = f"{buffer.name} is not allocated in this scope"
        return Failure({block.block: "this block"}, "an intermediate buffer", fault)
    for reader in (block, *scope.readers(buffer)):
        for stmt in statements(reader):
            if isinstance(stmt, tir.Block) and any(m.source.buffer is buffer for m in stmt.match_buffers):
                return Failure({stmt: "here"}, f"plain loads and stores of {buffer.name}", "it is matched as a region")
    if not scope.consumers(block):
        return Failure({block.block: "this block"}, f"a reader of {buffer.name}", "no block reads it")
    return None


@_of_flat
def meet_in_a_loop(state: ScheduleState, block: tir.BlockRealize, write_buffer_index: int) -> Failure | None:
    """the block and its readers share a loop, and each iteration computes the elements that it reads

    In each iteration of the innermost shared loop, the block computes all elements that its readers read in this
    iteration. Around the block there are only loops, and no conditions.
    """
    tree = state.home(block)
    scope = Scope.around(tree, block)
    shared = _shared_loops(tree, block, scope)
    if not shared:
        return Failure(
            {block.block: "this block", **{c.block: "reads it" for c in scope.consumers(block)}},
            f"one loop around {block.block.name} and all its readers",
            "there is none",
            (f"compute_at({block.block.name!r}, loop of the reader)",),
        )
    for outer in tree.above(block):
        if outer is scope.realize.block:
            break
        if not isinstance(outer, tir.For | tir.Seq):
            return Failure({outer: "here"}, f"only loops around {block.block.name}", f"a {type(outer).__name__}")
    for consumer in scope.consumers(block):
        failure = uncovered(state, tree, block, consumer)
        if failure is not None:
            return failure
    return None


def _shared_loops(tree: Tree, block: tir.BlockRealize, scope: Scope) -> list[tir.For]:
    consumers = scope.consumers(block)
    return [l for l in tree.loops_above(block) if all(tree.inside(c, l) for c in consumers)]


def _window(state: ScheduleState, block: tir.BlockRealize, region: tir.BufferRegion) -> Box:
    """Return the box that the block writes in one iteration of the innermost loop that it shares with all readers."""
    tree = state.home(block)
    shared = _shared_loops(tree, block, Scope.around(tree, block))
    inner = tree.loops_above(block)[len(shared) :]
    return relax(bound_box(block, region), inner, state.analyzer(block), region.buffer)


def _rolls(state: ScheduleState, block: tir.BlockRealize, region: tir.BufferRegion) -> list[_Roll] | str:
    """Return the dimensions whose windows overlap between consecutive iterations of a loop, outermost loop first.

    If there are none, return a message that says why.
    """
    tree = state.home(block)
    shared = _shared_loops(tree, block, Scope.around(tree, block))
    analyzer = state.analyzer(block)
    box = _window(state, block, region)
    rolls: list[_Roll] = []
    moving = {l.var: l for l in shared}
    for d, r in enumerate(box):
        used = [v for v in ex.free_vars(r.start) if v in moving]
        extent = analyzer.simplify(r.extent)
        if len(used) != 1 or not isinstance(extent, ex.IntImm):
            continue
        loop = moving[used[0]]
        stride = regions.stride_of(r.start, loop.var, analyzer) or _greatest_step(r.start, loop)
        elsewhere = [k for k, other in enumerate(box) if k != d and uses(other, {loop.var})]
        if stride is not None and 0 < stride < extent.value and not elsewhere:
            rolls.append(_Roll(d, loop, r.start, stride, extent.value))
    if not rolls:
        shown = ", ".join(f"{r.start} : {analyzer.simplify(r.start + r.extent)}" for r in box)
        return f"{region.buffer.name}[{shown}] in each iteration of {shared[-1].var.name}"
    return sorted(rolls, key=lambda roll: shared.index(roll.loop))


def _greatest_step(start: ex.Expr, loop: tir.For) -> int | None:
    """Return the largest increase of an expression between consecutive iterations of a loop: 3 for `i * 5 // 2`. Return
    None if it may decrease or is unknown.
    """
    if not isinstance(loop.start, ex.IntImm) or not isinstance(loop.extent, ex.IntImm):
        return None
    if any(v is not loop.var for v in ex.free_vars(start)):
        return None
    if not 1 < loop.extent.value <= _LONGEST:
        return None
    iterations = np.arange(loop.start.value, loop.start.value + loop.extent.value, dtype=np.int64)
    steps = np.diff(np.broadcast_to(values(start, {loop.var: iterations}), iterations.shape))
    return int(steps.max()) if steps.min() >= 0 else None


@_of_flat
def overlapping_windows(state: ScheduleState, block: tir.BlockRealize, write_buffer_index: int) -> Failure | None:
    """in one dimension, the elements that the block writes in consecutive iterations of a loop overlap

    In an iteration, the block writes the elements [f(l), f(l) + e), where e is a constant. The loop l is around the
    block and its readers, and occurs in no other dimension. From one iteration to the next, f never decreases, and
    increases by less than e. Examples of f are s*l + c and s*l // 2.
    """
    rolls = _rolls(state, block, regions_written(block.block)[write_buffer_index])
    if not isinstance(rolls, str):
        return None
    return Failure(
        {block.block: "this block"}, "windows that overlap from one iteration to the next, along one loop", rolls
    )


@_of_flat
def one_point_an_element(state: ScheduleState, block: tir.BlockRealize, write_buffer_index: int) -> Failure | None:
    """the block stores single elements, each from one point of its spatial iterators

    Each spatial iterator is the only variable of some index, the predicate depends only on the element, and reductions
    run below the shared loops. Therefore all iterations that compute an element give it the same value, or none of them
    stores it.
    """
    tree = state.home(block)
    region = regions_written(block.block)[write_buffer_index]
    expected = "one point of the iterators for each element, the same in every iteration"
    alone = {free[0] for r in region.region if len(free := ex.free_vars(r.start)) == 1 and is_const(r.extent, 1)}
    fault = next((f"a region of {r.extent} elements" for r in region.region if not is_const(r.extent, 1)), None)
    for it in block.block.iter_vars:
        if fault is None and it.kind == ex.SPATIAL and it.var not in alone and not is_const(it.dom.extent, 1):
            fault = f"{it.var.name} is not alone in an index of {region.buffer.name}"
    if fault is not None:
        return Failure({block.block: "this block"}, expected, fault)
    if in_iterators(tree, block) is None:
        return Failure({block: "this predicate"}, expected, f"the block runs where {block.predicate}")
    reduced = loops_binding(block, (ex.REDUCE,))
    for loop in _shared_loops(tree, block, Scope.around(tree, block)):
        if loop.var in reduced:
            return Failure({loop: "this loop"}, expected, f"{loop.var.name} binds a reduction iterator")
    return None


@_of_flat
def loops_in_order(state: ScheduleState, block: tir.BlockRealize, write_buffer_index: int) -> Failure | None:
    """the loop of the overlap and the loops from there down to the readers are serial, and their domains do not depend
    on each other

    Therefore the previous iteration has run, and its inner loops went through the same windows.
    """
    tree = state.home(block)
    rolls = _rolls(state, block, regions_written(block.block)[write_buffer_index])
    assert not isinstance(rolls, str)  # overlapping_windows
    shared = _shared_loops(tree, block, Scope.around(tree, block))
    inner = shared[shared.index(rolls[0].loop) :]
    for loop in inner:
        if loop.kind not in (tir.ForKind.SERIAL, tir.ForKind.UNROLLED):
            kind = f"bound to {loop.thread}" if loop.kind == tir.ForKind.THREAD else str(loop.kind)
            return Failure({loop: "this loop"}, "serial loops from the overlap inward", f"{loop.var.name} is {kind}")
    around = {l.var for l in inner}
    for loop in tree.loops_above(block)[len(shared) - len(inner) :]:
        if uses(loop.start, around) or uses(loop.extent, around):
            return Failure(
                {loop: "its domain"}, "domains that do not depend on the loops around", f"{loop.extent} iterations"
            )
    return None


@_of_flat
def inputs_stay(state: ScheduleState, block: tir.BlockRealize, write_buffer_index: int) -> Failure | None:
    """the block reads the same values in every iteration

    Each buffer that it reads either has no writer in the scope, or has one writer that is complete or a reduction and
    reads nothing that it overwrites. Otherwise an element that the block keeps from an earlier iteration could differ
    from the value that the block would compute now.
    """
    tree = state.home(block)
    scope = Scope.around(tree, block)
    seen: set[tir.Buffer] = set()
    pending = list(scope.read(block))
    while pending:
        buffer = pending.pop()
        if buffer in seen:
            continue
        seen.add(buffer)
        for writer in scope.writers(buffer):
            reason = why_neither(scope, writer)
            if reason is not None:
                return Failure(
                    {writer.block: f"writes {buffer.name}", block.block: "depends on it"},
                    f"{buffer.name} written once and for all",
                    reason,
                )
            pending += scope.read(writer)
    return None


@primitive(
    aka={"Halide": "fold_storage"}, past="rolls",
    requires=[
        writes_it, producer_of_temporary, meet_in_a_loop, overlapping_windows, one_point_an_element, loops_in_order,
        inputs_stay,
    ],
    match=_flat,
)  # fmt: skip
def rolling_buffer(state: ScheduleState, match: _Flat, block: tir.BlockRealize, write_buffer_index: int) -> None:
    """Keep the elements that consecutive iterations share, and compute only the new elements.

    before:
        B = T.alloc_buffer((10,))
        for i in range(8):
            for ax0 in range(3):
                with T.block("B"):
                    v = T.axis.spatial(10, i + ax0)
                    B[v] = A[v] * T.float32(2.0)
            with T.block("C"):
                vi = T.axis.remap("S", [i])
                C[vi] = B[vi] + B[vi + 1] + B[vi + 2]
    call: `sch.rolling_buffer("B", 0)`
    after:
        B = T.alloc_buffer((3,))
        for i in range(8):
            for ax0 in range(3):
                with T.block("B"):
                    v = T.axis.opaque(10, i + ax0)
                    T.where(i < 1 or 2 <= ax0)
                    B[v % 3] = A[v] * T.float32(2.0)
            with T.block("C"):
                vi = T.axis.opaque(8, i)
                C[vi] = B[vi % 3] + B[(vi + 1) % 3] + B[(vi + 2) % 3]

    The buffer becomes circular in the dimension whose overlap belongs to the outermost loop. It keeps its size in
    the other dimensions, where elements that were already computed are skipped as well. Iterators that index the
    circular dimension become opaque, because their order matters from now on. The buffers that the block reads may
    already be circular.
    """
    tree = state.home(block)
    _roll(match.state, match.block, write_buffer_index)
    failure = match.shown(_roll_again(match.state, match.behind), state)
    if failure is not None:  # `match.state` is a copy then
        raise inputs_roll_again.refuse(failure)
    if match.state is not state:
        name = next(name for name, func in state.mod.items() if func is tree.func)
        state.set_func(tree, match.state.mod[name])


rolling_buffer.refuses(writes_it, "sch.compute_at('B', sch.get_loops('C')[0]); sch.rolling_buffer('B', 1)", on.CHAIN)
rolling_buffer.refuses(producer_of_temporary, "sch.rolling_buffer('D', 0)", on.CHAIN)
rolling_buffer.refuses(meet_in_a_loop, "sch.rolling_buffer('B', 0)", on.CHAIN)
rolling_buffer.refuses(
    overlapping_windows, "sch.compute_at('C', sch.get_loops('D')[0]); sch.rolling_buffer('C', 0)", on.CHAIN
)
rolling_buffer.refuses(one_point_an_element, "sch.rolling_buffer('B', 0)", on.WINDOWS_OF_DATA)
rolling_buffer.refuses(loops_in_order, "sch.rolling_buffer('B', 0)", on.CONCURRENT_WINDOWS)
rolling_buffer.refuses(inputs_stay, "sch.rolling_buffer('B', 0)", on.CHANGING_INPUT)


def _roll(state: ScheduleState, block: tir.BlockRealize, write_buffer_index: int) -> None:
    """Make the buffer that the block writes circular. The program must meet the requirements of `rolling_buffer`."""
    tree = state.home(block)
    scope = Scope.around(tree, block)
    region = regions_written(block.block)[write_buffer_index]
    buffer = region.buffer
    rolls = _rolls(state, block, region)
    assert not isinstance(rolls, str)  # overlapping_windows
    fold = rolls[0]
    analyzer = state.analyzer(block)
    shape = tuple(ex.const(fold.extent, d.dtype) if k == fold.dim else d for k, d in enumerate(buffer.shape))
    folded = replace_shape(buffer, shape)

    def with_folded(user: tir.BlockRealize) -> tir.BlockRealize:
        # The iterators in accesses to the circular buffer become opaque, because their order matters from now on.
        kinds = (ex.SPATIAL, ex.OPAQUE)
        return with_dimension(user, buffer, folded, fold.dim, lambda r: _wrapped(r, fold), kinds)

    changes: dict[tir.Stmt, tir.Stmt | None] = {reader: with_folded(reader) for reader in scope.consumers(block)}
    predicate = block.predicate
    at = bound_box(block, region)
    for roll in rolls:
        place = analyzer.simplify(at[roll.dim].start - roll.start)
        first = roll.loop.var < roll.loop.start + 1
        predicate = both(predicate, ex.Or(analyzer.simplify(first), rising(analyzer.simplify(place >= roll.overlap))))
    changes[block] = ex.replace(with_folded(block), predicate=predicate)
    state.set_func(tree, tree.rebuild(changes))
    now = state.block(scope.realize.block.id)
    assert now is not None  # the scope stays
    allocated = tuple(folded if b is buffer else b for b in now.block.alloc_buffers)
    state.replace({now.block: ex.replace(now.block, alloc_buffers=allocated)})


def _wrapped(r: ex.Range, roll: _Roll) -> ex.Range:
    if is_const(r.extent, 1):
        return ex.Range(Analyzer().simplify(r.start % roll.extent), r.extent)
    # A circular region is not a box, so the whole dimension is used.
    return ex.Range(ex.const(0, r.start.dtype), ex.const(roll.extent, r.start.dtype))


@rolling_buffer.space
def _rolling_space(state: ScheduleState) -> Iterator[tuple[Any, ...]]:
    tree = state.tree()
    for block in tree.blocks.values():
        for index in range(len(buffers_written(block.block))):
            if tree.loops_above(block):
                yield block, index
