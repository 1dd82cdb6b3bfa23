"""Exercise 07: find a race.

A nest of loops was run serially, and each access to an element was recorded. Write

    race(kinds, accesses)

`kinds` has the kind of each loop, outermost first: "serial", "parallel", "vectorized" or "unrolled". `accesses` is a
list of all accesses in the order in which they happened. Each access is a tuple

    (iteration, verb, element)     ((0, 2), "write", "A[3]"): in the iteration i = 0, j = 2, A[3] was written

The verb is "read" or "write". An iteration may have several accesses. Note that A[1] and A[10] are two different
elements. Return the positions (p, q) of two accesses in the list that race, with p < q. If several pairs race, return
any of them. If no pair races, return None.

Two accesses race when they touch the same element, at least one of them writes, and nothing orders them. The outermost
loop in which their iterations differ decides whether they are ordered: a serial or an unrolled loop orders them, and a
parallel or a vectorized loop does not. The accesses of one iteration are ordered. If there are no loops at all (kinds
is ()), there is only one iteration.

    race(("parallel",), [((0,), "write", "A[1]"), ((1,), "read", "A[1]")])   ->   (0, 1)
    race(("serial",),   [((0,), "write", "A[1]"), ((1,), "read", "A[1]")])   ->   None

Check it with: minitvm lesson 07 --check
"""

from __future__ import annotations

Access = tuple[tuple[int, ...], str, str]


def race(kinds: tuple[str, ...], accesses: list[Access]) -> tuple[int, int] | None:
    """The positions of two accesses that race; None when there are none."""
    raise NotImplementedError("race(kinds, accesses): the text at the top describes the task")
