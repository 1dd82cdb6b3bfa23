"""Wrong: cuts after the first vector, so that most iterations run one by one."""

from __future__ import annotations

from minitvm import tir


def whole_vectors(sch: tir.Schedule, loop: object, factor: int) -> None:
    """Run a loop in whole vectors of `factor` lanes, and the rest one by one."""
    extent = int(sch.get(loop).extent)
    if factor > extent:
        return
    main = sch.loop_partition(loop, [factor])[0] if factor < extent else loop
    _, lanes = sch.split(main, [None, factor])
    sch.vectorize(lanes)
