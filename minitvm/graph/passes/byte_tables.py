"""Replace a chain of operators from one byte to another by a table of its 256 results.

    quantize(f(dequantize(x, s, z)), t, y)    ->    qnn.lookup(x, quantize(f(dequantize(0..255, s, z)), t, y))

f must be element-wise, and all other values that it reads must be constant. For example, f is an activation, or several
with quantisations between them (quantisers write x * sigmoid(x) as three operators). The table applies the chain to all
bytes, and `constant_folding` computes it, so the results are the same to the last bit. A cheap chain is kept: one that
neither calls a function such as exp nor quantises inside. ONNX Runtime does the same for sigmoid and leaky ReLU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...strategy.blocks import blocks_of, is_cheap
from ...topi.registry import get
from ..builder import GraphBuilder
from ..lower import to_prim_func
from ..nodes import Graph, OpNode, Value
from ..pattern import GraphFacts, Match, op
from ..rewrite import Rewriter, RewriteRule, rewrite

_LONGEST = 32  # the most operators of a chain
_BYTES = 256  # the number of values of a byte


def byte_tables(graph: Graph) -> Graph:
    """Replace each costly function of a single byte with a table lookup.

    before:
        x = b.input("x", (2, 8), "uint8")
        y = b.op("qnn.dequantize", x, np.float32(0.5), np.uint8(3))
        z = b.op("sigmoid", y)
        return b.op("qnn.quantize", z, 0.125, np.uint8(0))
    after:
        def main(x: uint8[2, 8]):
            const_6 = constant(float32[])  # 0.125
            const_7 = constant(uint8[])  # 0
            dequantize_1 = constant(float32[256])
            sigmoid_1: float32[256] = sigmoid(dequantize_1)
            quantize: uint8[256] = qnn.quantize(sigmoid_1, const_6, const_7)
            quantize_1: uint8[2, 8] = qnn.lookup(x, quantize)
            return quantize_1
    """
    if not any(item.op == "qnn.quantize" for item in graph.nodes):
        return graph
    chains = _Chains(graph).worthwhile()

    def looked_up(b: Rewriter, match: Match) -> Value:
        chain = chains[match.root]
        every = np.arange(_BYTES, dtype="uint8").view(chain.source.dtype.numpy)
        table = chain.added_to(b, b.constant(every, "bytes"))
        byte: Value = b.op("qnn.lookup", chain.source, table, name=match.root.output.name)
        return byte

    return rewrite(graph, [RewriteRule(op("qnn.quantize", ..., when=chains.__contains__), looked_up)])


@dataclass(frozen=True, slots=True)
class _Chain:
    """A value as a function of one byte: the byte `source`, the operators in order, and the constants that they
    read.
    """

    source: Value
    operators: tuple[OpNode, ...]
    constants: Mapping[Value, np.ndarray]

    def added_to(self, b: GraphBuilder, source: Value) -> Value:
        """Add the operators of the chain to `b`, applied to `source`, and return the result. It has the shape of
        `source`.
        """
        values = {self.source: source}
        for item in self.operators:
            operands = [values[v] if v in values else b.constant(self.constants[v].reshape(())) for v in item.inputs]
            values[item.output] = b.op(item.op, *operands, **item.attrs)
        return values[self.operators[-1].output]

    @property
    def is_costly(self) -> bool:
        """Return whether the chain uses a function of many instructions, or quantises before its end."""
        if sum(item.op == "qnn.quantize" for item in self.operators) > 1:
            return True
        b = GraphBuilder("chain")
        graph = b.build(self.added_to(b, b.input("x", (_BYTES,), self.source.dtype)))
        return not all(map(is_cheap, blocks_of(to_prim_func(graph))))


class _Chains(GraphFacts):
    """Finds the chain of each value that is a function of a single byte."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.of: dict[Value, _Chain] = {}

    def worthwhile(self) -> dict[OpNode, _Chain]:
        """Return the chains that are worth replacing with a lookup, keyed by their last quantisation.

        These chains are costly, and no other node reads their intermediate values.
        """
        arrays = {value: array for value, array in self.arrays.items() if array.size == 1}
        ending: dict[OpNode, _Chain] = {}
        for item in self.graph.nodes:
            chain = self._chain(item, arrays)
            if chain is None:
                continue
            self.of[item.output] = chain
            if item.op != "qnn.quantize" or not chain.is_costly:
                continue
            members = set(chain.operators)
            inner = [part for part in chain.operators if part is not item and part.inputs[0] is not chain.source]
            if all(self._is_read_by(part.output, members) for part in inner):
                for part in inner:
                    ending.pop(part, None)
                ending[item] = chain
        return ending

    def _is_read_by(self, value: Value, readers: set[OpNode]) -> bool:
        return value not in self.returned and readers.issuperset(self.consumers[value])

    def _chain(self, item: OpNode, arrays: Mapping[Value, np.ndarray]) -> _Chain | None:
        """Return the chain that ends with an operator, or None if its result is not a function of a single byte."""
        read = [v for v in item.inputs if v not in arrays]
        if not read or len(item.outputs) != 1 or any(v.shape != item.output.shape for v in read):
            return None
        constants = {v: arrays[v] for v in item.inputs if v in arrays}
        if item.op == "qnn.dequantize":
            data = item.inputs[0]
            if read != [data] or data.dtype not in ("uint8", "int8") or item.attrs["block_size"]:
                return None
            if data not in self.of or not self._is_read_by(data, {item}):
                return _Chain(data, (item,), constants)
        chains = [self.of.get(v) for v in read]
        first = chains[0]
        if first is None or any(c is None or c.source is not first.source for c in chains) or not _is_map(item):
            return None
        operators: dict[OpNode, None] = {}
        for chain in chains:
            assert chain is not None
            operators |= dict.fromkeys(chain.operators)
            constants |= chain.constants
        return _Chain(first.source, (*operators, item), constants) if len(operators) < _LONGEST else None


def _is_map(item: OpNode) -> bool:
    """Return whether an operator works element by element, independent of the element's position."""
    if item.op == "qnn.quantize":  # by one number, whatever the axis
        return item.output.dtype in ("uint8", "int8") and not item.attrs["block_size"]
    return item.op == "qnn.dequantize" or get(item.op).is_map
