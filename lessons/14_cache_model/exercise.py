"""Exercise 14: a cache with sets and ways that writes back.

`trace` is a list of accesses in order, each an address in bytes and whether it is a store. Write

    run(trace, sets, ways, line) -> (misses, write_backs)

The line of an address is `address // line`; sets, ways and line are any numbers from 1. It may stand in one set only,
number of the line % sets. A set has room for `ways` lines. At each access

- if the line stands in its set, it is a hit;
- else it is a miss, for a load and for a store alike: the line is fetched, and when the set is full, the line of it
  goes out that was not accessed for longest.

A store changes the line in the cache only. A line that was changed since it was fetched is written back to memory when
it goes out: count that. At the end all lines go out.

    run([(0, True), (64, False), (4, False), (128, False)], 1, 2, 64)   ->   (3, 1)
        0 misses; 64 misses; 4 hits the line of 0; 128 misses, and 64 goes out, unchanged; at the end 0 is written back

Check it with: minitvm lesson 14 --check
"""

from __future__ import annotations


def run(trace: list[tuple[int, bool]], sets: int, ways: int, line: int) -> tuple[int, int]:
    """The misses, and the lines that were written back to memory."""
    raise NotImplementedError("run(trace, sets, ways, line): the text at the top says what is wanted")
