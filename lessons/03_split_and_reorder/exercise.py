"""Exercise 03: split a loop in two.

Write `split(loop, factor)`. Its argument is a serial loop that starts at 0 and has a constant extent n, which may be 0:

    for i in range(n):
        body

It returns two nested loops that run the body for the same values of i, in the same order:

    for i_0 in range(ceil(n / factor)):
        for i_1 in range(factor):
            body, with i_0 * factor + i_1 instead of i

    1. Both loops are serial, and their variables are named after the old variable: i_0 outside, i_1 inside (for a loop
       over row, row_0 and row_1).
    2. If `factor` does not divide n, the last iteration of i_0 would go too far. Then the body is inside one `If`,
       which runs the body only if i_0 * factor + i_1 is less than n.
    3. If `factor` divides n, there is no `If`, because a condition costs time in every iteration.

What you need:

    loop.var, loop.extent, loop.body     the parts of a For; int(loop.extent) is n
    Var("i_0")                           a new variable
    substitute(body, {var: expression})  a new tree: the body with the expression instead of the variable
    If(condition, stmt)                  a statement with a condition; `a < b` on expressions builds a condition
    For(var, const(0), const(n), ForKind.SERIAL, body)

Check it with: minitvm lesson 03 --check
"""

from __future__ import annotations

from minitvm.expr import Var, const, substitute  # noqa: F401  (what you will need)
from minitvm.tir.nodes import For, ForKind, If  # noqa: F401


def split(loop: For, factor: int) -> For:
    """The loop as two loops, the inner one of extent `factor`, with the same meaning."""
    raise NotImplementedError("split(loop, factor): the text at the top describes the task")
