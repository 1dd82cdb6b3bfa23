"""Convert operators with a data-dependent number of results. PyTorch's size for it becomes a size of the graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....topi.shapes import broadcast_shapes
from ...common.operand import Operand
from ..context import TorchNodeContext
from ..registry import converter
from .shaping import reshaped


def places_of(n: TorchNodeContext, x: Operand, sizes: Any) -> Operand:
    """Return a row of indices for each element of x that is not 0.

    `sizes` are the sizes of a result of the node. The first of them that no operator has bound yet becomes the number
    of rows.
    """
    if x.data is not None and not x.is_symbolic:
        return Operand.known(np.argwhere(x.data).astype(np.int64))
    places, count = n.op("argwhere", x)
    size = n.bound(count, places.shape[0], "count", n.importer.symbols.unbound(sizes))
    rows: Operand = n.op("leading", places, size=size)
    return rows


@converter("nonzero.default")
def nonzero(n: TorchNodeContext) -> Any:
    """Return a row of indices for each element that is not 0."""
    x = n["self"]
    if x.ndim == 0:
        n.refuse("a tensor without dimensions")
    return places_of(n, x, n.node.meta["val"].shape)


@converter("where.default")
def where(n: TorchNodeContext) -> Any:
    """Return the indices of the elements that are not 0, as one vector per axis."""
    x = n["condition"]
    if x.ndim == 0:
        n.refuse("a tensor without dimensions")
    places = places_of(n, x, n.node.meta["val"][0].shape)
    return [n.entry(places, axis, 1) for axis in range(x.ndim)]


@converter("masked_select.default")
def masked_select(n: TorchNodeContext) -> Any:
    """Return the elements for which a mask holds, in row-major order."""
    x, mask = n["self"], n["mask"]
    shape = broadcast_shapes(x.shape, mask.shape)
    x, mask = (t if t.shape == shape else n.op("broadcast_to", t, shape=shape) for t in (x, mask))
    places = places_of(n, reshaped(n, mask, (-1,)), n.node.meta["val"].shape)
    return n.op("take", reshaped(n, x, (-1,)), n.entry(places, 0, 1), axis=0)
