"""Blocked layouts mean what the plain operators mean, and their NumPy folds agree with their tensor expressions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm import te, topi
from minitvm.errors import InputError
from minitvm.machines.simd.topi.blocked import (
    block_axis,
    conv2d_nchwc,
    conv3d_nchwc,
    dense_packed,
    depthwise_conv2d_nchwc,
    pack_weights,
    unblock_axis,
)
from minitvm.machines.simd.topi.window_rows import depthwise_conv2d_rows
from minitvm.reference import te as interpreter
from minitvm.topi.registry import get


def run(build, *arrays):
    inputs = [te.placeholder(a.shape, str(a.dtype), name=f"x{i}") for i, a in enumerate(arrays)]
    return interpreter.evaluate([build(*inputs)], dict(zip(inputs, arrays, strict=True)))[0]


def integers(seed, *shape):
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float32)


@given(st.integers(1, 9), st.integers(1, 4), st.integers(0, 2), st.integers(0, 2**32 - 1))
def test_blocking_and_back_is_the_identity(extent, block, axis, seed):
    shape = [2, 3, 2]
    shape[axis] = extent
    x = integers(seed, *shape)
    blocked = run(lambda t: block_axis(t, axis=axis, block=block), x)
    assert blocked.shape[axis] == -(-extent // block) and blocked.shape[-1] == block
    np.testing.assert_array_equal(blocked, get("layout.block_axis").fold(x, axis=axis, block=block))
    back = run(lambda t: unblock_axis(t, axis=axis, extent=extent), blocked)
    np.testing.assert_array_equal(back, x)
    np.testing.assert_array_equal(get("layout.unblock_axis").fold(blocked, axis=axis, extent=extent), x)


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 3), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_packed_weights_fold_as_they_compute(out, inner, out_block, in_block, seed):
    w = integers(seed, out, inner, 2, 1)
    packed = run(lambda t: pack_weights(t, in_block=in_block, out_block=out_block), w)
    folded = get("layout.pack_weights").fold(w, in_block=in_block, out_block=out_block)
    np.testing.assert_array_equal(packed, folded)


@st.composite
def convolutions(draw, rank=2):
    kernel = draw(st.tuples(*[st.integers(1, 3)] * rank))
    dilation = draw(st.tuples(*[st.integers(1, 2)] * rank))
    padding = draw(st.tuples(*[st.integers(0, 2)] * (2 * rank)))
    strides = draw(st.tuples(*[st.integers(1, 2)] * rank))
    least = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    image = tuple(draw(st.integers(size, size + 6 - rank - 1)) for size in least)
    return kernel, image, {"strides": strides, "padding": padding, "dilation": dilation}


@given(st.sampled_from([2, 3]).flatmap(convolutions), st.integers(1, 2), st.integers(1, 2), st.integers(0, 2**32 - 1))
def test_a_blocked_convolution_is_the_plain_one(case, in_blocks, out_blocks, seed):
    kernel, image, attrs = case
    x, w = integers(seed, 1, in_blocks * 2, *image), integers(seed + 1, out_blocks * 3, in_blocks * 2, *kernel)
    conv, on_blocks = (topi.conv2d, conv2d_nchwc) if len(kernel) == 2 else (topi.conv3d, conv3d_nchwc)
    plain = run(lambda a, b: conv(a, b, **attrs), x, w)

    def blocked(a, b):
        packed = pack_weights(b, in_block=2, out_block=3)
        made = on_blocks(block_axis(a, axis=1, block=2), packed, **attrs)
        return unblock_axis(made, axis=1, extent=out_blocks * 3)

    np.testing.assert_array_equal(run(blocked, x, w), plain)


@given(convolutions(), st.integers(0, 2**32 - 1))
def test_a_blocked_depthwise_convolution_is_the_plain_one(case, seed):
    kernel, image, attrs = case
    x, w = integers(seed, 1, 6, *image), integers(seed + 1, 6, 1, *kernel)
    plain = run(lambda a, b: topi.conv2d(a, b, groups=6, **attrs), x, w)
    packed = np.ascontiguousarray(np.moveaxis(w.reshape(2, 3, *kernel), 1, -1))

    def blocked(a, b):
        made = depthwise_conv2d_nchwc(block_axis(a, axis=1, block=3), b, **attrs)
        return unblock_axis(made, axis=1, extent=6)

    np.testing.assert_array_equal(run(blocked, x, packed), plain)


@given(st.integers(1, 3), st.integers(1, 5), st.integers(1, 7), st.integers(0, 2**32 - 1))
def test_a_packed_dense_layer_is_the_plain_one(rows, depth, columns, seed):
    x, w = integers(seed, rows, depth), integers(seed + 1, columns, depth)
    made = run(lambda a, b: dense_packed(a, block_axis(b, axis=0, block=4)), x, w)
    np.testing.assert_array_equal(made.reshape(rows, -1)[:, :columns], x @ w.T)


def test_errors_name_the_dimensions_that_are_wanted():
    data, plain = te.placeholder((1, 2, 8, 8, 4), name="data"), te.placeholder((2, 3, 3), name="w")
    with pytest.raises(InputError, match=r"w: wanted the dimensions \[C/x, kh, kw, x\], found \[2, 3, 3\]"):
        depthwise_conv2d_nchwc(data, plain)
    with pytest.raises(InputError, match=r"w: wanted the dimensions \[N, C/x, H, W, x\]"):
        conv2d_nchwc(plain, plain)
    with pytest.raises(InputError, match=r"data: wanted the dimensions \[N, C/x, D, H, W, x\]"):
        conv3d_nchwc(data, data)
    with pytest.raises(InputError, match=r"w: wanted the dimensions \[N, C, H, W\]"):
        depthwise_conv2d_rows(plain, plain)
