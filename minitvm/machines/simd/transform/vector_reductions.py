"""Sum annotated reduction loops in several lanes at once, and combine the lanes at the end.

Legal: the terms are added in another order, which reduction iterators allow ("R": commutative and associative).
"""

from __future__ import annotations

from typing import Any

from ....expr import LT, Add, Call, Expr, IntImm, Max, Min, Mul, Ramp, Var, const, map_children, replace
from ....target import Target
from ....tir.analysis.accesses import update_operand
from ....tir.annotations import LANES
from ....tir.conditions import is_const, iterations, reads_memory, uses
from ....tir.nodes import Allocate, Buffer, BufferLoad, BufferStore, For, ForKind, If, PrimFunc, Seq, Stmt
from ....tir.op import highest, lowest
from ....tir.transform.simplify import fold
from ....tir.transform.target_vectors import is_scalar
from ....tir.transform.unroll import bind
from ....tir.transform.vectorize import MAX_LANES

REDUCTIONS = {
    Add: "vector_reduce_add", Mul: "vector_reduce_mul", Max: "vector_reduce_max", Min: "vector_reduce_min"
}  # fmt: skip


def vectorize_reductions(func: PrimFunc, target: Target | None = None) -> PrimFunc:
    """Rewrite loops annotated with a number of lanes, unless they are not plain reductions. Runs before `vectorize`.

    On a scalar CPU all loops stay as they are.

    before:
        X: T.Buffer((1,), "float32")
        A: T.Buffer((64,), "float32")
        for k in T.serial(64, annotations={"vector_reduction": 4}):
            X[0] = X[0] + A[k]
    after:
        X_lanes = T.decl_buffer((4,), scope="local")
        X_lanes[T.Ramp(0, 1, 4)] = T.Broadcast(0.0, 4)
        for k_0 in range(16):
            for k_lane in T.vectorized(4):
                X_lanes[k_lane] = X_lanes[k_lane] + A[k_0 * 4 + k_lane]
        X[0] = X[0] + T.vector_reduce_add(X_lanes[T.Ramp(0, 1, 4)])
    """
    return func.with_body(_visit(func.body, (), 1 if is_scalar(target) else MAX_LANES))


def _visit(node: Any, around: tuple[For, ...], most: int) -> Any:
    """Rewrite a node. `around` holds the loops around it, outermost first; `most` is the largest number of lanes."""
    if not isinstance(node, Stmt):
        return node
    inner = (*around, node) if isinstance(node, For) else around
    new = map_children(node, lambda child: _visit(child, inner, most))
    return _lanes(new, around, most) if isinstance(new, For) and LANES in new.annotations else new


def _lanes(node: For, around: tuple[For, ...], most: int) -> Stmt:
    plain = replace(node, annotations={k: v for k, v in node.annotations.items() if k != LANES})
    lanes, update = min(int(node.annotations[LANES]), most), node.body
    short = isinstance(node.extent, IntImm) and node.extent.value < lanes
    if short or lanes < 2 or not isinstance(update, BufferStore):
        return plain
    if reads_memory(node.start) or reads_memory(node.extent):
        return plain
    term = update_operand(update) if type(update.value) in REDUCTIONS else None
    if term is None or uses(update.indices[0], [node.var]) or update.predicate is not None:
        return plain
    if update.value.dtype.lanes != 1:  # it has its lanes already
        return plain
    return _rewritten(replace(node, extent=iterations(node.extent, *around)), update, term, lanes)


def identity(kind: type, dtype: Any) -> Expr:
    """Return the neutral element of an operation."""
    if kind in (Add, Mul):
        return const(int(kind is Mul), dtype)
    return lowest(dtype) if kind is Max else highest(dtype)


def _rewritten(loop: For, update: BufferStore, term: Expr, lanes: int) -> Any:
    kind: Any = type(update.value)
    dtype, index = update.buffer.dtype, loop.var.dtype
    count, start = loop.extent.astype(index), loop.start.astype(index)
    sums = Buffer(f"{update.buffer.name}_lanes", (const(lanes),), dtype, "local")
    whole = Ramp(const(0), const(1), lanes)
    steps, rest = fold(count // lanes, {}), fold(count % lanes, {})

    def step(position: Expr, limit: Expr | None) -> For:
        lane = Var(f"{loop.var.name}_lane", index)
        value = bind(term, {loop.var: position + lane})
        old = sums[lane]
        new: Expr = kind(old, value)
        if limit is not None:
            new = Call(dtype, "if_then_else", (LT(lane, limit), new, old))
        return For(lane, const(0, index), const(lanes, index), ForKind.VECTORIZED, BufferStore(sums, new, (lane,)))

    outer = Var(f"{loop.var.name}_0", index)
    main = For(outer, const(0, index), steps, ForKind.SERIAL, step(outer * lanes + start, None))
    tail: Stmt | None = None if is_const(rest, 0) else step(fold(start + steps * lanes, {}), rest)
    if tail is not None and not isinstance(rest, IntImm):
        tail = If(rest > 0, tail)
    total = Call(dtype, REDUCTIONS[kind], (BufferLoad(sums, (whole,)),))
    result = BufferStore(update.buffer, kind(BufferLoad(update.buffer, update.indices), total), update.indices)
    zero = BufferStore(sums, const(identity(kind, dtype).value, dtype.with_lanes(lanes)), (whole,))  # type: ignore[attr-defined]
    return Allocate(sums, Seq.of(zero, main, tail, result))
