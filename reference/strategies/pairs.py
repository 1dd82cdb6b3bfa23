"""Draw pairs of a program and a legal call on it, and check that each call keeps the meaning.

Pairs are drawn in chains: each call acts on the result of the previous ones, with steps of other primitives before and
after, so that primitives are tested together. The last program of a chain is compared with the first, as loops and
lowered to kernels; if they differ, the steps are compared one by one. A pair counts at a level if the comparison there
used the exact mode and, for floats, the field mode; or the bound mode, if neither can compare (as for sums of rescaled
exponentials).
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

from minitvm.errors import ExecutionError, InternalError, Unsupported
from minitvm.reference import Verdict, check
from minitvm.tir.analysis.threads import thread_reduction
from minitvm.tir.nodes import PrimFunc
from minitvm.tir.schedule import Schedule
from minitvm.tir.schedule.calls import PrimitiveCall
from minitvm.tir.transform import lower

from .enough import Enough
from .programs import prim_funcs
from .schedules import Draw, Scheduled

PREPARATION = ("split", "reorder", "fuse", "compute_at", "reverse_compute_at", "cache_read", "annotate")
CHAIN = 6  # calls of one primitive in a row
TRIES = 8  # calls that are not legal, before a step is given up

Level = Callable[[PrimFunc, PrimFunc], Verdict]


@dataclass(slots=True)
class Tally:
    """Counts of the drawn programs, of the legal calls on them, and of the calls that were judged."""

    primitive: str
    programs: int = 0
    calls: int = 0
    loops: int = 0
    kernels: int = 0
    pairs: int = 0  # judged as loops and as kernels


@dataclass(frozen=True, slots=True)
class Judged:
    """The levels at which the programs of a chain were compared in all modes that count."""

    loops: bool
    kernels: bool


def as_loops(before: PrimFunc, after: PrimFunc) -> Verdict:
    """Compare two functions as loops."""
    return check(before, after, shrink=False)


def as_kernels(before: PrimFunc, after: PrimFunc) -> Verdict:
    """Compare a function with the kernels that another one is lowered to."""
    return check(before, lower(after), shrink=False)


class Chain:
    """A schedule, and the programs that it went through.

    The programs are in stretches with the same parameters. A step that changes parameters ends a stretch with its
    result, as a function of the parameters in their old layouts, and begins the next one.
    """

    def __init__(self, func: PrimFunc) -> None:
        self.sch = Schedule(func)
        self.stretches = [[func]]

    def step(self, draw: Draw, *names: str) -> bool:
        """Make one legal step of the named primitives (by default of any); return whether there was one."""
        call = self.sch.draw(lambda n: draw(st.integers(0, n - 1)), *names, tries=TRIES)
        if call is None:
            return False
        self.take(call)
        return True

    def take(self, call: PrimitiveCall) -> None:
        """Make a legal call."""
        sch = self.sch
        sch.apply(call)
        in_old_layouts = sch.state.comparable.get(sch.state.named(None))
        if in_old_layouts is None:
            self.stretches[-1].append(sch.func)
            return
        self.stretches[-1].append(in_old_layouts)
        self.stretches.append([sch.func])

    def compare(self) -> Judged:
        """Check that all programs mean the same; raises `InternalError` with a program and a trace to paste if they do
        not.
        """
        loops = [self._judge(as_loops, stretch) for stretch in self.stretches if len(stretch) > 1]
        return Judged(all(loops), self._lowers() and self._judge(as_kernels, self.stretches[-1]))

    def _lowers(self) -> bool:
        """Return whether the last program can be lowered: some cross-thread reductions cannot."""
        program = self.stretches[-1][-1]
        if thread_reduction(program) is None:
            return True
        try:
            lower(program)
        except Unsupported:
            return False
        return True

    def _judge(self, level: Level, states: Sequence[PrimFunc]) -> bool:
        """Compare the first program with the last (step by step if they differ); return whether all modes that count
        ran.
        """
        verdict = level(states[0], states[-1])
        if verdict:
            floats = any(b.dtype.is_float for b in states[-1].buffers)
            return {"exact", *(["field"] if floats else [])} <= set(verdict.ran) or "bound" in verdict.ran
        before = itertools.takewhile(lambda stretch: stretch is not states, self.stretches)
        first = 1 + sum(len(stretch) - 1 for stretch in before)
        steps = ((k, level(a, b)) for k, (a, b) in enumerate(itertools.pairwise(states), first))
        culprit = next(
            (f"step {k}: {verdict_there}" for k, verdict_there in steps if not verdict_there), f"all steps: {verdict}"
        )
        name = level.__name__.replace("_", " ")
        began = self.stretches[0][0]
        raise InternalError(f"another meaning after {culprit} ({name})\n\n{Scheduled(began, self.sch)}")


def draw_pairs(
    name: str,
    pairs: int,
    *,
    seed: int | None = None,
    programs: st.SearchStrategy[PrimFunc] | None = None,
    preparation: Sequence[str] = PREPARATION,
    at_least: int = 0,
    examples: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Tally:
    """Make legal calls of a primitive on random programs, until `pairs` calls are judged, and compare before and after.

    The primitive may be any registered one, also from outside the package. `programs` is the strategy to draw from (by
    default `prim_funcs`). `preparation` names the primitives for steps before and after, with at least `at_least` steps
    before. At most `examples` programs are drawn, by default four times the number of pairs. With a `seed`, they are
    the same in each run and are not stored; otherwise Hypothesis's profile decides. `progress` is called with the
    number of judged pairs. Raises `InternalError` with the smallest difference found.
    """
    tally = Tally(name)
    drawn = prim_funcs(min_blocks=1) if programs is None else programs

    kept: dict[str, Any] = {} if seed is None else {"database": None}
    differences: list[int] = []

    def _judged_chain(draw: Draw) -> tuple[int, Judged]:
        """Draw a chain; return the number of calls of the primitive in it, and where they were judged."""
        chain = Chain(draw(drawn))
        for _ in range(draw(st.integers(0, 2)) + at_least):
            chain.step(draw, *preparation)
        calls = 0
        for _ in range(draw(st.integers(2, CHAIN))):
            if not chain.step(draw, name):
                break
            calls += 1
        if not calls:
            return 0, Judged(False, False)
        for _ in range(draw(st.integers(0, 2))):
            chain.step(draw, *preparation)
        return calls, chain.compare()

    @settings(
        max_examples=examples or 4 * pairs, deadline=None, report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck), phases=set(Phase) - {Phase.explain}, **kept,
    )  # fmt: skip
    @given(st.data())
    def chains(data: Any) -> None:
        tally.programs += 1
        if progress is not None:
            progress(min(tally.pairs, pairs))
        try:
            calls, judged = _judged_chain(data.draw)
        except (InternalError, ExecutionError):
            differences.append(tally.programs)
            raise
        tally.calls += calls
        tally.loops += calls * judged.loops
        tally.kernels += calls * judged.kernels
        tally.pairs += calls * (judged.loops and judged.kernels)
        # After a difference, Hypothesis looks for a smaller one: programs without a difference must not end that.
        if tally.pairs >= pairs and not differences:
            raise Enough("there are enough")

    with contextlib.suppress(Enough):
        chains() if seed is None else seeded(seed)(chains)()
    return tally
