"""Convolutions, products, pools and normalisations against NumPy, over shapes and attributes that Hypothesis draws."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitvm import build, te, topi
from minitvm.errors import InputError, TypeMismatch

Run = Callable[..., Any]
SOME = settings(max_examples=20)


def normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def close(found: np.ndarray, wanted: np.ndarray) -> None:
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def padded(x: np.ndarray, pads: Sequence[int], value: float = 0.0) -> np.ndarray:
    rank = x.ndim - 2
    return np.pad(x, [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:])], constant_values=value)


def convolution(x: np.ndarray, w: np.ndarray, strides: Sequence[int], pads: Sequence[int], dilation: Sequence[int],
                groups: int) -> np.ndarray:  # fmt: skip
    """The definition, a loop over the kernel's taps."""
    x = padded(x.astype("float64"), pads)
    rank = x.ndim - 2
    kernel = w.shape[2:]
    out = [(x.shape[2 + a] - (kernel[a] - 1) * dilation[a] - 1) // strides[a] + 1 for a in range(rank)]
    channels, filters = x.shape[1] // groups, w.shape[0] // groups
    result = np.zeros((x.shape[0], w.shape[0], *out))
    for tap in itertools.product(*map(range, kernel)):
        first = [t * d for t, d in zip(tap, dilation)]
        taken = [slice(f, f + (n - 1) * s + 1, s) for f, n, s in zip(first, out, strides)]
        window = x[(slice(None), slice(None), *taken)]
        for g in range(groups):
            weights = w[(slice(g * filters, (g + 1) * filters), slice(None), *tap)].astype("float64")
            part = window[:, g * channels : (g + 1) * channels]
            result[:, g * filters : (g + 1) * filters] += np.einsum("nc...,oc->no...", part, weights)
    return result


@st.composite
def convolutions(draw: st.DrawFn, rank: int) -> tuple[dict[str, Any], tuple[int, ...], tuple[int, ...]]:
    groups = draw(st.sampled_from([1, 1, 2, 3]))
    channels, filters = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    kernel = [draw(st.integers(1, 3)) for _ in range(rank)]
    dilation = [draw(st.integers(1, 2)) for _ in range(rank)]
    pads = [draw(st.integers(0, 2)) for _ in range(2 * rank)]
    spatial = [draw(st.integers((k - 1) * d + 1, (k - 1) * d + 4)) for k, d in zip(kernel, dilation)]
    strides = [draw(st.integers(1, 3)) for _ in range(rank)]
    attrs = {"strides": tuple(strides), "padding": tuple(pads), "dilation": tuple(dilation), "groups": groups}
    return attrs, (draw(st.integers(1, 2)), channels * groups, *spatial), (filters * groups, channels, *kernel)


@pytest.mark.parametrize("rank", [1, 2, 3])
@given(data=st.data(), seed=st.integers(0, 99))
@SOME
def test_conv(run: Run, rank: int, data: st.DataObject, seed: int) -> None:
    attrs, shape, weights = data.draw(convolutions(rank))
    x, w = normal(seed, *shape), normal(seed + 1, *weights)
    operator = [topi.conv1d, topi.conv2d, topi.conv3d][rank - 1]
    wanted = convolution(x, w, attrs["strides"], attrs["padding"], attrs["dilation"], attrs["groups"])
    np.testing.assert_allclose(run(operator, x, w, **attrs), wanted, rtol=1e-4, atol=1e-4)


def test_conv_widens_small_integers(run: Run) -> None:
    x, w = np.full((1, 4, 3, 3), 100, "int8"), np.full((2, 4, 3, 3), 100, "int8")
    assert run(topi.conv2d, x, w, out_dtype="int32").ravel().tolist() == [360000, 360000]


def test_conv_says_what_a_strategy_needs() -> None:
    def attrs(groups: int) -> Any:
        data, weight = te.placeholder((1, 8, 9, 9)), te.placeholder((8, 8 // groups, 3, 3))
        return topi.conv2d(data, weight, strides=2, padding=1, groups=groups).op.attrs

    assert attrs(1) == {"op": "nn.conv2d", "strides": (2, 2), "padding": (1, 1, 1, 1), "dilation": (1, 1), "groups": 1}
    assert attrs(2)["op"] == "nn.conv2d"
    assert attrs(8)["op"] == "nn.depthwise_conv2d"


@pytest.mark.parametrize("rank", [1, 2, 3])
@given(data=st.data(), seed=st.integers(0, 99))
@SOME
def test_conv_transpose(run: Run, rank: int, data: st.DataObject, seed: int) -> None:
    """Every input element adds its kernel to the output; padding is cut off."""
    groups, channels, filters = (data.draw(st.integers(1, 2)) for _ in range(3))
    kernel, strides, dilation = ([data.draw(st.integers(1, 3)) for _ in range(rank)] for _ in range(3))
    extra = [data.draw(st.integers(0, s - 1)) for s in strides]
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation)]
    pads = [data.draw(st.integers(0, (r - 1) // 2)) for r in reach * 2]
    spatial = [data.draw(st.integers(1, 3)) for _ in range(rank)]
    x = normal(seed, 2, channels * groups, *spatial)
    w = normal(seed + 1, channels * groups, filters, *kernel)
    full = [(n - 1) * s + r + e for n, s, r, e in zip(spatial, strides, reach, extra)]
    wanted = np.zeros((2, filters * groups, *full))
    for at in itertools.product(*map(range, spatial)):
        for tap in itertools.product(*map(range, kernel)):
            place = tuple(a * s + t * d for a, s, t, d in zip(at, strides, tap, dilation))
            for g in range(groups):
                own = slice(g * channels, (g + 1) * channels)
                target = (slice(None), slice(g * filters, (g + 1) * filters), *place)
                wanted[target] += x[(slice(None), own, *at)] @ w[(own, slice(None), *tap)]
    cut = tuple(slice(b, n - a) for n, b, a in zip(full, pads[:rank], pads[rank:]))
    wanted = wanted[(slice(None), slice(None), *cut)]
    operator = [topi.conv1d_transpose, topi.conv2d_transpose, topi.conv3d_transpose][rank - 1]
    if 0 in wanted.shape:
        return
    found = run(operator, x, w, strides=strides, padding=pads, output_padding=extra, dilation=dilation, groups=groups)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@st.composite
def products(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], bool, bool]:
    m, k, n = (draw(st.integers(1, 4)) for _ in range(3))
    batch = draw(st.lists(st.integers(1, 3), max_size=2))
    first = [1 if draw(st.booleans()) else d for d in batch][draw(st.integers(0, len(batch))) :]
    transpose_a, transpose_b = draw(st.booleans()), draw(st.booleans())
    return (
        (*first, *((k, m) if transpose_a else (m, k))),
        (*batch, *((n, k) if transpose_b else (k, n))),
        transpose_a,
        transpose_b,
    )


@given(products(), st.integers(0, 99))
def test_matmul(run: Run, product: Any, seed: int) -> None:
    first, second, transpose_a, transpose_b = product
    a, b = normal(seed, *first), normal(seed + 1, *second)
    left = np.swapaxes(a, -1, -2) if transpose_a else a
    right = np.swapaxes(b, -1, -2) if transpose_b else b
    found = run(topi.matmul, a, b, transpose_a=transpose_a, transpose_b=transpose_b)
    np.testing.assert_allclose(found, left @ right, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("first, second", [((4,), (4,)), ((4,), (3, 4, 2)), ((2, 3, 4), (4,))])
def test_matmul_of_vectors(run: Run, first: tuple[int, ...], second: tuple[int, ...]) -> None:
    a, b = normal(0, *first), normal(1, *second)
    np.testing.assert_allclose(run(topi.matmul, a, b), a @ b, rtol=1e-5)


def test_dense_and_batch_matmul_take_transposed_weights(run: Run) -> None:
    x, w = normal(0, 2, 3, 4), normal(1, 5, 4)
    np.testing.assert_allclose(run(topi.dense, x, w), x @ w.T, rtol=1e-5)
    a, b = normal(2, 3, 2, 4), normal(3, 1, 5, 4)
    np.testing.assert_allclose(run(topi.batch_matmul, a, b), a @ np.swapaxes(b, 1, 2), rtol=1e-5)


def test_einsum(run: Run) -> None:
    a, b = normal(0, 2, 3, 4), normal(1, 2, 4, 5)
    for equation in ("bij,bjk->bik", "bij,bjk->ki", "bij , bjk"):
        np.testing.assert_allclose(
            run(topi.einsum, a, b, equation=equation), np.einsum(equation, a, b), rtol=1e-4, atol=1e-5
        )


def windows(
    x: np.ndarray, size: int, stride: int, dilation: int, before: int, after: int, ceil: bool
) -> list[list[int]]:
    """Of one axis: for each window the places (in the unpadded input, so maybe outside) that it covers."""
    room = x.shape[-1] + before + after - (size - 1) * dilation - 1
    count = (-(-room // stride) if ceil else room // stride) + 1
    if ceil and (count - 1) * stride >= x.shape[-1] + before:
        count -= 1
    return [[i * stride - before + t * dilation for t in range(size)] for i in range(count)]


@given(st.data(), st.integers(0, 99))
def test_pools(run: Run, data: st.DataObject, seed: int) -> None:
    size, stride, dilation = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3)), data.draw(st.integers(1, 2))
    before, after = data.draw(st.integers(0, size - 1)), data.draw(st.integers(0, size - 1))
    reach = (size - 1) * dilation + 1
    x = normal(seed, 1, 2, data.draw(st.integers(reach, reach + 6)))
    ceil, include = data.draw(st.booleans()), data.draw(st.booleans())
    places = windows(x, size, stride, dilation, before, after, ceil)
    n = x.shape[-1]
    attrs = {"pool_size": size, "strides": stride, "dilation": dilation, "padding": (before, after), "ceil_mode": ceil}
    inside = [[p for p in window if 0 <= p < n] for window in places]
    if not all(inside):
        return  # a window of padding alone has no largest element and no mean
    largest = np.stack([x[..., p].max(-1) for p in inside], -1)
    np.testing.assert_array_equal(run(topi.max_pool1d, x, **attrs), largest)
    counts = [len([p for p in window if p < n + after]) if include else len(i) for window, i in zip(places, inside)]
    mean = np.stack([x[..., p].sum(-1) / c for p, c in zip(inside, counts)], -1)
    np.testing.assert_allclose(run(topi.avg_pool1d, x, count_include_pad=include, **attrs), mean, rtol=1e-5, atol=1e-6)


def test_pools_of_two_and_three_axes_are_pools_of_each_axis(run: Run) -> None:
    x = normal(0, 1, 2, 5, 6, 7)
    found = run(topi.max_pool3d, x, pool_size=(2, 3, 1), strides=(1, 2, 3), padding=(1, 0, 0, 0, 1, 0))
    wide = padded(x, (1, 0, 0, 0, 1, 0), -np.inf)
    wanted = np.lib.stride_tricks.sliding_window_view(wide, (2, 3, 1), (2, 3, 4)).max((-1, -2, -3))[:, :, :, ::2, ::3]
    np.testing.assert_array_equal(found, wanted)
    flat = x[:, :, 0]
    mean = np.lib.stride_tricks.sliding_window_view(flat, (2, 2), (2, 3)).mean((-1, -2))
    np.testing.assert_allclose(run(topi.avg_pool2d, flat, pool_size=2), mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(run(topi.global_avg_pool, x), x.mean((2, 3, 4), keepdims=True), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(run(topi.global_max_pool, x), x.max((2, 3, 4), keepdims=True))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax_is_stable(run: Run, axis: int) -> None:
    x = normal(0, 3, 4, 5) * 100
    wide = x.astype("float64")
    powers = np.exp(wide - wide.max(axis, keepdims=True))
    wanted = powers / powers.sum(axis, keepdims=True)
    np.testing.assert_allclose(run(topi.softmax, x, axis=axis), wanted, rtol=1e-5, atol=1e-7)
    shifted = wide - wide.max(axis, keepdims=True)
    close(run(topi.log_softmax, x, axis=axis), shifted - np.log(powers.sum(axis, keepdims=True)))


def standardized(x: np.ndarray, axes: tuple[int, ...], eps: float = 1e-5) -> np.ndarray:
    wide = x.astype("float64")
    return (wide - wide.mean(axes, keepdims=True)) / np.sqrt(wide.var(axes, keepdims=True) + eps)


def test_normalisations(run: Run) -> None:
    x = normal(0, 2, 4, 3, 5)
    gamma, beta, mean, var = normal(1, 4), normal(2, 4), normal(3, 4), np.abs(normal(4, 4))
    c = (slice(None), None, None)
    wanted = (x - mean[c]) / np.sqrt(var[c] + 1e-5) * gamma[c] + beta[c]
    close(run(topi.batch_norm, x, gamma, beta, mean, var), wanted)
    close(run(topi.instance_norm, x, gamma, beta), standardized(x, (2, 3)) * gamma[c] + beta[c])
    grouped = standardized(x.reshape(2, 2, 2, 3, 5), (2, 3, 4)).reshape(x.shape)
    close(run(topi.group_norm, x, gamma, beta, num_groups=2), grouped * gamma[c] + beta[c])
    scale, shift = normal(5, 3, 5), normal(6, 3, 5)
    image = standardized(x, (2, 3))
    close(run(topi.layer_norm, x, scale, shift, axis=(2, 3)), image * scale + shift)
    close(run(topi.layer_norm, x, scale[0]), standardized(x, (3,)) * scale[0])
    rms = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * scale[0]
    close(run(topi.rms_norm, x, scale[0]), rms)
    close(run(topi.l2_normalize, x, axis=1), x / np.sqrt((x**2).sum(1, keepdims=True)))


@pytest.mark.parametrize("size, beta", [(1, 0.6), (2, 0.75), (3, 0.5), (5, 0.25)])
def test_lrn(run: Run, size: int, beta: float) -> None:
    x = normal(0, 2, 6, 3)
    front = (size - 1) // 2
    wide = np.pad(x.astype("float64") ** 2, [(0, 0), (front, size - 1 - front), (0, 0)])
    squares = sum(wide[:, k : k + 6] for k in range(size))
    found = run(topi.lrn, x, size=size, alpha=0.2, beta=beta, bias=1.5)
    np.testing.assert_allclose(found, x / (1.5 + 0.2 / size * squares) ** beta, rtol=1e-5)


def test_errors_name_the_operator_and_the_shapes() -> None:
    data, weight = te.placeholder((1, 3, 8, 8)), te.placeholder((4, 2, 3, 3))
    with pytest.raises(TypeMismatch, match=r"nn.conv2d: the channels of data and weight do not fit[\s\S]*3 channels"):
        topi.conv2d(data, weight)
    with pytest.raises(InputError, match="larger than the padded input"):
        topi.conv2d(data, te.placeholder((4, 3, 9, 9)))
    with pytest.raises(InputError, match="strides: wanted 2 values"):
        topi.conv2d(data, te.placeholder((4, 3, 3, 3)), strides=(1, 1, 1))
    with pytest.raises(TypeMismatch, match="nn.matmul: the axes to sum over differ"):
        topi.matmul(te.placeholder((2, 3)), te.placeholder((4, 5)))
    with pytest.raises(TypeMismatch, match="nn.dense: wanted"):
        topi.dense(te.placeholder((2, 3)), te.placeholder((4, 5)))
    with pytest.raises(InputError, match="padding: wanted 1, 2 or 4 values"):
        topi.max_pool2d(data, pool_size=2, padding=(1, 1, 1))
    with pytest.raises(TypeMismatch, match="nn.layer_norm: wanted a weight of shape"):
        topi.layer_norm(data, te.placeholder((3,)))


def test_a_softmax_of_half_floats_adds_up_in_float32() -> None:
    """In float16, a sum of 4096 equal terms stops at 2048 of them."""
    x = te.placeholder((1, 4096), dtype="float16", name="x")
    a, got = np.zeros((1, 4096), np.float16), np.zeros((1, 4096), np.float16)
    build(te.create_prim_func([x, topi.softmax(x)]))(a, got)
    np.testing.assert_array_equal(got, np.full((1, 4096), 1 / 4096, np.float16))


def test_the_zero_point_decides_the_dtype_of_quantised_elements() -> None:
    x, zero = te.placeholder((4,), name="x"), te.placeholder((), "int8", name="zero")
    scale = te.placeholder((), name="scale")
    assert topi.quantize(x, scale, zero).dtype == "int8" and topi.quantize(x, scale).dtype == "uint8"
    assert topi.quantize(x, scale, out_dtype="int16").dtype == "int16"
    with pytest.raises(TypeMismatch, match=r"quantize: wanted a zero point of uint8, found int8\[\]"):
        topi.quantize(x, scale, zero, out_dtype="uint8")
