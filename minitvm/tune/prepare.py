"""Turn decisions into exact counts and into artifacts, in the processes of `workers.pool`.

`checked` schedules and lowers candidates, sorts out those that are refused, and counts the exact work of the others.
`artifacts` compiles the chosen ones to files that the runner loads. If a worker dies, only its candidate is lost.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from .. import backend
from ..errors import MinitvmError, MissingExtra, ScheduleError
from ..expr.as_json import from_json, to_json
from ..garbage import collected_seldom
from ..link import link_function
from ..lowering import LoweredFunc, cache, lower_function
from ..records.record import CRASHED, OK, REFUSED
from ..strategy import Decision, decided, scheduled
from ..strategy.candidate import choice_of, reason
from ..strategy.registry import with_record
from ..target import Target
from ..tir.nodes import PrimFunc
from ..tir.schedule.shared_steps import steps_of
from ..tir.work import count
from ..workers import worker_pool
from .measure import LATE
from .task import Task

_DIED = json.dumps({"outcome": CRASHED, "message": "the process that compiled it died"}).encode()
_LATE = json.dumps({"outcome": LATE, "message": LATE}).encode()
CHECK = worker_pool.PoolTask(f"{__name__}:check_request", worth_starting=1, worth_using=1, died=_DIED, late=_LATE)
COMPILE = worker_pool.PoolTask(f"{__name__}:artifact_request", worth_starting=1, worth_using=1, died=_DIED, late=_LATE)


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of scheduling and lowering a candidate. `outcome` is "ok", LATE, or the reason why it was refused.

    `decision` is the decision that was asked for, or, if none was, the decision of an ordinary build. `code` is a hash
    of the kernels, and `cost` has the predicted cycles (arithmetic, memory). `figures` are exact counts for one run:
    flops, slots (multiply-add instructions), loads and stores.
    """

    decision: Decision
    outcome: str
    message: str = ""
    lowered: str = ""
    code: str = ""
    cost: tuple[float, float] = (0.0, 0.0)
    figures: Mapping[str, float] = field(default_factory=dict)


def checked(
    asked: Sequence[tuple[Task, Decision | None]], workers: int | None = None, end: float = float("inf")
) -> list[Checked]:
    """Schedule and lower each decision; None means the schedule of a build without records.

    Decisions that are not ready at the time `end` (of `time.monotonic`) are LATE.
    """
    requests = [_request(task, one) for task, one in asked]
    sent = [request for request in requests if isinstance(request, bytes)]
    answers = iter(worker_pool.run(CHECK, sent, workers, end=end))
    replies = [json.loads(next(answers)) if isinstance(request, bytes) else request for request in requests]
    for (task, one), reply in zip(asked, replies, strict=True):
        if one is None and reply["outcome"] == OK:
            task.keep_built(reply["lowered"])
    return [
        Checked(
            Decision.from_json(reply["decision"]) if "decision" in reply else (one or Decision("", {})),
            reply["outcome"],
            reply.get("message", ""),
            reply.get("lowered", ""),
            reply.get("code", ""),
            reply.get("cost", (0.0, 0.0)),
            reply.get("figures", {}),
        )
        for (_, one), reply in zip(asked, replies, strict=True)
    ]


def _request(task: Task, asked: Decision | None) -> bytes | dict[str, Any]:
    """Return the request to a worker for a decision, or the reply itself if the decision is already refused here.

    Workers have only the package's code. If a rule, a template or a back end from outside is involved, this process
    schedules the function, and a worker lowers the result. With a back end from outside, this process lowers it, too.
    """
    order = {
        "func": task.text,
        "target": task.target.to_json(),
        "decision": None if asked is None else asked.to_json(),
        "built": task.built if asked is None else "",
        "scheduled": False,
    }
    if not cache.decides_all(task.target):
        try:
            func = _scheduled(task.func, task.target, asked)
        except MissingExtra:  # no fault of the candidate
            raise
        except MinitvmError as error:
            return _refused(error)
        order.update(func=json.dumps(to_json(func)), scheduled=True)
    request = json.dumps(order).encode()
    reply: bytes | dict[str, Any] = request if _is_ours(task.target) else json.loads(check_request(request))
    return reply


def _is_ours(target: Target) -> bool:
    """Return whether the workers have the target's back end."""
    return backend.find(target) in backend.own()


def _refused(error: MinitvmError) -> dict[str, Any]:
    return {"outcome": REFUSED, "message": _one_line(error)}


def artifacts(
    asked: Sequence[tuple[Task, Checked, Path]],
    key: bytes,
    workers: int | None = None,
    end: float = float("inf"),
    architectures: Callable[[Target], Sequence[str]] = lambda target: (),
) -> list[str]:
    """Compile each candidate to a file signed with `key`; return an error text for each, "" for success.

    The text is LATE for candidates that are not ready at the time `end` (of `time.monotonic`). `architectures(target)`
    returns the architectures of the devices that will run the code; if it is empty, the target's own is used.
    """
    requests = [
        json.dumps(
            {
                "lowered": one.lowered,
                "target": task.target.brief,
                "path": str(path),
                "key": key.hex(),
                "architectures": list(architectures(task.target)),
            }
        ).encode()
        for task, one, path in asked
    ]
    if not all(_is_ours(task.target) for task, _, _ in asked):
        return [json.loads(artifact_request(request)).get("message", "") for request in requests]
    return [json.loads(reply).get("message", "") for reply in worker_pool.run(COMPILE, requests, workers, end=end)]


@collected_seldom()
def check_request(request: bytes) -> bytes:
    """Schedule and lower one candidate, and count its work. Runs in a worker."""
    body = json.loads(request)
    target = _target(body["target"])
    asked = None if body["decision"] is None else Decision.from_json(body["decision"])
    lowered = cache.decode(body["built"].encode()) if body["built"] else None
    if lowered is None:
        func = _function(body["func"])
        try:
            own = func if body["scheduled"] else _scheduled(func, target, asked)
            lowered = lower_function(own, target, before=func)
        except MissingExtra:
            raise
        except MinitvmError as error:
            return json.dumps(_refused(error)).encode()
    option = choice_of(lowered.host).taken
    decision = asked or (Decision("", {}) if option is None else Decision(option.rule, option.knobs))
    reply = {
        "outcome": OK,
        "decision": decision.to_json(),
        "lowered": cache.encode(lowered).decode(),
        "code": hashlib.sha256("\0".join(lowered.sources.values()).encode()).hexdigest(),
        "cost": (0.0, 0.0) if option is None else (option.cost.compute, option.cost.memory),
        "figures": figures(lowered),
    }
    return json.dumps(reply).encode()


def _scheduled(func: PrimFunc, target: Target, asked: Decision | None) -> PrimFunc:
    if asked is None:
        return scheduled(func, target)
    return with_record(decided(func, target, asked, steps_of(func)))


def artifact_request(request: bytes) -> bytes:
    """Link and compile one candidate. Runs in a worker."""
    from ..runtime.artifact.export import export

    body = json.loads(request)
    lowered = cache.decode(body["lowered"].encode())
    assert lowered is not None
    try:
        executable = link_function(lowered, body["target"])
        export(executable, body["path"], bytes.fromhex(body["key"]), body["architectures"])
    except MissingExtra:
        raise
    except MinitvmError as error:
        return json.dumps({"message": _one_line(error)}).encode()
    return b"{}"


def figures(lowered: LoweredFunc) -> dict[str, float]:
    """Count the work of a function: flops, slots, loads and stores of all its kernels together."""
    total = dict.fromkeys(("flops", "slots", "loads", "stores"), 0.0)
    for kernel in lowered.kernels.values():
        work = count(kernel.program(), distinct=False)
        memory = [buffer for buffer in work.loads if buffer.scope == "global"]
        stored = [buffer for buffer in work.stores if buffer.scope == "global"]
        total["flops"] += work.flops
        total["slots"] += work.slots
        total["loads"] += sum(work.loads[buffer] for buffer in memory)
        total["stores"] += sum(work.stores[buffer] for buffer in stored)
    return total


def _one_line(error: MinitvmError) -> str:
    return reason(error) if isinstance(error, ScheduleError) else str(error).splitlines()[0]


@lru_cache(maxsize=4)
def _function(text: str) -> Any:
    return from_json(json.loads(text))


@lru_cache(maxsize=4)
def _target(text: str) -> Target:
    return Target.from_json(text)
