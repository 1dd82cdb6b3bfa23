"""Checks that tests of schedules use, under TVM's names."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ....errors import InputError, InternalError, not_verified
from ....expr import first_difference
from ....expr.structural import structural_hash
from ....tir.nodes import IRModule, PrimFunc
from ....tir.schedule.handles import LoopRV
from ....tir.schedule.registry import PRIMITIVES
from ....tir.schedule.schedule import WATCHERS, Schedule
from ....tir.schedule.trace import Instruction, Trace
from ....tir.script.differences import assert_structural_equal


def verify_trace_roundtrip(
    sch: Schedule,
    mod: PrimFunc | IRModule,
    *,
    debug_mask: str | int = "all",  # noqa: ARG001 (TVM's argument)
    text_format: str | Sequence[str] = ("python", "json"),
) -> Schedule:
    """Replay the trace of `sch` on `mod`, as JSON and as Python text, and compare; returns the last schedule so made.

    Raises `InternalError` that names the first difference, and `InputError` for a format of another name.
    """
    formats = [text_format] if isinstance(text_format, str) else list(text_format)
    unknown = [name for name in formats if name not in _FORMATS]
    if unknown or not formats:
        raise InputError(f"formats of traces are {' and '.join(_FORMATS)}, not {', '.join(unknown) or 'none'}")
    for name in formats:
        replayed = Schedule(mod)
        with not_verified():  # the program is compared with one that was verified
            title, replay = _FORMATS[name]
            replay(sch.trace, replayed)
        _assert_same(sch, replayed, title)
    return replayed


def assert_structural_equal_ignore_global_symbol(func1: PrimFunc, func2: PrimFunc, *args: Any, **kwargs: Any) -> None:
    """`ir.assert_structural_equal` for two functions, whatever their names are (TVM's function)."""
    first, second = (func.with_attr("global_symbol", "main") for func in (func1, func2))
    assert_structural_equal(first, second, *args, **kwargs)


def _as_json(trace: Trace, sch: Schedule) -> None:
    Trace.apply_json_to_schedule(json.loads(json.dumps(trace.as_json())), sch)


def _as_python(trace: Trace, sch: Schedule) -> None:
    from .... import tir

    names: dict[str, Any] = {"tir": tir}
    exec(str(trace), names)
    names["apply_trace"](sch)


_FORMATS = {"json": ("JSON", _as_json), "python": ("Python", _as_python)}


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


# What was replayed in this process: the program before, the trace as Python text, the program after, by their hashes.
_REPLAYED: set[tuple[int, str, int]] = set()
# How many traces of each format had an instruction of this form.
_FORMS: Counter[tuple[str, Any]] = Counter()


@contextmanager
def replayed_at_the_end(most: int = 5, of_a_form: int | None = None) -> Iterator[None]:
    """Whatever schedules are made inside: at the end, their traces are replayed on the modules they were made for.

    Only the first `most`, one as JSON and the next as Python text; a trace of a program that was replayed before in
    this process is not again. With `of_a_form`, neither is one whose instructions all have forms that so many traces
    in that format had: texts are written and read instruction by instruction, by the types of their arguments. A
    schedule with a primitive that is not registered any more is left out. Raises as `verify_trace_roundtrip`.
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
    for number, (sch, mod) in enumerate(recorded):
        registered = all(PRIMITIVES.get(inst.primitive.name) is inst.primitive for inst in sch.trace)
        if not registered or not len(sch.trace):
            continue
        text_format = list(_FORMATS)[number % len(_FORMATS)]
        forms = {(text_format, _form(inst)) for inst in sch.trace}
        if of_a_form is not None and all(_FORMS[form] >= of_a_form for form in forms):
            continue
        key = (structural_hash(mod), str(sch.trace), structural_hash(sch.mod))
        if key not in _REPLAYED:
            verify_trace_roundtrip(sch, mod, text_format=text_format)
            _REPLAYED.add(key)
            _FORMS.update(forms)


def _form(value: Any) -> Any:
    """What the texts of a trace distinguish: the primitive and the types of its arguments, of lists those of items."""
    if isinstance(value, Instruction):
        return value.primitive.name, _form(value.arguments), _form(value.result), _form(value.decision)
    if isinstance(value, Mapping):
        return tuple((name, _form(item)) for name, item in value.items())
    if isinstance(value, list | tuple):
        return type(value), frozenset(_form(item) for item in value)
    return type(value)


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
