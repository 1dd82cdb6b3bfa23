"""Tell a loop program that a person has scheduled from one that a schedule rule may still change."""

from __future__ import annotations

from ...expr import Var, find
from ..nodes import Block, BlockRealize, For, ForKind, PrimFunc, Stmt
from .tree import sub_statements

SCHEDULED = "tir.is_scheduled"  # TVM's attribute of a function whose schedule is final


def is_scheduled(func: PrimFunc) -> bool:
    """Return whether the loops of a function have been scheduled, so that no rule may change them.

    The attribute "tir.is_scheduled" decides, if the function has it. Otherwise a function is unscheduled if each of its
    blocks has the form that a tensor expression gives it: it is alone in a nest of serial loops without annotations,
    one loop per iterator, in the order of the iterators. A function without blocks is unscheduled too.
    """
    if SCHEDULED in func.attrs:
        return bool(func.attrs[SCHEDULED])
    root = func.body.block.body if isinstance(func.body, BlockRealize) else func.body
    if not any(find(root, Block)):
        return False
    return not _as_written(root, [])


def _as_written(stmt: Stmt, loops: list[Var]) -> bool:
    """Return whether the blocks in a statement, which is inside `loops`, have the form of a tensor expression."""
    if isinstance(stmt, For):
        plain = stmt.kind is ForKind.SERIAL and not stmt.annotations
        return plain and _as_written(stmt.body, [*loops, stmt.var])
    if isinstance(stmt, BlockRealize):
        bound = list(stmt.iter_values)
        alike = len(bound) == len(loops) and all(value is var for value, var in zip(bound, loops, strict=True))
        return alike and not any(find(stmt.block.body, Block))
    if loops:
        return not any(find(stmt, Block))
    return all(_as_written(part, loops) for part in sub_statements(stmt))
