"""Checks that tests of schedules use, under TVM's names."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ...errors import InternalError
from ...expr import first_difference
from ..nodes import IRModule, PrimFunc
from .handles import LoopRV
from .registry import PRIMITIVES
from .schedule import WATCHERS, Schedule
from .trace import Trace


def verify_trace_roundtrip(
    sch: Schedule,
    mod: PrimFunc | IRModule,
    *,
    debug_mask: str | int = "all",  # noqa: ARG001 (TVM's argument)
    text_format: str | Sequence[str] = ("python", "json"),
) -> Schedule:
    """Replay the trace of `sch` on `mod`, as JSON and as Python text, and compare; returns the schedule from the JSON.

    Raises `InternalError` that names the first difference.
    """
    formats = [text_format] if isinstance(text_format, str) else list(text_format)
    replayed = Schedule(mod)
    Trace.apply_json_to_schedule(json.loads(json.dumps(sch.trace.as_json())), replayed)
    _assert_same(sch, replayed, "JSON")
    if "python" in formats:
        from ... import tir

        names: dict[str, Any] = {"tir": tir}
        exec(str(sch.trace), names)
        printed = Schedule(mod)
        names["apply_trace"](printed)
        _assert_same(sch, printed, "Python")
    return replayed


def _assert_same(expected: Schedule, actual: Schedule, kind: str) -> None:
    difference = first_difference(expected.mod, actual.mod)
    if difference is not None:
        raise InternalError(f"the trace does not survive {kind}: the programs differ at {difference}")
    if expected.trace.as_python() != actual.trace.as_python():
        raise InternalError(f"the trace does not survive {kind}: replayed, it prints differently")


def loop_handles(sch: Schedule) -> list[LoopRV]:
    """Handles of the loops around blocks, in the order of the text: those that a query, and so a trace, leads to."""
    tree = sch.state.tree()
    return [LoopRV(var) for var, loop in tree.loops.items() if tree.blocks_in(loop)]


@contextmanager
def replayed_at_the_end(most: int = 20) -> Iterator[None]:
    """Whatever schedules are made inside: at the end, their traces are replayed on the modules they were made for.

    Only the first `most`. A schedule with a primitive that is not registered any more is left out. Raises as
    `verify_trace_roundtrip`.
    """
    recorded: list[tuple[Schedule, IRModule]] = []

    def watch(sch: Schedule, mod: IRModule) -> None:
        if len(recorded) < most:
            recorded.append((sch, mod))

    WATCHERS.append(watch)
    try:
        yield
    finally:
        WATCHERS.remove(watch)
    for sch, mod in recorded:
        registered = all(PRIMITIVES.get(inst.primitive.name) is inst.primitive for inst in sch.trace)
        if registered and len(sch.trace):
            verify_trace_roundtrip(sch, mod)


@contextmanager
def registrations_undone() -> Iterator[None]:
    """Primitives that are registered inside are removed at the end, with their methods; replaced ones are restored."""
    before = dict(PRIMITIVES)
    attributes = dict(vars(Schedule))
    try:
        yield
    finally:
        PRIMITIVES.clear()
        PRIMITIVES.update(before)
        for name in [name for name in vars(Schedule) if name not in attributes]:
            delattr(Schedule, name)
        for name, value in attributes.items():
            if name in before:
                setattr(Schedule, name, value)
