"""Wrong: a tile has 1, 2 or 4 rows, never 3."""

from __future__ import annotations

from minitvm import tir


def template(sch: tir.Schedule) -> None:
    """Schedule the block "C" with a tile whose size is open."""
    i, j, r = sch.get_loops("C")
    m = int(sch.get(i).extent)
    c = [d for d in (1, 2, 4) if m % d == 0]
    i_0, i_1 = sch.split(i, [None, sch.sample_categorical(c, [1 / len(c)] * len(c))])
    j_0, j_1 = sch.split(j, sch.sample_perfect_tile(j, 2, max_innermost_factor=16))
    sch.reorder(i_0, j_0, r, i_1, j_1)
    sch.parallel(i_0)
    sch.unroll(i_1)
    sch.vectorize(j_1)
