"""Attention whose scores are larger than a cache: scores, their softmax and the product with values are one function.

    matmul(softmax(f(matmul(q, k))), v)    ->    fused[ matmul(softmax(f(contrib_dense_packed(q, panels(k)))), v) ]

f is element by element: a scale, a mask, a bias. Three functions write the scores to memory and read them twice; one
function computes them for a few queries at a time, and they stay in the cache (`machines.simd.strategy.attention`). All
queries read the same keys, so these are put into panels, in the order in which they are read. Sums and roundings are
those of the three functions. An open length counts as a long one. After Dao, Fu, Ermon, Rudra and Re, "FlashAttention"
(2022), with whole rows of scores.
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
    """The part "layouts" of the CPU's back end."""
    blocks = blocked_layout.layouts(target, accuracy)
    return [*blocks, ("attention", lambda graph: attention(graph, target))]


def attention(graph: Graph, target: Target) -> Graph:
    """The graph with each attention as one function, where the target's caches hold what a few queries need."""
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
    """The operators from the product that makes the scores to the one that reads their softmax, in order."""

    operators: tuple[OpNode, ...]

    @property
    def result(self) -> OpNode:
        """The last one."""
        return self.operators[-1]

    def packed(self, target: Target) -> tuple[list[OpNode], list[OpNode]]:
        """What puts the keys into panels, and the operators on these."""
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
    """An extent; None where it is open."""
    return extent if isinstance(extent, int) else None


def _counted(extent: Any) -> int:
    """An extent as the costs of schedules count it."""
    return extent if isinstance(extent, int) else LONG


def _turned(product: OpNode) -> bool:
    """Whether the rows of a product's second operand are its columns."""
    return bool(product.attrs["transpose_b"])


class _Attentions(GraphFacts):
    """The attentions of a graph."""

    def __init__(self, graph: Graph, target: Target) -> None:
        super().__init__(graph)
        self.target = target

    def found(self) -> list[_ScoreChain]:
        """The chains of products that pay as one function."""
        chains = (self.chain(item) for item in self.graph.nodes if self.is_product(item))
        return [chain for chain in chains if chain is not None]

    def chain(self, result: OpNode) -> _ScoreChain | None:
        """The attention that ends with a product, if there is one whose scores do not fit."""
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
        """The node that makes a value, if one node reads it; None otherwise."""
        return self.producers.get(value) if self.only_reader(value) is not None else None

    def is_product(self, item: OpNode) -> bool:
        """Whether an operator multiplies as many matrices of float32 as its operands have."""
        if item.op not in _PRODUCTS or any(v.dtype != "float32" for v in (*item.inputs, item.output)):
            return False
        a, b = item.inputs
        plain = not item.attrs["transpose_a"] and not item.attrs.get("out_dtype")
        batches = [value.shape[:-2] for value in (a, b, item.output)]
        return plain and a.ndim == b.ndim > 2 and all(same_shape(batches[0], other) for other in batches[1:])

    def pays(self, scores: OpNode, result: OpNode) -> bool:
        """Whether a cache holds the keys, the values and the scores of a few queries, but not all scores."""
        *batch, rows, columns = map(_counted, scores.output.shape)
        depth, width = scores.inputs[0].shape[-1], result.output.shape[-1]
        if not isinstance(depth, int) or not isinstance(width, int):
            return False
        return keeps_scores(prod(batch), rows, columns, depth, width, self.target)
