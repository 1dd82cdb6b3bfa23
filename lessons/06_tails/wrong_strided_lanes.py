"""Wrong: takes iterations far from each other into one vector."""

from __future__ import annotations

from minitvm import tir


def whole_vectors(sch: tir.Schedule, loop: object, factor: int) -> None:
    """Run a loop in whole vectors of `factor` lanes, and the rest one by one."""
    extent = int(sch.get(loop).extent)
    whole = extent // factor * factor
    if not whole:
        return
    main = sch.loop_partition(loop, [whole])[0] if whole < extent else loop
    lanes, inner = sch.split(main, [factor, None])
    sch.reorder(inner, lanes)
    sch.vectorize(lanes)
