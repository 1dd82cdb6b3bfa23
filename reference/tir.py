"""Level 3, interpreted: `run` executes a loop program on NumPy arrays.

Loops run as they are written, a block once for each point at which its predicate holds, its `init` first where all its
reduction iterators stand at their start. The slow mode is the definition; the fast one gives the same bits.
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
    """Run a level-3 function on arrays and scalars, one a parameter; what it writes, it writes into the arrays.

    `shadow` watches for uninitialised reads, conflicting accesses of parallel iterations and outputs that are not
    written. A parameter that the function writes counts as uninitialised at the start, unless `inout` names it.
    Indices out of bounds are always refused. `order` ("forward", "backward", "shuffled" by `seed`) is that of the
    iterations of parallel, vectorised and thread loops, in slow mode. `listeners` hear what happens, and make the run
    slow. Of a module, `entry` names the function; it is not needed when there is one, or one named "main". A lowered
    module is run by `reference.kernel`.

    Raises `InputError` for arguments that do not fit, `ExecutionError` for a program that does something undefined,
    `Unsupported` for one that the interpreter does not model.
    """
    func = entry_function(program, entry)
    if func.attrs.get("host") and isinstance(program, t.IRModule):
        from .kernel import run_host

        run_host(program, func, args, Settings(shadow, order, seed, listeners), mode, inout, {})
        return
    settings = Settings(shadow, order, seed, listeners)
    run_level_3(func, args, settings, mode, inout)


def entry_function(program: t.PrimFunc | t.IRModule, entry: str | None) -> t.PrimFunc:
    """The function that a run starts with; `Unsupported` where it calls foreign code."""
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
