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
    data: Tensor, scale: Tensor, shift: Tensor, weight: Tensor, *parameters: Tensor, bits: int = 4, units: int = 0
) -> Tensor:
    """Multiply data in blocks that share a scale by weights of 4, 5, 6 or 8 bits in blocks along the sum, as floats.

        sum over blocks b of (shift[b] + sum(data * weight)) * scale[b] * weight_scale[b, column]
        sum over blocks b of scale[b] * sum(data * weight) * weight_scale[b, column] + shift[b] * minimum[b, column]

    `data` [.., blocks, words] holds words of signed bytes. `weight` [columns/x, blocks, words * bits/8, x] holds words
    of unsigned bytes, or first words of eight nibbles: the low nibbles of word k belong to word k of the data, and its
    high nibbles to the word k + words/2. Words of the remaining bits follow: the lowest bits of the bytes of a word
    belong to one word of data, the next bits to the next word.

    `scale` is float32 [.., blocks], and so is `shift` if there are minima; otherwise it is int32. The parameters are
    the scales [columns/x, blocks, x] and the minima, if there are any, and then optionally a unit of each, which
    several blocks share: a scale is the product of the number in the first and of the unit [columns/x, blocks/n, x].
    All of them may be narrow floats or integers. The result has the first `units` columns (0: all). After llama.cpp's
    formats Q4_0, Q4_1 and Q6_K.
    """
    *rows, blocks, count = dims(data)
    panels, weight_blocks, words_of_weight, lanes = (constant(d, "a dimension of weights") for d in dims(weight))
    check_words("dense", "bytes", data, weight)
    each = constant(count, "the words of a block")
    kinds = 1 if shift.dtype == "int32" else 2
    counts = [constant(unit.shape[1], "the number of units") for unit in parameters[kinds:]]
    if (
        bits not in (4, 5, 6, 8) or words_of_weight * 8 != each * bits or not is_equal(blocks, weight_blocks)
        or (bits < 8 and each % (2 if bits == 4 else 8 // (bits - 4))) or len(parameters) not in (kinds, 2 * kinds)
        or any(weight_blocks % count for count in counts)
    ):  # fmt: skip
        raise InputError(f"dense_of_blocks: data {data} and weights {weight} of {bits} bits do not fit")
    b = te.reduce_axis((0, weight_blocks), name="b")

    def element(*index: Expr) -> Expr:
        *at, column = index
        panel, lane = column // lanes, column % lanes
        words = [weight[(panel, b.var, k, lane)] for k in range(words_of_weight)]
        total: Expr | None = shift[(*at, b.var)] if kinds == 1 else None
        for k in range(each):
            product = call("dot4_u8i8", _bytes_of(words, k, each, bits), data[(*at, b.var, k)])
            total = product if total is None else total + product
        assert total is not None
        scaled = total.astype(scale.dtype) * scale[(*at, b.var)]
        numbers = []
        for kind in range(kinds):
            number = parameters[kind][(panel, b.var, lane)].astype(scale.dtype)
            if len(parameters) > kinds:
                unit = parameters[kinds + kind]
                number = number * unit[(panel, b.var // (weight_blocks // counts[kind]), lane)].astype(scale.dtype)
            numbers.append(number)
        product = scaled * numbers[0]
        return te.sum(product if kinds == 1 else product + shift[(*at, b.var)] * numbers[1], axis=b)

    attrs = {"op": "qnn.contrib_dense_of_blocks"}
    return te.compute((*rows, units or panels * lanes), element, name="dense", attrs=attrs)


def _bytes_of(words: Sequence[Expr], k: int, count: int, bits: int) -> Expr:
    """Return the word of four weights, as bytes, that belongs to the k-th of `count` words of data."""
    if bits == 8:
        return words[k]
    half = count // 2
    low = _masked(words[k % half], 0 if k < half else -4, 15)
    if bits == 4:
        return low
    rest = bits - 4
    word, position = divmod(k, 8 // rest)
    upper = _masked(words[half + word], 4 - rest * position, (1 << rest) - 1 << 4)
    return call("bitwise_or", low, upper)


def _masked(word: Expr, left: int, mask: int) -> Expr:
    """Return the bits of each byte in `mask`, after the word is shifted to the left (or to the right, if negative)."""
    if left:
        word = call("shift_left" if left > 0 else "shift_right", word, const(abs(left)))
    return call("bitwise_and", word, const(mask * 0x01010101))


def _word(byte: int) -> int:
    """Return an int32 with four copies of a byte."""
    word = byte * 0x01010101
    return word - (1 << 32) if word >= 1 << 31 else word
