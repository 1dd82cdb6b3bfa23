"""Exercise 02: an interpreter for three kinds of statement.

Write `run(stmt, variables, arrays)`, which executes a statement. It returns nothing; it changes the arrays.

    BufferStore   buffer[indices] = value       fields: .buffer, .indices, .value
    Seq           statements one by one         field:  .stmts
    For           for var in range(...): body   fields: .var, .start, .extent, .body

A `For` of any kind runs its body with `var` equal to start, start + 1, ..., start + extent - 1, in this order; with an
extent of 0 it does not run at all. `start` and `extent` are expressions; they are evaluated once, before the first
iteration. Leave `variables` as it is: after a loop its variable has the value that it had before, if it had one.

A statement of any other kind must raise `Unsupported(...)` with a text that names its class when it is to be run: an
interpreter that skips unknown statements silently computes wrong results.

`variables` maps each variable in scope to its value, `arrays` maps each buffer to a NumPy array. For expressions, use
(see lessons/values.py):

    value(e, variables, arrays)                  the value of an expression
    place(buffer, indices, variables, arrays)    the index of an element, as NumPy takes it; refuses one out of bounds

Check it with: minitvm lesson 02 --check
"""

from __future__ import annotations

import numpy as np

from lessons.values import place, value  # noqa: F401  (what you will need)
from minitvm.errors import Unsupported  # noqa: F401
from minitvm.expr import Var
from minitvm.tir.nodes import Buffer, BufferStore, For, Seq, Stmt  # noqa: F401


def run(stmt: Stmt, variables: dict[Var, int], arrays: dict[Buffer, np.ndarray]) -> None:
    """Do what the statement says."""
    raise NotImplementedError("run(stmt, variables, arrays): the text at the top says what is wanted")
