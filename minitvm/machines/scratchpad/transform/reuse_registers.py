"""Let an ALU operation overwrite its first operand, because the machine has no other form.

    instruction("accel.alu_shr_imm", tile(S), tile(D), 8): D[..] = S[..] >> 8
->
    instruction("accel.alu_shr_imm", tile(S), tile(S), 8): S[..] = S[..] >> 8

S replaces D from there on. That is correct if the old contents of S are not read afterwards, and if both tiles have the
same places.
"""

from __future__ import annotations

from typing import Any

from ....expr import map_children, replace, structural_equal, walk
from ....tir.nodes import Allocate, Buffer, BufferLoad, BufferStore, Instruction, PrimFunc, Seq, Stmt
from ..instruction_set import operation_of


def reuse_registers(func: PrimFunc) -> PrimFunc:
    """Give the result of each ALU operation the storage of its operand. Runs after nests are folded."""
    return func.with_body(_visit(func.body))


def _visit(stmt: Any) -> Any:
    if not isinstance(stmt, Stmt) or isinstance(stmt, Instruction):
        return stmt
    if isinstance(stmt, Allocate):
        buffers, body = [stmt], stmt.body
        while isinstance(body, Allocate):
            buffers.append(body)
            body = body.body
        if isinstance(body, Seq):
            body, gone = _in_sequence(body, [a.buffer for a in buffers])
        else:
            gone = set()
        body = _visit(body)
        for allocation in reversed(buffers):
            body = body if allocation.buffer in gone else replace(allocation, body=body)
        return body
    return map_children(stmt, _visit)


def _in_sequence(seq: Seq, own: list[Buffer]) -> tuple[Seq, set[Buffer]]:
    """Return the statements with fewer buffers, and the buffers that were removed. All accesses of `own` must be among
    the statements.
    """
    parts, gone = list(seq.stmts), set[Buffer]()
    for i in range(len(parts)):
        found = _operands(parts[i])
        if found is None:
            continue
        source, result = found
        free = source in own and result in own and _alike(source, result)
        if free and not any(_touches(p, source) for p in parts[i + 1 :]) and not any(
            _touches(p, result) for p in parts[:i]
        ):  # fmt: skip
            parts = [*parts[:i], *(_moved(p, result, source) for p in parts[i:])]
            gone.add(result)
    return Seq(tuple(parts)), gone


def _operands(stmt: Stmt) -> tuple[Buffer, Buffer] | None:
    """Return the buffers of an ALU operation's first operand and result, if both are used whole and in the same order,
    or None.
    """
    if not isinstance(stmt, Instruction) or not (operation_of(stmt.name) or "").startswith("alu"):
        return None
    source, result = stmt.tiles[0], stmt.tiles[-1]
    if source.buffer is result.buffer:
        return None
    same = all(structural_equal(a.indices, b.indices) for a, b in zip(source.places, result.places, strict=True))
    return (source.buffer, result.buffer) if same else None


def _alike(a: Buffer, b: Buffer) -> bool:
    return a.scope == b.scope and a.dtype == b.dtype and structural_equal(a.shape, b.shape)


def _touches(stmt: Stmt, buffer: Buffer) -> bool:
    return any(isinstance(n, BufferLoad | BufferStore) and n.buffer is buffer for n in walk(stmt))


def _moved(stmt: Stmt, old: Buffer, new: Buffer) -> Stmt:
    def go(node: Any) -> Any:
        fresh = map_children(node, go)
        if isinstance(fresh, BufferLoad | BufferStore) and fresh.buffer is old:
            return replace(fresh, buffer=new)
        return fresh

    moved: Stmt = go(stmt)
    return moved
