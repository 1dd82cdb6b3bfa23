"""Random statements: the programs of one block, in whose body anything may stand that the language has.

Loops of all kinds from any start, branches with and without an else, conditions that join comparisons of iterators and
of data by `and` and `or`, guarded and unguarded loads, indices that a statement before has written, updates in
place, lets, and scratch of the block's own. What may go wrong is kept out by form: an index is taken modulo the extent,
or stands behind a guard that the left operand of `and`, or a branch, has checked; scratch is filled before anything
reads it. The kind of a loop is drawn last: where the interpreter sees its iterations meet, it is a serial one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import reject
from hypothesis import strategies as st

from minitvm.errors import ExecutionError, VerificationError
from minitvm.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    And,
    Expr,
    Max,
    Min,
    Not,
    Or,
    Select,
    Var,
    binary,
    call,
    const,
    free_vars,
    replace,
    walk,
)
from minitvm.expr import rewrite as rewritten
from minitvm.reference import random_inputs
from minitvm.reference import tir as tir_reference
from minitvm.tir.nodes import (
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    ForKind,
    If,
    LetStmt,
    PrimFunc,
    Seq,
    Stmt,
    with_root,
)
from minitvm.tir.verifier import verify

from .programs import ATTRS, Draw, region

COMPARE = (LT, LE, GT, GE, EQ, NE)
LONGEST = 6  # statements of a body


class _Body:
    """One body under construction: the buffers with what they hold, and the loops around the present statement."""

    def __init__(self, draw: Draw, n: int, data: list[Buffer], places: list[Buffer], outputs: list[Buffer]) -> None:
        self.draw, self.n = draw, n
        self.data, self.places, self.outputs = data, places, outputs  # values, indices, what may be stored to
        self.room = LONGEST
        self.names = 0
        self.said: dict[str, list[tuple[Expr, Any]]] = {}  # programs say the same thing twice, after it has changed
        self.lanes: set[Var] = set()  # loops whose iterations are independent
        self.lane: Var | None = None  # the loop whose iterations keep to their own elements of what is stored to

    def one(self, *values: Any) -> Any:
        return self.draw(st.sampled_from(values))

    def int(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def var(self) -> Var:
        self.names += 1
        return Var(f"x{self.names}")

    def again(self, kind: str, around: list[Any], fresh: Callable[[], Expr]) -> Expr:
        """Something new, or what was said before, where its variables still have values."""
        known = {v for v, _, _ in around}
        old = [e for e, lane in self.said.get(kind, []) if lane is self.lane and set(free_vars(e)) <= known]
        if old and self.int(0, 1):
            return self.one(*old[-3:])
        made = fresh()
        self.said.setdefault(kind, []).append((made, self.lane))
        return made

    # -- expressions

    def index(self, around: list[Any]) -> Expr:
        """A place in a buffer that is stored to: sums of iterators modulo the extent, or data."""
        if self.lane is not None:
            return self.lane
        return self.anywhere(around)

    def anywhere(self, around: list[Any]) -> Expr:
        """A place in a buffer that nobody stores to while the present loop runs."""
        kind = self.one("own", "own", "own", "shifted", "wide", "data", "fixed")
        if kind == "fixed" or not around:
            return const(self.int(0, self.n - 1))
        v = self.one(*around)[0]
        if kind == "own":
            own = [v for v, low, high in around if low >= 0 and high < self.n]
            return self.one(*own) if own else v % self.n
        if kind == "data":
            source = self.one(*self.places)
            return source[self.index(around) if source in self.outputs else self.anywhere(around[:1])] % self.n
        total = v * self.one(1, 1, 2, -1) + self.int(-2, 4)
        if kind == "wide":
            total = total + self.one(*around)[0] * self.one(1, 2, 3)
        return total % self.n

    def loaded(self, around: list[Any]) -> Expr:
        return self.again("load", around, lambda: self.new_load(around))

    def new_load(self, around: list[Any]) -> Expr:
        source = self.one(*self.data)
        return source[self.index(around) if source in self.outputs else self.anywhere(around)]

    def value(self, around: list[Any], depth: int = 2) -> Expr:
        kind = self.one("load", "load", "number", "sum", "sum", "least", "choice", "guarded", "iterator")
        if depth == 0 or kind == "load":
            return self.loaded(around)
        if kind == "number":
            return const(self.int(-3, 4))
        if kind == "iterator" and around:
            return self.one(*around)[0] + self.int(-1, 2)
        a = self.value(around, depth - 1)
        if kind == "guarded":
            return self.guarded(around, a)
        b = self.value(around, depth - 1)
        if kind == "least":
            return binary(self.one(Min, Max), a, b)
        if kind == "choice":
            condition = self.condition(around, depth - 1)
            return Select(condition, a, b) if self.int(0, 1) else call("if_then_else", condition, a, b)
        return a + b * self.one(1, 2, -1)

    def guarded(self, around: list[Any], otherwise: Expr) -> Expr:
        """A load whose index is inside only where its guard holds."""
        if not around:
            return otherwise
        at = self.one(*around)[0] * self.one(1, 1, -1, 2) + self.int(-3, 5)
        buffer = self.data[0] if self.lane is not None else self.one(*self.data)
        inside = And(at >= 0, at < self.n)
        kind = self.one("then", "else", "and", "or")
        if kind == "then":
            return call("if_then_else", inside, buffer[at], otherwise)
        if kind == "else":
            return call("if_then_else", Or(at < 0, at >= self.n), otherwise, buffer[at])
        compared = self.one(*COMPARE)(buffer[at], const(self.int(-1, 2)))
        condition = And(inside, compared) if kind == "and" else Or(Not(inside), compared)
        return Select(condition, otherwise, const(self.int(-3, 4)))

    def condition(self, around: list[Any], depth: int = 2) -> Expr:
        return self.again("condition", around, lambda: self.new_condition(around, depth))

    def new_condition(self, around: list[Any], depth: int) -> Expr:
        kind = self.one("iterator", "data", "and", "or", "not", "start")
        if kind in ("and", "or") and depth:
            a, b = self.condition(around, depth - 1), self.condition(around, depth - 1)
            return And(a, b) if kind == "and" else Or(a, b)
        if kind == "not" and depth:
            return Not(self.condition(around, depth - 1))
        if kind == "start" and around:
            v, low, _ = self.one(*around)
            return EQ(v, const(low))
        if kind == "data" or not around:
            return self.one(*COMPARE)(self.loaded(around), const(self.int(-1, 2)))
        v, low, high = self.one(*around)
        return self.one(*COMPARE)(v * self.one(1, 1, 2), const(self.int(low - 1, high + 1)))

    # -- statements

    def statement(self, around: list[Any], depth: int) -> Stmt:
        self.room -= 1
        kinds = ["store", "store", "update", "again"]
        if depth and self.room > 0:
            kinds += ["loop", "loop", "branch", "branch", "both", "let"]
        kind = self.one(*kinds)
        if kind == "loop":
            return self.loop(around, depth)
        if kind == "let":
            v = self.var()
            value = self.loaded(around) % self.n
            return LetStmt(v, value, self.several([*around, (v, 0, self.n - 1)], depth - 1))
        if kind in ("branch", "both"):
            other = self.several(around, depth - 1) if kind == "both" else None
            return If(self.condition(around), self.several(around, depth - 1), other)
        target = self.one(*self.outputs)
        at = self.again("place", around, lambda: self.index(around)) if self.lane is None else self.lane
        if kind == "update":
            return BufferStore(target, binary(self.one(Min, Max), target[at], self.value(around)), (at,))
        if kind == "again":
            return BufferStore(target, target[at] + self.value(around), (at,))
        return BufferStore(target, self.value(around), (at,))

    def loop(self, around: list[Any], depth: int) -> Stmt:
        v = self.var()
        if self.lane is None and self.int(0, 1):
            start = self.one(0, 0, 0, 1, 2)
            extent = min(self.one(self.n - start, self.n - start, 1, 2, 3), self.n - start)
            self.lane = v
            body = self.several([*around, (v, start, start + extent - 1)], depth - 1)
            self.lane = None
            self.lanes.add(v)
            return For(v, const(start), const(extent), ForKind.SERIAL, body)
        start, extent = self.one(0, 0, 0, 1, 2, 5, -2), self.one(1, 2, 3, 4, 4, 5, 7, self.n)
        body = self.several([*around, (v, start, start + extent - 1)], depth - 1)
        return For(v, const(start), const(extent), ForKind.SERIAL, body)

    def several(self, around: list[Any], depth: int) -> Stmt:
        count = self.int(1, 3)
        return Seq.of(*(self.statement(around, depth) for _ in range(count) if self.room > 0 or _ == 0))


def statements(draw: Draw) -> PrimFunc:
    """One block of random statements on vectors of one length; see the text of this module."""
    n = draw(st.sampled_from([4, 5, 8, 13]))
    a, p = Buffer("A", (n,), "int32"), Buffer("P", (n,), "int32")
    b, c = Buffer("B", (n,), "int32"), Buffer("C", (n,), "int32")
    own = Buffer("S", (n,), "int32") if draw(st.booleans()) else None
    held = [x for x in (b, c, own) if x is not None]
    made = _Body(draw, n, [a, a, *held], [p, *held], held)
    fill = []
    for k, x in enumerate(held):
        v = Var(f"f{k}")
        fill.append(For(v, const(0), const(n), ForKind.SERIAL, BufferStore(x, a[v] + k, (v,))))
    count = draw(st.integers(1, 3))
    body = Seq.of(*fill, *(made.loop([], 3) for _ in range(count)))
    whole = [(0, n)]
    reads = (region(a, whole), region(p, whole), region(b, whole), region(c, whole))
    block = Block((), reads, (region(b, whole), region(c, whole)), "body", body, alloc_buffers=(own,) if own else ())
    func = with_root((a, p, b, c), BlockRealize((), const(True), block), ATTRS)
    return with_kinds(draw, func, made.lanes)


SERIAL = (ForKind.SERIAL, ForKind.SERIAL, ForKind.UNROLLED)
CONCURRENT = (ForKind.VECTORIZED, ForKind.VECTORIZED, ForKind.VECTORIZED, ForKind.PARALLEL, ForKind.UNROLLED)


def with_kinds(draw: Draw, func: PrimFunc, independent: set[Var]) -> PrimFunc:
    """The function with kinds drawn for its loops; where iterations are seen to meet all the same they are serial."""

    def change(node: Any) -> Any:
        if not isinstance(node, For) or not node.loop_var.name.startswith("x"):
            return None
        kind = draw(st.sampled_from(CONCURRENT if node.loop_var in independent else SERIAL))
        return None if kind is node.kind else For(node.loop_var, node.start, node.extent, kind, node.body)

    made = func.with_body(rewritten(func.body, change))
    try:
        tir_reference.run(made, *random_inputs(func, 0))
    except ExecutionError:
        made = func
    try:
        verify(made)
    except VerificationError:  # a guard is beyond what regions are proved with
        reject()
    return made


def gone_wrong(draw: Draw) -> PrimFunc:
    """Such a block with one thing wrong: an index one further, a value never stored, iterations that may meet."""
    func = statements(draw)
    kind = draw(st.sampled_from(["none", "load", "store", "lost", "kind", "kind"]))
    wanted: dict[str, Any] = {"load": BufferLoad, "store": BufferStore, "lost": BufferStore, "kind": For}
    if kind == "none":
        return func
    inside = list({id(n): n for n in walk(func.body) if isinstance(n, wanted[kind])}.values())
    if kind == "kind":
        inside = [n for n in inside if n.loop_var.name.startswith("x")]
    if not inside:
        return func
    at = draw(st.sampled_from(inside))
    chosen = draw(st.sampled_from((ForKind.VECTORIZED, ForKind.PARALLEL)))
    step = draw(st.sampled_from([1, -1]))

    def change(node: Any) -> Any:
        # Nodes below have been rewritten by now: what is the same there is told by its place in the text.
        if type(node) is not type(at) or str(node) != str(at):
            return None
        if kind == "lost":
            return Seq(())
        if kind == "kind":
            return For(node.loop_var, node.start, node.extent, chosen, node.body)
        return replace(node, indices=(node.indices[0] + step,))

    return func.with_body(rewritten(func.body, change))
