"""Remove operators that do nothing, and shorten chains of reshapes and transposes: a table of rules.

A rule looks at one node and returns a value that equals its output, nodes to replace it, or None. A node whose
output the graph returns is never replaced by another value, as that output would lose its name.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .. import registry
from ..nodes import FUSED, MATCH_CAST, Graph, OpNode, Value
from .rebuild import rebuild, same_shape


class Facts:
    """What a rule may ask about the operands of a node."""

    def __init__(self, graph: Graph) -> None:
        self.producers = graph.producers()
        self.arrays = graph.arrays()

    def made_by(self, value: Value, *ops: str) -> OpNode | None:
        """The node that makes a value, if it is one of those operators."""
        node = self.producers.get(value)
        return node if node is not None and node.op in ops else None

    def is_all(self, value: Value, number: float) -> bool:
        """Whether a value is a constant all of whose elements are that number."""
        return value in self.arrays and bool(np.all(self.arrays[value] == number))


Replacement = Value | OpNode | tuple[OpNode, ...]
Rule = Callable[[OpNode, Facts], Replacement | None]


def same_cast(item: OpNode, facts: Facts) -> Value | None:
    """cast(x) to its own dtype -> x."""
    return item.inputs[0] if item.op == "cast" and item.inputs[0].dtype == item.output.dtype else None


def same_form(item: OpNode, facts: Facts) -> Value | None:
    """A copy, dropout, reshape, broadcast, slice from the start, or pad that keeps the shape -> x."""
    if not _is_view(item) and item.op not in ("broadcast_to", "tile", "nn.pad", "strided_slice", "repeat"):
        return None
    if item.op == "strided_slice" and any(step != 1 for step in item.attrs["strides"] or ()):
        return None
    if item.op == "nn.pad" and any(not is_zero(amount) for pair in item.attrs["pad_width"] for amount in pair):
        return None
    return item.inputs[0] if same_shape(item.inputs[0].shape, item.output.shape) else None


def is_zero(amount: object) -> bool:
    """Whether a number, which may be symbolic, is the constant 0."""
    return isinstance(amount, int) and amount == 0


def single_part(item: OpNode, facts: Facts) -> Value | None:
    """concatenate(x) -> x."""
    return item.inputs[0] if item.op in ("concatenate", "elementwise_sum") and len(item.inputs) == 1 else None


def idle_transpose(item: OpNode, facts: Facts) -> Value | None:
    """A transpose that keeps the order -> x."""
    return item.inputs[0] if item.op == "transpose" and _order(item) == list(range(item.output.ndim)) else None


def double_transpose(item: OpNode, facts: Facts) -> OpNode | None:
    """transpose(transpose(x)) -> one transpose."""
    inner = facts.made_by(item.inputs[0], "transpose") if item.op == "transpose" else None
    if inner is None:
        return None
    first = _order(inner)
    return _instead(item, "transpose", inner.inputs[0], axes=tuple(first[a] for a in _order(item)))


def reshape_chain(item: OpNode, facts: Facts) -> OpNode | None:
    """A view of a view, such as squeeze(reshape(x)) -> one reshape to the last shape."""
    inner = facts.producers.get(item.inputs[0]) if _is_view(item) else None
    if inner is None or not _is_view(inner) or 0 in [d for d in item.output.shape if isinstance(d, int)]:
        return None
    return _instead(item, "reshape", inner.inputs[0], newshape=item.output.shape, allowzero=True)


def times_one(item: OpNode, facts: Facts) -> Value | None:
    """x * 1, x / 1 -> x, where broadcasting the 1 does not enlarge x."""
    if item.op not in ("multiply", "divide") or not facts.is_all(item.inputs[1], 1):
        return None
    return item.inputs[0] if same_shape(item.inputs[0].shape, item.output.shape) else None


def third_power(item: OpNode, facts: Facts) -> tuple[OpNode, ...] | None:
    """power(x, 3) -> x * x * x, which is within 2 ulp, too: the tanh form of gelu has it."""
    if item.op != "power" or item.output.dtype not in ("float32", "float64") or not facts.is_all(item.inputs[1], 3):
        return None
    x = item.inputs[0]
    if not same_shape(x.shape, item.output.shape):
        return None
    square = Value(f"{item.output.name}_square", x.shape, x.dtype)
    return OpNode("multiply", (x, x), {}, (square,)), OpNode("multiply", (square, x), {}, item.outputs)


def part_of_joined(item: OpNode, facts: Facts) -> tuple[OpNode, ...] | OpNode | None:
    """A slice that takes all it has of one part of concatenate(...) or stack(...) -> a slice of that part."""
    joined = facts.made_by(item.inputs[0], "concatenate", "stack") if item.op == "strided_slice" else None
    if joined is None:
        return None
    rank = joined.output.ndim
    axes = [a % rank for a in item.attrs["axes"] or range(len(item.attrs["begin"]))]
    at, stacked = joined.attrs["axis"] % rank, joined.op == "stack"
    begin, end, steps = list(item.attrs["begin"]), list(item.attrs["end"]), list(item.attrs["strides"] or (1,))
    extents = [1 if stacked else x.shape[at] for x in joined.inputs]
    if axes.count(at) != 1 or len(steps) != len(axes) or not all(isinstance(e, int) for e in extents):
        return None
    k = axes.index(at)
    if not isinstance(begin[k], int) or not isinstance(end[k], int) or steps[k] < 1:
        return None
    places = range(*slice(begin[k], end[k], steps[k]).indices(sum(extents)))
    offset = 0
    for x, extent in zip(joined.inputs, extents, strict=True):
        if len(places) and offset <= places[0] and places[-1] < offset + extent:
            begin[k], end[k] = places[0] - offset, places[-1] + 1 - offset
            cut = {"begin": tuple(begin), "end": tuple(end), "strides": tuple(steps), "axes": tuple(axes)}
            if not stacked:
                return _instead(item, "strided_slice", x, **cut)
            entry = Value(f"{item.output.name}_entry", (*x.shape[:at], 1, *x.shape[at:]), x.dtype)
            whole = OpNode("expand_dims", (x,), registry.get("expand_dims").normalize({"axis": (at,)}), (entry,))
            return whole, _instead(item, "strided_slice", entry, **cut)
        offset += extent
    return None


RULES: list[Rule] = [
    third_power, same_cast, same_form, single_part, idle_transpose, double_transpose, reshape_chain, times_one,
    part_of_joined,
]  # fmt: skip


def simplify(graph: Graph) -> Graph:
    """The graph after applying the rules, in order of the nodes, until none fits."""
    while True:
        simplified = _once(graph)
        if simplified is graph:
            return graph
        graph = simplified


def _once(graph: Graph) -> Graph:
    facts = Facts(graph)
    outputs = set(graph.outputs)
    instead: dict[Value, Value] = {}
    nodes: list[OpNode] = []
    changed = False
    for item in graph.nodes:
        replacement = None if item.op == FUSED or len(item.outputs) != 1 else _first(item, facts, outputs)
        changed = changed or replacement is not None
        if isinstance(replacement, Value):
            instead[item.output] = replacement
            continue
        nodes += replacement if isinstance(replacement, tuple) else (replacement or item,)
    return rebuild(graph, nodes, instead=instead) if changed else graph


def _first(item: OpNode, facts: Facts, outputs: set[Value]) -> Replacement | None:
    for rule in RULES:
        replacement = rule(item, facts)
        if replacement is not None and not (isinstance(replacement, Value) and item.output in outputs):
            return replacement
    return None


def _is_view(item: OpNode) -> bool:
    if item.op in (FUSED, MATCH_CAST) or not registry.get(item.op).view:
        return False
    return item.inputs[0].dtype == item.output.dtype


def _order(item: OpNode) -> list[int]:
    rank = item.output.ndim
    axes = item.attrs["axes"]
    return list(reversed(range(rank))) if axes is None else [a % rank for a in axes]


def _instead(item: OpNode, op: str, value: Value, **attrs: object) -> OpNode:
    return OpNode(op, (value,), registry.get(op).normalize(attrs), item.outputs)
