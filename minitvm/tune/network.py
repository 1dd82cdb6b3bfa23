"""Several tasks: where the next batch of measurements goes, and when to stop.

    gain of a batch     weight * seconds of the best * expected improvement: seconds that a run of the model saves
    cost of a batch     the seconds that the task's batches took
    next                the task with the largest gain a second of cost
    stop                no task's gain, times the runs that the model will have, is worth its batch

After Ansor's gradient of end-to-end time (Zheng et al., OSDI 2020). The expected improvement begins at FIRST and is
then the mean of itself and what the last batch brought.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..build import code_target
from ..errors import InputError
from ..records.database import Database
from ..records.record import OK
from ..target import Target
from ..tir import Schedule
from ..tir.nodes import PrimFunc
from ..workers.cores import available_cores
from .measure import Limits, Measuring, Runner
from .prepare import artifacts, checked
from .search import BATCH, Options, Search
from .task import Task, extract

RUNS = 1_000_000  # of the model, that a saving is thought to last for
FIRST = 0.1
_SECONDS = 3.0  # of a batch, before one was timed
_BEGINNING = 0.6  # of the budget, for what a build without records takes


@dataclass(frozen=True, slots=True)
class Status:
    """Where a task is: `number` of `total`, GFLOP/s of the last candidate and of the best, candidates, seconds."""

    number: int
    total: int
    name: str
    current: float
    best: float
    done: int
    planned: int
    seconds: float
    finished: bool

    def __str__(self) -> str:
        """The line that users of AutoTVM know."""
        line = (
            f"[Task {self.number:>2}/{self.total:>2}]  Current/Best: {self.current:7.2f}/{self.best:7.2f} GFLOPS"
            f" | Progress: ({self.done}/{self.planned}) | {self.seconds:.2f} s"
        )
        return f"{line} Done." if self.finished else line


Report = Callable[[Status], None]


@dataclass(slots=True)
class Line:
    """A task in the course of tuning."""

    search: Search
    number: int
    seconds: float = 0.0
    first: float = 0.0  # seconds until the untuned program was measured
    batches: int = 0
    batch_seconds: float = 0.0
    expected: float = FIRST

    @property
    def gain(self) -> float:
        """Seconds a run of the model that another batch should save."""
        best = self.search.best
        return 0.0 if best is None or self.search.finished else self.search.task.weight * best.time * self.expected

    @property
    def cost(self) -> float:
        """Seconds that another batch should take; before the first one, as many as its candidates alone."""
        return self.batch_seconds / self.batches if self.batches else max(_SECONDS, self.first * BATCH / 2)


@dataclass(slots=True)
class Tuned:
    """What came of tuning: a search for each task that began, the number of those that did not for want of time, those
    that cannot be tuned with the reason, how it ended."""

    searches: list[Search] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    waiting: int = 0
    seconds: float = 0.0
    ended: str = ""  # "gain": nothing is worth its cost; "budget", "trials", "interrupted"

    @property
    def untuned_seconds(self) -> float:
        """Of a run of the model without records: the sum over its operators."""
        return sum(s.task.weight * s.baseline for s in self.searches)

    @property
    def tuned_seconds(self) -> float:
        """Of a run of the model with the schedules that won: the sum over its operators."""
        return sum(s.task.weight * s.baseline / (s.best.gain or 1.0) for s in self.searches if s.best is not None)


def tune(
    model: Any,
    target: str | Target = "cpu",
    budget: float | None = None,
    trials: int | None = None,
    db: str | None = None,
    *,
    seed: int = 0,
    report: Report | None = None,
    runs: int = RUNS,
    limits: Limits | None = None,
    workers: str | None = None,
    key: Any = None,
    **options: Any,
) -> Tuned:
    """Tune the operators of a model; what is measured is in the database `db` (default: the user's own) at once.

    Ends after `budget` seconds, after `trials` measured candidates in all, or when nothing is worth its cost: the
    seconds that another batch should save in `runs` runs of the model. Ctrl-C ends it as well. The same call resumes.
    `options` are those of `task.extract`. `report` hears where a task is after each batch. `workers` is the address of
    a farm's scheduler, on whose workers of this target candidates are measured, with `key` as in `farm.client.Farm`.
    Raises `InputError` for a budget or number that is not above 0 and for a farm that cannot be reached or has no
    worker of the target, `ExecutionError` for a farm that goes away, and a `MinitvmError` for a model that does not
    compile.
    """
    if budget is not None and not budget > 0:
        raise InputError(f"budget={budget}: wanted seconds, more than 0")
    if trials is not None and trials < 1:
        raise InputError(f"trials={trials}: wanted a number from 1")
    start = time.monotonic()
    with Database.open(db) as database:
        tasks = extract(model, target, **options)
        measuring = None if workers is None else on_farm(workers, code_target(target), key, limits)
        return tune_tasks(tasks, database, start, budget, trials, seed, report, runs, limits, measuring)


def on_farm(
    address: str, target: Target, key: Any = None, limits: Limits | None = None, security: Any = None
) -> Measuring:
    """Who measures on the workers of a farm; the arguments are those of `farm.client.Farm`."""
    from ..farm.client import Farm
    from .remote import RemoteRunner

    farm = Farm(address, str(target), key, security)
    try:
        return RemoteRunner(farm, limits)
    except BaseException:
        farm.close()
        raise


def tune_func(func: PrimFunc, target: str | Target = "cpu", budget: float | None = 60.0, **options: Any) -> Schedule:
    """Tune one function (level 3, not scheduled) and return the best schedule; the options are those of `tune`."""
    from ..strategy import chosen, decided

    tuned = tune(func, target, budget, **options)
    best = tuned.searches[0].best if tuned.searches else None
    if best is None or best.untuned:
        return chosen(func, Target.of(target)).schedule
    return decided(func, Target.of(target), best.decision).schedule


def tune_tasks(
    tasks: Sequence[Task],
    database: Database,
    start: float,
    budget: float | None = None,
    trials: int | None = None,
    seed: int = 0,
    report: Report | None = None,
    runs: int = RUNS,
    limits: Limits | None = None,
    measuring: Measuring | None = None,
) -> Tuned:
    """`tune` for tasks; `start` is the moment of `time.monotonic` from which the budget counts.

    Candidates run where `measuring` runs them (default: a process on this machine).
    """
    tuned = Tuned()
    end = float("inf") if budget is None else start + budget
    closed = []
    for task in tasks:
        if task.open_sizes:
            tuned.skipped.append((task.name, f"the sizes {', '.join(task.open_sizes)} are open; give --shape"))
        else:
            closed.append(task)
    with measuring or Runner(limits) as runner:
        searches = [Search(task, database, runner, Options(seed=seed)) for task in closed]
        lines = [Line(search, number) for number, search in enumerate(searches, 1)]
        try:
            _begin(lines, runner, end if budget is None else start + budget * _BEGINNING, end, tuned)
            tuned.ended = _batches(lines, runner, end, trials, report, runs)
        except KeyboardInterrupt:
            tuned.ended = "interrupted"
        tuned.searches = [line.search for line in lines if line.search.best is not None]
        tuned.waiting = len(lines) - len(tuned.searches)
        if report is not None:
            for line in lines:
                if line.search.best is not None:
                    report(_status(line, len(lines), trials, finished=True))
    tuned.seconds = time.monotonic() - start
    return tuned


def _begin(lines: Sequence[Line], runner: Measuring, until: float, end: float, tuned: Tuned) -> None:
    """Measure what a build without records takes, the tasks with the most predicted cycles first, some at a time.

    After the moment `until`, and where the next ones might not be ready by the moment `end`, tasks stay as they are.
    The first ones begin in any case.
    """
    order = sorted(lines, key=lambda line: -line.search.task.weight * line.search.space.cheapest)
    at_once = len(available_cores())
    longest = 0.0
    for start in range(0, len(order), at_once):
        began = time.monotonic()
        if start and (began > until or began + longest > end):
            return
        _begin_some(order[start : start + at_once], runner, tuned)
        longest = max(longest, time.monotonic() - began)


def _begin_some(lines: Sequence[Line], runner: Measuring, tuned: Tuned) -> None:
    began = time.monotonic()
    found = checked([(line.search.task, None) for line in lines])
    paths = [runner.folder / f"untuned-{line.number}.mtvm" for line in lines]
    ready = [n for n, one in enumerate(found) if one.outcome == OK]
    made = artifacts([(lines[n].search.task, found[n], paths[n]) for n in ready], runner.key)
    faults = dict(zip(ready, made, strict=True))
    prepared = (time.monotonic() - began) / len(lines)
    for number, (line, one, path) in enumerate(zip(lines, found, paths, strict=True)):
        began = time.monotonic()
        line.search.begin(one, path, faults.get(number, ""))
        line.first = time.monotonic() - began + prepared
        line.seconds += line.first
        if line.search.finished and line.search.best is not None:
            tuned.skipped.append((line.search.task.name, f"{line.search.best.outcome}: {line.search.best.message}"))


def _batches(
    lines: Sequence[Line], runner: Measuring, end: float, trials: int | None, report: Report | None, runs: int
) -> str:
    """Batch after batch, small ones where several tasks wait, none smaller than what runs at once; returns why it
    ended."""
    while True:
        size = max(BATCH if len(lines) == 1 else BATCH // 2, runner.width)
        now, left = time.monotonic(), None if trials is None else trials - sum(line.search.trials for line in lines)
        if left is not None and left <= 0:
            return "trials"
        worth = [line for line in lines if line.gain * runs > line.cost]
        if not worth:
            return "budget" if any(line.search.best is None for line in lines) else "gain"
        line = max(worth, key=lambda line: line.gain / line.cost)
        count = min(size, _fitting(line, size, end - now), size if left is None else left)
        if count < 1:
            return "budget"
        improved = line.search.step(count, lambda: time.monotonic() > end)
        line.seconds += time.monotonic() - now
        line.batch_seconds += time.monotonic() - now
        line.batches += 1
        line.expected = (line.expected + improved) / 2
        if report is not None:
            report(_status(line, len(lines), trials, line.search.finished))


def _fitting(line: Line, size: int, seconds: float) -> int:
    """Of a batch of `size` candidates, how many should be measured after so many seconds."""
    return size if seconds == float("inf") else int(size * seconds / line.cost)


def _status(line: Line, total: int, trials: int | None, finished: bool) -> Status:
    search = line.search
    assert search.best is not None
    current = 0.0 if search.current is None else search.current.gflops
    planned = trials or max(search.trials, search.space.size)
    best = search.flops * (search.best.gain or 1.0) / search.baseline / 1e9 if search.baseline else 0.0
    return Status(line.number, total, search.task.name, current, best, search.trials, planned, line.seconds, finished)
