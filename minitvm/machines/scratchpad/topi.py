"""Convolutions on tensors of elements, which are small matrices that a matrix array processes at once.

An image is [n/b, c/i, rows, columns, b, i], filters are [o/k, c/i, rows, columns, k, i], and a result is [n/b, o/k,
rows, columns, b, k]. The last two axes form an element. These are VTA's layouts NCHW{b}n{i}c and OIHW{k}o{i}i (Moreau
et al., "A hardware-software blueprint for flexible deep learning specialization"). A matrix product is a convolution of
an image of one column with filters of one point.
"""

from __future__ import annotations

from ... import te
from ...errors import InputError
from ...expr import Expr
from ...te import Tensor
from ...topi.shapes import constant, dims, plus, times


def conv2d_elements(
    image: Tensor, filters: Tensor, *, stride: int = 1, padding: int = 0, out_dtype: str = "int32"
) -> Tensor:
    """Return the convolution with zeros around the image, summed in `out_dtype`. Raises `InputError` if the shapes do
    not fit.

    If filters have one row, rows of the image that no result reads are removed first.
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


def requantize_elements(
    sums: Tensor, *, shift: int, least: int = -128, most: int = 127, dtype: str = "int8", offset: int = 0
) -> Tensor:
    """Add `offset` to sums, shift them right by `shift`, clip them to [`least`, `most`], and convert them to `dtype`.

    The scale is thus a power of two.
    """
    if offset:
        held = sums
        sums = te.compute(sums.shape, lambda *i: held[i] + te.const(offset, held.dtype), name="rounded")
    shifted = te.compute(sums.shape, lambda *i: sums[i] >> te.const(shift, sums.dtype), name="shifted")
    below = te.compute(sums.shape, lambda *i: te.minimum(shifted[i], te.const(most, sums.dtype)), name="at_most")
    above = te.compute(sums.shape, lambda *i: te.maximum(below[i], te.const(least, sums.dtype)), name="at_least")
    return te.compute(sums.shape, lambda *i: above[i].astype(dtype), name="result")


# --- in registers -----------------------------------------------------------------------------------------------------
# Elements of a result are [rows of a batch, channels], like registers, so these operators do not need the array.


def add_elements(a: Tensor, b: Tensor, *, left_a: int = 0, left_b: int = 0, out_dtype: str = "int32") -> Tensor:
    """Shift two tensors of elements left, and add them in `out_dtype`. Raises `InputError` if their shapes differ."""
    if len(a.shape) != len(b.shape) or not all(x is y or x == y for x, y in zip(a.shape, b.shape, strict=True)):
        raise InputError(f"add_elements: wanted two tensors of one shape, found {a.shape} and {b.shape}")
    parts = []
    for name, tensor, left in (("a", a, left_a), ("b", b, left_b)):
        wide = te.compute(tensor.shape, lambda *i, t=tensor: t[i].astype(out_dtype), name=f"wide_{name}")
        if left:
            by = te.const(left, out_dtype)
            wide = te.compute(tensor.shape, lambda *i, w=wide, by=by: w[i] << by, name=f"left_{name}")
        parts.append(wide)
    return te.compute(a.shape, lambda *i: parts[0][i] + parts[1][i], name="added")


def depthwise_conv2d_elements(
    image: Tensor, filters: Tensor, *, stride: int = 1, padding: int = 0, out_dtype: str = "int32"
) -> Tensor:
    """Return the depthwise convolution with filters [1, c/i, kh, kw, b, i] and zeros around the image.

    For each point of a filter, its pixels are copied, multiplied in place, and added. This suits a machine that has a
    register for each number and multiplies numbers of the image's dtype.
    """
    _, channels, kh, kw, batch, block = dims(filters, "1, C/i, kh, kw, b, i")
    if dims(image, "N/b, C/i, H, W, b, i")[1::3] != (channels, batch) or image.shape[5] != filters.shape[5]:
        raise InputError(f"depthwise_conv2d_elements: filters {filters.shape} do not fit the image {image.shape}")
    held, rows, columns = _windows(image, (kh, kw), stride, padding, out_dtype, 0)
    factors = te.compute(filters.shape, lambda *i: filters[i].astype(out_dtype), name="factors")
    shape = (kh, kw, image.shape[0], channels, rows, columns, batch, block)

    def taken(dy: Expr, dx: Expr, b: Expr, c: Expr, y: Expr, x: Expr, i: Expr, j: Expr) -> Expr:
        return held[b, c, plus(times(y, stride), dy), plus(times(x, stride), dx), i, j]

    pixels = te.compute(shape, taken, name="pixels")

    def low(value: Expr) -> Expr:
        return value.astype(image.dtype).astype(out_dtype)

    def product(dy: Expr, dx: Expr, b: Expr, c: Expr, y: Expr, x: Expr, i: Expr, j: Expr) -> Expr:
        return low(pixels[dy, dx, b, c, y, x, i, j]) * low(factors[0, c, dy, dx, i, j])

    products = te.compute(shape, product, name="products")
    dy, dx = te.reduce_axis((0, kh), name="dy"), te.reduce_axis((0, kw), name="dx")
    return te.compute(shape[2:], lambda *i: te.sum(products[(dy, dx, *i)], axis=[dy, dx]), name="conv2d")


def max_pool2d_elements(image: Tensor, *, size: int, stride: int = 1, padding: int = 0) -> Tensor:
    """Return the largest number in each `size` x `size` square. Padding is the least number of the dtype."""
    least = -(1 << image.dtype.bits - 1)
    held, rows, columns = _windows(image, (size, size), stride, padding, "int32", least)
    dy, dx = te.reduce_axis((0, size), name="dy"), te.reduce_axis((0, size), name="dx")
    greatest = te.comm_reducer(te.maximum, lambda dtype: te.const(least, dtype), "greatest")

    def window(b: Expr, c: Expr, y: Expr, x: Expr, i: Expr, j: Expr) -> Expr:
        return greatest(held[b, c, plus(times(y, stride), dy), plus(times(x, stride), dx), i, j], axis=[dy, dx])

    shape = (*image.shape[:2], rows, columns, *image.shape[4:])
    pooled = te.compute(shape, window, name="pooled")
    return te.compute(shape, lambda *i: pooled[i].astype(image.dtype), name="result")


def _windows(
    image: Tensor, size: tuple[int | Expr, int | Expr], stride: int, padding: int, dtype: str, around: int
) -> tuple[Tensor, Expr, Expr]:
    """Return the image in `dtype` with a frame of the number `around`, and the rows and columns of windows in it."""
    n, channels, height, width, batch, block = dims(image, "N/b, C/i, H, W, b, i")
    rows, columns = (
        (plus(extent, 2 * padding) - k) // stride + 1 for extent, k in ((height, size[0]), (width, size[1]))
    )
    if padding:
        constant(height, "the height of an image that is padded")

    def pixel(b: Expr, c: Expr, y: Expr, x: Expr, i: Expr, j: Expr) -> Expr:
        value = image[b, c, plus(y, -padding), plus(x, -padding), i, j].astype(dtype)
        if not padding:
            return value
        inside = te.all(y >= padding, y < height + padding, x >= padding, x < width + padding)
        return te.if_then_else(inside, value, te.const(around, dtype))

    shape = (n, channels, height + 2 * padding, width + 2 * padding, batch, block)
    return te.compute(shape, pixel, name="image"), rows, columns
