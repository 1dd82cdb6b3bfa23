"""The bounds that operators need of data: an element of an input that says where to write must name a place.

An operator that writes at a position (`nn.cache_update`) means nothing for a position outside of what it writes to.
Where the position is an input of the graph, or a state, or a sum of one and constants, the executable has the bound: a
run with another position is refused before anything is changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

_IDLE = ("reshape", "expand_dims", "squeeze", "copy", "match_cast")  # the same elements


@dataclass(frozen=True, slots=True)
class Requirement:
    """Every element of the input `name` is from `low` to `high`, both included; `where` needs that."""

    name: str
    low: int
    high: int
    where: str


def input_bounds(graph: Any) -> list[Requirement]:
    """The bounds of a graph's inputs, each once: of several for one input, the tightest."""
    tightest: dict[str, Requirement] = {}
    for bound in _all(graph):
        other = tightest.get(bound.name)
        if other is not None:
            low, high = max(bound.low, other.low), min(bound.high, other.high)
            where = bound.where if (low, high) == (bound.low, bound.high) else other.where
            bound = Requirement(bound.name, low, high, where)
        tightest[bound.name] = bound
    return list(tightest.values())


def _all(graph: Any) -> Iterator[Requirement]:
    producers, arrays = graph.producers(), graph.arrays()
    for node in graph.nodes:
        if node.op == "nn.cache_update" and node.attrs["mode"] == "linear":
            cache, new, position = node.inputs
            axis = node.attrs["axis"] % cache.ndim
            rows, written = cache.shape[axis], new.shape[axis]
        elif node.op == "nn.cached_attention":
            new, cache, _, position = node.inputs
            rows, written = cache.shape[2], new.shape[2]
        else:
            continue
        if not isinstance(rows, int) or not isinstance(written, int):
            continue
        source = _source(position, producers, arrays)
        if source is None:
            continue
        value, least, most = source
        if value in graph.inputs:
            verb = "writes" if node.op == "nn.cache_update" else "is for"
            where = f"{node.output.name} {verb} {written} of {rows} places of {cache.name}"
            yield Requirement(value.name, -least, rows - written - most, where)


def _source(value: Any, producers: Any, arrays: Any) -> tuple[Any, int, int] | None:
    """The input that a value is, up to what is added to its elements: from the second number to the third."""
    least = most = 0
    while value in producers:
        node = producers[value]
        inputs = list(node.inputs)
        if (node.op == "cast" and node.output.dtype.is_int and inputs[0].dtype.is_int) or node.op in _IDLE:
            value = inputs[0]
        elif node.op == "add" and any(v in arrays for v in inputs):
            value, added = inputs if inputs[1] in arrays else inputs[::-1]
            least, most = least + _least(arrays[added]), most + _most(arrays[added])
        elif node.op == "subtract" and inputs[1] in arrays:
            value, taken = inputs
            least, most = least - _most(arrays[taken]), most - _least(arrays[taken])
        else:
            return None
    return None if value in arrays else (value, least, most)


def _least(array: np.ndarray) -> int:
    return int(array.min()) if array.size else 0


def _most(array: np.ndarray) -> int:
    return int(array.max()) if array.size else 0
