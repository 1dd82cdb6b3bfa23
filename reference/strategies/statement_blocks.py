"""Kinds of blocks with more than one store: branches, loops and lets inside, views, guards, private copies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from minitvm.expr import And, Cast, DType, Expr, Max, Not, Or, Select, Var, binary, call, const
from minitvm.tir.nodes import (
    Assert,
    Buffer,
    BufferRegion,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    If,
    LetStmt,
    MatchBufferRegion,
    Seq,
    Stmt,
    While,
)

from .blocks import Body, Program, nest_of, region
from .expressions import Draw, exprs

COUNT = 3  # iterations of a loop inside a block, at most


@dataclass(frozen=True, slots=True)
class _Code:
    """The context for drawing statements: buffers to store to and to read, and integers in scope."""

    draw: Draw
    program: Program
    place: tuple[Expr, ...]
    targets: Sequence[Buffer]  # written at `place`, all of them once at first
    source: Buffer
    integers: Sequence[Expr]
    counter: Buffer
    depth: int = 2

    def loads(self) -> list[Expr]:
        return [b[self.place] for b in (self.source, *self.targets)]

    def condition(self) -> Expr:
        """Draw a condition on values that the surrounding statements change, or on indices."""
        low = 0 if self.program.dtype.startswith("u") else -3
        return self.draw(exprs([*self.loads(), *self.integers], "bool", 2, constants=(low, 3)))

    def value(self) -> Expr:
        """Draw a value that grows slowly, even if it is stored repeatedly."""
        load, other = self.draw(st.sampled_from(self.loads())), self.draw(st.sampled_from(self.loads()))
        c = const(self.program.constant(self.draw, -3, 3), self.program.dtype)
        kind = self.draw(st.sampled_from(["+ c", "max", "+", "where", "* 2", "index"]))
        if kind == "index":
            return load + Cast(DType(self.program.dtype), self.draw(st.sampled_from(list(self.integers))))
        return {
            "+ c": lambda: load + c, "max": lambda: binary(Max, load, c), "+": lambda: load + other,
            "where": lambda: Select(load < other, other, c), "* 2": lambda: load * const(2, load.dtype),
        }[kind]()  # fmt: skip

    def store(self) -> Stmt:
        return BufferStore(self.draw(st.sampled_from(list(self.targets))), self.value(), self.place)

    def several(self, most: int = 3) -> Stmt:
        return Seq.of(*(self.statement() for _ in range(self.draw(st.integers(1, most)))))

    def statement(self) -> Stmt:
        """Draw a store, or a branch, loop, let or assertion around some."""
        kinds = ["store", "store", "if", "if", "for", "let", "while", "assert"] if self.depth else ["store"]
        kind = self.draw(st.sampled_from(kinds))
        inner = replace(self, depth=self.depth - 1)
        if kind == "if":
            condition, then = self.condition(), inner.several()
            return If(condition, then, inner.several(2) if self.draw(st.booleans()) else None)
        if kind == "for":
            loop = Var(f"z{self.depth}")
            kinds_of_loop = [ForKind.SERIAL, ForKind.UNROLLED]
            extent = const(self.draw(st.sampled_from([2, 1, COUNT, 0])))
            inner = replace(inner, integers=[*self.integers, loop])
            return For(loop, const(0), extent, self.draw(st.sampled_from(kinds_of_loop)), inner.several(2))
        if kind == "let":
            value = self.draw(st.sampled_from([Cast(DType("int32"), i) for i in self.integers])) * 2 + 1
            variable = Var(f"t{self.depth}")
            return LetStmt(variable, value, replace(inner, integers=[*self.integers, variable]).several(2))
        if kind == "while":
            return self._while(inner)
        if kind == "assert":
            holds = self.integers[0] >= const(0, self.integers[0].dtype)
            return Seq((Assert(holds, "an iterator is below zero"), self.store()))
        return self.store()

    def _while(self, inner: _Code) -> Stmt:
        """Draw a loop of at most COUNT iterations, while a condition holds that the body may change."""
        count = (const(0),)
        start, step = (BufferStore(self.counter, e, count) for e in (const(0), self.counter[count] + 1))
        goes_on = And(self.counter[count] < self.draw(st.integers(1, COUNT)), self.condition())
        body = replace(inner, depth=0).several(2)
        return Seq((start, While(goes_on, Seq.of(body, step)), Evaluate(self.counter[count])))


def code(draw: Draw, program: Program, source: Buffer) -> None:
    """Add random statements on one or two results: loops, lets, and branches whose statements change the condition."""
    targets = [program.output(source.shape) for _ in range(draw(st.integers(1, 2)))]
    number = len(program.blocks)

    def body(*v: Expr) -> Body:
        counter = Buffer(f"n{number}", (const(1),), DType("int32"), scope="local")
        drawing = _Code(draw, program, v, targets, source, v, counter)
        first = [BufferStore(t, source[v] if k == 0 else targets[0][v] + source[v], v) for k, t in enumerate(targets)]
        stmt = Seq.of(*first, drawing.several(), drawing.store())
        reads = [region(b, *v) for b in (source, *targets)]
        own = any(isinstance(node, While) for node in _statements(stmt))
        return Body(stmt, reads, [region(t, *v) for t in targets], alloc_buffers=(counter,) if own else ())

    nest_of(program, targets[0].name, source.shape, "S" * source.ndim, body)


def _statements(stmt: Stmt) -> list[Stmt]:
    parts: list[Stmt] = [stmt]
    for one in parts:
        if isinstance(one, Seq):
            parts += one.stmts
        elif isinstance(one, If):
            parts += [one.then_case, *([one.else_case] if one.else_case is not None else [])]
        elif isinstance(one, For | LetStmt | While):
            parts.append(one.body)
    return parts


def guarded(draw: Draw, program: Program, source: Buffer) -> None:
    """Add out = a neighbour if it exists and is large (`and`), or if it does not exist (`or`); else the element."""
    output, c = program.output(source.shape), program.constant(draw, -2, 2)
    ahead, choice = draw(st.booleans()), draw(st.sampled_from(["and", "or", "not and", "nested"]))
    length = source.shape[0]

    def body(i: Expr, *rest: Expr) -> Body:
        neighbour = source[(i + 1 if ahead else i - 1, *rest)]
        inside = i + 1 < length if ahead else i >= const(1, i.dtype)
        own, limit = source[(i, *rest)], const(c, program.dtype)
        both = And(inside, neighbour > limit)
        if choice == "and":
            value = call("if_then_else", both, neighbour, own)
        elif choice == "or":
            value = call("if_then_else", Or(Not(inside), neighbour < limit), own, own + neighbour_or(inside, neighbour))
        elif choice == "not and":
            value = call("if_then_else", Not(both), own, neighbour)
        else:
            value = call("if_then_else", inside, call("if_then_else", neighbour > own, neighbour, limit), own)
        whole = (const(0, length.dtype), length)
        reads = [region(source, whole, *rest)]
        return Body(BufferStore(output, value, (i, *rest)), reads, [region(output, i, *rest)])

    def neighbour_or(inside: Expr, neighbour: Expr) -> Expr:
        return call("if_then_else", inside, neighbour, const(1, program.dtype))

    nest_of(program, output.name, source.shape, "S" * source.ndim, body)


def masked(draw: Draw, program: Program, source: Buffer) -> None:
    """Add stores under a condition on the last loop, next to stores without one, to one buffer or to two."""
    first = program.output(source.shape)
    second = program.output(source.shape) if draw(st.booleans()) else first
    limit, turned = draw(st.integers(0, 5)), draw(st.booleans())
    order = draw(st.permutations(range(3)))

    def body(*v: Expr) -> Body:
        at = v[-1]
        inside = at >= const(limit, at.dtype) if turned else at < const(limit, at.dtype)
        value = source[v]
        after = first[v] + const(1, program.dtype)
        some: list[Stmt] = [
            If(inside, BufferStore(first, after, v)),
            BufferStore(second, value if second is not first else first[v] + value, v),
            If(inside, BufferStore(second, first[v], v), BufferStore(first, value * const(2, program.dtype), v)),
        ]
        start = [BufferStore(b, value, v) for b in dict.fromkeys((first, second))]
        buffers = list(dict.fromkeys((source, first, second)))
        return Body(Seq((*start, *(some[k] for k in order))), [region(b, *v) for b in buffers],
                    [region(b, *v) for b in buffers if b is not source])  # fmt: skip

    nest_of(program, first.name, source.shape, "S" * source.ndim, body)


def view(draw: Draw, program: Program, source: Buffer) -> None:
    """Add a copy row by row through matched buffers of one or two dimensions, forward or backward."""
    rows, columns = source.shape
    output, flat, c = program.output(source.shape), draw(st.booleans()), program.constant(draw, -2, 2)
    number = len(program.blocks)

    def body(i: Expr) -> Body:
        whole: Any = (const(0, columns.dtype), columns)
        shape = (columns,) if flat else (const(1), columns)
        views = [Buffer(f"{n}{number}", shape, source.dtype) for n in "VW"]
        regions: list[BufferRegion] = [region(b, i, whole) for b in (source, output)]
        matches = [MatchBufferRegion(v, r) for v, r in zip(views, regions, strict=True)]
        z = Var("z", columns.dtype)
        place = (z,) if flat else (const(0), z)
        stmt = BufferStore(views[1], views[0][place] + const(c, program.dtype), place)
        loop = For(z, const(0, z.dtype), columns, ForKind.SERIAL, stmt)
        return Body(loop, [regions[0]], [regions[1]], match_buffers=matches)

    nest_of(program, output.name, [rows], "S", body)


STATEMENTS = {"code": code, "guarded": guarded, "masked": masked, "view": view}
