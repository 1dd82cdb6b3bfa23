"""List predicted and measured times of each candidate, as text."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..records.database import Database
from ..records.record import MEASURED, PAIRED, Record, undisturbed
from ..strategy import candidates
from ..strategy.candidate import Candidate, Cost
from .residual import MeasuredCandidate, left_out
from .task import Task

SHOWN = 12


def seconds_predicted(record: Record, task: Task) -> float:
    """Return the seconds that the formula predicted for a record."""
    return (record.compute + record.memory) * task.seconds_a_cycle


def latest(records: Iterable[Record]) -> list[Record]:
    """Return the last record of each decision that ran, fastest first; the record of a pair replaces other records."""
    found: dict[object, Record] = {}
    for record in records:
        if record.outcome in MEASURED:
            before = found.get(record.decision)
            if before is None or record.outcome == PAIRED or before.outcome != PAIRED:
                found[record.decision] = record
    return sorted(found.values(), key=lambda record: -record.gain)


def lines(task: Task, database: Database) -> list[str]:
    """Return lines with the formulas of the rules, and then the measured candidates, fastest first."""
    records = latest(database.records(task.key, task.target_key))
    best = database.best(task.key, task.target_key)
    shown = [f"{task.name}, {task.weight} {'use' if task.weight == 1 else 'uses'} a run"]
    rules: dict[str, Candidate] = {}
    every = candidates(task.func, task.target, for_tuning=True)
    for one in every:
        rules.setdefault(one.rule, one)
    for rule, one in rules.items():
        shown.append(
            f"  {rule}: {sum(c.rule == rule for c in every)} candidates, knobs {', '.join(one.knobs) or 'none'}"
        )
        shown += [f"    {name:<9} {text}" for name, text in one.formulas.items()]
    if not records:
        return [*shown, f"  nothing measured yet: minitvm tune MODEL --op {task.name}"]
    shown.append(f"  {'predicted':>12} {'measured':>12} {'ratio':>7}   candidate")
    measured = list(zip(records, undisturbed(records), strict=True))
    for record, seconds in measured[:SHOWN]:
        predicted = seconds_predicted(record, task)
        ratio = f"{seconds / predicted:7.2f}" if predicted else "      -"
        marks = [word for word, holds in (("untuned", record.untuned), ("taken", _is_best(record, best))) if holds]
        note = f"  <- {', '.join(marks)}" if marks else ""
        shown.append(f"  {predicted * 1e3:9.3f} ms {seconds * 1e3:9.3f} ms {ratio}   {record.decision}{note}")
    if len(records) > SHOWN:
        shown.append(f"  and {len(records) - SHOWN} more")
    measured = [(record, seconds) for record, seconds in measured if record.compute + record.memory > 0]
    known, ratios = [r for r, _ in measured], [seconds / seconds_predicted(r, task) for r, seconds in measured]
    shown.append(f"  {sum(map(_is_near, ratios))} of {len(records)} within 25% of the formula")
    if len(known) > 1:
        points = [MeasuredCandidate(r.rule, r.knobs, Cost(r.compute, r.memory), r.task, r.target) for r in known]
        left = np.exp(left_out(points, ratios))
        shown.append(f"  {sum(map(_is_near, left))} of {len(known)} within 25% of what the others teach")
    return shown


def _is_near(ratio: float) -> bool:
    """Return whether a ratio of measured to predicted time is within 25% of 1."""
    return 0.75 <= ratio <= 1.25


def _is_best(record: Record, best: Record | None) -> bool:
    return best is not None and record.decision == best.decision
