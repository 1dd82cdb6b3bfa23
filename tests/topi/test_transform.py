"""Rearrangements, gathers, scatters, sorting, padding and quantisation against NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm import te, topi
from minitvm.errors import InputError, TypeMismatch

Run = Callable[..., Any]
shapes = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)


def numbered(*shape: int) -> np.ndarray:
    return np.arange(math.prod(shape), dtype="float32").reshape(shape)


@st.composite
def reshapes(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two shapes of as many elements, made of the same prime factors."""
    primes = draw(st.lists(st.sampled_from([2, 3, 5]), max_size=5))

    def shape() -> tuple[int, ...]:
        dims = [1] * draw(st.integers(1, 4))
        for prime in draw(st.permutations(primes)):
            dims[draw(st.integers(0, len(dims) - 1))] *= prime
        return tuple(dims)

    return shape(), shape()


@given(reshapes(), st.booleans())
def test_reshape(run: Run, pair: Any, infer: bool) -> None:
    old, new = pair
    wanted = numbered(*old).reshape(new)
    asked = (-1, *new[1:]) if infer else new
    np.testing.assert_array_equal(run(topi.reshape, numbered(*old), newshape=asked), wanted)


def test_reshape_copies_a_dimension_at_zero(run: Run) -> None:
    assert run(topi.reshape, numbered(2, 3, 4), newshape=(0, -1)).shape == (2, 12)
    assert run(topi.batch_flatten, numbered(2, 3, 4)).shape == (2, 12)


def test_reshape_keeps_the_indices_of_axes_that_stay() -> None:
    x = te.placeholder((te.size_var("n"), 6, 7), name="x")
    made = topi.reshape(x, newshape=(0, 2, 3, 7))
    assert str(made.op.body[0]) == "x[i0, i1 * 3 + i2, i3]"


@given(shapes, st.data())
def test_transpose(run: Run, shape: tuple[int, ...], data: st.DataObject) -> None:
    axes = tuple(data.draw(st.permutations(range(len(shape)))))
    np.testing.assert_array_equal(run(topi.transpose, numbered(*shape), axes=axes), numbered(*shape).transpose(axes))


@given(shapes, st.data())
def test_strided_slice_follows_python(run: Run, shape: tuple[int, ...], data: st.DataObject) -> None:
    bound = st.integers(-6, 6)
    begin, end = ([data.draw(bound) for _ in shape] for _ in range(2))
    strides = [data.draw(st.sampled_from([-2, -1, 1, 2, 3])) for _ in shape]
    slices = [
        slice(b, None if s < 0 and e < -d else e, s) for b, e, s, d in zip(begin, end, strides, shape, strict=True)
    ]
    wanted = numbered(*shape)[tuple(slices)]
    found = run(topi.strided_slice, numbered(*shape), begin=begin, end=end, strides=strides)
    np.testing.assert_array_equal(found, wanted)


def test_concatenate_split_and_stack_are_inverse(run: Run) -> None:
    x = numbered(2, 7, 3)
    parts = run(topi.split, x, indices_or_sections=(2, 3), axis=1)
    assert [p.shape[1] for p in parts] == [2, 1, 4]
    np.testing.assert_array_equal(run(topi.concatenate, *parts, axis=-2), x)
    halves = run(topi.split, numbered(6, 2), indices_or_sections=3, axis=0)
    np.testing.assert_array_equal(np.concatenate(halves), numbered(6, 2))
    np.testing.assert_array_equal(run(topi.stack, x, x + 1, axis=-1), np.stack([x, x + 1], -1))


def test_axes_come_and_go(run: Run) -> None:
    x = numbered(2, 3)
    assert run(topi.expand_dims, x, axis=-1, num_newaxis=2).shape == (2, 3, 1, 1)
    assert run(topi.expand_dims, x, axis=(0, -2)).shape == (1, 2, 1, 3)
    assert run(topi.squeeze, x.reshape(1, 2, 1, 3), axis=(0, -2)).shape == (2, 3)
    assert run(topi.squeeze, x.reshape(1, 2, 1, 3)).shape == (2, 3)


@given(shapes, st.data())
def test_tile_repeat_reverse(run: Run, shape: tuple[int, ...], data: st.DataObject) -> None:
    x = numbered(*shape)
    reps = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=5))
    np.testing.assert_array_equal(run(topi.tile, x, reps=reps), np.tile(x, reps))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    np.testing.assert_array_equal(run(topi.repeat, x, repeats=3, axis=axis), np.repeat(x, 3, axis))
    np.testing.assert_array_equal(run(topi.reverse, x, axis=axis), np.flip(x, axis))


def test_depth_and_space(run: Run) -> None:
    x = numbered(1, 8, 2, 3)
    wide = run(topi.depth_to_space, x, block_size=2)
    wanted = x.reshape(1, 2, 2, 2, 2, 3).transpose(0, 3, 4, 1, 5, 2).reshape(1, 2, 4, 6)
    np.testing.assert_array_equal(wide, wanted)
    np.testing.assert_array_equal(run(topi.space_to_depth, wide, block_size=2), x)
    columns_first = x.reshape(1, 2, 2, 2, 2, 3).transpose(0, 1, 4, 2, 5, 3).reshape(1, 2, 4, 6)
    np.testing.assert_array_equal(run(topi.depth_to_space, x, block_size=2, mode="CRD"), columns_first)


@pytest.mark.parametrize("k", [-2, 0, 1])
def test_trilu(run: Run, k: int) -> None:
    x = numbered(2, 3, 4) + 1
    np.testing.assert_array_equal(run(topi.trilu, x, k=k), np.triu(x, k))
    np.testing.assert_array_equal(run(topi.trilu, x, k=k, upper=False), np.tril(x, k))


def test_one_hot(run: Run) -> None:
    indices = np.array([[0, -1], [2, 7]])
    found = run(topi.one_hot, indices, depth=4, axis=1, on_value=5, off_value=-1)
    wanted = np.where(np.arange(4)[None, :, None] == (indices % 4 + 100 * (indices > 3))[:, None], 5, -1)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap", "constant"])
def test_pad(run: Run, mode: str) -> None:
    x, width = numbered(3, 4), ((1, 2), (3, 0))
    attrs = {"constant_values": 7} if mode == "constant" else {}
    found = run(topi.pad, x, pad_width=width, pad_mode=mode, pad_value=7.0)
    np.testing.assert_array_equal(found, np.pad(x, width, mode, **attrs))  # type: ignore[call-overload]


def test_negative_padding_crops(run: Run) -> None:
    x = numbered(4, 5)
    found = run(topi.pad, x, pad_width=((-1, 1), (2, -3)))
    np.testing.assert_array_equal(found, np.pad(x[1:, :2], ((0, 1), (2, 0))))


@given(st.integers(0, 99), st.sampled_from([0, 1, -1, None]))
def test_take(run: Run, seed: int, axis: int | None) -> None:
    x = numbered(3, 4, 5)
    extent = x.size if axis is None else x.shape[axis]
    indices = np.random.default_rng(seed).integers(-extent, extent, (2, 2))
    np.testing.assert_array_equal(run(topi.take, x, indices, axis=axis), np.take(x, indices, axis))


@given(st.integers(0, 99), st.integers(0, 2))
def test_gather_and_scatter_elements(run: Run, seed: int, axis: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((3, 4, 5)).astype("float32")
    order = np.argsort(rng.random(x.shape), axis)  # no index twice
    indices = order[:2, :2, :2]
    part = x[tuple(slice(0, 2) if a != axis else slice(None) for a in range(3))]
    np.testing.assert_array_equal(run(topi.gather, x, indices, axis=axis), np.take_along_axis(part, indices, axis))
    updates = rng.standard_normal(indices.shape).astype("float32")
    wanted = x.copy()
    for at in np.ndindex(indices.shape):
        place = list(at)
        place[axis] = indices[at]
        wanted[tuple(place)] = updates[at]
    np.testing.assert_array_equal(run(topi.scatter_elements, x, indices, updates, axis=axis), wanted)


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
def test_scatter_nd(run: Run, rng: np.random.Generator, reduction: str) -> None:
    x, updates = (rng.integers(-4, 5, s).astype("float32") for s in ((3, 4, 2), (3, 2)))
    points = np.array([[0, 1], [2, -1], [0, 1] if reduction != "none" else [1, 1]])
    combine = {"none": lambda a, b: b, "add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[
        reduction
    ]
    wanted = x.copy()
    for (a, b), update in zip(points, updates):
        wanted[a, b] = combine(wanted[a, b], update)  # type: ignore[no-untyped-call]
    np.testing.assert_array_equal(run(topi.scatter_nd, x, points, updates, reduction=reduction), wanted)
    np.testing.assert_array_equal(run(topi.gather_nd, x, points), x[points[:, 0], points[:, 1]])


@given(st.integers(0, 99), st.booleans(), st.integers(0, 1))
def test_sorting_keeps_the_order_of_equals(run: Run, seed: int, ascending: bool, axis: int) -> None:
    x = np.random.default_rng(seed).integers(0, 4, (4, 5)).astype("float32")
    wanted = np.argsort(x if ascending else -x, axis, kind="stable")
    np.testing.assert_array_equal(run(topi.argsort, x, axis=axis, is_ascend=ascending), wanted)
    values, indices = run(topi.topk, x, k=3, axis=axis, is_ascend=ascending)
    np.testing.assert_array_equal(indices, wanted.take(range(3), axis))
    np.testing.assert_array_equal(values, np.take_along_axis(x, indices, axis))


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_quantize_rounds_halves_to_even_and_saturates(run: Run, dtype: str) -> None:
    x = np.array([-1e6, -1.25, -0.25, 0.25, 0.75, 1e6], "float32")
    scale, zero = np.array(0.5, "float32"), np.array(3, dtype)
    info = np.iinfo(dtype)
    quantized = run(topi.quantize, x, scale, zero, out_dtype=dtype)
    np.testing.assert_array_equal(quantized, np.clip(np.round(x / 0.5) + 3, info.min, info.max))
    np.testing.assert_array_equal(run(topi.dequantize, quantized, scale, zero), (quantized.astype(int) - 3) * 0.5)


def test_quantize_by_channel(run: Run) -> None:
    x, scale = numbered(2, 3), np.array([1, 2, 4], "float32")
    np.testing.assert_array_equal(run(topi.quantize, x, scale, axis=1), np.round(x / scale))


def linear_1d(x: np.ndarray, at: np.ndarray) -> np.ndarray:
    return np.interp(at, np.arange(len(x)), x)


@pytest.mark.parametrize("size", [3, 5, 8, 10])
def test_linear_resize_is_interpolation(run: Run, size: int) -> None:
    x = np.array([1, 4, 2, 8, 5], "float32")
    half = (np.arange(size) + 0.5) * 5 / size - 0.5
    np.testing.assert_allclose(run(topi.resize, x, size=(size,)), linear_1d(x, half), rtol=1e-5)
    corners = np.arange(size) * 4 / (size - 1)
    mode = "align_corners"
    found = run(topi.resize, x, size=(size,), coordinate_transformation_mode=mode)
    np.testing.assert_allclose(found, linear_1d(x, corners), rtol=1e-5)


def test_nearest_resize(run: Run) -> None:
    x = numbered(1, 1, 3, 4)
    doubled = run(topi.resize2d, x, size=(6, 8), method="nearest_neighbor")
    np.testing.assert_array_equal(doubled, x.repeat(2, 2).repeat(2, 3))
    row = np.arange(5, dtype="float32")
    for rounding, step in [("floor", np.floor), ("ceil", np.ceil)]:
        found = run(topi.resize, row, size=(3,), method="nearest_neighbor", rounding_method=rounding,
                    coordinate_transformation_mode="asymmetric")  # fmt: skip
        np.testing.assert_array_equal(found, step(np.arange(3) * 5 / 3))


def test_cubic_resize_reproduces_lines(run: Run) -> None:
    x = np.arange(8, dtype="float32")
    found = run(topi.resize, x, size=(16,), method="cubic", cubic_alpha=-0.5)
    inner = (np.arange(16) + 0.5) / 2 - 0.5
    np.testing.assert_allclose(found[3:-3], inner[3:-3], rtol=1e-5)


def test_errors() -> None:
    x = te.placeholder((2, 3))
    with pytest.raises(TypeMismatch, match=r"reshape: wanted 6 elements, found 8"):
        topi.reshape(x, newshape=(2, 4))
    with pytest.raises(InputError, match="-1 comes twice"):
        topi.reshape(x, newshape=(-1, -1))
    with pytest.raises(InputError, match="is no order"):
        topi.transpose(x, axes=(0, 0))
    with pytest.raises(InputError, match="is not 1"):
        topi.squeeze(x, axis=0)
    with pytest.raises(TypeMismatch, match="do not fit"):
        topi.concatenate(x, te.placeholder((2, 4)), axis=0)
    with pytest.raises(InputError, match="wanted a multiple of 2 entries along axis 1 to split, found 3"):
        topi.split(x, indices_or_sections=2, axis=1)
    with pytest.raises(TypeMismatch, match="indices are integers"):
        topi.take(x, x)
    with pytest.raises(InputError, match="wanted at least 4 entries along axis 1 to select from, found 3"):
        topi.topk(x, k=4)
