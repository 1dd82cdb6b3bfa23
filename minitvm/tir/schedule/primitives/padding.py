"""decompose_padding: separate the padding from a block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .... import expr as ex
from ....arith import Analyzer
from ...analysis.block_kinds import Scope, why_not_complete
from ...analysis.block_regions import with_declared_regions
from ...conditions import all_of, conjuncts, is_const, reads_memory, rising, uses
from ...nodes import Block, BlockRealize, BufferStore, For, Seq, Stmt
from ..access_remapping import with_simple_indices
from ..insertion import block_in
from ..registry import Failure, primitive, requirement
from ..state import ScheduleState
from ..updates import copied_nest
from .decompose_reduction import loop_around


@requirement
def padding_block(state: ScheduleState, block: BlockRealize) -> Failure | None:
    """the block is complete; its body is one store of if_then_else(inside, value, pad), where `pad` reads nothing and
    `inside` bounds iterators separately: lo <= v < hi
    """
    reason = why_not_complete(Scope.around(state.home(block), block), block)
    if reason is not None:
        return Failure({block.block: "this block"}, "a complete block", reason)
    bounds = _bounds(block.block)
    if not isinstance(bounds, str):
        return None
    return Failure({block.block.body: "here"}, "X[...] = T.if_then_else(lo <= v and v < hi, value, pad)", bounds)


@requirement
def only_loops_below(state: ScheduleState, block: BlockRealize, loop: For) -> Failure | None:
    """between the loop and the block there are only loops, and no conditions"""
    for outer in state.home(block).above(block):
        if outer is loop:
            return None
        if not isinstance(outer, For | Seq):
            fault = f"a {type(outer).__name__} around {block.block.name}"
            return Failure({outer: "here"}, f"no condition between {loop.var.name} and the block", fault)
    return None


def _padded_store(block: Block) -> tuple[BufferStore, ex.Call] | None:
    store = block.body
    if not isinstance(store, BufferStore) or store.predicate is not None or block.init is not None:
        return None
    value = store.value
    if block.match_buffers or block.alloc_buffers or not isinstance(value, ex.Call) or value.op != "if_then_else":
        return None
    return store, value


def _bounds(block: Block) -> dict[ex.Var, ex.Range] | str:
    """Return, for each iterator, the part of its domain in which the padding block takes its value from the input; or a
    message that says why this is unknown.
    """
    padded = _padded_store(block)
    if padded is None:
        return "the body is not one store of an if_then_else"
    _, value = padded
    inside, _, pad = value.args
    if reads_memory(pad):
        return f"the pad value {pad} is read from memory"
    domains = {it.var: it.dom for it in block.iter_vars}
    analyzer = Analyzer(domains)
    ends: dict[ex.Var, tuple[ex.Expr, ex.Expr]] = {v: (d.start, d.start + d.extent) for v, d in domains.items()}
    for condition in conjuncts(inside):
        if analyzer.can_prove(condition):
            continue
        variables = [v for v in ex.free_vars(condition) if v in domains]
        if not isinstance(condition, ex.CompareOp) or len(variables) != 1 or reads_memory(condition):
            return f"{condition} is no bound of one iterator"
        bound = _bound(condition, variables[0], analyzer)
        if bound is None:
            return f"{condition} is no bound of {variables[0].name}"
        side, end = bound
        low, high = ends[variables[0]]
        tighter = _tighter(low if side == 0 else high, end, side, analyzer)
        if tighter is None:
            return f"which of {low if side == 0 else high} and {end} bounds {variables[0].name} is not known"
        ends[variables[0]] = (tighter, high) if side == 0 else (low, tighter)
    for var, (low, high) in ends.items():
        if not analyzer.can_prove(low <= high):
            return f"{var.name} may have no value from {low} to {high}"
    simplify = analyzer.simplify
    return {v: ex.Range(simplify(low), simplify(high - low)) for v, (low, high) in ends.items()}


def _tighter(a: ex.Expr, b: ex.Expr, side: int, analyzer: Analyzer) -> ex.Expr | None:
    if analyzer.can_prove(a <= b):
        return b if side == 0 else a
    if analyzer.can_prove(a >= b):
        return a if side == 0 else b
    return None


def _bound(condition: ex.CompareOp, var: ex.Var, analyzer: Analyzer) -> tuple[int, ex.Expr] | None:
    """Return (0, lo) for a condition lo <= var, (1, hi) for var < hi, and None for any other condition."""
    a, b = condition.a, condition.b
    if isinstance(condition, ex.GT | ex.GE):
        a, b = b, a  # now a < b or a <= b
    elif not isinstance(condition, ex.LT | ex.LE):
        return None
    strict = isinstance(condition, ex.GT | ex.LT)
    at_zero: dict[ex.Var, ex.Expr] = {var: ex.const(0, var.dtype)}
    slope = analyzer.simplify(ex.substitute(b - a, {var: var + 1}) - (b - a))
    rest = analyzer.simplify(ex.substitute(b - a, at_zero))
    if strict:
        rest = analyzer.simplify(rest - 1)  # slope * var + rest >= 0
    if not isinstance(slope, ex.IntImm) or slope.value == 0:
        return None
    if slope.value > 0:
        return 0, analyzer.simplify((-rest + (slope.value - 1)) // slope.value)
    return 1, analyzer.simplify(rest // -slope.value + 1)


@primitive(past="was decomposed, which made", requires=[padding_block, loop_around, only_loops_below])
def decompose_padding(state: ScheduleState, block: BlockRealize, loop: For) -> BlockRealize:
    """Split a padding block in two: the first fills the buffer with the pad value, the second computes the rest.

    before:
        for i in range(14):
            with T.block("B"):
                vi = T.axis.remap("S", [i])
                B[vi] = T.if_then_else(vi >= 2 and vi < 12, A[vi - 2], T.float32(0.0))
    call: `pad = sch.decompose_padding("B", i)`
    after:
        for i in range(14):
            with T.block("B_pad_const"):
                vi = T.axis.remap("S", [i])
                B[vi] = T.float32(0.0)
        for i in range(10):
            with T.block("B"):
                vi = T.axis.remap("S", [i])
                B[vi + 2] = A[vi]

    The first block runs before the loop. The second iterates only over the elements that are not padding. If an
    iterator is bound to only one loop, that loop becomes shorter; otherwise the block gets a predicate. Returns the
    block that fills the buffer; the handle of the old block now refers to the second block.
    """
    tree = state.home(block)
    old = block.block
    inside, padded = _bounds(old), _padded_store(old)
    assert padded is not None and not isinstance(inside, str)  # padding_block
    store, value = padded
    loops = tree.loops_above(block)
    inner = loops[loops.index(loop) :]
    filling = _fill(block, inner, store, value.args[2], state.analyzer(tree.parent[loop]))
    now = _inside_only(state, block, inner, store, value.args[1], inside)
    state.replace({loop: Seq.of(filling, now)})
    return block_in(state, filling)


_PADDED = """
def main(A: T.Buffer((10,)), B: T.Buffer((14,))):
    T.func_attr({"tir.noalias": True})
    for i in range(14):
        with T.block("B"): B[v_i] = T.if_then_else(v_i >= 2 and v_i < 12, A[v_i - 2], 0.0)
"""
_PADDED_WITH_INPUT = """
A: T.Buffer((10,))
for i in range(14):
    with T.block("B"): B[v_i] = T.if_then_else(v_i >= 2 and v_i < 12, A[v_i - 2], rest[0])
"""
_GUARDED_PADDING = """
A: T.Buffer((10,))
n: T.int32
for j in range(4):
    if j < n:
        for i in range(14):
            with T.block("B"): B[vj, vi] = T.if_then_else(vi >= 2 and vi < 12, A[vi - 2], 0.0)
"""
decompose_padding.refuses(padding_block, "sch.decompose_padding('B', i)", _PADDED_WITH_INPUT)
decompose_padding.refuses(
    loop_around, "sch.cache_write('B', 0, 'local'); sch.decompose_padding('B', sch.get_loops('B_local')[0])", _PADDED
)
decompose_padding.refuses(only_loops_below, "sch.decompose_padding('B', j)", _GUARDED_PADDING)


def _fill(block: BlockRealize, inner: Sequence[For], store: BufferStore, pad: ex.Expr, around: Analyzer) -> Stmt:
    """Return a nest that stores `pad` everywhere in the domain of `block`. Its loops are copies of `inner`."""
    old = block.block
    variables: dict[ex.Var, ex.Expr] = {it.var: it.var.with_name(it.var.name) for it in old.iter_vars}
    iters = tuple(ex.replace(it, var=variables[it.var]) for it in old.iter_vars)
    body = ex.substitute(ex.replace(store, value=pad), variables)
    filling = Block(iters, (), (), f"{old.name}_pad_const", body, annotations=dict(old.annotations))
    values = tuple(around.simplify(v) for v in block.iter_values)
    return copied_nest(inner, BlockRealize(values, block.predicate, with_declared_regions(filling)))


def _inside_only(
    state: ScheduleState,
    block: BlockRealize,
    inner: Sequence[For],
    store: BufferStore,
    value: ex.Expr,
    inside: Mapping[ex.Var, ex.Range],
) -> Stmt:
    """Return the outermost loop of `inner`, in which the block runs only for the elements that are not padding."""
    old = block.block
    analyzer, around = state.analyzer(block), state.analyzer(state.home(block).parent[inner[0]])
    shifted: dict[ex.Var, ex.Expr] = {}
    iters: list[ex.IterVar] = []
    values: list[ex.Expr] = []
    conditions = conjuncts(block.predicate)
    shorter: dict[For, ex.Expr] = {}
    for it, bound in zip(old.iter_vars, block.iter_values, strict=True):
        part = inside[it.var]
        narrowed = not (
            analyzer.can_prove_equal(part.start, it.dom.start) and analyzer.can_prove_equal(part.extent, it.dom.extent)
        )
        if not narrowed:
            iters.append(it)
            values.append(around.simplify(bound))
            continue
        shifted[it.var] = it.var + part.start
        iters.append(ex.replace(it, dom=ex.Range(ex.const(0, part.extent.dtype), part.extent)))
        own = _own_loop(block, inner, it)
        if own is not None:
            shorter[own] = part.extent
            values.append(bound)
            continue
        values.append(analyzer.simplify(bound - part.start))
        for condition in (bound >= part.start, bound < part.start + part.extent):
            if not analyzer.can_prove(condition):
                conditions.append(rising(analyzer.simplify(condition)))
    # An iterator with one value stays in the indices.
    within = Analyzer({it.var: it.dom for it in iters if not is_const(it.dom.extent, 1)})
    body = with_simple_indices(ex.substitute(ex.replace(store, value=value), shifted), within)
    narrow = with_declared_regions(ex.replace(old, iter_vars=tuple(iters), body=body, reads=(), writes=()))
    new = ex.replace(block, iter_values=tuple(values), predicate=all_of(conditions), block=narrow)

    def go(stmt: Stmt) -> Stmt:
        if stmt is block:
            return new
        if isinstance(stmt, For) and stmt in inner:
            return ex.replace(stmt, extent=shorter.get(stmt, stmt.extent), body=go(stmt.body))
        if isinstance(stmt, Seq):
            return Seq(tuple(go(s) for s in stmt.stmts))
        return stmt

    return go(inner[0])


def _own_loop(block: BlockRealize, inner: Sequence[For], it: ex.IterVar) -> For | None:
    """Return the loop in `inner` that binds only the iterator `it`, if the loop starts at 0, covers the iterator's
    whole domain, and contains only loops around the block. Return None otherwise.
    """
    value = block.iter_values[block.block.iter_vars.index(it)]
    loop = next((l for l in inner if l.var is value), None)
    if loop is None or not is_const(loop.start, 0) or not is_const(it.dom.start, 0):
        return None
    if not Analyzer().can_prove_equal(loop.extent, it.dom.extent):
        return None
    others = [v for v in block.iter_values if v is not value]
    if uses(block.predicate, {loop.var}) or any(uses(v, {loop.var}) for v in others):
        return None
    at: Stmt = loop.body
    while at is not block:
        if not isinstance(at, For) or uses(at.start, {loop.var}) or uses(at.extent, {loop.var}):
            return None
        at = at.body
    return loop


@decompose_padding.space
def _decompose_space(state: ScheduleState) -> Iterator[tuple[Any, ...]]:
    tree = state.tree()
    for block in tree.blocks.values():
        if _padded_store(block.block) is not None:
            for loop in tree.loops_above(block):
                yield block, loop
