"""Unroll the loops around instructions: the machine fetches instructions one after the other and has no jumps.

All loops and conditions around instructions become a sequence, scratchpad storage moves outside of it, and "finish" is
added at the end. An instruction at an edge keeps the iterations in which its guards hold. A transfer with more than the
two loops of the machine becomes several transfers. Loops that are contiguous in both memories count as one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from ....errors import Unsupported, report
from ....expr import Expr, IntImm, Var, const, substitute
from ....tir.analysis.scratchpads import extents_of, is_scratchpad
from ....tir.nodes import Allocate, Buffer, For, ForKind, If, Instruction, LetStmt, PrimFunc, Seq, Stmt
from ....tir.script.printer import script
from ....tir.tensor_intrin import TensorIntrin
from ..instruction_set import FINISH, operation_of
from .copies import Copies
from .iterations import narrowed, number, unguarded, without_unit_loops

LIMIT = 100_000  # instructions of a program
FRAMED = ("_padded", "_least")  # transfers with a frame


def fetch_order(func: PrimFunc) -> PrimFunc:
    """Return the function as a sequence of instructions with constant places. Buffers must be flat and nests folded.

    A function without instructions stays as it is. Raises `Unsupported` for a statement that is not an instruction, for
    a loop whose extent is not constant, and for a program of more than `LIMIT` instructions.
    """
    if not any(_is_ours(s) for s in _statements(func.body)):
        return func
    writer = _InstructionWriter(func)
    written, storage = list(writer.written_out(func.body, {})), writer.storage
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


class _InstructionWriter:
    """Unrolls the instructions of a function. `storage` collects the scratchpad storage that it finds."""

    def __init__(self, func: PrimFunc) -> None:
        self.func = func
        self.storage: list[Allocate] = []
        self.copies: dict[Instruction, Copies] = {}

    def written_out(self, stmt: Stmt, values: Mapping[Var, Expr]) -> Iterator[Instruction]:
        """Yield the instructions of a statement, in the order in which they run."""
        if isinstance(stmt, Seq):
            for part in stmt.stmts:
                yield from self.written_out(part, values)
        elif isinstance(stmt, Allocate) and is_scratchpad(stmt.buffer.scope):
            if all(a.buffer is not stmt.buffer for a in self.storage):  # all iterations use the same
                self.storage.append(stmt)
            yield from self.written_out(stmt.body, values)
        elif isinstance(stmt, LetStmt):
            yield from self.written_out(stmt.body, {**values, stmt.var: substitute(stmt.value, dict(values))})
        elif isinstance(stmt, For) and stmt.kind is not ForKind.THREAD:
            start, extent = (self.known(stmt, e, values) for e in (stmt.start, stmt.extent))
            for i in range(start, start + extent):
                yield from self.written_out(stmt.body, {**values, stmt.var: const(i, stmt.var.dtype)})
        elif isinstance(stmt, If):
            taken = stmt.then_case if self.known(stmt, stmt.condition, values) else stmt.else_case
            if taken is not None:
                yield from self.written_out(taken, values)
        elif isinstance(stmt, Instruction) and _is_ours(stmt):
            if stmt not in self.copies:
                framed = (operation_of(stmt.name) or "").endswith(FRAMED)
                self.copies[stmt] = Copies(without_unit_loops(stmt, 2 if framed else 0))
            left = unguarded(self.copies[stmt].at(values))
            if left is not None:
                yield from _transfers(left)
        else:
            wanted = "instructions of the accelerator in loops of constant extents"
            raise _refused(self.func, stmt, wanted, "another statement")

    def known(self, stmt: Stmt, e: Expr, values: Mapping[Var, Expr]) -> int:
        """Return the value of an expression in a statement. Raises `Unsupported` if it is not constant."""
        from ....arith import simplify

        value = e if isinstance(e, IntImm) else simplify(substitute(e, dict(values)))
        if not isinstance(value, IntImm):
            wanted = "loops and conditions that are known when the program is written"
            raise _refused(self.func, stmt, wanted, str(value))
        return value.value


def _refused(func: PrimFunc, stmt: Stmt, wanted: str, found: str) -> Unsupported:
    program = script(func, mark={stmt: "here"}, context=3)
    title, hint = f"{func.name} is no program of the accelerator", "tensorize this block with one of its intrinsics"
    return Unsupported(report(title, program=program, wanted=wanted, found=found, tries=(hint,)))


# --- transfers ------------------------------------------------------------------------------------------------------


def _transfers(stmt: Instruction) -> Iterator[Instruction]:
    """Yield a transfer in pieces that consist of rows, and any other instruction unchanged."""
    operation = operation_of(stmt.name) or ""
    # A frame is around rows and columns, the last two loops.
    if not operation.startswith(("load", "store")) or _is_rows(stmt, operation.endswith(FRAMED)):
        yield stmt
        return
    extents = extents_of(stmt)
    outer = next(k for k, n in enumerate(extents) if n > 1)
    for i in range(extents[outer]):
        yield from _transfers(narrowed(stmt, [(i, 1) if k == outer else (0, n) for k, n in enumerate(extents)]))


def _is_rows(stmt: Instruction, framed: bool) -> bool:
    """Return whether a transfer has at most two loops, and its elements are consecutive in the scratchpad.

    Loops that are contiguous in both memories count as one. The loops of a frame are the last two.
    """
    extents = extents_of(stmt)
    scratchpad = next(k for k, tile in enumerate(stmt.tiles) if is_scratchpad(tile.buffer.scope))
    loops: list[tuple[int, list[int]]] = []  # the innermost first
    for k in reversed(range(len(extents))):
        steps = [number(t.places[1 + k].indices[0]) - number(t.places[0].indices[0]) for t in stmt.tiles]
        if extents[k] == 1:
            continue
        if loops and not framed and steps == [loops[-1][0] * s for s in loops[-1][1]]:
            loops[-1] = (loops[-1][0] * extents[k], loops[-1][1])
        elif framed and k < len(extents) - 2:
            return False
        else:
            loops.append((extents[k], steps))
    behind = _size(stmt, scratchpad)  # how far behind the first element the next one of a loop is, if all are dense
    for count, steps in loops:
        if steps[scratchpad] != behind:
            return False
        behind *= count
    return len(loops) <= 2


def _size(stmt: Instruction, tile: int) -> int:
    """Return how many numbers an element of a tile has, as given by the intrinsic's description."""
    intrin = TensorIntrin.get(stmt.name)
    assert intrin is not None  # get raises for an unknown name
    buffers = [param for param in intrin.desc.params if isinstance(param, Buffer)]
    return prod(number(extent) for extent in buffers[tile].shape)
