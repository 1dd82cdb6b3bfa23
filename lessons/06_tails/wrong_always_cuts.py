"""Wrong: cuts even where there is nothing left over."""

from __future__ import annotations

from minitvm import tir


def whole_vectors(sch: tir.Schedule, loop: object, factor: int) -> None:
    """Run a loop in whole vectors of `factor` lanes, and the rest one by one."""
    extent = int(sch.get(loop).extent)
    if factor > extent:
        return
    main, _ = sch.loop_partition(loop, [extent // factor * factor])
    _, lanes = sch.split(main, [None, factor])
    sch.vectorize(lanes)
