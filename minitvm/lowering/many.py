"""Lower all functions of a graph: each is read from the cache, or lowered in another process or in this one."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ..events import unheard
from ..expr.as_json import from_json, to_json
from ..strategy.candidate import Decision
from ..strategy.registry import made_too_much_code, not_carried_out, report_refusals
from ..target import Target
from ..tir.transform.pipeline import PassCallback
from ..workers import worker_pool
from . import cache, verified
from .function import lower_function, with_a_schedule
from .lowered import LoweredFunc
from .units import SharedFunction

Progress = Callable[[int, int], None]  # functions done, their total
Decisions = Mapping[bytes, Decision]  # by the keys of functions

TASK = worker_pool.PoolTask(f"{__name__}:lower_request", worth_starting=8)


def lower_functions(
    functions: Sequence[SharedFunction],
    target: Target,
    callback: PassCallback | None = None,
    progress: Progress | None = None,
    decisions: Decisions | None = None,
) -> dict[bytes, LoweredFunc]:
    """Schedule and lower `functions`, and return the results by key.

    With a `callback`, all passes run in this process. `decisions` maps the keys of some functions to their schedules. A
    decision that no longer applies causes a warning.
    """
    decisions = decisions or {}
    lowered = _lowered(functions, target, callback, progress, decisions)
    for function in functions:
        too_much = made_too_much_code(lowered[function.key].host)
        if too_much:
            warnings.warn(f"{too_much}; {function.name} has a simpler schedule", RuntimeWarning, stacklevel=2)
        decision = decisions.get(function.key)
        refused = "" if decision is None else not_carried_out(lowered[function.key].host, decision)
        if refused:
            warnings.warn(f"the record of {function.name} no longer applies: {refused}", RuntimeWarning, stacklevel=2)
    return lowered


def _lowered(
    functions: Sequence[SharedFunction],
    target: Target,
    callback: PassCallback | None,
    progress: Progress | None,
    decisions: Decisions,
) -> dict[bytes, LoweredFunc]:
    if callback is not None or not cache.usable(target):
        return _here(functions, target, callback, progress, decisions)
    done: dict[bytes, LoweredFunc] = {}
    absent = []
    for function in functions:
        kept = cache.get(function, target, decisions.get(function.key)) if cache.keeps(function) else None
        if kept is None:
            absent.append(function)
        else:
            done[function.key] = kept
    if progress is not None and done:
        progress(len(done), len(functions))
    others = [f for f in absent if not cache.keeps(f)]
    known = [f for f in absent if cache.keeps(f)]
    compiled = _in_workers(known, target, progress, decisions, len(done), len(functions))
    for lowered in (*done.values(), *compiled.values()):
        report_refusals(lowered.host)
    here = _here(others, target, None, progress, decisions, len(done) + len(compiled), len(functions))
    return {**done, **compiled, **here}


def _here(
    functions: Sequence[SharedFunction],
    target: Target,
    callback: PassCallback | None,
    progress: Progress | None,
    decisions: Decisions,
    before: int = 0,
    total: int | None = None,
) -> dict[bytes, LoweredFunc]:
    done = {}
    again = callback is None and verified.usable(target)
    for number, function in enumerate(functions, before + 1):
        decision = decisions.get(function.key)
        lowered = verified.get(function, target, decision) if again else None
        if lowered is None:
            lower = partial(lower_function, target=target, callback=callback, before=function.func)
            lowered = with_a_schedule(function.func, target, lower, decision)
            if again:
                verified.put(function, target, decision, lowered)
        done[function.key] = lowered
        if progress is not None:
            progress(number, total or len(functions))
    return done


def _in_workers(
    functions: Sequence[SharedFunction],
    target: Target,
    progress: Progress | None,
    decisions: Decisions,
    before: int,
    total: int,
) -> dict[bytes, LoweredFunc]:
    """Lower functions in the processes of `worker_pool.run`, including this one, and cache the results."""
    by = [decisions.get(f.key) for f in functions]
    requests = [
        json.dumps(
            {
                "name": f.name,
                "graph": to_json(f.graph),
                "updated": f.updated,
                "target": target.to_json(),
                "decision": None if decision is None else decision.to_json(),
            }
        ).encode()
        for f, decision in zip(functions, by, strict=True)
    ]
    report = None if progress is None else lambda done, all_, number: progress(before + done, total)
    done = {}
    results = worker_pool.run(TASK, requests, None, report)
    for function, decision, data in zip(functions, by, results, strict=True):
        cache.put(function, target, data, decision)
        lowered = cache.decode(data)
        assert lowered is not None
        done[function.key] = lowered
    if functions:
        cache.FUNCTIONS.trim()
    return done


def lower_request(request: bytes) -> bytes:
    """Schedule and lower one function. This runs in a worker process."""
    body = json.loads(request)
    function = SharedFunction(body["name"], from_json(body["graph"]), body["updated"])
    target = Target.from_json(body["target"])
    decision = None if body["decision"] is None else Decision.from_json(body["decision"])
    with unheard():  # no listener is in this process: the parent reports refusals from the result
        lower = partial(lower_function, target=target, before=function.func)
        return cache.encode(with_a_schedule(function.func, target, lower, decision))
