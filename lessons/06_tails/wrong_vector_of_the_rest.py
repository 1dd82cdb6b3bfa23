"""Wrong: makes a vector of the rest, too, with fewer lanes."""

from __future__ import annotations

from minitvm import tir


def whole_vectors(sch: tir.Schedule, loop: object, factor: int) -> None:
    """Run a loop in whole vectors of `factor` lanes, and the rest one by one."""
    extent = int(sch.get(loop).extent)
    whole = extent // factor * factor
    if not whole:
        return
    main, rest = sch.loop_partition(loop, [whole]) if whole < extent else (loop, None)
    _, lanes = sch.split(main, [None, factor])
    sch.vectorize(lanes)
    if extent - whole > 1:
        sch.vectorize(rest)
