"""Turn loops marked `vectorized` into vector statements. A loop that has no vector form runs serially.

A loop of at most `MAX_LANES` iterations becomes vectors with one lane per iteration (LLVM splits them into registers).
A longer loop, or a loop with a number of lanes that the target's language does not support, is first strip-mined by the
register width, and its tail is masked. A condition that differs between lanes becomes the mask of the accesses inside
it, so no lane touches an element that its iteration would not touch. A value that all lanes load from the same element
is loaded once. Under such a mask, it is loaded only if some lane runs, or if the element is provably inside its buffer.
On a scalar CPU all loops run serially.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ... import expr as ex
from ...arith import Analyzer
from ...expr.intrin import COLLECTIVES
from ...expr.visitor import accessed, variables
from ...target import Target
from .. import nodes as tir
from ..conditions import iterations, reads_memory
from .affine import coefficient, expr, linear
from .simplify import fold
from .target_vectors import is_scalar, vector_lanes, vector_widths
from .unroll import bind

MAX_LANES = 64


class NotVectorizable(Exception):
    """Raised if a loop body has no vector form; the message gives the reason."""


def vectorize(func: tir.PrimFunc, target: Target | None = None) -> tir.PrimFunc:
    """Turn vectorised loops into vector statements: `for v in vectorized(16): B[v] = f(A[v])` -> `B[ramp(0, 1, 16)] =
    f(A[ramp(0, 1, 16)])`. Buffers must be flat.

    before:
        for i in T.vectorized(8):
            B[i] = A[i] * 2.0
    after:
        B[T.Ramp(0, 1, 8)] = A[T.Ramp(0, 1, 8)] * T.Broadcast(2.0, 8)
    """
    return func.with_body(_visit(func.body, target, ()))


# The loops, lets and conditions around a statement, outermost first.
Around = tuple[tir.For | tir.LetStmt | ex.Expr, ...]


def _visit(node: Any, target: Target | None, around: Around) -> Any:
    if not isinstance(node, tir.Stmt):
        return node
    if isinstance(node, tir.If):
        then_case = _visit(node.then_case, target, (*around, node.condition))
        return ex.replace(node, then_case=then_case, else_case=_visit(node.else_case, target, around))
    inner = (*around, node) if isinstance(node, tir.For | tir.LetStmt) else around
    if not isinstance(node, tir.For):
        return ex.map_children(node, lambda child: _visit(child, target, inner))
    body = _visit(node.body, target, inner)
    loop = node if body is node.body else ex.replace(node, body=body)
    if node.kind != tir.ForKind.VECTORIZED:
        return loop
    if is_scalar(target):
        return ex.replace(loop, kind=tir.ForKind.SERIAL)
    try:
        return _vectorize_loop(loop, target, around)
    except NotVectorizable:
        return ex.replace(loop, kind=tir.ForKind.SERIAL)


def _vectorize_loop(loop: tir.For, target: Target | None, around: Around) -> tir.Stmt:
    widths = vector_widths(target)
    if isinstance(loop.extent, ex.IntImm) and loop.extent.value in (1, *(widths or range(1, MAX_LANES + 1))):
        lanes = loop.extent.value
        return _Vectorizer(loop.var, loop.start, lanes, around).whole(loop.body) if lanes > 1 else loop
    lanes = natural_lanes(loop.body, target)
    if reads_memory(loop.start) or reads_memory(loop.extent):
        raise NotVectorizable("the body may change its bounds")
    counted = ex.replace(loop, extent=iterations(loop.extent, *(a for a in around if isinstance(a, tir.For))))
    return _strip_mined(counted, min(lanes, *widths[-1:]) if widths else lanes, around)


def natural_lanes(body: tir.Stmt, target: Target | None) -> int:
    """Return the number of lanes that fill one register with the widest element that the body stores."""
    stored = [node.buffer.dtype for node in ex.find(body, tir.BufferStore)]
    return min((vector_lanes(target, d) for d in stored), default=vector_lanes(target, "float32"))


def _strip_mined(loop: tir.For, lanes: int, around: Around) -> tir.Stmt:
    """Return a loop over full vectors, followed by one masked vector for the remaining iterations."""
    if lanes < 2:
        raise NotVectorizable("one lane")
    dtype = loop.var.dtype
    outer, base = ex.Var(f"{loop.var.name}_0", dtype), ex.Var(f"{loop.var.name}_rest", dtype)
    step = ex.const(lanes, dtype)
    whole = fold(loop.extent // step, {}).astype(dtype)
    start = fold(loop.start.astype(dtype) + outer * step, {})
    body = _Vectorizer(loop.var, start, lanes, around).whole(loop.body)
    main = tir.For(outer, ex.const(0, dtype), whole, tir.ForKind.SERIAL, body)
    if isinstance(loop.extent, ex.IntImm) and loop.extent.value % lanes == 0:
        return main
    rest = fold(loop.extent.astype(dtype) % step, {})
    done = fold(loop.start.astype(dtype) + whole * step, {})
    tail_body = _Vectorizer(loop.var, base, lanes, around, limit=rest).whole(bind(loop.body, {}))
    tail: tir.Stmt = tir.LetStmt(base, done, tail_body)
    if not isinstance(rest, ex.IntImm):
        tail = tir.If(rest > 0, tail)
    return tir.Seq.of(main, tail)


class _Vectorizer:
    """Rewrites a loop body to run the iterations `start + [0, lanes)` at once. Lanes from `limit` on are masked."""

    def __init__(self, var: ex.Var, start: ex.Expr, lanes: int, around: Around, limit: ex.Expr | None = None) -> None:
        self.lanes = lanes
        self.start = start.astype(var.dtype)
        self.var = var
        self.varying: set[ex.Var] = {var}
        self.vectors: dict[ex.Var, ex.Expr] = {var: ex.Ramp(self.start, ex.const(1, var.dtype), lanes)}
        self.private: dict[tir.Buffer, tir.Buffer] = {}
        self.around = around
        self.limit = limit
        self.tail: ex.Expr | None = None  # the mask of the lanes before the limit: at least one of them runs
        self.read: tuple[tir.BufferLoad, ...] = ()  # loads by each lane of the mask, whatever its conditions are

    def whole(self, body: tir.Stmt) -> tir.Stmt:
        """Return the body vectorised over all lanes, or masked to the first `limit` lanes if a limit is set."""
        mask: ex.Expr | None = None
        if self.limit is not None:
            zero = ex.const(0, self.var.dtype)
            mask = ex.LT(
                ex.Ramp(zero, ex.const(1, self.var.dtype), self.lanes),
                ex.Broadcast(self.limit.astype(self.var.dtype), self.lanes),
            )
            self.tail = mask
        return self.stmt(body, mask)

    # -- statements

    def stmt(self, stmt: tir.Stmt, mask: ex.Expr | None) -> tir.Stmt:
        if isinstance(stmt, tir.Seq):
            return tir.Seq.of(*(self.stmt(s, mask) for s in stmt.stmts))
        if isinstance(stmt, tir.BufferStore):
            return self.store(stmt, mask)
        if isinstance(stmt, tir.Async):
            store = self.store(stmt.body, mask)
            copies = isinstance(store, tir.BufferStore) and tir.is_copied(store.value)
            return tir.Async(store) if copies else store  # type: ignore[arg-type]
        if isinstance(stmt, tir.If):
            return self.branch(stmt, mask)
        if isinstance(stmt, tir.For):
            return self.loop(stmt, mask)
        if isinstance(stmt, tir.Allocate):
            return self.allocate(stmt, mask)
        if isinstance(stmt, tir.LetStmt):
            return self.let(stmt, mask)
        if isinstance(stmt, tir.Evaluate) and not self.varies(stmt.value) and mask is self.tail:
            return stmt
        raise NotVectorizable(f"{type(stmt).__name__} has no vector form")

    def store(self, stmt: tir.BufferStore, mask: ex.Expr | None) -> tir.Stmt:
        if stmt.predicate is not None or stmt.value.dtype.lanes > 1:
            raise NotVectorizable("vectors inside vectors")
        buffer, index = self.access(stmt.buffer, stmt.indices[0], mask)
        if stmt.buffer not in self.private and not self.varies(stmt.indices[0]):
            if self.varies(stmt.value) or mask is not None:
                raise NotVectorizable(f"all lanes store to {stmt.buffer.name}[{index}]")
            return tir.BufferStore(buffer, self.expr(stmt.value, mask), (index,))
        with self.reading(stmt.value):
            return tir.BufferStore(buffer, self.widened(self.expr(stmt.value, mask)), (index,), mask)

    def branch(self, stmt: tir.If, mask: ex.Expr | None) -> tir.Stmt:
        if self.agrees(stmt.condition, mask):
            with self.inside(stmt.condition):
                then_case = self.stmt(stmt.then_case, mask)
            return tir.If(stmt.condition, then_case, stmt.else_case and self.stmt(stmt.else_case, mask))
        condition = self.widened(self.expr(stmt.condition, mask))
        if not has_load(stmt.condition):
            return self.masked_branches(stmt, mask, condition)
        # The branches may change what the condition reads: it is evaluated once.
        taken = ex.Var("mask", condition.dtype)
        return tir.LetStmt(taken, condition, self.masked_branches(stmt, mask, taken))

    def masked_branches(self, stmt: tir.If, mask: ex.Expr | None, condition: ex.Expr) -> tir.Stmt:
        then_case = self.stmt(stmt.then_case, conjunction(mask, condition))
        if stmt.else_case is None:
            return then_case
        return tir.Seq.of(then_case, self.stmt(stmt.else_case, conjunction(mask, ex.Not(condition))))

    def loop(self, stmt: tir.For, mask: ex.Expr | None) -> tir.Stmt:
        if not self.agrees(stmt.start, mask) or not self.agrees(stmt.extent, mask):
            raise NotVectorizable(f"the loop over {stmt.var.name} has other bounds in each lane")
        with self.inside(stmt):
            return ex.replace(stmt, body=self.stmt(stmt.body, mask))

    def allocate(self, stmt: tir.Allocate, mask: ex.Expr | None) -> tir.Stmt:
        # Each lane has its own elements: the lanes of one element are next to each other.
        size = stmt.buffer.shape[0]
        private = ex.replace(stmt.buffer, shape=(fold(size * self.lanes, {}),))
        self.private[stmt.buffer] = private
        return tir.Allocate(private, self.stmt(stmt.body, mask), stmt.annotations)

    def let(self, stmt: tir.LetStmt, mask: ex.Expr | None) -> tir.Stmt:
        if self.agrees(stmt.value, mask):
            with self.inside(stmt):
                return ex.replace(stmt, body=self.stmt(stmt.body, mask))
        with self.reading(stmt.value):
            value = self.widened(self.expr(stmt.value, mask))
            vector = ex.Var(stmt.var.name, value.dtype)
            self.varying.add(stmt.var)
            self.vectors[stmt.var] = vector
            return tir.LetStmt(vector, value, self.stmt(stmt.body, mask))

    # -- expressions

    def varies(self, e: ex.Expr) -> bool:
        """Return whether the value of an expression may differ between lanes."""
        return not self.varying.isdisjoint(variables(e)) or not self.private.keys().isdisjoint(accessed(e))

    def agrees(self, e: ex.Expr, mask: ex.Expr | None) -> bool:
        """Return whether `e` has the same value in all lanes, and may be computed even if no lane runs."""
        return not self.varies(e) and (mask is self.tail or self.reads_what_is_there(e))

    def reads_what_is_there(self, e: ex.Expr) -> bool:
        """Return whether all loads in a value are provably inside their flat buffers, whatever memory contains."""
        loads = list(ex.find(e, tir.BufferLoad))
        return not loads or (
            not any(has_load(load.indices[0]) for load in loads)
            and _shown(self.around, [part for load in loads for part in _in_bounds(load)])
        )

    @contextmanager
    def inside(self, part: tir.For | tir.LetStmt | ex.Expr) -> Iterator[None]:
        """Context manager: use the facts that hold inside `part` (a loop, let or condition) in the `with` block."""
        before = self.around
        self.around = (*before, part)
        yield
        self.around = before

    @contextmanager
    def reading(self, value: ex.Expr) -> Iterator[None]:
        """Context manager: in the `with` block, the loads in `value` are known to happen."""
        before = self.read
        self.read = (*before, *_surely_read(value))
        yield
        self.read = before

    def is_read(self, e: ex.Expr) -> bool:
        """Return whether every load in `e` is known to happen anyway, so that the address of the load is valid without
        a mask.
        """
        loads = list(ex.find(e, tir.BufferLoad))
        return all(any(ex.structural_equal(load, other) for other in self.read) for load in loads)

    def access(self, buffer: tir.Buffer, index: ex.Expr, mask: ex.Expr | None) -> tuple[tir.Buffer, ex.Expr]:
        new = self.index(index, mask)
        if buffer not in self.private:
            return buffer, new
        dtype = new.dtype.scalar
        lanes = ex.const(self.lanes, dtype)
        if new.dtype.lanes == 1:
            return self.private[buffer], ex.Ramp(fold(new * lanes, {}), ex.const(1, dtype), self.lanes)
        own = ex.Ramp(ex.const(0, dtype), ex.const(1, dtype), self.lanes)
        return self.private[buffer], ex.Add(ex.Mul(new, ex.Broadcast(lanes, self.lanes)), own)

    def index(self, index: ex.Expr, mask: ex.Expr | None) -> ex.Expr:
        """Return a scalar index if it is the same in all lanes, a ramp if it is linear in the lane, or otherwise a
        vector that is computed under the mask.
        """
        if self.agrees(index, mask):
            return index
        ramp = self.ramp(index, mask)
        return self.widened(self.expr(index, mask)) if ramp is None else ramp

    def ramp(self, e: ex.Expr, mask: ex.Expr | None) -> ex.Ramp | None:
        """Return the ramp for an integer expression that increases by a constant from lane to lane; None for any other
        expression.
        """
        form = linear(e)
        stride, rest = coefficient(form, self.var), expr(form.without(self.var), e.dtype)
        if not self.agrees(rest, mask):
            return None
        base = expr(linear(rest + self.start.astype(e.dtype) * stride), e.dtype)
        return ex.Ramp(base, ex.const(stride, e.dtype), self.lanes)

    def widened(self, e: ex.Expr) -> ex.Expr:
        return e if e.dtype.lanes > 1 else ex.Broadcast(e, self.lanes)

    def expr(self, e: ex.Expr, mask: ex.Expr | None) -> ex.Expr:
        """Return `e` in all lanes: a vector, or a scalar if all lanes have the same value."""
        if isinstance(e, ex.Var):
            return self.vectors.get(e, e)
        if self.agrees(e, mask):
            return e
        if e.dtype.lanes > 1:
            raise NotVectorizable("vectors inside vectors")
        if isinstance(e, tir.BufferLoad):
            return self.load(e, mask)
        if isinstance(e, ex.Call):
            return self.call(e, mask)
        if isinstance(e, ex.Cast):
            return ex.Cast(e.dtype.with_lanes(self.lanes), self.expr(e.value, mask))
        if isinstance(e, ex.Select):
            return ex.Select(
                *(self.widened(self.expr(part, mask)) for part in (e.condition, e.true_value, e.false_value))
            )
        if isinstance(e, ex.LogicalOp) and not self.is_read(e.b):
            # The right operand is evaluated only where the left one does not decide the result.
            a = self.widened(self.expr(e.a, mask))
            needed = a if isinstance(e, ex.And) else ex.Not(a)
            return type(e)(a, self.widened(self.expr(e.b, conjunction(mask, needed))))
        if isinstance(e, ex.Add | ex.Sub | ex.Mul) and e.dtype in ("int32", "int64") and not has_load(e):
            ramp = self.ramp(e, mask)
            if ramp is not None:
                return ramp
        if isinstance(e, ex.BinaryOp | ex.Not):
            return ex.map_children(e, lambda child: self.widened(self.expr(child, mask)))
        raise NotVectorizable(f"{type(e).__name__} has no vector form")

    def load(self, e: tir.BufferLoad, mask: ex.Expr | None) -> ex.Expr:
        if e.predicate is not None:
            raise NotVectorizable("a masked load inside a vector")
        buffer, index = self.access(e.buffer, e.indices[0], mask)
        if index.dtype.lanes == 1 and mask is not self.tail and not self.reads_what_is_there(e):
            needed = None if mask is None else some_lane(mask)
            if needed is not None:  # a load and a broadcast; a gather would read one element for each lane
                return ex.Call(
                    e.dtype, "if_then_else", (needed, tir.BufferLoad(buffer, (index,)), ex.const(0, e.dtype))
                )
            index = self.widened(index)
        return tir.BufferLoad(buffer, (index,), mask if index.dtype.lanes > 1 else None)

    def call(self, e: ex.Call, mask: ex.Expr | None) -> ex.Expr:
        dtype = e.dtype.with_lanes(self.lanes)
        if e.op == "if_then_else":
            condition, a, b = e.args
            if self.agrees(condition, mask):
                return ex.Call(
                    dtype, e.op, (condition, self.widened(self.expr(a, mask)), self.widened(self.expr(b, mask)))
                )
            vector = self.widened(self.expr(condition, mask))
            taken = self.widened(self.expr(a, conjunction(mask, vector)))
            other = self.widened(self.expr(b, conjunction(mask, ex.Not(vector))))
            return ex.Select(vector, taken, other)
        if e.op == "likely":
            return self.expr(e.args[0], mask)
        if e.op.startswith("vector_reduce") or e.op == "tvm_storage_sync" or e.op in COLLECTIVES:
            raise NotVectorizable(f"{e.op} inside a vector")
        return ex.Call(dtype, e.op, tuple(self.widened(self.expr(a, mask)) for a in e.args))


def _surely_read(e: Any) -> Iterator[tir.BufferLoad]:
    """Yield the loads in a value that are not guarded by a condition inside it."""
    if isinstance(e, tir.BufferLoad):
        yield e
    guarded = isinstance(e, ex.LogicalOp) or (isinstance(e, ex.Call) and e.op == "if_then_else")
    parts = e.args if isinstance(e, ex.Call) else tuple(ex.children(e))
    for part in parts[:1] if guarded else parts:
        yield from _surely_read(part)


def _in_bounds(load: tir.BufferLoad) -> list[ex.Expr]:
    index = load.indices[0]
    return [index >= 0, index < load.buffer.shape[0].astype(index.dtype)]


def _shown(around: Around, conditions: Sequence[ex.Expr]) -> bool:
    """Return whether the conditions provably hold wherever a statement runs, given the loops, lets and conditions
    around it.
    """
    analyzer, known = Analyzer(), []
    for part in around:
        if isinstance(part, tir.For):
            analyzer.bind(part)
        elif isinstance(part, ex.Expr) and not reads_memory(part):
            known.append(part)
        elif isinstance(part, tir.LetStmt) and part.var.dtype in ("int32", "int64") and not reads_memory(part.value):
            analyzer.bind_value(part.var, part.value)
    with analyzer.constraint(*known):
        return all(analyzer.can_prove(condition) for condition in conditions)


def some_lane(mask: ex.Expr) -> ex.Expr | None:
    """Return a condition that is true if any lane of a mask is set; None if this cannot be expressed by testing only
    the first lane.
    """
    if mask.dtype.lanes == 1:
        return mask
    if isinstance(mask, ex.Broadcast):
        return mask.value
    if isinstance(mask, ex.And):
        a, b = some_lane(mask.a), some_lane(mask.b)
        return None if a is None or b is None else ex.And(a, b)
    first = isinstance(mask, ex.LT | ex.LE) and isinstance(mask.a, ex.Ramp) and isinstance(mask.b, ex.Broadcast)
    if not first or not isinstance(mask.a.stride, ex.IntImm) or mask.a.stride.value < 0:  # type: ignore[attr-defined]
        return None
    return type(mask)(mask.a.base, mask.b.value)  # type: ignore[attr-defined,call-arg]


def conjunction(mask: ex.Expr | None, condition: ex.Expr) -> ex.Expr:
    """Combine a mask and a condition into one mask, which enables a lane only if both do."""
    return condition if mask is None else ex.And(mask, condition)


def has_load(e: ex.Expr) -> bool:
    """Return whether an expression reads memory."""
    return ex.contains(e, tir.BufferLoad)
