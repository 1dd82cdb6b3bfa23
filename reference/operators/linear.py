"""Matrix products."""

from __future__ import annotations

import numpy as np

from minitvm.expr.dtypes import is_floating

from ..meaning.intrinsics import round_tf32
from .table import operator


def product(a: np.ndarray, b: np.ndarray, dtype: str) -> np.ndarray:
    """Return `a @ b`, summed in the dtype of the result; half floats are summed in float32.

    With "tfloat32", the operands are rounded to 10 bits of mantissa, and the result is float32.
    """
    if dtype == "tfloat32":
        a, b, dtype = round_tf32(a), round_tf32(b), "float32"
    summed = np.float32 if is_floating(dtype) and np.dtype(dtype).itemsize == 2 else np.dtype(dtype)
    return np.asarray(np.matmul(a.astype(summed, copy=False), b.astype(summed, copy=False))).astype(dtype, copy=False)


def _turned(x: np.ndarray, transposed: bool) -> np.ndarray:
    return np.swapaxes(x, -1, -2) if transposed and x.ndim > 1 else x


@operator("nn.matmul", "nn.batch_matmul")
def matmul(a: np.ndarray, b: np.ndarray, transpose_a: bool, transpose_b: bool, out_dtype: str) -> np.ndarray:
    return product(_turned(a, transpose_a), _turned(b, transpose_b), out_dtype or str(a.dtype))


@operator("nn.dense")
def dense(data: np.ndarray, weight: np.ndarray, out_dtype: str) -> np.ndarray:
    return product(data, weight.T, out_dtype or str(data.dtype))


@operator("einsum")
def einsum(*data: np.ndarray, equation: str) -> np.ndarray:
    dtype = data[0].dtype
    summed = np.float64 if is_floating(dtype) else dtype
    return np.asarray(np.einsum(equation, *(d.astype(summed) for d in data))).astype(dtype)
