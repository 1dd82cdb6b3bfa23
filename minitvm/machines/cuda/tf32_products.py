"""Compute products of float32 on tensor cores, with operands rounded to 10 bits of mantissa, if the target allows it.

    dense(x, w)  ->  dense(x, w, out_dtype="tfloat32")         # "cuda -arch=sm_80 -allow_tf32=true"

The error of a result is about 2^-10 of the sum of the products' magnitudes, instead of 2^-24 times their number. So the
user must allow it, as in PyTorch (`torch.backends.cuda.matmul.allow_tf32`), and `accuracy="strict"` excludes it. The
rounding is part of the operator, so each level of the program and its interpreter round too.
"""

from __future__ import annotations

from ...graph.nodes import Graph, OpNode, Value
from ...graph.pattern import Match, op, value
from ...graph.rewrite import Rewriter, RewriteRule, rewrite
from ...target import Target
from ...topi.factors import TF32

_PRODUCTS = frozenset(("nn.batch_matmul", "nn.dense", "nn.matmul", "nn.conv2d"))


def tf32_products(graph: Graph, target: Target, accuracy: str = "fast") -> Graph:
    """Return the graph with products of float32 that round their operands, if the target allows it."""
    if not target.rounds_to_tf32 or accuracy == "strict":
        return graph
    return rewrite(graph, RULES)


def _is_product(item: OpNode) -> bool:
    """Return whether an operator is a product of float32 without groups that does not round its operands yet."""
    if item.attrs.get("groups", 1) != 1 or item.attrs["out_dtype"] == TF32:
        return False
    return all(v.dtype == "float32" for v in (*item.inputs, item.output))


def _rounded(b: Rewriter, match: Match) -> Value:
    item = match.root
    result: Value = b.op(item.op, *item.inputs, name=item.output.name, **{**item.attrs, "out_dtype": TF32})
    return result


RULES = [RewriteRule(op(_PRODUCTS, value(), value(), when=_is_product), _rounded)]
