"""Pairs of a program and a legal call on it: how they are drawn, and how it is told that each keeps the meaning.

    HYPOTHESIS_PROFILE=ci python -m tests.tir.schedule.pairs [PRIMITIVE ...]    # the table; status 1 below `PAIRS`

Pairs are drawn in chains, each call on what the ones before it made. The last program of a chain is compared with the
first, as loops and lowered to kernels; where they differ, the steps are compared one by one. A pair counts at a level
when the comparison there looked in exact mode and, where there are floats, in field mode.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minitvm.reference import Verdict, check
from minitvm.reference.modes import known_modes
from minitvm.tir.nodes import PrimFunc
from minitvm.tir.schedule import Schedule
from minitvm.tir.schedule.registry import transforms
from minitvm.tir.transform import lower
from minitvm.tir.transform.pipeline import grid_loops

from .property_programs import AT_LEAST, NEW_SIGNATURE, PREPARATION, PROGRAMS

PAIRS = 200  # of each primitive
CHAIN = 6  # calls of one primitive in a row
TRIES = 8  # calls that are not legal, before a step is given up
EXAMPLES = 800  # programs at most: enough for a primitive that is legal on one in six
DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "deep"  # then more than PAIRS
MODES = tuple(name for name in ("exact", "field", "shadow") if name in known_modes())


# What has no kernels on a CPU, and why: these are compared as loops only.
NO_KERNEL = {"bind": "lowering refuses loops of a GPU's grid; the interpreter runs them as threads"}


class _Enough(KeyboardInterrupt):
    """What ends a Hypothesis test at once: it reports any other exception, and asks for the same draws again."""


@dataclass
class Tally:
    """How many pairs of a primitive were judged, as loops and as kernels, and what that took."""

    primitive: str
    loops: int = 0
    kernels: int = 0
    programs: int = 0
    seconds: float = 0.0  # of the processor

    @property
    def pairs(self) -> int:
        """Pairs that were judged at every level at which they mean something."""
        return self.loops if self.primitive in NO_KERNEL else min(self.loops, self.kernels)

    def __str__(self) -> str:
        kernels = NO_KERNEL.get(self.primitive, self.kernels)
        return f"{self.primitive:<24} {self.loops:>6} {self.programs:>9} {self.seconds:>7.1f} s {kernels:>8}"


HEAD = f"{'primitive':<24} {'loops':>6} {'programs':>9} {'time':>9} {'kernels':>8}"


@dataclass(frozen=True)
class Comparison:
    """How two functions differ, empty when they do not, and at which levels all modes that count have looked."""

    difference: str
    loops: bool = False
    kernels: bool = False


def draw_step(sch: Schedule, data: Any, *names: str) -> bool:
    """Take one legal step of the named primitives (of any if none is named); whether there was one."""
    call = sch.draw(lambda n: data.draw(st.integers(0, n - 1)), *names, tries=TRIES)
    if call is not None:
        sch.apply(call)
    return call is not None


def as_loops(before: PrimFunc, after: PrimFunc) -> Comparison:
    """Two functions as they stand."""
    verdict = check(before, after, modes=MODES)
    return Comparison("", loops=_judged(verdict, after)) if verdict else Comparison(f"as loops: {verdict}")


def as_kernels(before: PrimFunc, after: PrimFunc) -> Comparison:
    """A function and the kernels that another is lowered to; nothing is compared where it has none."""
    if any(grid_loops(after)):
        return Comparison("")
    verdict = check(before, lower(after), modes=MODES)
    return Comparison("", kernels=_judged(verdict, after)) if verdict else Comparison(f"lowered: {verdict}")


def compared(before: PrimFunc, after: PrimFunc) -> Comparison:
    """Two functions, as loops and the second lowered."""
    loops = as_loops(before, after)
    if loops.difference:
        return loops
    return replace(as_kernels(before, after), loops=loops.loops)


def _judged(verdict: Verdict, func: PrimFunc) -> bool:
    floats = any(b.dtype.is_float for b in func.buffers)
    return {"exact", *(["field"] if floats else [])} <= set(verdict.ran)


def assert_same(states: list[PrimFunc], sch: Schedule) -> Comparison:
    """All the functions of a chain mean the same; gives at which levels that counts."""
    found = compared(states[0], states[-1])
    if not found.difference:
        return found
    for number, (before, after) in enumerate(itertools.pairwise(states), 1):
        culprit = compared(before, after).difference
        assert not culprit, f"step {number}: {culprit}\n{before.script()}\n{sch.trace}\n{after.script()}"
    raise AssertionError(f"all steps together: {found}\n{states[0].script()}\n{sch.trace}\n{sch.func.script()}")


def assert_kernels(sch: Schedule) -> Comparison:
    """The last function of a chain whose steps were compared one by one means the same when it is lowered."""
    found = as_kernels(sch.func, sch.func)
    assert not found.difference, f"{found.difference}\n{sch.trace}\n{sch.func.script()}"
    return replace(found, loops=True)


def chain_of(sch: Schedule, data: Any, name: str) -> Iterator[PrimFunc]:
    """The function, and what each of up to `CHAIN` calls of a primitive makes of it.

    A call that may change the parameters is compared here, as loops, with parameters in their old layouts.
    """
    yield sch.func
    for _ in range(data.draw(st.integers(2, CHAIN))):
        before = sch.func
        if not draw_step(sch, data, name):
            return
        if name in NEW_SIGNATURE:
            found = as_loops(before, sch.state.comparable.get(sch.func_working_on, sch.func))
            assert not found.difference, f"{found.difference}\n{before.script()}\n{sch.trace}\n{sch.func.script()}"
            if not found.loops:
                return
        yield sch.func


def tally(name: str, programs: Any = None) -> Tally:
    """Draw `PAIRS` pairs of a primitive, compare, and count; fewer where its space has no more.

    Any primitive that is registered will do, one from outside the package too. `programs` is a strategy of functions.
    """
    count, started = Tally(name), time.process_time()
    chosen = PROGRAMS.get(name, PROGRAMS[""]) if programs is None else programs

    @settings(max_examples=max(settings().max_examples, EXAMPLES), suppress_health_check=list(HealthCheck))
    @given(st.data())
    def chains(data: Any) -> None:
        count.programs += 1
        sch = Schedule(data.draw(chosen))
        # Something to work on: nests that are split, reordered and moved already.
        for _ in range(data.draw(st.integers(0, 2)) + AT_LEAST.get(name, 0)):
            draw_step(sch, data, *PREPARATION.get(name, PREPARATION[""]))
        states = list(chain_of(sch, data, name))
        if len(states) == 1:
            return
        found = assert_kernels(sch) if name in NEW_SIGNATURE else assert_same(states, sch)
        count.loops += (len(states) - 1) * found.loops
        count.kernels += (len(states) - 1) * found.kernels
        if count.pairs >= PAIRS and not DEEP:
            raise _Enough

    with contextlib.suppress(_Enough):
        chains()
    count.seconds = time.process_time() - started
    return count


def main(names: Sequence[str]) -> int:
    """Print the table of the named primitives, or of all that change programs; the number that falls short."""
    print(HEAD)
    short = []
    for name in names or [p.name for p in transforms()]:
        count = tally(name)
        print(count, flush=True)
        short += [name] if count.pairs < PAIRS else []
    print(f"fewer than {PAIRS} pairs: {', '.join(short)}" if short else f"{PAIRS} pairs and more of each")
    return 1 if short else 0


if __name__ == "__main__":
    import tests.conftest  # noqa: F401  (the profiles of Hypothesis, and what every test has set)

    sys.exit(main(sys.argv[1:]))
