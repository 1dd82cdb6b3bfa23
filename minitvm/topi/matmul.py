"""Matrix products: `dense`, `matmul` with NumPy's broadcasting of the leading axes, `batch_matmul`.

Both operands are converted to `out_dtype` when they are read, and products and sums have that dtype. If it is empty,
the dtype of the first operand is used; with "tfloat32", operands are rounded to TF32, and sums are float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import te
from ..errors import TypeMismatch
from ..expr import Expr
from ..te import Tensor
from .factors import factor
from .registry import Pattern, register
from .shapes import agree, broadcast_point, broadcast_shapes, dims
from .spelling import Aten

_PRODUCTS = Aten("matmul mm bmm mv dot", operands="own")


@register("nn.dense", pattern=Pattern.COMPLEX_OUT_FUSABLE)
def dense(data: Tensor, weight: Tensor, *, out_dtype: str = "") -> Tensor:
    """Return data [..., k] times the transpose of weight [n, k]: out[..., j] = sum over k of data[..., k] *
    weight[j, k].
    """
    if data.ndim < 1 or weight.ndim != 2 or not agree(dims(data)[-1], dims(weight)[1]):
        raise TypeMismatch(f"nn.dense: wanted data [..., k] and weight [n, k], found {data} and {weight}")
    _check_dtypes("nn.dense", data, weight, out_dtype)
    dtype = out_dtype or data.dtype
    k = te.reduce_axis((0, data.shape[-1]), name="k")

    def element(*indices: Any) -> Any:
        *rows, j = indices
        return te.sum(factor(data[(*rows, k.var)], dtype) * factor(weight[j, k.var], dtype), axis=k)

    names = _names(data.ndim - 1)
    return te.compute(
        (*dims(data)[:-1], weight.shape[0]),
        element,
        name="T_matmul_NT",
        attrs={"op": "nn.dense"},
        varargs_names=[*names, "j"],
    )


@register("nn.matmul", pattern=Pattern.COMPLEX_OUT_FUSABLE, onnx="MatMul", aten=_PRODUCTS)
def matmul(
    a: Tensor, b: Tensor, *, transpose_a: bool = False, transpose_b: bool = False, out_dtype: str = ""
) -> Tensor:
    """Return the product of a [..., m, k] and b [..., k, n]. The leading axes broadcast.

    A vector on the left is a row, and a vector on the right is a column. With `transpose_a`, a is [..., k, m]; with
    `transpose_b`, b is [..., n, k].
    """
    return _matmul("nn.matmul", a, b, transpose_a and a.ndim > 1, transpose_b and b.ndim > 1, out_dtype)


@register("nn.batch_matmul", pattern=Pattern.COMPLEX_OUT_FUSABLE)
def batch_matmul(
    a: Tensor, b: Tensor, *, transpose_a: bool = False, transpose_b: bool = True, out_dtype: str = ""
) -> Tensor:
    """Return the product of a [batch, m, k] and the transpose of b [batch, n, k] (Relay's default). A batch of 1
    broadcasts.
    """
    if a.ndim != 3 or b.ndim != 3:
        raise TypeMismatch(f"nn.batch_matmul: wanted three dimensions, found {a} and {b}")
    return _matmul("nn.batch_matmul", a, b, transpose_a, transpose_b, out_dtype)


def _matmul(op: str, a: Tensor, b: Tensor, transpose_a: bool, transpose_b: bool, out_dtype: str) -> Tensor:
    _check_dtypes(op, a, b, out_dtype)
    dtype = out_dtype or a.dtype
    return product_of_matrices(op, a, b, lambda x, y: factor(x, dtype) * factor(y, dtype), transpose_a, transpose_b)


def product_of_matrices(
    op: str, a: Tensor, b: Tensor, multiply: Callable[[Expr, Expr], Expr], transpose_a: bool = False,
    transpose_b: bool = False,
) -> Tensor:  # fmt: skip
    """Return a matrix product that uses the function `multiply` as multiplication; see `matmul`.

    `op` is the operator's name, for errors.
    """
    if a.ndim < 1 or b.ndim < 1:
        raise TypeMismatch(f"{op}: wanted two tensors of at least one dimension, found {a} and {b}")
    rows = [] if a.ndim == 1 else [dims(a)[-1 if transpose_a else -2]]
    columns = [] if b.ndim == 1 else [dims(b)[-2 if transpose_b else -1]]
    inner = dims(a)[-2 if transpose_a else -1]
    other = dims(b)[-1 if transpose_b or b.ndim == 1 else -2]
    if not agree(inner, other):
        raise TypeMismatch(
            f"{op}: the axes to sum over differ\n  wanted: {inner} = {other}\n  found:  {a} and {b}"
            f"{', a transposed' if transpose_a else ''}{', b transposed' if transpose_b else ''}"
        )
    leading = broadcast_shapes(dims(a)[:-2], dims(b)[:-2], repeated=False)
    k = te.reduce_axis((0, inner), name="k")

    def place(tensor: Tensor, batch: tuple[Any, ...], outer: tuple[Any, ...], transposed: bool) -> Any:
        if tensor.ndim == 1:
            return tensor[k.var]
        last = (k.var, *outer) if transposed else (*outer, k.var)
        return tensor[(*broadcast_point(dims(tensor)[:-2], batch, leading), *last)]

    def element(*indices: Any) -> Any:
        batch, rest = indices[: len(leading)], indices[len(leading) :]
        i, j = rest[: len(rows)], rest[len(rows) :]
        x, y = place(a, batch, i, transpose_a), place(b, batch, j, not transpose_b)
        return te.sum(multiply(x, y), axis=k)

    names = [*(f"b{n}" for n in range(len(leading))), *("i" for _ in rows), *("j" for _ in columns)]
    attrs = {"op": op, "transpose_a": transpose_a, "transpose_b": transpose_b}
    suffix = ("T" if transpose_a else "N") + ("T" if transpose_b else "N")
    name = ("T_batch_matmul_" if leading else "T_matmul_") + suffix
    return te.compute((*leading, *rows, *columns), element, name=name, attrs=attrs, varargs_names=names)


def _check_dtypes(op: str, a: Tensor, b: Tensor, out_dtype: str) -> None:
    if a.dtype != b.dtype and not out_dtype:
        raise TypeMismatch(f"{op}: wanted two tensors of one dtype, found {a} and {b}\n  try:    out_dtype=, to sum in")


def _names(rows: int) -> list[str]:
    return ["i"] if rows == 1 else [f"i{k}" for k in range(rows)]
