"""Frontends: convert a model of another framework, or its file, to a graph.

Each frontend is a package in the folder of `minitvm.frontends` with an object `FRONTEND`; the folder is searched for
them.
"""

from __future__ import annotations

import functools
import importlib
import os
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .errors import InputError, nearest
from .expr import Expr, Var, const, replace
from .graph import Constant, Graph
from .store import FileState

IN_A_FOLDER = "minitvm.frontends"


@dataclass(frozen=True, slots=True)
class Frontend:
    """A converter from the models of one framework to graphs.

    `takes` describes the accepted models in messages ("an ONNX model"). They are objects of the type named `type_name`,
    and paths with the `ending` ("" for all paths that no other frontend accepts). `load(model, **options)` returns the
    graph; it accepts the keywords listed in `options`, a subset of:

        shapes       {input: dimensions}
        values       {input: array}, for inputs that become constants
        stop_before  the operator before which the graph ends
        states       the inputs that are an output of the previous run
        max_length   an upper bound for growing sizes
        cache_dtype  the dtype of the caches of a language model
        slots        the texts that they hold, if the batch is open

    `sources(model)` returns the states of all files that decide the graph. A frontend without it has models that are
    built anew each time (see `runtime.artifact.kept`).
    """

    takes: str
    type_name: str
    ending: str
    load: Callable[..., Graph]
    options: frozenset[str]
    sources: Callable[[Any], Sequence[FileState]] | None = None


@functools.cache
def frontends() -> tuple[Frontend, ...]:
    """Return all frontends. They are imported on the first call."""
    folder = importlib.import_module(IN_A_FOLDER)
    packages = [module.name for module in pkgutil.iter_modules(folder.__path__) if module.ispkg]
    modules = [importlib.import_module(f"{IN_A_FOLDER}.{name}") for name in packages]
    return tuple(module.FRONTEND for module in modules if hasattr(module, "FRONTEND"))


def _frontend_of(model: Any) -> Frontend | None:
    """Return the frontend for an object or a path, or None. This imports no other library."""
    if not isinstance(model, str | os.PathLike):
        return next((f for f in frontends() if f.type_name == type(model).__name__), None)
    claims = [f for f in frontends() if os.fspath(model).endswith(f.ending)]
    return max(claims, key=lambda f: len(f.ending), default=None)


def sources_of(model: Any) -> tuple[FileState, ...]:
    """Return the states of all files that decide the graph of a model, or () if they are unknown or missing."""
    frontend = None if isinstance(model, Graph) else _frontend_of(model)
    if frontend is None or frontend.sources is None:
        return ()
    try:
        return tuple(frontend.sources(model))
    except OSError:  # importing the model reports it
        return ()


def imported(model: Any, options: Mapping[str, Any]) -> Graph:
    """Return the graph of a model of any supported kind. A `Graph` is returned unchanged; its only option is `values`.

    Raises `InputError` for an option that does not apply to the model, and for an object that is not a model.
    """
    used = {name: value for name, value in options.items() if value is not None and value is not False and value != {}}
    frontend = None if isinstance(model, Graph) else _frontend_of(model)
    if frontend is None and not isinstance(model, Graph):
        kinds = ", ".join(f.takes for f in frontends())
        raise InputError(
            f"build takes a Graph, {kinds}, the path of one of these, or a tir function; found {type(model).__name__}"
        )
    taken = frozenset({"values"}) if frontend is None else frontend.options | {"values"}
    for name in used:
        if name not in taken:
            *others, last = (f.takes for f in frontends() if name in f.options)
            here = "a Graph has its own" if frontend is None else f"this is {frontend.takes}"
            raise InputError(f"{name}= goes with {', '.join(others)}{' or ' if others else ''}{last}; {here}")
    values = used.pop("values", None)
    if frontend is not None:
        if values and "values" in frontend.options:
            used["values"], values = values, None  # shapes and branches may depend on them
        model = frontend.load(model, **used)
    return _with_constants(model, values) if values else model


def _with_sizes_of(graph: Graph, params: Mapping[str, np.ndarray]) -> Graph:
    """Return the graph with the symbolic dimensions of the named inputs replaced by those of the arrays."""
    sizes: dict[Var, Expr] = {}
    for value in graph.inputs:
        shape = np.shape(params[value.name]) if value.name in params else ()
        for dim, size in zip(value.shape, shape, strict=False):
            if isinstance(dim, Var):
                sizes.setdefault(dim, const(size, dim.dtype))
    if not sizes:
        return graph
    from .graph.at_bounds import with_sizes

    return with_sizes(graph, sizes)


def _with_constants(graph: Graph, params: Mapping[str, np.ndarray]) -> Graph:
    """Return the graph with the named inputs replaced by constants, whose shapes decide the sizes of these inputs."""
    graph = _with_sizes_of(graph, params)
    inputs = {value.name: value for value in graph.inputs}
    states = {old for old, _ in graph.state_pairs()}
    constants = []
    for name, data in params.items():
        if name not in inputs:
            raise InputError(f"params: the graph has no input {name}; {nearest(name, list(inputs))}")
        value, array = inputs[name], np.asarray(data)
        if value in states:
            raise InputError(
                f"params: {name} is a state, which each run changes\n  try:    module.state[{name!r}] = ..."
            )
        fits = len(array.shape) == value.ndim and all(
            not isinstance(dim, int) or dim == size for dim, size in zip(value.shape, array.shape, strict=True)
        )
        if array.dtype.name != value.dtype or not fits:
            raise InputError(f"params: {name} wanted {value.type}, found {array.dtype.name}{list(array.shape)}")
        constants.append(Constant(value, array))
    rest = tuple(value for value in graph.inputs if value.name not in params)
    renumbered = tuple(replace(state, input=rest.index(graph.inputs[state.input])) for state in graph.states)
    return replace(graph, inputs=rest, constants=(*graph.constants, *constants), states=renumbered)
