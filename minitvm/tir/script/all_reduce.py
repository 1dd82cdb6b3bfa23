"""`T.tvm_thread_allreduce` inside `T.attr(T.comm_reducer(...), "reduce_scope", ...)`: TVM's form of an `AllReduce`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import InputError
from ...expr import DataVar, Expr, IntImm, as_expr, const
from ..all_reduce import AllReduce, AllReducer
from ..nodes import BufferData, BufferLoad, BufferRegion, BufferStore

SCOPE = "reduce_scope"


@dataclass(frozen=True, slots=True)
class ReduceScope:
    """`T.attr(reducer, "reduce_scope", ...)`: provides the reducer for the reductions inside."""

    reducer: AllReducer


@dataclass(frozen=True, slots=True)
class ThreadReduction:
    """The result of `T.tvm_thread_allreduce(...)` before its reducer is known."""

    values: tuple[Expr, ...]
    condition: Expr
    results: tuple[BufferLoad, ...]
    threads: tuple[Expr, ...]

    def by(self, reducer: AllReducer) -> AllReduce:
        """Return the statement that combines the values with `reducer`."""
        totals = tuple(DataVar(f"total_{k}", r.dtype) for k, r in enumerate(self.results))
        stores = tuple(BufferStore(r.buffer, v, r.indices) for r, v in zip(self.results, totals, strict=True))
        return AllReduce(reducer, self.values, self.condition, self.threads, totals, stores)


def comm_reducer(combiner: Callable[..., Any], identity: Sequence[Any]) -> AllReducer:
    """`T.comm_reducer(lambda x, y: x + y, [T.float32(0)])`: defines how threads combine values.

    The second argument lists the neutral elements. To combine several values at once, use
    `lambda x0, x1, y0, y1: (..., ...)`. The earlier values come first.
    """
    starts = tuple(as_expr(i) for i in identity)
    left, right = (tuple(DataVar(f"{n}{k}", i.dtype) for k, i in enumerate(starts)) for n in "xy")
    combined = combiner(*left, *right)
    parts = tuple(combined) if isinstance(combined, tuple | list) else (combined,)
    if len(parts) != len(starts):
        raise InputError(f"T.comm_reducer combines {len(parts)} values, and has {len(starts)} identities")
    return AllReducer(
        left, right, tuple(as_expr(p).astype(i.dtype) for p, i in zip(parts, starts, strict=True)), starts
    )


def attr(node: Any, attr_key: str, value: Any) -> ReduceScope:  # noqa: ARG001 (TVM's argument)
    """`with T.attr(T.comm_reducer(...), "reduce_scope", T.reinterpret("handle", T.uint64(0))):` encloses a
    reduction.
    """
    if attr_key == SCOPE and isinstance(node, AllReducer):
        return ReduceScope(node)
    raise InputError(
        f"T.attr of {attr_key!r} is not supported: of attribute statements, {SCOPE!r} alone has a meaning here\n"
        "  try:    annotations= of a loop\n"
        "          T.block_attr({...}) in a block\n"
        '          T.thread_binding(extent, thread="threadIdx.x")'
    )


def tvm_thread_allreduce(size: Any, *args: Any) -> ThreadReduction:
    """`T.tvm_thread_allreduce(n, values, condition, results, threads)`: combines n values across the
    threads of loops.
    """
    count = size.value if isinstance(size, IntImm) else size
    if not isinstance(count, int) or len(args) < 2 * count + 2:
        raise InputError(
            "T.tvm_thread_allreduce: wrong arguments\n"
            "  wanted: a number n, n values, a condition, n results and the threads\n"
            f"  found:  {size} and {len(args)} more"
        )
    values = tuple(_value(a) for a in args[:count])
    results = tuple(_place(a) for a in args[count + 1 : 2 * count + 1])
    condition = args[count]
    holds = const(bool(condition)) if isinstance(condition, bool) else as_expr(condition).astype("bool")
    return ThreadReduction(values, holds, results, tuple(as_expr(a) for a in args[2 * count + 1 :]))


def _value(value: Any) -> Expr:
    return (
        BufferLoad(value.buffer, tuple(r.start for r in value.region))
        if isinstance(value, BufferRegion)
        else as_expr(value)
    )


def _place(value: Any) -> BufferLoad:
    if isinstance(value, BufferData):
        return BufferLoad(value.buffer, tuple(const(0, d.dtype) for d in value.buffer.shape))
    place = _value(value)
    if not isinstance(place, BufferLoad):
        raise InputError(f"T.tvm_thread_allreduce: a result is an element of a buffer, found {value}")
    return place


def reducer_text(reducer: AllReducer, define: Callable[[Any], str], expr: Callable[[Expr], str]) -> str:
    """Return a reducer as text, for example `T.comm_reducer(lambda x0, y0: x0 + y0, [T.float32(0.0)])`."""
    names = ", ".join(define(v) for v in (*reducer.left, *reducer.right))
    parts = [expr(e) for e in reducer.combined]
    combined = parts[0] if len(parts) == 1 else f"({', '.join(parts)})"
    return f"T.comm_reducer(lambda {names}: {combined}, [{', '.join(map(expr, reducer.identity))}])"


def reduction_text(stmt: AllReduce, place: Callable[[BufferStore], str], expr: Callable[[Expr], str]) -> str:
    """Return a reduction as text, for example `T.tvm_thread_allreduce(T.uint32(1), P[0], T.bool(True), R[0], tx)`."""
    parts = [*map(expr, stmt.values), expr(stmt.condition), *map(place, stmt.stores), *map(expr, stmt.threads)]
    return f"T.tvm_thread_allreduce(T.uint32({len(stmt.values)}), {', '.join(parts)})"
