"""Divide the steps of a program into tables for the executor, and the steps between them that Python runs.

A loop is a part of a table, which the team runs without Python, unless Python runs a step of its body.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from ....executable import BindSize, CallExternal, CallKernel, Executable, Loop, Step
from ....runtime.steps import Part, Single, Stretch
from .executor import BARRIER, LOOP_BEGIN, LOOP_HEAD, LOOP_NEXT, STEP_WORDS
from .step_table import NativeStep, StepTable, step_table

# The words of a loop in the argument table.
NUMBER, LIMIT, GOING, MOST, DECISION = range(5)
LOOP_WORDS = 5
OVER, ON, BEYOND = range(3)  # values of DECISION: it is over, it goes on, it would go on beyond its bound

LANGUAGE = "numba"  # of the kernels that the team runs


def is_alone(x: Executable, step: Step) -> bool:
    """Return whether Python runs a step: a call of an engine, the binding of a size, or a kernel of another machine."""
    if isinstance(step, CallKernel):
        return x.kernels[step.kernel].language != LANGUAGE
    return isinstance(step, CallExternal | BindSize)


Native: TypeAlias = Callable[[int], NativeStep]
Command: TypeAlias = Callable[[StepTable, Sequence[int]], Stretch]


def segments(
    x: Executable,
    threads: int,
    native: Native,
    args: Callable[[int], int],
    command: Command,
    stamp: Native | None = None,
) -> list[Part]:
    """Return the parts of a program for a team of `threads` threads.

    `native(i)` returns step i for the executor, and `args(i)` the address of its arguments. `command` makes a stretch
    from a table and the numbers of its loops that have a bound. `stamp(i)` returns a step that is inserted before step
    i, and at the end of each table.
    """
    return _Segments(x, threads, native, args, command, stamp).between(0, len(x.steps))


class _Segments:
    def __init__(
        self, x: Executable, threads: int, native: Native, args: Callable[[int], int], command: Command,
        stamp: Native | None,
    ) -> None:  # fmt: skip
        self.x, self.threads, self.native, self.args, self.stamp = x, threads, native, args, stamp
        self.command = command

    def between(self, first: int, last: int) -> list[Part]:
        """Return the parts for the steps from `first` up to `last`."""
        parts: list[Part] = []
        rows: list[NativeStep] = []
        begin = first  # of the table that is being parts

        def close(end: int, before_alone: bool) -> None:
            nonlocal rows
            if rows:
                if self.stamp is not None and (before_alone or end == len(self.x.steps)):
                    rows += [_BARRIER, self.stamp(end)]  # the last step takes until all threads are done
                parts.append(self.table(rows, begin, end))
            rows = []

        at = first
        while at < last:
            step = self.x.steps[at]
            end = at + 1 + step.steps if isinstance(step, Loop) else at + 1
            if any(is_alone(self.x, inner) for inner in self.x.steps[at:end]):
                close(at, before_alone=True)
                parts.append(Single(at, tuple(self.between(at + 1, end))))
                begin = end
            else:
                self.append(rows, at)
            at = end
        close(last, before_alone=False)
        return parts

    def append(self, rows: list[NativeStep], number: int) -> None:
        """Append one step, or a loop with its body, to a table."""
        if self.stamp is not None:
            rows.append(self.stamp(number))
        step = self.x.steps[number]
        if not isinstance(step, Loop):
            rows.append(self.native(number))
            return
        args = self.args(number)
        rows += [_BARRIER, (LOOP_BEGIN, 0, args, 0)]
        head = len(rows)
        rows += [_BARRIER, _BARRIER]  # the second one is replaced by the head, once the end is known
        at = number + 1
        while at < number + 1 + step.steps:
            self.append(rows, at)
            inner = self.x.steps[at]
            at += 1 + (inner.steps if isinstance(inner, Loop) else 0)
        rows += [_BARRIER, (LOOP_NEXT, 0, args, head * STEP_WORDS)]
        rows[head + 1] = (LOOP_HEAD, 0, args, len(rows) * STEP_WORDS)

    def table(self, rows: Sequence[NativeStep], first: int, last: int) -> Stretch:
        end = len(rows) * STEP_WORDS
        complete = [(row[0], end, *row[2:]) if row[0] == LOOP_HEAD else row for row in rows]
        steps = self.x.steps
        bounded = [k for k in range(first, last) if isinstance(loop := steps[k], Loop) and loop.most is not None]
        return self.command(step_table(complete, self.threads), bounded)


_BARRIER = (BARRIER, 0, 0, 0)
