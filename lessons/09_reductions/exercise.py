"""Exercise 09: a dot product in two steps, by hand.

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

    1. has a block "partial", which computes `lanes` partial sums, the outermost loop around it being the one over the
       lanes. The check will make this loop parallel: no lane may touch what another one writes. No lane takes more than
       ceil(n / lanes) products, and none reads bias,
    2. has another block, which adds them up and does not read A or B,
    3. and puts the sum plus the bias into Y[0], reading bias[0] once.

n and lanes are at least 1; lanes need not divide n, and there may be more lanes than products. A lane without any
product still has a partial sum: 0. The result is right for infinite elements, too.

What you need:

    v = T.axis.spatial(extent, loop)   an iterator of which each value stands for itself
    v = T.axis.reduce(extent, loop)    an iterator over which the block sums up
    T.where(condition)                 the first line of a block: it runs only where this holds
    T.if_then_else(condition, x, y)    x or y; the other one is not evaluated
    T.float32(0)                       a float

A block's init runs in the first step of its reduction. If `T.where` leaves that step out, nothing is started.

Check it with: minitvm lesson 09 --check
"""

from __future__ import annotations

from minitvm.script import tir as T  # noqa: F401  (what you will need)
from minitvm.tir import PrimFunc


def two_steps(n: int, lanes: int) -> PrimFunc:
    """The dot product of length n plus the bias, in so many partial sums."""
    raise NotImplementedError("two_steps(n, lanes): the text at the top says what is wanted")
