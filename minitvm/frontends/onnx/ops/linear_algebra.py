"""Convert operators on matrices other than products."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...common.operand import Operand
from ..context import NodeContext
from ..registry import converter

LARGEST = 32  # rows of a matrix whose elimination is written out


@converter("Det", since=11)
def det(n: NodeContext) -> Any:
    """Return the determinants of a batch of matrices, by unrolled Gaussian elimination with the largest pivot of each
    column.
    """
    x = n[0]
    *leading, rows, columns = x.shape
    if rows != columns or not isinstance(rows, int) or rows > LARGEST:
        n.refuse(f"determinants of {x} are not supported: wanted square matrices of known size up to {LARGEST}")
    if not rows:  # a product of nothing
        return n.op("full", shape=tuple(leading), fill_value=1.0, dtype=str(x.dtype))
    a = n.reshape(x, (-1, rows, rows))
    result: Operand | None = None
    for size in range(rows, 0, -1):
        if size > 1:
            a, sign = _pivoted(n, a, size)
            pivot = _part(n, a, (0, 0), (1, 1))
            signed = n.op("multiply", pivot, n.reshape(sign, (-1, 1, 1)))
            zero = n.op("equal", pivot, 0.0)
            factors = n.op("divide", _part(n, a, (1, 0), (size, 1)), n.op("where", zero, _one(x), pivot))
            rest = _part(n, a, (1, 1), (size, size))
            a = n.op("subtract", rest, n.op("multiply", factors, _part(n, a, (0, 1), (1, size))))
        else:
            signed = a
        result = signed if result is None else n.op("multiply", result, signed)
    assert result is not None
    return n.reshape(result, tuple(leading))


def _pivoted(n: NodeContext, a: Operand, size: int) -> tuple[Operand, Operand]:
    """Return the matrices with the row of the largest first element moved to the top, and -1 if two rows were swapped,
    else 1.
    """
    column = n.op("squeeze", n.op("abs", _part(n, a, (0, 0), (size, 1))), axis=(2,))
    best = n.cast(n.op("argmax", column, axis=(1,), keepdims=True), "int64")
    rows = np.arange(size)[None]
    moved = n.op("where", n.op("equal", best, rows), np.zeros((1, 1), np.int64), rows)
    order = n.op("where", np.equal(rows, 0), best, moved)
    spread = n.op("broadcast_to", n.op("expand_dims", order, axis=(2,)), shape=(a.shape[0], size, size))
    kept = n.op("equal", best, 0)
    one = np.ones((1, 1), a.dtype.numpy)
    return n.op("gather", a, spread, axis=1), n.op("where", kept, one, -one)


def _part(n: NodeContext, a: Operand, begin: tuple[int, int], end: tuple[int, int]) -> Operand:
    part: Operand = n.op("strided_slice", a, begin=begin, end=end, strides=(1, 1), axes=(1, 2))
    return part


def _one(like: Operand) -> Operand:
    return Operand.known(np.ones((1, 1, 1), like.dtype.numpy))
