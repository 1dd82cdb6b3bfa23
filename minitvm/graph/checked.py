"""`checked_indices` adds checks to a graph: a run ends with an error if an index is out of range.

Without the checks, an index that comes from data is moved to the nearest element (`topi.indices.clamped`), which is
safe but silent. For example, if there are five rows, `take` reads row 4 for the index 900. The checked graph finds the
largest and the smallest index before each such operator, and compares them with the axis (`bind_size` with a reason).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..expr import Expr, SizeVar
from ..topi.shapes import larger, simple
from .builder import GraphBuilder
from .loop_bodies import everywhere
from .nodes import Dim, Graph, OpNode, Value
from .pattern import Match, op
from .rewrite import Rewriter, RewriteRule, rewrite

_FAR = 2**62  # larger than any axis, and -_FAR is an int64 too


def checked_indices(graph: Graph) -> Graph:
    """Add a check before each operator that reads or writes at data-dependent indices."""
    rules = [RewriteRule(op(tuple(_AXES), ...), _with_check)]
    return everywhere(lambda part: rewrite(part, rules))(graph)


def _with_check(b: Rewriter, match: Match) -> Value:
    item, inputs = match.root, [b.now(v) for v in match.root.inputs]
    for indices, axis, extent in _AXES[item.op](b, item, inputs):
        _check(b, item, indices, axis, extent)
    result: Value = b.op(item.op, *inputs, name=item.output.name, **item.attrs)
    return result


def _check(b: GraphBuilder, item: OpNode, indices: Value, axis: int, extent: Dim) -> None:
    """Add two checks: the largest index must be less than the extent, and the smallest at least minus the extent."""
    flat = b.op("reshape", b.op("cast", indices, dtype="int64"), newshape=(-1,))
    every = b.op("concatenate", flat, np.zeros(1, np.int64), axis=0)  # the list may be empty; 0 is in range
    lowest = b.op("maximum", b.op("min", every), np.array(-_FAR, np.int64))
    # Nothing is read from an axis without elements: the operator itself checks this.
    last = larger(simple(extent - 1), 0)
    for number, most, sign, limit in (
        (b.op("max", every), last, "", "at most {most}"), (b.op("negative", lowest), extent, "-", "at least -{most}"),
    ):  # fmt: skip
        text = f"is out of range along axis {axis} of {item.inputs[0].type}: wanted {limit}"
        reason = f"the index {sign}{{found}} {text}"
        b.op("bind_size", number, size=SizeVar("checked"), most=most, where=item.where or item.op, reason=reason)


def _along_axis(_: GraphBuilder, item: OpNode, inputs: list[Value]) -> Iterator[tuple[Value, int, Dim]]:
    axis, shape = item.attrs["axis"], inputs[0].shape
    if axis is None:
        yield inputs[1], 0, _product(shape)
    else:
        yield inputs[1], axis % len(shape), shape[axis]


def _at_points(b: GraphBuilder, item: OpNode, inputs: list[Value]) -> Iterator[tuple[Value, int, Dim]]:
    """Yield (indices, axis, extent) for each indexed axis.

    The last axis of the indices holds the coordinates of a point.
    """
    indices, first = inputs[1], item.attrs.get("batch_dims", 0)
    size = indices.shape[-1]
    assert isinstance(size, int)  # the operator accepts nothing else
    for k in range(size):
        cut: dict[str, Any] = {"begin": (k,), "end": (k + 1,), "strides": (1,), "axes": (len(indices.shape) - 1,)}
        yield b.op("strided_slice", indices, **cut), first + k, inputs[0].shape[first + k]


def _product(shape: tuple[Dim, ...]) -> Any:
    sizes: list[int | Expr] = list(shape)
    return math.prod(sizes)


# The operators whose second input has indices into the first, with the axes that it indexes.
_AXES: dict[str, Any] = {
    "take": _along_axis,
    "gather": _along_axis,
    "scatter_elements": _along_axis,
    "gather_nd": _at_points,
    "scatter_nd": _at_points,
}
