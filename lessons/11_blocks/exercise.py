"""Exercise 11: a tile with its signature.

Write `in_tiles(m, n, k, t)`, which returns a program for C = A @ B,

    @T.prim_func
    def product(A: T.Buffer((m, k), "float32"), B: T.Buffer((k, n), "float32"), C: T.Buffer((m, n), "float32")):

whose computation is in a block "tile". t divides m, n and k. One run of the block multiplies a t x t tile of A by a t x
t tile of B and adds the result to a tile of C. So

    1. the block has three iterators, of m // t, n // t and k // t values, and of the right kinds,
    2. `T.reads` and `T.writes` declare exactly the tiles that one run touches,
    3. its init sets the tile of C to 0 and runs once for each tile of C; nothing outside of "tile" writes C,
    4. and in its body a block "step" inside three loops of extent t, in any order, does the multiplications; the three
       iterators of "step" have the kinds S, S and R, in this order: row, column and sum.

What you need:

    with T.block("tile"):                             vi, vj, vr = T.axis.remap("SSR", [i, j, r])
    T.reads(A[low : high, low : high], B[...])        T.writes(C[low : high, low : high])
    with T.init(): ...                                it may contain loops and blocks, too

The block "step" has no init, because it adds to a sum that another block has started. "tile" declares that it writes C.
It need not declare that it reads C, because every block with an init and an iterator of kind R reads the elements that
it writes.

Check it with: minitvm lesson 11 --check
"""

from __future__ import annotations

from minitvm.script import tir as T  # noqa: F401  (what you will need)
from minitvm.tir import PrimFunc


def in_tiles(m: int, n: int, k: int, t: int) -> PrimFunc:
    """C = A @ B by a block "tile" of t x t x t."""
    raise NotImplementedError("in_tiles(m, n, k, t): the text at the top describes the task")
