"""Wrong: the tiles of columns are parallel, and the loop around them is not."""

from __future__ import annotations

from minitvm import tir


def template(sch: tir.Schedule) -> None:
    """Schedule the block "C" with a tile whose size is open."""
    i, j, r = sch.get_loops("C")
    i_0, i_1 = sch.split(i, sch.sample_perfect_tile(i, 2, max_innermost_factor=4))
    j_0, j_1 = sch.split(j, sch.sample_perfect_tile(j, 2, max_innermost_factor=16))
    sch.reorder(i_0, j_0, r, i_1, j_1)
    sch.parallel(j_0)
    sch.unroll(i_1)
    sch.vectorize(j_1)
