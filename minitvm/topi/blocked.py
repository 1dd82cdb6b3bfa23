"""Operators on blocked layouts: NCHW[x]c, where the channels are split into blocks of x, which are innermost.

A vector register then holds x channels of one pixel, whatever the image's width. See Georganas et al., "Anatomy of
high-performance deep learning convolutions on SIMD architectures" (SC'18), and TVM's NCHWc operators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import te
from ..errors import InputError
from ..expr import Expr
from ..te import Tensor
from .shapes import constant, dims, may_exceed, paddings, per_axis, plus, times

__all__ = [
    "block_axis", "conv2d_nchwc", "dense_packed", "depthwise_conv2d_nchwc", "depthwise_conv2d_rows", "pack_weights",
    "unblock_axis",
]  # fmt: skip


def block_axis(x: Tensor, *, axis: int, block: int) -> Tensor:
    """Split `axis` into blocks of `block` and put the place within the block last; zeros fill an incomplete block.

    [.., d, ..] -> [.., ceil(d / block), .., block]
    """
    shape = dims(x)
    extent = constant(shape[axis], "a dimension that is blocked")
    blocks = -(-extent // block)
    whole = blocks * block == extent

    def element(*index: Expr) -> Expr:
        *outer, lane = index
        channel = outer[axis] * block + lane if block > 1 else outer[axis]
        at = x[(*outer[:axis], channel, *outer[axis + 1 :])]
        return at if whole else te.if_then_else(channel < extent, at, te.const(0, x.dtype))

    new_shape = (*shape[:axis], blocks, *shape[axis + 1 :], block)
    return te.compute(new_shape, element, name="block_axis", attrs={"op": "layout_transform"})


def unblock_axis(x: Tensor, *, axis: int, extent: int) -> Tensor:
    """The inverse of `block_axis`: the first `extent` of the blocked axis."""
    shape = dims(x)
    block = constant(shape[-1], "a block")
    if isinstance(shape[axis], int) and isinstance(extent, int) and -(-extent // block) != shape[axis]:
        raise InputError(f"unblock_axis: {extent} elements are not {shape[axis]} blocks of {block}")
    new_shape = (*shape[:axis], extent, *shape[axis + 1 : -1])

    def element(*index: Expr) -> Expr:
        c = index[axis]
        return x[(*index[:axis], c // block, *index[axis + 1 :], c % block)]

    return te.compute(new_shape, element, name="unblock_axis", attrs={"op": "layout_transform"})


def pack_weights(w: Tensor, *, in_block: int, out_block: int) -> Tensor:
    """Weights [O, I, kh, kw] of a convolution as [O/out, I/in, kh, kw, in, out], zeros filling incomplete blocks."""
    out, inner, kh, kw = (constant(d, "a dimension of packed weights") for d in dims(w))

    def element(ob: Expr, ib: Expr, y: Expr, x: Expr, i: Expr, o: Expr) -> Expr:
        out_channel, in_channel = plus(times(ob, out_block), o), plus(times(ib, in_block), i)
        value = w[out_channel, in_channel, y, x]
        inside = [out_channel < out] if out % out_block else []
        inside += [in_channel < inner] if inner % in_block else []
        return te.if_then_else(te.all(*inside), value, te.const(0, w.dtype)) if inside else value

    shape = (-(-out // out_block), -(-inner // in_block), kh, kw, in_block, out_block)
    return te.compute(shape, element, name="packed_weights")


def conv2d_nchwc(
    data: Tensor,
    weight: Tensor,
    *,
    strides: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    out_dtype: str = "",
    algorithm: Sequence[Any] = (),
) -> Tensor:
    """Convolution of `data` [N, I/x, H, W, x] with `weight` [O/y, I/x, kh, kw, x, y]: [N, O/y, OH, OW, y].

    Sums have `out_dtype` (the data's if empty). The annotation `algorithm` records why this algorithm was chosen.
    """
    dtype = out_dtype or data.dtype
    attrs = {"op": "nn.contrib_conv2d_NCHWc", **({"algorithm": algorithm} if algorithm else {})}
    zero = te.const(0, data.dtype)
    return conv2d_of_blocks(
        data, weight, lambda a, b: a.astype(dtype) * b.astype(dtype), zero, strides, padding, dilation, attrs
    )


def conv2d_of_blocks(
    data: Tensor,
    weight: Tensor,
    multiply: Callable[[Expr, Expr], Expr],
    pad_value: Expr,
    strides: int | Sequence[int],
    padding: int | Sequence[int],
    dilation: int | Sequence[int],
    attrs: Mapping[str, Any],
) -> Tensor:
    """The sum of what `multiply` makes of pixels and weights in blocks; `attrs` are those of the tensor."""
    n, in_blocks, _, _, block = dims(data, "N, C/x, H, W, x")
    out_blocks, weight_in, kh, kw, weight_block, out_block = dims(weight, "O/y, C/x, kh, kw, x, y")
    if (in_blocks, block) != (weight_in, weight_block):
        raise InputError(f"conv2d_nchwc: data has {in_blocks} blocks of {block}, weights {weight_in} of {weight_block}")
    (sy, sx), (dy, dx) = per_axis(strides, 2, "strides"), per_axis(dilation, 2, "dilation")
    padded, height, width = _padded(data, padding, pad_value)
    out_height, out_width = (height - dy * (kh - 1) - 1) // sy + 1, (width - dx * (kw - 1) - 1) // sx + 1
    ib = te.reduce_axis((0, in_blocks), name="ib")
    ky, kx = te.reduce_axis((0, kh), name="ky"), te.reduce_axis((0, kw), name="kx")
    ic = te.reduce_axis((0, block), name="ic")

    def element(b: Expr, ob: Expr, y: Expr, x: Expr, oc: Expr) -> Expr:
        pixel = padded[b, ib, times(y, sy) + times(ky, dy), times(x, sx) + times(kx, dx), ic]
        return te.sum(multiply(pixel, weight[ob, ib, ky, kx, ic, oc]), axis=[ib, ky, kx, ic])

    return te.compute((n, out_blocks, out_height, out_width, out_block), element, name="conv2d", attrs=dict(attrs))


def depthwise_conv2d_nchwc(
    data: Tensor,
    weight: Tensor,
    *,
    strides: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    out_dtype: str = "",
) -> Tensor:
    """Depthwise convolution of `data` [N, C/x, H, W, x] with `weight` [C/x, kh, kw, x]: [N, C/x, OH, OW, x]."""
    dtype = out_dtype or data.dtype
    n, blocks, _, _, block = dims(data, "N, C/x, H, W, x")
    _, kh, kw, _ = dims(weight, "C/x, kh, kw, x")
    (sy, sx), (dy, dx) = per_axis(strides, 2, "strides"), per_axis(dilation, 2, "dilation")
    padded, height, width = _padded(data, padding)
    out_height, out_width = (height - dy * (kh - 1) - 1) // sy + 1, (width - dx * (kw - 1) - 1) // sx + 1
    ky, kx = te.reduce_axis((0, kh), name="ky"), te.reduce_axis((0, kw), name="kx")

    def element(b: Expr, cb: Expr, y: Expr, x: Expr, c: Expr) -> Expr:
        pixel = padded[b, cb, times(y, sy) + times(ky, dy), times(x, sx) + times(kx, dx), c]
        return te.sum(pixel.astype(dtype) * weight[cb, ky, kx, c].astype(dtype), axis=[ky, kx])

    return te.compute(
        (n, blocks, out_height, out_width, block),
        element,
        name="depthwise_conv2d",
        attrs={"op": "nn.contrib_depthwise_conv2d_NCHWc"},
    )


def depthwise_conv2d_rows(
    data: Tensor,
    weight: Tensor,
    *,
    strides: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    lanes: int = 1,
) -> Tensor:
    """Depthwise convolution of `data` [N, C, H, W] with `weight` [C, 1, kh, kw]: [N, C, OH, OW].

    Rows are computed as whole vectors of `lanes`, and a last stage cuts them; the input rows are padded accordingly.
    """
    n, channels, height, width = dims(data, "N, C, H, W")
    _, _, kh, kw = (constant(d, "a dimension of depthwise weights") for d in dims(weight))
    (sy, sx), (dy, dx) = per_axis(strides, 2, "strides"), per_axis(dilation, 2, "dilation")
    (top, left), (bottom, right) = paddings(padding, 2)
    out_height = (height + top + bottom - dy * (kh - 1) - 1) // sy + 1
    out_width = (width + left + right - dx * (kw - 1) - 1) // sx + 1
    whole = -(-out_width // lanes) * lanes
    rows = (out_height - 1) * sy + dy * (kh - 1) + 1
    columns = -(-((whole - 1) * sx + dx * (kw - 1) + 1) // lanes) * lanes

    def padded_element(b: Expr, c: Expr, y: Expr, x: Expr) -> Expr:
        inside = [x < width + left] if may_exceed(columns, width + left) else []
        inside += [x >= left] if left else []
        inside += [y < height + top] if may_exceed(rows, height + top) else []
        inside += [y >= top] if top else []
        value = data[b, c, plus(y, -top), plus(x, -left)]
        return te.if_then_else(te.all(*inside), value, te.const(0, data.dtype)) if inside else value

    padded = te.compute((n, channels, rows, columns), padded_element, name="rows_pad")
    ky, kx = te.reduce_axis((0, kh), name="ky"), te.reduce_axis((0, kw), name="kx")

    def element(b: Expr, c: Expr, y: Expr, x: Expr) -> Expr:
        pixel = padded[b, c, plus(times(y, sy), times(ky, dy)), plus(times(x, sx), times(kx, dx))]
        return te.sum(pixel * weight[c, 0, ky, kx], axis=[ky, kx])

    attrs = {"op": "nn.contrib_depthwise_conv2d_rows", "lanes": lanes}
    whole_rows = te.compute((n, channels, out_height, whole), element, name="depthwise_rows", attrs=attrs)
    return te.compute((n, channels, out_height, out_width), lambda *i: whole_rows[i], name="rows_cut")


def dense_packed(data: Tensor, weight: Tensor, *, units: int = 0, out_dtype: str = "") -> Tensor:
    """`data` [.., K] times packed `weight` [N/x, K, x]: the first `units` columns (0: all) of [.., N/x * x].

    Sums have `out_dtype` (the data's if empty).
    """
    dtype = out_dtype or data.dtype
    attrs = {"op": "nn.contrib_dense_packed"}
    return dense_of_panels(data, weight, lambda a, b: a.astype(dtype) * b.astype(dtype), units, attrs)


def dense_of_panels(
    data: Tensor, weight: Tensor, multiply: Callable[[Expr, Expr], Expr], units: int, attrs: Mapping[str, Any]
) -> Tensor:
    """The sums over k of what `multiply` makes of data [.., k] and weights [N/x, k, x]: the first `units` columns."""
    *leading, depth = dims(data)
    blocks, _, block = dims(weight, "N/x, K, x")
    if not leading:
        raise InputError(f"dense_packed: wanted data of two dimensions or more, found {data}")
    k = te.reduce_axis((0, depth), name="k")

    def element(*index: Expr) -> Expr:
        *rows, column = index
        return te.sum(multiply(data[(*rows, k)], weight[column // block, k, column % block]), axis=k)

    return te.compute((*leading, units or blocks * block), element, name="dense", attrs=dict(attrs))


def _padded(data: Tensor, padding: int | Sequence[int], pad_value: Expr | None = None) -> tuple[Tensor, int, int]:
    """`data` with zeros, or another value, around its image: a stage, so that the loops over it need no condition."""
    (top, left), (bottom, right) = paddings(padding, 2)
    n, blocks, height, width, block = dims(data, "N, C/x, H, W, x")
    full_height, full_width = height + top + bottom, width + left + right
    if not (top or left or bottom or right):
        return data, height, width

    def element(b: Expr, cb: Expr, y: Expr, x: Expr, c: Expr) -> Expr:
        inside = []
        inside += [y >= top] if top else []
        inside += [y < height + top] if bottom else []
        inside += [x >= left] if left else []
        inside += [x < width + left] if right else []
        value = data[b, cb, plus(y, -top), plus(x, -left), c]
        return te.if_then_else(te.all(*inside), value, te.const(0, data.dtype) if pad_value is None else pad_value)

    padded = te.compute((n, blocks, full_height, full_width, block), element, name="data_pad")
    return padded, full_height, full_width
