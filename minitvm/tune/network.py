"""Tune several tasks: choose the task that gets the next batch of measurements, and decide when to stop.

    gain of a batch     weight * seconds of the best * expected improvement: seconds that a run of the model saves
    cost of a batch     the seconds that the task's batches took
    next                the task with the largest gain a second of cost
    stop                no task's gain, times the runs that the model will have, is worth its batch
    confirm             the winners have to win once more at the end, in the network if there is one (`confirm.py`)

A task begins when its first batch is due; then its untuned program is measured, and this counts as a part of the cost.
Until then its seconds are predicted by the formulas, times the ratio of measured to predicted seconds of the other
tasks.

It follows Ansor's gradient of end-to-end time (Zheng et al., OSDI 2020). The expected improvement begins at FIRST;
after each batch it becomes the mean of itself and the improvement by that batch.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..build import code_target, to_graph
from ..errors import InputError, ScheduleError, nearest
from ..garbage import collected_seldom
from ..records.database import Database
from ..records.record import MEASURED, OK, Record
from ..strategy.candidate import Knob
from ..target import Target
from ..tir import Schedule
from ..tir.nodes import IRModule, PrimFunc
from ..workers.cores import available_cores
from .algorithms import Won, decide
from .builds import Network
from .confirm import confirm
from .measure import LATE, Limits, Measuring, Runner
from .prepare import artifacts, checked
from .search import BATCH, CHECKED, Options, Search, failure
from .task import Task, extract

RUNS = 1_000_000  # of the model, that a saving is thought to last for
FIRST = 0.1
CONFIRMING = 0.15  # of the budget: for builds of the network in which what won alone is measured again
_ALONE = 0.5  # seconds for an operator's pair at the end, where there is no network
_SECONDS = 3.0  # of a batch, before one was timed


@dataclass(frozen=True, slots=True)
class Status:
    """The progress of a task, for a progress line: it is task `number` of `total`; GFLOP/s of the last candidate and of
    the best, the number of candidates, and seconds.
    """

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
        """Return the progress as a line in the format of AutoTVM."""
        line = (
            f"[Task {self.number:>2}/{self.total:>2}]  Current/Best: {self.current:7.2f}/{self.best:7.2f} GFLOPS"
            f" | Progress: ({self.done}/{self.planned}) | {self.seconds:.2f} s"
        )
        return f"{line} Done." if self.finished else line


Report = Callable[[Status], None]


@dataclass(slots=True)
class Line:
    """A task during tuning; `predicted` is the formulas' prediction of its untuned time, in seconds."""

    search: Search
    number: int
    predicted: float = 0.0
    seconds: float = 0.0
    first: float = 0.0  # seconds until the untuned program was measured
    batches: int = 0
    batch_seconds: float = 0.0
    expected: float = FIRST

    @property
    def has_begun(self) -> bool:
        """Return whether the untuned program was measured."""
        return self.search.best is not None

    @property
    def gain(self) -> float:
        """Return the seconds per run of the model that another batch is expected to save."""
        best = self.search.best
        seconds = self.predicted if best is None else best.time
        return 0.0 if self.search.finished else self.search.task.weight * seconds * self.expected

    @property
    def cost(self) -> float:
        """Return the seconds that another batch should take; before the first batch, a guess from the number of
        candidates.
        """
        return self.batch_seconds / self.batches if self.batches else max(_SECONDS, self.first * BATCH / 2)


@dataclass(slots=True)
class Tuned:
    """The result of tuning.

    `searches` has a search for each task that was begun, and `waiting` counts the tasks for which there was no time.
    `skipped` lists the tasks that cannot be tuned, with the reason. `algorithms` lists the convolution algorithms that
    won. `ended` is the reason why tuning ended.
    """

    searches: list[Search] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    waiting: int = 0
    seconds: float = 0.0
    runs: float = RUNS  # of the model, that savings were weighed with
    algorithms: list[Won] = field(default_factory=list)
    unconfirmed: str = ""  # why what won was not run in the network
    ended: str = ""  # "gain": nothing is worth its cost; "budget", "trials", "interrupted"

    @property
    def untuned_seconds(self) -> float:
        """The seconds that a run of the model takes without records: the sum over its operators."""
        return sum(s.task.weight * s.baseline for s in self.searches)

    @property
    def tuned_seconds(self) -> float:
        """The seconds that a run of the model takes with the schedules that won: the sum over its operators."""
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
    runs: float = RUNS,
    limits: Limits | None = None,
    workers: str | None = None,
    key: Any = None,
    security: Any = None,
    **options: Any,
) -> Tuned:
    """Tune the operators of a model, or one task. Each measurement is stored at once in the database `db` (default:
    your own).

    Tuning ends after `budget` seconds, after `trials` measured candidates in total, or when another batch would cost
    more seconds than it is expected to save in `runs` runs of the model. You can also end it with Ctrl-C. The same call
    then continues. `options` are those of `task.extract`. `report` is called after each batch of a task. `workers` is
    the address of a farm's scheduler: candidates are then measured on its workers of this target, with `key` and
    `security` (Dask's, for TLS) as in `tune.farm.client.Farm`.

    Raises `InputError` for a budget or number that is not above 0, and for a farm that cannot be reached or has no
    worker of the target. Raises `TargetError` if there is no device of the target, `ExecutionError` if the farm goes
    away, and a `MinitvmError` if the model does not compile.
    """
    if budget is not None and not budget > 0:
        raise InputError(f"budget={budget}: wanted seconds, more than 0")
    if trials is not None and trials < 1:
        raise InputError(f"trials={trials}: wanted a number from 1")
    start, machine = time.monotonic(), code_target(target)
    with Database.open(db) as database:
        network, tasks = None, list[Task]()
        if isinstance(model, Task):
            tasks = [model]
        elif isinstance(model, PrimFunc | IRModule):
            tasks = extract(model, machine, **options)
        else:
            accuracy = options.pop("accuracy", "fast")
            network = Network(to_graph(model, **options), machine, accuracy)
        runner = Runner(limits) if workers is None else on_farm(workers, machine, key, limits, security)
        if network is None:
            return tune_tasks(tasks, database, start, budget, trials, seed, report, runs, measuring=runner)
        return tune_network(network, database, start, budget, trials, seed, report, runs, runner)


def tune_network(
    network: Network,
    database: Database,
    start: float,
    budget: float | None = None,
    trials: int | None = None,
    seed: int = 0,
    report: Report | None = None,
    runs: float = RUNS,
    measuring: Measuring | None = None,
    only: str | None = None,
) -> Tuned:
    """Tune a network as `tune` does: first choose the algorithms of its convolutions, then tune the resulting
    operators.

    With `only`, tune nothing but the operator of that name; raises `InputError` if there is none.
    """
    with measuring or Runner() as runner:
        runner.architectures(network.target)  # which says so where there is no such device
        try:
            algorithms = decide(network, database, runner, budget) if only is None else []
        except KeyboardInterrupt:
            return Tuned(seconds=time.monotonic() - start, ended="interrupted")
        network = network.recorded(database)
        tasks = network.tasks() if only is None else named(network.tasks(), only)
        tuned = tune_tasks(
            tasks, database, start, budget, trials, seed, report, runs, measuring=runner, network=network
        )  # fmt: skip
    tuned.algorithms = algorithms
    return tuned


def named(tasks: Sequence[Task], name: str) -> list[Task]:
    """Return the tasks with that name; raises `InputError` if there are none."""
    found = [task for task in tasks if task.name == name]
    if not found:
        raise InputError(f"--op {name}: no such operator; {nearest(name, [task.name for task in tasks])}")
    return found


def on_farm(
    address: str, target: Target, key: Any = None, limits: Limits | None = None, security: Any = None
) -> Measuring:
    """Return the `Measuring` that uses the workers of a farm; the arguments are those of `tune.farm.client.Farm`."""
    from .farm.client import Farm
    from .remote import RemoteRunner

    farm = Farm(address, str(target), key, security)
    try:
        return RemoteRunner(farm, limits)
    except BaseException:
        farm.close()
        raise


def tune_func(
    func: PrimFunc,
    target: str | Target = "cpu",
    budget: float | None = 60.0,
    *,
    schedule: Any = None,
    knobs: Mapping[str, Sequence[Knob]] | None = None,
    **options: Any,
) -> Schedule:
    """Tune one loop program that is not scheduled for `budget` seconds and return the best schedule.

    `schedule` is a template that you write: a function of a `Schedule`, or a `Trace`. It leaves decisions open with
    `sample_perfect_tile`, `sample_categorical` and the like. `knobs` are further parameters of the function, each with
    its possible values. If you pass a template, nothing else is searched. The other options are those of `tune`. Unlike
    `tune`, this function uses the whole budget, unless there are no candidates left.

    Raises `InputError` if the template leaves no decision open, is never legal, or does not fit its knobs.
    """
    from ..strategy import chosen, decided
    from .template import Template

    options.setdefault("runs", float("inf"))
    machine = code_target(target)
    if schedule is None:
        if knobs is not None:
            raise InputError("knobs are parameters of a schedule function: give schedule=...")
        best = _leader(tune(func, target, budget, **options))
        if best is None or best.untuned:
            return chosen(func, machine).schedule
        return decided(func, machine, best.decision).schedule
    template = Template(func, schedule, knobs)
    with template.registered(machine.kind):
        tuned = tune(template.task(machine), target, budget, **options)
        best = _leader(tuned)
        if best is None:
            raise ScheduleError(
                f"tune_func: no candidate of {template.name} ran in {tuned.seconds:.0f} s\n  found:  {_why_none(tuned)}"
            )
        return decided(func, machine, best.decision).schedule


def _leader(tuned: Tuned) -> Record | None:
    """Return the record of the schedule that won for the only task; None if no candidate ran."""
    return tuned.searches[0].leader if tuned.searches else None


def _why_none(tuned: Tuned) -> str:
    """Return why no candidate of the only task ran: the most frequent reason."""
    tried = [record for search in tuned.searches for record in search.seen.values() if record.outcome not in MEASURED]
    reasons = Counter(f"{record.outcome}: {record.message}" for record in tried)
    if reasons:
        (reason, times), *_ = reasons.most_common(1)
        return f"{reason} ({times} of {len(tried)} candidates)"
    return "; ".join(why for _, why in tuned.skipped) or "the budget was used up before; give it more seconds"


@collected_seldom()
def tune_tasks(
    tasks: Sequence[Task],
    database: Database,
    start: float,
    budget: float | None = None,
    trials: int | None = None,
    seed: int = 0,
    report: Report | None = None,
    runs: float = RUNS,
    limits: Limits | None = None,
    measuring: Measuring | None = None,
    network: Network | None = None,
) -> Tuned:
    """Tune tasks as `tune` does; `start` is the `time.monotonic` value at which the budget begins.

    Candidates run on `measuring` (default: a process on this machine). The winners are measured again there, in the
    `network` of these tasks if it is given.
    """
    tuned = Tuned(runs=runs)
    end = float("inf") if budget is None else start + budget
    closed = []
    for task in tasks:
        if task.open_sizes:
            tuned.skipped.append((task.name, f"the sizes {', '.join(task.open_sizes)} are open; give --shape"))
        else:
            closed.append(task)
    with measuring or Runner(limits) as runner:
        for machine in dict.fromkeys(task.target for task in closed):
            runner.architectures(machine)  # which says so where there is no such device
        searches = [Search(task, database, runner, Options(seed=seed)) for task in closed]
        lines = [Line(search, number, search.seconds_untuned) for number, search in enumerate(searches, 1)]
        try:
            spare = 0.0 if budget is None else CONFIRMING * budget
            if network is None:
                spare = min(spare, _ALONE * len(lines))
            tuned.ended = _batches(lines, runner, end - spare, trials, report, runs, tuned)
            tuned.unconfirmed = confirm([line.search for line in lines], network, runner)
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


def _begin(lines: Sequence[Line], runner: Measuring, end: float, tuned: Tuned) -> None:
    """Measure the untuned programs of the tasks, all at once if the runner can. A task for which no time is left does
    not begin.
    """
    began = time.monotonic()
    found = checked([(line.search.task, line.search.space.first) for line in lines], end=end)
    paths = [runner.folder / f"untuned-{line.number}.mtvm" for line in lines]
    lowered = [n for n, one in enumerate(found) if one.outcome == OK]
    compiling = [(lines[n].search.task, found[n], paths[n]) for n in lowered]
    compiled = artifacts(compiling, runner.key, end=end, architectures=runner.architectures)
    faults = dict(zip(lowered, compiled, strict=True))
    failed = {n: failure(one, faults.get(n, "")) for n, one in enumerate(found)}
    ready = [n for n, why in failed.items() if why is None]
    measured = {n: why for n, why in failed.items() if why is not None}
    for place, answer in runner.each(lines[n].search.first(paths[n], end) for n in ready):
        measured[ready[place]] = answer
    for n, answer in sorted(measured.items()):
        if answer.outcome == LATE:
            continue
        search = lines[n].search
        search.begin(found[n], paths[n], answer, end)
        if search.finished:
            tuned.skipped.append((search.task.name, f"{answer.outcome}: {answer.message}"))
    for line in lines:
        line.first = (time.monotonic() - began) / len(lines)
        line.seconds += line.first


def _batches(
    lines: Sequence[Line], runner: Measuring, end: float, trials: int | None, report: Report | None, runs: float,
    tuned: Tuned,
) -> str:  # fmt: skip
    """Measure batch after batch, and return why that ended. Batches are small if several tasks wait, but keep all cores
    and all workers busy.
    """
    at_once = int(len(available_cores()) / CHECKED)  # that are lowered in one go, for more are lowered than measured
    size = max(BATCH if len(lines) == 1 else BATCH // 2, at_once, runner.width)
    while True:
        now, left = time.monotonic(), None if trials is None else trials - sum(line.search.trials for line in lines)
        if now >= end:
            return "budget"
        if left is not None and left <= 0:
            return "trials"
        _foresee(lines)
        worth = [line for line in lines if line.gain * runs > line.cost]
        if not worth:
            return "gain"
        worth.sort(key=lambda line: -line.gain / line.cost)
        line = worth[0]
        if not line.has_begun:
            # Begin the next tasks, too: as many as are compiled or measured at once.
            first = [line for line in worth if not line.has_begun][: max(len(available_cores()), runner.width)]
            _begin(first, runner, end, tuned)
            continue
        count = min(size, _fitting(line, size, end - now), size if left is None else left)
        if count < 1:
            return "budget"
        improved = line.search.step(count, end)
        line.seconds += time.monotonic() - now
        line.batch_seconds += time.monotonic() - now
        line.batches += 1
        line.expected = (line.expected + improved) / 2
        if report is not None:
            report(_status(line, len(lines), trials, line.search.finished))


def _foresee(lines: Sequence[Line]) -> None:
    """Predict the time of the tasks that have not begun, and the cost of beginning them, from the tasks that have."""
    begun = [line for line in lines if line.has_begun and line.search.baseline]
    if not begun:
        return
    predicted = sum(line.search.seconds_untuned for line in begun)
    over = sum(line.search.baseline for line in begun) / predicted if predicted else 1.0
    for line in lines:
        if not line.has_begun:
            line.predicted = line.search.seconds_untuned * over
            line.first = sum(other.first for other in begun) / len(begun)


def _fitting(line: Line, size: int, seconds: float) -> int:
    """Return how many of a batch of `size` candidates can be measured in the given seconds."""
    return size if seconds == float("inf") else int(size * seconds / line.cost)


def _status(line: Line, total: int, trials: int | None, finished: bool) -> Status:
    search = line.search
    assert search.best is not None
    current = 0.0 if search.current is None else search.current.gflops
    planned = trials or max(search.trials, search.space.size)
    leader = search.leader
    best = search.flops * (leader.gain or 1.0) / search.baseline / 1e9 if leader and search.baseline else 0.0
    return Status(line.number, total, search.task.name, current, best, search.trials, planned, line.seconds, finished)
