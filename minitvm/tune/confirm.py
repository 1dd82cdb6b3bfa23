"""What won alone, in the network: a build with the schedules that won and one without records run in turn.

Alone, an operator finds its arguments in other caches than in a network, and nobody waits for what it leaves in them.
So the time of each operator whose schedule changed is taken in both builds, by time stamps between their operators, and
that decides what later builds take. Where the network as a whole became slower in both halves of the runs, nothing is
taken: what one operator gained, others lost.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..executable import Barrier, Executable
from ..records.lookup import LEAST
from ..records.record import IN_NETWORK
from .search import Search, sure_gain

ROUNDS, LEAST_ROUNDS = 60, 12  # runs of each build: at most, and at least in spite of the time
SECONDS = 4.0  # of all runs together, roughly

Build = Callable[[str | None], Any]  # the module of the network with the records of a database, or without any


def confirm(searches: Sequence[Search], build: Build) -> int:
    """Run what won in the network, by turns with the untuned one, and record what came of it; returns how many won.

    Nothing is run where the sizes of an input are open.
    """
    contenders = [search for search in searches if _is_to_confirm(search)]
    if not contenders:
        return 0
    tuned, untuned = build(contenders[0].database.url), build(None)
    inputs = arguments(untuned.executable)
    if inputs is None:
        return 0
    names = {name: search.task.key for search in contenders for name in search.task.operators}
    own, other = measured([tuned, untuned], inputs, names)
    is_slower = sure_gain(other[""], own[""]) > 1.0
    won = 0
    for search in contenders:
        seconds, without = own[search.task.key], other[search.task.key]
        # What the whole lost is laid to all of them.
        record = search.settle(seconds, list(map(min, seconds, without)) if is_slower else without)
        won += record.gain >= LEAST
    return won


def _is_to_confirm(search: Search) -> bool:
    best = search.best
    return best is not None and not best.untuned and best.gain >= LEAST and best.caches != IN_NETWORK


def arguments(executable: Executable) -> dict[str, Any] | None:
    """Something to run a network on: normal floats, and zeros for what may be an index; None where a size is open."""
    generator, found = np.random.default_rng(0), dict[str, Any]()
    for spec in executable.inputs:
        shape = getattr(spec, "shape", None)
        if shape is None or not all(isinstance(dim, int) for dim in shape):
            return None
        kind = np.dtype(spec.dtype.numpy)
        values = generator.standard_normal(shape) if kind.kind in "fV" else np.zeros(shape)
        found[spec.name] = values.astype(kind)
    return found


def measured(
    modules: Sequence[Any], inputs: Mapping[str, Any], names: Mapping[str, str]
) -> list[dict[str, list[float]]]:  # fmt: skip
    """For each module the seconds of each of its runs, by the group to which `names` assigns operators; "" is all."""
    for module in modules:
        for _ in range(2):
            module.stamped(**inputs)
    groups = [steps_of(module.executable, names) for module in modules]
    seconds: list[dict[str, list[float]]] = [{key: [] for key in (*group, "")} for group in groups]
    begin = time.monotonic()
    for number in range(ROUNDS):
        if number >= LEAST_ROUNDS and time.monotonic() - begin > SECONDS:
            break
        for module, group, times in zip(modules, groups, seconds, strict=True):
            stamps = module.stamped(**inputs).times[0] * 1e-9
            taken = np.diff(stamps)
            times[""].append(float(stamps[-1] - stamps[0]))
            for key, steps in group.items():
                times[key].append(float(taken[steps].sum()))
    return seconds


def steps_of(executable: Executable, names: Mapping[str, str]) -> dict[str, list[int]]:
    """The steps of each group of operators; a barrier belongs to the operator in front of it."""
    found: dict[str, list[int]] = {key: [] for key in names.values()}
    operator = ""
    for number, step in enumerate(executable.steps):
        if not isinstance(step, Barrier):
            operator = getattr(step, "operator", "")
        if operator in names:
            found[names[operator]].append(number)
    return found
