"""Exercise 16: a cache with sets and ways that writes back.

`trace` is a list of accesses in order. Each access is a pair: an address in bytes, and True if the access is a store.
Write

    run(trace, sets, ways, line) -> (misses, write_backs)

The number of the line of an address is `address // line`. sets, ways and line are any whole numbers from 1 up. A line
may be stored in only one set, which is the number of the line % sets. A set has room for `ways` lines. At each access

- if the line is in its set, the access is a hit;
- otherwise the access is a miss, whether it is a load or a store. Then the line is fetched. If its set is full, the
  line of the set that was not accessed for the longest time is evicted.

A store changes the line only in the cache. If a line was changed since it was fetched, it is written back to memory
when it is evicted. Count these write-backs. At the end all lines are evicted.

    run([(0, True), (64, False), (4, False), (128, False)], 1, 2, 64)   ->   (3, 1)
        0 misses. 64 misses. 4 hits the line of 0. 128 misses, and the line of 64 is evicted, unchanged. At the end the
        line of 0 is written back.

Check it with: minitvm lesson 16 --check
"""

from __future__ import annotations


def run(trace: list[tuple[int, bool]], sets: int, ways: int, line: int) -> tuple[int, int]:
    """The misses, and the lines that were written back to memory."""
    raise NotImplementedError("run(trace, sets, ways, line): the text at the top describes the task")
