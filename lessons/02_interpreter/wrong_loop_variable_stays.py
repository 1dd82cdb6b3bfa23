"""Wrong: writes the loop variable into the dictionary that it was given, and leaves it there."""

from __future__ import annotations

import numpy as np

from lessons.values import place, value
from minitvm.errors import Unsupported
from minitvm.expr import Var
from minitvm.tir.nodes import Buffer, BufferStore, For, Seq, Stmt


def run(stmt: Stmt, variables: dict[Var, int], arrays: dict[Buffer, np.ndarray]) -> None:
    """Execute the statement."""
    if isinstance(stmt, BufferStore):
        where = place(stmt.buffer, stmt.indices, variables, arrays)
        arrays[stmt.buffer][where] = value(stmt.value, variables, arrays)
    elif isinstance(stmt, Seq):
        for each in stmt.stmts:
            run(each, variables, arrays)
    elif isinstance(stmt, For):
        start = int(value(stmt.start, variables, arrays))
        extent = int(value(stmt.extent, variables, arrays))
        for i in range(start, start + extent):
            variables[stmt.var] = i
            run(stmt.body, variables, arrays)
    else:
        raise Unsupported(f"this interpreter does not know {type(stmt).__name__}")
