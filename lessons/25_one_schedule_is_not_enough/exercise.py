"""Exercise 25: how long are a tile's lines?

A tile lies in shared memory, and its lines lie `line` elements apart: the element in row r and column c has the
address r * line + c, and is in bank address % 32. Write

    steps(line, wide, places)
    shortest_line(width, accesses)

`steps` says in how many steps the threads of a warp get what they read. `places` has the (row, column) of each thread,
at most 32. Each thread reads `wide` neighbours in its row, which is 1, 2 or 4: its own place is the first of them.
Both `line` and each column are multiples of `wide`.

- A warp asks for at most 32 elements at a time: 32 // wide threads, in their order, then the next 32 // wide ones. One
  group has all that it asks for before the next one begins.
- In one step each bank hands out one element, to all threads of the group that ask for this element.

`shortest_line` says how far the lines should lie apart. A line holds `width` elements, and may be longer. `accesses`
lists what the threads do with the tile, as (wide, places). Of all lengths for which the steps of all accesses together
are fewest, return the shortest. A thread that reads `wide` elements at once needs an address that is a multiple of
`wide` (columns are): so the length must be a multiple of each `wide`.

    steps(32, 1, [(0, 0), (1, 0), (2, 0)])     ->   3     one column: all in bank 0
    steps(33, 1, [(0, 0), (1, 0), (2, 0)])     ->   1
    steps(32, 1, [(0, 5), (0, 5), (0, 5)])     ->   1     one element, for three threads
    steps(32, 2, [(0, 0), (1, 0)])             ->   2     banks 0 and 1, twice each
    shortest_line(32, [(1, [(0, 0), (1, 0)])]) ->   33
    shortest_line(32, [(2, [(0, 0), (1, 0)])]) ->   34
    shortest_line(20, [(1, [(0, 0), (1, 0)])]) ->   20    nothing to gain

Check it with: minitvm lesson 25 --check
"""

from __future__ import annotations

Place = tuple[int, int]
Access = tuple[int, list[Place]]


def steps(line: int, wide: int, places: list[Place]) -> int:
    """Steps until all threads have what they read of a tile whose lines lie `line` elements apart."""
    raise NotImplementedError("steps(line, wide, places): the text at the top says what is wanted")


def shortest_line(width: int, accesses: list[Access]) -> int:
    """The shortest length of at least `width` with the fewest steps."""
    raise NotImplementedError("shortest_line(width, accesses): the text at the top says what is wanted")
