"""Loops marked `vectorized` become vector statements; what has no vector form stays a loop and runs serially.

A loop of at most `MAX_LANES` iterations becomes vectors of that many lanes (LLVM cuts them to registers). A longer one,
or one of so many as the target's language has no vectors of, is strip-mined by the width of its registers first, its
tail masked. A condition that differs between lanes becomes the mask of the accesses below it, so no lane touches what
its iteration would not have touched. What all lanes load alike is loaded once: under such a mask only if a lane runs,
or where the element is shown to be in its buffer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ...arith import Analyzer
from ...expr import (
    LE,
    LT,
    Add,
    And,
    BinaryOp,
    Broadcast,
    Call,
    Cast,
    Expr,
    IntImm,
    LogicalOp,
    Mul,
    Not,
    Ramp,
    Select,
    Sub,
    Var,
    children,
    const,
    contains,
    find,
    map_children,
    replace,
    structural_equal,
)
from ...expr.intrin import COLLECTIVES
from ...expr.visitor import accessed, variables
from ...target import Target
from ..conditions import iterations, reads_memory
from ..nodes import (
    Allocate,
    Async,
    Buffer,
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    If,
    LetStmt,
    PrimFunc,
    Seq,
    Stmt,
    is_copied,
)
from .affine import coefficient, expr, linear
from .machine import vector_lanes, vector_widths
from .simplify import fold
from .unroll import bind

MAX_LANES = 64


class NotVectorizable(Exception):
    """This loop body has no vector form; the message says why."""


def vectorize(func: PrimFunc, target: Target | None = None) -> PrimFunc:
    """`for v in vectorized(16): B[v] = f(A[v])` -> `B[ramp(0, 1, 16)] = f(A[ramp(0, 1, 16)])`. Needs flat buffers.

    before:
        for i in T.vectorized(8):
            B[i] = A[i] * 2.0
    after:
        B[T.Ramp(0, 1, 8)] = A[T.Ramp(0, 1, 8)] * T.Broadcast(2.0, 8)
    """
    return func.with_body(_visit(func.body, target, ()))


# The loops, lets and conditions around a statement, outermost first.
Around = tuple[For | LetStmt | Expr, ...]


def _visit(node: Any, target: Target | None, around: Around) -> Any:
    if not isinstance(node, Stmt):
        return node
    if isinstance(node, If):
        then_case = _visit(node.then_case, target, (*around, node.condition))
        return replace(node, then_case=then_case, else_case=_visit(node.else_case, target, around))
    inner = (*around, node) if isinstance(node, For | LetStmt) else around
    if not isinstance(node, For):
        return map_children(node, lambda child: _visit(child, target, inner))
    body = _visit(node.body, target, inner)
    loop = node if body is node.body else replace(node, body=body)
    if node.kind != ForKind.VECTORIZED:
        return loop
    try:
        return _vectorize_loop(loop, target, around)
    except NotVectorizable:
        return replace(loop, kind=ForKind.SERIAL)


def _vectorize_loop(loop: For, target: Target | None, around: Around) -> Stmt:
    widths = vector_widths(target)
    if isinstance(loop.extent, IntImm) and loop.extent.value in (1, *(widths or range(1, MAX_LANES + 1))):
        lanes = loop.extent.value
        return _Vectorizer(loop.var, loop.start, lanes, around).whole(loop.body) if lanes > 1 else loop
    lanes = natural_lanes(loop.body, target)
    if reads_memory(loop.start) or reads_memory(loop.extent):
        raise NotVectorizable("the body may change its bounds")
    counted = replace(loop, extent=iterations(loop.extent, *(a for a in around if isinstance(a, For))))
    return _strip_mined(counted, min(lanes, *widths[-1:]) if widths else lanes, around)


def natural_lanes(body: Stmt, target: Target | None) -> int:
    """Lanes that fill one register with the widest element stored in the body."""
    stored = [node.buffer.dtype for node in find(body, BufferStore)]
    return min((vector_lanes(target, d) for d in stored), default=vector_lanes(target, "float32"))


def _strip_mined(loop: For, lanes: int, around: Around) -> Stmt:
    """Whole vectors, then one masked vector for the rest."""
    if lanes < 2:
        raise NotVectorizable("one lane")
    dtype = loop.var.dtype
    outer, base = Var(f"{loop.var.name}_0", dtype), Var(f"{loop.var.name}_rest", dtype)
    step = const(lanes, dtype)
    whole = fold(loop.extent // step, {}).astype(dtype)
    start = fold(loop.start.astype(dtype) + outer * step, {})
    body = _Vectorizer(loop.var, start, lanes, around).whole(loop.body)
    main = For(outer, const(0, dtype), whole, ForKind.SERIAL, body)
    if isinstance(loop.extent, IntImm) and loop.extent.value % lanes == 0:
        return main
    rest = fold(loop.extent.astype(dtype) % step, {})
    done = fold(loop.start.astype(dtype) + whole * step, {})
    tail_body = _Vectorizer(loop.var, base, lanes, around, limit=rest).whole(bind(loop.body, {}))
    tail: Stmt = LetStmt(base, done, tail_body)
    if not isinstance(rest, IntImm):
        tail = If(rest > 0, tail)
    return Seq.of(main, tail)


class _Vectorizer:
    """Rewrites a loop body for the iterations `start + [0, lanes)` at once; `limit` masks the lanes after it."""

    def __init__(self, var: Var, start: Expr, lanes: int, around: Around, limit: Expr | None = None) -> None:
        self.lanes = lanes
        self.start = start.astype(var.dtype)
        self.var = var
        self.varying: set[Var] = {var}
        self.vectors: dict[Var, Expr] = {var: Ramp(self.start, const(1, var.dtype), lanes)}
        self.private: dict[Buffer, Buffer] = {}
        self.around = around
        self.limit = limit
        self.tail: Expr | None = None  # the mask of the lanes before the limit: at least one of them runs
        self.read: tuple[BufferLoad, ...] = ()  # what each lane of the mask reads, whatever its conditions say

    def whole(self, body: Stmt) -> Stmt:
        """The body with every lane, or the first `limit` lanes."""
        mask: Expr | None = None
        if self.limit is not None:
            zero = const(0, self.var.dtype)
            mask = LT(
                Ramp(zero, const(1, self.var.dtype), self.lanes),
                Broadcast(self.limit.astype(self.var.dtype), self.lanes),
            )
            self.tail = mask
        return self.stmt(body, mask)

    # -- statements

    def stmt(self, stmt: Stmt, mask: Expr | None) -> Stmt:
        if isinstance(stmt, Seq):
            return Seq.of(*(self.stmt(s, mask) for s in stmt.stmts))
        if isinstance(stmt, BufferStore):
            return self.store(stmt, mask)
        if isinstance(stmt, Async):
            store = self.store(stmt.body, mask)
            copies = isinstance(store, BufferStore) and is_copied(store.value)
            return Async(store) if copies else store  # type: ignore[arg-type]
        if isinstance(stmt, If):
            return self.branch(stmt, mask)
        if isinstance(stmt, For):
            return self.loop(stmt, mask)
        if isinstance(stmt, Allocate):
            return self.allocate(stmt, mask)
        if isinstance(stmt, LetStmt):
            return self.let(stmt, mask)
        if isinstance(stmt, Evaluate) and not self.varies(stmt.value) and mask is self.tail:
            return stmt
        raise NotVectorizable(f"{type(stmt).__name__} has no vector form")

    def store(self, stmt: BufferStore, mask: Expr | None) -> Stmt:
        if stmt.predicate is not None or stmt.value.dtype.lanes > 1:
            raise NotVectorizable("vectors inside vectors")
        buffer, index = self.access(stmt.buffer, stmt.indices[0], mask)
        if stmt.buffer not in self.private and not self.varies(stmt.indices[0]):
            if self.varies(stmt.value) or mask is not None:
                raise NotVectorizable(f"all lanes store to {stmt.buffer.name}[{index}]")
            return BufferStore(buffer, self.expr(stmt.value, mask), (index,))
        with self.reading(stmt.value):
            return BufferStore(buffer, self.widened(self.expr(stmt.value, mask)), (index,), mask)

    def branch(self, stmt: If, mask: Expr | None) -> Stmt:
        if self.agrees(stmt.condition, mask):
            with self.inside(stmt.condition):
                then_case = self.stmt(stmt.then_case, mask)
            return If(stmt.condition, then_case, stmt.else_case and self.stmt(stmt.else_case, mask))
        condition = self.widened(self.expr(stmt.condition, mask))
        if not has_load(stmt.condition):
            return self.masked_branches(stmt, mask, condition)
        # The branches may change what the condition reads: it is evaluated once.
        taken = Var("mask", condition.dtype)
        return LetStmt(taken, condition, self.masked_branches(stmt, mask, taken))

    def masked_branches(self, stmt: If, mask: Expr | None, condition: Expr) -> Stmt:
        then_case = self.stmt(stmt.then_case, conjunction(mask, condition))
        if stmt.else_case is None:
            return then_case
        return Seq.of(then_case, self.stmt(stmt.else_case, conjunction(mask, Not(condition))))

    def loop(self, stmt: For, mask: Expr | None) -> Stmt:
        if not self.agrees(stmt.start, mask) or not self.agrees(stmt.extent, mask):
            raise NotVectorizable(f"the loop over {stmt.var.name} has other bounds in each lane")
        with self.inside(stmt):
            return replace(stmt, body=self.stmt(stmt.body, mask))

    def allocate(self, stmt: Allocate, mask: Expr | None) -> Stmt:
        # Each lane has its own: the lanes of one element lie side by side.
        size = stmt.buffer.shape[0]
        private = replace(stmt.buffer, shape=(fold(size * self.lanes, {}),))
        self.private[stmt.buffer] = private
        return Allocate(private, self.stmt(stmt.body, mask), stmt.annotations)

    def let(self, stmt: LetStmt, mask: Expr | None) -> Stmt:
        if self.agrees(stmt.value, mask):
            with self.inside(stmt):
                return replace(stmt, body=self.stmt(stmt.body, mask))
        with self.reading(stmt.value):
            value = self.widened(self.expr(stmt.value, mask))
            vector = Var(stmt.var.name, value.dtype)
            self.varying.add(stmt.var)
            self.vectors[stmt.var] = vector
            return LetStmt(vector, value, self.stmt(stmt.body, mask))

    # -- expressions

    def varies(self, e: Expr) -> bool:
        """Whether lanes may see different values."""
        return not self.varying.isdisjoint(variables(e)) or not self.private.keys().isdisjoint(accessed(e))

    def agrees(self, e: Expr, mask: Expr | None) -> bool:
        """Whether lanes see one value, which may be computed even if none of them runs."""
        return not self.varies(e) and (mask is self.tail or self.reads_what_is_there(e))

    def reads_what_is_there(self, e: Expr) -> bool:
        """Whether all loads of a value are shown to lie in their flat buffers, whatever is in memory."""
        loads = list(find(e, BufferLoad))
        return not loads or (
            not any(has_load(load.indices[0]) for load in loads)
            and _shown(self.around, [part for load in loads for part in _in_bounds(load)])
        )

    @contextmanager
    def inside(self, part: For | LetStmt | Expr) -> Iterator[None]:
        """While the body of a statement is rewritten."""
        before = self.around
        self.around = (*before, part)
        yield
        self.around = before

    @contextmanager
    def reading(self, value: Expr) -> Iterator[None]:
        """While a value is rewritten, and what stands behind it."""
        before = self.read
        self.read = (*before, *_surely_read(value))
        yield
        self.read = before

    def is_read(self, e: Expr) -> bool:
        """Whether each load of a value is done anyway: then its address is good, and a mask saves nothing."""
        loads = list(find(e, BufferLoad))
        return all(any(structural_equal(load, other) for other in self.read) for load in loads)

    def access(self, buffer: Buffer, index: Expr, mask: Expr | None) -> tuple[Buffer, Expr]:
        new = self.index(index, mask)
        if buffer not in self.private:
            return buffer, new
        dtype = new.dtype.scalar
        lanes = const(self.lanes, dtype)
        if new.dtype.lanes == 1:
            return self.private[buffer], Ramp(fold(new * lanes, {}), const(1, dtype), self.lanes)
        own = Ramp(const(0, dtype), const(1, dtype), self.lanes)
        return self.private[buffer], Add(Mul(new, Broadcast(lanes, self.lanes)), own)

    def index(self, index: Expr, mask: Expr | None) -> Expr:
        """A scalar index, a ramp where it is linear in the lane, else a vector, read from memory under the mask."""
        if self.agrees(index, mask):
            return index
        ramp = self.ramp(index, mask)
        return self.widened(self.expr(index, mask)) if ramp is None else ramp

    def ramp(self, e: Expr, mask: Expr | None) -> Ramp | None:
        """An integer expression that grows by the same amount from lane to lane."""
        form = linear(e)
        stride, rest = coefficient(form, self.var), expr(form.without(self.var), e.dtype)
        if not self.agrees(rest, mask):
            return None
        base = expr(linear(rest + self.start.astype(e.dtype) * stride), e.dtype)
        return Ramp(base, const(stride, e.dtype), self.lanes)

    def widened(self, e: Expr) -> Expr:
        return e if e.dtype.lanes > 1 else Broadcast(e, self.lanes)

    def expr(self, e: Expr, mask: Expr | None) -> Expr:
        """The value in all lanes: a vector, or a scalar where all lanes agree."""
        if isinstance(e, Var):
            return self.vectors.get(e, e)
        if self.agrees(e, mask):
            return e
        if e.dtype.lanes > 1:
            raise NotVectorizable("vectors inside vectors")
        if isinstance(e, BufferLoad):
            return self.load(e, mask)
        if isinstance(e, Call):
            return self.call(e, mask)
        if isinstance(e, Cast):
            return Cast(e.dtype.with_lanes(self.lanes), self.expr(e.value, mask))
        if isinstance(e, Select):
            return Select(*(self.widened(self.expr(part, mask)) for part in (e.condition, e.true_value, e.false_value)))
        if isinstance(e, LogicalOp) and not self.is_read(e.b):
            # The right operand is evaluated only where the left one does not decide.
            a = self.widened(self.expr(e.a, mask))
            needed = a if isinstance(e, And) else Not(a)
            return type(e)(a, self.widened(self.expr(e.b, conjunction(mask, needed))))
        if isinstance(e, Add | Sub | Mul) and e.dtype in ("int32", "int64") and not has_load(e):
            ramp = self.ramp(e, mask)
            if ramp is not None:
                return ramp
        if isinstance(e, BinaryOp | Not):
            return map_children(e, lambda child: self.widened(self.expr(child, mask)))
        raise NotVectorizable(f"{type(e).__name__} has no vector form")

    def load(self, e: BufferLoad, mask: Expr | None) -> Expr:
        if e.predicate is not None:
            raise NotVectorizable("a masked load inside a vector")
        buffer, index = self.access(e.buffer, e.indices[0], mask)
        if index.dtype.lanes == 1 and mask is not self.tail and not self.reads_what_is_there(e):
            needed = None if mask is None else some_lane(mask)
            if needed is not None:  # a load and a broadcast, where a gather would read one element for each lane
                return Call(e.dtype, "if_then_else", (needed, BufferLoad(buffer, (index,)), const(0, e.dtype)))
            index = self.widened(index)
        return BufferLoad(buffer, (index,), mask if index.dtype.lanes > 1 else None)

    def call(self, e: Call, mask: Expr | None) -> Expr:
        dtype = e.dtype.with_lanes(self.lanes)
        if e.op == "if_then_else":
            condition, a, b = e.args
            if self.agrees(condition, mask):
                return Call(
                    dtype, e.op, (condition, self.widened(self.expr(a, mask)), self.widened(self.expr(b, mask)))
                )
            vector = self.widened(self.expr(condition, mask))
            taken = self.widened(self.expr(a, conjunction(mask, vector)))
            other = self.widened(self.expr(b, conjunction(mask, Not(vector))))
            return Select(vector, taken, other)
        if e.op == "likely":
            return self.expr(e.args[0], mask)
        if e.op.startswith("vector_reduce") or e.op == "tvm_storage_sync" or e.op in COLLECTIVES:
            raise NotVectorizable(f"{e.op} inside a vector")
        return Call(dtype, e.op, tuple(self.widened(self.expr(a, mask)) for a in e.args))


def _surely_read(e: Any) -> Iterator[BufferLoad]:
    """The loads of a value that no condition in it guards."""
    if isinstance(e, BufferLoad):
        yield e
    guarded = isinstance(e, LogicalOp) or (isinstance(e, Call) and e.op == "if_then_else")
    parts = e.args if isinstance(e, Call) else tuple(children(e))
    for part in parts[:1] if guarded else parts:
        yield from _surely_read(part)


def _in_bounds(load: BufferLoad) -> list[Expr]:
    index = load.indices[0]
    return [index >= 0, index < load.buffer.shape[0].astype(index.dtype)]


def _shown(around: Around, conditions: Sequence[Expr]) -> bool:
    """Whether conditions hold wherever a statement runs."""
    analyzer, known = Analyzer(), []
    for part in around:
        if isinstance(part, For):
            analyzer.bind(part)
        elif isinstance(part, Expr) and not reads_memory(part):
            known.append(part)
        elif isinstance(part, LetStmt) and part.var.dtype in ("int32", "int64") and not reads_memory(part.value):
            analyzer.bind_value(part.var, part.value)
    with analyzer.constraint(*known):
        return all(analyzer.can_prove(condition) for condition in conditions)


def some_lane(mask: Expr) -> Expr | None:
    """Whether any lane of a mask is set, where the first one is if any is; None for other masks."""
    if mask.dtype.lanes == 1:
        return mask
    if isinstance(mask, Broadcast):
        return mask.value
    if isinstance(mask, And):
        a, b = some_lane(mask.a), some_lane(mask.b)
        return None if a is None or b is None else And(a, b)
    first = isinstance(mask, LT | LE) and isinstance(mask.a, Ramp) and isinstance(mask.b, Broadcast)
    if not first or not isinstance(mask.a.stride, IntImm) or mask.a.stride.value < 0:  # type: ignore[attr-defined]
        return None
    return type(mask)(mask.a.base, mask.b.value)  # type: ignore[attr-defined,call-arg]


def conjunction(mask: Expr | None, condition: Expr) -> Expr:
    """Both masks."""
    return condition if mask is None else And(mask, condition)


def has_load(e: Expr) -> bool:
    """Whether memory is read."""
    return contains(e, BufferLoad)
