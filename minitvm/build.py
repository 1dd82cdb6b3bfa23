"""`build` and `lower`: the only module that contains the whole way from a model to a program that runs.

model -> graph -> fused graph -> te -> tir -> scheduled tir -> kernels -> source -> executable -> module
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, overload

import numpy as np

from .backend import get as get_backend
from .backend import lookup
from .errors import InputError, nearest
from .executable import nodes as x
from .link import link_function, link_graph
from .link.bounds import input_bounds
from .link.levels import level_of, units_of
from .lowering import (
    Unit,
    host_of,
    lower_function,
    lower_placed,
    place,
    schedule_function,
    to_kernels,
    to_units,
    with_a_schedule,
)
from .lowering.units import named
from .records.lookup import algorithms, decisions
from .strategy.algorithms import decided_algorithms
from .target import Target
from .tir.nodes import IRModule, PrimFunc

if TYPE_CHECKING:
    from .expr import Expr
    from .graph import Graph
    from .runtime import Function, GraphModule
    from .strategy import Decision
    from .te import Tensor

Progress = Callable[[str, int, int], None]
Shapes = Mapping[str, Sequence["int | Expr | str | None"]]
PassCallback = Callable[[str, Any, Any], None]

ACCURACIES = ("fast", "strict")

# The named stops of `lower`, in order; those from "te" on are a dictionary by fused operator.
STOPS = ("graph", "fused", "te", "tir", "schedule", "kernel", "source", "executable")


class _BuildOptions(TypedDict, total=False):
    """The options of `build` that every overload has."""

    target: str | Target
    threads: int | None
    params: Mapping[str, np.ndarray] | None
    shapes: Shapes | None
    stop_before: str | None
    states: Mapping[str, str] | bool | None
    max_length: int | None
    progress: Progress | None
    accuracy: str
    tuned: str | None
    device: str | int | None
    checked: bool


class _LowerOptions(TypedDict, total=False):
    """The options of `lower` that every overload has."""

    target: str | Target
    params: Mapping[str, np.ndarray] | None
    shapes: Shapes | None
    stop_before: str | None
    states: Mapping[str, str] | bool | None
    max_length: int | None
    callback: PassCallback | None
    progress: Progress | None
    only: str | None
    accuracy: str
    tuned: str | None


@overload
def build(model: PrimFunc, **options: Unpack[_BuildOptions]) -> Function: ...
@overload
def build(model: Graph | str | os.PathLike[str], **options: Unpack[_BuildOptions]) -> GraphModule: ...
@overload
def build(
    model: Any, target: str | Target = ..., threads: int | None = ..., params: Mapping[str, np.ndarray] | None = ...,
    shapes: Shapes | None = ..., progress: Progress | None = ..., accuracy: str = ...,
    stop_before: str | None = ..., states: Mapping[str, str] | bool | None = ..., max_length: int | None = ...,
    tuned: str | None = ..., device: str | int | None = ..., checked: bool = ...,
) -> Any: ...  # fmt: skip
def build(
    model: Any,
    target: str | Target = "cpu",
    threads: int | None = None,
    params: Mapping[str, np.ndarray] | None = None,
    shapes: Shapes | None = None,
    progress: Progress | None = None,
    accuracy: str = "fast",
    stop_before: str | None = None,
    states: Mapping[str, str] | bool | None = None,
    max_length: int | None = None,
    tuned: str | None = "auto",
    device: str | int | None = None,
    checked: bool = False,
) -> Any:
    """Compile a model to a `runtime.GraphModule`, or a tir function to a `runtime.Function`.

    `model` is a `graph.Graph`, an ONNX model, a `torch.export.ExportedProgram`, the path of a file of these (.onnx,
    .pt2), a `PrimFunc` or an `IRModule`; for a module of several functions the result is `runtime.Functions`, by name.
    `threads` is the size of the thread team (default: MINITVM_NUM_THREADS, or the cores this process may run on).
    `params` gives inputs a constant value by name. `shapes` gives the dimensions of inputs that an ONNX model leaves
    open: {"x": ("b", 3, None)}, a size, a name (equal ones are one dimension) or None. `stop_before` compiles the model
    up to a node or operator of that name, or up to what is not supported ("unsupported"). `states` are inputs of an
    ONNX model that are outputs of the run before, {"past": "present"}, or True for the usual names; `max_length` bounds
    the context that they hold (see `frontends.onnx.from_onnx`). `progress(stage, done, total)` is called during the
    work. `accuracy="strict"` allows only algorithms that round no worse than the sums as written: no Winograd
    convolution, which also spreads NaN and infinity to a whole tile of up to 4 x 4 results. `tuned` is the database
    from which a model's operators take the schedules that won when they were tuned (`minitvm tune`): its path or URL,
    None for none, or "auto", the user's own (MINITVM_RECORDS) if there is one. `device` is the number of a GPU, or a
    part of its name, if there are several of the target's kind.
    `checked=True` ends a run with an error when an index that data decide is out of range; otherwise such an index
    stands for the nearest element (docs/semantics.md).
    Raises a `MinitvmError` for every fault of the arguments.
    """
    from .runtime import Function, GraphModule

    if threads is not None and threads < 1:
        raise InputError(f"threads={threads}: wanted a number from 1")
    _require_accuracy(accuracy)
    machine = code_target(target)
    opened = lookup(machine, "opened")
    if opened is not None and device is None:
        opened()  # what is missing is said before the work
    if isinstance(model, IRModule) and len(model.functions) > 1 and not _has_host(model):
        from .runtime import Functions

        built = {name: build(func, machine, threads, progress=progress, device=device) for name, func in model.items()}
        return Functions(built)
    is_function = isinstance(model, PrimFunc | IRModule)
    if is_function and checked:
        raise InputError(
            "checked=True goes with a model; a tir function has no operators\n  try:    tir.run(func, ...)"
        )
    if not is_function:
        model = to_graph(model, shapes, params, stop_before, states, max_length)
        if checked:
            from .graph.checked import checked_indices

            model = checked_indices(model)
    executable = compile_executable(model, machine, progress=progress, accuracy=accuracy, tuned=tuned)
    compiling = (lambda done, total, name: progress("compiling", done, total)) if progress else None
    make = Function if is_function else GraphModule
    return make(executable, threads=threads, progress=compiling, device=device)


@overload
def lower(model: Any, *, stop_at: Literal["graph", "fused"], **options: Unpack[_LowerOptions]) -> Graph: ...
@overload
def lower(model: Any, *, stop_at: Literal["te"], **options: Unpack[_LowerOptions]) -> dict[str, list[Tensor]]: ...
@overload
def lower(
    model: Any, *, stop_at: Literal["tir", "schedule"], **options: Unpack[_LowerOptions]
) -> dict[str, PrimFunc]: ...
@overload
def lower(model: Any, *, stop_at: Literal["kernel"] = ..., **options: Unpack[_LowerOptions]) -> dict[str, IRModule]: ...
@overload
def lower(model: Any, *, stop_at: Literal["source"], **options: Unpack[_LowerOptions]) -> dict[str, str]: ...
@overload
def lower(model: Any, *, stop_at: Literal["executable"], **options: Unpack[_LowerOptions]) -> x.Executable: ...
@overload
def lower(
    model: Any, target: str | Target = ..., stop_at: str = ..., params: Mapping[str, np.ndarray] | None = ...,
    shapes: Shapes | None = ..., callback: PassCallback | None = ...,
    progress: Progress | None = ..., only: str | None = ..., accuracy: str = ...,
    stop_before: str | None = ..., states: Mapping[str, str] | bool | None = ..., max_length: int | None = ...,
    tuned: str | None = ...,
) -> Any: ...  # fmt: skip
def lower(
    model: Any,
    target: str | Target = "cpu",
    stop_at: str = "kernel",
    params: Mapping[str, np.ndarray] | None = None,
    shapes: Shapes | None = None,
    callback: PassCallback | None = None,
    progress: Progress | None = None,
    only: str | None = None,
    accuracy: str = "fast",
    stop_before: str | None = None,
    states: Mapping[str, str] | bool | None = None,
    max_length: int | None = None,
    tuned: str | None = None,
) -> Any:
    """A model at one of its levels.

    "graph" and "fused" return a `graph.Graph`. "te" (lists of tensors, inputs first), "tir" and "schedule"
    (`PrimFunc`s), "kernel" (`IRModule`s: a host function and its kernels) and "source" (text) return a dictionary by
    fused operator. "executable" returns an `executable.Executable`. A tir function begins at "tir". `only` keeps one
    fused operator, by its name. `callback(name, before, after)` is called after every pass. The other options are those
    of `build`; but without `tuned` no records are looked for.
    """
    if stop_at not in STOPS:
        raise InputError(f"stop_at={stop_at!r}: wanted one of {', '.join(STOPS)}; {nearest(stop_at, STOPS)}")
    _require_accuracy(accuracy)
    machine = _at_hand(target) if stop_at in ("graph", "fused", "te", "tir") else code_target(target)
    if stop_at == "executable":
        if not isinstance(model, PrimFunc | IRModule):
            model = to_graph(model, shapes, params, stop_before, states, max_length)
        return compile_executable(model, machine, callback=callback, progress=progress, accuracy=accuracy, tuned=tuned)
    if isinstance(model, PrimFunc | IRModule):
        func = _single(model)
        if stop_at in ("graph", "fused", "te"):
            raise InputError(f"stop_at={stop_at!r}: a tir function begins at 'tir'")
        return {func.name: _descend(func, machine, stop_at, callback, schedule=False)}
    graph = to_graph(model, shapes, params, stop_before, states, max_length)
    if stop_at == "graph":
        return graph
    fused = optimize_graph(graph, machine, callback, accuracy, tuned)
    if stop_at == "fused":
        return fused
    nodes = _selected(fused, only)
    if stop_at == "te":
        from .graph.lower import to_te

        return {name: to_te(node) for name, node in nodes}
    units = to_units(nodes)
    places = {u.function.key: place(u.func, machine, u.function.operators).target for u in units}
    decided: dict[bytes, Decision] = {}
    for one in dict.fromkeys(places.values()) if stop_at != "tir" else ():
        decided |= decisions([unit.function for unit in units if places[unit.function.key] == one], one, tuned)
    levels: dict[bytes, Any] = {}
    programs: dict[str, Any] = {}
    for count, unit in enumerate(units):
        key = unit.function.key
        if key not in levels:
            levels[key] = _descend(unit.func, places[key], stop_at, callback, decision=decided.get(key))
        programs[unit.name] = levels[key]
        if progress:
            progress(f"lowering to {stop_at}", count + 1, len(units))
    return programs


def _require_accuracy(accuracy: str) -> None:
    if accuracy not in ACCURACIES:
        raise InputError(f"accuracy={accuracy!r}: wanted {' or '.join(ACCURACIES)}")


def code_target(target: str | Target) -> Target:
    """The target, with what the device of this machine has where it names no device.

    Raises `TargetError` if code cannot be generated for it.
    """
    get_backend(Target.of(target))
    return _at_hand(target)


def _at_hand(target: str | Target) -> Target:
    """The same for any target, also one for which there is no code generator."""
    machine = Target.of(target)
    at_hand = lookup(machine, "at_hand")
    return machine if at_hand is None else at_hand(machine)


def to_graph(
    model: Any,
    shapes: Shapes | None = None,
    params: Mapping[str, np.ndarray] | None = None,
    stop_before: str | None = None,
    states: Mapping[str, str] | bool | None = None,
    max_length: int | None = None,
) -> Any:
    """A `graph.Graph` from a Graph, or from what a frontend takes, with the inputs `params` made constant."""
    from .importing import imported

    options = {
        "shapes": shapes, "values": params, "stop_before": stop_before, "states": states, "max_length": max_length,
    }  # fmt: skip
    return imported(model, options)


def compile_executable(
    model: Any,
    target: Target,
    callback: PassCallback | None = None,
    progress: Progress | None = None,
    accuracy: str = "fast",
    tuned: str | None = None,
) -> x.Executable:
    """Everything up to the executable; its kernels are source, not yet machine code."""
    if isinstance(model, PrimFunc | IRModule):
        return link_function(lower_function(_single(model), target, callback), target.brief)
    graph = to_graph(model)
    fused = optimize_graph(graph, target, callback, accuracy, tuned)
    return compile_fused(graph, fused, target, callback, progress, tuned)


def compile_fused(
    graph: Any,
    fused: Any,
    target: Target,
    callback: PassCallback | None = None,
    progress: Progress | None = None,
    tuned: str | None = None,
) -> x.Executable:
    """The executable of a graph that is `fused` after its passes."""
    level = level_of(fused)
    units = units_of(level)
    needed = [node for inner in level.all() for node in inner.graph.nodes if inner.needs_function(node)]
    functions = list(dict.fromkeys(units[node].function for node in needed))
    report = (lambda done, total: progress("lowering", done, total)) if progress else None
    lowered = lower_placed(functions, target, callback, report, lambda group, machine: decisions(group, machine, tuned))
    return link_graph(level, units, lowered, host_of(target).brief, input_bounds(graph), graph)


LEVELS_OF_OPERATOR = ("fused", "te", "tir", "schedule", "kernel", "source")


def stage(unit: Unit, target: Target, level: str) -> Any:
    """One fused operator at one of LEVELS_OF_OPERATOR."""
    if level == "fused":
        return unit.node.graph if unit.node.op == "fused" else unit.node
    if level == "te":
        from .graph.lower import to_te

        return to_te(unit.node)
    return _descend(unit.func, place(unit.func, target, unit.function.operators).target, level, None)


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
        return schedule_function(func, target, decision) if schedule else func

    def lowered(scheduled: PrimFunc) -> Any:
        if stop_at == "kernel":
            return to_kernels(scheduled, target, callback)
        return "\n\n".join(lower_function(scheduled, target, callback, before=func).sources.values())

    return with_a_schedule(func, target, lowered, decision) if schedule else lowered(func)


def optimize_graph(
    graph: Any,
    target: Target,
    callback: PassCallback | None = None,
    accuracy: str = "fast",
    tuned: str | None = None,
) -> Any:
    """The graph after all of its passes: every node is a fused operator.

    Convolutions get the algorithms that won in the records `tuned` (see `build`); without any, those of the innermost
    `decided_algorithms`, or of the formula.
    """
    from .graph.passes.pipeline import optimize

    def evaluate(node: Any, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        return evaluate_node(node, arrays, host_of(target))

    recorded = algorithms(target, tuned)
    with decided_algorithms(recorded) if recorded else nullcontext():
        return optimize(graph, target, evaluate=evaluate, callback=callback, accuracy=accuracy)


def evaluate_node(node: Any, arrays: Sequence[np.ndarray], target: Target) -> list[np.ndarray]:
    """The outputs of an operator for arrays: compiles and runs it, for constants of operators without `fold`."""
    from .graph import GraphBuilder
    from .runtime import GraphModule

    builder = GraphBuilder(node.op)
    inputs = [builder.input(f"x{k}", v.shape, v.dtype) for k, v in enumerate(node.inputs)]
    outputs = builder.op(node.op, *inputs, **node.attrs)
    graph = builder.build(outputs)
    results = GraphModule(compile_executable(graph, target), threads=1)(*arrays)
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
