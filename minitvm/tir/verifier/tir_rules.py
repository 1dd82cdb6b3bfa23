"""The rules of loop programs.

A claim (a declared region, or an iterator's domain) is rejected only if simple interval reasoning disproves it. For
example, an access is compared with the declared region only if it certainly happens, without conditions; foreign calls
and accumulators are skipped. The shadow checks of the reference interpreter test all other claims.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ...arith import plain_affine
from ...arith.affine import Affine
from ...expr import REDUCE, IntImm, Range, Var, children, find, visitor, walk
from ...expr.node import kept_with_node
from ...expr.visitor import variables
from ..all_reduce import AllReduce
from ..analysis.accesses import handed_out
from ..analysis.effects import effects
from ..analysis.touches import Box, Touch, stretch
from ..analysis.views import views, why_not_view
from ..nodes import Allocate, Block, BlockRealize, For, ForKind, KernelCall, PrimFunc
from .rule import Broken, Rule, rule
from .shared_rules import SHARED_RULES
from .visibility import Surroundings, nodes_in, nodes_of, scoped, statements_of

TIR_RULES: list[Rule] = [*SHARED_RULES]


@rule(TIR_RULES)
def there_is_a_root_block(func: PrimFunc) -> Broken:
    """the body is the root block, which has no iterators"""
    if not isinstance(func.body, BlockRealize) or func.body.block.iter_vars:
        yield func.body, f"a {type(func.body).__name__}"


@rule(TIR_RULES)
def nothing_is_lowered_yet(func: PrimFunc) -> Broken:
    """a loop program has no Allocate (blocks allocate buffers) and no KernelCall (only host functions call kernels)"""
    for node in nodes_of(func, Allocate, KernelCall):
        yield node, f"{type(node).__name__} in a loop program"


@rule(TIR_RULES)
def iterators_are_bound(func: PrimFunc) -> Broken:
    """each iterator of a block has one value, with the dtype of the iterator, and is spatial, reduction or opaque"""
    for node in nodes_of(func, BlockRealize):
        assert isinstance(node, BlockRealize)
        axes, values = node.block.iter_vars, node.iter_values
        if len(axes) != len(values):
            yield node, f"{len(axes)} iterators, {len(values)} values"
        for axis, value in zip(axes, values, strict=False):
            if axis.var.dtype != value.dtype:
                yield axis, f"{axis.var.name} is {axis.var.dtype}, its value {value} is {value.dtype}"
            if axis.kind not in ("S", "R", "O"):
                yield axis, f"{axis.var.name} is of kind {axis.kind!r}"


@rule(TIR_RULES)
def blocks_use_their_iterators(func: PrimFunc) -> Broken:
    """a block uses the loops around it only through its iterators, except to name threads that combine values"""
    for row in scoped(func):
        tree, scope, _ = row
        if scope.block is None or scope.block_loops.isdisjoint(variables(tree)):
            continue
        for node in nodes_in(row):
            for variable in node.values if isinstance(node, AllReduce) else children(node):
                if isinstance(variable, Var) and variable in scope.block_loops:
                    yield node, f"the loop variable {variable.name} inside the block {scope.block.name}"


@rule(TIR_RULES)
def iterators_stay_in_their_domains(func: PrimFunc) -> Broken:
    """if a block has no predicate, the values of its iterators are in their domains"""
    for node, scope in statements_of(func, BlockRealize):
        if not _always(node):
            continue
        if any(map(_never_runs, scope.loops)):
            continue  # the block never runs
        for axis, value in zip(node.block.iter_vars, node.iter_values, strict=False):
            values = stretch(Range(value, IntImm(1, value.dtype)), scope.loops)
            if values is None or not isinstance(axis.dom.extent, IntImm) or scope.guarded:
                continue
            first, count = values
            shift = first - plain_affine(axis.dom.start)
            below = shift.const
            if shift.is_const and (below < 0 or below + count > axis.dom.extent.value):
                start = axis.dom.start
                low = start.value + below if isinstance(start, IntImm) else f"{start} + {below}"
                last = low + count - 1 if isinstance(low, int) else f"{low} + {count - 1}"
                yield axis, f"{axis.var.name} = {value} runs from {low} to {last}"


@rule(TIR_RULES)
def reads_are_declared(func: PrimFunc) -> Broken:
    """the body of a block reads only elements that the block declares as read"""
    yield from _undeclared(func, write=False)


@rule(TIR_RULES)
def writes_are_declared(func: PrimFunc) -> Broken:
    """the body of a block writes only elements that the block declares as written"""
    yield from _undeclared(func, write=True)


@rule(TIR_RULES)
def addresses_are_declared(func: PrimFunc) -> Broken:
    """a block that passes on the address of a buffer declares an access to the buffer, or allocates or matches it"""
    if not visitor.handed_out(func.body):
        return
    for row in scoped(func):
        tree, scope, _ = row
        block = scope.block
        if block is None or _makes_no_claims(block) or not visitor.handed_out(tree):
            continue
        own = {*block.alloc_buffers, *(m.buffer for m in block.match_buffers)}
        for node in nodes_in(row):
            buffer = handed_out(node)
            if buffer is None or buffer in own or any(r.buffer is buffer for r in (*block.reads, *block.writes)):
                continue
            yield node, f"the block {block.name} declares no access of {buffer.name}, whose address it hands out"


@rule(TIR_RULES)
def views_fit_their_source(func: PrimFunc) -> Broken:
    """a matched buffer has the dtype and scope of its source, and the dimensions and strides of the matched region"""
    for match, region in views(func):
        view, source = match.buffer, match.source.buffer
        if (view.dtype, view.scope) != (source.dtype, source.scope):
            yield match, f"{view.dtype} in {view.scope}, a view of {source.dtype} in {source.scope}"
        wrong = why_not_view(match, region)
        if wrong:
            yield match, wrong


@rule(TIR_RULES)
def concurrent_loops_bind_no_reductions(func: PrimFunc) -> Broken:
    """parallel and vectorised loops and block indices drive only spatial iterators, thread indices also reductions"""
    for node, scope in statements_of(func, BlockRealize):
        around = [loop for loop in scope.loops if loop.var not in scope.block_loops]
        concurrent = {loop.var: loop for loop in around if _is_concurrent(loop)}
        for axis, value in zip(node.block.iter_vars, node.iter_values, strict=False):
            for item in walk(value):
                if isinstance(item, Var) and item in concurrent and axis.kind == REDUCE:
                    loop = concurrent[item]
                    yield loop, f"{item.name} is {loop.thread or loop.kind} and drives the reduction {axis.var.name}"


def _always(realize: BlockRealize) -> bool:
    return isinstance(realize.predicate, IntImm) and bool(realize.predicate.value)


def _never_runs(loop: For) -> bool:
    return isinstance(loop.extent, IntImm) and loop.extent.value <= 0


def _is_concurrent(loop: For) -> bool:
    if loop.kind is ForKind.THREAD:
        return not str(loop.thread).startswith("threadIdx")
    return loop.kind in (ForKind.PARALLEL, ForKind.VECTORIZED)


def _undeclared(func: PrimFunc, write: bool) -> Broken:
    for realize, scope in statements_of(func, BlockRealize):
        if _makes_no_claims(realize.block):
            continue
        block = realize.block
        declared = {r.buffer: r.region for r in (block.writes if write else block.reads)}
        taken = _values_taken(realize, scope)
        touched = effects(block)
        for touch in touched.writes if write else touched.reads:
            if touch.opaque or touch.accumulated or any(map(_never_runs, touch.loops)):
                continue  # a foreign call, an accumulator (not declared in TVM), or code that never runs
            region, name = declared.get(touch.buffer), touch.buffer.name
            if region is None:
                fault = f"the block {block.name} declares no {'writes' if write else 'reads'} of {name}"
            elif touch.sure and not touch.conditions and (outside := _outside(touch, region, taken)) is not None:
                number, where = outside
                at = f", where {where}" if where else ""
                word = "written" if write else "read"
                fault = f"dimension {number} of {name} is {word} outside of the declared region{at}"
            else:
                continue
            # A block may read what it has written itself before: a body may start its own sum.
            if write or any(t.node is touch.node for t in touched.exposed):
                yield touch.node, fault


def _values_taken(realize: BlockRealize, scope: Surroundings) -> dict[Var, tuple[int, int]]:
    """Return {variable: (low, high)} for the iterators that certainly take all values from low to high, whatever values
    the other iterators have.
    """
    if not _always(realize) or scope.guarded:
        return {}
    loops = {loop.var: loop for loop in scope.loops if loop.var not in scope.block_loops}
    uses = Counter(item for value in realize.iter_values for item in find(value, Var))
    taken = {}
    for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=False):
        loop = loops.get(value) if isinstance(value, Var) and uses[value] == 1 else None
        if loop is not None and isinstance(loop.start, IntImm) and isinstance(loop.extent, IntImm):
            if loop.extent.value > 0:
                taken[axis.var] = (loop.start.value, loop.start.value + loop.extent.value - 1)
    return taken


def _makes_no_claims(block: Block) -> bool:
    return block.name == "root" and not (block.iter_vars or block.reads or block.writes)


@kept_with_node
def _stretch(region: Range) -> tuple[Affine, int] | None:
    return stretch(region, ())


def _outside(touch: Touch, declared: Box, taken: Mapping[Var, tuple[int, int]]) -> tuple[int, str] | None:
    """Return a dimension in which a touch certainly leaves a declared region, with example values of the iterators;
    None if there is none.
    """
    for number, (inner, region) in enumerate(zip(touch.stretches, declared, strict=True)):
        outer = _stretch(region)
        if inner is None or outer is None:
            continue
        shift = inner[0] - outer[0]
        if not all(term in taken for term in shift.terms):
            continue
        # At the least shift it starts before the declared region, or at the greatest shift it ends after it.
        for last in (False, True):
            ends = {term: taken[term][(factor > 0) is last] for term, factor in shift.terms.items()}
            below = shift.const + sum(factor * ends[term] for term, factor in shift.terms.items())
            if below + inner[1] > outer[1] if last else below < 0:
                return number, ", ".join(f"{var.name} = {value}" for var, value in ends.items())
    return None
