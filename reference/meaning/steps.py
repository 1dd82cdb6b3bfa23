"""Count work in steps, so that a budget ends at the same place on every machine.

A step is about one statement that an interpreter runs for one iteration, or for `POINTS` points of a grid at once. The
interpreters report steps with `spend`, a loop at a time, and `limited` gives a budget to the code inside it. The oracle
never looks at a clock: its results depend only on the programs and the seed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from minitvm.errors import Unsupported
from minitvm.expr import Node, children
from minitvm.tir import nodes as t

POINTS = 256  # of a grid that count as one step: so many take NumPy about as long as a statement takes Python


class OutOfSteps(Unsupported):
    """A run used up its budget."""


class _Meter(threading.local):
    taken: int = 0
    limit: float = float("inf")


_METER = _Meter()


def spend(count: int) -> None:
    """Report steps that are about to be run; raises `OutOfSteps` if they exceed the budget."""
    _METER.taken += count
    if _METER.taken > _METER.limit:
        raise OutOfSteps("the run takes more steps than it was allowed")


def taken() -> int:
    """Return the steps that this thread has run so far; differences give the cost of a run."""
    return _METER.taken


@contextmanager
def limited(count: int) -> Iterator[None]:
    """Limit the steps inside a `with` block, also within an outer limit."""
    outer = _METER.limit
    _METER.limit = min(outer, _METER.taken + count)
    try:
        yield
    finally:
        _METER.limit = outer


def statements(body: Node) -> int:
    """Return the number of statements that one iteration of a loop runs, without inner loops, which are counted
    separately.
    """
    count, rest = 1, [body]
    while rest:
        node = rest.pop()
        count += isinstance(node, t.Stmt)
        if not isinstance(node, t.For | t.While):
            rest.extend(n for n in children(node) if isinstance(n, t.Stmt | t.Block))
    return count
