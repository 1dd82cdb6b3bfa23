"""What random programs of blocks are made of: variables with ranges, buffers, indices, values and conditions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from minitvm.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    And,
    Cast,
    Expr,
    IntImm,
    IterVar,
    Max,
    Min,
    Not,
    Or,
    Range,
    Select,
    Var,
    binary,
    const,
    walk,
)
from minitvm.tir.analysis.block_regions import with_declared_regions
from minitvm.tir.nodes import (
    Block,
    BlockRealize,
    Buffer,
    For,
    ForKind,
    Stmt,
)
from tests.tir.transform.draws import Draws

SIDE = 6  # rows and columns
SIZE = 12  # elements of a vector
MOST = 3  # what the size n may be
COMPARE = (EQ, NE, LT, LE, GT, GE)
BOUNDS = (LT, LT, LE, GE, GT, EQ, EQ, NE)
SERIAL, PARALLEL, LANES, UNROLLED = ForKind.SERIAL, ForKind.PARALLEL, ForKind.VECTORIZED, ForKind.UNROLLED


@dataclass(frozen=True)
class Known:
    """A variable, and the least and greatest value that it takes."""

    var: Var
    low: int
    high: int


@dataclass(frozen=True)
class Scope:
    """What may be used at some place: variables, and buffers that are not everywhere."""

    known: tuple[Known, ...] = ()
    own: tuple[Buffer, ...] = ()
    data: tuple[Var, ...] = ()  # variables of any value

    def with_known(self, *more: Known) -> Scope:
        return Scope((*self.known, *more), self.own, self.data)

    def with_own(self, *more: Buffer) -> Scope:
        return Scope(self.known, (*self.own, *more), self.data)

    def inside(self, *iterators: Known) -> Scope:
        """Inside of a block: its iterators, and no loops around it."""
        return Scope(iterators, self.own, self.data)

    def has(self, e: Expr) -> bool:
        """Whether what an expression names is to be had here."""
        variables = {k.var for k in self.known} | set(self.data)
        return all(v in variables for v in walk(e) if isinstance(v, Var))


Part = tuple[For, Known]  # a loop with nothing in it, and what is known of its variable


def extents_of(buffer: Buffer) -> list[int]:
    """The shape, in numbers."""
    return [int(d.value) for d in buffer.shape]  # type: ignore[attr-defined]


def block(
    name: str, iterators: list[tuple[Known, str, Expr]], body: Stmt, init: Stmt | None = None,
    predicate: Expr | None = None, room: int = 0, **parts: Any,
) -> BlockRealize:  # fmt: skip
    """A block that declares what it touches; `room` more values than its iterators take are in their domains."""
    axes = tuple(
        IterVar(k.var, Range(const(k.low), const(k.high - k.low + 1 + room)), kind) for k, kind, _ in iterators
    )
    made = with_declared_regions(Block(axes, (), (), name, body, init, **parts))
    values = tuple(value for _, _, value in iterators)
    return BlockRealize(values, const(True) if predicate is None else predicate, made)


class Values(Draws):
    """The expressions of one program."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.n = Var("n")
        self.matrix = Buffer("A", (SIDE, SIDE), "int32")
        self.vector = Buffer("D", (SIZE,), "int32")
        self.places = Buffer("P", (SIZE,), "int32")
        self.outputs = [Buffer("B", (SIDE, SIDE), "int32"), Buffer("C", (SIZE,), "int32")]
        self.scratch = [self.storage("T"), *([self.storage("U")] if self.chance(1, 2) else [])]
        self.read = self.random.sample([self.matrix, self.vector, *self.outputs, *self.scratch], self.one(2, 2, 3, 5))
        self.written = self.random.sample(
            [*self.outputs, *self.outputs, self.vector, *self.scratch], self.one(1, 2, 2, 4)
        )
        self.said: dict[Any, list[tuple[Expr, ...]]] = {}
        self.scratch_of_loops: list[Buffer] = []
        self.of_nests: set[Var] = set()
        self.room = 9  # statements
        self.cut = self.int(0, 4)  # conditions on loops lie around it

    def storage(self, name: str) -> Buffer:
        """Scratch storage: a matrix or a vector, dense or with strides and an offset."""
        shape = self.one((SIDE, SIDE), (SIZE,), (SIDE,), (2, SIDE))
        if self.chance(1, 2):
            return Buffer(name, shape, "int32")
        step, strides = self.one(1, 1, 2), []
        for extent in reversed(shape):
            strides.append(const(step))
            step = step * extent + self.one(0, 1, 3)
        return Buffer(name, shape, "int32", strides=tuple(strides[::-1]), elem_offset=const(self.one(0, 2, 5)))

    def sum_of(self, scope: Scope) -> tuple[Expr, int, int]:
        """An index before it is moved into range, with the least and greatest value."""
        kind = self.kind("fixed", "own", "own", "twice", "sum", "tile", "reverse")
        if not scope.known or kind == "fixed":
            return const(0), 0, 0
        v, w = self.one(scope.known[-1], *scope.known), self.one(*scope.known)
        if kind == "twice":
            return v.var * 2, 2 * v.low, 2 * v.high
        if kind == "reverse":
            return const(0) - v.var, -v.high, -v.low
        if kind in ("sum", "tile") and v is not w:
            by = 1 if kind == "sum" else self.one(2, 3)
            return w.var * by + v.var, w.low * by + v.low, w.high * by + v.high
        return v.var, v.low, v.high

    def index(self, scope: Scope, extent: int) -> Expr:
        """An index in [0, extent)."""
        e, low, high = self.sum_of(scope)
        if high - low >= extent:
            fit = [k for k in scope.known if k.high - k.low < extent]
            if not fit or self.chance(1, 8):
                return e % extent
            k = self.one(*fit)
            e, low, high = k.var, k.low, k.high
        if self.chance(1, 12) and extent >= SIDE:
            return self.places[self.index(scope, SIZE)]
        least, most = -low, extent - 1 - high
        shift = 0 if least <= 0 <= most and self.chance(1, 2) else self.one(least, most, self.int(least, most))
        if isinstance(e, IntImm):
            return const(e.value + shift)
        return e + shift if shift else e

    def place(self, buffer: Buffer, scope: Scope) -> tuple[Expr, ...]:
        """Indices of an element; three times of four some that were said before, where their variables have values."""
        said = self.said.setdefault(buffer.shape, [])
        old = [e for e in said if all(scope.has(i) for i in e)]
        if old and self.chance(3, 4):
            return self.one(*old[-3:])
        extents = extents_of(buffer)
        made = tuple(self.index(scope, extent) for extent in extents)
        if len(made) == 2 and extents[0] == extents[1] and self.chance(1, 6):
            made = (made[0], made[0])
        said.append(made)
        return made

    def number(self) -> Expr:
        return const(self.int(-3, 5))

    def load(self, scope: Scope) -> Expr:
        """An element of some buffer: few are read much, also of those that are written."""
        kind = self.kind("some", "some", "written", "own")
        if kind == "own" and scope.own:
            buffer = self.one(*scope.own)
        else:
            buffer = self.one(*(self.written if kind == "written" else self.read))
        return buffer[self.place(buffer, scope)]

    def value(self, scope: Scope, depth: int = 1) -> Expr:
        kind = self.kind("load", "load", "number", "iterator", "plus", "least", "choice", "layout")
        if kind == "number":
            return self.number()
        if kind == "iterator" and scope.known:
            return Cast("int32", self.one(*scope.known).var)
        if kind == "layout" and scope.data:
            return self.one(*scope.data) + self.number()
        if depth == 0 or kind in ("load", "iterator", "layout"):
            return self.load(scope)
        a, b = self.value(scope, depth - 1), self.value(scope, depth - 1)
        if kind == "least":
            return binary(self.one(Min, Max), a, b)
        return Select(self.condition(scope, 0), a, b) if kind == "choice" else a + b

    def condition(self, scope: Scope, depth: int = 1) -> Expr:
        kinds = ("memory", "bound", "bound of a sum", "start", "start and memory", "size")
        kind = self.kind(*kinds, *(("both", "either", "not") if depth else ()))
        if kind == "size":
            return self.one(*COMPARE)(self.n, const(self.int(0, MOST)))
        if kind == "memory" or not scope.known:
            return self.one(*COMPARE)(self.load(scope), const(self.int(-1, 2)))
        v = self.one(scope.known[-1], *scope.known)
        if kind == "start":
            return EQ(v.var, const(v.low))
        if kind == "start and memory":
            return And(EQ(v.var, const(v.low)), self.one(*COMPARE)(self.load(scope), const(self.int(-1, 2))))
        if kind == "bound":
            return self.one(*BOUNDS)(v.var * self.one(1, 1, 2), const(v.low + self.cut))
        if kind == "bound of a sum":
            e, low, high = self.sum_of(scope)
            return self.one(*BOUNDS)(e, const(self.one(low, high, low + self.cut, (low + high) // 2)))
        a = self.condition(scope, 0)
        return Not(a) if kind == "not" else self.one(And, Or)(a, self.condition(scope, 0))
