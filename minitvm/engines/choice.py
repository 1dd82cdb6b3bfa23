"""Choose the regions of engines when a network is compiled, and translate them.

With the engine's name, it gets all operators that it supports. With "auto", each region of each engine is measured, and
an engine gets a region only if it is faster there than our kernels and than all other engines.
"""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..build import build
from ..executable import TensorSpec
from ..executable.alignment import aligned_array
from ..expr.dtypes import is_floating
from ..graph.nodes import Constant, Graph, OpNode, Value
from ..graph.passes.constant_folding import constant_folding
from ..graph.passes.fold_batch_norm import fold_batch_norm
from ..graph.passes.partition import RegionNodes, acyclic, placed, region_node, survey
from ..target import Target
from .engine import AUTO, Engine, Region, Translation, find, names
from .region_calls import text_of, usable_threads
from .region_json import to_json

_MOST_RUNS = 20
_MOST_SECONDS = 0.1  # for the timed runs of a region

Pass = tuple[str, Callable[[Graph], Graph]]


@dataclass(frozen=True, slots=True)
class Choice:
    """One region of an engine. `seconds` are those of the engine and of our kernels, or None if it was not measured.

    If `reason` is not "", our kernels compute the region, because of it.
    """

    name: str
    engine: str
    operators: tuple[OpNode, ...]
    reason: str = ""
    seconds: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Choices:
    """The regions of a graph, each with its node, and why the engines do not get the other operators, by engine."""

    graph: Graph
    regions: tuple[Choice, ...]
    refused: dict[str, dict[OpNode, str]]


def passes(engines: str | Sequence[str], target: Target, threads: int | None = None) -> list[Pass]:
    """Return the graph passes that give regions of a network to engines.

    Engines that are missing are left out, with a warning. Weights are folded first, so that patterns find them as
    constants; those that are stored in fewer bits stay, because later passes read them.
    """
    listed, used = installed(engines), set[str]()
    if not listed:
        return []

    def partition(graph: Graph) -> Graph:
        return chosen(graph, listed, target, threads, measured=engines == AUTO, used=used).graph

    return [*_BEFORE, ("partition", partition)]


def choose(graph: Graph, engines: str | Sequence[str], target: Target, threads: int | None = None) -> Choices:
    """Return the regions that a build would choose, with the seconds of each, for human readers."""
    for _, change in _BEFORE:
        graph = change(graph)
    listed = installed(engines)
    return chosen(graph, listed, target, threads, measured=True, forced=engines != AUTO)


def installed(engines: str | Sequence[str]) -> list[Engine]:
    """Return the engines with these names that this process can use. "auto" stands for all of them.

    Raises `InputError` for a name that no engine has. Warns if an engine is missing.
    """
    if engines == AUTO:
        return [engine for engine in map(find, names()) if not missing_of(engine)]
    usable = []
    for engine in map(find, engines if isinstance(engines, list | tuple) else [engines]):
        missing = missing_of(engine)
        if missing:
            warnings.warn(f"{engine.name}: {missing}; minitvm's kernels compute its part", RuntimeWarning, stacklevel=2)
        else:
            usable.append(engine)
    return usable


def missing_of(engine: Engine) -> str:
    """Return the reason why an engine cannot be used, or "". An error of `missing` is a reason, too."""
    try:
        return engine.missing()
    except Exception as error:
        return text_of(error)


def chosen(
    graph: Graph, engines: Sequence[Engine], target: Target, threads: int | None, *, measured: bool = False,
    forced: bool = False, used: set[str] | None = None,
) -> Choices:  # fmt: skip
    """Choose the regions of a graph. If they are `measured`, only those faster than our kernels count, unless `forced`.

    `used` are the names that regions already have.
    """
    by_name, used = {engine.name: engine for engine in engines}, used if used is not None else set()
    refused: dict[str, dict[OpNode, str]] = {}
    candidates: list[RegionNodes] = []
    competing = measured and not forced
    for engine in engines:
        surveyed = survey(graph, engine, () if competing else candidates)
        refused[engine.name] = dict(surveyed.refused)
        candidates += surveyed.regions
    arrays = graph.arrays()
    choices: list[tuple[RegionNodes, OpNode, Choice]] = []
    for region in candidates:
        node = region_node(graph, region, _name(region.engine, used))
        choice = Choice(node.graph.name, region.engine, region.nodes)
        try:
            node = described(by_name[region.engine], node, arrays)
            if measured and all(v.is_static for v in (*node.inputs, *node.outputs)):
                choice = replace(choice, seconds=measure(by_name[region.engine], node, arrays, target, threads))
                node = replace(node, attrs={**node.attrs, "seconds": choice.seconds})
            elif competing:
                choice = replace(choice, reason="its sizes are symbolic, so it is not measured")
        except Exception as error:
            choice = replace(choice, reason=text_of(error))
            if not competing:
                text = f"{choice.name}: {region.engine}: {choice.reason}; minitvm's kernels compute the region"
                warnings.warn(text, RuntimeWarning, stacklevel=2)
        choices.append((region, node, choice))
    if competing:
        choices = _fastest(graph, choices)
    pairs = [(region, node) for region, node, choice in choices if not choice.reason]
    return Choices(placed(graph, pairs) if pairs else graph, tuple(choice for _, _, choice in choices), refused)


def _name(engine: str, used: set[str]) -> str:
    """Return an unused name for a region, and add it to `used`."""
    name = next(name for k in itertools.count() if (name := f"{engine}_{k}") not in used)
    used.add(name)
    return name


def _fastest(
    graph: Graph, choices: Sequence[tuple[RegionNodes, OpNode, Choice]]
) -> list[tuple[RegionNodes, OpNode, Choice]]:
    """Give the reason why a region is not taken: our kernels are faster, or another engine saves more time there."""

    def saved(choice: Choice) -> float:
        return choice.seconds[1] - choice.seconds[0] if choice.seconds is not None else 0.0

    taken: list[RegionNodes] = []
    decided = []
    for region, node, choice in sorted(choices, key=lambda item: -saved(item[2])):
        if not choice.reason and saved(choice) <= 0:
            choice = replace(choice, reason="minitvm's kernels are faster")
        others = {item for other in taken for item in other.nodes}
        if not choice.reason and others.intersection(region.nodes):
            choice = replace(choice, reason="another engine saves more time here")
        if not choice.reason and not acyclic(graph, [*taken, region]):
            choice = replace(choice, reason="together with another region it would form a cycle")
        if not choice.reason:
            taken.append(region)
        decided.append((region, node, choice))
    return decided


def described(engine: Engine, node: OpNode, arrays: dict[Value, Any]) -> OpNode:
    """Return the node of a region with all that a program stores about it: `RegionCall` reads these attributes."""
    graph, weights = with_constants(node, arrays)
    translation = Translation("") if engine.translate is None else engine.translate(graph)
    attrs = {
        **node.attrs, "names": tuple(v.name for v in node.graph.inputs), "weights": weights,
        "workspace": translation.workspace, "room": translation.room, "code": translation.code,
        "structure": to_json(graph),
    }  # fmt: skip
    return replace(node, attrs=attrs)


def with_constants(node: OpNode, arrays: dict[Value, Any]) -> tuple[Graph, tuple[int, ...]]:
    """Return the inner graph of a region with its constants, and their positions among the inputs of the node."""
    inner = node.graph
    pairs = list(zip(inner.inputs, node.inputs, strict=True))
    constants = tuple(Constant(own, arrays[value]) for own, value in pairs if value in arrays)
    weights = tuple(position for position, value in enumerate(node.inputs) if value in arrays)
    inputs = tuple(own for own, value in pairs if value not in arrays)
    return replace(inner, inputs=inputs, constants=constants), weights


def measure(
    engine: Engine, node: OpNode, arrays: dict[Value, Any], target: Target, threads: int | None
) -> tuple[float, float]:
    """Return the seconds of a region: with its engine, and with our kernels. The inputs are random."""
    graph, _ = with_constants(node, arrays)
    module = build(graph, target, threads=threads)
    inputs = random_inputs(graph)
    outputs = [_empty(value) for value in graph.outputs]
    nbytes = node.attrs["workspace"]
    workspace = aligned_array((nbytes,), np.dtype(np.uint8)) if nbytes else None
    region = region_of(node, graph)
    run = engine.prepare(region, {c.value.name: c.data for c in graph.constants}, usable_threads(module.threads))
    runs = (lambda: run(inputs, outputs, workspace), lambda: module(*inputs, out=outputs))
    best = [float("inf"), float("inf")]
    for _ in range(2):  # in turns, so that a disturbance hits both
        for number, call in enumerate(runs):
            best[number] = min(best[number], _seconds(call))
    return best[0], best[1]


def region_of(node: OpNode, graph: Graph) -> Region:
    """Return a region as its engine prepares it."""
    inputs, outputs = (tuple(TensorSpec(v.name, v.dtype, v.shape) for v in vs) for vs in (graph.inputs, graph.outputs))
    return Region(graph.name, inputs, outputs, node.attrs["code"], node.attrs["structure"])


def _empty(value: Value) -> np.ndarray[Any, Any]:
    """Return an uninitialised array for a value, whose shape is constant."""
    return aligned_array(tuple(dim for dim in value.shape if isinstance(dim, int)), value.dtype.numpy)


def random_inputs(graph: Graph) -> list[np.ndarray[Any, Any]]:
    """Return random arrays for the inputs of a graph: normal floats, and integers from 0 to 1."""
    generator, arrays = np.random.default_rng(0), []
    for value in graph.inputs:
        array = _empty(value)
        array[...] = (
            generator.standard_normal(array.shape)
            if is_floating(array.dtype)
            else generator.integers(0, 2, array.shape)
        )
        arrays.append(array)
    return arrays


def _seconds(call: Callable[[], Any]) -> float:
    call()
    times = list[float]()
    begun = time.perf_counter()
    while not times or (len(times) < _MOST_RUNS and time.perf_counter() - begun < _MOST_SECONDS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def _is_stored_narrow(item: OpNode) -> bool:
    """Return whether an operator widens a constant that later passes keep in fewer bits."""
    return item.op.startswith("qnn.") or any(v.dtype.bits > item.inputs[0].dtype.bits for v in item.outputs)


def _fold(graph: Graph) -> Graph:
    return constant_folding(graph, skips=lambda item: bool(item.inputs) and _is_stored_narrow(item))


_BEFORE: list[Pass] = [("constant_folding", _fold), ("fold_batch_norm", fold_batch_norm)]
