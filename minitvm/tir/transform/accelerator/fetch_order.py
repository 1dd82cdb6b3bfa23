"""Loops around instructions are written out: the machine fetches instructions one behind the other and has no jumps.

All loops and conditions around instructions become a sequence, scratchpad storage moves outside of it, and "finish"
stands at the end. A transfer whose loops are more than the two of the machine's becomes several; loops that run on in
both memories count as one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ....errors import Unsupported, report
from ....expr import Expr, IntImm, Var, const, substitute
from ...analysis.scratchpads import extents_of, is_scratchpad
from ...nodes import Allocate, BufferLoad, For, ForKind, If, Instruction, LetStmt, PrimFunc, Seq, Stmt, Tile
from ...script.printer import script
from ...tensor_intrin.accelerator import FINISH, operation_of
from ..affine import linear
from ..unroll import bind

LIMIT = 100_000  # instructions of a program


def fetch_order(func: PrimFunc) -> PrimFunc:
    """The function as a sequence of instructions with constant places; needs flat buffers and folded nests.

    A function without instructions stays as it is. Raises `Unsupported` for a statement that is no instruction, a loop
    of an extent that is not constant, and a program of more than `LIMIT` instructions.
    """
    if not any(_is_ours(s) for s in _statements(func.body)):
        return func
    storage: list[Allocate] = []
    written = list(_written_out(func, func.body, {}, storage))
    if len(written) > LIMIT:
        raise Unsupported(f"{func.name}: {len(written)} instructions, wanted at most {LIMIT}: larger tiles")
    body: Stmt = Seq((*written, Instruction(FINISH, (), Seq(()))))
    for allocation in reversed(storage):
        body = Allocate(allocation.buffer, body, allocation.annotations)
    return func.with_body(body)


def _is_ours(stmt: Stmt) -> bool:
    return isinstance(stmt, Instruction) and operation_of(stmt.name) is not None


def _statements(stmt: Stmt) -> Iterator[Stmt]:
    yield stmt
    if isinstance(stmt, Instruction):
        return
    for name in stmt._children:
        part = getattr(stmt, name)
        for inner in part if isinstance(part, tuple) else (part,):
            if isinstance(inner, Stmt):
                yield from _statements(inner)


def _written_out(
    func: PrimFunc, stmt: Stmt, values: Mapping[Var, Expr], storage: list[Allocate]
) -> Iterator[Instruction]:
    if isinstance(stmt, Seq):
        for part in stmt.stmts:
            yield from _written_out(func, part, values, storage)
    elif isinstance(stmt, Allocate) and is_scratchpad(stmt.buffer.scope):
        if all(a.buffer is not stmt.buffer for a in storage):  # all iterations use the same
            storage.append(stmt)
        yield from _written_out(func, stmt.body, values, storage)
    elif isinstance(stmt, LetStmt):
        yield from _written_out(func, stmt.body, {**values, stmt.var: substitute(stmt.value, dict(values))}, storage)
    elif isinstance(stmt, For) and stmt.kind is not ForKind.THREAD:
        start, extent = (_number(func, stmt, e, values) for e in (stmt.start, stmt.extent))
        for i in range(start, start + extent):
            yield from _written_out(func, stmt.body, {**values, stmt.var: const(i, stmt.var.dtype)}, storage)
    elif isinstance(stmt, If):
        holds = _number(func, stmt, stmt.condition, values)
        taken = stmt.then_case if holds else stmt.else_case
        if taken is not None:
            yield from _written_out(func, taken, values, storage)
    elif isinstance(stmt, Instruction) and _is_ours(stmt):
        yield from _transfers(bind(stmt, dict(values)))
    else:
        raise _refused(func, stmt, "instructions of the accelerator in loops of constant extents", "another statement")


def _number(func: PrimFunc, stmt: Stmt, e: Expr, values: Mapping[Var, Expr]) -> int:
    from ....arith import simplify

    value = simplify(substitute(e, dict(values)))
    if not isinstance(value, IntImm):
        raise _refused(func, stmt, "loops and conditions that are known when the program is written", str(value))
    return value.value


def _refused(func: PrimFunc, stmt: Stmt, wanted: str, found: str) -> Unsupported:
    program = script(func, mark={stmt: "here"}, context=3)
    title, hint = f"{func.name} is no program of the accelerator", "tensorize this block with one of its intrinsics"
    return Unsupported(report(title, program=program, wanted=wanted, found=found, tries=(hint,)))


# --- transfers ------------------------------------------------------------------------------------------------------


def _transfers(stmt: Instruction) -> Iterator[Instruction]:
    """A transfer in pieces of at most two loops, any other instruction as it is."""
    operation = operation_of(stmt.name) or ""
    if not operation.startswith(("load", "store")):
        yield stmt
        return
    extents = extents_of(stmt)
    # A frame is around rows and columns, the last two loops.
    few = all(n == 1 for n in extents[:-2]) if "padded" in operation else _loops_left(stmt) <= 2
    if few:
        yield stmt
        return
    outer = stmt.body
    assert isinstance(outer, For)
    for i in range(extents[0]):
        yield from _transfers(_without_first(stmt, outer, i))


def _without_first(stmt: Instruction, outer: For, i: int) -> Instruction:
    """One iteration of an instruction's first loop."""
    operands: list[Any] = list(stmt.operands[1 : len(extents_of(stmt))])
    for operand in stmt.operands[len(extents_of(stmt)) :]:
        if isinstance(operand, Tile):
            first, along, *others = operand.places
            step = [_value(b) - _value(a) for a, b in zip(first.indices, along.indices, strict=True)]
            operand = Tile(tuple(_shifted(place, [i * s for s in step]) for place in (first, *others)))
        operands.append(operand)
    body = bind(outer.body, {outer.var: const(i, outer.var.dtype)})
    return Instruction(stmt.name, tuple(operands), body, stmt.together)


def _value(index: Expr) -> int:
    form = linear(index)
    assert form.is_const
    return form.const


def _shifted(place: BufferLoad, steps: list[int]) -> BufferLoad:
    indices = tuple(const(_value(i) + s, i.dtype) for i, s in zip(place.indices, steps, strict=True))
    return BufferLoad(place.buffer, indices)


def _loops_left(stmt: Instruction) -> int:
    """How many loops a transfer has, without those of one iteration; loops that run on in both memories are one."""
    extents, left = extents_of(stmt), 0
    inner: tuple[int, list[int]] | None = None
    for k in reversed(range(len(extents))):
        if extents[k] == 1:
            continue
        steps = [_value(t.places[1 + k].indices[0]) - _value(t.places[0].indices[0]) for t in stmt.tiles]
        if inner is not None and steps == [inner[0] * s for s in inner[1]]:
            inner = (inner[0] * extents[k], inner[1])
            continue
        left, inner = left + 1, (extents[k], steps)
    return left
