"""Level 3, interpreted: `run` executes a loop program on NumPy arrays.

Loops run as they are written, a block once for each point at which its predicate holds, its `init` first where all its
reduction iterators stand at their start. The slow mode is the definition; the fast one gives the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minitvm import expr as x
from minitvm.errors import ExecutionError, InputError
from minitvm.events import Listener
from minitvm.tir import nodes as t

from .dependence import Dependence
from .lockstep import GridView, LockstepCompiler, NeedsOrder
from .scalar import Environment
from .slow import _INDEPENDENT, ITERATION, Settings, StatementCompiler, stored_buffers, written_elements
from .storage import Argument, bind_dimensions, row_major
from .tracking import Conflict

MODES = ("fast", "slow")


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
    slow. Of a module, `entry` names the function; it is not needed when there is one, or one named "main".

    Raises `InputError` for arguments that do not fit, `ExecutionError` for a program that does something undefined,
    `Unsupported` for one that the interpreter does not model.
    """
    if mode not in MODES:
        raise InputError(f"mode {mode!r} is unknown; known: {', '.join(MODES)}")
    func = entry_function(program, entry)
    settings = Settings(shadow, order, seed, listeners)
    run_function(func, args, settings, mode, inout)


def entry_function(program: t.PrimFunc | t.IRModule, entry: str | None) -> t.PrimFunc:
    """The function that a run starts with."""
    if isinstance(program, t.PrimFunc):
        return program
    names = list(program.functions)
    chosen = entry or (names[0] if len(names) == 1 else "main")
    if chosen not in program:
        raise InputError(f"the module has no function {chosen!r}; it has {', '.join(names) or 'none'}\n  try:    entry=...")
    return program[chosen]


def run_function(func: t.PrimFunc, args: Sequence[Any], settings: Settings, mode: str, inout: Sequence[str]) -> None:
    """Bind the arguments, run, and check the outputs."""
    values = bind_dimensions(func, args)
    outputs = [p for p in func.buffers if p in stored_buffers(func)]
    unknown = set(inout) - {p.name for p in func.buffers}
    if unknown:
        raise InputError(f"inout names {', '.join(sorted(unknown))}, which {func.name} does not have")
    with np.errstate(all="ignore"):
        if mode == "slow" or settings.listeners:
            run_slow(func, args, values, outputs, settings, inout)
        else:
            run_fast(func, args, values, outputs, settings, inout)


def run_fast(func: t.PrimFunc, args: Sequence[Any], values: dict[x.Var, Any], outputs: Sequence[t.Buffer],
             settings: Settings, inout: Sequence[str]) -> None:  # fmt: skip
    """The same run in lockstep; again with a loop in order after each conflict, and slow where that does not help.

    Errors are found again by the slow run: it says what happened first, with both iterations of a conflict.
    """
    before = {p: array.copy() for p, array in zip(func.params, args) if p in outputs}
    in_order: set[t.For] = set()
    facts = Dependence(func)
    while True:
        try:
            compiler = LockstepCompiler(func, settings, in_order, facts)
            bound = bind_arguments(func, args, values, outputs, settings.shadow, inout)
            for key in (*values, *(a.param for a in bound)):
                compiler.define(key)
            execute = compiler.stmt(func.body)
            env = compiler.environment()
            for variable, value in values.items():
                env[compiler.slot(variable)] = value
            for argument in bound:
                env[compiler.slot(argument.param)] = GridView.of(argument.view)
            execute(env)
        except Conflict as conflict:
            _restore(func, args, before)
            if settings.shadow and conflict.loop.kind in _INDEPENDENT:
                break
            in_order.add(conflict.loop)
        except (NeedsOrder, ExecutionError):
            _restore(func, args, before)
            break
        else:
            finish(bound, outputs, settings.shadow)
            return
    run_slow(func, args, values, outputs, settings, inout)


def _restore(func: t.PrimFunc, args: Sequence[Any], before: dict[t.Buffer, np.ndarray]) -> None:
    for param, array in zip(func.params, args):
        if isinstance(param, t.Buffer) and param in before:
            array[...] = before[param]


def run_slow(func: t.PrimFunc, args: Sequence[Any], values: dict[x.Var, Any], outputs: Sequence[t.Buffer],
             settings: Settings, inout: Sequence[str]) -> None:  # fmt: skip
    """The definition of a run, one element at a time."""
    compiler = StatementCompiler(func, settings)
    for variable in values:
        compiler.define(variable)
    bound = bind_arguments(func, args, values, outputs, settings.shadow, inout)
    for argument in bound:
        compiler.define(argument.param)
    execute = compiler.stmt(func.body)
    env: Environment = [None] * compiler.size
    env[ITERATION] = None
    for variable, value in values.items():
        env[compiler.slot(variable)] = value
    for argument in bound:
        env[compiler.slot(argument.param)] = argument.view
    execute(env)
    finish(bound, outputs, settings.shadow)


def bind_arguments(func: t.PrimFunc, args: Sequence[Any], values: dict[x.Var, Any], outputs: Sequence[t.Buffer],
                   shadow: bool, inout: Sequence[str]) -> list[Argument]:  # fmt: skip
    """Views of the arrays, laid out as their buffers say. Symbolic strides and offsets are those of a dense array."""
    from .scalar import evaluate

    bound = []
    for param, array in zip(func.params, args):
        if not isinstance(param, t.Buffer):
            continue
        dense = row_major(array.shape)
        for stride, value in zip(param.strides, dense):
            if isinstance(stride, x.Var):
                values.setdefault(stride, value)
        if isinstance(param.elem_offset, x.Var):
            values.setdefault(param.elem_offset, 0)
        known = {v: values[v] for e in (*param.strides, param.elem_offset) for v in x.free_vars(e) if v in values}
        strides = tuple(int(evaluate(s, known)) for s in param.strides) or dense
        offset = int(evaluate(param.elem_offset, known))
        init = None if not shadow else param not in outputs or param.name in inout
        bound.append(Argument(param, array, strides, offset, init))
    return bound


def finish(bound: Sequence[Argument], outputs: Sequence[t.Buffer], shadow: bool) -> None:
    """Bring results back and, with shadow, refuse incomplete outputs."""
    for argument in bound:
        argument.write_back()
    if not shadow:
        return
    for argument in bound:
        if argument.param in outputs:
            written_elements(argument.param, argument.view.memory, argument.view)
