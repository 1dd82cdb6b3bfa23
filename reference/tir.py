"""Interpret loop programs: `run` executes one on NumPy arrays.

Loops run as they are written. A block runs once for each point at which its predicate holds, and its `init` runs first
at points where all reduction iterators have their first value. The slow mode is the definition; the fast mode gives the
same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minitvm.errors import InputError
from minitvm.events import Listener
from minitvm.expr.foreign import require_runnable
from minitvm.tir import nodes as t
from minitvm.tir.meanings import written_out

from .meaning.assumptions import checked
from .meaning.runner import run_level_3
from .meaning.settings import Settings


def run(
    program: t.PrimFunc | t.IRModule,
    *args: Any,
    mode: str = "fast",
    shadow: bool = True,
    order: str = "forward",
    seed: int = 0,
    listeners: Sequence[Listener] = (),
    inout: Sequence[str] = (),
    entry: str | None = None,
) -> None:
    """Run a loop program on arrays and scalars, one per parameter. Results are written into the arrays.

    `shadow` checks for uninitialised reads, conflicting accesses of parallel iterations and outputs that are not
    written. A parameter that the function writes counts as uninitialised at the start, unless `inout` names it. Indices
    out of bounds are always refused. `order` ("forward", "backward", "shuffled" by `seed`) is that of the iterations of
    parallel, vectorised and thread loops, in slow mode. `listeners` are told about each event, and make the run slow.
    `entry` names the function of a module; it is not needed if there is only one, or one named "main". A lowered module
    is run by `reference.kernel`.

    Raises `InputError` for arguments that do not fit, `ExecutionError` for undefined behaviour of the program, and
    `Unsupported` for a program that the interpreter does not model.
    """
    func = entry_function(program, entry)
    if func.attrs.get("host") and isinstance(program, t.IRModule):
        from .kernel import run_host

        run_host(program, func, args, Settings(shadow, order, seed, listeners), mode, inout, {})
        return
    settings = Settings(shadow, order, seed, listeners)
    run_level_3(func, args, settings, mode, inout)


def entry_function(program: t.PrimFunc | t.IRModule, entry: str | None) -> t.PrimFunc:
    """Return the function that a run starts with; raises `Unsupported` if it calls foreign code."""
    func = checked(written_out(_entry(program, entry)))
    require_runnable(func)
    return func


def _entry(program: t.PrimFunc | t.IRModule, entry: str | None) -> t.PrimFunc:
    if isinstance(program, t.PrimFunc):
        return program
    names = [n for n, f in program.items() if f.attrs.get("host")] or list(program.functions)
    name = entry or (names[0] if len(names) == 1 else "main")
    if name not in program:
        raise InputError(
            f"the module has no function {name!r}; it has {', '.join(names) or 'none'}\n  try:    entry=..."
        )
    return program[name]
