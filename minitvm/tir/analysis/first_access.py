"""Find reads of a buffer that certainly come before all writes, so that they see what was in it before the program."""

from __future__ import annotations

from ... import expr as ex
from ...expr.conditions import certain_parts
from .. import nodes as tir


def read_before_writes(stmt: tir.Stmt, buffer: tir.Buffer) -> ex.Node | None:
    """Return a statement that reads `buffer` before the program writes any element of it, or None.

    The program is followed in order, with each loop in its first iteration, until something touches the buffer. If that
    is a read which no condition can skip, each run that gets there reads what was in the buffer before. If the buffer
    is touched under a condition, or by something else than a load or store, the answer is None: nothing is certain.
    """
    access = _first(stmt, buffer)
    return access if isinstance(access, ex.Node) else None


def _first(stmt: tir.Stmt, buffer: tir.Buffer) -> ex.Node | bool:
    """Return the statement whose read comes first, True if something else may touch the buffer, or else False."""
    if buffer not in _buffers(stmt):
        return False
    if isinstance(stmt, tir.Seq):
        return next((first for part in stmt.stmts if (first := _first(part, buffer)) is not False), False)
    if isinstance(stmt, tir.For | tir.LetStmt | tir.Allocate | tir.While):
        head = [getattr(stmt, name) for name in ("start", "extent", "value", "condition") if hasattr(stmt, name)]
        own = _of_expressions(stmt, head, buffer)
        return own if own is not False or isinstance(stmt, tir.While) else _first(stmt.body, buffer)
    if isinstance(stmt, tir.If):
        own = _of_expressions(stmt, [stmt.condition], buffer)
        return True if own is False else own
    if isinstance(stmt, tir.BlockRealize):
        own = _of_expressions(stmt, [*stmt.iter_values, stmt.predicate], buffer)
        block = stmt.block
        viewed = any(match.source.buffer is buffer for match in block.match_buffers)
        if own is not False or viewed or not isinstance(stmt.predicate, ex.IntImm):
            return True if own is False else own
        return _first(tir.Seq.of(block.init, block.body), buffer)
    if isinstance(stmt, tir.BufferStore):
        parts = [stmt.value, *stmt.indices, *([] if stmt.predicate is None else [stmt.predicate])]
        return _of_expressions(stmt, parts, buffer) or stmt.buffer is buffer
    return True


def _of_expressions(stmt: tir.Stmt, expressions: list[ex.Expr], buffer: tir.Buffer) -> ex.Node | bool:
    """Return `stmt` if the expressions certainly read the buffer, True if they may, and False otherwise."""
    if any(_surely_reads(e, buffer) for e in expressions):
        return stmt
    return any(node.buffer is buffer for e in expressions for node in ex.find(e, tir.BufferLoad | tir.BufferData))


def _surely_reads(node: ex.Node, buffer: tir.Buffer) -> bool:
    if isinstance(node, tir.BufferLoad) and node.buffer is buffer:
        return True
    return any(_surely_reads(part, buffer) for part in certain_parts(node)[0])


def _buffers(stmt: tir.Stmt) -> set[tir.Buffer]:
    return {node.buffer for node in ex.find(stmt, tir.BufferStore | tir.BufferLoad | tir.BufferData | tir.BufferRegion)}
