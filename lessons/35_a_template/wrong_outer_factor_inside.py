"""Wrong: the first factor is the number of tiles; here it became the size of a tile."""

from __future__ import annotations

from minitvm import tir


def template(sch: tir.Schedule) -> None:
    """Schedule the block "C" with a tile whose size is open."""
    i, j, r = sch.get_loops("C")
    rows_0, rows_1 = sch.sample_perfect_tile(i, 2, max_innermost_factor=4)
    columns_0, columns_1 = sch.sample_perfect_tile(j, 2, max_innermost_factor=16)
    i_0, i_1 = sch.split(i, [rows_1, rows_0])
    j_0, j_1 = sch.split(j, [columns_1, columns_0])
    sch.reorder(i_0, j_0, r, i_1, j_1)
    sch.parallel(i_0)
    sch.unroll(i_1)
    sch.vectorize(j_1)
