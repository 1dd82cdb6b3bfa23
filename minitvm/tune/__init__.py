"""The tuner predicts the time of many schedules with formulas, measures a few of them, and records the results.

    minitvm.tune.tune(graph, budget=60)                 # stores records in your database
    module = minitvm.build(graph)                       # uses the schedules that won

task.py          the tasks of a model: its distinct operators, each with the number of its uses
template.py      candidates from a schedule that a user wrote and in which some decisions are open
space.py         the candidates of a task: those that rules yield, their neighbours, and random samples
prepare.py       turns a decision into figures (check) and into an artifact, in other processes
runner.py        the process that runs one artifact, or two in turn; a crash ends only a child of it
remote.py        the same on the workers of a farm
measure.py       calls the runner; the outcome is seconds, or crashed, hung, out of memory, wrong
residual.py      learns the ratio of measured to predicted time from similar candidates
search.py        the search of one task: draft, check, measure, learn
builds.py        a network, and builds of it that run in turn
algorithms.py    chooses the algorithm of each convolution by runs of the network
confirm.py       measures the winners once more at the end, in the network
in_network.py    runs two builds of a network in turn, in the runner's process
network.py       several tasks: chooses where the next batch of measurements goes, and when to stop
predicted_and_measured.py   compares predictions with measurements for each candidate, and prints the formulas
picture.py       draws the same comparison, and the course of a tuning
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .network import Tuned, tune, tune_func
    from .search import Options
    from .space import Space
    from .task import Task, extract

_FROM = {
    "Options": "search", "Space": "space", "Task": "task", "Tuned": "network", "extract": "task", "tune": "network",
    "tune_func": "network",
}  # fmt: skip

__all__ = [
    "Options", "Space", "Task", "Tuned", "builds", "extract", "farm", "network", "picture", "predicted_and_measured",
    "task", "tune", "tune_func",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _FROM:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_FROM[name]}"), name)
