"""Limit the number of lanes of a kernel's vectors, for languages and compilers without wider vectors.

    B[ramp(0, 1, 16)] = A[ramp(0, 1, 16)]    ->    B[ramp(0, 1, 8)] = A[ramp(0, 1, 8)]
                                                   B[ramp(8, 1, 8)] = A[ramp(8, 1, 8)]
    vector_reduce_add(S[ramp(0, 1, 16)])     ->    vector_reduce_add(S[ramp(0, 1, 8)] + S[ramp(8, 1, 8)])

Each operation works lane by lane, so an operation on vectors becomes one operation per piece. A reduction may combine
lanes in any order. All vectors of a kernel have the same limit, so that all statements use the same pieces of a
variable or register.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import expr as ex
from ..errors import Unsupported
from ..expr.conditions import is_const
from ..tir.nodes import BufferLoad, BufferStore, LetStmt, Seq, Stmt

_COMBINED: dict[str, Any] = {
    "vector_reduce_add": ex.Add, "vector_reduce_mul": ex.Mul, "vector_reduce_max": ex.Max, "vector_reduce_min": ex.Min
}  # fmt: skip


def widest(body: Stmt, lanes: int, fit: Callable[[ex.Expr], int]) -> int:
    """Return the largest number of lanes, at most `lanes`, that fits all vectors of a kernel. `fit` returns this number
    for a single vector.

    Indices of neighbours in memory, and masks of the first lanes, do not count, because they never become integer
    vectors.
    """
    most = lanes

    def visit(node: ex.Node) -> None:
        nonlocal most
        if isinstance(node, ex.Expr) and node.dtype.lanes > 1:
            most = min(most, fit(node))
        below: tuple[Any, ...] = tuple(ex.children(node))
        if isinstance(node, BufferLoad | BufferStore) and _is_of_neighbours(node.indices[-1]):
            below = (getattr(node, "value", None), node.predicate)
        elif isinstance(node, ex.LT) and _is_of_neighbours(node.a) and isinstance(node.b, ex.Broadcast):
            below = ()
        for child in below:
            if child is not None:
                visit(child)

    visit(body)
    return most


def _is_of_neighbours(e: ex.Expr) -> bool:
    return isinstance(e, ex.Ramp) and is_const(e.stride, 1)


def in_pieces(body: Stmt, lanes: int) -> Stmt:
    """Split each vector whose number of lanes is a larger multiple of `lanes` into pieces of `lanes` lanes. All other
    vectors of `body` stay as they are.
    """
    pieces = _Pieces(lanes)
    return pieces.stmt(body) if any(pieces.is_wide(e) for e in ex.find(body, ex.Expr)) else body


class _Pieces:
    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        self.vars: dict[ex.Var, list[ex.Var]] = {}  # of the vectors that have names

    def is_wide(self, e: ex.Expr) -> bool:
        return e.dtype.lanes > self.lanes and e.dtype.lanes % self.lanes == 0

    def count(self, e: ex.Expr) -> int:
        return e.dtype.lanes // self.lanes

    # -- statements

    def stmt(self, node: Any) -> Any:
        if isinstance(node, ex.Expr):
            return self.narrow(node)
        if isinstance(node, BufferStore) and self.is_wide(node.value):
            return self.store(node)
        if isinstance(node, LetStmt) and self.is_wide(node.value):
            return self.let(node)
        return ex.map_children(node, self.stmt)

    def store(self, node: BufferStore) -> Stmt:
        """Store each piece. If the buffer is also read elsewhere in the statement, all pieces are read before the first
        is written.
        """
        n = self.count(node.value)
        values = [self.piece(node.value, k) for k in range(n)]
        at = node.indices[-1]
        reads = [load for load in ex.find(node.value, BufferLoad) if load.buffer is node.buffer]
        names = []
        if not all(ex.structural_equal(load.indices[-1], at) for load in reads):
            names = [ex.Var(f"{node.buffer.name}_{k}", value.dtype) for k, value in enumerate(values)]
        stores: Stmt = Seq(tuple(
            ex.replace(
                node, indices=(*node.indices[:-1], self.piece(at, k)), value=names[k] if names else values[k],
                predicate=None if node.predicate is None else self.piece(node.predicate, k),
            ) for k in range(n)
        ))  # fmt: skip
        for name, value in reversed(list(zip(names, values, strict=False))):
            stores = LetStmt(name, value, stores)
        return stores

    def let(self, node: LetStmt) -> Stmt:
        values = [self.piece(node.value, k) for k in range(self.count(node.value))]
        self.vars[node.var] = [ex.Var(f"{node.var.name}_{k}", value.dtype) for k, value in enumerate(values)]
        body = self.stmt(node.body)
        for var, value in reversed(list(zip(self.vars[node.var], values, strict=True))):
            body = LetStmt(var, value, body)
        return body

    # -- expressions

    def narrow(self, e: Any) -> Any:
        """Return an expression that is not wide itself, with the wide expressions in it divided into pieces."""
        if isinstance(e, ex.Call) and e.op in _COMBINED and self.is_wide(e.args[0]):
            pieces = [self.piece(e.args[0], k) for k in range(self.count(e.args[0]))]
            while len(pieces) > 1:  # halves, as a vector's lanes are combined; an odd number keeps its middle piece
                half = len(pieces) // 2
                tops = pieces[len(pieces) - half :]
                pieces = [*map(_COMBINED[e.op], pieces[:half], tops), *pieces[half : len(pieces) - half]]
            return ex.replace(e, args=(pieces[0],))
        if isinstance(e, ex.Shuffle):
            return ex.replace(e, vectors=self.operands(e))
        return ex.map_children(e, self.narrow)

    def operands(self, e: ex.Shuffle) -> tuple[ex.Expr, ...]:
        """Return the operands of a shuffle, with wide ones replaced by their pieces, so that lane numbers stay
        correct.
        """
        return tuple(
            part for v in e.vectors
            for part in ([self.piece(v, k) for k in range(self.count(v))] if self.is_wide(v) else [self.narrow(v)])
        )  # fmt: skip

    def piece(self, e: Any, k: int) -> Any:
        """Return piece `k` of a wide vector. A scalar is the same for all pieces."""
        n = self.lanes
        if e.dtype.lanes == 1:
            return self.narrow(e)
        if isinstance(e, ex.Var):
            return self.vars[e][k]
        if isinstance(e, ex.Ramp):
            base, stride = self.narrow(e.base), self.narrow(e.stride)
            step = ex.const(k * n, base.dtype)
            ahead = step if is_const(stride, 1) else stride * step
            return ex.Ramp(_sum(base, ahead), stride, n)
        if isinstance(e, ex.Broadcast):
            return ex.Broadcast(self.narrow(e.value), n)
        if isinstance(e, BufferLoad):
            *outer, at = e.indices
            predicate = None if e.predicate is None else self.piece(e.predicate, k)
            return ex.replace(e, indices=(*map(self.narrow, outer), self.piece(at, k)), predicate=predicate)
        if isinstance(e, ex.Shuffle):
            return ex.Shuffle(self.operands(e), e.indices[k * n : (k + 1) * n])
        if isinstance(e, ex.Call) and any(a.dtype.lanes not in (1, e.dtype.lanes) for a in e.args):
            raise Unsupported(f"{e.op} to another number of lanes, in a vector that is too wide for the device: {e}")
        changed = ex.map_children(e, lambda child: self.piece(child, k) if isinstance(child, ex.Expr) else child)
        return ex.replace(changed, dtype=e.dtype.with_lanes(n)) if isinstance(e, ex.Call | ex.Cast) else changed


def _sum(base: ex.Expr, ahead: ex.Expr) -> ex.Expr:
    if isinstance(base, ex.IntImm) and isinstance(ahead, ex.IntImm):
        return ex.const(base.value + ahead.value, base.dtype)
    return base if is_const(ahead, 0) else base + ahead
