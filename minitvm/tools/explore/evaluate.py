"""Apply the lines of a schedule to a program in a worker process: its steps, its levels, and the legal next steps.

`evaluate` is the function that `minitvm.workers` calls: JSON in, JSON out.
"""

from __future__ import annotations

import ast
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ...errors import InternalError, MinitvmError, MissingExtra, ScheduleError
from ...script import from_source
from ...target import Target
from ...tir.nodes import IRModule, PrimFunc
from ...tir.schedule import Schedule
from ...tir.schedule.handles import BlockRV, ExprRV, Handle, LoopRV
from ...tir.schedule.registry import transforms
from ...tir.transform.pipeline import lower
from .pages import escape, levels, subject_html
from .readable_names import written
from .stepwise import Refusal, Step, Subject, filmed, script_of, steps

OFFERED, EACH, SECONDS = 120, 6, 4.0  # next steps: in all, of one primitive, and the time to look for them
# The primitives that are offered first.
COMMON = (
    "split", "reorder", "fuse", "vectorize", "parallel", "unroll", "compute_at", "reverse_compute_at", "compute_inline",
    "cache_read", "cache_write", "decompose_reduction", "rfactor", "bind",
)  # fmt: skip
FILMS, FILMED = 200_000, 10_000  # characters of the films of one answer; accesses of the longest one


def evaluate(request: bytes) -> bytes:
    """Answer a request: `{"kind": "draft", "program": ..., "lines": ..., "target": ...}`, of a kind of `KINDS`."""
    fields = json.loads(request)
    return json.dumps(answer(fields["kind"], fields["program"], fields["lines"], Target(fields["target"]))).encode()


def answer(kind: str, program: str, lines: str, target: Target) -> Mapping[str, Any]:
    """The answer as plain data; `message` is not empty if the lines have a mistake, and `line` is its line number."""
    applied = Applied(module_of(program))
    applied.run(lines)
    return {"message": applied.message, "line": applied.line, **KINDS[kind](applied, target)}


def module_of(program: str) -> IRModule:
    """The module of a program in TVMScript."""
    node = from_source(program)
    return IRModule.from_expr(node) if isinstance(node, PrimFunc) else node


class Applied:
    """A schedule to which lines of Python were applied, up to the first one that failed."""

    def __init__(self, module: IRModule) -> None:
        from ... import tir
        from ...script import tir as T

        self.schedule = Schedule(module)
        self.names: dict[str, Any] = {"sch": self.schedule, "tir": tir, "T": T}
        self.refusal: Refusal | None = None
        self.message, self.line = "", 0

    def run(self, lines: str) -> None:
        """Run the lines one statement after the other."""
        try:
            statements = ast.parse(lines, "<schedule>").body
        except (SyntaxError, ValueError) as error:
            self.message, self.line = getattr(error, "msg", None) or str(error), getattr(error, "lineno", None) or 1
            return
        for statement in statements:
            code = compile(ast.Module([statement], []), "<schedule>", "exec")
            try:
                exec(code, self.names)
            except ScheduleError as error:
                self.refusal = Refusal.of(error, ast.unparse(statement))
            except (InternalError, MissingExtra):
                raise
            except (Exception, SystemExit) as error:
                kind = "" if isinstance(error, MinitvmError) else f"{type(error).__name__}: "
                self.message = f"{kind}{error}"
            if self.refusal or self.message:
                self.line = statement.lineno
                return

    @property
    def handles(self) -> dict[Handle, str]:
        """The variables of the lines that hold a block, a loop or a number."""
        kinds = (BlockRV, LoopRV, ExprRV)
        return {value: name for name, value in self.names.items() if isinstance(value, kinds)}


def _draft(applied: Applied, target: Target, draft: bool = True) -> Mapping[str, Any]:
    sch = applied.schedule
    rows: Iterable[Step] = steps(Subject("", sch.began_with, sch.trace, applied.refusal), target, draft)
    rows = list(rows if draft else filmed(rows, FILMS, FILMED))
    return {"html": subject_html(0, "Steps", rows, getattr(target.description, "name", ""), False)}


def _steps(applied: Applied, target: Target) -> Mapping[str, Any]:
    return _draft(applied, target, draft=False)


def _levels(applied: Applied, target: Target) -> Mapping[str, Any]:
    try:
        shown = list(each_level(applied.schedule, target))
    except (InternalError, MissingExtra):
        raise
    except MinitvmError as error:
        return {"html": f'<p class="note">This program cannot be lowered.</p><pre>{escape(str(error))}</pre>'}
    return {"html": levels(shown)}


def each_level(sch: Schedule, target: Target) -> Iterator[tuple[str, str, bool]]:
    """The program at each level and after each pass of lowering: its name, its text, and whether it differs."""
    before = sch.began_with[sch.func_working_on or next(iter(sch.began_with.functions))]
    yield "the program", script_of(before), True
    yield "after the schedule", script_of(sch.func), sch.func is not before
    passed: list[tuple[str, Any, Any]] = []
    lower(sch.func, target, callback=lambda name, old, new: passed.append((name, old, new)))
    last = script_of(sch.func)
    for name, _, new in passed:
        text = script_of(new)
        yield name, text, text != last
        last = text


def _next(applied: Applied, _: Target) -> Mapping[str, Any]:
    """The lines of legal next steps. Looking ends after some seconds, and `more` tells that it did."""
    sch, end = applied.schedule, time.monotonic() + SECONDS
    offered: list[Mapping[str, str]] = []
    order = {name: k for k, name in enumerate(COMMON)}
    for primitive in sorted(transforms(), key=lambda one: order.get(one.name, len(order))):
        if time.monotonic() > end or len(offered) >= OFFERED:
            return {"next": offered, "more": True}
        if primitive.calls is None:
            continue
        for call in sch.space(primitive.name)[:EACH]:
            line = line_of(sch, call, applied.handles)
            if line:
                offered.append({"primitive": primitive.name, "text": call.text, "line": line})
    return {"next": offered, "more": False}


def line_of(sch: Schedule, call: Any, names: Mapping[Handle, str]) -> str:
    """The lines of Python that make a call, after those that `sch` has; "" if Python cannot say it."""
    copied = sch.copy()
    copied.apply(call)
    lines = [line for _, line in written(copied.trace, names)][len(sch.trace) :]
    return "" if any(re.search(r"<\w+>", line) for line in lines) else "\n".join(lines)


KINDS: Mapping[str, Callable[[Applied, Target], Mapping[str, Any]]] = {
    "draft": _draft, "steps": _steps, "levels": _levels, "next": _next,
}  # fmt: skip
