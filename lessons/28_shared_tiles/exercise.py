"""Exercise 28: how long should the lines of a tile be?

A tile is stored in shared memory. Its rows, here called lines, are `line` elements apart: the element in row r and
column c has the address r * line + c, and it is in bank address % 32. Write

    steps(line, wide, places)
    shortest_line(width, accesses)

`steps` returns the number of steps that the threads of a warp need for their reads. `places` has the (row, column) of
each thread, and there are at most 32 threads. Each thread reads `wide` neighbours in a row, beginning at its place.
`wide` is 1, 2 or 4. `line` and all columns are multiples of `wide`.

- A warp reads at most 32 elements at a time. So the first 32 // wide threads read as one group, then the next 32 //
  wide threads, and so on. A group has all of its elements before the next group begins.
- In one step each bank returns one element, to all threads of the group that read this element.

`shortest_line` returns the best length of the lines. A line holds `width` elements of the tile, but it may be longer
than that. `accesses` lists all reads of the tile, each as (wide, places). Choose the length for which all of these
accesses together take the fewest steps. If several lengths are equally good, return the shortest. A thread that reads
`wide` elements at once needs an address that is a multiple of `wide`. All columns are multiples of `wide`, so the
length must be a multiple of each `wide`, too.

    steps(32, 1, [(0, 0), (1, 0), (2, 0)])     ->   3     one column: all in bank 0
    steps(33, 1, [(0, 0), (1, 0), (2, 0)])     ->   1
    steps(32, 1, [(0, 5), (0, 5), (0, 5)])     ->   1     one element, for three threads
    steps(32, 2, [(0, 0), (1, 0)])             ->   2     banks 0 and 1, twice each
    shortest_line(32, [(1, [(0, 0), (1, 0)])]) ->   33
    shortest_line(32, [(2, [(0, 0), (1, 0)])]) ->   34
    shortest_line(20, [(1, [(0, 0), (1, 0)])]) ->   20    nothing to gain

Check it with: minitvm lesson 28 --check
"""

from __future__ import annotations

Place = tuple[int, int]
Access = tuple[int, list[Place]]


def steps(line: int, wide: int, places: list[Place]) -> int:
    """The number of steps of all reads from a tile whose lines are `line` elements apart."""
    raise NotImplementedError("steps(line, wide, places): the text at the top describes the task")


def shortest_line(width: int, accesses: list[Access]) -> int:
    """The shortest length of at least `width` with the fewest steps."""
    raise NotImplementedError("shortest_line(width, accesses): the text at the top describes the task")
