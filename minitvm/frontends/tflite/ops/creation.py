"""Convert operators that create tensors, or spread one over another shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....graph.nodes import Dim
from ...common.operand import Operand, known_dims
from ..context import NodeContext
from ..layouts import Laid
from ..registry import converter


@converter("SHAPE", bytes="own")
def shape(n: NodeContext) -> Any:
    return n.cast(known_dims(n.laid(0).shape), str(n.result_dtype()))


@converter("RANK", bytes="own")
def rank(n: NodeContext) -> Any:
    return Operand.known(np.array(n.laid(0).ndim, np.int32))


@converter("FILL", bytes="stored")
def fill(n: NodeContext) -> Any:
    return _spread(n, n.reshape(n[1], ()), n.dims(n[0], "the shape"))


@converter("ZEROS_LIKE", bytes="stored")
def zeros_like(n: NodeContext) -> Any:
    x = n.laid(0)
    zero = Operand.known(np.zeros((), x.operand.dtype.numpy))
    return Laid.of(_spread(n, zero, x.operand.shape), x.order)


@converter("RANGE")
def range_(n: NodeContext) -> Any:
    """Return start, start + delta, ... below the limit. All three must be known."""
    start, limit, delta = (n.static(n[k], what) for k, what in enumerate(("the start", "the limit", "the step")))
    if not delta.all():
        n.refuse("a step of 0")
    return Operand.known(np.arange(start.item(), limit.item(), delta.item()).astype(n.result_dtype().numpy))


@converter("BROADCAST_TO", bytes="stored")
def broadcast_to(n: NodeContext) -> Any:
    return _spread(n, n[0], n.dims(n[1], "the shape"))


@converter("BROADCAST_ARGS", bytes="own")
def broadcast_args(n: NodeContext) -> Any:
    shapes = [n.ints(n[k], "the shape") for k in (0, 1)]
    return Operand.known(np.array(np.broadcast_shapes(*shapes), n.result_dtype().numpy))


def _spread(n: NodeContext, x: Operand, shape: Sequence[Dim]) -> Operand:
    result: Operand = n.op("broadcast_to", x, shape=tuple(shape))
    return result


@converter("ONE_HOT", bytes="stored")
def one_hot(n: NodeContext) -> Any:
    """Return `on` where the new axis equals the index, and `off` elsewhere."""
    index, depth, on, off = n[0], int(n.scalar(n[1], "the depth")), n[2], n[3]
    axis = n.axis(int(n.option("Axis", -1)), index.ndim + 1)
    line = n.reshape(
        n.cast(n.numbers(depth, 0, 1), str(index.dtype)), [-1 if a == axis else 1 for a in range(index.ndim + 1)]
    )
    return n.op(
        "where", n.op("equal", n.op("expand_dims", index, axis=(axis,)), line), n.reshape(on, ()), n.reshape(off, ())
    )


@converter("MATRIX_DIAG", bytes="stored")
def matrix_diag(n: NodeContext) -> Any:
    """Return matrices with the rows of x as their diagonals."""
    x = n[0]
    size = n.size(x, x.ndim - 1)
    zero = np.zeros((), x.dtype.numpy)
    return n.op("where", np.eye(size, dtype=bool), n.op("expand_dims", x, axis=(x.ndim - 1,)), zero)


@converter("MATRIX_SET_DIAG", bytes="stored")
def matrix_set_diag(n: NodeContext) -> Any:
    x, diagonal = n[0], n[1]
    rows, columns = n.size(x, x.ndim - 2), n.size(x, x.ndim - 1)
    column = n.op("expand_dims", diagonal, axis=(diagonal.ndim,))
    if rows > columns:
        column = n.op("nn.pad", column, pad_width=[(0, 0)] * (x.ndim - 2) + [(0, rows - columns), (0, 0)])
    return n.op("where", np.eye(rows, columns, dtype=bool), column, x)


@converter("SPARSE_TO_DENSE", bytes="stored")
def sparse_to_dense(n: NodeContext) -> Any:
    """Return a tensor with values at places [k, rank], and a default elsewhere."""
    places, shape, values, default = n[0], n.dims(n[1], "the shape"), n[2], n[3]
    places = n.reshape(places, (-1, len(shape)) if places.ndim != 1 else (-1, 1))
    count = places.shape[0]
    whole = _spread(n, n.reshape(default, ()), shape)
    values = _spread(n, values, (count,)) if values.ndim == 0 else values
    return n.op("scatter_nd", whole, places, values)


@converter("BITCAST", bytes="own")
def bitcast(n: NodeContext) -> Any:
    x, dtype = n[0], n.result_dtype()
    if x.dtype.bytes != dtype.bytes:
        n.refuse(f"elements of {x.dtype} as {dtype}, of another size")
    return n.op("reinterpret", x, dtype=str(dtype))
