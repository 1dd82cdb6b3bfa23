"""How well candidates are predicted: by the formulas alone, and with what records of others and of its own taught.

    python -m benchmarks.predicted RECORDS.db ... [--rules sketch] [--again] [--networks resnet18 ...] [--knobs]
    python -m benchmarks.sketches plain strided pointwise ... --functions --records FOLDER     # makes such records

Each operator is held out in turn. Its candidates are predicted

    formula                     by the formula alone, at the clock that the target names
    formula, measured clock     at the one of which `minitvm.tools.profile` finds the peak, for records of this machine
    one factor of the others    times the middle ratio of the other operators
    one factor of its own       times the ratio of its first record, the untuned program, which is always measured first
    residual of the others      by what the residual learns from the other operators
    and a batch of its own      and from the first records of its own, which are not judged

Printed is the share of candidates whose time is within 25 % of what was predicted: of all, and of those within 1.5
times of their operator's best. Costs are those of the records; with `--again` they are those of today's formulas, for
the operators of `benchmarks.sketches` and of the networks that are named. Times are those beside the untuned program
(`records.record.undisturbed`). Candidates that ran twice only, as earlier versions gave up what was slow, are left out.

`--knobs` prints what measured over predicted is for each value of each knob, beside its operator's middle ratio.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import exp, log
from statistics import median

import numpy as np

from minitvm.errors import ScheduleError
from minitvm.records.database import Database
from minitvm.records.record import IN_NETWORK, Record, target_key, undisturbed
from minitvm.strategy import candidate_of
from minitvm.strategy.candidate import Cost
from minitvm.target import Target
from minitvm.tools import models, profile
from minitvm.tune import Task, extract
from minitvm.tune.measure import LEAST
from minitvm.tune.residual import MeasuredCandidate, Residual
from minitvm.tune.search import BATCH
from minitvm.tune.task import function_task

from .sketches import EVERY, SKETCHES, function_of, model_of, tasks_of

WITHIN, NEAR = 1.25, 1.5
WANTED = 0.8
CLOCK, FACTOR, FIRST, OTHERS, OWN = (
    "formula, measured clock",
    "one factor of the others",
    "one factor of its own",
    "residual of the others",
    "and a batch of its own",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Known:
    """A measured candidate: as the residual knows it, measured over predicted, its record."""

    point: MeasuredCandidate
    ratio: float
    record: Record


@dataclass(frozen=True, slots=True)
class Error:
    """log(measured / predicted) of a candidate, and whether it is near the best of its operator."""

    log: float
    near: bool
    record: Record


def usable(records: Iterable[Record]) -> list[Record]:
    """The first run of each candidate alone, in the order in which they were."""
    first: dict[tuple[str, str, object], Record] = {}
    for record in records:
        was_run = record.time < float("inf") and len(record.seconds) >= LEAST
        if was_run and record.compute > 0 and record.caches != IN_NETWORK:
            first.setdefault((record.target, record.task, record.decision), record)
    return list(first.values())


def points(records: Sequence[Record]) -> list[Known]:
    """Records as the residual learns from them."""
    cycle = Target("cpu").description.cycle_seconds
    return [
        Known(
            MeasuredCandidate(r.rule, r.knobs, Cost(r.compute, r.memory), r.task, r.target),
            seconds / (max(r.compute + r.memory, 1.0) * cycle),
            r,
        )
        for r, seconds in zip(records, undisturbed(records), strict=True)
    ]


def tasks_named(networks: Sequence[str]) -> dict[str, tuple[str, Task]]:
    """The operators whose records can be priced again, with their names, by their keys."""
    found: dict[str, tuple[str, Task]] = {}
    for name in EVERY:
        alone = [function_task(function_of(name), Target("cpu"), SKETCHES)]
        found |= {one.key: (name, one) for one in (*tasks_of(name, model_of(name)[0], False), *alone)}
    for network in networks:
        found |= {one.key: (one.name, one) for one in extract(models.get(network))}
    return found


def priced_again(records: Iterable[Record], tasks: dict[str, tuple[str, Task]]) -> Iterator[Record]:
    """Records with the costs that today's formulas have; those of operators that are not known are left out."""
    for record in records:
        name, task = tasks.get(record.task, ("", None))
        if task is None:
            continue
        try:
            cost = candidate_of(task.func, task.target, record.decision).cost
        except ScheduleError:
            continue
        yield replace(record, name=name, compute=cost.compute, memory=cost.memory)


def errors(known: Sequence[Known], cycle: float = 1.0) -> dict[str, list[Error]]:
    """By how predictions were made, what they are off by; this machine's cycle is `cycle` times that of its target."""
    here = target_key(Target("cpu"))
    found: dict[str, list[Error]] = {name: [] for name in ("formula", CLOCK, FACTOR, FIRST, OTHERS, OWN)}
    for task in dict.fromkeys(one.point.task for one in known):
        own = [one for one in known if one.point.task == task]
        others = [one for one in known if one.point.task != task]
        judged = own[1 + BATCH :] or own[1:]
        if not judged or not others:
            continue
        best = max(one.record.gain for one in own)
        first, none = own[: len(own) - len(judged)], np.zeros(len(judged))
        predictions = {
            "formula": none,
            CLOCK: none + (log(cycle) if own[0].point.target == here else 0.0),
            FACTOR: none + median(log(one.ratio) for one in others),
            FIRST: none + log(own[0].ratio),
        }
        for name, taught in ((OTHERS, others), (OWN, [*others, *first])):
            residual = Residual()
            residual.fit([one.point for one in taught], [one.ratio for one in taught])
            predictions[name] = residual.predict([one.point for one in judged])
        for name, predicted in predictions.items():
            found[name] += [
                Error(log(one.ratio) - float(by), NEAR * one.record.gain >= best, one.record)
                for by, one in zip(predicted, judged, strict=True)
            ]
    return found


def share(some: Sequence[Error]) -> str:
    """The part of candidates within 25 %."""
    if not some:
        return "-"
    return f"{sum(1 / WITHIN <= exp(one.log) <= WITHIN for one in some) / len(some):.0%} of {len(some)}"


def print_groups(groups: dict[str, list[Error]]) -> None:
    """A line each for candidates that have something in common, the largest groups first."""
    for name, some in sorted(groups.items(), key=lambda pair: -len(pair[1])):
        middle = exp(median(one.log for one in some))
        print(f"  {name:<30}{share(some):>14}   measured over predicted {middle:.2f}")


def grouped(some: Iterable[Error], names: Iterable[str]) -> dict[str, list[Error]]:
    """Errors by a name of each."""
    found: dict[str, list[Error]] = {}
    for one, name in zip(some, names, strict=True):
        found.setdefault(name, []).append(one)
    return found


def by_knobs(known: Sequence[Known]) -> dict[str, list[Error]]:
    """By the values of knobs, how far candidates are from the middle of their operator."""
    found: dict[str, list[Error]] = {}
    middle = {
        task: median(log(one.ratio) for one in known if one.point.task == task)
        for task in {one.point.task for one in known}
    }
    for one in known:
        error = Error(log(one.ratio) - middle[one.point.task], True, one.record)
        for knob, value in one.record.knobs.items():
            found.setdefault(f"{one.record.rule} {knob}={value}", []).append(error)
    return {name: some for name, some in found.items() if len(some) >= BATCH}


def main(arguments: Sequence[str] | None = None) -> None:
    """Read records and print the shares."""
    parser = argparse.ArgumentParser(prog="benchmarks.predicted", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("records", nargs="+")
    parser.add_argument("--rules", nargs="*")
    parser.add_argument("--again", action="store_true", help="with the costs of today's formulas")
    parser.add_argument("--networks", nargs="*", default=[], help="whose operators are priced again")
    parser.add_argument("--knobs", action="store_true", help="by the values of knobs")
    options = parser.parse_args(arguments)
    records: list[Record] = []
    for path in options.records:
        with Database.open(path) as database:
            records += database.records()
    records = usable(record for record in records if not options.rules or record.rule in options.rules)
    if options.again:
        records = list(priced_again(records, tasks_named(options.networks)))
    known = points(records)
    found = errors(known, 1 / profile.machine(Target("cpu").description.cores).clock)
    print(f"{'':<32}{'all':>14}{f'within {NEAR} of the best':>26}   (wanted {WANTED:.0%})")
    for name, some in found.items():
        print(f"{name:<32}{share(some):>14}{share([one for one in some if one.near]):>26}")
    print("by rule, after a batch of its own")
    rules = (" ".join([one.record.rule, str(one.record.knobs.get("form", ""))]) for one in found[OWN])
    print_groups(grouped(found[OWN], rules))
    print("by operator, by the formula alone")
    print_groups(grouped(found["formula"], (f"{one.record.name} {one.record.task[:6]}" for one in found["formula"])))
    if options.knobs:
        print("by knob, beside the operator's middle")
        print_groups(by_knobs(known))


if __name__ == "__main__":
    main()
