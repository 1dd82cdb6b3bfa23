"""Draw the course of tuning, and measured against predicted times (with matplotlib)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..plots import figure_type
from ..records.database import Database
from ..records.record import Record, undisturbed
from .predicted_and_measured import latest, seconds_predicted
from .task import Task

_MOST = 12  # tasks with a line of their own


def draw(tasks: Sequence[Task], database: Database, path: str | os.PathLike[str]) -> Path:
    """Write a PNG with two plots: the best GFLOP/s over time, with a line per task, and measured against predicted
    time, with a dot per candidate.

    Time is in seconds since the first record, without pauses of over a minute. Raises `InputError` if nothing was
    measured.
    """
    figure_of = figure_type()
    records = {task.key: list(database.records(task.key, task.target_key)) for task in tasks}
    if not any(record.time < float("inf") for found in records.values() for record in found):
        raise InputError("nothing was measured yet: minitvm tune MODEL")
    figure = figure_of(figsize=(11, 4.5), layout="constrained")
    course, dots = figure.subplots(1, 2)
    moments = _moments([record for found in records.values() for record in found])
    shown = sorted(tasks, key=lambda task: -_cost(task, records[task.key]))[:_MOST]
    for task in shown:
        seconds, best = _course(records[task.key], moments)
        if seconds:
            course.step(seconds, best, where="post", label=task.name[:30], marker="o", markersize=3)
    course.set(xlabel="seconds of tuning", ylabel="GFLOP/s of the best", ylim=(0, None))
    course.legend(fontsize=7)
    _scatter(dots, shown, records)
    figure.savefig(path, dpi=120)
    return Path(path)


def _scatter(axes: Any, tasks: Sequence[Task], records: dict[str, list[Record]]) -> None:
    ends: list[float] = []
    for task in tasks:
        known = [record for record in latest(records[task.key]) if record.compute]
        times = zip(known, undisturbed(known), strict=True)
        points = [(seconds_predicted(record, task) * 1e3, seconds * 1e3) for record, seconds in times]
        if points:
            axes.scatter(*zip(*points, strict=True), s=9, label=task.name[:30])
            ends += [value for point in points for value in point]
    if ends:
        axes.plot([min(ends), max(ends)], [min(ends), max(ends)], color="grey", linewidth=0.8)
    axes.set(xscale="log", yscale="log", xlabel="predicted ms", ylabel="measured ms")


def _moments(records: Sequence[Record]) -> dict[float, float]:
    """Map the time stamp of each record to the seconds of tuning at that moment, without pauses."""
    moments, seconds, before = {}, 0.0, None
    for when in sorted({record.when for record in records}):
        seconds += 0.0 if before is None or when - before > 60 else when - before
        moments[when], before = seconds, when
    return moments


def _course(records: Sequence[Record], moments: dict[float, float]) -> tuple[list[float], list[float]]:
    seconds: list[float] = []
    best: list[float] = []
    for record in records:
        if record.gflops:
            seconds.append(moments[record.when])
            best.append(max([record.gflops, *best[-1:]]))
    return seconds, best


def _cost(task: Task, records: Sequence[Record]) -> float:
    times = [record.time for record in records if record.time < float("inf")]
    return task.weight * min(times, default=0.0)
