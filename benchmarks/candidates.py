"""What a candidate costs before it is compiled, in seconds of one core.

    python -m benchmarks.candidates [resnet18 ...] [--operators N] [--sketches]

All candidates that are known of an operator are ranked, a batch of them is scheduled and lowered. The mean is of what
all of it took over the number that is known. A second table has what the scheduled ones took, rule by rule, and of
sketches form by form. With `--sketches` the operators of `benchmarks.sketches` come first.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from statistics import mean
from typing import Any

from minitvm.errors import ScheduleError
from minitvm.garbage import collected_seldom
from minitvm.lowering import lower_function
from minitvm.records.database import Database
from minitvm.strategy import Decision, decided
from minitvm.strategy.registry import with_record
from minitvm.target import Target
from minitvm.tir.schedule.shared_steps import steps_of
from minitvm.tools import models
from minitvm.tune import Task, extract
from minitvm.tune.measure import Runner
from minitvm.tune.prepare import figures
from minitvm.tune.search import BATCH, CHECKED, Search
from minitvm.tune.task import function_task

from .sketches import OPERATORS, SKETCHES, function_of

WANTED = 0.010
Seconds = tuple[float, float]  # of one candidate: to schedule it, to lower it and count its work


def seconds(run: Callable[[], Any]) -> tuple[float, Any]:
    """Of the processor, and what came of it."""
    start = time.process_time()
    result = run()
    return time.process_time() - start, result


def checked(task: Task, decision: Decision) -> Seconds:
    """What the check of one candidate takes, as in a worker that has checked those before it."""

    def schedule() -> Any:
        try:
            return with_record(decided(task.func, task.target, decision, steps_of(task.func)))
        except ScheduleError:
            return None

    scheduling, func = seconds(schedule)
    if func is None:
        return scheduling, 0.0
    lowering, _ = seconds(lambda: figures(lower_function(func, task.target)))
    return scheduling, lowering


@collected_seldom()
def measured(task: Task, found: dict[str, list[Seconds]]) -> None:
    """One operator, as its first batch has it; what each candidate took is added to those of its rule."""
    with tempfile.TemporaryDirectory() as folder, Database.open(f"{folder}/records.db") as database, Runner() as runner:
        search = Search(task, database, runner)
        known, candidates = seconds(lambda: search.space.yielded)
        if not candidates:
            return
        drafted, batch = seconds(lambda: search.draft(int(CHECKED * BATCH)))
    took = [checked(task, decision) for decision in batch]
    for decision, one in zip(batch, took, strict=True):
        found.setdefault(name_of(decision), []).append(one)
    count, (scheduling, lowering) = len(candidates), (sum(column) for column in zip(*took, strict=True))
    whole = (known + drafted + scheduling + lowering) / count
    times = known / count, drafted / count, scheduling / len(batch), lowering / len(batch), whole
    print(f"  {task.name:<44}{count:>6}", *(f"{one * 1e3:>9.2f}" for one in times), flush=True)


def name_of(decision: Decision) -> str:
    """The rule, and the form of a sketch."""
    form = str(decision.knobs.get("form", ""))
    return " ".join([decision.rule, *form.split()[:1]])


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the networks given."""
    parser = argparse.ArgumentParser(prog="benchmarks.candidates", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("networks", nargs="*", default=["resnet18"])
    parser.add_argument("--operators", type=int, help="of each network, the first ones")
    parser.add_argument("--sketches", action="store_true", help="operators without a rule of their own, too")
    options = parser.parse_args(arguments)
    found: dict[str, list[Seconds]] = {}
    tasks = {name: extract(models.get(name))[: options.operators] for name in options.networks}
    if options.sketches:
        functions = {name: function_of(name).with_attr("global_symbol", name) for name in OPERATORS}
        tasks = {"sketches": [function_task(one, Target("cpu"), SKETCHES) for one in functions.values()], **tasks}
    for name, some in tasks.items():
        print(f"{name}, milliseconds\n  {'':<44}{'known':>6}{'listed':>10}{'drafted':>10}{'scheduled':>10}"
              f"{'lowered':>10}{'mean':>10}  (wanted {WANTED * 1e3:.0f})")  # fmt: skip
        for task in some:
            measured(task, found)
    print(f"of those that were scheduled, milliseconds\n  {'':<44}{'':>6}{'scheduled':>10}{'lowered':>10}")
    for rule, took in sorted(found.items(), key=lambda pair: -len(pair[1])):
        scheduling, lowering = zip(*took, strict=True)
        print(f"  {rule:<44}{len(took):>6}{mean(scheduling) * 1e3:>10.1f}{mean(lowering) * 1e3:>10.1f}")


if __name__ == "__main__":
    main()
