"""The results of `lower` as text: every level, with the schedule's steps as comments."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

TRACE = "schedule_trace"  # the attribute of a function that holds its schedule's steps
NOTES = (TRACE, "schedule_choice")  # attributes that are printed above a function, not in it


def text(result: Any, trace: bool = True, target: Any = None) -> str:
    """A level's result. With `trace`, the steps of a schedule are printed as comments above its function.

    With a `target`, the choice of the schedule and its reasons are printed above them.
    """
    from ...executable import Executable
    from ...executable.printer import script as executable_script
    from ...te import Tensor
    from ...te.printer import script as te_script
    from ...tir.nodes import IRModule, PrimFunc

    if isinstance(result, Mapping):
        return _by_operator(result, trace, target)
    if isinstance(result, str):
        return result.rstrip("\n")
    if isinstance(result, Executable):
        return executable_script(result).rstrip("\n")
    if isinstance(result, list) and all(isinstance(part, Tensor) for part in result):
        return te_script(result)
    if isinstance(result, PrimFunc):
        steps = [f"# {step}" for step in result.attrs.get(TRACE, ())] if trace else []
        why = _decision(result, target) if trace and target is not None else []
        above = [*why, *(["#"] if why and steps else []), *steps, *([""] if why or steps else [])]
        return "\n".join([*above, _without_notes(result).script(with_header=False)]).rstrip()
    if isinstance(result, IRModule):
        functions = {name: _without_notes(func) for name, func in result.items()}
        return IRModule(functions, result.attrs).script(with_header=False).rstrip("\n")
    return str(result).rstrip("\n")


def _decision(func: Any, target: Any) -> list[str]:
    """The choice for a scheduled function, as comments."""
    from ...backend import lookup
    from ...strategy import choice_of
    from ...strategy.report import lines

    explain = lookup(target, "explain")
    return [f"# {line}" for line in (explain(func, target) if explain else lines(choice_of(func)))]


def _without_notes(func: Any) -> Any:
    from ...tir.nodes import PrimFunc

    return PrimFunc(func.params, func.body, {k: v for k, v in func.attrs.items() if k not in NOTES})


def _by_operator(parts: Mapping[str, Any], trace: bool, target: Any) -> str:
    """One part after the other; if several operators have the same text, it is printed once."""
    first: dict[str, str] = {}
    shown = []
    for name, part in parts.items():
        body = text(part, trace, target)
        same_as = first.setdefault(body, name)
        shown.append(f"# --- {name}\n{body}" if same_as == name else f"# --- {name}: the same as {same_as}")
    return "\n\n".join(shown)


def write(program: str) -> None:
    """Print a program, in colour where standard output is a terminal."""
    if not sys.stdout.isatty():
        print(program)
        return
    from rich.console import Console
    from rich.syntax import Syntax

    Console().print(Syntax(program, "python", theme="ansi_dark", background_color="default"), soft_wrap=True)
