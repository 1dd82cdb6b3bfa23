"""Operators on blocked layouts: convert the blocks to plain layouts, compute, and convert back."""

from __future__ import annotations

from typing import Any

import numpy as np

from .convolution import convolve
from .linear import product
from .table import before_after, operator


@operator("layout.block_axis")
def block_axis(x: np.ndarray, axis: int, block: int) -> np.ndarray:
    blocks = -(-x.shape[axis] // block)
    blocked = np.zeros((*x.shape[:axis], blocks, *x.shape[axis + 1 :], block), x.dtype)
    for channel in range(x.shape[axis]):
        at: Any = (*(slice(None),) * axis, channel // block, ..., channel % block)
        blocked[at] = np.take(x, channel, axis)
    return blocked


@operator("layout.unblock_axis")
def unblock_axis(x: np.ndarray, axis: int, extent: int) -> np.ndarray:
    block = x.shape[-1]
    return np.stack([np.take(x, c // block, axis)[..., c % block] for c in range(extent)], axis)


@operator("layout.pack_weights")
def pack_weights(w: np.ndarray, in_block: int, out_block: int) -> np.ndarray:
    return block_axis(block_axis(w, 1, in_block), 0, out_block)


def _plain(data: np.ndarray) -> np.ndarray:
    return unblock_axis(data, 1, data.shape[1] * data.shape[-1])


@operator("nn.contrib_conv2d_NCHWc", "nn.contrib_conv3d_NCHWc")
def conv_nchwc(
    data: np.ndarray, weight: np.ndarray, strides: Any, padding: Any, dilation: Any, out_dtype: str = "",
    algorithm: str = "", channels: int = 0, groups: int = 1,
) -> np.ndarray:  # fmt: skip
    """Convolve; only the first `channels` of the data are used (0: all)."""
    out_blocks, in_blocks, *kernel, in_block, out_block = weight.shape
    last = weight.ndim - 1
    ordered = weight.transpose(0, last, 1, last - 1, *range(2, last - 1))
    filters = ordered.reshape(out_blocks * out_block, in_blocks * in_block, *kernel)
    kept = channels or in_blocks * in_block
    pixels = _plain(data)[:, : kept * groups]
    convolved = convolve(pixels, filters[:, :kept], strides, padding, dilation, groups, out_dtype)
    return block_axis(convolved, 1, out_block)


# F(m x m, 3x3) of Lavin and Gray (2016): the matrices B^T and A^T for each m.
_WINOGRAD = {
    2: ([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]], [[1, 1, 1, 0], [0, 1, -1, -1]]),
    4: (
        [[4, 0, -5, 0, 1, 0], [0, -4, -4, 1, 1, 0], [0, 4, -4, -1, 1, 0], [0, -2, -1, 2, 1, 0], [0, 2, -1, -2, 1, 0],
         [0, 4, 0, -5, 0, 1]],
        [[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]],
    ),
}  # fmt: skip


@operator("nn.contrib_winograd_conv2d_NCHWc")
def winograd_conv2d_nchwc(
    data: np.ndarray, weight: np.ndarray, tile: int, padding: Any, dilation: Any, algorithm: str = "", channels: int = 0
) -> np.ndarray:
    """Convolve by Winograd's algorithm. With dilation, every k-th line and l-th column is convolved separately."""
    panels, places, _, in_blocks, in_block, panel, out_block = weight.shape
    out_channels = panels * panel * out_block
    filters = weight.transpose(1, 2, 0, 5, 6, 3, 4).reshape(places, places, out_channels, in_blocks * in_block)
    before, after = before_after(padding, 2)
    apart = (dilation, dilation) if isinstance(dilation, int) else tuple(dilation)
    kept = channels or in_blocks * in_block
    filters, plain = filters[..., :kept], _plain(data)[:, :kept].astype(np.float64)
    sizes = [n + b + a - 2 * k for n, b, a, k in zip(plain.shape[2:], before, after, apart, strict=True)]
    whole = [-(-n // (k * tile)) * k * tile for n, k in zip(sizes, apart, strict=True)]
    widths = [(b, w + 2 * k - n - b) for n, b, w, k in zip(plain.shape[2:], before, whole, apart, strict=True)]
    image = np.pad(plain, [(0, 0), (0, 0), *((b, max(a, 0)) for b, a in widths)])
    image = image[:, :, : whole[0] + 2 * apart[0], : whole[1] + 2 * apart[1]]
    result = np.empty((plain.shape[0], out_channels, *whole))
    for y, x in np.ndindex(*apart):
        phase = (slice(None), slice(None), slice(y, None, apart[0]), slice(x, None, apart[1]))
        result[phase] = _in_tiles(image[phase], filters, tile)
    return block_axis(np.ascontiguousarray(result[:, :, : sizes[0], : sizes[1]]).astype(data.dtype), 1, out_block)


def _in_tiles(image: np.ndarray, filters: np.ndarray, tile: int) -> np.ndarray:
    """Convolve [N, C, H, W] with transformed filters [t, t, O, C], tile by tile, without padding."""
    into, out_of = (np.array(m, np.float64) for m in _WINOGRAD[tile])
    places = tile + 2
    windows = np.lib.stride_tricks.sliding_window_view(image, (places, places), axis=(2, 3))[:, :, ::tile, ::tile]
    transformed = np.einsum("ua,vb,nchwab->uvnchw", into, into, windows, optimize=True)
    products = np.einsum("uvoc,uvnchw->uvnohw", filters.astype(np.float64), transformed, optimize=True)
    tiles = np.einsum("yu,xv,uvnohw->nohywx", out_of, out_of, products, optimize=True)
    batch, channels, down, _, across, _ = tiles.shape
    return tiles.reshape(batch, channels, down * tile, across * tile)


@operator("nn.contrib_depthwise_conv2d_NCHWc")
def depthwise_conv2d_nchwc(
    data: np.ndarray, weight: np.ndarray, strides: Any, padding: Any, dilation: Any, out_dtype: str = ""
) -> np.ndarray:
    blocks, height, width, block = weight.shape
    filters = weight.transpose(0, 3, 1, 2).reshape(blocks * block, 1, height, width)
    convolved = convolve(_plain(data), filters, strides, padding, dilation, blocks * block, out_dtype)
    return block_axis(convolved, 1, block)


@operator("nn.contrib_depthwise_conv2d_rows")
def depthwise_conv2d_rows(
    data: np.ndarray, weight: np.ndarray, strides: Any, padding: Any, dilation: Any, lanes: int, tile: int
) -> np.ndarray:
    return convolve(data, weight, strides, padding, dilation, weight.shape[0], "")


@operator("nn.contrib_dense_packed")
def dense_packed(data: np.ndarray, weight: np.ndarray, units: int, out_dtype: str) -> np.ndarray:
    """Multiply [.., k] by [n / x, k, x], or by one such per matrix; return the first `units` columns (0: all)."""
    *batch, blocks, depth, block = weight.shape
    columns = np.moveaxis(weight, -2, -3).reshape(*batch, depth, blocks * block)
    return product(data, columns, out_dtype or str(data.dtype))[..., : units or blocks * block]


@operator("nn.contrib_conv2d_elements")
def conv2d_elements(
    image: np.ndarray, filters: np.ndarray, stride: int, padding: int, out_dtype: str = "int32"
) -> np.ndarray:
    """Convolve the accelerator's elements: [n/b, c/i, h, w, b, i] is NCHW in blocks of batches and of channels."""
    n, c, height, width, batch, block_in = image.shape
    outs, _, kh, kw, block_out, _ = filters.shape
    plain = image.transpose(0, 4, 1, 5, 2, 3).reshape(n * batch, c * block_in, height, width)
    weights = filters.transpose(0, 4, 1, 5, 2, 3).reshape(outs * block_out, c * block_in, kh, kw)
    convolved = convolve(plain, weights, (stride, stride), (padding, padding), (1, 1), 1, out_dtype)
    apart = convolved.reshape(n, batch, outs, block_out, *convolved.shape[2:])
    return apart.transpose(0, 2, 4, 5, 1, 3)


@operator("nn.contrib_requantize_elements")
def requantize_elements(sums: np.ndarray, shift: int, least: int, most: int, dtype: str, offset: int = 0) -> np.ndarray:
    """Divide by a power of two, rounding down, and clip to the range from `least` to `most`."""
    return np.clip(np.floor_divide(sums + sums.dtype.type(offset), 2**shift), least, most).astype(dtype)


@operator("nn.contrib_add_elements")
def add_elements(a: np.ndarray, b: np.ndarray, left_a: int, left_b: int, out_dtype: str) -> np.ndarray:
    return a.astype(out_dtype) * np.array(2**left_a, out_dtype) + b.astype(out_dtype) * np.array(2**left_b, out_dtype)


@operator("nn.contrib_depthwise_conv2d_elements")
def depthwise_conv2d_elements(
    image: np.ndarray, filters: np.ndarray, stride: int, padding: int, out_dtype: str
) -> np.ndarray:
    """Convolve one channel after the other; rows of a batch may have different filters."""
    apart = np.moveaxis(image, (4, 1, 5), (1, 2, 3))  # [n, b, c, i, h, w]
    weights = np.moveaxis(filters[0], (3, 0, 4), (0, 1, 2))  # [b, c, i, kh, kw]
    rows = [
        convolve(apart[:, b].reshape(len(image), -1, *image.shape[2:4]), weights[b].reshape(-1, 1, *filters.shape[2:4]),
                 (stride, stride), (padding, padding), (1, 1), image.shape[1] * image.shape[5], out_dtype)
        for b in range(image.shape[4])
    ]  # fmt: skip
    whole = np.stack(rows, 1)
    whole = whole.reshape(*whole.shape[:2], image.shape[1], image.shape[5], *whole.shape[3:])
    return np.moveaxis(whole, (1, 2, 3), (4, 1, 5))


@operator("nn.contrib_max_pool2d_elements")
def max_pool2d_elements(image: np.ndarray, size: int, stride: int, padding: int) -> np.ndarray:
    around = [(0, 0), (0, 0), (padding, padding), (padding, padding), (0, 0), (0, 0)]
    framed = np.pad(image, around, constant_values=np.iinfo(image.dtype).min)
    windows = np.lib.stride_tricks.sliding_window_view(framed, (size, size), (2, 3))
    return windows[:, :, ::stride, ::stride].max(axis=(-2, -1))
