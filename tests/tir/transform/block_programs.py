"""Random programs of blocks, dense in what the first passes of lowering branch on.

Few buffers and few indices, much of it said again. Loops start anywhere, run so often as a constant, a size that may be
0, memory or an outer loop says, and repeat blocks; iterators are loops, sums of loops, tiles and later parts of their
domains; an init reads memory and stands under conditions. Scratch storage is filled in front, in the first
iteration of a loop, or in part; it has strides and offsets; views of it, and views of those, know their layout.
Indices are in range by form. What a program reads before it is written, and concurrent iterations that meet, are seen
by running it: such a program then has its storage filled in front, and its loops in order.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from minitvm.errors import ExecutionError
from minitvm.expr import (
    EQ,
    Expr,
    IntImm,
    Range,
    Var,
    const,
    replace,
    rewrite,
    substitute,
    walk,
)
from minitvm.reference import tir as reference
from minitvm.tir.nodes import (
    Block,
    Buffer,
    BufferRegion,
    BufferStore,
    For,
    If,
    LetStmt,
    MatchBufferRegion,
    PrimFunc,
    Seq,
    Stmt,
    with_root,
)
from tests.tir.transform.block_nests import Nests
from tests.tir.transform.block_values import (
    LANES,
    MOST,
    PARALLEL,
    SERIAL,
    SIDE,
    SIZE,
    Known,
    Scope,
    block,
    extents_of,
)

SWEEPS = (
    "seconds", "seconds", "diagonal", "tiles", "up to a size", "one place", "bound", "again", "again", "backwards",
    "in one case", "in the other case",
)  # fmt: skip


class Blocks(Nests):
    """One program under construction."""

    def sweep(self, scope: Scope, buffer: Buffer | None = None) -> Stmt:
        """Loops that go over scratch storage, or over a row of it, with at most an oddity or two: every second element,
        a diagonal, tiles, as far as a size or a condition, so often as a size says."""
        self.room -= 1
        stores = buffer is not None
        buffer = self.one(*self.scratch) if buffer is None else buffer
        odd = set(self.random.sample(SWEEPS, self.one(0, 1, 1, 1, 2)))
        extents = extents_of(buffer)
        axis = self.one(*range(len(extents)))  # where it is odd
        loops: list[For] = []
        at: list[Expr] = []
        bounds: list[Expr] = []
        known: list[Known] = []
        for k, extent in enumerate(extents):
            here = odd if k == axis else set()
            if "diagonal" in odd and known:
                at.append(known[-1].var if known[-1].high < extent else known[-1].var % extent)
                continue
            if "one place" in here:
                at.append(self.index(scope, extent))
                continue
            v, step = self.var("s"), 2 if "seconds" in here else 1
            count = -(-extent // step)
            place: Expr = v * step if step > 1 else v
            if step > 1 and extent % step == 0 and self.chance(1, 2):
                place = place + 1
            if "tiles" in here:
                w, tile = self.var("s"), self.one(2, 3, 4)
                known += [Known(v, 0, -(-extent // tile) - 1), Known(w, 0, tile - 1)]
                place = v * tile + w
                if extent % tile:
                    bounds.append(place < extent - self.one(0, 0, 1))
                loops += [For(v, const(0), const(-(-extent // tile)), SERIAL, Seq(()))]
                loops += [For(w, const(0), const(tile), SERIAL, Seq(()))]
            else:
                known.append(Known(v, 0, count - 1))
                by_size = "up to a size" in here and extent >= MOST
                loops.append(For(v, const(0), self.n if by_size else const(count), SERIAL, Seq(())))
            if "backwards" in here:
                place = const(extent - 1 - extent % step) - place
            if "bound" in here:
                bounds.append(place < extent - self.one(0, 1, 2))
            at.append(place)
        inside = scope.with_known(*known)
        if not stores and self.chance(1, 3):
            target = self.one(*self.outputs)
            made: Stmt = BufferStore(target, buffer[tuple(at)] + self.value(inside, 0), self.place(target, inside))
        else:
            made = BufferStore(buffer, self.value(inside, 1), tuple(at))
        for condition in bounds:
            made = If(condition, made)
        if {"in one case", "in the other case"} & odd:
            condition, other = self.condition(inside), self.store(inside)
            made = If(condition, made, other) if "in one case" in odd else If(condition, other, made)
        if "again" in odd:  # or not at all
            count = self.one(self.n, self.n, self.places[self.index(scope, SIZE)] % 3)
            loops.insert(self.int(0, len(loops)), For(self.var("s"), const(0), count, SERIAL, Seq(())))
        for empty in loops[::-1]:
            made = replace(empty, body=made)
        return made

    def passing(self, scope: Scope, buffer: Buffer | None = None) -> Stmt:
        """Elements of scratch storage that are written, at one place or two, or at some of a loop; and then read."""
        self.room -= 1
        buffer = self.one(*self.scratch, *self.scratch, *scope.own) if buffer is None else buffer
        held = self.places[self.index(scope, SIZE)]
        w = self.var("w") if self.chance(1, 3) else None
        if w is not None:  # where they are is a name for what memory holds
            scope = scope.with_known(Known(w, 0, SIDE - 1))
        writes: list[Stmt] = []
        reads: list[Stmt] = []
        for _ in range(self.one(1, 1, 2)):
            v, inside = None, scope
            if self.chance(1, 2):
                v, count = self.var("p"), self.one(2, 3)
                inside = scope.with_known(Known(v, 0, count - 1))
            at = tuple(self.index(inside, extent) for extent in extents_of(buffer))
            target = self.target(inside)
            there = self.place(target, inside)
            for parts, stmt in (
                (writes, BufferStore(buffer, self.value(inside, 0), at)),
                (reads, BufferStore(target, target[there] + buffer[at], there)),
            ):
                if v is not None:
                    own = v if parts is writes else self.var("p")
                    stmt = For(own, const(0), const(count), SERIAL, substitute(stmt, {v: own}))
                parts.append(stmt)
        made = Seq.of(*writes, *reads)
        return made if w is None else LetStmt(w, held, made)

    def carried(self, scope: Scope) -> Stmt:
        """A loop with scratch storage that all its iterations use: filled in the first one, changed in each, and
        read as a whole."""
        self.room -= 1
        v, start, count = self.var("c"), self.one(0, 0, 1), self.one(2, 2, 3)
        inside = scope.with_known(Known(v, start, start + count - 1))
        buffer = self.storage(f"K{v.name}")
        first = If(EQ(v, const(start)), self.fill(inside, buffer))
        changes = [self.sweep(inside, buffer) for _ in range(self.one(1, 1, 2))]
        if self.chance(1, 4):
            changes = [self.passing(inside, buffer)]
        loops = [self.var("q") for _ in buffer.shape]
        known = [Known(q, self.one(0, 1), extent - self.one(1, 2)) for q, extent in zip(loops, extents_of(buffer))]
        reader = inside.with_known(*known)
        target = self.one(*self.outputs)
        there = self.place(target, reader)
        made: Stmt = BufferStore(target, target[there] * 2 + buffer[tuple(loops)], there)
        for q in known[::-1]:
            made = For(q.var, const(q.low), const(q.high + 1 - q.low), SERIAL, made)
        body = Seq.of(*([first] if self.chance(5, 6) else []), *changes, made)
        self.scratch_of_loops.append(buffer)
        return For(v, const(start), const(count), SERIAL, body)

    def apart(self, scope: Scope) -> Stmt:
        """Concurrent loops whose iterations have an element and storage of their own."""
        self.room -= 1
        kinds = self.one((PARALLEL,), (LANES,), (PARALLEL, PARALLEL), (PARALLEL, PARALLEL), (PARALLEL, LANES))
        loops = [(self.var(), self.one(0, 0, 0, 1, 2), self.one(2, 3, 4)) for _ in kinds]
        axes = [(Known(self.var("v"), low, low + n - 1), "S", v) for v, low, n in loops]
        inside = scope.inside(*(k for k, _, _ in axes))
        own = self.storage(f"L{self.var().name}")
        everywhere = self.read, self.written
        self.read, self.written = [self.matrix, own], [own]
        body = [self.one(self.fill, self.passing)(inside, own), *([self.leaf(inside)] if self.chance(1, 2) else [])]
        target, at = self.outputs[len(axes) == 1], tuple(k.var for k, _, _ in axes)
        body.append(BufferStore(target, target[at] * 2 + own[self.place(own, inside)] + self.value(inside), at))
        self.read, self.written = everywhere
        made: Stmt = block(f"a{own.name}", axes, Seq.of(*body), alloc_buffers=(own,))
        for kind, (v, low, n) in list(zip(kinds, loops))[::-1]:
            made = For(v, const(low), const(n), kind, made)
        return made

    def opaque(self, scope: Scope) -> Stmt:
        """A block of statements: with storage of its own, views of buffers, and views of views."""
        self.room -= 1
        axes = []
        for k in scope.known:
            if self.chance(3, 4):
                axes.append((Known(self.var("v"), k.low, k.high), "S", k.var))
        predicate = None if not scope.known or self.chance(3, 4) else self.condition(scope)
        inside = scope.inside(*(k for k, _, _ in axes))
        own: tuple[Buffer, ...] = ()
        fill: list[Stmt] = []
        if self.chance(1, 3):
            own = (self.storage(f"L{self.var().name}"),)
            fill = [self.one(self.fill, self.passing)(inside, own[0])]
        views = []
        if self.chance(2, 3):
            view, data = self.view(inside, self.one(*self.outputs, self.matrix, *self.scratch, *scope.own, *own))
            views = [view]
            inside = Scope(inside.known, (*inside.own, *own, view.buffer), (*inside.data, *data))
        else:
            inside = inside.with_own(*own)
        make = self.opaque if views and self.chance(1, 3) and self.room > 0 else self.leaf
        told: list[Stmt] = []
        if inside.data and self.chance(1, 2):  # where the view lies
            target = self.target(inside)
            where: Expr = self.number()
            for k, v in enumerate(inside.data):
                where = where + v * (k + 1)
            told = [BufferStore(target, where, self.place(target, inside))]
        body = Seq.of(*fill, self.several(inside, make, 2), *told)
        return block(
            f"o{self.var().name}", axes, body, None, predicate, 0, alloc_buffers=own, match_buffers=tuple(views)
        )

    def view(self, scope: Scope, source: Buffer) -> tuple[MatchBufferRegion, list[Var]]:
        """A view of a box of a buffer, of as many dimensions or fewer; it may name its strides and offset."""
        extents = extents_of(source)
        fewer = len(extents) > 1 and self.chance(1, 3)
        box = [1 if fewer and axis == 0 else self.int(1, e) for axis, e in enumerate(extents)]
        region = tuple(Range(self.index(scope, e - n + 1), const(n)) for e, n in zip(extents, box))
        shape = tuple(const(n) for n in box[int(fewer) :])
        data: list[Var] = []
        strides: tuple[Expr, ...] = ()
        offset: Expr = const(0)
        if self.chance(2, 3):
            strides = tuple(self.var("stride") for _ in shape)
            offset = self.var("offset")
            data = [*strides, offset]  # type: ignore[list-item]
        buffer = Buffer(f"V{self.var().name}", shape, "int32", source.scope, strides=strides, elem_offset=offset)
        return MatchBufferRegion(buffer, BufferRegion(source, region)), data

    def statement(self, scope: Scope, depth: int = 2) -> Stmt:
        kinds = [
            "nest",
            "nest",
            "nest",
            "opaque block",
            "sweeps",
            "bare",
            "passed on",
            "carried on",
            "carried on",
            "apart",
        ]
        kind = self.kind(*kinds, *(("outer loop", "outer loop", "outer branch") if depth and self.room > 0 else ()))
        if kind == "outer loop":
            return self.loop(scope, lambda inside: self.statement(inside, depth - 1))
        if kind == "outer branch":
            return If(self.condition(scope), self.statement(scope, depth - 1))
        makers = {"nest": self.nest, "opaque block": self.opaque, "sweeps": self.sweep, "bare": self.leaf}
        return {**makers, "passed on": self.passing, "carried on": self.carried, "apart": self.apart}[kind](scope)

    def func(self) -> PrimFunc:
        body = Seq.of(*(self.statement(Scope()) for _ in range(self.int(1, 3))))
        params = (self.matrix, self.vector, self.places, *self.outputs, self.n)
        return with_root(params, body, {"global_symbol": "main"}, (*self.scratch, *self.scratch_of_loops))


UPDATED = ("A", "D", "B", "C")


def block_arguments(seed: int) -> list[Any]:
    """Small numbers for the parameters A, D, P, B, C, and n."""
    rng = np.random.default_rng(seed)
    shapes = ((SIDE, SIDE), (SIZE,), (SIZE,), (SIDE, SIDE), (SIZE,))
    made: list[Any] = [rng.integers(-3, 5, shape).astype("int32") for shape in shapes]
    made[2] = rng.integers(0, SIDE, SIZE).astype("int32")
    return [*made, int(rng.choice([0, 0, 1, 2, MOST]))]


def copies(args: list[Any]) -> list[Any]:
    """Arguments that a run may write to."""
    return [a.copy() if isinstance(a, np.ndarray) else a for a in args]


def block_program(seed: int) -> tuple[PrimFunc, list[Any], list[Any]] | None:
    """The program of a seed, arguments, and what they are afterwards; None where no way makes it a legal one."""
    maker, args = Blocks(seed), block_arguments(seed)
    func = maker.func()
    hows: dict[str, list[str]] = {}
    for _ in range(12):
        after = copies(args)
        try:
            reference.run(func, *after, inout=UPDATED)
            return func, args, after
        except ExecutionError as error:
            text = str(error)
        unfilled = re.match(r"uninitialised read: element .* of (\w+) has", text)
        if unfilled is None:
            func = in_order(func, maker)
            continue
        left = hows.setdefault(unfilled[1], maker.one(["first", "always", "in front"], ["always", "in front"]))
        func = filled(func, maker, unfilled[1], left.pop(0) if left else "in front")
    return None


def in_order(func: PrimFunc, maker: Blocks) -> PrimFunc:
    """The function with one concurrent loop less."""
    concurrent = [n for n in walk(func.body) if isinstance(n, For) and n.kind in (PARALLEL, LANES)]
    if not concurrent:
        return func
    chosen = maker.one(*concurrent)

    def change(node: Any) -> Any:
        return replace(node, kind=SERIAL) if isinstance(node, For) and node.var is chosen.var else None

    return func.with_body(rewrite(func.body, change))


def filled(func: PrimFunc, maker: Blocks, name: str, how: str) -> PrimFunc:
    """The function with some scratch storage filled: in front of everything; or in the loop that holds all uses of it,
    always or in the first iteration. What a block allocates is filled at its beginning."""
    for node in [n for n in walk(func.body) if isinstance(n, Block)]:
        for buffer in node.alloc_buffers:
            if buffer.name == name:
                made = _filled(node.body, buffer, maker, how if node.name == "root" else "in front")
                changed = replace(node, body=made)
                return func.with_body(rewrite(func.body, lambda n, old=node, new=changed: new if n is old else None))
    return func


def _filled(stmt: Stmt, buffer: Buffer, maker: Blocks, how: str) -> Stmt:
    if isinstance(stmt, Seq) and how != "in front":
        users = [k for k, part in enumerate(stmt.stmts) if _uses(part, buffer)]
        if len(users) == 1:
            parts = list(stmt.stmts)
            parts[users[0]] = _filled(parts[users[0]], buffer, maker, how)
            return Seq.of(*parts)
    if isinstance(stmt, For) and stmt.kind is SERIAL and isinstance(stmt.extent, IntImm) and how != "in front":
        if how == "first" and stmt.extent.value > 1:
            first = If(EQ(stmt.var, stmt.start), maker.fill(Scope(), buffer))
            return replace(stmt, body=Seq.of(first, stmt.body))
        return replace(stmt, body=_filled(stmt.body, buffer, maker, how))
    return Seq.of(maker.fill(Scope(), buffer), stmt) if _uses(stmt, buffer) else stmt


def _uses(stmt: Stmt, buffer: Buffer) -> bool:
    return any(getattr(node, "buffer", None) is buffer for node in walk(stmt))
