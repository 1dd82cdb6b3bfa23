"""Bounds on the elements of an input that gives a place in a cache, so that the place always exists.

For example, `nn.cache_update` writes at a position, and is not defined for a position outside of the cache. If the
position (or the slot) is an input of the graph or a state, or such a value plus constants and numbers of iterations,
the executable contains the bound: a run with a position outside is refused before it changes anything. For an update in
the body of a loop, the bound assumes that the loop runs as many iterations as it may have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..arith import Analyzer
from ..expr import Add, Max, Min, Sub, as_expr, free_vars, match, structural_equal
from ..graph import Graph
from ..graph.loop_bodies import outside_inputs, own_outside
from ..graph.nodes import LOOP, Dim, as_dim

_IDLE = ("reshape", "expand_dims", "squeeze", "copy", "match_cast")  # the same elements


@dataclass(frozen=True, slots=True)
class InputBounds:
    """A condition on an input: every element of `name` must be between `low` and `high`, both included.

    `where` names the operator that needs it.
    """

    name: str
    low: Dim
    high: Dim
    where: str


def input_bounds(graph: Graph) -> list[InputBounds]:
    """Return the bounds on a graph's inputs. Each input is listed once, with the tightest of its bounds."""
    tightest: dict[str, InputBounds] = {}
    for bound in _all(graph):
        other = tightest.get(bound.name)
        if other is not None:
            low, high = _simple(Max, bound.low, other.low), _simple(Min, bound.high, other.high)
            same = _is(low, bound.low) and _is(high, bound.high)
            bound = InputBounds(bound.name, low, high, bound.where if same else other.where)
        tightest[bound.name] = bound
    return list(tightest.values())


def _all(graph: Graph) -> Iterator[InputBounds]:
    inputs = frozenset(graph.inputs)
    sizes = {v for value in graph.inputs for d in value.shape for v in free_vars(as_expr(d))}
    for scope in _scopes(graph, _GraphScope({}, {}, {}, {})):
        for node in scope.nodes:
            for index, last, what in _indices(node):
                source = scope.source(index)
                if source is None or source[0] not in inputs:
                    continue
                value, least, most = source
                high = _simple(Sub, last, most)
                if {v for e in (least, high) for v in free_vars(as_expr(e))} <= sizes:
                    yield InputBounds(value.name, _simple(Sub, 0, least), high, f"{node.output.name} {what}")


def _indices(node: Any) -> Iterator[tuple[Any, Dim, str]]:
    """Yield the inputs of an operator whose elements must be from 0 to a last index: (input, last, the reason)."""
    if node.op == "nn.cache_update":
        cache, new, position, *slots = node.inputs
        axis, verb = node.attrs["axis"] % cache.ndim, "writes"
    elif node.op == "nn.cached_attention":
        new, cache, _, position, *slots = node.inputs
        axis, verb = 2, "is for"
    else:
        return
    rows, written = cache.shape[axis], new.shape[axis]
    if node.attrs.get("mode", "linear") == "linear":
        yield position, _simple(Sub, rows, written), f"{verb} {written} of {rows} places of {cache.name}"
    for slot in slots:
        yield slot, _simple(Sub, cache.shape[0], 1), f"uses one of {cache.shape[0]} entries of {cache.name}"


@dataclass(frozen=True, slots=True)
class _GraphScope:
    """The facts about the values of a graph or loop body, including the values that surround it."""

    producers: Mapping[Any, Any]
    arrays: Mapping[Any, np.ndarray]
    outside: Mapping[Any, Any]  # the body's names of the values that it only reads, and the values outside
    numbers: Mapping[Any, int]  # the numbers of iterations, each with its largest value if that is known
    nodes: Sequence[Any] = ()

    def range(self, value: Any) -> tuple[Dim, Dim] | None:
        """Return the smallest and the largest value that the elements of `value` can have, or None if they are not
        known.
        """
        value = self.same(value)
        if value in self.arrays:
            array = self.arrays[value]
            return (int(array.min()), int(array.max())) if array.size else (0, 0)
        node = self.producers.get(value)
        if node is not None and node.op == "shape_to_tensor" and node.attrs["values"]:
            low = high = node.attrs["values"][0]
            for other in node.attrs["values"][1:]:
                low, high = _simple(Min, low, other), _simple(Max, high, other)
            return low, high
        return (0, self.numbers[value]) if value in self.numbers else None

    def same(self, value: Any) -> Any:
        """Follow operators that do not change elements from `value` back to their source, and return the first value
        with the same elements.
        """
        while True:
            node = self.producers.get(value)
            if value in self.outside:
                value = self.outside[value]
            elif node is not None and (node.op in _IDLE or _is_conversion(node)):
                value = node.inputs[0]
            else:
                return value

    def source(self, value: Any) -> tuple[Any, Dim, Dim] | None:
        """Return (input, least, most) if `value` is an input plus a number from `least` to `most`, or None
        otherwise.
        """
        least: Dim = 0
        most: Dim = 0
        while (value := self.same(value)) in self.producers:
            node = self.producers[value]
            if node.op not in ("add", "subtract"):
                return None
            value, other = node.inputs
            added = self.range(other)
            if node.op == "add" and added is None:
                value, other = other, value
                added = self.range(other)
            if added is None:
                return None
            low, high = added if node.op == "add" else (_simple(Sub, 0, added[1]), _simple(Sub, 0, added[0]))
            least, most = _simple(Add, least, low), _simple(Add, most, high)
        return None if self.range(value) is not None else (value, least, most)


def _simple(operation: Any, a: Dim, b: Dim) -> Dim:
    """Apply a sum, difference, minimum or maximum to two sizes and simplify the result."""
    return as_dim(Analyzer().simplify(operation(*match(as_expr(a), as_expr(b)))))


def _is(a: Dim, b: Dim) -> bool:
    return structural_equal(as_expr(a), as_expr(b))


def _is_conversion(node: Any) -> bool:
    return node.op == "cast" and node.output.dtype.is_int and node.inputs[0].dtype.is_int


def _scopes(graph: Graph, around: _GraphScope) -> Iterator[_GraphScope]:
    """Yield the scope of a graph, and then the scopes of the bodies of its loops."""
    scope = replace(
        around,
        producers={**around.producers, **graph.producers()},
        arrays={**around.arrays, **graph.arrays()},
        nodes=graph.nodes,
    )
    yield scope
    for item in graph.nodes:
        if item.op != LOOP:
            continue
        limit, most = scope.range(item.inputs[0]), item.attrs["most"]
        ends = [n for n in (None if limit is None else limit[1], most) if isinstance(n, int)]
        number = {item.body.inputs[0]: max(min(ends) - 1, 0)} if ends else {}
        outside = dict(zip(own_outside(item), outside_inputs(item), strict=True))
        yield from _scopes(
            item.body,
            replace(scope, outside={**scope.outside, **outside}, numbers={**scope.numbers, **number}),
        )
