"""Exercise 12: draw legal schedules that find bugs.

`extents` has the extents of nested loops, from the outermost to the innermost: [4, 6] is a loop of 4 iterations around
a loop of 6. A schedule is a list of steps. The loops are numbered from 0, as they are after the steps before. There are
three kinds of step:

    ("split", k, factor)    loop k, of extent e, becomes two loops: the outer one has extent e // factor, and the inner
                            one has extent `factor`. `factor` must divide e
    ("fuse", k)             the loops k and k + 1 become one loop, whose extent is the product of theirs
    ("swap", k)             the loops k and k + 1 change places

Complete the strategy

    schedules(extents)      draws lists of 0 to 6 steps, and each step is legal when its turn comes

With `draw(strategy)` you get a value from another strategy. You need two of them: `st.integers(low, high)` draws a
number from low to high, both included, and `st.sampled_from(values)` draws one of the values of a list.

The check applies your schedules to a small compiler with eight different bugs, one at a time. It draws 200 schedules
for each of the nests [8], [4, 6] and [2, 3, 4], and among these, at least one must expose each bug. For example, one of
the bugs is in splits whose factor is the whole extent of the loop.

    schedules([4, 6])  may draw  [("split", 1, 3), ("fuse", 0), ("swap", 0)]     extents: 4 2 3, then 8 3, then 3 8
                       but not   [("fuse", 0), ("swap", 0)]                      the nest has only one loop after `fuse`

Check it with: minitvm lesson 12 --check
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

Step = tuple[Any, ...]


@st.composite
def schedules(draw: Callable[..., Any], extents: list[int]) -> list[Step]:
    """Draws up to six legal steps for loops of these extents."""
    loops, steps = list(extents), []
    for _ in range(draw(st.integers(0, 6))):
        raise NotImplementedError("schedules(extents): the text at the top describes the task")
    return steps
