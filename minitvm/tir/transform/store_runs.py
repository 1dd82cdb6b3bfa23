"""Find runs of stores: stores that directly follow each other in a sequence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...expr import Expr, Node, rewrite
from ..nodes import BufferStore, Instruction, PrimFunc, Seq, Stmt


def with_runs(func: PrimFunc, change: Callable[[Sequence[BufferStore]], Sequence[Stmt]]) -> PrimFunc:
    """Replace each maximal run of stores in a sequence by `change(run)`."""

    def changed(node: Node) -> Any:
        if not isinstance(node, Seq):
            return None
        parts: list[Stmt] = []
        run: list[BufferStore] = []
        for stmt in (*node.stmts, None):
            if isinstance(stmt, BufferStore):
                run.append(stmt)
                continue
            parts += change(run)
            run = []
            if stmt is not None:
                parts.append(stmt)
        return Seq.of(*parts)

    return func.with_body(rewrite(func.body, changed, leave=(Expr, Instruction)))
