"""`T.assume(condition)` is a promise by the author of a program. It is removed from compiled code.

Interpreters check it: if the assumption does not hold, the run fails with an error (`reference.meaning.assumptions`).
"""

from __future__ import annotations

from typing import Any

from ..expr import Call, find, map_children
from .nodes import BlockRealize, Evaluate, For, PrimFunc, Seq, Stmt

ASSUME = "assume"


def is_assumption(node: Any) -> bool:
    """Return whether a statement is `T.assume(condition)`."""
    return isinstance(node, Evaluate) and isinstance(node.value, Call) and node.value.op == ASSUME


def left_out(func: PrimFunc) -> PrimFunc:
    """Remove the assumptions from a function, together with loops and blocks that contain nothing else.

    A function without assumptions is returned unchanged.
    """

    def change(node: Any) -> Any:
        if is_assumption(node):
            return Seq(())
        rebuilt = map_children(node, change)
        if isinstance(rebuilt, Seq):
            return Seq.of(*rebuilt.stmts)
        emptied = rebuilt is not node and isinstance(node, For | BlockRealize) and _is_empty(rebuilt)
        return Seq(()) if emptied else rebuilt

    if not any(map(is_assumption, find(func.body, Evaluate))):
        return func
    return func.with_body(map_children(func.body, change))  # the root block stays, empty or not


def _is_empty(stmt: Stmt) -> bool:
    if isinstance(stmt, Seq):
        return not stmt.stmts
    if isinstance(stmt, BlockRealize):
        return stmt.block.init is None and _is_empty(stmt.block.body)
    return isinstance(stmt, For) and _is_empty(stmt.body)
