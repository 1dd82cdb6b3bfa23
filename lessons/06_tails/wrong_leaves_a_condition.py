"""Wrong: right in what it computes, but leaves a mask where the factor does not divide the extent."""

from __future__ import annotations

from minitvm import tir


def whole_vectors(sch: tir.Schedule, loop: object, factor: int) -> None:
    """Run a loop in whole vectors of `factor` lanes, and the rest one by one."""
    if factor > int(sch.get(loop).extent):
        return
    _, lanes = sch.split(loop, [None, factor])
    sch.vectorize(lanes)
