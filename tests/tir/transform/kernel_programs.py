"""Random kernels as the last passes see them: flat buffers, vectors, masks, and much that is said again.

A program has a few places, masks, loads and conditions, and every statement takes its own from those, so that the same
element is stored under two masks, the same load stands before and behind a store, in a guard and outside of one.
Indices are in range by form: an index is a constant, a loop's variable, or data modulo the extent; a masked vector may
reach beyond the end with the lanes that its mask keeps out; what is out of range stands behind a guard.
Loops start anywhere. The iterations of vectorised and parallel ones keep to their own element of what is stored to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from minitvm.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    And,
    Broadcast,
    Cast,
    Expr,
    Max,
    Min,
    Not,
    Or,
    Ramp,
    Select,
    Var,
    binary,
    call,
    const,
)
from minitvm.tir.annotations import LANES as LANES_OF_A_SUM
from minitvm.tir.nodes import Allocate, Buffer, BufferLoad, BufferStore, For, ForKind, If, LetStmt, PrimFunc, Seq, Stmt

SIZE = 72  # elements of every buffer: more than the lanes that one vector takes
LANES = 4
COMPARE = (EQ, NE, LT, LE, GT, GE)
BOUNDS = (LT, LT, LT, LE, GE, GT, EQ, EQ, NE)


@dataclass(frozen=True)
class Around:
    """The loops around a statement: their variables with the least and greatest value; and the concurrent one."""

    loops: tuple[tuple[Var, int, int], ...] = ()
    lane: Var | None = None
    own: tuple[Buffer, ...] = ()  # filled local storage

    def extends(self, outer: Around) -> bool:
        """Whether what is said there may be said here."""
        loops, own = self.loops[: len(outer.loops)], self.own[: len(outer.own)]
        return loops == outer.loops and own == outer.own and self.lane is outer.lane

    def within(self, var: Var, low: int, high: int, lane: bool) -> Around:
        return Around((*self.loops, (var, low, high)), var if lane else self.lane, self.own)


class Kernel:
    """One kernel under construction."""

    def __init__(self, random: Random, dtype: str, masks: bool = True) -> None:
        self.random, self.dtype, self.with_masks = random, dtype, masks
        self.inputs = [Buffer("A", (const(SIZE),), dtype), Buffer("D", (const(SIZE),), dtype)]
        self.places = Buffer("P", (const(SIZE),), "int32")
        self.outputs = [Buffer("B", (const(SIZE),), dtype), Buffer("C", (const(SIZE),), dtype)]
        self.names, self.room = 0, 14
        self.weights: dict[str, float] = {}
        self.bases = [self.int(0, SIZE - 3 * LANES) for _ in range(2)]
        self.cut = self.int(-1, 8)  # conditions on loops lie around it
        self.singles = Buffer("E", (const(SIZE),), dtype)
        self.said: dict[Any, list[tuple[Around, Expr]]] = {}

    # -- draws

    def int(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def one(self, *values: Any) -> Any:
        return self.random.choice(values)

    def kind(self, *kinds: str) -> str:
        """One of some kinds. Each program has its own favourites and does almost without others, so that what needs
        several of one kind, or the same again, meets (Groce et al., "Swarm testing", 2012)."""
        weights = [self.weights.setdefault(k, self.random.choice((0.1, 1, 1, 5))) for k in kinds]
        return self.random.choices(kinds, weights)[0]

    def var(self, letter: str = "i") -> Var:
        self.names += 1
        return Var(f"{letter}{self.names}")

    def again(self, kind: str, around: Around, lanes: int, fresh: Callable[[], Expr]) -> Expr:
        """What was said before, where its variables still have values, three times of four; or something new."""
        said = self.said.setdefault((kind, lanes), [])
        old = [e for there, e in said if around.extends(there)]
        if old and self.int(0, 3) > kind.startswith("condition"):
            return self.one(*old[-2:])
        made = fresh()
        said.append((around, made))
        return made

    # -- expressions

    def index(self, around: Around, lanes: int) -> Expr:
        """A place that is stored to, and its readers' too."""
        if around.lane is not None:
            return around.lane
        if lanes > 1:
            stride = self.one(1, 1, 1, 2)
            if self.int(0, 5) == 0:  # up to the last element
                return Ramp(const(SIZE - 1 - stride * (lanes - 1)), const(stride), lanes)
            base = self.one(*self.bases) + self.one(0, 0, 2, 3, LANES)
            return Ramp(self.moved(around, base), const(stride), lanes)
        return self.scalar_index(around)

    def moved(self, around: Around, base: int) -> Expr:
        """`base`, sometimes moved on by a loop's variable as far as there is room."""
        fit = [v for v, low, high in around.loops if low >= 0 and base + high + 2 * LANES <= SIZE]
        return self.one(*fit) + base if fit and self.int(0, 1) else const(base)

    def gathered(self, around: Around, lanes: int) -> Expr:
        """Places of a vector that are no ramp: rows in turn, backwards, moved by what is the same for all lanes."""
        lane, base = Ramp(const(0), const(1), lanes), self.int(8, SIZE - 3 * LANES - 8)
        kind = self.kind("in turn", "repeated", "backwards", "moved on", "moved back")
        start = Broadcast(self.little(around) + base, lanes)
        if kind == "in turn":
            return lane % Broadcast(const(2), lanes) * Broadcast(const(self.int(1, 9)), lanes) + start + lane // 2
        if kind == "repeated":
            return lane // 2 + start
        if kind == "backwards":
            return start - lane
        step = Ramp(self.little(around) + base, const(self.one(1, 1, 2)), lanes)
        other = Broadcast(self.little(around), lanes)
        return step + other if kind == "moved on" else step - other

    def little(self, around: Around) -> Expr:
        """A scalar from 0 to 7: a number, data, or a loop's variable."""
        fit = [v for v, low, high in around.loops if low >= 0 and high < 8]
        kind = self.kind("little number", "little data", "little variable")
        if kind == "little number":
            return const(self.int(0, 7))
        return self.one(*fit) if kind == "little variable" and fit else self.places[self.one(*self.bases)] % 8

    def scalar_index(self, around: Around) -> Expr:
        kind = self.kind("fixed", "own", "data", "sum", "places")
        if kind == "places":
            a, b = self.one(*self.bases), self.one(*self.bases)
            return self.places[a] % 4 * 3 + self.places[b] % 5 + self.int(0, 2)
        if kind == "data":
            at = (
                self.places[self.one(*self.bases)]
                if not around.loops
                else self.places[self.one(*around.loops)[0] % SIZE]
            )
            return (at * self.one(1, 2) + self.int(0, 1)) % SIZE
        if kind == "own" and around.loops:
            v, low, high = self.one(*around.loops)
            return v if low >= 0 and high < SIZE else v % SIZE
        if kind == "sum" and around.loops:
            return (
                self.one(*around.loops)[0] * self.one(1, -1, 2, 3) + self.one(*around.loops)[0] + self.int(0, 3)
            ) % SIZE
        return const(self.one(*self.bases) + self.one(0, 0, 1, LANES))

    def mask(self, around: Around, lanes: int) -> Expr | None:
        if lanes == 1 or not self.with_masks or self.int(0, 1) == 0:
            return None

        def fresh() -> Expr:
            kind = self.kind("mask of a length", "mask that moves", "mask of data", "mask of results")
            if kind.endswith(("data", "results")):
                source = self.inputs[1] if kind.endswith("data") else self.one(*self.outputs)
                return GT(source[Ramp(const(self.one(*self.bases)), const(1), lanes)], self.number(lanes))
            moves = around.loops and kind.endswith("moves")
            length = self.one(*around.loops)[0] + self.int(0, 2) if moves else const(self.int(1, lanes))
            return LT(Ramp(const(self.one(0, 0, 1)), const(1), lanes), Broadcast(length, lanes))

        return self.again("mask", around, lanes, fresh)

    def number(self, lanes: int) -> Expr:
        value = const(self.int(0, 4), self.dtype)
        return value if lanes == 1 else Broadcast(value, lanes)

    def load(self, around: Around, lanes: int) -> Expr:
        return self.again("load", around, lanes, lambda: self.new_load(around, lanes))

    def new_load(self, around: Around, lanes: int) -> Expr:
        source = self.one(*self.inputs, *self.outputs, *around.own)
        if around.lane is not None and source in self.inputs and lanes == 1:
            return source[self.scalar_index(Around(around.loops))]
        if source in around.own and lanes == 1:
            return source[self.int(0, LANES - 1)]
        if source in around.own:
            return source[Ramp(const(0), const(1), lanes)]
        if lanes > 1 and self.int(0, 2) == 0:
            at = self.again("gathered", around, lanes, lambda: self.gathered(around, lanes))
            return BufferLoad(source, (at,), self.one(None, None, self.mask(around, lanes)))
        return BufferLoad(
            source, (self.again("place", around, lanes, lambda: self.index(around, lanes)),), self.mask(around, lanes)
        )

    def value(self, around: Around, lanes: int, depth: int = 2) -> Expr:
        kind = self.kind("load", "number", "plus", "least", "choice", "guarded", "iterator")
        if kind == "iterator" and around.loops and lanes == 1:
            return Cast(self.outputs[0].dtype, self.one(*around.loops)[0] % 5)
        if kind == "number":
            return self.number(lanes)
        if depth == 0 or kind in ("load", "iterator"):
            return self.load(around, lanes)
        a = self.value(around, lanes, depth - 1)
        if kind == "guarded":
            return self.guarded(around, a) if lanes == 1 else a
        b = self.value(around, lanes, depth - 1)
        if kind == "least":
            return binary(self.one(Min, Max), a, b)
        if kind == "choice":
            return Select(self.condition(around, lanes), a, b)
        return a + b

    def beyond(self, around: Around) -> tuple[Expr, Expr]:
        """A place that is out of range for some values, and the condition under which it is not."""
        if around.loops:
            v = self.one(*around.loops)[0] if around.lane is None else around.lane
            at = v * self.one(1, 1, -1) + self.one(SIZE - 3, 2, -2, 0)
        else:
            at = self.places[self.one(*self.bases)] + self.one(SIZE // 2, -3)
        return at, self.one(And(at >= 0, at < SIZE), And(at < SIZE, at >= 0), Not(Or(at < 0, at >= SIZE)))

    def guarded(self, around: Around, otherwise: Expr) -> Expr:
        def fresh() -> Expr:
            at, inside = self.beyond(around)
            # What the lanes of a loop store to they read at their own place only.
            load = self.one(*self.inputs)[at]
            kind = self.kind("then", "else", "and", "or")
            if kind == "then":
                return call("if_then_else", inside, load, self.number(1))
            if kind == "else":
                return call("if_then_else", Not(inside), self.number(1), load)
            compared = self.one(*COMPARE)(load, self.number(1))
            condition = And(inside, compared) if kind == "and" else Or(Not(inside), compared)
            return Select(condition, self.number(1), self.number(1) + 1)

        return self.again("guarded", around, 1, fresh) + otherwise

    def condition(self, around: Around, lanes: int = 1, depth: int = 1) -> Expr:
        return self.again(f"condition {depth}", around, lanes, lambda: self.new_condition(around, lanes, depth))

    def new_condition(self, around: Around, lanes: int, depth: int) -> Expr:
        if lanes > 1 or not around.loops:
            return self.one(*COMPARE)(self.load(around, lanes), self.number(lanes))
        joined = ("both", "either", "not", "left decides") if depth else ()
        kind = self.kind("read", "bound", "bound of a sum", "start and", "beyond", *joined)
        v, low, high = self.one(around.loops[-1], *around.loops)
        if kind == "read":
            return self.one(*COMPARE)(self.load(around, lanes), self.number(lanes))
        if kind == "beyond":
            return self.beyond(around)[1]
        if kind == "start and":
            return And(EQ(v, const(low)), self.one(*COMPARE)(self.load(around, 1), self.number(1)))
        if kind == "bound":
            return self.one(*BOUNDS)(v * self.one(1, 1, 2), const(min(self.cut, high) + self.int(-1, 1)))
        if kind == "left decides":
            return self.left_decides(around)
        if kind == "bound of a sum":
            total = v * self.one(1, 2, 4) + self.one(*around.loops)[0]
            return self.one(*BOUNDS)(total, const(self.cut + self.int(0, 4)))
        a, b = self.condition(around, 1, depth - 1), self.condition(around, 1, depth - 1)
        return Not(a) if kind == "not" else And(a, b) if kind == "both" else Or(a, b)

    def left_decides(self, around: Around) -> Expr:
        """Two conditions, of which the second is on memory, and is read where the first one leaves it open."""
        v, low, _ = around.loops[-1]
        at = self.index(around, 1)
        left = self.one(*COMPARE)(self.one(*self.inputs)[at], self.number(1))
        right = self.one(*COMPARE)(self.one(*self.inputs, *self.outputs)[at], self.number(1))
        return self.one(And, Or)(self.one(left, self.one(*BOUNDS)(v, const(low + self.int(0, 3)))), right)

    # -- statements

    def store(self, around: Around) -> Stmt:
        if around.lane is None and self.int(0, 9) == 0:
            at = self.one(*self.bases)
            return BufferStore(self.places, self.places[at + self.int(0, 1)] * self.int(1, 3) % SIZE, (const(at),))
        if around.lane is not None and self.int(0, 7) == 0:  # what one iteration stores to a place that does not move
            at = const(self.int(0, 7))
            return If(
                EQ(around.lane, at), BufferStore(self.singles, self.one(self.number(1), self.load(around, 1)), (at,))
            )
        lanes = LANES if around.lane is None and self.int(0, 1) else 1
        target = self.one(*self.outputs)
        at = self.again("place", around, lanes, lambda: self.index(around, lanes))
        mask = self.mask(around, lanes)
        value = self.value(around, lanes)
        if self.int(0, 2):
            # The mask of the store, now and then another one, or none.
            value = BufferLoad(target, (at,), mask if self.int(0, 3) else self.mask(around, lanes)) + value
        return BufferStore(target, value, (at,), mask)

    def statement(self, around: Around, depth: int) -> Stmt:
        self.room -= 1
        if depth == 0 or self.room <= 0 or (around.loops and self.int(0, 2) == 0):
            return self.store(around)
        kinds = ["loop", "counted", "reduction", "branch", "branch and else", "let"]
        if around.lane is None:
            kinds += ["lanes", "tile", "storage", "run"]  # an iteration's own has been set apart by then
        kind = self.kind(*kinds)
        if kind in ("loop", "lanes"):
            return self.loop(around, depth, kind == "lanes" and around.lane is None)
        if kind == "reduction":
            return self.reduction(around)
        if kind == "tile":
            return self.tile(around)
        if kind == "run":
            return self.run(around)
        if kind == "counted":
            n, v, start = self.var("n"), self.var(), self.one(0, 1)
            body = self.from_the_start(around.within(v, start, start + 3, False), depth - 1)
            loop = For(v, const(start), n, self.one(*SERIAL[:2]), body)
            return LetStmt(n, self.count(around), loop)
        if kind == "let":
            v = self.var("k")
            value = self.places[self.scalar_index(Around(around.loops))] % 7
            return LetStmt(v, value, self.several(around.within(v, 0, 6, False), depth - 1))
        if kind == "storage":
            own = Buffer(f"T{self.var().name}", (const(LANES),), self.dtype, "local")
            around_own = Around(around.loops, around.lane, (*around.own, own))
            fill = [BufferStore(own, self.number(1), (const(k),)) for k in range(LANES)]
            return Allocate(own, Seq.of(*fill, self.several(around_own, depth - 1)))
        if kind.startswith("branch"):
            other = self.several(around, depth - 1) if kind != "branch" else None
            return If(self.condition(around), self.several(around, depth - 1), other)
        return self.store(around)

    def run(self, around: Around) -> Stmt:
        """Stores one after the other that read few places, now under one mask and now under another, or none."""
        places = [(self.one(*self.inputs), self.index(around, LANES)) for _ in range(2)]
        masks = [None, *(self.mask(around, LANES) for _ in range(2))]
        there = [Ramp(const(self.bases[0] + step), const(1), LANES) for step in (0, 2, LANES, 2 * LANES)]
        if self.with_masks and self.int(0, 1):  # what the run stores decides on lanes that it reads later
            masks.append(GT(self.one(*self.outputs)[self.one(*there)], self.number(LANES)))
        stores = []
        for _ in range(self.int(2, 4)):
            source, at = self.one(*places)
            value = BufferLoad(source, (at,), self.one(masks[-1], *masks))
            stores.append(
                BufferStore(self.one(*self.outputs), value + self.number(LANES), (self.one(*there),), self.one(*masks))
            )
        return Seq.of(*stores)

    def count(self, around: Around) -> Expr:
        """How often a loop runs, which data decide: up to three times; a negative number of times is never."""
        return self.places[self.scalar_index(Around(around.loops))] % 6 - 2

    def tile(self, around: Around) -> Stmt:
        """A square of elements turned around, row after row; in place too."""
        i, j, side = self.var(), self.var(), self.one(2, 4, 4)
        first, second = self.one(0, 0, 1), self.one(0, 0, 2)
        target = self.one(*self.outputs)
        source, base = self.one(*self.inputs, target), self.int(0, 16)
        at = base if source is target else self.one(base, 3)  # lanes of one row of a turn in place do not meet
        store = BufferStore(target, source[j * 8 + i + at], (i * 8 + j + base,))
        row = For(j, const(second), const(side), ForKind.VECTORIZED, store)
        return For(i, const(first), const(self.one(side, 4)), ForKind.SERIAL, row)

    def reduction(self, around: Around) -> Stmt:
        """Elements of an output that a loop adds into, some of them with a value given right before."""
        v, start = self.var("r"), self.one(0, 1, 2)
        extent = self.one(1, 2, 3, 5, 9)
        inside = around.within(v, start, start + extent - 1, False)
        lanes = LANES if around.lane is None and self.int(0, 1) else 1
        fixed = Around(around.loops, around.lane)
        before: list[BufferStore] = []
        steps = []
        for _ in range(self.int(1, 3)):
            target = self.one(*self.outputs)
            at = (
                self.index(fixed, lanes)
                if self.int(0, 1)
                else self.again("element", fixed, lanes, lambda: self.index(fixed, lanes))
            )
            mask = self.mask(fixed, lanes)
            if before and self.int(0, 1):  # a start that comes from the start of another element
                first = before[-1]
                given = BufferLoad(first.buffer, first.indices, first.predicate) + self.number(lanes)
                before.append(BufferStore(target, given, (at,), mask))
            elif self.int(0, 1):
                given = self.one(
                    self.number(lanes),
                    self.number(lanes),
                    self.load(fixed, lanes),
                    BufferLoad(self.one(*self.outputs), (at,)),
                )
                before.append(BufferStore(target, given, (at,), mask if self.int(0, 2) else self.mask(fixed, lanes)))
            read = self.inputs[0][self.one(v, v + 2, const(3))]
            added = (
                self.value(inside, lanes, 1) if self.int(0, 3) == 0 else read if lanes == 1 else Broadcast(read, lanes)
            )
            own = mask
            if lanes > 1 and self.with_masks and self.int(0, 3) == 0:  # lanes from some step on, or up to it
                own = self.one(LT, GE)(Ramp(const(0), const(1), lanes), Broadcast(v - self.int(-1, 1), lanes))
            steps.append(BufferStore(target, BufferLoad(target, (at,), own) + added, (at,), own))
        kind = self.one(*SERIAL)
        several_lanes = {LANES_OF_A_SUM: self.one(2, 4)} if kind is ForKind.SERIAL else {}
        if extent >= 3 and self.int(0, 2) == 0:  # data decide how long the sum is
            n = self.var("n")
            loop = For(v, const(start), n, kind, Seq.of(*steps), annotations=several_lanes)
            return LetStmt(n, self.count(around), Seq.of(*before, loop))
        return Seq.of(*before, For(v, const(start), const(extent), kind, Seq.of(*steps), annotations=several_lanes))

    def loop(self, around: Around, depth: int, lanes: bool) -> Stmt:
        v = self.var()
        if lanes:
            start = self.one(0, 0, 1, 3)
            extent = self.one(SIZE - start, SIZE - start, 2, 5, 7, 8)
            inside = around.within(v, start, start + extent - 1, True)
            body = self.several(inside, depth - 1)
            if self.int(0, 2) == 0:  # only for some of the iterations, or the one for some and the other for the rest
                other = self.several(inside, depth - 1) if self.int(0, 1) else None
                body = If(self.left_decides(inside), body, other)
            return For(v, const(start), const(extent), self.one(*CONCURRENT), body)
        start, extent = self.one(0, 0, 1, 3, -2), self.one(0, 1, 2, 3, 4, 5, 7)
        body = self.from_the_start(around.within(v, start, start + max(extent, 1) - 1, False), depth - 1)
        return For(v, const(start), const(extent), self.one(*SERIAL), body)

    def from_the_start(self, around: Around, depth: int) -> Stmt:
        """The body of a loop; sometimes with something first that the first iteration does alone."""
        if self.int(0, 2):
            return self.several(around, depth)
        v, low, _ = around.loops[-1]
        condition = EQ(v, const(low))
        condition = And(condition, self.condition(around)) if self.int(0, 1) else condition
        return Seq.of(If(condition, self.several(around, depth - 1)), self.several(around, depth))

    def several(self, around: Around, depth: int) -> Stmt:
        return Seq.of(*(self.statement(around, depth) for k in range(self.int(1, 3)) if self.room > 0 or k == 0))

    def func(self) -> PrimFunc:
        body = Seq.of(*(self.statement(Around(), 3) for _ in range(self.int(2, 4))))
        return PrimFunc((*self.inputs, self.places, *self.outputs, self.singles), body, {"global_symbol": "k"})


SERIAL = (ForKind.SERIAL, ForKind.SERIAL, ForKind.UNROLLED)
CONCURRENT = (ForKind.VECTORIZED, ForKind.VECTORIZED, ForKind.VECTORIZED, ForKind.PARALLEL, ForKind.UNROLLED)


def kernel_program(seed: int, dtype: str = "int32", masks: bool = True) -> PrimFunc:
    """The kernel of a seed, of the parameters A, D (read) and P, B, C, E (updated)."""
    return Kernel(Random(seed), dtype, masks).func()


UPDATED = ("P", "B", "C", "E")


def kernel_arguments(seed: int, dtype: str = "int32") -> list[np.ndarray]:
    """Arrays of small numbers for its parameters."""
    rng = np.random.default_rng(seed)
    low = 0 if dtype.startswith("u") else -4
    made = [rng.integers(low, 6, SIZE).astype(dtype) for _ in range(5)]
    return [made[0], made[1], rng.integers(0, SIZE, SIZE).astype("int32"), *made[2:]]
