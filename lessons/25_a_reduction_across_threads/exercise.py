"""Exercise 25: plan a tree.

There are n threads, numbered from 0, and n is any number from 1 up. Each thread has one value, in its own element of
shared memory. Write

    levels(n)

It returns the levels of a tree, as a list. Each level is a list of pairs (to, source): the thread `to` adds the element
`source` to its own element `to`. All threads wait between two levels, but they do not wait inside a level. So in one
level, no element may be read by one thread and written by another, and no element may be written twice.

After the last level, element 0 must be the sum of all n values, each of them added exactly once and *in their order*.
To keep this order, a thread may only add an element whose values come directly after its own values. There must be as
few levels as possible, and no unnecessary pair.

    levels(1)   ->   []
    levels(2)   ->   [[(0, 1)]]
    levels(3)   ->   [[(0, 1)], [(0, 2)]]
    levels(4)   ->   [[(0, 1), (2, 3)], [(0, 2)]]

Check it with: minitvm lesson 25 --check
"""

from __future__ import annotations

Level = list[tuple[int, int]]


def levels(n: int) -> list[Level]:
    """The levels of a tree that adds up n elements."""
    raise NotImplementedError("levels(n): the text at the top describes the task")
