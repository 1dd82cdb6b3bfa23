"""What `lower` gives, as text to read: every level, with the schedule's steps as comments."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

TRACE = "schedule_trace"  # the attribute of a function that holds its schedule's steps


def text(result: Any, trace: bool = True) -> str:
    """A level's result. Where `trace`, the steps of a schedule stand as comments above its function."""
    from ..executable import Executable
    from ..executable.printer import script as executable_script
    from ..te import Tensor
    from ..te.printer import script as te_script
    from ..tir.nodes import IRModule, PrimFunc

    if isinstance(result, Mapping):
        return _by_operator(result, trace)
    if isinstance(result, str):
        return result.rstrip("\n")
    if isinstance(result, Executable):
        return executable_script(result).rstrip("\n")
    if isinstance(result, list) and all(isinstance(part, Tensor) for part in result):
        return te_script(result)
    if isinstance(result, PrimFunc):
        steps = [f"# {step}" for step in result.attrs.get(TRACE, ())] if trace else []
        return "\n".join([*steps, *([""] if steps else []), _without_trace(result).script(with_header=False)]).rstrip()
    if isinstance(result, IRModule):
        functions = {name: _without_trace(func) for name, func in result.items()}
        return IRModule(functions, result.attrs).script(with_header=False).rstrip("\n")
    return str(result).rstrip("\n")


def _without_trace(func: Any) -> Any:
    from ..tir.nodes import PrimFunc

    return PrimFunc(func.params, func.body, {k: v for k, v in func.attrs.items() if k != TRACE})


def _by_operator(parts: Mapping[str, Any], trace: bool) -> str:
    """One part after the other; of operators that have the same text only the first is written out."""
    first: dict[str, str] = {}
    shown = []
    for name, part in parts.items():
        body = text(part, trace)
        known = first.setdefault(body, name)
        shown.append(f"# --- {name}\n{body}" if known == name else f"# --- {name}: the same as {known}")
    return "\n\n".join(shown)


def write(program: str) -> None:
    """Print a program, in colour where standard output is a terminal."""
    if not sys.stdout.isatty():
        print(program)
        return
    from rich.console import Console
    from rich.syntax import Syntax

    Console().print(Syntax(program, "python", theme="ansi_dark", background_color="default"), soft_wrap=True)
