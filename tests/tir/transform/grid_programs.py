"""Random programs of threads: one or two axes of a block, blocks, virtual threads, that start anywhere.

Threads hand elements over in shared storage, each keeps some for itself in local storage, and what is the same for all
of them, or for those of one axis, is said by all. Around it stand serial loops, conditions on memory that are the same
for all, lets, and loops that are bound to an axis again. A thread stores to its own elements of the outputs, so
iterations do not meet but in shared storage. What is wrong all the same is seen by running it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minitvm.errors import ExecutionError, Unsupported
from minitvm.expr import EQ, GE, GT, LE, LT, NE, Expr, Max, Min, Select, Var, binary, const
from minitvm.reference import tir as reference
from minitvm.tir.nodes import Buffer, BufferStore, For, ForKind, If, LetStmt, PrimFunc, Seq, Stmt, with_root
from tests.tir.transform.draws import Draws

COMPARE = (EQ, NE, LT, LE, GT, GE)
TURNS = 3  # iterations of serial loops, at most
SIZE = 8


class Grid(Draws):
    """One program under construction."""

    AXES: tuple[tuple[str, ...], ...] = (
        ("x",), ("x",), ("y", "x"), ("x", "y"), ("x", "v"), ("v", "x"), ("v",), ("y", "x", "v"),
    )  # fmt: skip
    STATEMENTS: tuple[str, ...] = (
        "plain", "plain", "turns", "turns", "branch of all", "branch and else", "branch of some", "let", "own let",
        "handed on",
    )  # fmt: skip

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.read = Buffer("A", (SIZE, SIZE), "int32")
        self.common = Buffer("D", (SIZE,), "int32")
        self.axes: list[tuple[str, Var, int, int]] = []
        for name in self.one(*self.AXES):
            thread = {"x": "threadIdx.x", "y": "threadIdx.y", "v": self.one("vthread", "vthread.x")}[name]
            start = self.one(0, 0, 1, 2) if self.chance(1, 2) else 0
            self.axes.append((thread, self.var("t"), start, self.one(2, 2, 3, 4)))
        self.blocks = self.chance(1, 2)
        self.b = self.var("b")
        self.extents = [extent for _, _, _, extent in self.axes]
        own = [v - start if start else v for _, v, start, _ in self.axes]
        self.mine: list[Expr] = list(own)
        self.output = Buffer("B", (2 if self.blocks else 1, *self.extents), "int32")
        self.more = Buffer("C", (2 if self.blocks else 1, *self.extents, TURNS + 1), "int32")
        scope = self.one("shared", "shared.dyn")
        self.shared = [Buffer(n, tuple(self.extents), "int32", scope) for n in ("S", "R")[: self.int(1, 2)]]
        self.uniform = [Buffer("Q", (self.one(1, 2, 4, 4),), "int32", "shared")]
        self.local = [Buffer("L", (self.one(1, 2, 3),), "int32", "local")]
        self.turns: list[tuple[Var, int]] = []
        self.names_of_all: list[Var] = []  # lets that are the same for all threads
        self.own_names: list[Var] = []  # lets of each thread
        self.room = 9

    # -- places

    def place(self, write: bool) -> tuple[Expr, ...]:
        """An element of what threads share: a thread's own, or in a load another one's."""
        at: list[Expr] = []
        for mine, extent in zip(self.mine, self.extents):
            kind = self.kind("own", "own", "reverse", *(() if write else ("next", "fixed", "turn", "data")))
            if kind == "reverse":
                at.append(extent - 1 - mine)
            elif kind == "next":
                at.append((mine + self.int(1, extent - 1)) % extent)
            elif kind == "fixed":
                at.append(const(self.int(0, extent - 1)))
            elif kind == "turn" and self.turns:
                at.append(self.one(*self.turns)[0] % extent)
            elif kind == "data":
                at.append(self.common[self.int(0, SIZE - 1)] % extent)
            else:
                at.append(mine)
        return tuple(at)

    def number(self) -> Expr:
        return const(self.int(-3, 5))

    def same_for_all(self) -> Expr:
        """A value that every thread sees."""
        kind = self.kind("input of all", "turn of all", "uniform", "name", "fixed element")
        if kind == "turn of all" and self.turns:
            return self.one(*self.turns)[0] + self.number()
        if kind == "name" and self.names_of_all:
            return self.one(*self.names_of_all) + 0
        if kind == "uniform":
            return self.uniform[0][self.position()]
        if kind == "fixed element":
            shared = self.one(*self.shared)
            return shared[tuple(const(self.int(0, e - 1)) for e in self.extents)]
        return self.common[self.one(*self.turns)[0] if self.turns and self.chance(1, 2) else const(self.int(0, 3))]

    def position(self) -> Expr:
        size = int(self.uniform[0].shape[0].value)  # type: ignore[attr-defined]
        if self.turns and self.chance(1, 2):
            return self.one(*self.turns)[0] % size
        return const(self.int(0, size - 1))

    def value(self, without: Buffer | None = None, depth: int = 1) -> Expr:
        """What a thread computes; not from `without`, which other threads write."""
        if self.own_names and self.chance(1, 3):
            return self.one(*self.own_names) + 0
        kind = self.kind("exchange", "exchange", "input", "of all", "kept", "self", "plus", "least", "choice")
        if kind == "exchange" and (others := [s for s in self.shared if s is not without]):
            return self.one(*others)[self.place(False)]
        if kind == "kept":
            return self.local[0][self.slot()]
        if kind == "of all":
            return self.same_for_all() if without is None else self.common[self.int(0, 3)]
        if kind == "self":
            return self.one(*self.mine) + self.number()
        if depth == 0 or kind in ("exchange", "input"):
            row = self.one(*self.turns)[0] if self.turns else const(self.int(0, 3))
            return self.read[row, self.one(*self.mine)]
        a, b = self.value(without, depth - 1), self.value(without, depth - 1)
        if kind == "choice":
            return Select(self.one(*COMPARE)(self.one(*self.mine), const(1)), a, b)
        return a + b if kind == "plus" else binary(self.one(Min, Max), a, b)

    def slot(self) -> Expr:
        size = int(self.local[0].shape[0].value)  # type: ignore[attr-defined]
        return self.one(*self.turns)[0] % size if self.turns and self.chance(1, 2) else const(self.int(0, size - 1))

    # -- statements

    def step(self) -> Stmt:
        """A store."""
        self.room -= 1
        kind = self.kind("share", "share", "keep", "give", "give", "tell all", "tell some", "together", "virtual")
        block = self.b if self.blocks else const(0)
        if kind == "share":
            shared = self.one(*self.shared)
            at = self.place(True)
            value = self.value(shared)
            return BufferStore(shared, shared[at] + value if self.chance(1, 4) else value, at)
        if kind == "keep":
            at = (self.slot(),)
            value = self.value()
            return BufferStore(self.local[0], self.local[0][at] + value if self.chance(1, 2) else value, at)
        if kind == "tell all":
            at = (self.position(),)
            value = self.common[self.one(*self.turns)[0] if self.turns else const(self.int(0, 3))] + self.number()
            if self.chance(1, 2):
                value = self.uniform[0][at] + value
            return BufferStore(self.uniform[0], value, at)
        if kind == "tell some":  # the same for the threads of all axes but one
            shared = self.one(*self.shared)
            axis = self.int(0, len(self.axes) - 1)
            at = tuple(
                m if k == axis else const(self.int(0, e - 1)) for k, (m, e) in enumerate(zip(self.mine, self.extents))
            )
            return BufferStore(shared, self.read[self.int(0, 3), self.mine[axis]] + self.number(), at)
        if kind == "virtual" and "vthread" not in {thread for thread, *_ in self.axes}:
            # Virtual threads for a while, which read what the thread keeps.
            v = self.var("v")
            at = (block, *self.mine, v)
            store = BufferStore(self.more, self.more[at] + self.local[0][self.slot()] + v, at)
            return For(v, const(0), const(2), ForKind.THREAD, store, "vthread")
        if kind == "together":
            again = [k for k, (thread, *_) in enumerate(self.axes) if thread.startswith("threadIdx")]
            if again and not self.around_all:
                axis = self.one(*again)
                thread, _, start, extent = self.axes[axis]
                v, shared = self.var("u"), self.one(*self.shared)
                at = tuple((v - start if k == axis else const(self.int(0, e - 1))) for k, e in enumerate(self.extents))
                store = BufferStore(shared, self.read[self.int(0, 3), v - start] + self.number(), at)
                return For(v, const(start), const(extent), ForKind.THREAD, store, thread)
        value = self.value()
        if self.turns and self.chance(1, 2):
            at = (block, *self.mine, self.one(*self.turns)[0])
            return BufferStore(self.more, self.more[at] + value, at)
        at = (block, *self.mine)
        return BufferStore(self.output, self.output[at] * 2 + value if self.chance(2, 3) else value, at)

    around_all = False  # inside of a condition or a let that differs between threads: none of them binds an axis again

    def statement(self, depth: int) -> Stmt:
        kind = self.kind(*self.STATEMENTS)
        if depth == 0 or self.room <= 0 or kind == "plain":
            return self.step()
        if kind == "handed on":
            return self.handed_on()
        if kind == "turns":
            v, start, extent = self.var("k"), self.one(0, 0, 1), self.one(1, 2, 2, TURNS)
            self.turns.append((v, start))
            body = self.several(depth - 1)
            self.turns.pop()
            return For(v, const(start), const(extent), self.one(ForKind.SERIAL, ForKind.SERIAL, ForKind.UNROLLED), body)
        if kind == "let":
            v = self.var("w")
            held = self.same_for_all()
            self.names_of_all.append(v)
            body = self.several(depth - 1)
            self.names_of_all.pop()
            return LetStmt(v, held, body)
        if kind == "own let":  # what a thread reads stays what it was, whatever the threads store inside
            v = self.var("w")
            held = self.value()
            self.own_names.append(v)
            body = self.apart(depth - 1)
            self.own_names.pop()
            return LetStmt(v, held, body)
        if kind == "branch of some":
            mine = self.one(*self.mine)
            return If(self.one(LT, GE, EQ, NE)(mine, const(self.int(0, 2))), self.apart(depth - 1, 2))
        condition = self.one(*COMPARE)(self.same_for_all(), const(self.int(-1, 2)))
        other = self.several(depth - 1, 2) if kind == "branch and else" else None
        return If(condition, self.several(depth - 1), other)

    def handed_on(self) -> Stmt:
        """Turns of which each tells all threads something, at a place of its own, that the same or another turn reads:
        by the turn's own number, or by a name that is given to it there."""
        v, start = self.var("k"), self.one(0, 0, 1)
        buffer = self.uniform[0]
        size = int(buffer.shape[0].value)  # type: ignore[attr-defined]
        told: Stmt = BufferStore(buffer, self.common[v] + self.number(), ((v + self.int(-1, 2)) % size,))
        at = (self.b if self.blocks else const(0), *self.mine, v)
        by, w = v + self.int(-1, 2), self.var("w") if self.chance(2, 3) else None
        read: Stmt = BufferStore(self.more, self.more[at] * 2 + buffer[((by if w is None else w) % size,)], at)
        if w is not None:
            read = LetStmt(w, by, read)
        parts = [told, read] if self.chance(1, 2) else [read, told]
        if self.chance(1, 4):
            self.turns.append((v, start))
            parts.insert(self.int(0, 2), self.step())
            self.turns.pop()
        return For(v, const(start), const(self.one(2, TURNS)), ForKind.SERIAL, Seq.of(*parts))

    def several(self, depth: int, most: int = 3) -> Stmt:
        return Seq.of(*(self.statement(depth) for k in range(self.int(1, most)) if self.room > 0 or k == 0))

    def apart(self, depth: int, most: int = 3) -> Stmt:
        """The same, of threads that may do different things."""
        before, self.around_all = self.around_all, True
        body = self.several(depth, most)
        self.around_all = before
        return body

    def func(self) -> PrimFunc:
        start: list[Stmt] = [
            BufferStore(s, self.number() + self.one(*self.mine), tuple(self.mine)) for s in self.shared
        ]
        size = int(self.uniform[0].shape[0].value)  # type: ignore[attr-defined]
        start += [BufferStore(self.uniform[0], self.number(), (const(k),)) for k in range(size)]
        room = int(self.local[0].shape[0].value)  # type: ignore[attr-defined]
        start += [BufferStore(self.local[0], self.number() + self.one(*self.mine), (const(k),)) for k in range(room)]
        if self.chance(1, 3):
            self.random.shuffle(start)
        body = Seq.of(*start, *(self.statement(2) for _ in range(self.int(2, 4))), self.final())
        if self.chance(1, 4):  # everything again
            k = self.var("k")
            body = For(k, const(0), const(2), ForKind.SERIAL, body)
        for thread, v, first, extent in self.axes[::-1]:
            body = For(v, const(first), const(extent), ForKind.THREAD, body, thread)
        if self.blocks:
            body = For(self.b, const(0), const(2), ForKind.THREAD, body, "blockIdx.x")
        allocated = (*self.shared, *self.uniform, *self.local)
        return with_root((self.read, self.common, self.output, self.more), body, {"global_symbol": "main"}, allocated)

    def final(self) -> Stmt:
        """What is left in all storage, for everybody to see."""
        at = (self.b if self.blocks else const(0), *self.mine)
        value = self.output[at] * 3 + self.uniform[0][0] + self.local[0][0]
        for shared in self.shared:
            value = value + shared[self.place(False)]
        return BufferStore(self.output, value, at)


class Virtual(Grid):
    """A program of virtual threads that mostly names what it reads and asks which thread it is."""

    AXES = (("v",), ("v",), ("x", "v"), ("v", "x"))
    STATEMENTS = ("turns", "branch of all", "branch of some", "branch of some", "let", "own let", "own let")


UPDATED = ("B", "C")


def grid_program(seed: int, grid: type[Grid] = Grid) -> tuple[PrimFunc, list[Any], list[Any]] | None:
    """The program of a seed, arguments, and what they are afterwards; None where it has no meaning."""
    maker = grid(seed)
    func = maker.func()
    rng = np.random.default_rng(seed)
    shapes = [tuple(int(d.value) for d in p.shape) for p in func.buffers]  # type: ignore[attr-defined]
    args = [rng.integers(-3, 5, shape).astype("int32") for shape in shapes]
    after = [a.copy() for a in args]
    try:
        reference.run(func, *after, inout=UPDATED)
    except (ExecutionError, Unsupported):
        return None
    return func, args, after


def virtual_program(seed: int) -> tuple[PrimFunc, list[Any], list[Any]] | None:
    """The same, of virtual threads."""
    return grid_program(seed, Virtual)
