"""The search for one task: draft, check, measure, learn.

    draft     rank all known candidates by predicted cycles times the learned residual, without making schedules
    check     schedule and lower the best of them and some random ones; rank them again by their exact counts
    measure   run the best of these, each in turn with the untuned program; a hopeless one is stopped early
    pair      if one seems faster than the best, run the two in turn: only this decides
    learn     fit the residual of measured over predicted again

The untuned program, which a build without records would use, is measured first. Results are compared with its results,
and gains are relative to its time. A machine that also does other work is sometimes slow and sometimes fast, but
equally so for two programs that run in turn.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil
from pathlib import Path

import numpy as np

from ..errors import ScheduleError
from ..records.database import Database
from ..records.lookup import LEAST
from ..records.record import AT_THE_END, CRASHED, IN_NETWORK, MEASURED, OK, PAIRED, REFUSED, Record, undisturbed
from ..strategy import Candidate, Decision, candidate_of
from ..strategy.candidate import Cost
from .measure import LATE, Asked, Measured, Measuring, caches
from .prepare import Checked, artifacts, checked
from .residual import MeasuredCandidate, Residual, boldest
from .space import Space
from .task import Task

BATCH = 6  # candidates that are measured between two fits
CHECKED = 1.25  # lowered for each that is measured: some are refused, or are code that was measured before
SHARES = (0.6, 0.25, 0.15)  # of what is lowered: what rules yield, what is near the best, what is drawn at random
DOUBTFUL = 1.5  # times the shortest predicted time
FASTEST = 250  # candidates among which the most promising ones are looked for, by their predictions
SAMPLES = 32  # points of the space that a draft looks at beside those that rules yield
HOPELESS = 1.5  # times the best: stops after the least runs
PAIRS = 40  # runs of each of a pair
_LONGER = 4  # times the seconds of other measurements: those that decide
_FOREVER = float("inf")
_PRIORS = 500  # records of other tasks and targets that the residual learns from


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a search. `trials` limits the number of measured candidates (None: no limit), and `seed` is the
    random seed.

    `workers` is the number of processes that lower and compile (None: one per core).
    """

    trials: int | None = None
    seed: int = 0
    workers: int | None = None


class Search:
    """The search for one task, with its records and the model learned from them."""

    def __init__(self, task: Task, database: Database, runner: Measuring, options: Options | None = None) -> None:
        self.task, self.database, self.runner, self.options = task, database, runner, options or Options()
        self.space = Space(task)
        self.seen: dict[Decision, Record] = {}
        self.codes: set[str] = set()  # hashes of kernels that were measured: other knobs may come to the same
        self.waiting: dict[Decision, Checked] = {}  # lowered, and not measured yet
        self.baseline = 0.0  # seconds of the untuned program
        self.untuned = Decision("", {})
        self.best: Record | None = None
        self.current: Record | None = None  # measured last
        self.flops = 0
        self.trials = 0
        self.finished = False
        self.residual = Residual()
        self.is_settled = False  # whether the best was compared with the untuned program once more, at the end
        self._best_path: Path | None = None
        self._untuned_path: Path | None = None
        self._generator = np.random.default_rng(options.seed if options else 0)
        self._expected = runner.folder / f"{task.key[:16]}.npz"
        self._numbers = iter(range(1 << 30))

    @cached_property
    def seconds_untuned(self) -> float:
        """The predicted seconds of a build without records."""
        return self.space.cheapest * self.task.seconds_a_cycle

    @property
    def leader(self) -> Record | None:
        """The fastest record of the rules that are searched; None before any candidate ran.

        It differs from `best` if the untuned program comes from another rule and is faster.
        """
        best = self.best
        if best is None or not self.task.rules or best.rule in self.task.rules:
            return best
        ran = [r for r in self.seen.values() if r.rule in self.task.rules and r.outcome in MEASURED]
        return max(ran, key=lambda record: record.gain, default=None)

    # -- the first measurement

    def first(self, path: Path, end: float = _FOREVER) -> Asked:
        """Return the first measurement of a search: the untuned program, compiled at `path`."""
        return Asked(self.task, [path], self._expected, seconds=_LONGER * self.runner.limits.seconds, end=end)

    def begin(self, untuned: Checked, path: Path, measured: Measured, end: float = _FOREVER) -> None:
        """Store the measurement of the untuned program, compiled at `path`, as the first record, and read the known
        records.

        If the untuned program does not run, there are no results to compare with, and the search is finished.
        """
        self.untuned, self.flops = untuned.decision, int(untuned.figures.get("flops", 0))
        self.codes.add(untuned.code)
        for record in self.database.records(self.task.key, self.task.target_key):
            if record.caches != IN_NETWORK:
                self.seen[record.decision] = record
        if measured.outcome == OK:
            self.baseline = min(measured.seconds[0])
            measured = replace(measured, outcome=PAIRED)
        self.best = self._keep(untuned.decision, Cost(*untuned.cost), measured)
        self._best_path = self._untuned_path = path
        self.finished = measured.outcome != PAIRED
        known = self.database.best(self.task.key, self.task.target_key)
        if not self.finished and known is not None and not known.untuned and known.gain >= LEAST:
            self._resume(known.decision, end)

    def _resume(self, decision: Decision, end: float) -> None:
        """Run the best of an earlier session again, in turn with this session's untuned program."""
        (again,) = checked([(self.task, decision)], self.options.workers, end)
        path = self._path()
        fault = self._compiled([(self.task, again, path)], end)[0] if again.outcome == OK else ""
        if again.outcome == OK and not fault:
            self.codes.add(again.code)
            self._pair(decision, Cost(*again.cost), path)

    # -- a batch

    def step(self, count: int = BATCH, end: float = _FOREVER) -> float:
        """Measure up to `count` more candidates; return by which fraction of its time the best became faster.

        It stops at the time `end` (of `time.monotonic`), but always finishes a deciding pair.
        """
        before = self.best.time / (self.best.baseline or 1.0) if self.best else 1.0
        batch = self._batch(count, end)
        compiled = [(self.task, one, self._path()) for one in batch]
        faults = self._compiled(compiled, end)
        ready = []
        for (_, one, path), fault in zip(compiled, faults, strict=True):
            failed = failure(one, fault)
            if failed is None:
                ready.append((one, path))
            elif failed.outcome != LATE:
                self._measured(one, path, failed)

        def asked() -> Iterator[Asked]:
            for _, path in ready:
                if time.monotonic() > end:
                    return
                assert self.best is not None and self._untuned_path is not None
                beside = [path, self._untuned_path]
                yield Asked(self.task, beside, self._expected, HOPELESS / (self.best.gain or 1.0), end=end)

        for number, measured in self.runner.each(asked()):
            if measured.outcome != LATE:
                self._measured(*ready[number], measured)
        if (not batch and time.monotonic() < end) or self._is_out_of_trials:
            self.finished = True
        after = self.best.time / (self.best.baseline or 1.0) if self.best else 1.0
        return max(0.0, 1.0 - after / before)

    @property
    def _is_out_of_trials(self) -> bool:
        return self.options.trials is not None and self.trials >= self.options.trials

    def _batch(self, count: int, end: float) -> list[Checked]:
        """Return the candidates to measure next, already lowered."""
        self._learn()  # also from what other tasks have found out since
        if self.options.trials is not None:
            count = min(count, self.options.trials - self.trials)
        drafted = self.draft(ceil(CHECKED * count))
        for one in checked([(self.task, d) for d in drafted], self.options.workers, end):
            if one.outcome == LATE:
                continue
            if one.outcome != OK:
                self._keep(one.decision, Cost(*one.cost), Measured(one.outcome, (), one.message))
            elif one.code in self.codes:
                self.seen[one.decision] = self._record(
                    one.decision, Cost(*one.cost), Measured(REFUSED, (), "as another")
                )
            else:
                self.codes.add(one.code)
                self.waiting[one.decision] = one
        ready = list(self.waiting.values())
        order = np.argsort(self.predicted([self._point(one.decision, Cost(*one.cost)) for one in ready]))
        return [ready[int(i)] for i in order[:count]]

    def draft(self, count: int) -> list[Decision]:
        """Return the most promising decisions that were not tried yet.

        SHARES says how many come from the rules, from the neighbours of the best, and from random samples, each in the
        order of predicted times; if one source has too few, the others give more. Decisions that are predicted to take
        DOUBTFUL times as long as the most promising one come last.
        """
        sources = [self._ranked(one, count) for one in (self.space.yielded, self._around(), self._samples())]
        first = min((min(times.values()) for times in sources if times), default=0.0)
        likely = [[decision for decision, time in times.items() if time < DOUBTFUL * first] for times in sources]
        taken: dict[Decision, None] = {}
        for source, share in zip(likely, SHARES, strict=True):
            fresh = [decision for decision in source if decision not in taken]
            taken.update(dict.fromkeys(fresh[: round(share * count)]))
        rest = [decision for source in (*likely, *sources) for decision in source]
        return list(dict.fromkeys([*taken, *rest]))[:count]

    def _ranked(self, candidates: Sequence[Candidate], count: int) -> dict[Decision, float]:
        """Return the decisions that were not tried, with their predicted times.

        First come `count` fast ones that differ from each other, and then the others, fastest first.
        """
        fresh = {Decision.of(one): one for one in candidates}
        points = [self._point(d, one.cost) for d, one in fresh.items() if d not in self.seen and d not in self.waiting]
        times = self.predicted(points)
        order = [int(i) for i in np.argsort(times, kind="stable")]
        fastest = order[:FASTEST]
        unknown = self.residual.uncertainty([points[i] for i in fastest])
        bold = [fastest[i] for i in boldest(np.log(times[fastest]), unknown, count)]
        ranked = dict.fromkeys([*bold, *order])
        return {Decision(points[i].rule, points[i].knobs): float(times[i]) for i in ranked}

    def _around(self) -> list[Candidate]:
        """Return the candidates that differ from the best in one knob."""
        leader = self.leader
        if leader is None or not leader.rule:
            return []
        try:
            return list(self.space.nearby(candidate_of(self.task.func, self.task.target, leader.decision)))
        except ScheduleError:
            return []

    def _samples(self) -> list[Candidate]:
        drawn = (self.space.sample(self._generator) for _ in range(SAMPLES))
        return [one for one in drawn if one is not None]

    def _measured(self, one: Checked, path: Path, measured: Measured) -> None:
        """Record the measurement of a candidate, and run it in turn with the best if it seems faster."""
        assert self.best is not None
        self.waiting.pop(one.decision, None)
        self.trials += 1
        baseline = 0.0
        if measured.outcome == OK:
            own, untuned = measured.seconds
            measured, baseline = replace(measured, seconds=(own,)), min(untuned)
            self.baseline = min(self.baseline, baseline)
        record = self._keep(one.decision, Cost(*one.cost), measured, baseline)
        if record.gain > LEAST * self.best.gain:
            self._pair(one.decision, Cost(*one.cost), path)

    def _pair(self, decision: Decision, cost: Cost, path: Path) -> None:
        """Run a candidate in turn with the best; the winner is the new best."""
        assert self.best is not None and self._best_path is not None
        measured = self._in_turn(path, self._best_path)
        if measured.outcome != OK:
            self._keep(decision, cost, measured)
            return
        own, other = measured.seconds
        # Estimate what the untuned program would take now: the best one's time, times the best one's gain.
        gain = self.best.gain or 1.0
        baseline = min(other) * gain
        self.baseline = min(self.baseline, baseline)
        sure = sure_baseline(own, other) * gain
        record = self._keep(decision, cost, Measured(PAIRED, (own,)), sure)
        if is_faster(own, other):
            self.best, self._best_path = record, path
        else:  # what it takes now is what others have to be faster than
            self.best = replace(self.best, seconds=other, baseline=baseline)

    def _in_turn(self, path: Path, other: Path) -> Measured:
        """Run two programs in turn."""
        seconds = _LONGER * self.runner.limits.seconds
        return self.runner.run(self.task, [path, other], self._expected, runs=PAIRS, seconds=seconds)

    # -- the end

    @property
    def is_to_settle(self) -> bool:
        """Return whether the best differs from the untuned program and was not yet confirmed."""
        best = self.best
        return best is not None and not best.untuned and best.gain >= LEAST and not self.is_settled

    def settle(self, own: Sequence[float], untuned: Sequence[float], message: str = "") -> None:
        """Record the seconds of the best and of the untuned program in the network; they decide which of them builds
        use.
        """
        assert self.best is not None
        measured = Measured(PAIRED, (tuple(own),), message)
        record = self._record(self.best.decision, self._cost, measured, sure_baseline(own, untuned))
        self._settled(replace(record, caches=IN_NETWORK))

    def settle_alone(self) -> None:
        """Run the best and the untuned program in turn, outside a network; this decides which of them builds use."""
        assert self.best is not None and self._best_path is not None and self._untuned_path is not None
        measured, sure = self._in_turn(self._best_path, self._untuned_path), 0.0
        if measured.outcome == OK:
            own, untuned = measured.seconds
            measured, sure = Measured(PAIRED, (own,)), sure_baseline(own, untuned)
        record = self._record(self.best.decision, self._cost, measured, sure)
        self._settled(replace(record, caches=record.caches + AT_THE_END))

    @property
    def _cost(self) -> Cost:
        assert self.best is not None
        return Cost(self.best.compute, self.best.memory)

    def _settled(self, record: Record) -> None:
        self.is_settled = True
        self.database.add([record])
        self.best = record if record.outcome == PAIRED and record.gain >= LEAST else self.seen[self.untuned]

    # -- records and what they teach

    def _keep(self, decision: Decision, cost: Cost, measured: Measured, baseline: float = 0.0) -> Record:
        record = self._record(decision, cost, measured, baseline)
        self.database.add([record])
        self.seen[decision] = self.current = record
        return record

    def _record(self, decision: Decision, cost: Cost, measured: Measured, baseline: float = 0.0) -> Record:
        return Record(
            task=self.task.key, target=self.task.target_key, machine=self.task.target.brief, name=self.task.name,
            rule=decision.rule, knobs=dict(decision.knobs), outcome=measured.outcome, message=measured.message,
            seconds=measured.seconds[0] if measured.seconds else (), compute=cost.compute, memory=cost.memory,
            flops=self.flops, untuned=decision == self.untuned, baseline=baseline or self.baseline,
            threads=getattr(self.task.target.description, "cores", 1), caches=caches(self.task), when=time.time(),
        )  # fmt: skip

    def predicted(self, points: Sequence[MeasuredCandidate]) -> np.ndarray:
        """Return the predicted seconds of candidates: the formula's cycles, corrected by the learned residual."""
        cycles = np.array([max(point.cost.cycles, 1.0) for point in points])
        return cycles * self.task.seconds_a_cycle * np.exp(self.residual.predict(points))

    def _point(self, decision: Decision, cost: Cost) -> MeasuredCandidate:
        return MeasuredCandidate(decision.rule, decision.knobs, cost, self.task.key, self.task.target_key)

    def _learn(self) -> None:
        """Fit the residual to this task's records, and while there are few, also to other tasks' records of the same
        rules.
        """
        own = [record for record in self.seen.values() if _teaches(record)]
        known = [*(self._priors() if len(own) < 4 * BATCH else []), *own]
        points = [MeasuredCandidate(r.rule, r.knobs, Cost(r.compute, r.memory), r.task, r.target) for r in known]
        predicted = [max(r.compute + r.memory, 1.0) * self.task.seconds_a_cycle for r in known]
        self.residual.fit(points, [time / cycles for time, cycles in zip(undisturbed(known), predicted, strict=True)])

    def _priors(self) -> list[Record]:
        """Return records of the same rules from other tasks and targets; they help to draft candidates, not to choose
        the best.
        """
        rules = sorted({one.rule for one in self.space.yielded})
        here = self.task.key, self.task.target_key
        others = {(r.task, r.target, r.decision): r for r in self.database.records(rules=rules) if _teaches(r)}
        return [record for (task, target, _), record in others.items() if (task, target) != here][-_PRIORS:]

    def _compiled(self, asked: Sequence[tuple[Task, Checked, Path]], end: float) -> list[str]:
        """Compile candidates for the device on which they run, and return an error text for each, "" for success."""
        return artifacts(asked, self.runner.key, self.options.workers, end, self.runner.architectures)

    def _path(self) -> Path:
        return self.runner.folder / f"{self.task.key[:16]}-{next(self._numbers)}.mtvm"


def _teaches(record: Record) -> bool:
    """Return whether a record has a measured and a predicted time, and comes from runs of the candidate alone."""
    return record.time < float("inf") and record.compute > 0 and record.caches != IN_NETWORK


def sure_gain(own: Sequence[float], other: Sequence[float]) -> float:
    """Return how many times as fast as `other` a program is: the smaller value of the two halves of the runs.

    The fastest runs are compared: a disturbance only makes runs slower, and hardly lasts for half of a pair.
    """
    half = len(own) // 2
    return min(min(other[:half]) / min(own[:half]), min(other[half:]) / min(own[half:]))


def sure_baseline(own: Sequence[float], other: Sequence[float]) -> float:
    """Return the `baseline` for a pair's record, which makes the record's gain equal to `sure_gain`."""
    return min(own) * sure_gain(own, other)


def is_faster(own: Sequence[float], other: Sequence[float]) -> bool:
    """Return whether a program wins a pair: in both halves of the runs."""
    return sure_gain(own, other) > LEAST


def failure(one: Checked, fault: str) -> Measured | None:
    """Return the result for a candidate that cannot be run, with its reason; None if it can."""
    if one.outcome != OK:
        return Measured(one.outcome, (), one.message)
    outcome = LATE if fault == LATE else CRASHED if "died" in fault else REFUSED
    return Measured(outcome, (), fault) if fault else None
