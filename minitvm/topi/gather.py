"""Read elements at indices given by a tensor: take, gather.

A negative index counts from the end. An index that is out of range is moved to the nearest end, so that no access is
out of bounds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import te
from ..errors import TypeMismatch
from ..expr import Expr, as_expr
from ..te import Tensor
from .indices import check_index, clamped
from .registry import Pattern, register
from .shapes import agree, axis_of, constant, dims, require_at_least, require_some
from .transform import reshape


def _fold_take(data: Any, indices: Any, axis: int | None) -> Any:
    return np.take(data, indices, axis, mode="raise")


@register("take", pattern=Pattern.INJECTIVE, fold=_fold_take)
def take(data: Tensor, indices: Tensor, *, axis: int | None = None) -> Tensor:
    """Return the slices of `data` at `indices` along `axis`.

    The axes of `indices` replace this axis. If `axis` is None, data is flattened first.
    """
    check_index("take", indices)
    if axis is None:
        return take(reshape(data, newshape=(-1,)), indices, axis=0)
    at = axis_of(axis, data.ndim)
    count = indices.ndim
    shape = [*dims(data)[:at], *dims(indices), *dims(data)[at + 1 :]]
    require_some(dims(data)[at], f"entries along axis {at} to take", shape)

    def element(*i: Any) -> Expr:
        index = clamped(indices[i[at : at + count]], dims(data)[at])
        return data[(*i[:at], index, *i[at + count :])]

    return te.compute(shape, element, name="T_take")


@register("gather", pattern=Pattern.INJECTIVE)
def gather(data: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    """Return out[i, j, k] = data[indices[i, j, k], j, k] for axis 0, and so on (ONNX's GatherElements)."""
    check_index("gather", indices)
    at = axis_of(axis, data.ndim)
    if indices.ndim != data.ndim:
        raise TypeMismatch(f"gather: data and indices have as many dimensions, found {data} and {indices}")
    require_some(dims(data)[at], f"entries along axis {at} to gather", dims(indices))
    for axis, (extent, needed) in enumerate(zip(dims(data), dims(indices), strict=True)):
        if axis != at:
            require_at_least(extent, needed, f"entries along axis {axis} of the data, as the indices have")
    return te.compute(
        indices.shape, lambda *i: data[(*i[:at], clamped(indices[i], dims(data)[at]), *i[at + 1 :])], name="T_gather"
    )


@register("gather_nd", pattern=Pattern.INJECTIVE)
def gather_nd(data: Tensor, indices: Tensor, *, batch_dims: int = 0) -> Tensor:
    """Return the elements or slices of `data` at the points that the last axis of `indices` gives (ONNX's GatherND).

    In Relay, the points are along the first axis instead. Both tensors share the first `batch_dims` axes.
    """
    check_index("gather_nd", indices)
    size = constant(dims(indices)[-1], "gather_nd: the last axis of the indices")
    if batch_dims < 0 or batch_dims + size > data.ndim or batch_dims >= indices.ndim:
        raise TypeMismatch(f"gather_nd: points of {size} coordinates behind {batch_dims} do not fit {data}")
    lead = indices.ndim - 1
    shape = [*dims(indices)[:-1], *dims(data)[batch_dims + size :]]
    for axis, extent in enumerate(dims(data)[: batch_dims + size]):
        if axis >= batch_dims:
            require_some(extent, f"entries along axis {axis} to gather", shape)
        elif not agree(extent, dims(indices)[axis]):
            raise TypeMismatch(f"gather_nd: data and indices differ in axis {axis}, found {data} and {indices}")

    def element(*i: Any) -> Expr:
        point = [clamped(indices[(*i[:lead], as_expr(k))], dims(data)[batch_dims + k]) for k in range(size)]
        return data[(*i[:batch_dims], *point, *i[lead:])]

    return te.compute(shape, element, name="T_gather_nd")
