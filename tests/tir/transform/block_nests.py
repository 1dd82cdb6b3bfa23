"""Statements without blocks, and nests of loops around one block, of random programs."""

from __future__ import annotations

from collections.abc import Callable

from minitvm.expr import (
    EQ,
    And,
    Expr,
    IntImm,
    Var,
    const,
    replace,
    substitute,
    walk,
)
from minitvm.tir.nodes import (
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    If,
    LetStmt,
    Seq,
    Stmt,
)
from tests.tir.transform.block_values import (
    COMPARE,
    LANES,
    MOST,
    PARALLEL,
    SERIAL,
    SIDE,
    SIZE,
    UNROLLED,
    Known,
    Part,
    Scope,
    Values,
    block,
    extents_of,
)

ODDITIES = (
    "repeat", "dependent extent", "unknown extent", "unknown extent", "predicate", "changes what the init reads",
    "changes what the init reads", "beside", "branch", "moved", "tiled", "skewed", "skewed", "with what is outside",
    "later part", "any place", "init reads", "init each time", "init under a condition", "two inits", "no update",
    "update under a condition", "more in the body", "concurrent",
)  # fmt: skip


class Nests(Values):
    """The statements of one program that are plain, and its nests."""

    odd: set[str] = set()  # what is odd about the present nest

    def target(self, scope: Scope) -> Buffer:
        kind = self.kind("store some", "store some", "store own", "store what is read")
        if kind == "store what is read" and (inputs := [b for b in self.read if b is not self.matrix]):
            return self.one(*inputs)
        return self.one(*scope.own) if kind == "store own" and scope.own else self.one(*self.written)

    def store(self, scope: Scope) -> Stmt:
        target = self.target(scope)
        at = self.place(target, scope)
        value = self.value(scope)
        return BufferStore(target, target[at] + value if self.chance(1, 2) else value, at)

    def several(self, scope: Scope, make: Callable[[Scope], Stmt], most: int = 3) -> Stmt:
        return Seq.of(*(make(scope) for k in range(self.int(1, most)) if self.room > 0 or k == 0))

    def extent(self, scope: Scope) -> tuple[Expr, int]:
        """How often a loop runs, and how often at most."""
        kind = self.kind("constant", "constant", "constant", "size", "memory extent", "triangle")
        if kind == "size":
            return self.n, MOST
        if kind == "memory extent":
            return self.places[self.index(scope, SIZE)] % 3, 2
        if kind == "triangle" and scope.known:
            k = self.one(*scope.known)
            if k.high - k.low < SIDE:
                return k.var + (1 - k.low) if 1 - k.low else k.var, k.high - k.low + 1
        count = self.one(1, 2, 2, 3, 3, 4, SIDE)
        return const(count), count

    def new_loop(self, scope: Scope, letter: str = "i") -> Part:
        """A loop with nothing in it, and what is known of its variable."""
        v, (extent, most) = self.var(letter), self.extent(scope)
        start = self.one(0, 0, 0, 1, 2) if self.chance(6, 7) else -1
        kinds = {
            "in order": SERIAL,
            "in order, mostly": SERIAL,
            "unrolled": UNROLLED,
            "parallel": PARALLEL,
            "lanes": LANES,
        }
        kind = kinds[self.kind(*kinds)]
        return For(v, const(start), extent, kind, Seq(())), Known(v, start, start + max(most, 1) - 1)

    def leaf(self, scope: Scope) -> Stmt:
        """A statement without blocks: what stands inside of one, or beside one."""
        self.room -= 1
        kind = self.kind(
            "plain store", "plain store", "inner loop", "turning", "branch", "branch and else", "let", "first"
        )
        if kind == "inner loop" and self.room > 0:
            return self.loop(scope, self.leaf)
        if kind.startswith("branch"):
            other = self.store(scope) if kind != "branch" else None
            return If(self.condition(scope), self.several(scope, self.store, 2), other)
        if kind == "turning":
            return self.turning(scope)
        if kind == "let":
            v = self.var("w")
            return LetStmt(v, self.places[self.index(scope, SIZE)], self.store(scope.with_known(Known(v, 0, SIDE - 1))))
        return self.store(scope)

    def loop(self, scope: Scope, make: Callable[[Scope], Stmt]) -> Stmt:
        """A loop; sometimes with something that its first iteration does before the rest, as an init does."""
        empty, known = self.new_loop(scope)
        inside = scope.with_known(known)
        first: list[Stmt] = []
        if self.chance(1, 3):
            condition = EQ(known.var, const(known.low))
            condition = And(condition, self.condition(inside, 0)) if self.chance(1, 3) else condition
            if self.chance(1, 3):
                return replace(empty, body=If(condition, self.store(inside), self.store(inside)))
            first = [If(condition, self.one(self.fill, self.fill, self.store)(inside))]
        elif self.chance(1, 6):
            return replace(empty, body=self.turning(self.one(scope, inside)))
        elif self.chance(1, 4):
            return replace(empty, body=If(self.condition(self.one(scope, inside)), self.several(inside, make)))
        return replace(empty, body=Seq.of(*first, self.several(inside, make)))

    def fill(self, scope: Scope, buffer: Buffer | None = None) -> Stmt:
        """All elements of some scratch storage, or most."""
        buffer = self.one(*self.scratch) if buffer is None else buffer
        loops = [self.var("f") for _ in buffer.shape]
        made: Stmt = BufferStore(buffer, self.number() + self.one(*loops), tuple(loops))
        for v, extent in list(zip(loops, extents_of(buffer)))[::-1]:
            made = For(v, const(0), const(extent), SERIAL, made)
        return made

    def turning(self, scope: Scope) -> Stmt:
        """A condition on an element that the statement under it changes."""
        target = self.target(scope)
        at = self.place(target, scope)
        changed = self.one(target[at] + self.number(), const(0) - target[at], self.number())
        more = [self.store(scope)] if self.chance(1, 3) else []
        condition = self.one(*COMPARE)(target[at], const(self.int(-1, 2)))
        return If(condition, Seq.of(*more, BufferStore(target, changed, at)))

    def nest(self, scope: Scope) -> Stmt:
        """Loops around a block, most of it plain: spatial loops, those of a reduction, an init; and a few oddities."""
        self.room -= 1
        self.odd = set(self.random.sample(ODDITIES, self.one(0, 1, 1, 1, 2, 2, 3, 5)))
        spatial = [self.new_loop(scope, "i") for _ in range(self.one(1, 1, 2))]
        around = scope.with_known(*(k for _, k in spatial)) if "dependent extent" in self.odd else scope
        reduced = [self.new_loop(around, "k") for _ in range(self.one(0, 1, 1, 1, 1, 2))]
        repeat = [self.new_loop(scope, "r")] if "repeat" in self.odd else []
        loops = [*spatial, *reduced, *repeat]
        self.of_nests |= {empty.var for empty, _ in loops}
        if self.chance(1, 3):
            self.random.shuffle(loops)
        loops = [self.fitting(loop, loops[:n], reduced) for n, loop in enumerate(loops)]
        of_one, of_other = [k for _, k in spatial], [k for _, k in reduced]
        axes = [self.axis(k, of_one, scope, "S", of_other) for k in of_one]
        axes += [self.axis(k, of_other, scope, "R", []) for k in of_other]
        here = scope.with_known(*(k for _, k in loops))
        predicate = self.condition(here) if "predicate" in self.odd else None
        realize = self.reducing(scope, axes, predicate)
        made: Stmt = realize
        init = realize.block.init
        read = [n for n in walk(init) if isinstance(n, BufferLoad)] if init is not None else []
        if read and "changes what the init reads" in self.odd:
            load = self.one(*read)
            at = tuple(substitute(i, {k.var: e for k, _, e in axes}) for i in load.indices)
            other: Stmt = BufferStore(load.buffer, self.value(here, 0), at)
            made = Seq.of(other, made) if self.chance(2, 3) else Seq.of(made, other)
        beside, under = (self.int(0, len(loops) - 1) if kind in self.odd else -1 for kind in ("beside", "branch"))
        for n in reversed(range(len(loops))):
            empty, _ = loops[n]
            outside = scope.with_known(*(k for _, k in loops[: n + 1]))
            if n == beside:
                other = self.leaf(outside)
                made = Seq.of(other, made) if self.chance(1, 2) else Seq.of(made, other)
            if n == under:
                made = If(self.condition(outside), made)
            made = replace(empty, body=made)
        return made

    def fitting(self, loop: Part, outside: list[Part], reduced: list[Part]) -> Part:
        """A loop of a nest: its extent names nothing further in, and what reduces goes in order."""
        empty, known = loop
        inner = {v for v in walk(empty.extent) if isinstance(v, Var)} - {e.var for e, _ in outside}
        odd = self.odd & {"dependent extent", "unknown extent"}
        if any(v in self.of_nests for v in inner) or not (odd or isinstance(empty.extent, IntImm)):
            empty = replace(empty, extent=const(known.high - known.low + 1))
        if any(e.var is empty.var for e, _ in reduced):
            empty = replace(empty, kind=self.one(SERIAL, SERIAL, UNROLLED))
        return empty, known

    def axis(
        self, v: Known, loops: list[Known], scope: Scope, kind: str, others: list[Known]
    ) -> tuple[Known, str, Expr]:
        """An iterator: its domain, kind and value, of the loops and what is around."""
        e, low, high = v.var, v.low, v.high
        w = self.one(*loops)
        if "moved" in self.odd and self.chance(2, 3):
            by = self.one(-1, 1, 2, 4)
            e, low, high = e + by, low + by, high + by
        if "tiled" in self.odd and v is not w:
            by = self.one(w.high - w.low + 1, 2)
            e, low, high = e * by + w.var, low * by + w.low, high * by + w.high
        for odd, more in (("skewed", others), ("with what is outside", list(scope.known))):
            if odd in self.odd and more and self.chance(2, 3):
                u, by = self.one(*more), self.one(1, 1, 2)
                e, low, high = e + u.var * by, low + u.low * by, high + u.high * by
        if kind == "R" and "later part" in self.odd:
            low -= self.one(1, 2, 4)
        return Known(self.var("v"), low, high), kind, e

    def reducing(self, scope: Scope, axes: list[tuple[Known, str, Expr]], predicate: Expr | None) -> BlockRealize:
        """A block that updates an element, with an init where it reduces."""
        mine = scope.inside(*(k for k, _, _ in axes))
        kept = scope.inside(*(k for k, kind, _ in axes if kind == "S"))
        target = self.target(kept)
        at = self.place(target, kept)
        if "any place" not in self.odd:  # an element for each point, where that fits
            own = [k for k in kept.known if k.high - k.low < SIDE]
            if len(own) == len(kept.known) and target.ndim <= len(own):
                pairs = zip(own[-target.ndim :], extents_of(target), strict=True)
                at = tuple(k.var - k.low if k.low < 0 or k.high >= extent else k.var for k, extent in pairs)
        reads = {"init reads", "changes what the init reads"} & self.odd
        init: Stmt | None = None
        if any(kind == "R" for _, kind, _ in axes) or "init each time" in self.odd:
            init = BufferStore(target, self.load(kept) if reads else self.number(), at)
            if "init under a condition" in self.odd:
                init = If(self.condition(kept, 0), init)
            if "two inits" in self.odd:
                init = Seq.of(init, self.store(kept))
        body: Stmt = BufferStore(target, target[at] + self.value(mine), at)
        if "no update" in self.odd:
            body = BufferStore(target, self.value(mine), at)
        if "update under a condition" in self.odd:
            body = If(self.condition(mine), body)
        if "more in the body" in self.odd:
            body = self.one(Seq.of(body, self.leaf(mine)), Seq.of(self.leaf(mine), body))
        return block(f"b{self.var().name}", axes, body, init, predicate, self.one(0, 0, 1, 2))
