"""Group the instructions of one module for each context: all loads of one context, then those of the other.

    for v in unroll(2): load inp[v]               for v in unroll(2):
    for v in unroll(2): load wgt[v]        ->         load inp[v]
    for v in unroll(2): gemm acc[v]                   load wgt[v]
                                                  for v in unroll(2): gemm acc[v]

A module runs its instructions in order. On the left, the load of wgt[0] comes after the load of inp[1], which must wait
until the other context no longer needs the old data. So neither context's loads could run ahead.
"""

from __future__ import annotations

from typing import Any

from ....expr import Var, map_children, replace, structural_equal, walk
from ....tir.analysis.scratchpads import is_scratchpad
from ....tir.nodes import Buffer, BufferLoad, BufferStore, For, ForKind, Instruction, PrimFunc, Seq, Stmt
from ....tir.transform.unroll import bind
from ..instruction_set import module_of


def join_contexts(func: PrimFunc) -> PrimFunc:
    """Join neighbouring loops of `inject_virtual_thread` if all instructions in them belong to one module.

    Legal if iterations of the two loops share no memory that one of them writes. Each iteration accesses its own part
    of a scratchpad, which the loop variable selects as the first index.
    """
    return func.with_body(_visit(func.body))


def _visit(stmt: Any) -> Any:
    if not isinstance(stmt, Stmt) or isinstance(stmt, Instruction):
        return stmt
    new = map_children(stmt, _visit)
    if not isinstance(new, Seq):
        return new
    parts: list[Stmt] = []
    for part in new.stmts:
        joined = _joined(parts[-1], part) if parts else None
        parts[-1:] = [joined] if joined is not None else [*parts[-1:], part]
    return Seq.of(*parts)


def _joined(first: Stmt, second: Stmt) -> For | None:
    if not isinstance(first, For) or not isinstance(second, For):
        return None
    alike = structural_equal(first.extent, second.extent) and structural_equal(first.start, second.start)
    if not alike or first.kind is not ForKind.UNROLLED or second.kind is not ForKind.UNROLLED:
        return None
    modules = _modules(first.body) | _modules(second.body)
    if len(modules) != 1 or None in modules or not _apart(first, second):
        return None
    return replace(first, body=Seq.of(first.body, bind(second.body, {second.var: first.var})))


def _modules(stmt: Stmt) -> set[str | None]:
    parts = stmt.stmts if isinstance(stmt, Seq) else (stmt,)
    return {module_of(part.name) if isinstance(part, Instruction) else None for part in parts}


def _apart(first: For, second: For) -> bool:
    """Return whether different iterations of two loops share no memory that one of them writes."""
    one, other = _accesses(first.body), _accesses(second.body)
    for buffer in one.keys() & other.keys():
        accesses = [*one[buffer], *other[buffer]]
        if not any(isinstance(a, BufferStore) for a in accesses):
            continue
        own = all(_named_first(a, first.var) for a in one[buffer]) and all(
            _named_first(a, second.var) for a in other[buffer]
        )
        if not is_scratchpad(buffer.scope) or not own:
            return False
    return True


def _accesses(stmt: Stmt) -> dict[Buffer, list[BufferLoad | BufferStore]]:
    found: dict[Buffer, list[BufferLoad | BufferStore]] = {}
    for node in walk(stmt):
        if isinstance(node, BufferLoad | BufferStore):
            found.setdefault(node.buffer, []).append(node)
    return found


def _named_first(access: BufferLoad | BufferStore, var: Var) -> bool:
    return len(access.indices) > 1 and access.indices[0] is var
