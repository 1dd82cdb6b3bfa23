"""Exercise 06: whole vectors first, then the rest.

Write

    whole_vectors(sch, loop, factor)

which changes the schedule `sch` so that as many iterations of `loop` as possible run in vectors of `factor` lanes, and
what is left over runs one by one after them; and nowhere is a condition. For a loop of 10 and factor 4 that is

    for i0_0, i0_1 in (2, vectorised 4): ...     8 iterations in whole vectors
    for i1 in (8, 10): ...                       2 iterations, one by one

`factor` is at least 2. It may divide the extent: then nothing is left over. It may be larger than the extent: then
there is not one whole vector, and the loop stays as it is. The loop starts at 0 and is serial. The iterations stay in
their order, each vector takes `factor` of them that follow each other, and all loops but those of lanes are serial.

    int(sch.get(loop).extent)                        how many iterations the loop has
    first, second = sch.loop_partition(loop, [8])    two loops: of the first 8 iterations, and of the others
    outer, inner = sch.split(loop, [None, 4])        with a condition, where 4 does not divide the extent
    sch.vectorize(inner)

Check it with: minitvm lesson 06 --check
"""

from __future__ import annotations

from minitvm import tir


def whole_vectors(sch: tir.Schedule, loop: object, factor: int) -> None:
    """Run a loop in whole vectors of `factor` lanes, and the rest one by one."""
    raise NotImplementedError("whole_vectors(sch, loop, factor): the text at the top says what is wanted")
