"""Exercise 02: an interpreter for three kinds of statement.

Write `run(stmt, variables, arrays)`, which executes a statement. `run` returns nothing; it changes the arrays.

    BufferStore   buffer[indices] = value       fields: .buffer, .indices, .value
    Seq           statements one by one         field:  .stmts
    For           for var in range(...): body   fields: .var, .start, .extent, .body

A `For` of any kind runs its body with `var` equal to start, start + 1, ..., start + extent - 1, in this order. If the
extent is 0, the body does not run at all. `start` and `extent` are expressions, and you evaluate them once, before the
first iteration. Do not change `variables`: after a loop, the loop variable has the same value as before the loop, or no
value if it had no value before.

If `run` reaches a statement of any other kind, it must raise `Unsupported(...)` with a text that names the class of the
statement. An interpreter that silently skipped unknown statements would compute wrong results.

`variables` maps each variable in scope to its value, and `arrays` maps each buffer to a NumPy array. For expressions,
call these two functions of lessons/values.py:

    value(e, variables, arrays)                  the value of an expression
    place(buffer, indices, variables, arrays)    the index of an element for NumPy; refuses an index out of bounds

Check it with: minitvm lesson 02 --check
"""

from __future__ import annotations

import numpy as np

from lessons.values import place, value  # noqa: F401  (what you will need)
from minitvm.errors import Unsupported  # noqa: F401
from minitvm.expr import Var
from minitvm.tir.nodes import Buffer, BufferStore, For, Seq, Stmt  # noqa: F401


def run(stmt: Stmt, variables: dict[Var, int], arrays: dict[Buffer, np.ndarray]) -> None:
    """Execute the statement."""
    raise NotImplementedError("run(stmt, variables, arrays): the text at the top describes the task")
