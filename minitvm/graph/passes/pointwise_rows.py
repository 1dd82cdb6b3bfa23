"""Replace a pointwise convolution next to a transpose by a product of rows, if its extent is unknown at compile time.

    conv1d(transpose(x), w) + b    ->    transpose(dense(x, w) + b)        x [n, rows, c], w [f, c, 1]
    transpose(conv1d(y, w) + b)    ->    dense(transpose(y), w) + b

In a product, the vector lanes are the columns. If the number of rows is unknown, the cost is proportional to the number
of rows. If the number of columns is unknown, a single column costs as much as a whole vector. The convolution module of
a Conformer (Gulati et al., 2020) contains both forms. Element-wise operators after such a product, and slices of its
channels, are computed in rows as well.
"""

from __future__ import annotations

from ...expr import Expr
from ...topi import registry
from ...topi.shapes import paddings, per_axis
from ..nodes import FUSED, LOOP, Graph, OpNode, Value
from ..pattern import Match, constant, op, value
from ..rewrite import Rewriter, RewriteRule, rewrite

_SWAPPED = (0, 2, 1)


def pointwise_rows(graph: Graph) -> Graph:
    """Replace pointwise convolutions next to a transpose with matrix products. `simplify` then removes transposes
    that cancel.

    before:
        x = b.input("x", (1, SizeVar("n"), 8))
        w = b.constant(np.ones((4, 8, 1), "float32"))
        y = b.op("transpose", x, axes=(0, 2, 1))
        return b.op("nn.conv1d", y, w)
    after:
        def main(x: float32[1, n, 8]):
            squeeze = constant(float32[4, 8])
            transpose: float32[1, 8, n] = transpose(x, axes=(0, 2, 1))
            transpose_1: float32[1, n, 8] = transpose(transpose, axes=(0, 2, 1))
            dense: float32[1, n, 4] = nn.dense(transpose_1, squeeze)
            conv1d: float32[1, 4, n] = transpose(dense, axes=(0, 2, 1))
            return conv1d
    """
    return rewrite(graph, _Rows().rules)


class _Rows:
    """Rewrites products, and the operators after them, in rows. It holds the rules of the pass, and the new values that
    are stored as rows, keyed by the old values.
    """

    def __init__(self) -> None:
        self.rows: dict[Value, Value] = {}
        convolution, alone = (
            op("nn.conv1d", value("data"), constant("weight"), name="conv", when=_is_pointwise, alone=alone)
            for alone in (False, True)
        )
        self.rules = [
            RewriteRule(op("nn.bias_add", alone, value("bias"), when=_is_bias), self.product),
            RewriteRule(convolution, self.product),
            RewriteRule(op((), ...), self.follower),
        ]

    def product(self, b: Rewriter, match: Match) -> Value | None:
        """Rewrite a convolution, and its bias if it has one, as a product of rows.

        Returns None if that saves no transpose, or if the bias comes next and will be rewritten with the convolution.
        """
        facts, conv, last = match.facts, match.node("conv"), match.root
        reader = facts.only_reader(last.output)
        if last is conv and reader is not None and reader.op == "nn.bias_add" and _is_bias(reader):
            return None  # the bias is the last operator
        if not _swaps(facts.producers.get(match["data"])) and not _swaps(reader):
            return None
        rows, matrix = b.op("transpose", match["data"], axes=_SWAPPED), b.op("squeeze", match["weight"], axis=(2,))
        result = b.op("nn.dense", rows, matrix)
        if last is not conv:
            result = b.op("nn.bias_add", result, match["bias"], axis=-1)
        return self.swapped(b, last, result)

    def follower(self, b: Rewriter, match: Match) -> Value | None:
        """Compute an element-wise operator after a product, or a slice of its channels, in rows.

        Returns None if the operator is neither.
        """
        item, rows = match.root, self.rows
        if item.op in (FUSED, LOOP) or not any(v in rows for v in item.inputs):
            return None
        alike = all(v in rows or v.ndim == 0 for v in item.inputs) and not {"axis", "shape"} & set(item.attrs)
        elementwise = registry.get(item.op).pattern in registry.MAPS and alike
        part = item.op == "strided_slice" and item.attrs["axes"] in ((1,), (-2,))
        if not (elementwise or part) or item.output.ndim != 3:
            return None
        attrs = {**item.attrs, "axes": (2,)} if part else item.attrs
        operands = [rows.get(v, v) for v in item.inputs]
        return self.swapped(b, item, b.op(item.op, *operands, name=item.output.name, **attrs))

    def swapped(self, b: Rewriter, item: OpNode, result: Value) -> Value:
        """Record that `result` holds the output of `item` with rows and columns swapped, and return the transpose of
        `result`.
        """
        self.rows[item.output] = result
        plain: Value = b.op("transpose", result, name=item.output.name, axes=_SWAPPED)
        return plain


def _swaps(item: OpNode | None) -> bool:
    """Return whether an operator swaps rows and columns."""
    return item is not None and item.op == "transpose" and item.attrs["axes"] == _SWAPPED


def _is_bias(item: OpNode) -> bool:
    """Return whether a `bias_add` adds one element per channel."""
    return item.attrs["axis"] in (1, -2)


def _is_pointwise(item: OpNode) -> bool:
    """Return whether a convolution of floats has kernel width 1 and an extent that is unknown at compile time."""
    data, weight, attrs = item.inputs[0], item.inputs[1], item.attrs
    if data.dtype != weight.dtype or not item.output.dtype.is_float:
        return False
    if attrs["out_dtype"] or attrs["groups"] != 1 or weight.shape[2] != 1:
        return False
    padded = any(amount for side in paddings(attrs["padding"], 1) for amount in side)
    return per_axis(attrs["strides"], 1, "strides") == (1,) and not padded and isinstance(data.shape[2], Expr)
