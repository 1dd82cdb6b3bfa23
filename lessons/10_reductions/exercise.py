"""Exercise 10: a dot product in two steps, by hand.

This is one element of our example, without the relu:

    @T.prim_func
    def dot(A: T.Buffer((n,), "float32"), B: T.Buffer((n,), "float32"),
            bias: T.Buffer((1,), "float32"), Y: T.Buffer((1,), "float32")):
        C = T.alloc_buffer((1,), "float32")
        for r in range(n):
            with T.block("C"):
                vr = T.axis.reduce(n, r)
                with T.init():
                    C[0] = T.float32(0)
                C[0] = C[0] + A[vr] * B[vr]
        with T.block("Y"):
            Y[0] = C[0] + bias[0]

Write `two_steps(n, lanes)`, which returns a program with the same four parameters that

    1. has a block "partial", which computes `lanes` partial sums. The outermost loop around it runs over the lanes. The
       check makes this loop parallel, so no lane may touch an element that another lane writes. No lane adds more than
       ceil(n / lanes) products, and no lane reads bias,
    2. has another block, which adds up the partial sums and does not read A or B,
    3. and stores the sum plus the bias in Y[0], and reads bias[0] only once.

n and lanes are at least 1. lanes need not divide n, and there may be more lanes than products. A lane without any
product still has a partial sum, which is 0. The result must also be right if elements are infinite.

What you need:

    v = T.axis.spatial(extent, loop)   a spatial iterator: each of its values has its own result
    v = T.axis.reduce(extent, loop)    a reduction iterator: the block adds up the terms of all its values
    T.where(condition)                 the first line of a block: the block runs only where the condition is true
    T.if_then_else(condition, x, y)    x if the condition is true, otherwise y; the other value is not evaluated
    T.float32(0)                       a float

The init of a block runs in the first step of its reduction. If `T.where` skips that step, the init does not run at all.

Check it with: minitvm lesson 10 --check
"""

from __future__ import annotations

from minitvm.script import tir as T  # noqa: F401  (what you will need)
from minitvm.tir import PrimFunc


def two_steps(n: int, lanes: int) -> PrimFunc:
    """The dot product of length n plus the bias, in `lanes` partial sums."""
    raise NotImplementedError("two_steps(n, lanes): the text at the top describes the task")
