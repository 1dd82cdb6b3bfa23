"""Products of bytes summed in int32, as quantised networks compute them: on bytes, and on words of four bytes.

A word holds four neighbours along the last axis (`words`). The intrinsic `dot4_u8i8` multiplies vectors of words,
unsigned bytes by signed ones. It is one instruction on many machines (`vpdpbusd`, `usdot`, `dp4a`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .... import te
from ....errors import InputError, TypeMismatch
from ....expr import Expr, const
from ....expr.intrin import call
from ....te import Tensor
from ....topi.conv import conv2d
from ....topi.matmul import dense
from ....topi.shapes import constant, dims
from ....topi.shapes import same as is_equal
from .blocked import conv_of_blocks, dense_of_panels, depthwise_of_blocks, padded_blocks
from .words import BYTES, check_words

__all__ = [
    "byte_conv2d", "byte_conv2d_nchwc", "byte_dense", "byte_dense_packed", "byte_depthwise_conv2d_nchwc",
    "dense_of_blocks",
]  # fmt: skip

Ints = int | Sequence[int]


def byte_conv2d(
    data: Tensor, weight: Tensor, *, zero_point: int = 0, strides: Ints = 1, padding: Ints = 0, dilation: Ints = 1,
    groups: int = 1,
) -> Tensor:  # fmt: skip
    """Convolve `data - zero_point` in int32, with NCHW data and OIHW weights. Padding counts as the zero point."""
    return conv2d(
        _shifted(data, zero_point), weight, strides=strides, padding=padding, dilation=dilation, groups=groups,
        out_dtype="int32",
    )  # fmt: skip


def byte_dense(data: Tensor, weight: Tensor, *, zero_point: int = 0) -> Tensor:
    """Multiply `data - zero_point` [.., k] by the transpose of `weight` [n, k] in int32."""
    return dense(_shifted(data, zero_point), weight, out_dtype="int32")


def _check_zero_point(data: Tensor, zero_point: int) -> None:
    if data.dtype not in BYTES:
        raise TypeMismatch(f"a product of bytes: wanted data of int8 or uint8, found {data}")
    if not data.dtype.min <= zero_point <= data.dtype.max:
        raise InputError(f"a product of bytes: the zero point of {data.dtype} data cannot be {zero_point}")


def _shifted(data: Tensor, zero_point: int) -> Tensor:
    _check_zero_point(data, zero_point)
    if zero_point == 0:
        return data
    return te.compute(data.shape, lambda *i: data[i].astype("int16") - const(zero_point, "int16"), name="shifted")


def byte_conv2d_nchwc(
    data: Tensor, weight: Tensor, *, pad_value: int = 0, strides: Ints = 1, padding: Ints = 0, dilation: Ints = 1,
    algorithm: Sequence[Any] = (),
) -> Tensor:  # fmt: skip
    """Convolve words of unsigned bytes [N, I/x, H, W, x/4] with words of signed bytes [O/y, I/x, kh, kw, x/4, y].

    The result is int32 [N, O/y, OH, OW, y]. The image is padded with the byte `pad_value`.
    """
    check_words("conv2d", "bytes", data, weight)
    return conv_of_blocks(
        data, weight, lambda a, b: call("dot4_u8i8", a, b), const(_word(pad_value)), strides, padding, dilation,
        {"op": "qnn.contrib_conv2d_NCHWc", **({"algorithm": algorithm} if algorithm else {})},
    )  # fmt: skip


_EXACT = 1 << 24  # float32 holds every integer up to this
_PRODUCT = 255 * 255  # the largest of two bytes less their zero points


def byte_depthwise_conv2d_nchwc(
    data: Tensor, weight: Tensor, *, zero_point: int = 0, strides: Ints = 1, padding: Ints = 0, dilation: Ints = 1
) -> Tensor:
    """Return the depthwise convolution of `data` - `zero_point` [N, C/x, H, W, x] with weights [C/x, kh, kw, x], in
    int32.

    Weights are from -255 to 255, as int8 or int16. Padding counts as the zero point. Up to 258 products are summed in
    float32, which is exact because their sum is below 2^24. On most machines, a multiply-add of floats is one
    instruction, while one of int32 is not.
    """
    _check_zero_point(data, zero_point)
    _, kh, kw, _ = dims(weight, "C/x, kh, kw, x")
    taps = constant(kh, "a dimension of weights") * constant(kw, "a dimension of weights")
    dtype = "float32" if taps * _PRODUCT < _EXACT else "int32"

    def shifted(e: Expr) -> Expr:
        return e.astype(dtype) - const(zero_point, dtype) if zero_point else e.astype(dtype)

    padded, image = padded_blocks(data, padding, convert=shifted)
    total = depthwise_of_blocks(padded, image, weight, dtype, strides, dilation)
    return te.compute(total.shape, lambda *i: total[i].astype("int32"), name="sums") if dtype != "int32" else total


def byte_dense_packed(data: Tensor, weight: Tensor, *, units: int = 0) -> Tensor:
    """Multiply words of unsigned bytes [.., K/4] by words of signed bytes [N/x, K/4, x] in int32.

    Returns the first `units` columns (0: all).
    """
    check_words("dense", "bytes", data, weight)
    attrs = {"op": "qnn.contrib_dense_packed"}
    return dense_of_panels(data, weight, lambda a, b: call("dot4_u8i8", a, b), units, attrs)


def dense_of_blocks(
    data: Tensor, scale: Tensor, shift: Tensor, weight: Tensor, weight_scale: Tensor, minimum: Tensor | None = None,
    *, bits: int = 4, units: int = 0,
) -> Tensor:  # fmt: skip
    """Multiply data in blocks that share a scale by weights of `bits` (4 or 8) in blocks along the sum, as floats.

        sum over blocks b of (scale[b] * sum(data * weight) + shift[b]) * weight_scale[b, column]
        sum over blocks b of scale[b] * sum(data * weight) * weight_scale[b, column] + shift[b] * minimum[b, column]

    `data` [.., blocks, words] holds words of signed bytes. `weight` [columns/x, blocks, words * bits/8, x] holds words
    of four unsigned bytes, or of eight nibbles; the low nibbles of a word belong to one word of data, and the high
    nibbles to the next. `scale` and `shift` are [.., blocks]; `weight_scale` and `minimum` are [columns/x, blocks, x].
    The result has the first `units` columns (0: all). After llama.cpp's formats Q4_0 and Q4_1.
    """
    *rows, blocks, count = dims(data)
    panels, weight_blocks, words_of_weight, lanes = (constant(d, "a dimension of weights") for d in dims(weight))
    check_words("dense", "bytes", data, weight)
    each = constant(count, "the words of a block")
    if bits not in (4, 8) or words_of_weight * 8 != each * bits or not is_equal(blocks, weight_blocks):
        raise InputError(f"dense_of_blocks: data {data} and weights {weight} of {bits} bits do not fit")
    b = te.reduce_axis((0, weight_blocks), name="b")

    def element(*index: Expr) -> Expr:
        *at, column = index
        place = (column // lanes, b.var)
        total: Expr | None = None
        for k in range(words_of_weight):
            word = weight[(*place, k, column % lanes)]
            parts = [word] if bits == 8 else [_nibbles(word, 0), _nibbles(word, 4)]
            for position, part in enumerate(parts):
                product = call("dot4_u8i8", part, data[(*at, b.var, k * len(parts) + position)])
                total = product if total is None else total + product
        assert total is not None
        scaled = total.astype(scale.dtype) * scale[(*at, b.var)]
        own_scale, more = weight_scale[(*place, column % lanes)], shift[(*at, b.var)]
        if minimum is None:
            return te.sum((scaled + more) * own_scale, axis=b)
        return te.sum(scaled * own_scale + more * minimum[(*place, column % lanes)], axis=b)

    attrs = {"op": "qnn.contrib_dense_of_blocks"}
    return te.compute((*rows, units or panels * lanes), element, name="dense", attrs=attrs)


def _nibbles(word: Expr, shift: int) -> Expr:
    """Return four of the eight nibbles of a word, as bytes."""
    return call("bitwise_and", call("shift_right", word, const(shift)) if shift else word, const(0x0F0F0F0F))


def _word(byte: int) -> int:
    """Return an int32 with four copies of a byte."""
    word = byte * 0x01010101
    return word - (1 << 32) if word >= 1 << 31 else word
