"""Convert operators that create tensors: constants, ranges, triangles."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....expr import Expr
from ....topi.shapes import is_one
from ...common.operand import Operand
from ..context import TorchNodeContext
from ..registry import converter


@converter("full.default")
def full(n: TorchNodeContext) -> Any:
    n.ignore("size", "dtype")
    return _filled(n, n.attr("fill_value"))


@converter("full_like.default")
def full_like(n: TorchNodeContext) -> Any:
    n.ignore("self", "dtype")
    return _filled(n, n.attr("fill_value"))


@converter("new_full.default")
def new_full(n: TorchNodeContext) -> Any:
    n.ignore("self", "size", "dtype")
    return _filled(n, n.attr("fill_value"))


@converter("zeros.default", "zeros_like.default", "new_zeros.default")
def zeros(n: TorchNodeContext) -> Any:
    n.ignore("self", "size", "dtype")
    return _filled(n, 0)


@converter("ones.default", "ones_like.default", "new_ones.default")
def ones(n: TorchNodeContext) -> Any:
    n.ignore("self", "size", "dtype")
    return _filled(n, 1)


@converter("empty.memory_format", "empty_like.default", "empty_permuted.default", "empty_strided.default",
           "new_empty.default", "new_empty_strided.default")  # fmt: skip
def empty(n: TorchNodeContext) -> Any:
    """Return a tensor of zeros. Its elements count as uninitialised, so nothing may depend on them."""
    n.ignore("self", "size", "dtype", "stride", "physical_layout")
    return _filled(n, 0)


@converter("fill.Scalar", "fill.Tensor")
def fill(n: TorchNodeContext) -> Any:
    n.ignore("self")
    return _filled(n, n.attr("value"))


@converter("scalar_tensor.default")
def scalar_tensor(n: TorchNodeContext) -> Any:
    n.ignore("dtype")
    return n.of_dtype(n.attr("s"), n.dtype)


def _filled(n: TorchNodeContext, value: Any) -> Any:
    """Return a tensor of the result's type filled with a value: a number, a dimension, or a tensor with one element."""
    if isinstance(value, bool | int | float) and all(is_one(d) for d in n.shape):
        return Operand.known(np.full((1,) * len(n.shape), value, n.dtype.numpy))
    if isinstance(value, Operand | Expr):
        return n.op("broadcast_to", n.of_dtype(value, n.dtype), shape=n.shape)
    return n.op("full", shape=n.shape, fill_value=value, dtype=str(n.dtype))


@converter("arange.start_step", "arange.start", "arange.default")
def arange(n: TorchNodeContext) -> Any:
    n.ignore("dtype")
    start = n.attr("start") if "start" in n.values else 0
    step = n.attr("step") if "step" in n.values else 1
    stop = n.attr("end")
    if any(isinstance(v, Expr) for v in (start, step, stop)):
        if not isinstance(step, int) or step == 0:
            n.refuse(f"a range by {step} with symbolic ends")
        return n.op("arange", start=start, stop=stop, step=step, dtype=str(n.dtype))
    if n.dtype.is_int:  # the ends and the step lose their fractions first
        start, step = int(start), int(step)
    return Operand.known((start + step * np.arange(n.fixed(n.node.meta["val"].shape[0]))).astype(n.dtype.numpy))


def _register_triangle(aten: str, upper: bool) -> None:
    @converter(f"{aten}.default")
    def _(n: TorchNodeContext) -> Any:
        """Return the rows and the columns of the positions in a triangle of a matrix, in row-major order."""
        n.ignore("dtype")
        rows, columns, offset = (n.attr(name) for name in ("row", "col", "offset"))
        if not all(isinstance(size, int) for size in (rows, columns, offset)):
            n.refuse(f"a matrix of the open sizes {rows} x {columns} is not supported")
        mask = np.tri(rows, columns, offset - 1 if upper else offset, dtype=bool)
        return Operand.known(np.array(np.nonzero(~mask if upper else mask)).astype(n.dtype.numpy))


for _aten in ("tril_indices", "triu_indices"):
    _register_triangle(_aten, upper=_aten == "triu_indices")


@converter("tril.default")
def tril(n: TorchNodeContext) -> Any:
    return _triangle(n, upper=False)


@converter("triu.default")
def triu(n: TorchNodeContext) -> Any:
    return _triangle(n, upper=True)


def _triangle(n: TorchNodeContext, upper: bool) -> Any:
    x, k = n["self"], n.attr("diagonal")
    if x.dtype.is_bool:
        return n.cast(n.op("trilu", n.cast(x, "int8"), k=k, upper=upper), "bool")
    return n.op("trilu", x, k=k, upper=upper)
