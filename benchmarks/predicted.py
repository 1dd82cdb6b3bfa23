"""How well candidates are predicted: by the formulas alone, and with the residual that other operators taught.

    python -m benchmarks.predicted RECORDS.db ... [--rules sketch]

Each operator is held out in turn: the residual learns from the records of all others, and then from the first records
of the operator's own, too: the untuned program and a batch. Those are not judged. Printed is the share of candidates
whose time is within 25 % of what was predicted: of all, and of those within 1.5 times of their operator's best. Costs
are those of the records; times are those beside the untuned program (`records.record.undisturbed`). Candidates that ran
twice only, as earlier versions gave up what was slow, are left out.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from math import exp, log

import numpy as np

from minitvm.records.database import Database
from minitvm.records.record import IN_NETWORK, Record, undisturbed
from minitvm.strategy.candidate import Cost
from minitvm.target import Target
from minitvm.tune.measure import LEAST
from minitvm.tune.residual import Point, Residual
from minitvm.tune.search import BATCH

WITHIN, NEAR = 1.25, 1.5
WANTED = 0.8


def points(records: Iterable[Record]) -> list[tuple[Point, float, Record]]:
    """Measured candidates in the order in which they were: as the residual knows them, measured over predicted."""
    cycle = Target("cpu").description.cycle_seconds
    first: dict[tuple[str, str, object], Record] = {}
    for record in records:
        was_run = record.time < float("inf") and len(record.seconds) >= LEAST
        if was_run and record.compute > 0 and record.caches != IN_NETWORK:
            first.setdefault((record.target, record.task, record.decision), record)
    return [
        (
            Point(r.rule, r.knobs, Cost(r.compute, r.memory), r.task, r.target),
            seconds / (max(r.compute + r.memory, 1.0) * cycle),
            r,
        )
        for r, seconds in zip(first.values(), undisturbed(list(first.values())), strict=True)
    ]


def errors(known: Sequence[tuple[Point, float, Record]]) -> dict[str, list[tuple[float, bool, Record]]]:
    """By how predictions were made: for each candidate log(measured / predicted), and whether it is near the best."""
    found: dict[str, list[tuple[float, bool, Record]]] = {
        "formula": [], "one factor of the others": [], "residual of the others": [], "and after a batch of its own": [],
    }  # fmt: skip
    tasks = dict.fromkeys(point.task for point, _, _ in known)
    for task in tasks:
        own = [one for one in known if one[0].task == task]
        others = [one for one in known if one[0].task != task]
        judged = own[1 + BATCH :] or own[1:]
        if not judged or not others:
            continue
        best = max(record.gain for _, _, record in own)
        where, logs = [point for point, _, _ in judged], np.array([log(ratio) for _, ratio, _ in judged])
        usual = float(np.median([log(ratio) for _, ratio, _ in others]))
        predictions = {"formula": np.zeros(len(logs)), "one factor of the others": np.full(len(logs), usual)}
        first = own[: len(own) - len(judged)]
        for name, taught in (("residual of the others", others), ("and after a batch of its own", [*others, *first])):
            residual = Residual()
            residual.fit([point for point, _, _ in taught], [ratio for _, ratio, _ in taught])
            predictions[name] = residual.predict(where)
        for name, predicted in predictions.items():
            found[name] += [
                (float(error), NEAR * record.gain >= best, record)
                for error, (_, _, record) in zip(logs - predicted, judged, strict=True)
            ]
    return found


def share(some: Sequence[tuple[float, bool, Record]]) -> str:
    """The part of candidates within 25 %."""
    if not some:
        return "-"
    return f"{sum(1 / WITHIN <= exp(error) <= WITHIN for error, _, _ in some) / len(some):.0%} of {len(some)}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Read records and print the shares."""
    parser = argparse.ArgumentParser(prog="benchmarks.predicted", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("records", nargs="+")
    parser.add_argument("--rules", nargs="*")
    options = parser.parse_args(arguments)
    known: list[Record] = []
    for path in options.records:
        with Database.open(path) as database:
            known += database.records()
    found = errors(points(record for record in known if not options.rules or record.rule in options.rules))
    print(f"{'':<32}{'all':>14}{f'within {NEAR} of the best':>26}   (wanted {WANTED:.0%})")
    for name, some in found.items():
        print(f"{name:<32}{share(some):>14}{share([one for one in some if one[1]]):>26}")
    by_rule: dict[str, list[tuple[float, bool, Record]]] = {}
    for one in found["and after a batch of its own"]:
        form = one[2].knobs.get("form")
        by_rule.setdefault(one[2].rule + (f" {form}" if form else ""), []).append(one)
    for name, some in sorted(by_rule.items(), key=lambda pair: -len(pair[1])):
        middle = exp(float(np.median([error for error, _, _ in some])))
        print(f"  {name:<30}{share(some):>14}   measured over predicted {middle:.2f}")


if __name__ == "__main__":
    main()
