"""Exercise 29: choose a schedule from the description of a machine.

As in the lesson, a block has 8 x 8 threads, and each thread computes a tile of `rows` x `columns` results. The sum is
computed in pieces of 8 steps. In each step a thread uses `rows` elements of A and `columns` elements of B, and does
rows * columns multiply-adds with them. There are two ways to get the elements of a piece:

    nothing shared    the thread loads all of its elements through the cache
    shared tiles      the thread loads an eighth of its elements through the cache and stores them in shared memory.
                      Then it loads all of its elements from shared memory. If shared memory is not `separate`, these
                      stores and loads also go through the cache

Write

    choose(registers, shared_bytes, separate) -> (rows, columns, shared)

which returns the schedule with the fewest accesses through the cache per multiply-add. `rows` and `columns` are numbers
from 1 to 16, and `shared` is True or False. A schedule has to fit into the machine:

- A thread needs rows * columns + rows + columns registers, and it has `registers`, which is at least 3.
- For shared tiles, a block needs shared memory for the elements of a piece: 8 steps with 8 * rows elements of A and
  8 * columns elements of B, of 4 bytes each. There are `shared_bytes` bytes.

If several schedules are equally good, choose the one with the fewest registers; if there are still several, prefer one
that shares nothing, and then the one with the fewest rows.

    choose(255, 65536, True)    ->   (15, 15, True)     255 registers, 1 access for every 60 multiply-adds
    choose(255, 1024, True)     ->   (2, 2, True)       larger tiles do not fit into shared memory
    choose(64, 32768, False)    ->   (7, 7, False)      shared tiles would need more accesses

Check it with: minitvm lesson 29 --check
"""

from __future__ import annotations


def choose(registers: int, shared_bytes: int, separate: bool) -> tuple[int, int, bool]:
    """The rows and columns of a thread's tile, and whether tiles are shared."""
    raise NotImplementedError("choose(registers, shared_bytes, separate): the text at the top describes the task")
