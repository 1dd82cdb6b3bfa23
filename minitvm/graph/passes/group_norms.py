"""Recognise group normalisation that is written as the instance normalisation of reshaped data, and make it one
operator.

    reshape(instance_norm(reshape(x, [n, groups, ..]), s, b), shape of x)  ->  group_norm(x, gamma, beta)
    add(multiply(group_norm(x, gamma, beta), u), v)                        ->  group_norm(x, gamma * u, beta * u + v)

PyTorch exports group normalisation to ONNX this way. As one operator it can follow the layout of a convolution. `u` and
`v` are constants with an element for each channel. They are combined in float64 and rounded once.
"""

from __future__ import annotations

from math import prod

import numpy as np

from ..nodes import Graph, OpNode, Value
from ..pattern import Match, constant, op, value
from ..rewrite import Rewriter, RewriteRule, rewrite, same_shape


def group_norms(graph: Graph) -> Graph:
    """Replace each chain that computes a group norm with one operator. Nodes that become unused are removed later.

    before:
        x = b.input("x", (1, 8, 4, 4))
        c = b.constant(np.ones(2, "float32"))
        y = b.op("reshape", x, newshape=(1, 2, -1))
        z = b.op("nn.instance_norm", y, c, c)
        return b.op("reshape", z, newshape=(1, 8, 4, 4))
    after:
        def main(x: float32[1, 8, 4, 4]):
            gamma = constant(float32[8])  # [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
            beta = constant(float32[8])  # [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
            reshape_1: float32[1, 8, 4, 4] = nn.group_norm(x, gamma, beta, num_groups=2)
            return reshape_1
    """
    return rewrite(graph, RULES, repeat=True)


def _of_rows(b: Rewriter, match: Match) -> Value | None:
    """Return the group normalisation that equals the matched chain of reshape, instance normalisation and reshape, or
    None if the shapes do not fit.
    """
    x, rows = match["x"], match.node("rows")
    batch, groups, *_ = match["split"].shape
    if not same_shape(x.shape, match.root.output.shape):
        return None
    if x.ndim < 3 or not isinstance(groups, int) or not isinstance(x.shape[1], int) or x.shape[1] % groups:
        return None
    if not same_shape((batch,), x.shape[:1]):
        return None
    gamma, beta = (np.repeat(match.facts.arrays[v], x.shape[1] // groups) for v in rows.inputs[1:])
    return _norm(b, match, gamma, beta, groups, rows.attrs["epsilon"])


def _of_scale(b: Rewriter, match: Match) -> Value | None:
    """Return the group norm after moving a multiplication or an addition into its constants, or None if their shapes do
    not fit.
    """
    item, norm = match.root, match.node("norm")
    values = _of_channels(match, item.output)
    if values is None or not same_shape(norm.output.shape, item.output.shape):
        return None
    gamma, beta = (match.facts.arrays[v].astype(np.float64) for v in norm.inputs[1:])
    gamma, beta = (gamma * values, beta * values) if item.op == "multiply" else (gamma, beta + values)
    return _norm(b, match, gamma, beta, norm.attrs.get("num_groups"), norm.attrs["epsilon"])


def _of_channels(match: Match, output: Value) -> np.ndarray | None:
    """Return the constant that the match calls "values" with one element per channel (axis 1) of `output`, repeating a
    single element.

    Returns None if it varies along another axis.
    """
    if output.ndim < 2 or match["values"].dtype != output.dtype or not isinstance(output.shape[1], int):
        return None
    array = match.array("values").astype(np.float64)
    shape = (1,) * (output.ndim - array.ndim) + array.shape
    if array.ndim > output.ndim or prod(shape) != shape[1]:
        return None
    return np.broadcast_to(array.reshape(-1), (output.shape[1],))


def _norm(b: Rewriter, match: Match, gamma: np.ndarray, beta: np.ndarray, groups: int | None, epsilon: float) -> Value:
    """Add a normalisation of the value that the match calls "x", which replaces the root of the match; return its
    result.

    It is an instance normalisation if `groups` is None, and a group normalisation otherwise.
    """
    x = match["x"]
    weights = [b.constant(a.astype(x.dtype.numpy), name) for a, name in ((gamma, "gamma"), (beta, "beta"))]
    ending = {} if groups is None else {"num_groups": groups}
    kind = "nn.instance_norm" if groups is None else "nn.group_norm"
    norm: Value = b.op(kind, x, *weights, name=match.root.output.name, epsilon=epsilon, **ending)
    return norm


def _of_axis_1(item: OpNode) -> bool:
    return bool(item.attrs["axis"] == 1)


_X, _CONSTANT = value("x"), constant()
_ROWS = op(
    "nn.instance_norm", op("reshape", _X, name="split"), others=_CONSTANT, name="rows", alone=True, when=_of_axis_1
)
_NORM = op(("nn.group_norm", "nn.instance_norm"), _X, others=_CONSTANT, name="norm", alone=True, when=_of_axis_1)

RULES = [
    RewriteRule(op("reshape", _ROWS), _of_rows),
    RewriteRule(op(("multiply", "add"), _NORM, constant("values"), any_order=True), _of_scale),
]
