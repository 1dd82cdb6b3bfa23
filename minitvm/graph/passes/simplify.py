"""Remove operators that do nothing, and shorten chains of operators that move elements: a table of rules."""

from __future__ import annotations

import numpy as np

from ...topi import registry
from ...topi.shapes import paddings, per_axis
from ..nodes import FUSED, MATCH_CAST, Graph, OpNode, Value
from ..pattern import Match, ValuePattern, constant, op, value
from ..rewrite import Rewriter, RewriteRule, rewrite, same_shape


def simplify(graph: Graph) -> Graph:
    """Apply the rules to the nodes, in order, until no rule applies any longer.

    before:
        x = b.input("x", (2, 3))
        y = b.op("transpose", x)
        z = b.op("transpose", y)
        return b.op("nn.relu", z)
    after:
        def main(x: float32[2, 3]):
            relu: float32[2, 3] = nn.relu(x)
            return relu
    """
    return rewrite(graph, RULES, repeat=True)


def third_power(b: Rewriter, match: Match) -> Value:
    """Rewrite x ** 3 as x * x * x, which is also within 2 ulp. The tanh form of gelu contains such a power."""
    x, name = match["x"], match.root.output.name
    square = b.op("multiply", x, x, name=f"{name}_square")
    cube: Value = b.op("multiply", square, x, name=name)
    return cube


def one_transpose(b: Rewriter, match: Match) -> Value:
    """Replace two consecutive transposes with one."""
    first = _order(match.node("inner"))
    return _instead(b, match, "transpose", match["x"], axes=tuple(first[a] for a in _order(match.root)))


def one_reshape(b: Rewriter, match: Match) -> Value:
    """Replace two consecutive reshapes with one to the final shape."""
    return _instead(b, match, "reshape", match["x"], newshape=match.root.output.shape, allowzero=True)


def part_of_joined(b: Rewriter, match: Match) -> Value | None:
    """If a slice reads only one part of a concatenation, slice that part instead. Otherwise return None."""
    item, joined = match.root, match.node("joined")
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
                return _instead(b, match, "strided_slice", x, **cut)
            entry = b.op("expand_dims", x, axis=(at,), name=f"{item.output.name}_entry")
            return _instead(b, match, "strided_slice", entry, **cut)
        offset += extent
    return None


def padding_of_convolution(b: Rewriter, match: Match) -> Value | None:
    """Pad in the convolution that reads the result of a pad, or return None if it pads with something else.

    Legal: a convolution pads spatial axes with zeros, and one of bytes with its zero point.
    """
    item, pad = match.root, match.node("pad")
    rank = item.output.ndim - 2
    (before, after), widths = paddings(item.attrs["padding"], rank), pad.attrs["pad_width"]
    spatial = widths[2:]
    known = all(isinstance(amount, int) for pair in widths for amount in pair)
    if not known or any((*widths[0], *widths[1])) or min(min(pair) for pair in spatial) < 0:
        return None
    if pad.attrs["pad_mode"] != "constant" or pad.attrs["pad_value"] != item.attrs.get("zero_point", 0):
        return None
    ahead = tuple(p + first for p, (first, _) in zip(before, spatial, strict=True))
    behind = tuple(p + last for p, (_, last) in zip(after, spatial, strict=True))
    # Windows that hold nothing but padding would be outside of what schedules expect.
    if any(p >= k for p, k in zip((*ahead, *behind), 2 * _windows(item), strict=True)):
        return None
    attrs = {**item.attrs, "padding": (*ahead, *behind)}
    convolved: Value = b.op(item.op, match["x"], *item.inputs[1:], name=item.output.name, **attrs)
    return convolved


def _windows(item: OpNode) -> tuple[int, ...]:
    """Return the extents of a convolution's dilated filters; 0 for a symbolic one."""
    kernel = item.inputs[1].shape[2:]
    dilations = per_axis(item.attrs["dilation"], len(kernel), "dilation")
    return tuple((k - 1) * d + 1 if isinstance(k, int) else 0 for k, d in zip(kernel, dilations, strict=True))


def _is_channels_first(item: OpNode) -> bool:
    return item.attrs.get("data_layout", "NCHW") == "NCHW" and item.attrs.get("kernel_layout", "OIHW") == "OIHW"


def _instead(b: Rewriter, match: Match, kind: str, x: Value, **attrs: object) -> Value:
    """Add the operator `kind`, which replaces the operator at the root of the match and takes over its name."""
    result: Value = b.op(kind, x, name=match.root.output.name, **attrs)
    return result


def _keeps_shape(item: OpNode) -> bool:
    return same_shape(item.inputs[0].shape, item.output.shape)


def _keeps_form(item: OpNode) -> bool:
    """Return whether a copy, dropout, reshape, broadcast, slice from the start, or pad leaves the shape unchanged."""
    if not _is_view(item) and item.op not in ("broadcast_to", "tile", "nn.pad", "strided_slice", "repeat"):
        return False
    if item.op == "strided_slice" and any(step != 1 for step in item.attrs["strides"] or ()):
        return False
    if item.op == "nn.pad" and any(not is_zero(amount) for pair in item.attrs["pad_width"] for amount in pair):
        return False
    return _keeps_shape(item)


def is_zero(amount: object) -> bool:
    """Return whether a number, which may be symbolic, is the constant 0."""
    return isinstance(amount, int) and amount == 0


def _is_view(item: OpNode) -> bool:
    """Return whether an operator's output has the same bytes as its input, in the same order."""
    if item.op in (FUSED, MATCH_CAST) or not registry.get(item.op).view:
        return False
    return item.inputs[0].dtype == item.output.dtype


def _is_shortened(item: OpNode) -> bool:
    """Return whether a chain of views may be shortened, which requires that the value is not known to be empty.

    A reshape of an empty tensor cannot infer an extent.
    """
    return _is_view(item) and 0 not in [d for d in item.output.shape if isinstance(d, int)]


def _order(item: OpNode) -> list[int]:
    rank = item.output.ndim
    axes = item.attrs["axes"]
    return list(reversed(range(rank))) if axes is None else [a % rank for a in axes]


def _all(number: float) -> ValuePattern:
    """Return a pattern for a constant whose elements all equal `number`."""
    return constant(when=lambda array: bool(np.all(array == number)))


_X = value("x")
_WIDE = ("float32", "float64")

RULES = [
    RewriteRule(op("power", _X, _all(3), when=lambda n: n.output.dtype in _WIDE and _keeps_shape(n)), third_power),
    RewriteRule(op("cast", _X, when=lambda n: n.inputs[0].dtype == n.output.dtype), "x"),
    RewriteRule(op((), _X, ..., when=_keeps_form), "x"),
    RewriteRule(op(("concatenate", "elementwise_sum"), _X), "x"),
    RewriteRule(op("transpose", _X, when=lambda n: _order(n) == list(range(n.output.ndim))), "x"),
    RewriteRule(op("transpose", op("transpose", _X, name="inner")), one_transpose),
    RewriteRule(op((), op((), _X, when=_is_view), when=_is_shortened), one_reshape),
    RewriteRule(op(("multiply", "divide"), _X, _all(1), when=_keeps_shape), "x"),
    RewriteRule(op("strided_slice", op(("concatenate", "stack"), ..., name="joined")), part_of_joined),
    RewriteRule(
        op(
            ("nn.conv1d", "nn.conv2d", "nn.conv3d", "qnn.conv2d"),
            op("nn.pad", _X, name="pad"),
            ...,
            when=_is_channels_first,
        ),
        padding_of_convolution,
    ),
]
