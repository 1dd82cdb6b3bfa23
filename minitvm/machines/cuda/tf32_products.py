"""Products of float32 on tensor cores: operands are rounded to 10 bits of mantissa, where the target allows it.

    dense(x, w)  ->  dense(x, w, out_dtype="tfloat32")         # "cuda -arch=sm_80 -allow_tf32=true"

A result is within about 2^-10 of the sum of the products' magnitudes, not within 2^-24 times their number. So it is
done by consent only, as PyTorch does (`torch.backends.cuda.matmul.allow_tf32`), and not for `accuracy="strict"`. The
operator says so itself: each level of the program and its interpreter round.
"""

from __future__ import annotations

from ...graph.builder import GraphBuilder
from ...graph.nodes import Graph, OpNode, Value
from ...graph.passes.rebuild import with_replaced
from ...target import Target
from ...topi.factors import TF32

_PRODUCTS = frozenset(("nn.batch_matmul", "nn.dense", "nn.matmul", "nn.conv2d"))


def tf32_products(graph: Graph, target: Target, accuracy: str = "fast") -> Graph:
    """The graph whose products of float32 round their operands, where the target's tensor cores are to compute them."""
    if not target.rounds_to_tf32 or accuracy == "strict":
        return graph

    def make(b: GraphBuilder, item: OpNode, inputs: list[Value]) -> Value:
        attrs = {**item.attrs, "out_dtype": TF32}
        result: Value = b.op(item.op, *inputs, name=item.output.name, **attrs)
        return result

    return with_replaced(graph, _is_product, make)


def _is_product(item: OpNode) -> bool:
    if item.op not in _PRODUCTS or item.attrs.get("groups", 1) != 1 or item.attrs["out_dtype"] == TF32:
        return False
    return [value.dtype for value in (*item.inputs, item.output)] == ["float32"] * 3
