"""The interface of an engine, and the list of all engines."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError, missing_extra, nearest, report
from ..executable import TensorSpec
from ..graph.pattern import ValuePattern

if TYPE_CHECKING:
    from ..graph import Graph, OpNode

ENTRY_POINTS = "minitvm_engines"
AUTO = "auto"  # stands for all engines

Arrays = Sequence["np.ndarray[Any, Any]"]
# prepared(inputs, outputs, workspace) computes a region. It writes into the arrays `outputs`, which are in our memory.
# `workspace` is an array of bytes, or None if the translation of the region needs no working memory.
Prepared = Callable[[Arrays, Arrays, "np.ndarray[Any, Any] | None"], None]


@dataclass(frozen=True, slots=True)
class Region:
    """A region as an engine prepares it: the types of its inputs and outputs, and the engine's own `code`.

    `inputs` does not contain the constants. `code` is the text that the engine's `translate` returned, or "".
    `structure` is the region as JSON text (`region_json`), without the bytes of its constants. `rooms` has the number
    of bytes after each output that a call may overwrite; () means none.
    """

    name: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    code: str
    structure: str
    rooms: tuple[int, ...] = ()

    @property
    def is_symbolic(self) -> bool:
        """Whether an input or output has a symbolic size."""
        return any(not isinstance(dim, int) for spec in (*self.inputs, *self.outputs) for dim in spec.shape)

    def graph(self, constants: Mapping[str, np.ndarray[Any, Any]]) -> Graph:
        """Return the region as a graph: this is its meaning. Its operators are in the order of the network."""
        from .region_json import from_json

        return from_json(self.structure, constants)


@dataclass(frozen=True, slots=True)
class Translation:
    """A region in the form that an engine reads, which is stored in artifacts: text, and the number of bytes of
    working memory that a call needs. Our memory plan gives it this memory.

    The plan also leaves `room` bytes after each output, which a call may overwrite. On a GPU, outputs of the whole
    network have no room.
    """

    code: str
    workspace: int = 0
    room: int = 0


def _no_reason(item: Any) -> str:  # noqa: ARG001
    return ""


@dataclass(frozen=True, slots=True)
class Engine:
    """A library that computes regions of a network.

    `patterns` are the groups of operators that it takes; without patterns, it takes single operators. `supports(item)`
    returns the reason why it does not take an operator, or "". Neither looks at the other operators of a region, which
    may contain any number of matches.

    `translate(graph)` converts a region to the engine's own form when a network is compiled. The graph contains the
    constants. `prepare(region, constants, threads)` is called once in each process, before the first run, and in a
    forked child with one thread; it gets the constants by name, and returns the function that computes the region.
    Both may raise any exception: our kernels then compute the region, and a warning gives the reason. `missing()`
    returns the reason why the engine cannot be used in this process, or "".

    An engine that is `symbolic` also computes operators with symbolic sizes; its function then gets arrays of another
    shape in each call, none of them empty.
    """

    name: str
    prepare: Callable[[Region, Mapping[str, np.ndarray[Any, Any]], int], Prepared]
    patterns: Sequence[ValuePattern] = ()
    supports: Callable[[OpNode], str] = _no_reason
    translate: Callable[[Graph], Translation] | None = None
    missing: Callable[[], str] = lambda: ""
    symbolic: bool = False


_REGISTERED: dict[str, Engine] = {}


def register(engine: Engine) -> Engine:
    """Add an engine, and return it. An engine with the same name is replaced.

    Raises `InputError` for the names "" and "auto", which mean no engine and all engines.
    """
    if engine.name in ("", AUTO):
        raise InputError(f"an engine cannot have the name {engine.name!r}")
    _REGISTERED[engine.name] = engine
    return engine


@functools.cache
def _own() -> dict[str, Engine]:
    """Return the engines of this folder by name. Each is a package, which imports no library before it is needed."""
    folder = importlib.import_module(__package__)
    packages = [module.name for module in pkgutil.iter_modules(folder.__path__) if module.ispkg]
    engines = [importlib.import_module(f"{__package__}.{name}").ENGINE for name in packages]
    return {engine.name: engine for engine in engines}


@functools.cache
def _of_others() -> dict[str, Engine]:
    """Return the engines of installed packages by name. Raises `InputError` if one of them cannot be imported."""
    from importlib.metadata import entry_points

    engines = {}
    for entry in entry_points(group=ENTRY_POINTS):
        try:
            engines[entry.name] = entry.load()
        except Exception as error:
            raise InputError(f"the engine {entry.value} of {ENTRY_POINTS} cannot be imported: {error}") from error
    return engines


def needs(*packages: str) -> Callable[[], str]:
    """Return a function that returns why some packages cannot be used, or ""."""

    @functools.cache
    def missing() -> str:
        absent = next((name for name in packages if importlib.util.find_spec(name) is None), None)
        return "" if absent is None else str(missing_extra(absent, "engines"))

    return missing


def names() -> list[str]:
    """Return the names of all engines, installed or not."""
    return sorted({**_own(), **_of_others(), **_REGISTERED})


def find(name: str) -> Engine:
    """Return the engine with this name. Raises `InputError` if there is none, or if it is no name."""
    if not isinstance(name, str):
        found = type(name).__name__
        tries = ["engines.register(engine), and then its name"] if isinstance(name, Engine) else []
        raise InputError(report("engines", wanted="names of engines", found=found, tries=tries))
    for engines in (_REGISTERED, _own()):
        if name in engines:
            return engines[name]
    if name not in _of_others():
        several = [part.strip() for part in name.split(",")]
        if len(several) > 1 or name == AUTO:
            options = " ".join(f"--engine {part}" for part in several)
            tries = ['engines="auto" alone'] if AUTO in several else [f"engines={several}", options]
            raise InputError(report("engines", wanted="the name of one engine", found=repr(name), tries=tries))
        raise InputError(f"no engine {name}; {nearest(name, names())}")
    return _of_others()[name]
