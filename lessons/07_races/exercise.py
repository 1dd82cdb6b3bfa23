"""Exercise 07: find a race.

Somebody ran a nest of loops, serially, and wrote down who touched what. Write

    race(kinds, accesses)

`kinds` are the kinds of the loops, outermost first: "serial", "parallel", "vectorized" or "unrolled". `accesses` is a
list, in the order in which they happened, of tuples

    (iteration, verb, element)     ((0, 2), "write", "A[3]"): in the iteration i = 0, j = 2, A[3] was written

where the verb is "read" or "write"; an iteration may have several accesses, and A[1] and A[10] are two elements.
Return the positions (p, q) in the list, p < q, of two accesses that race, any two; or None when no two do.

Two accesses race when they touch the same element, at least one of them writes, and nothing orders them. The outermost
loop in which their iterations differ decides: a serial or an unrolled loop orders them, a parallel or a vectorized one
does not. Within one iteration, all is ordered; without any loop (kinds is ()) there is one iteration.

    race(("parallel",), [((0,), "write", "A[1]"), ((1,), "read", "A[1]")])   ->   (0, 1)
    race(("serial",),   [((0,), "write", "A[1]"), ((1,), "read", "A[1]")])   ->   None

Check it with: minitvm lesson 07 --check
"""

from __future__ import annotations

Access = tuple[tuple[int, ...], str, str]


def race(kinds: tuple[str, ...], accesses: list[Access]) -> tuple[int, int] | None:
    """The positions of two accesses that race; None when there are none."""
    raise NotImplementedError("race(kinds, accesses): the text at the top says what is wanted")
