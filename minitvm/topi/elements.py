"""Convolutions on tensors of elements, each a small matrix, as a matrix array takes them at once.

An image is [n/b, c/i, rows, columns, b, i], filters are [o/k, c/i, rows, columns, k, i], a result [n/b, o/k, rows,
columns, b, k]: the last two axes are an element. These are VTA's layouts NCHW{b}n{i}c and OIHW{k}o{i}i (Moreau et al.,
"A hardware-software blueprint for flexible deep learning specialization"). A matrix product is a convolution of an
image of one column with filters of one point.
"""

from __future__ import annotations

from .. import te
from ..errors import InputError
from ..expr import Expr
from ..te import Tensor
from .shapes import constant, dims, plus, times


def conv2d_elements(
    image: Tensor, filters: Tensor, *, stride: int = 1, padding: int = 0, out_dtype: str = "int32"
) -> Tensor:
    """A convolution with zeros around the image, summed in `out_dtype`; raises `InputError` for shapes that differ.

    Where filters have one row, rows of the image that no result reads are left out first.
    """
    n, ins, height, width, batch, block_in = dims(image, "N/b, C/i, H, W, b, i")
    outs, filter_ins, kh, kw, block_out, filter_in = dims(filters, "O/k, C/i, kh, kw, k, i")
    if (ins, block_in) != (filter_ins, filter_in):
        raise InputError(f"conv2d_elements: the image has {ins} blocks of {block_in} channels, "
                         f"filters {filter_ins} of {filter_in}")  # fmt: skip
    rows = (plus(height, 2 * padding) - kh) // stride + 1
    columns = (plus(width, 2 * padding) - kw) // stride + 1
    skipped = stride if kh == 1 and not padding else 1  # rows that are left out: all but each so many-th
    read, step = image, stride // skipped
    if padding or skipped > 1:
        constant(height, "the height of an image that is padded")

        def pixel(b: Expr, c: Expr, y: Expr, x: Expr, i: Expr, j: Expr) -> Expr:
            value = image[b, c, plus(times(y, skipped), -padding), plus(x, -padding), i, j]
            if not padding:
                return value
            inside = te.all(y >= padding, y < height + padding, x >= padding, x < width + padding)
            return te.if_then_else(inside, value, te.const(0, image.dtype))

        shape = (n, ins, (rows if skipped > 1 else height + 2 * padding), width + 2 * padding, batch, block_in)
        read = te.compute(shape, pixel, name="pad" if padding else "rows")
    ko, ki = te.reduce_axis((0, ins), name="ko"), te.reduce_axis((0, block_in), name="ki")
    dy, dx = te.reduce_axis((0, kh), name="dy"), te.reduce_axis((0, kw), name="dx")

    def element(b: Expr, o: Expr, y: Expr, x: Expr, i: Expr, j: Expr) -> Expr:
        value = read[b, ko, plus(times(y, step), dy), plus(times(x, stride), dx), i, ki].astype(out_dtype)
        return te.sum(value * filters[o, ko, dy, dx, j, ki].astype(out_dtype), axis=[ko, dy, dx, ki])

    attrs = {"op": "conv2d_elements"}
    return te.compute((n, outs, rows, columns, batch, block_out), element, name="conv2d", attrs=attrs)


def requantize_elements(sums: Tensor, *, shift: int, least: int = -128, most: int = 127, dtype: str = "int8") -> Tensor:
    """Sums shifted right by `shift`, kept between `least` and `most` and cast: a scale that is a power of two."""
    shifted = te.compute(sums.shape, lambda *i: sums[i] >> te.const(shift, sums.dtype), name="shifted")
    above = te.compute(sums.shape, lambda *i: te.maximum(shifted[i], te.const(least, sums.dtype)), name="at_least")
    below = te.compute(sums.shape, lambda *i: te.minimum(above[i], te.const(most, sums.dtype)), name="at_most")
    return te.compute(sums.shape, lambda *i: below[i].astype(dtype), name="result")
