"""Exercise 06: whole vectors first, then the rest.

Write

    whole_vectors(sch, loop, factor)

It changes the schedule `sch` so that as many iterations of `loop` as possible run in vectors of `factor` lanes, and the
remaining iterations run one by one after them. There must be no condition anywhere. For a loop of 10 iterations and
factor 4, the result is

    for i0_0, i0_1 in (2, vectorised 4): ...     8 iterations in whole vectors
    for i1 in (8, 10): ...                       2 iterations, one by one

`factor` is at least 2. If it divides the extent, nothing is left over. If it is larger than the extent, there is not
even one whole vector, and the loop stays as it is. The loop starts at 0 and is serial. The iterations must stay in
their order, each vector must contain `factor` consecutive iterations, and all loops except the vectorised one must be
serial.

    int(sch.get(loop).extent)                        how many iterations the loop has
    first, second = sch.loop_partition(loop, [8])    two loops: one of the first 8 iterations, and one of the others
    outer, inner = sch.split(loop, [None, 4])        adds a condition if 4 does not divide the extent
    sch.vectorize(inner)

Check it with: minitvm lesson 06 --check
"""

from __future__ import annotations

from minitvm import tir


def whole_vectors(sch: tir.Schedule, loop: object, factor: int) -> None:
    """Run a loop in whole vectors of `factor` lanes, and the rest one by one."""
    raise NotImplementedError("whole_vectors(sch, loop, factor): the text at the top describes the task")
