"""Exercise 20: a memory planner.

`values` is a list of `Live(nbytes, first, last)` (lessons/arenas.py). Such a value has `nbytes` bytes. It is written in
step `first` and read for the last time in step `last`, and it lives in these two steps and in all steps between them.
Two values live at the same time if there is a step in which both live. (A step still needs the values that it reads
while it writes its result.) Steps are whole numbers from 0 up. Do not change `values`. Write

    plan(values) -> list of offsets, one for each value, in the order of `values`

Value number k gets the bytes from offsets[k] to offsets[k] + nbytes of the arena. Two values that live at the same time
must not share a byte. All offsets must be multiples of 64 from 0 up, so that vectors are aligned. The sizes are
multiples of 64 as well.

The size of the arena is the largest end of a value. The lower bound of a network is the largest number of bytes that
live in the same step. On 100 random networks, the sum of your arenas may be at most 1.05 times the sum of the lower
bounds.

    plan([Live(128, 0, 1), Live(64, 1, 2), Live(128, 2, 3)])   ->   [0, 128, 0]

Check it with: minitvm lesson 20 --check
"""

from __future__ import annotations

from lessons.arenas import Live


def plan(values: list[Live]) -> list[int]:
    """An offset for each value."""
    raise NotImplementedError("plan(values): the text at the top describes the task")
