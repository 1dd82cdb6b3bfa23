"""Operators on blocked layouts: NCHW[x]c, where the channels are split into blocks of x, which are innermost.

A vector register then holds x channels of one pixel, whatever the image's width. See Georganas et al., "Anatomy of
high-performance deep learning convolutions on SIMD architectures" (SC'18), and TVM's NCHWc operators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .... import te
from ....errors import InputError
from ....expr import Expr
from ....te import Tensor
from ....topi.factors import factor
from ....topi.shapes import Dim, agree, constant, dims, paddings, per_axis, plus, same, simple, times

Ints = int | Sequence[int]

SPATIAL = {1: ("x",), 2: ("y", "x"), 3: ("z", "y", "x")}  # names of the spatial axes

__all__ = [
    "block_axis", "conv2d_nchwc", "conv3d_nchwc", "dense_packed", "depthwise_conv2d_nchwc", "pack_weights",
    "unblock_axis",
]  # fmt: skip


def block_axis(x: Tensor, *, axis: int, block: int) -> Tensor:
    """Split `axis` into blocks of `block`, with the position in a block as the last axis. Zeros fill an incomplete
    block.

    [.., d, ..] -> [.., ceil(d / block), .., block]
    """
    shape = dims(x)
    extent = shape[axis]
    blocks = simple((extent + block - 1) // block)
    whole = same(blocks * block, extent)

    def element(*index: Expr) -> Expr:
        *outer, lane = index
        channel = outer[axis] * block + lane if block > 1 else outer[axis]
        at = x[(*outer[:axis], channel, *outer[axis + 1 :])]
        return at if whole else te.if_then_else(channel < extent, at, te.const(0, x.dtype))

    new_shape = (*shape[:axis], blocks, *shape[axis + 1 :], block)
    return te.compute(new_shape, element, name="block_axis", attrs={"op": "layout_transform"})


def unblock_axis(x: Tensor, *, axis: int, extent: int) -> Tensor:
    """Undo `block_axis`, and keep the first `extent` elements of the axis."""
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
    """Pack weights [O, I, k..] of a convolution as [O/out, I/in, k.., in, out], with zeros in incomplete blocks."""
    out, inner, *kernel = (constant(d, "a dimension of packed weights") for d in dims(w))

    def element(ob: Expr, ib: Expr, *at: Expr) -> Expr:
        *taps, i, o = at
        out_channel, in_channel = plus(times(ob, out_block), o), plus(times(ib, in_block), i)
        value = w[(out_channel, in_channel, *taps)]
        inside = [out_channel < out] if out % out_block else []
        inside += [in_channel < inner] if inner % in_block else []
        return te.if_then_else(te.all(*inside), value, te.const(0, w.dtype)) if inside else value

    shape = (-(-out // out_block), -(-inner // in_block), *kernel, in_block, out_block)
    return te.compute(shape, element, name="packed_weights")


def conv2d_nchwc(
    data: Tensor, weight: Tensor, *, strides: Ints = 1, padding: Ints = 0, dilation: Ints = 1, out_dtype: str = "",
    algorithm: Sequence[Any] = (), channels: int = 0, groups: int = 1,
) -> Tensor:  # fmt: skip
    """Convolve `data` [N, I/x, H, W, x] with `weight` [O/y, I/g/x, kh, kw, x, y], giving [N, O/y, OH, OW, y].

    Sums have `out_dtype` (the data's if empty), and include only the first `channels` of the data (0: all), so that
    padding in the last block is not read. Each of the `groups` (g) consists of whole blocks of the data and of the
    result. The annotation `algorithm` records why this algorithm was chosen.
    """
    return _conv_nchwc(2, data, weight, strides, padding, dilation, out_dtype, algorithm, channels, groups)


def conv3d_nchwc(
    data: Tensor, weight: Tensor, *, strides: Ints = 1, padding: Ints = 0, dilation: Ints = 1, out_dtype: str = "",
    algorithm: Sequence[Any] = (), channels: int = 0, groups: int = 1,
) -> Tensor:  # fmt: skip
    """Convolve `data` [N, I/x, D, H, W, x] with `weight` [O/y, I/g/x, kd, kh, kw, x, y], giving [N, O/y, OD, OH, OW,
    y].

    The other arguments are those of `conv2d_nchwc`.
    """
    return _conv_nchwc(3, data, weight, strides, padding, dilation, out_dtype, algorithm, channels, groups)


def _conv_nchwc(rank: int, data: Tensor, weight: Tensor, strides: Ints, padding: Ints, dilation: Ints, out_dtype: str,
                algorithm: Sequence[Any], channels: int, groups: int) -> Tensor:  # fmt: skip
    dtype = out_dtype or data.dtype
    attrs = {"op": f"nn.contrib_conv{rank}d_NCHWc", **({"algorithm": algorithm} if algorithm else {})}
    image, kernel = ", ".join("DHW"[-rank:]), ", ".join(f"k{a}" for a in "dhw"[-rank:])
    dims(data, f"N, C/x, {image}, x")
    dims(weight, f"O/y, C/x, {kernel}, x, y")
    zero = te.const(0, data.dtype)
    return conv_of_blocks(
        data,
        weight,
        lambda a, b: factor(a, dtype) * factor(b, dtype),
        zero,
        strides,
        padding,
        dilation,
        attrs,
        channels,
        groups,
    )


@dataclass(frozen=True, slots=True)
class SummedChannels:
    """The axes of a sum over channels in blocks, and the indices `block` and `lane` of a channel.

    If the channels fill their blocks, or part of a single block, `block` and `lane` are axes of the sum, the block
    outermost and the lane innermost. Otherwise one axis counts the channels, and the schedule splits it into blocks.
    """

    outer: tuple[Any, ...]
    inner: tuple[Any, ...]
    block: Any
    lane: Any

    @staticmethod
    def of(blocks: Any, lanes: int, channels: int = 0) -> SummedChannels:
        """Return the axes over the first `channels` (0: all) of `blocks`. Raises `InputError` if there are not that
        many.
        """
        if channels and not (isinstance(blocks, int) and (blocks - 1) * lanes < channels <= blocks * lanes):
            raise InputError(
                f"a sum over channels: wanted {channels} in {blocks} blocks of {lanes}, the last not empty"
            )
        if not channels or blocks == 1 or channels == blocks * lanes:
            ib, ic = (
                te.reduce_axis((0, blocks), name="ib"),
                te.reduce_axis((0, min(channels or lanes, lanes)), name="ic"),
            )
            return SummedChannels((ib,), (ic,), ib, ic)
        c = te.reduce_axis((0, channels), name="c")
        return SummedChannels((c,), (), c.var // lanes, c.var % lanes)


def conv_of_blocks(
    data: Tensor,
    weight: Tensor,
    multiply: Callable[[Expr, Expr], Expr],
    pad_value: Expr,
    strides: Ints,
    padding: Ints,
    dilation: Ints,
    attrs: Mapping[str, Any],
    channels: int = 0,
    groups: int = 1,
) -> Tensor:
    """Sum `multiply(pixel, weight)` over pixels [N, I/x, .., x] and weights [O/y, I/g/x, k.., x, y], giving [N, O/y,
    .., y].

    There are one to three spatial axes. The sum is over the first `channels` (0: all), or over the blocks of a group if
    there are several `groups` (g). The result has the attributes `attrs`. Raises `InputError` if the number of blocks
    in a group does not match the weights.
    """
    n, in_blocks, *_, block = dims(data)
    out_blocks, weight_in, *kernel, weight_block, out_block = dims(weight)
    rank = len(kernel)
    if rank not in SPATIAL or data.ndim != rank + 3:
        raise InputError(f"a convolution of blocks: data {data} and weight {weight} do not have as many spatial axes")
    if groups == 1 and (in_blocks, block) != (weight_in, weight_block):
        raise InputError(
            f"conv{rank}d_nchwc: data has {in_blocks} blocks of {block}, weights {weight_in} of {weight_block}"
        )
    if groups > 1:
        _check_groups(f"conv{rank}d_nchwc", groups, (in_blocks, block), (weight_in, weight_block), out_blocks, channels)
    stride, dilate = per_axis(strides, rank, "strides"), per_axis(dilation, rank, "dilation")
    padded, image = padded_blocks(data, padding, pad_value)
    out = [(d - l * (k - 1) - 1) // s + 1 for d, k, l, s in zip(image, kernel, dilate, stride, strict=True)]
    summed = SummedChannels.of(weight_in, block, channels)
    taps = [te.reduce_axis((0, k), name=f"k{a}") for k, a in zip(kernel, SPATIAL[rank], strict=True)]

    def element(b: Expr, ob: Expr, *place: Expr) -> Expr:
        *point, oc = place
        at = [plus(times(p, s), times(t, l)) for p, s, t, l in zip(point, stride, taps, dilate, strict=True)]
        ib = summed.block
        if groups > 1:
            ib = plus(times(ob // (out_blocks // groups), weight_in), ib.var)
        product = multiply(padded[(b, ib, *at, summed.lane)], weight[(ob, summed.block, *taps, summed.lane, oc)])
        return te.sum(product, axis=[*summed.outer, *taps, *summed.inner])

    own = {**attrs, "groups": groups} if groups > 1 else dict(attrs)
    if any(l > 1 for l in dilate):  # then a tap may read nothing but padding
        before, after = paddings(padding, rank)
        own |= {"strides": stride, "padding": (*before, *after), "dilation": dilate}
    return te.compute(
        (n, out_blocks, *out, out_block), element, name=f"conv{rank}d", attrs=own,
        varargs_names=[*SPATIAL[rank], "oc"],
    )  # fmt: skip


def _check_groups(
    op: str, groups: int, data: tuple[Any, Any], weight: tuple[Any, Any], out_blocks: Any, channels: int
) -> None:
    (in_blocks, block), (weight_in, weight_block) = data, weight
    if (in_blocks, block) != (groups * weight_in, weight_block) or out_blocks % groups or channels:
        raise InputError(
            f"{op}: wanted {groups} groups of whole blocks, found {in_blocks} blocks of {block} in the data, "
            f"{weight_in} of {weight_block} for each of {out_blocks} blocks of results in the weights, "
            f"and {channels or 'all'} channels"
        )


def depthwise_conv2d_nchwc(
    data: Tensor,
    weight: Tensor,
    *,
    strides: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    out_dtype: str = "",
) -> Tensor:
    """Return the depthwise convolution of `data` [N, C/x, H, W, x] with `weight` [C/x, kh, kw, x], giving [N, C/x, OH,
    OW, x].
    """
    dtype = out_dtype or data.dtype
    padded, image = padded_blocks(data, padding)
    return depthwise_of_blocks(padded, image, weight, dtype, strides, dilation)


def depthwise_of_blocks(
    padded: Tensor, image: tuple[Any, ...], weight: Tensor, dtype: str, strides: Ints, dilation: Ints
) -> Tensor:
    """Sum in `dtype` over the windows of a padded image [N, C/x, .., x] with extents `image`, giving [N, C/x, OH, OW,
    x].
    """
    n, blocks, *_, block = dims(padded, "N, C/x, H, W, x")
    _, kh, kw, _ = dims(weight, "C/x, kh, kw, x")
    (sy, sx), (dy, dx) = per_axis(strides, 2, "strides"), per_axis(dilation, 2, "dilation")
    height, width = image
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


def dense_packed(data: Tensor, weight: Tensor, *, units: Dim = 0, out_dtype: str = "") -> Tensor:
    """Multiply `data` [.., K] by packed `weight` [N/x, K, x], and return the first `units` columns (0: all) of the
    product.

    `weight` may also be [.., N/x, K, x], with one matrix for each matrix of the data; both then have the same leading
    axes. Sums have `out_dtype` (the data's if empty).
    """
    dtype = out_dtype or data.dtype
    attrs = {"op": "nn.contrib_dense_packed"}
    return dense_of_panels(data, weight, lambda a, b: a.astype(dtype) * b.astype(dtype), units, attrs)


def dense_of_panels(
    data: Tensor, weight: Tensor, multiply: Callable[[Expr, Expr], Expr], units: Dim, attrs: Mapping[str, Any]
) -> Tensor:
    """Sum `multiply(datum, weight)` over k, for data [.., k] and weights [.., N/x, k, x]. Return the first `units`
    columns.
    """
    *leading, depth = dims(data)
    *batch, blocks, _, block = dims(weight)
    if not leading:
        raise InputError(f"dense_packed: wanted data of two dimensions or more, found {data}")
    if batch and (len(batch) != len(leading) - 1 or not all(map(agree, batch, leading))):
        raise InputError(f"dense_packed: wanted panels [N/x, K, x] for each matrix of {data}, found {weight}")
    k = te.reduce_axis((0, depth), name="k")

    def element(*index: Expr) -> Expr:
        *rows, column = index
        return te.sum(
            multiply(data[(*rows, k)], weight[(*rows[: len(batch)], column // block, k, column % block)]), axis=k
        )

    columns = blocks * block if isinstance(units, int) and units == 0 else units
    return te.compute((*leading, columns), element, name="dense", attrs=dict(attrs))


def padded_blocks(
    data: Tensor, padding: Ints, pad_value: Expr | None = None, convert: Callable[[Expr], Expr] = lambda e: e
) -> tuple[Tensor, tuple[Any, ...]]:
    """Pad the image of `data` with zeros or `pad_value`, in a separate stage, so that loops over it need no condition.

    Elements are converted as they are copied; `pad_value` is not converted. The second result holds the extents of the
    padded image.
    """
    n, blocks, *image, block = dims(data)
    before, after = paddings(padding, len(image))
    full = tuple(d + b + a for d, b, a in zip(image, before, after, strict=True))
    kind = convert(data[(0,) * data.ndim]).dtype
    if not any((*before, *after)) and kind == data.dtype:
        return data, tuple(image)

    def element(b: Expr, cb: Expr, *place: Expr) -> Expr:
        *point, c = place
        inside = []
        for at, first, behind, extent in zip(point, before, after, image, strict=True):
            inside += [at >= first] if first else []
            inside += [at < extent + first] if behind else []
        value = convert(data[(b, cb, *(plus(at, -first) for at, first in zip(point, before, strict=True)), c)])
        if not inside:
            return value
        return te.if_then_else(te.all(*inside), value, te.const(0, kind) if pad_value is None else pad_value)

    names = [*SPATIAL[len(image)], "c"]
    padded = te.compute((n, blocks, *full, block), element, name="data_pad", varargs_names=names)
    return padded, full
