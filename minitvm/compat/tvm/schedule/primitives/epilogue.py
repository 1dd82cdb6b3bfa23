"""fuse_reduction_epilogue: what is combined with a finished reduction becomes what the reduction starts from."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..... import expr as ex
from .....arith import Analyzer
from .....tir.analysis.accesses import reads_buffer, update_operand
from .....tir.analysis.bindings import covers_domain, why_not_injective
from .....tir.analysis.block_kinds import Scope, why_not_complete, why_not_reduction
from .....tir.analysis.block_regions import buffers_written, regions_written, with_declared_regions
from .....tir.analysis.boxes import in_iterators
from .....tir.analysis.tree import Tree
from .....tir.conditions import conjuncts
from .....tir.nodes import Block, BlockRealize, Buffer, BufferLoad, BufferStore, Stmt
from .....tir.schedule import programs as on
from .....tir.schedule.registry import Failure, primitive, requirement
from .....tir.schedule.state import ScheduleState


@requirement
def reduces_into_temporary(
    state: ScheduleState, reduction_block: BlockRealize, epilogue_block: BlockRealize
) -> Failure | None:
    """the reduction block is a reduction X = X op e over its whole domain, where op is +, *, min or max

    X is allocated in the scope, and only the epilogue reads it.
    """
    tree = state.home(reduction_block)
    block, scope = reduction_block.block, Scope.around(tree, reduction_block)
    reason = why_not_reduction(scope, reduction_block)
    if reason is None and _reduction(block) is None:
        reason = f"{block.name} does not store X = X op e, with op one of +, *, min and max"
    if reason is not None:
        return Failure({block: "this block"}, "a reduction by +, *, min or max", reason)
    buffer = buffers_written(block)[0]
    if buffer not in scope.allocated:
        fault = f"{buffer.name} is not allocated in this scope"
    elif scope.readers(buffer) != [epilogue_block]:
        fault = f"{', '.join(b.block.name for b in scope.readers(buffer)) or 'nobody'} reads {buffer.name}"
    else:
        return None
    return Failure({block: "this block"}, f"a temporary that only {epilogue_block.block.name} reads", fault)


@requirement
def epilogue_is_one_store(state: ScheduleState, epilogue_block: BlockRealize) -> Failure | None:
    """the epilogue block is complete and in the same scope, and its body is one store that runs in every iteration"""
    tree = state.home(epilogue_block)
    block = epilogue_block.block
    reason = why_not_complete(Scope.around(tree, epilogue_block), epilogue_block)
    if reason is None and (not isinstance(block.body, BufferStore) or block.init is not None):
        reason = f"block {block.name} does more than one store"
    predicate = in_iterators(tree, epilogue_block)
    if reason is None and (predicate is None or conjuncts(predicate)):
        reason = f"block {block.name} runs only where {epilogue_block.predicate}"
    return None if reason is None else Failure({block: "this block"}, "a complete block of one store", reason)


@requirement
def same_points(state: ScheduleState, reduction_block: BlockRealize, epilogue_block: BlockRealize) -> Failure | None:
    """the epilogue reads each element of the temporary at the point where it stores its own element

    Both accesses are indexed by all iterators of the epilogue. The domains of these iterators equal the domains of the
    reduction's spatial iterators, and both blocks visit every point of their domain once.
    """
    tree = state.home(reduction_block)
    epilogue = epilogue_block.block
    points = _points(reduction_block.block, epilogue)
    if isinstance(points, str):
        return Failure({epilogue.body: "here"}, "one element of the result for each element of the temporary", points)
    for realize in (reduction_block, epilogue_block):
        outer = tree.condition_above(realize, None)
        if outer is not None:
            return Failure({outer: "around the block"}, "only loops around both blocks", type(outer).__name__)
        loops, analyzer = tree.loops_above(realize), state.analyzer(realize)
        reason = why_not_injective(realize, loops, analyzer)
        if reason is None and not covers_domain(realize, loops, analyzer):
            reason = f"the loops do not reach every iteration of block {realize.block.name}"
        if reason is not None:
            return Failure({realize.block: "its bindings"}, "each point of the domain visited once", reason)
    predicate = in_iterators(tree, reduction_block)
    if predicate is None or conjuncts(predicate):
        return Failure(
            {reduction_block: "this predicate"}, "a reduction at every point", f"only where {reduction_block.predicate}"
        )
    return None


@requirement
def goes_into_init(state: ScheduleState, reduction_block: BlockRealize, epilogue_block: BlockRealize) -> Failure | None:
    """the epilogue stores t or t op e without a conversion, where t is the temporary's element, op is the reduction's
    operator, and e does not use t

    For a sum, the epilogue may also store t - e. The step is legal, because (init op x1 op x2 op ...) op e equals
    (init op e) op x1 op x2 op ... Any other epilogue, for example an activation or a scaling, would be applied to
    partial results. (TVM 0.27 does that.)
    """
    store = _store(epilogue_block.block)
    kind, _ = _found(reduction_block.block)
    buffer = buffers_written(reduction_block.block)[0]
    if _addend(store.value, buffer, kind) is not None and store.buffer.dtype == buffer.dtype:
        return None
    sign = {ex.Add: "+", ex.Mul: "*", ex.Min: "min", ex.Max: "max"}[kind]
    stored = f"{store.buffer.name} = {store.value}"
    example = _counterexample(store.value, buffer, kind, _found(reduction_block.block)[1])
    return Failure(
        {store: "not only this"},
        f"{buffer.name} {sign} something, as {sign} is how {buffer.name} is reduced",
        f"{stored}; {example}" if example else stored,
        (f'reverse_compute_at("{epilogue_block.block.name}", ...) keeps it as a separate block',),
    )


@requirement
def addend_ready(state: ScheduleState, reduction_block: BlockRealize, epilogue_block: BlockRealize) -> Failure | None:
    """the epilogue's other inputs are written before the reduction, and not by blocks between the reduction and the
    epilogue
    """
    tree = state.home(reduction_block)
    scope = Scope.around(tree, reduction_block)
    temporary = buffers_written(reduction_block.block)[0]
    read = scope.read(epilogue_block) - {temporary}
    for other in scope.blocks:
        writes = [r.buffer for r in regions_written(other.block) if r.buffer in read]
        if other is reduction_block or other is epilogue_block or not writes:
            continue
        if _may_run_between(tree, other, reduction_block, epilogue_block):
            return Failure(
                {other.block: f"writes {writes[0].name}", reduction_block.block: "would read it"},
                f"{writes[0].name} finished before {reduction_block.block.name}",
                f"{other.block.name} comes later",
            )
    return None


def _may_run_between(tree: Tree, other: BlockRealize, first: BlockRealize, last: BlockRealize) -> bool:
    """Whether a block comes after `first` and before `last`, or may through a loop that they share."""
    if tree.order[first] < tree.order[other] < tree.order[last]:
        return True
    around = set(tree.loops_above(first)) & set(tree.loops_above(other))
    return any(not tree.inside(last, loop) for loop in around)


@primitive(
    past="was fused into",
    requires=[reduces_into_temporary, epilogue_is_one_store, same_points, goes_into_init, addend_ready],
)
def fuse_reduction_epilogue(state: ScheduleState, reduction_block: BlockRealize, epilogue_block: BlockRealize) -> None:
    """Fuse an epilogue, such as a bias, into a reduction: the reduction starts from the value that the epilogue adds.

    before:
        B = T.alloc_buffer((8,))
        for i, j in T.grid(8, 4):
            with T.block("B"):
                with T.init(): B[vi] = 0.0
                B[vi] = B[vi] + A[vi, vj]
        for i in range(8):
            with T.block("C"): C[vi] = B[vi] + bias[vi]
    call: `sch.fuse_reduction_epilogue("B", "C")`
    after:
        for i, j in T.grid(8, 4):
            with T.block("B"):
                with T.init(): C[vi] = bias[vi]
                C[vi] = C[vi] + A[vi, vj]

    The epilogue must use the reduction's operator. Examples are a bias after a sum, or a lower bound after a maximum.
    Floating-point numbers are added in a different order, so the result may be rounded differently.
    """
    tree = state.home(reduction_block)
    old, epilogue = reduction_block.block, epilogue_block.block
    kind, init = _found(old)
    store = _store(epilogue)
    temporary = buffers_written(old)[0]
    points = _points(old, epilogue)
    assert not isinstance(points, str)  # same_points
    addend = _addend(store.value, temporary, kind)
    assert addend is not None  # goes_into_init
    indices = tuple(ex.substitute(i, points) for i in store.indices)
    start = _start(ex.substitute(addend[1], points) if addend[1] is not None else None, addend[0], init, kind)
    body = _moved(old.body, temporary, store.buffer, indices)
    started = BufferStore(store.buffer, start, indices)
    merged = with_declared_regions(ex.replace(old, body=body, init=started, reads=(), writes=()))
    scope = tree.scope(reduction_block)
    state.set_func(
        tree, tree.rebuild({reduction_block: ex.replace(reduction_block, block=merged), epilogue_block: None})
    )
    now = state.block(scope.block.id)
    assert now is not None  # the scope stays
    kept = tuple(b for b in now.block.alloc_buffers if b is not temporary)
    state.replace({now.block: ex.replace(now.block, alloc_buffers=kept)})


_SUMS = """
t = T.alloc_buffer((8,))
for i, k in T.grid(8, 4):
    with T.block("t"):
        with T.init(): t[v_i] = 0.0
        t[v_i] = t[v_i] + A[v_i, v_k]
"""
_EXP_OF_SUMS = f"""{_SUMS}
for i in range(8):
    with T.block("D"): D[v_i] = T.exp(t[v_i])
"""
_SIX_OF_SUMS = f"""{_SUMS}
for i in range(6):
    with T.block("D"): D[v_i] = t[v_i] + bias[v_i]
"""
_TWO_STORES = f"""{_SUMS}
for i in range(8):
    with T.block("D"):
        D[vi] = t[vi] + 1.0
        E[vi] = t[vi]
"""
_CHANGED_BIAS = """
def changed_bias(A: T.Buffer((8, 4)), bias: T.Buffer((8,)), D: T.Buffer((8,))):
    t = T.alloc_buffer((8,))
    for i, k in T.grid(8, 4):
        with T.block("t"):
            with T.init(): t[vi] = 0.0
            t[vi] = t[vi] + A[vi, vk]
    for i in range(8):
        with T.block("bias"): bias[vi] = 1.0
    for i in range(8):
        with T.block("D"): D[vi] = t[vi] + bias[vi]
"""
fuse_reduction_epilogue.refuses(reduces_into_temporary, "sch.fuse_reduction_epilogue('B', 'C')", on.TWO_CONSUMERS)
fuse_reduction_epilogue.refuses(epilogue_is_one_store, "sch.fuse_reduction_epilogue('t', 'D')", _TWO_STORES)
fuse_reduction_epilogue.refuses(same_points, "sch.fuse_reduction_epilogue('t', 'D')", _SIX_OF_SUMS)
fuse_reduction_epilogue.refuses(goes_into_init, "sch.fuse_reduction_epilogue('t', 'D')", _EXP_OF_SUMS)
fuse_reduction_epilogue.refuses(addend_ready, "sch.fuse_reduction_epilogue('t', 'D')", _CHANGED_BIAS)


def _reduction(block: Block) -> tuple[type[ex.BinaryOp], ex.Expr] | None:
    """The operator of a block's update and its init, None for a block of another form."""
    body, init = block.body, block.init
    if not isinstance(body, BufferStore) or not isinstance(init, BufferStore) or init.buffer is not body.buffer:
        return None
    if update_operand(body) is None or not ex.structural_equal(init.indices, body.indices):
        return None
    if body.predicate is not None or init.predicate is not None or reads_buffer(init.value, body.buffer):
        return None
    assert isinstance(body.value, ex.BinaryOp)  # update_operand
    return type(body.value), init.value


def _found(block: Block) -> tuple[type[ex.BinaryOp], ex.Expr]:
    reduction = _reduction(block)
    assert reduction is not None  # reduces_into_temporary
    return reduction


def _store(block: Block) -> BufferStore:
    assert isinstance(block.body, BufferStore)  # epilogue_is_one_store
    return block.body


def _points(reduction: Block, epilogue: Block) -> dict[ex.Var, ex.Expr] | str:
    """The epilogue's iterators in terms of the reduction's, or why they are not the same."""
    assert isinstance(reduction.body, BufferStore)  # reduces_into_temporary
    store, temporary = _store(epilogue), buffers_written(reduction)[0]
    loads = [n for n in ex.find(store, BufferLoad) if n.buffer is temporary]
    if not loads or any(not ex.structural_equal(l.indices, loads[0].indices) for l in loads):
        return f"{store.buffer.name} = {store.value} reads {len(loads)} different elements of {temporary.name}"
    analyzer = Analyzer()
    values: dict[ex.Var, ex.Expr] = {}
    theirs = {it.var: it for it in epilogue.iter_vars}
    mine = {it.var: it for it in reduction.iter_vars if it.kind == ex.SPATIAL}
    used: set[ex.Var] = set()
    for index, own in zip(loads[0].indices, reduction.body.indices, strict=True):
        if (
            isinstance(index, ex.Var)
            and isinstance(own, ex.Var)
            and index in theirs
            and own in mine
            and index not in values
        ):
            a, b = theirs[index].dom, mine[own].dom
            if not (analyzer.can_prove_equal(a.start, b.start) and analyzer.can_prove_equal(a.extent, b.extent)):
                return (
                    f"{index.name} runs over {a.extent} elements, {own.name} of block {reduction.name} over {b.extent}"
                )
            if own in used:
                return f"{reduction.body.buffer.name} is indexed by {own.name} twice"
            values[index] = own
            used.add(own)
        elif not ex.structural_equal(analyzer.simplify(index), analyzer.simplify(own)):
            return f"{loads[0]} is not indexed by iterators alone"
    for var, it in (*theirs.items(), *mine.items()):
        if var in values or var in used:
            continue
        if not analyzer.can_prove(it.dom.extent <= 1):
            return f"{var.name} is no index of {temporary.name}"
        values.setdefault(var, it.dom.start)
    stored = [i for i in store.indices if isinstance(i, ex.Var) and i in theirs]
    for var, it in theirs.items():
        if sum(i is var for i in stored) != 1 and not analyzer.can_prove(it.dom.extent <= 1):
            return f"{var.name} is no index of {store.buffer.name}"
    return {var: value for var, value in values.items() if var in theirs}


def _addend(value: ex.Expr, buffer: Buffer, kind: type[ex.BinaryOp]) -> tuple[type[ex.BinaryOp], ex.Expr | None] | None:
    """(operator, e) of an epilogue `t op e` that may go into the init; e is None for a plain `t`."""
    if isinstance(value, BufferLoad) and value.buffer is buffer:
        return kind, None
    if type(value) is not kind and not (kind is ex.Add and isinstance(value, ex.Sub)):
        return None
    a, b = value.a, value.b
    if isinstance(a, BufferLoad) and a.buffer is buffer and not reads_buffer(b, buffer):
        return type(value), b
    if type(value) is kind and isinstance(b, BufferLoad) and b.buffer is buffer and not reads_buffer(a, buffer):
        return kind, a
    return None


def _start(addend: ex.Expr | None, operator: type[ex.BinaryOp], init: ex.Expr, kind: type[ex.BinaryOp]) -> ex.Expr:
    if addend is None:
        return init
    neutral = {ex.Add: 0, ex.Mul: 1}.get(kind)
    value = init.value if isinstance(init, ex.IntImm | ex.FloatImm) else None
    if operator is kind and value is not None and neutral is not None and value == neutral:
        return addend
    start: ex.Expr = operator(init, addend)
    return start


def _moved(stmt: Stmt, old: Buffer, new: Buffer, indices: tuple[ex.Expr, ...]) -> Stmt:
    def change(node: ex.Node) -> ex.Node | None:
        if isinstance(node, BufferLoad) and node.buffer is old:
            return BufferLoad(new, indices)
        if isinstance(node, BufferStore) and node.buffer is old:
            return BufferStore(new, node.value, indices)
        return None

    result: Stmt = ex.rewrite(stmt, change)
    return result


# ---- a small example of what goes wrong ----------------------------------------------------------------------------

_OPERATORS: Mapping[type[ex.BinaryOp], Callable[[float, float], float]] = {
    ex.Add: lambda a, b: a + b,
    ex.Sub: lambda a, b: a - b,
    ex.Mul: lambda a, b: a * b,
    ex.Min: min,
    ex.Max: max,
}
_FUNCTIONS: Mapping[str, Callable[[float], float]] = {
    "exp": math.exp, "tanh": math.tanh, "sqrt": math.sqrt, "abs": abs, "sigmoid": lambda v: 1 / (1 + math.exp(-v)),
}  # fmt: skip


def _counterexample(value: ex.Expr, buffer: Buffer, kind: type[ex.BinaryOp], init: ex.Expr) -> str:
    """What applying the epilogue at every step gives for two terms, if that differs; else empty."""
    first, combine = _number(init, buffer, 0.0), _OPERATORS[kind]
    for terms in ((1.0, 2.0), (-3.0, 5.0)):
        if first is None:
            break
        total = first
        step: float | None = _number(value, buffer, first)
        for term in terms:
            total = combine(total, term)
            step = None if step is None else _number(value, buffer, combine(step, term))
        whole = _number(value, buffer, total)
        if whole is not None and step is not None and whole != step:
            shown = " and ".join(f"{term:g}" for term in terms)
            return f"for the terms {shown} that is {whole:g}, and {step:g} when applied to init and partial results"
    return ""


def _number(e: ex.Expr, buffer: Buffer, temporary: float) -> float | None:
    """The value of an epilogue for a value of the temporary, all other loads 1; None for what is not known here."""
    if isinstance(e, BufferLoad):
        return temporary if e.buffer is buffer else 1.0
    if isinstance(e, ex.IntImm | ex.FloatImm):
        return float(e.value)
    if isinstance(e, ex.Call) and e.op in _FUNCTIONS and len(e.args) == 1:
        inside = _number(e.args[0], buffer, temporary)
        try:
            return None if inside is None else _FUNCTIONS[e.op](inside)
        except (ValueError, OverflowError):
            return None
    if isinstance(e, ex.BinaryOp) and type(e) in _OPERATORS:
        a, b = _number(e.a, buffer, temporary), _number(e.b, buffer, temporary)
        return None if a is None or b is None else _OPERATORS[type(e)](a, b)
    return None


@fuse_reduction_epilogue.space
def _fuse_space(state: ScheduleState) -> Iterator[tuple[Any, ...]]:
    tree = state.tree()
    for block in tree.blocks.values():
        if block.block.init is not None:
            for consumer in Scope.around(tree, block).consumers(block):
                yield block, consumer
