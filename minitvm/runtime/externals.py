"""Engines for `CallExternal` steps: functions on arrays, which any module may register under a name.

A step that computes a region of a network belongs to the plug-in `minitvm.engines`. It is prepared once per program, on
the region's constants, and then called on the other arguments.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import InputError, nearest
from ..executable import Argument, CallExternal, ConstantRef, Executable, TensorSpec
from ..executable.nodes import PYTHON
from ..global_functions import get_global_func
from ..target import Target
from .tensors import Tensor

PLUG_IN = "minitvm.engines"
REGION = "region"  # the attribute of a step that computes a region

# engine(arrays and scalars in order of the step's arguments, the step's attrs); it writes its outputs in place
Engine = Callable[[list[Any], Mapping[str, Any]], None]
_engines: dict[str, Engine] = {}


def register_engine(name: str, engine: Engine) -> Engine:
    """Make `engine` callable from programs under a name, and return it. Registering a name again replaces the
    engine.
    """
    _engines[name] = engine
    return engine


def passes(engines: str | Sequence[str], target: Target, threads: int | None) -> list[Any]:
    """Return the graph passes that give regions of a network to engines, by the engines' names."""
    if not engines:
        return []
    graph_passes: list[Any] = importlib.import_module(PLUG_IN).passes(engines, target, threads)
    return graph_passes


class EngineCall:
    """A step that calls an engine, ready to run: `run` is called on the values of `args`, and writes in place.

    A region is prepared with its constants, at the positions in its attribute "weights". They are not in `args`.
    """

    def __init__(self, executable: Executable, step: CallExternal, threads: int) -> None:
        args = list(zip(step.args, step.specs, step.access, strict=True))
        if REGION in step.attrs:
            constants = [executable.constants[a.index].data if isinstance(a, ConstantRef) else None for a in step.args]
            plug_in = importlib.import_module(PLUG_IN)
            self.run: Callable[[list[Any]], None] = plug_in.prepared(step, constants, threads, executable.target)
            args = [arg for position, arg in enumerate(args) if position not in step.attrs["weights"]]
        else:
            self.run = lambda values: engine(step.engine)(values, step.attrs)
        self.args: list[tuple[Argument, TensorSpec | None, str]] = args


def call_python(name: str, values: Sequence[Any]) -> None:
    """Call a registered Python function on arrays: the inputs, and then the results, which it fills.

    Raises `InputError` if there is no function of this name.
    """
    get_global_func(name)(*(value.view(Tensor) if isinstance(value, np.ndarray) else value for value in values))


register_engine(PYTHON, lambda values, attrs: call_python(attrs["function"], values))


def engine(name: str) -> Engine:
    """Return the engine registered as `name`. Raises `InputError` if there is none."""
    if name not in _engines:
        raise InputError(
            f"the program calls the engine {name}, which is not registered; {nearest(name, list(_engines))}"
        )
    return _engines[name]
