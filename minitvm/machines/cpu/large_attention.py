"""Fuse attention whose scores are larger than a cache into one function: scores, softmax, and the product with values.

    matmul(softmax(f(matmul(q, k))), v)    ->    fused[ matmul(softmax(f(contrib_dense_packed(q, panels(k)))), v) ]

f is element-wise: a scale, a mask, or a bias. Three separate functions would write the scores to memory and read them
twice. One function computes them for a few queries at a time, and they stay in the cache
(`machines.simd.strategy.attention`). All queries read the same keys, so the keys are packed into panels, in the order
in which they are read. Sums and roundings are the same as those of the three functions. An unknown length counts as a
long one. This follows "FlashAttention" by Dao, Fu, Ermon, Rudra and Re (2022), but with whole rows of scores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

from ...expr import replace
from ...graph.builder import GraphBuilder
from ...graph.nodes import Graph, OpNode, Value
from ...graph.passes.fuse import fused_node
from ...graph.pattern import GraphFacts
from ...graph.rewrite import same_shape
from ...strategy.roles import LONG
from ...target import Target
from ...topi.registry import MAPS, get
from ..simd.graph import blocked_layout
from ..simd.strategy.attention import keeps_scores, key_panel

_PRODUCTS = ("nn.matmul", "nn.batch_matmul")
_PACKED = "nn.contrib_dense_packed"


def layouts(target: Target, accuracy: str) -> list[tuple[str, Callable[[Graph], Graph]]]:
    """Return the layout passes for CPUs. This is the part "layouts" of their back end."""
    blocks = blocked_layout.layouts(target, accuracy)
    return [*blocks, ("attention", lambda graph: attention(graph, target))]


def attention(graph: Graph, target: Target) -> Graph:
    """Return the graph with each attention as one function, if the target's caches hold the data of a few queries."""
    chains = {chain.result: chain for chain in _Attentions(graph, target).found()}
    if not chains:
        return graph
    inside = {item for chain in chains.values() for item in chain.operators}
    arrays = graph.arrays()
    nodes: list[OpNode] = []
    for item in graph.nodes:
        if item in chains:
            packing, operators = chains[item].packed(target)
            nodes += [*packing, fused_node(operators, arrays)]
        elif item not in inside:
            nodes.append(item)
    return replace(graph, nodes=tuple(nodes))


@dataclass(frozen=True, slots=True)
class _ScoreChain:
    """The operators from the product that computes the scores to the product that reads their softmax, in order."""

    operators: tuple[OpNode, ...]

    @property
    def result(self) -> OpNode:
        """The last operator."""
        return self.operators[-1]

    def packed(self, target: Target) -> tuple[list[OpNode], list[OpNode]]:
        """Return the operators that pack the keys into panels, and the chain rewritten to read the panels."""
        first, *others = self.operators
        query, key = first.inputs
        rows, rank = query.shape[-2], key.ndim
        width = key_panel(_known(rows), _known(first.output.shape[-1]), target)
        b = GraphBuilder("keys")
        value = b.input(key.name, key.shape, key.dtype)
        turned = value
        if not _turned(first):
            turned = b.op("transpose", value, axes=(*range(rank - 2), rank - 1, rank - 2))
        panels = b.op("layout.block_axis", turned, axis=rank - 2, block=width)
        packing = [
            OpNode(item.op, tuple(key if v is value else v for v in item.inputs), item.attrs, item.outputs)
            for item in b.build(panels).nodes
        ]
        attrs = get(_PACKED).normalize({"units": first.output.shape[-1]})
        return packing, [OpNode(_PACKED, (query, panels), attrs, first.outputs), *others]


def _known(extent: Any) -> int | None:
    """Return an extent, or None if it is unknown."""
    return extent if isinstance(extent, int) else None


def _counted(extent: Any) -> int:
    """Return an extent as a number for the cost model. An unknown extent counts as a long one."""
    return extent if isinstance(extent, int) else LONG


def _turned(product: OpNode) -> bool:
    """Return whether a product transposes its second operand."""
    return bool(product.attrs["transpose_b"])


class _Attentions(GraphFacts):
    """Finds the attentions of a graph."""

    def __init__(self, graph: Graph, target: Target) -> None:
        super().__init__(graph)
        self.target = target

    def found(self) -> list[_ScoreChain]:
        """Return the chains that are worth fusing into one function."""
        chains = (self.chain(item) for item in self.graph.nodes if self.is_product(item))
        return [chain for chain in chains if chain is not None]

    def chain(self, result: OpNode) -> _ScoreChain | None:
        """Return the attention that ends with a product and whose scores do not fit in the cache, or None."""
        softmax = self.private(result.inputs[0])
        if softmax is None or softmax.op != "nn.softmax" or softmax.attrs["axis"] not in (-1, softmax.output.ndim - 1):
            return None
        operators, item = [result, softmax], self.private(softmax.inputs[0])
        scores = softmax.output
        while item is not None and not self.is_product(item):
            inner = [v for v in item.inputs if same_shape(v.shape, scores.shape) and v in self.producers]
            if get(item.op).pattern not in MAPS or not same_shape(item.output.shape, scores.shape) or len(inner) != 1:
                return None
            operators.append(item)
            item = self.private(inner[0])
        if item is None or _turned(result) or not self.pays(item, result):
            return None
        return _ScoreChain((item, *reversed(operators)))

    def private(self, value: Value) -> OpNode | None:
        """Return the node that computes a value if it has exactly one reader, or None."""
        return self.producers.get(value) if self.only_reader(value) is not None else None

    def is_product(self, item: OpNode) -> bool:
        """Return whether an operator multiplies float32 matrices, with the same batch axes in both operands."""
        if item.op not in _PRODUCTS or any(v.dtype != "float32" for v in (*item.inputs, item.output)):
            return False
        a, b = item.inputs
        plain = not item.attrs["transpose_a"] and not item.attrs.get("out_dtype")
        batches = [value.shape[:-2] for value in (a, b, item.output)]
        return plain and a.ndim == b.ndim > 2 and all(same_shape(batches[0], other) for other in batches[1:])

    def pays(self, scores: OpNode, result: OpNode) -> bool:
        """Return whether a cache holds the keys, the values and the scores of a few queries, but not all scores."""
        *batch, rows, columns = map(_counted, scores.output.shape)
        depth, width = scores.inputs[0].shape[-1], result.output.shape[-1]
        if not isinstance(depth, int) or not isinstance(width, int):
            return False
        return keeps_scores(prod(batch), rows, columns, depth, width, self.target)
