"""Exercise 35: a template for the micro-kernel of a matrix product.

`sch` is a schedule of Y = relu(A @ B + bias). It has two blocks: "C", with the loops i and j and the loop r of the sum,
and "Y". Write

    template(sch)

It schedules the block "C" as follows, for any sizes m, n and k:

    for tiles of rows:                  # parallel
        for tiles of columns:
            for r:                      # the whole sum, one loop
                for rows of a tile:     # unrolled, at most 4
                    for columns:        # vectorized, at most 16
                        C[..] = ..

Leave the number of rows and the number of columns of a tile open. Sample both numbers, so that all divisors of m up to
4 and all divisors of n up to 16 can be drawn. You may schedule "Y" as well, but you need not.

Here is a hint: `sch.sample_perfect_tile(loop, 2, max_innermost_factor=...)` draws the two factors of a split.

Check it with: minitvm lesson 35 --check
"""

from __future__ import annotations

from minitvm import tir


def template(sch: tir.Schedule) -> None:
    """Schedule the block "C" with a tile whose size is open."""
    raise NotImplementedError("template(sch): the text at the top describes the task")
