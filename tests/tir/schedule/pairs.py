"""Pairs of a program and a legal call on it: how they are drawn, and how it is told that each keeps the meaning.

Pairs are drawn in chains, each call on what the ones before it made. The last program of a chain is compared with the
first, as loops and lowered to kernels; where they differ, the steps are compared one by one. A pair counts when both
comparisons looked in exact mode and, where there are floats, in field mode.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minitvm.expr import walk
from minitvm.reference import Verdict, check
from minitvm.reference.modes import known_modes
from minitvm.tir.nodes import For, ForKind, IRModule, PrimFunc
from minitvm.tir.schedule import Schedule
from minitvm.tir.transform import lower

from .property_programs import AT_LEAST, NEW_SIGNATURE, PREPARATION, PROGRAMS

PAIRS = 200  # of each primitive
CHAIN = 6  # calls of one primitive in a row
TRIES = 8  # calls that are not legal, before a step is given up
EXAMPLES = 800  # programs at most: enough for a primitive that is legal on one in six
DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "deep"  # then more than PAIRS
MODES = tuple(name for name in ("exact", "field", "shadow") if name in known_modes())


class _Enough(KeyboardInterrupt):
    """What ends a Hypothesis test at once: it reports any other exception, and asks for the same draws again."""


@dataclass(frozen=True)
class Comparison:
    """How two functions differ, empty when they do not, and whether all modes that count have looked."""

    difference: str
    counts: bool = False


def draw_step(sch: Schedule, data: Any, *names: str) -> bool:
    """Take one legal step of the named primitives (of any if none is named); whether there was one."""
    call = sch.draw(lambda n: data.draw(st.integers(0, n - 1)), *names, tries=TRIES)
    if call is not None:
        sch.apply(call)
    return call is not None


def compared(before: PrimFunc, after: PrimFunc) -> Comparison:
    """Two functions, as loops and the second lowered."""
    loops: Verdict | None = None
    if [str(b.shape) for b in before.buffers] != [str(b.shape) for b in after.buffers]:
        before = after  # NEW_SIGNATURE: the schedule has compared the loops already
    else:
        loops = check(before, after, modes=MODES)
        if not loops:
            return Comparison(f"as loops: {loops}")
    if any(isinstance(n, For) and n.kind == ForKind.THREAD for n in walk(after)):
        return Comparison("", _judged(loops, after))  # a GPU's threads: such loops have no kernel on a CPU
    kernels: IRModule = lower(after)
    verdict = check(before, kernels, modes=MODES)
    if not verdict:
        return Comparison(f"lowered: {verdict}")
    return Comparison("", _judged(loops, after) and _judged(verdict, after))


def _judged(verdict: Verdict | None, func: PrimFunc) -> bool:
    floats = any(b.dtype.is_float for b in func.buffers)
    return verdict is None or {"exact", *(["field"] if floats else [])} <= set(verdict.ran)


def assert_same(states: list[PrimFunc], sch: Schedule) -> bool:
    """All the functions of a chain mean the same; gives whether that counts."""
    found = compared(states[0], states[-1])
    if not found.difference:
        return found.counts
    for number, (before, after) in enumerate(itertools.pairwise(states), 1):
        culprit = compared(before, after).difference
        assert not culprit, f"step {number}: {culprit}\n{before.script()}\n{sch.trace}\n{after.script()}"
    raise AssertionError(f"all steps together: {found}\n{states[0].script()}\n{sch.trace}\n{sch.func.script()}")


def pairs_of(name: str, programs: Any = None) -> int:
    """Draw `PAIRS` pairs of a primitive, compare, and give their number; fewer where its space has no more.

    Any primitive that is registered will do, one from outside the package too. `programs` is a strategy of functions.
    """
    counted = 0
    chosen = PROGRAMS.get(name, PROGRAMS[""]) if programs is None else programs

    @settings(max_examples=max(settings().max_examples, EXAMPLES), suppress_health_check=list(HealthCheck))
    @given(st.data())
    def chains(data: Any) -> None:
        nonlocal counted
        sch = Schedule(data.draw(chosen), verify=name in NEW_SIGNATURE)
        # Something to work on: nests that are split, reordered and moved already.
        for _ in range(data.draw(st.integers(0, 2)) + AT_LEAST.get(name, 0)):
            draw_step(sch, data, *PREPARATION.get(name, PREPARATION[""]))
        states = [sch.func]
        for _ in range(data.draw(st.integers(2, CHAIN))):
            if not draw_step(sch, data, name):
                break
            states.append(sch.func)
        if len(states) > 1 and assert_same(states, sch):
            counted += len(states) - 1
        if counted >= PAIRS and not DEEP:
            raise _Enough

    with contextlib.suppress(_Enough):
        chains()
    return counted
