"""Exercise 31: a template for the micro-kernel of a matrix product.

`sch` is a schedule of Y = relu(A @ B + bias) as two blocks, "C" (loops i, j and the sum r) and "Y". Write

    template(sch)

which schedules the block "C" as follows, whatever the sizes m, n and k are:

    for tiles of rows:                  # parallel
        for tiles of columns:
            for r:                      # the whole sum, one loop
                for rows of a tile:     # unrolled, at most 4
                    for columns:        # vectorized, at most 16
                        C[..] = ..

Leave the number of rows and the number of columns of a tile open: sample both, so that all divisors of m up to 4 and
all divisors of n up to 16 can be drawn. You may schedule "Y" too, or leave it.

A hint: `sch.sample_perfect_tile(loop, 2, max_innermost_factor=...)` draws the two factors of a split.

Check it with: minitvm lesson 31 --check
"""

from __future__ import annotations

from minitvm import tir


def template(sch: tir.Schedule) -> None:
    """Schedule the block "C" with a tile whose size is open."""
    raise NotImplementedError("template(sch): the text at the top says what is wanted")
