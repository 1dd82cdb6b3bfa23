"""Products of bfloat16 tensors, stored as words of two bfloat16. `dot2_bf16` sums them in float32; it is one
instruction on some machines.

A product of two bfloat16 is exact in float32, so only the sum is rounded, as in float32. Subnormal operands and sums
count as zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .... import te
from ....expr import Expr, const
from ....expr.intrin import call
from ....te import Tensor
from ....topi.matmul import product_of_matrices
from .blocked import conv_of_blocks, dense_of_panels
from .words import check_words

__all__ = ["brain_conv2d_nchwc", "brain_dense_packed", "brain_matmul"]

Ints = int | Sequence[int]


def _multiplied(a: Expr, b: Expr) -> Expr:
    return call("dot2_bf16", te.const(0, "float32"), a, b)


def brain_conv2d_nchwc(
    data: Tensor, weight: Tensor, *, strides: Ints = 1, padding: Ints = 0, dilation: Ints = 1,
    algorithm: Sequence[Any] = (),
) -> Tensor:  # fmt: skip
    """Convolve words of channels [N, I/x, H, W, x/2] with words [O/y, I/x, kh, kw, x/2, y], padding with zeros.

    The result is float32 [N, O/y, OH, OW, y].
    """
    check_words("conv2d", "bfloat16", data, weight)
    attrs = {"op": "nn.contrib_conv2d_NCHWc_words", **({"algorithm": algorithm} if algorithm else {})}
    return conv_of_blocks(data, weight, _multiplied, const(0), strides, padding, dilation, attrs)


def brain_dense_packed(data: Tensor, weight: Tensor, *, units: int = 0) -> Tensor:
    """Multiply words [.., K/2] by words [N/x, K/2, x] in float32, and return the first `units` columns (0: all)."""
    check_words("dense", "bfloat16", data, weight)
    return dense_of_panels(data, weight, _multiplied, units, {"op": "nn.contrib_dense_packed_words"})


def brain_matmul(a: Tensor, b: Tensor) -> Tensor:
    """Multiply words [.., m, k/2] by the transpose of words [.., n, k/2] in float32. Leading axes broadcast."""
    check_words("matmul", "bfloat16", a, b)
    return product_of_matrices("nn.contrib_matmul_words", a, b, _multiplied, transpose_b=True)
