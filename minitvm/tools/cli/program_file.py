"""The contents of a Python file: programs in TVMScript, pairs of them, schedules, and schedule primitives."""

from __future__ import annotations

import ast
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ...errors import InputError, InternalError, MinitvmError, MissingExtra, ParseError, ScheduleError

if TYPE_CHECKING:
    from ...tir.schedule import Primitive, Schedule
    from ..explore import Subject

MODULE = "__minitvm_check__"
# A file written for TVM runs here too: if TVM is not installed, its imports are replaced by these.
STAND_INS = {
    "tvm": "minitvm", "tvm.script": "minitvm.script", "tvm.tir": "minitvm.tir", "tvm.te": "minitvm.te",
    "tvm.ir": "minitvm.compat.tvm.ir",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Pair:
    """Two programs that a file claims to mean the same."""

    name: str
    before: Any
    after: Any


@dataclass(slots=True)
class Programs:
    """The contents of a file: functions by name, pairs to compare, and the schedule primitives that it registers."""

    functions: dict[str, Any] = field(default_factory=dict)
    pairs: list[Pair] = field(default_factory=list)
    primitives: list[Primitive] = field(default_factory=list)


def read_programs(path: Path) -> Programs:
    """Run a file and collect its programs.

    Functions are its `PrimFunc`s and those of its `IRModule`s; a lowered module, a host function with its kernels, is
    one. Pairs are `before` and `after`, `NAME_before` and
    `NAME_after`, each `Schedule` with the function that it began with, and, if there is no `Schedule`, each function
    with the result of the file's function `apply_trace(sch)` or `schedule(sch)`. Raises `ParseError` and
    `InputError` with file and line.
    """
    from ...tir import IRModule, PrimFunc
    from ...tir.schedule import Schedule

    names, primitives = _run(path)
    programs = Programs(primitives=primitives)
    schedules: dict[str, Schedule] = {}
    for name, value in names.items():
        whole = isinstance(value, IRModule) and any(f.attrs.get("host") for _, f in value.items())
        if isinstance(value, PrimFunc) or whole:
            programs.functions[name] = value
        elif isinstance(value, IRModule):
            programs.functions |= {f"{name}.{inner}": f for inner, f in value.items()}
        elif isinstance(value, Schedule):
            schedules[name] = value
    for name, value in programs.functions.items():
        partner = _partner(name)
        if partner is not None and partner in programs.functions:
            programs.pairs.append(Pair(f"{name}, {partner}", value, programs.functions[partner]))
    for name, sch in schedules.items():
        began, ended = sch.began_with, sch.mod
        programs.pairs += [Pair(f"{name}: {inner}", began[inner], ended[inner]) for inner in began.functions]
    if not schedules:
        _apply(path, names, programs)
    if not programs.functions and not programs.pairs and not primitives:
        expected = "@T.prim_func, @I.ir_module, a tir.Schedule or a function under @primitive(...)"
        raise InputError(f"{path}: holds no program\n  wanted: {expected}")
    return programs


def read_subjects(path: Path) -> list[Subject]:
    """Run a file and return its schedules, or else its pairs of programs, or else its programs, as `minitvm explore`
    shows them.

    A schedule is followed up to the step that it refuses, if the refusal ends the file. Raises like `read_programs`.
    """
    from ...tir import IRModule, PrimFunc
    from ...tir.schedule import Trace
    from ...tir.schedule.schedule import WATCHERS
    from ..explore import Refusal, Subject

    schedules: list[Schedule] = []
    WATCHERS.append(watcher := lambda sch, _: schedules.append(sch))
    programs, refusal, refused = Programs(), None, None
    try:
        programs = read_programs(path)
    except InputError as error:
        if not isinstance(error.__context__, ScheduleError):
            raise
        refused = _schedule_of(error.__context__)
        refusal = Refusal.of(error.__context__, _statement_of(path, error.__context__))
        if refused is None:
            raise
    finally:
        WATCHERS.remove(watcher)

    def module(program: PrimFunc | IRModule) -> IRModule:
        return program if isinstance(program, IRModule) else IRModule.from_expr(program)

    subjects = [
        Subject(" and ".join(sch.began_with.functions), sch.began_with, sch.trace, refusal if sch is refused else None)
        for sch in schedules
        if len(sch.trace) or sch is refused
    ]
    if not subjects:
        subjects = [Subject(p.name, module(p.before), Trace(), after=module(p.after)) for p in programs.pairs]
    if not subjects:
        subjects = [Subject(name, module(func), Trace()) for name, func in programs.functions.items()]
    if not subjects:
        raise InputError(f"{path}: holds no program to explore\n  wanted: @T.prim_func, or a tir.Schedule")
    return subjects


def _schedule_of(error: ScheduleError) -> Schedule | None:
    """The schedule that refused a step: the outermost one whose method is on the way to the error."""
    from ...tir.schedule import Schedule

    owners = (frame.f_locals.get("self") for frame, _ in traceback.walk_tb(error.__traceback__))
    return next((owner for owner in owners if isinstance(owner, Schedule)), None)


def _statement_of(path: Path, error: BaseException) -> str:
    """The statement of a file that an error comes from, on one line."""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    text = path.read_text(encoding="utf-8")
    statements = [
        node for node in ast.walk(ast.parse(text))
        if lines and isinstance(node, ast.stmt) and not hasattr(node, "body")
        and node.lineno <= (lines[-1] or 0) <= (node.end_lineno or 0)
    ]  # fmt: skip
    return ast.unparse(statements[-1]) if statements else ""


def read_primitives(path: Path) -> list[Primitive]:
    """Run a file and return the schedule primitives that it registers; raises `InputError` if there are none."""
    _, primitives = _run(path)
    if not primitives:
        raise InputError(f"{path}: registers no schedule primitive\n  wanted: a function under @primitive(...)")
    return primitives


def _partner(name: str) -> str | None:
    """The name of the program that `name` is compared with, if it exists."""
    if name == "before" or name.endswith((".before", "_before")):
        return name.removesuffix("before") + "after"
    return "after_" + name.removeprefix("before_") if name.startswith("before_") else None


def _apply(path: Path, names: dict[str, Any], programs: Programs) -> None:
    from ...tir.schedule import Schedule

    step = next((names[n] for n in ("apply_trace", "schedule") if callable(names.get(n))), None)
    if step is None:
        return
    from ...reference.judging.programs import is_lowered

    for name, func in programs.functions.items():
        if is_lowered(func):
            continue
        sch = Schedule(func)
        with blamed_on(path):
            step(sch)
        programs.pairs.append(Pair(f"{name}, scheduled", func, sch.func))


def _run(path: Path) -> tuple[dict[str, Any], list[Primitive]]:
    """Run a file; returns its names, and the primitives that it registered."""
    from ...tir.schedule import PRIMITIVES

    before = dict(PRIMITIVES)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a text in UTF-8 (byte {error.start})") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    module = ModuleType(MODULE)
    module.__file__ = str(path)  # as the user wrote it: messages show this path
    with _stand_ins(), blamed_on(path):
        try:
            code = compile(text, module.__file__, "exec")
        except SyntaxError as error:
            raise _syntax(path, error) from None
        except ValueError as error:  # null bytes
            raise InputError(f"{path}: not Python: {error}") from None
        sys.modules[MODULE] = module
        try:
            exec(code, module.__dict__)
        finally:
            sys.modules.pop(MODULE, None)
    return dict(module.__dict__), [p for name, p in PRIMITIVES.items() if before.get(name) is not p]


@contextmanager
def blamed_on(path: Path) -> Iterator[None]:
    """An exception from the statements of a user's file becomes one message with its line there.

    An internal error stays one, with the line. An exception that no statement of the file caused is not changed, nor is
    the error for a missing package.
    """
    try:
        yield
    except (ParseError, MissingExtra, KeyboardInterrupt):
        raise
    except BaseException as error:
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
        if not lines:
            raise
        line = lines[-1]
        if isinstance(error, InternalError):
            raise InternalError(f"{path}:{line}: {error}") from error
        kind = "" if isinstance(error, MinitvmError) else f"{type(error).__name__}: "
        raise InputError(f"{path}:{line}: {kind}{error}") from None


def _syntax(path: Path, error: SyntaxError) -> ParseError:
    line, column = error.lineno or 1, error.offset or 1
    text = (error.text or "").rstrip("\n")
    shown = text.lstrip()
    caret = " " * max(0, column - 1 - (len(text) - len(shown))) + "^"
    return ParseError(f"{path}:{line}:{column}: {error.msg}\n    {shown}\n    {caret}")


@contextmanager
def _stand_ins() -> Iterator[None]:
    """Let `import tvm` mean this package, unless the real one is there."""
    from importlib import import_module
    from importlib.util import find_spec

    if "tvm" in sys.modules or find_spec("tvm") is not None:
        yield
        return
    sys.modules.update({theirs: import_module(ours) for theirs, ours in STAND_INS.items()})
    try:
        yield
    finally:
        for theirs in STAND_INS:
            sys.modules.pop(theirs, None)
