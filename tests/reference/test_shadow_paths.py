"""Conflicts between iterations, beside their definition: what is kept of past accesses is enough to find the first."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from random import Random
from typing import Any

import numpy as np
import pytest

from minitvm.reference.meaning.findings import Access
from minitvm.reference.meaning.shadow import Concurrent, Iteration, note_read, note_write
from minitvm.reference.meaning.storage import Memory

PARALLEL, THREAD = "parallel", "thread"
Path = tuple[tuple[int, str, int, int], ...]  # of each loop around: execution, kind, iteration, barriers passed before


@dataclass
class Loop:
    """A loop whose iterations are independent; None in the body of a thread loop is a barrier."""

    kind: str
    extent: int
    body: list[Any]


def random_body(random: Random, depth: int, directly: bool = False, inside: bool = False) -> list[Any]:
    """Accesses (is it a write, the only iteration that makes it) and loops.

    Barriers stand `directly` in a loop of threads, and no such loop `inside` another.
    """
    body: list[Any] = []
    for _ in range(random.randint(1, 3)):
        kind = random.choice(["access", "access", "access", "loop", "barrier"])
        if kind == "barrier" and directly:
            body.append(None)
        elif kind == "loop" and depth:
            inner = PARALLEL if inside else random.choice([PARALLEL, THREAD])
            own = inner == THREAD
            body.append(Loop(inner, random.randint(1, 3), random_body(random, depth - 1, own, inside or own)))
        else:
            body.append((random.random() < 0.3, random.choice([None, 0, 1, 2])))
    return body


class Run:
    """The accesses of a program in their order, as the interpreter has them and by the definition."""

    def __init__(self) -> None:
        self.executions = count()
        self.accesses: list[tuple[Iteration | None, Path, bool]] = []

    def body(self, body: list[Any], now: Iteration | None, path: Path) -> None:
        for part in body:
            if isinstance(part, Loop):
                self.loop(part, now, path)
            elif not path or part[1] in (None, path[-1][2]):
                self.accesses.append((now, path, part[0]))

    def loop(self, loop: Loop, now: Iteration | None, path: Path) -> None:
        execution, is_thread = next(self.executions), loop.kind == THREAD
        iterations = [Iteration.inside(now, execution, i, "i", is_thread) for i in range(loop.extent)]
        for phase, part in enumerate(_between_barriers(loop.body)):  # threads go in step from barrier to barrier
            for i in range(loop.extent):
                self.body(part, iterations[i], (*path, (execution, loop.kind, i, phase)))
            iterations = [one.after_barrier() for one in iterations]


def _between_barriers(body: list[Any]) -> list[list[Any]]:
    parts: list[list[Any]] = [[]]
    for part in body:
        if part is None:
            parts.append([])
        else:
            parts[-1].append(part)
    return parts


def concurrent(a: Path, b: Path) -> bool:
    """The definition: where they first differ stands another iteration of one execution, and no barrier between."""
    for (execution, kind, i, phase), (other, _, j, later) in zip(a, b):
        if execution != other:
            return False
        if i != j:
            return kind == PARALLEL or phase == later
        if phase != later:
            return False
    return False


def first_conflict(run: Run) -> int | None:
    """The number of the first access that conflicts with one before it."""
    for k, (_, path, write) in enumerate(run.accesses):
        if any((write or wrote) and concurrent(path, before) for _, before, wrote in run.accesses[:k]):
            return k
    return None


def noticed(run: Run) -> int | None:
    """The number of the access at which the interpreter's record refuses."""
    memory, access = Memory("M", np.zeros(1), "global", None), Access("read", None)
    for k, (now, _, write) in enumerate(run.accesses):
        try:
            if now is not None:
                (note_write if write else note_read)(memory, 0, now, lambda: access)
        except Concurrent:
            return k
    return None


@pytest.mark.alike(most=2)
@pytest.mark.parametrize("part", range(4))
def test_the_first_conflict_is_found_and_no_other(part: int) -> None:
    seen = set()
    for seed in range(3000 * part, 3000 * part + 3000):
        random, run = Random(seed), Run()
        run.body(random_body(random, 3), None, ())
        if len(run.accesses) <= 200:
            wanted = first_conflict(run)
            assert noticed(run) == wanted, (seed, run.accesses)
            seen.add(wanted is None)
    assert seen == {True, False}
