"""All functions of a graph: from the cache, else in other processes, else here."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from ..events import unheard
from ..expr.as_json import from_json, to_json
from ..strategy.registry import report_refusals
from ..target import Target
from ..tir.transform.pipeline import PassCallback
from ..workers import pool
from . import cache
from .function import lower_function, schedule_function
from .lowered import LoweredFunc
from .units import SharedFunction

Progress = Callable[[int, int], None]  # functions done, their total

TASK = pool.Task(f"{__name__}:lower_request", worth_starting=8)


def lower_functions(
    functions: Sequence[SharedFunction],
    target: Target,
    callback: PassCallback | None = None,
    progress: Progress | None = None,
) -> dict[bytes, LoweredFunc]:
    """Each function, scheduled and lowered, by its key. With a `callback` all passes run in this process."""
    if callback is not None or not cache.usable(target):
        return _here(functions, target, callback, progress)
    done: dict[bytes, LoweredFunc] = {}
    absent = []
    for function in functions:
        kept = cache.get(function, target) if cache.keeps(function) else None
        if kept is None:
            absent.append(function)
        else:
            done[function.key] = kept
    if progress is not None and done:
        progress(len(done), len(functions))
    others = [f for f in absent if not cache.keeps(f)]
    compiled = _in_workers([f for f in absent if cache.keeps(f)], target, progress, len(done), len(functions))
    for lowered in (*done.values(), *compiled.values()):
        report_refusals(lowered.host)
    return {**done, **compiled, **_here(others, target, None, progress, len(done) + len(compiled), len(functions))}


def _here(
    functions: Sequence[SharedFunction],
    target: Target,
    callback: PassCallback | None,
    progress: Progress | None,
    before: int = 0,
    total: int | None = None,
) -> dict[bytes, LoweredFunc]:
    done = {}
    for number, function in enumerate(functions, before + 1):
        done[function.key] = lower_function(schedule_function(function.func, target), target, callback)
        if progress is not None:
            progress(number, total or len(functions))
    return done


def _in_workers(
    functions: Sequence[SharedFunction], target: Target, progress: Progress | None, before: int, total: int
) -> dict[bytes, LoweredFunc]:
    """Lower functions in the processes of `pool.run`, this one included, and store the results."""
    requests = [
        json.dumps(
            {"name": f.name, "graph": to_json(f.graph), "updated": f.updated, "target": target.to_json()}
        ).encode()
        for f in functions
    ]
    report = None if progress is None else lambda done, all_, number: progress(before + done, total)
    done = {}
    for function, data in zip(functions, pool.run(TASK, requests, None, report), strict=True):
        cache.put(function, target, data)
        lowered = cache.decode(data)
        assert lowered is not None
        done[function.key] = lowered
    if functions:
        cache.FUNCTIONS.trim()
    return done


def lower_request(request: bytes) -> bytes:
    """Runs in a worker: schedule and lower one function."""
    body = json.loads(request)
    function = SharedFunction(body["name"], from_json(body["graph"]), body["updated"])
    target = Target.from_json(body["target"])
    with unheard():  # no listener is in this process: the parent reports refusals from the result
        return cache.encode(lower_function(schedule_function(function.func, target), target))
