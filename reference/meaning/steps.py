"""Work counted in steps, so that a budget ends at the same place on every machine.

A step is about one statement that an interpreter runs for one iteration, or for `POINTS` points of a grid at once. The
interpreters report steps with `spend`, a loop at a time; `limited` gives whatever runs inside of it a budget. Nothing
of the oracle looks at a clock: what it tries, and so what it says, depends on the programs and the seed alone.
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
    """A run came to the end of its budget."""


class _Meter(threading.local):
    taken: int = 0
    limit: float = float("inf")


_METER = _Meter()


def spend(count: int) -> None:
    """Report steps about to be taken; raises `OutOfSteps` where the budget does not reach that far."""
    _METER.taken += count
    if _METER.taken > _METER.limit:
        raise OutOfSteps("the run takes more steps than it was allowed")


def taken() -> int:
    """The steps that this thread has taken so far; differences of it are what a run costs."""
    return _METER.taken


@contextmanager
def limited(count: int) -> Iterator[None]:
    """A budget for what runs inside, within the one that may be there already."""
    outer = _METER.limit
    _METER.limit = min(outer, _METER.taken + count)
    try:
        yield
    finally:
        _METER.limit = outer


def statements(body: Node) -> int:
    """How many statements one iteration of a loop runs itself: those of inner loops are reported by these."""
    count, rest = 1, [body]
    while rest:
        node = rest.pop()
        count += isinstance(node, t.Stmt)
        if not isinstance(node, t.For | t.While):
            rest.extend(n for n in children(node) if isinstance(n, t.Stmt | t.Block))
    return count
