"""`build` and `lower`: the one module that contains the whole path from a model to a program that runs.

model -> graph -> fused graph -> te -> tir -> scheduled tir -> kernels -> source -> executable -> module
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

import numpy as np

from . import lowering
from .backend import get as get_backend
from .backend import lookup
from .build_options import BuildOptions, ForBuild, ForLower, ModelOptions, PassCallback, options_of
from .errors import InputError, nearest
from .executable import nodes as x
from .importing import imported, sources_of
from .link import link_function, link_graph
from .link.bounds import input_bounds
from .link.levels import level_of, units_of
from .lowering.cache import operators_are_ours, usable
from .lowering.units import named
from .records.lookup import algorithms, database_state, decisions
from .runtime import externals
from .runtime.artifact import kept as kept_models
from .strategy.algorithms import are_decided, decided_algorithms
from .target import Target
from .tir.nodes import IRModule, PrimFunc

if TYPE_CHECKING:
    from .graph import Graph
    from .runtime import Function, GraphModule
    from .strategy import Decision
    from .te import Tensor

# The named stops of `lower`, in order; those from "te" on are a dictionary by fused operator.
STOPS = ("graph", "fused", "te", "tir", "schedule", "kernel", "source", "executable")


@overload
def build(model: PrimFunc, target: str | Target = ..., **options: Unpack[ForBuild]) -> Function: ...
@overload
def build(
    model: Graph | str | os.PathLike[str], target: str | Target = ..., **options: Unpack[ForBuild]
) -> GraphModule: ...
@overload
def build(model: Any, target: str | Target = ..., **options: Unpack[ForBuild]) -> Any: ...
def build(model: Any, target: str | Target = "cpu", **options: Unpack[ForBuild]) -> Any:
    """Compile a model to a `runtime.GraphModule`, or a tir function to a `runtime.Function`.

    `model` is a `graph.Graph`, an ONNX model, a `torch.export.ExportedProgram`, the path of a file of these or of a
    TFLite model (.onnx, .pt2, .tflite), a `PrimFunc` or an `IRModule`; for a module of several functions the result is
    a `runtime.Functions`, which maps names to functions. The options are the fields of `build_options.BuildOptions`:

        params, shapes, stop_before, states, max_length,   describe the model
        cache_dtype, slots
        accuracy, tuned ("auto" if not given), checked,    decide how it is compiled
        replace
        engines                                            are libraries that compute parts of it
        threads, device                                    decide where it runs
        progress                                           is called during the build

    Raises a `MinitvmError` for every invalid argument.
    """
    from .runtime import Function, GraphModule

    settings = options_of("build", {"tuned": "auto", **options}, ForBuild)
    machine = code_target(target)
    require_runnable = lookup(machine, "require_runnable")
    if require_runnable is not None:
        require_runnable(machine)
    opened = lookup(machine, "opened")
    if opened is not None and settings.device is None:
        opened()  # report what is missing before the work begins
    if isinstance(model, IRModule) and len(model.functions) > 1 and not _has_host(model):
        from .runtime import Functions

        of_function: ForBuild = {"threads": settings.threads, "progress": settings.progress, "device": settings.device}
        return Functions({name: build(func, machine, **of_function) for name, func in model.items()})
    is_function = isinstance(model, PrimFunc | IRModule)
    if is_function and settings.replace:
        what = model.name if isinstance(model, PrimFunc) else "a module"
        raise InputError(f"replace= goes with a model; {what} has no operators")
    if is_function and settings.checked:
        raise InputError(
            "checked=True goes with a model; a tir function has no operators\n  try:    tir.run(func, ...)"
        )
    progress = settings.progress
    compiling = (lambda done, total, name: progress("compiling", done, total)) if progress else None
    place = None if is_function else _kept_as(model, machine, settings)
    if place is not None:
        loaded = kept_models.get(*place, settings.threads, compiling)
        if loaded is not None:
            return loaded
    if not is_function:
        model = _graph_of(model, settings)
        if settings.checked:
            from .graph.checked import checked_indices

            model = checked_indices(model)
    executable = compile_executable(model, machine, settings)
    make = Function if is_function else GraphModule
    module = make(executable, threads=settings.threads, progress=compiling, device=settings.device)
    if place is not None and isinstance(module, GraphModule):
        kept_models.put(*place, module)
    return module


def _kept_as(model: Any, target: Target, settings: BuildOptions) -> tuple[bytes, str] | None:
    """Return the key and the name under which a compiled model is kept on disk, or None if it is not.

    The key has everything that decides the result: the state of the model's files, the options, the target, and the
    code. So no model is kept if arrays or code from outside the package take part.
    """
    others = (settings.params, settings.replace, settings.callback, settings.engines or None, settings.device)
    if any(option is not None for option in others) or are_decided():
        return None
    files = sources_of(model)
    if not files or not all(file.settled for file in files):
        return None
    records = database_state(settings.tuned)
    if records is None or not usable(target) or not operators_are_ours():
        return None
    plain = {**settings.of_model, "accuracy": settings.accuracy, "checked": settings.checked}
    try:
        key = kept_models.key_of(list(map(astuple, (*files, *records))), plain, target.code_identity())
    except TypeError:  # an option that is no plain data
        return None
    return key, Path(files[0].path).stem


@overload
def lower(
    model: Any, target: str | Target = ..., *, stop_at: Literal["graph", "fused"], **options: Unpack[ForLower]
) -> Graph: ...
@overload
def lower(
    model: Any, target: str | Target = ..., *, stop_at: Literal["te"], **options: Unpack[ForLower]
) -> dict[str, list[Tensor]]: ...
@overload
def lower(
    model: Any, target: str | Target = ..., *, stop_at: Literal["tir", "schedule"], **options: Unpack[ForLower]
) -> dict[str, PrimFunc]: ...
@overload
def lower(
    model: Any, target: str | Target = ..., *, stop_at: Literal["kernel"] = ..., **options: Unpack[ForLower]
) -> dict[str, IRModule]: ...
@overload
def lower(
    model: Any, target: str | Target = ..., *, stop_at: Literal["source"], **options: Unpack[ForLower]
) -> dict[str, str]: ...
@overload
def lower(
    model: Any, target: str | Target = ..., *, stop_at: Literal["executable"], **options: Unpack[ForLower]
) -> x.Executable: ...
@overload
def lower(model: Any, target: str | Target = ..., stop_at: str = ..., **options: Unpack[ForLower]) -> Any: ...
def lower(model: Any, target: str | Target = "cpu", stop_at: str = "kernel", **options: Unpack[ForLower]) -> Any:
    """Lower a model to one of its levels and return it there.

    "graph" and "fused" return a `graph.Graph`. "te" (lists of tensors, inputs first), "tir" and "schedule"
    (`PrimFunc`s), "kernel" (`IRModule`s: a host function and its kernels) and "source" (text) return a dictionary with
    one entry for each fused operator. "executable" returns an `executable.Executable`. A tir function begins at "tir".
    `only` is the name of a fused operator; all others are left out. `callback(name, before, after)` is called after
    every pass. The other options are those of `build` that describe the model and decide how it is compiled. Unlike
    `build`, `lower` looks for no tuning records unless you pass `tuned`.
    """
    if stop_at not in STOPS:
        raise InputError(f"stop_at={stop_at!r}: wanted one of {', '.join(STOPS)}; {nearest(stop_at, STOPS)}")
    settings = options_of("lower", options, ForLower)
    machine = _at_hand(target) if stop_at in ("graph", "fused", "te", "tir") else code_target(target)
    if stop_at == "executable":
        if not isinstance(model, PrimFunc | IRModule):
            model = _graph_of(model, settings)
        return compile_executable(model, machine, settings)
    if isinstance(model, PrimFunc | IRModule):
        func = _single(model)
        if stop_at in ("graph", "fused", "te"):
            raise InputError(f"stop_at={stop_at!r}: a tir function begins at 'tir'")
        return {func.name: _descend(func, machine, stop_at, settings.callback, schedule=False)}
    graph = _graph_of(model, settings)
    if stop_at == "graph":
        return graph
    fused = optimize_graph(graph, machine, settings)
    if stop_at == "fused":
        return fused
    nodes = _selected(fused, settings.only)
    if stop_at == "te":
        from .graph.lower import to_te

        return {name: to_te(node) for name, node in nodes}
    units = lowering.to_units(nodes)
    places = {u.function.key: lowering.place(u.func, machine, u.function.operators).target for u in units}
    decided: dict[bytes, Decision] = {}
    for one in dict.fromkeys(places.values()) if stop_at != "tir" else ():
        decided |= decisions([unit.function for unit in units if places[unit.function.key] == one], one, settings.tuned)
    levels: dict[bytes, Any] = {}
    programs: dict[str, Any] = {}
    for count, unit in enumerate(units):
        key = unit.function.key
        if key not in levels:
            levels[key] = _descend(unit.func, places[key], stop_at, settings.callback, decision=decided.get(key))
        programs[unit.name] = levels[key]
        if settings.progress:
            settings.progress(f"lowering to {stop_at}", count + 1, len(units))
    return programs


def _graph_of(model: Any, settings: BuildOptions) -> Graph:
    """Return the graph of a model, in which the operators that `replace` names are replaced."""
    graph: Graph = imported(model, settings.of_model)
    if not settings.replace:
        return graph
    from .graph.replacing import replaced

    return replaced(graph, settings.replace)


def code_target(target: str | Target) -> Target:
    """Return the target as a `Target`. If it names no device, fill in the properties of the device in this machine.

    Raises `TargetError` if minitvm cannot generate code for the target.
    """
    get_backend(Target.of(target))
    return _at_hand(target)


def _at_hand(target: str | Target) -> Target:
    """Like `code_target`, but also accept a target that has no code generator."""
    machine = Target.of(target)
    at_hand = lookup(machine, "at_hand")
    return machine if at_hand is None else at_hand(machine)


def to_graph(model: Any, **options: Unpack[ModelOptions]) -> Any:
    """Convert a model to a `graph.Graph`. `model` may be a `Graph` or anything that a frontend accepts.

    The inputs in `params` become constants.
    """
    return imported(model, options_of("to_graph", options, ModelOptions).of_model)


def compile_executable(model: Any, target: Target, options: BuildOptions = BuildOptions()) -> x.Executable:
    """Compile a model or a function to an executable. Its kernels are still source text, not machine code."""
    if isinstance(model, PrimFunc | IRModule):
        return link_function(lowering.lower_function(_single(model), target, options.callback), target.brief)
    graph = to_graph(model)
    return compile_fused(graph, optimize_graph(graph, target, options), target, options)


def compile_fused(graph: Any, fused: Any, target: Target, options: BuildOptions = BuildOptions()) -> x.Executable:
    """Compile a graph to an executable. `graph` is the graph before the passes ran, and `fused` is the graph after
    them.
    """
    level = level_of(fused)
    units = units_of(level)
    needed = [node for inner in level.all() for node in inner.graph.nodes if inner.needs_function(node)]
    functions = list(dict.fromkeys(units[node].function for node in needed))
    progress = options.progress
    report = (lambda done, total: progress("lowering", done, total)) if progress else None
    lowered = lowering.lower_placed(
        functions, target, options.callback, report, lambda group, machine: decisions(group, machine, options.tuned)
    )
    return link_graph(level, units, lowered, lowering.host_of(target).brief, input_bounds(graph), graph)


LEVELS_OF_OPERATOR = ("fused", "te", "tir", "schedule", "kernel", "source")


def stage(unit: lowering.Unit, target: Target, level: str) -> Any:
    """Lower one fused operator to `level`, one of `LEVELS_OF_OPERATOR`, and return its program there."""
    if level == "fused":
        return unit.node.graph if unit.node.op == "fused" else unit.node
    if level == "te":
        from .graph.lower import to_te

        return to_te(unit.node)
    return _descend(unit.func, lowering.place(unit.func, target, unit.function.operators).target, level, None)


def _descend(
    func: PrimFunc,
    target: Target,
    stop_at: str,
    callback: PassCallback | None,
    schedule: bool = True,
    decision: Decision | None = None,
) -> Any:
    if stop_at == "tir":
        return func
    if stop_at == "schedule":
        return lowering.schedule_function(func, target, decision) if schedule else func

    def lowered(scheduled: PrimFunc) -> Any:
        if stop_at == "kernel":
            return lowering.to_kernels(scheduled, target, callback)
        return "\n\n".join(lowering.lower_function(scheduled, target, callback, before=func).sources.values())

    return lowering.with_a_schedule(func, target, lowered, decision) if schedule else lowered(func)


def optimize_graph(graph: Any, target: Target, options: BuildOptions = BuildOptions()) -> Any:
    """Run all passes over a graph and return the result, in which every node is a fused operator or a loop.

    Each convolution gets the algorithm that was fastest in the records `options.tuned`. Without records, it gets the
    one that the innermost `decided_algorithms` names, or else the one that the cost formula prefers.
    """
    from .graph.passes.pipeline import optimize

    def evaluate(node: Any, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        return evaluate_node(node, arrays, lowering.host_of(target))

    recorded = algorithms(target, options.tuned)
    with decided_algorithms(recorded) if recorded else nullcontext():
        return optimize(
            graph, target, evaluate=evaluate, callback=options.callback, accuracy=options.accuracy,
            engines=externals.passes(options.engines, target, options.threads),
        )  # fmt: skip


def evaluate_node(node: Any, arrays: Sequence[np.ndarray], target: Target) -> list[np.ndarray]:
    """Compile an operator, run it on the given arrays, and return its outputs.

    Constant folding uses this for operators that have no `fold` function. The target's kernels run on this machine.
    """
    from .graph import GraphBuilder
    from .runtime import GraphModule
    from .runtime.here import on_this_machine

    builder = GraphBuilder(node.op)
    inputs = [builder.input(f"x{k}", v.shape, v.dtype) for k, v in enumerate(node.inputs)]
    outputs = builder.op(node.op, *inputs, **node.attrs)
    graph = builder.build(outputs)
    results = GraphModule(on_this_machine(compile_executable(graph, target)), threads=1)(*arrays)
    return list(results) if isinstance(results, tuple) else [results]


def _has_host(module: IRModule) -> bool:
    return any(func.attrs.get("host") for _, func in module.items())


def _single(model: PrimFunc | IRModule) -> PrimFunc:
    if isinstance(model, PrimFunc):
        return model
    functions = list(model.functions.values())
    if len(functions) != 1:
        raise InputError(f"build takes a module of one function, found {len(functions)}: {', '.join(model.functions)}")
    return functions[0]


def _selected(fused: Any, only: str | None) -> list[tuple[str, Any]]:
    nodes = named(fused)
    if only is None:
        return nodes
    selected = [(name, node) for name, node in nodes if name == only]
    if not selected:
        raise InputError(f"no operator {only}; {nearest(only, [name for name, _ in nodes])}")
    return selected
