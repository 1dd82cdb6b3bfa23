"""The tuner: predicts by formula, measures a few, keeps what it measured.

    minitvm.tune.tune(graph, budget=60)                 # records go to the user's database
    module = minitvm.build(graph)                       # takes the schedules that won

task.py          what is tuned: the distinct operators of a model, with the number of their uses
template.py      candidates from a schedule that a user wrote, with decisions left open
space.py         the candidates of a task: those that rules yield, their neighbours, samples
prepare.py       from a decision to figures (check) and to an artifact, in other processes
runner.py        the process that runs one artifact or two beside each other; a crash ends a child of it
remote.py        the same on the workers of a farm
measure.py       talks to the runner: seconds, or crashed, hung, out of memory, wrong
residual.py      what measurements say over predictions, learned from candidates that have something in common
search.py        one task: draft, check, measure, learn
builds.py        a network, and builds of it that run in turn
algorithms.py    which algorithm a convolution gets, by runs of the network
confirm.py       what won, measured once more at the end: in the network
in_network.py    two builds of a network in turn, in the runner's process
network.py       several tasks: where the next batch of measurements goes, and when to stop
predicted_and_measured.py   candidate by candidate, and the formulas, as text
picture.py       the same and the course of a tuning as a picture
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
