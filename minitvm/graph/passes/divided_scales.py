"""Divide by the scale of a quantisation at compile time, if the operators before the quantisation are linear.

    quantize(relu(total * s + b), u)                          ->  quantize(relu(total * (s / u) + b / u), 1)
    quantize(dequantize(x, s) + dequantize(y, t), u)          ->  quantize(dequantize(x, s/u) + dequantize(y, t/u), 1)

On a CPU a division takes as long as sixteen multiplications, and each quantised element needs one. Legal up to
rounding, because each of these operators f satisfies f(x / u) = f(x) / u for u > 0. Only the rounding changes: if the
quotient is close to the middle between two integers, the result may be the other integer. So `accuracy="strict"` keeps
the divisions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..nodes import Graph, OpNode, Value
from ..pattern import GraphFacts, Match, op
from ..rewrite import Rewriter, RewriteRule, rewrite

# Operators whose result is divided if the inputs at these positions are divided: all of them, or in `_ONE` any one.
_ALL: dict[str, tuple[int, ...] | None] = {
    "add": (0, 1), "subtract": (0, 1), "nn.bias_add": (0, 1), "concatenate": None, "elementwise_sum": None,
    **dict.fromkeys(
        (
            "divide", "nn.relu", "nn.leaky_relu", "nn.prelu", "clip", "negative", "abs",
            "nn.avg_pool1d", "nn.avg_pool2d", "nn.avg_pool3d", "nn.global_avg_pool", "nn.global_max_pool",
            "nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d", "mean", "max", "min",
            "expand_dims", "reshape", "squeeze", "strided_slice", "transpose", "nn.interleave",
        ),
        (0,),
    ),
}  # fmt: skip
_ONE = {"multiply": (0, 1)}


@dataclass(frozen=True, slots=True)
class _Division:
    """The changes that divide a value by a scale: the operators involved, and the inputs (operator, position) at which
    they read a leaf.

    A leaf is a constant, or a value that is dequantised with a constant scale. Other readers of a leaf still read its
    old value.
    """

    operators: frozenset[OpNode] = frozenset()
    leaves: frozenset[tuple[OpNode, int]] = frozenset()

    def __or__(self, other: _Division) -> _Division:
        return _Division(self.operators | other.operators, self.leaves | other.leaves)


def divided_scales(graph: Graph, accuracy: str = "fast") -> Graph:
    """Give each `quantize` with a constant scale the scale 1, if a division can move through the operators before it.

    The constants and dequantisation scales with which these operators start are divided by the old scale instead. With
    accuracy "strict", nothing changes.

    before:
        x = b.input("x", (2, 8), "uint8")
        y = b.op("qnn.dequantize", x, np.float32(0.5), np.uint8(3))
        z = b.op("nn.relu", y)
        return b.op("qnn.quantize", z, 0.25, np.uint8(0))
    after:
        def main(x: uint8[2, 8]):
            const_1 = constant(uint8[])  # 3
            const_3 = constant(uint8[])  # 0
            const_4 = constant(float32[])  # 2.0
            one = constant(float32[])  # 1.0
            dequantize_1: float32[2, 8] = qnn.dequantize(x, const_4, const_1)
            relu: float32[2, 8] = nn.relu(dequantize_1)
            quantize: uint8[2, 8] = qnn.quantize(relu, one, const_3)
            return quantize
    """
    if accuracy == "strict":
        return graph
    facts = _Divisions(graph)
    scales: dict[OpNode, np.float64] = {}
    leaves: set[tuple[OpNode, int]] = set()
    for item in graph.nodes:
        scale = facts.arrays.get(item.inputs[1]) if item.op == "qnn.quantize" else None
        if scale is None or scale.size != 1 or not 0 < scale.reshape(()) < np.inf or scale.reshape(()) == 1:
            continue
        division = facts.division(item, 0)
        if division is not None and item.inputs[0] not in facts.arrays:
            scales.update(dict.fromkeys((item, *division.operators), np.float64(scale.reshape(()))))
            leaves |= division.leaves

    def divided(b: Rewriter, match: Match) -> Value:
        item, inputs = match.root, list(match.root.inputs)
        scale, attrs = scales[item], dict(item.attrs)
        for place, old in enumerate(item.inputs):
            if (item, place) in leaves:
                inputs[place] = facts.leaf(b, old, scale)
        if item.op == "qnn.quantize":
            inputs[1] = b.constant(np.ones((), inputs[0].dtype.numpy), "one")
        if item.op == "clip":
            attrs |= {name: float(attrs[name] / scale) for name in ("a_min", "a_max") if attrs[name] is not None}
        quotient: Value = b.op(item.op, *inputs, name=item.output.name, **attrs)
        return quotient

    return rewrite(graph, [RewriteRule(op((), ..., when=scales.__contains__), divided)])


class _Divisions(GraphFacts):
    """Finds the values that can be divided by a scale in advance."""

    def division(self, reader: OpNode, place: int) -> _Division | None:
        """Return how to divide the input of `reader` at position `place` by the scale (operators and leaves), or None
        if that is not possible.
        """
        value = reader.inputs[place]
        if value.dtype != "float32":
            return None
        item = self.producers.get(value)
        if value in self.arrays or (item is not None and item.op == "qnn.dequantize" and item.inputs[1] in self.arrays):
            return _Division(leaves=frozenset([(reader, place)]))
        if item is None or self.only_reader(value) is not reader or len(item.outputs) != 1:
            return None
        parts = self._parts(item)
        return None if parts is None else parts | _Division(frozenset([item]))

    def _parts(self, item: OpNode) -> _Division | None:
        """Return how to divide an operator's result by the scale through its inputs, or None if that is not
        possible.
        """
        if item.op in _ONE:
            found = (self.division(item, place) for place in reversed(_ONE[item.op]))
            return next((division for division in found if division is not None), None)
        if item.op not in _ALL:
            return None
        total = _Division()
        places = _ALL[item.op]
        for place in range(len(item.inputs)) if places is None else places:
            division = self.division(item, place)
            if division is None:
                return None
            total |= division
        return total

    def leaf(self, b: Rewriter, old: Value, scale: np.float64) -> Value:
        """Return a leaf divided by the scale."""
        if old in self.arrays:
            quotient: Value = b.constant((self.arrays[old] / scale).astype(self.arrays[old].dtype), old.name)
            return quotient
        item = self.producers[old]
        data, step, *zero = item.inputs
        divided = b.constant((self.arrays[step] / scale).astype(self.arrays[step].dtype), step.name)
        dequantized: Value = b.op("qnn.dequantize", data, divided, *zero, **item.attrs)
        return dequantized
