"""Winograd's convolution is the direct one: exactly on integers for F(2x2), within its error for F(4x4)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import minitvm
from minitvm import strategy, te
from minitvm.errors import InputError
from minitvm.machines.simd.strategy.algorithms import algorithm_text, convolution_algorithms
from minitvm.machines.simd.topi.winograd import (
    TILES,
    transformed_weights,
    winograd_conv2d_nchwc,
    winograd_error_growth,
)
from minitvm.reference import te as interpreter
from minitvm.strategy.algorithms import Convolution, algorithm_name
from minitvm.target import Target

# batch, in blocks, height, width, block of input, out blocks, block of output, padding, out blocks of a panel
CASES = [
    (1, 1, 6, 6, 4, 1, 4, 0, 1),
    (1, 2, 7, 9, 4, 3, 8, 1, 3),
    (2, 1, 5, 4, 8, 2, 4, (1, 0, 2, 1), 1),
    (1, 1, 3, 3, 4, 1, 4, 1, 1),
    (1, 3, 14, 14, 8, 2, 8, 1, 2),
]
PADDING = 7


def direct(data: np.ndarray, weight: np.ndarray, padding: Any) -> np.ndarray:
    """A convolution of NCHW[x]c data in float64, by its definition; `weight` is [O, I, 3, 3]."""
    top, left, bottom, right = padding if isinstance(padding, tuple) else (padding,) * 4
    n, blocks, height, width, block = data.shape
    plain = np.moveaxis(data, -1, 2).reshape(n, blocks * block, height, width).astype(np.float64)
    image = np.pad(plain, [(0, 0), (0, 0), (top, bottom), (left, right)])
    seen = np.lib.stride_tricks.sliding_window_view(image, (3, 3), axis=(2, 3))
    return np.einsum("nchwyx,ocyx->nohw", seen, weight.astype(np.float64))


def drawn(case: tuple[Any, ...], integers: bool) -> tuple[np.ndarray, np.ndarray]:
    n, in_blocks, height, width, block, out_blocks, out_block, *_ = case
    rng = np.random.default_rng(0)
    shapes = (n, in_blocks, height, width, block), (out_blocks * out_block, in_blocks * block, 3, 3)
    if integers:
        return tuple(4.0 * rng.integers(-3, 4, s) for s in shapes)  # type: ignore[return-value]
    return tuple(rng.standard_normal(s) for s in shapes)  # type: ignore[return-value]


def packed(weight: np.ndarray, case: tuple[Any, ...], tile: int) -> np.ndarray:
    _, in_blocks, _, _, block, out_blocks, out_block, _, panel = case
    t = tile + 2
    made = transformed_weights(weight.astype(np.float32), tile)
    split = made.reshape(t, t, out_blocks // panel, panel, out_block, in_blocks, block)
    return np.ascontiguousarray(split.transpose(2, 0, 1, 5, 6, 3, 4))


def tensors(case: tuple[Any, ...], tile: int) -> list[Any]:
    n, in_blocks, height, width, block, out_blocks, out_block, padding, panel = case
    data = te.placeholder((n, in_blocks, height, width, block), name="data")
    t, panels = tile + 2, out_blocks // panel
    weight = te.placeholder((panels, t, t, in_blocks, block, panel, out_block), name="weight")
    return [data, weight, winograd_conv2d_nchwc(data, weight, tile=tile, padding=padding)]


def blocked(image: np.ndarray, block: int) -> np.ndarray:
    n, channels, height, width = image.shape
    return np.moveaxis(image.reshape(n, channels // block, block, height, width), 2, -1)


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("case", CASES)
def test_the_expression_is_a_convolution(case: tuple[Any, ...], tile: int) -> None:
    data, weight = drawn(case, integers=tile == 2)
    wanted = blocked(direct(data, weight, case[PADDING]), case[6])
    d, w, y = tensors(case, tile)
    (found,) = interpreter.evaluate([y], {d: data.astype(np.float32), w: packed(weight, case, tile)})
    assert found.shape == wanted.shape
    if tile == 2:
        np.testing.assert_array_equal(found, wanted)  # 1/2 and 1/4 of multiples of 4 are exact
    else:
        np.testing.assert_allclose(found, wanted, atol=3e-5 * np.abs(wanted).max())


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize(("dilation", "image"), [((2, 2), (9, 6)), ((1, 3), (5, 7)), ((1, 1), (None, None)),
                                                 ((2, 1), (None, 7))])  # fmt: skip
def test_of_open_and_dilated_images_as_well(
    tile: int, dilation: tuple[int, int], image: tuple[int | None, ...]
) -> None:
    """Every tap of a kernel with holes in it is a tap of a larger kernel, in which the others are zero."""
    rng = np.random.default_rng(0)
    sides = [te.size_var(name) if n is None else n for name, n in zip("hw", image, strict=True)]
    d, w = te.placeholder((2, 1, *sides, 4), name="d"), te.placeholder((1, tile + 2, tile + 2, 1, 4, 1, 4), name="w")
    y = winograd_conv2d_nchwc(d, w, tile=tile, padding=(1, 2), dilation=dilation)
    weight = 4.0 * rng.integers(-3, 4, (4, 4, 3, 3))
    holes = np.zeros((4, 4, *(2 * k + 1 for k in dilation)))
    holes[:, :, :: dilation[0], :: dilation[1]] = weight
    for sizes in ((6, 9), (5, 5)) if None in image else (image,):
        size = tuple(n or size for n, size in zip(image, sizes, strict=True))
        data = rng.integers(-3, 4, (2, 1, *size, 4)).astype(np.float64)
        padded = np.pad(np.moveaxis(data[:, 0], -1, 1), [(0, 0), (0, 0), (1, 1), (2, 2)])
        seen = np.lib.stride_tricks.sliding_window_view(padded, holes.shape[2:], axis=(2, 3))
        wanted = blocked(np.einsum("nchwyx,ocyx->nohw", seen, holes), 4)
        packed_weight = packed(weight, (1, 1, *size, 4, 1, 4, 0, 1), tile)
        (found,) = interpreter.evaluate([y], {d: data.astype(np.float32), w: packed_weight})
        np.testing.assert_allclose(found, wanted, atol=(0 if tile == 2 else 3e-5) * np.abs(wanted).max())


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize(("case", "bits"), [(CASES[1], 256), (CASES[2], 512)])
def test_the_schedule_keeps_the_meaning(case: tuple[Any, ...], bits: int, tile: int) -> None:
    args = tensors(case, tile)
    y = args[-1]
    relu = te.compute(y.shape, lambda *i: te.maximum(y[i], te.const(0, "float32")), name="relu")
    func = te.create_prim_func([*args[:2], relu])
    target = Target(f"cpu -vector_bits={bits}")
    scheduled = strategy.schedule(func, target).func
    assert "T.parallel" in scheduled.script(), "the schedule was given up"
    assert scheduled.script().count('with T.block("strips")') == 1
    data, weight = drawn(case, integers=True)
    wanted = np.maximum(blocked(direct(data, weight, case[PADDING]), case[6]), 0)
    found = np.full(wanted.shape, np.nan, np.float32)
    minitvm.build(scheduled, threads=2)(data.astype(np.float32), packed(weight, case, tile), found)
    np.testing.assert_allclose(found, wanted, atol=(0 if tile == 2 else 3e-5) * max(1, np.abs(wanted).max()))


@pytest.mark.parametrize("tile", TILES)
def test_the_error_bound_holds(tile: int) -> None:
    """Against float64, relative to the sum of magnitudes, as a bound for a sum says it."""
    case = (1, 4, 12, 12, 16, 4, 16, 1, 2)
    data, weight = drawn(case, integers=False)
    data, weight = data.astype(np.float32), weight.astype(np.float32)
    wanted, size = (blocked(direct(f(data), f(weight), 1), 16) for f in (np.asarray, np.abs))
    d, w, y = tensors(case, tile)
    (found,) = interpreter.evaluate([y], {d: data, w: packed(weight, case, tile)})
    terms = 64 * 9
    bound = winograd_error_growth(tile) * terms * 2.0**-24
    assert (np.abs(found - wanted) <= bound * size).all()
    assert np.abs(found - wanted).max() > 0


def test_what_does_not_fit_is_refused() -> None:
    data, weight = te.placeholder((1, 1, 6, 6, 4), name="d"), te.placeholder((1, 4, 4, 1, 4, 1, 4), name="w")
    with pytest.raises(InputError, match="wanted a tile of 2 or 4, found 3"):
        winograd_conv2d_nchwc(data, weight, tile=3)
    with pytest.raises(InputError, match="do not fit a tile of 4"):
        winograd_conv2d_nchwc(data, weight, tile=4)


def chosen(image: int, inner: int, outer: int, accuracy: str = "fast", stride: int = 1, kernel: int = 3) -> str:
    conv = Convolution(1, inner, outer, (image, image), (kernel, kernel), (stride, stride), (1, 1))
    target = Target("cpu -vector_bits=512 -vector_registers=32 -l2=1048576:16:64:1 -l3=33554432:16:64:2")
    return algorithm_name(convolution_algorithms(conv, 16, target, accuracy)[0])


def test_the_model_chooses_what_is_known_to_be_faster() -> None:
    assert chosen(56, 64, 64) == "winograd F(4x4,3x3)"
    assert chosen(28, 128, 128) == "winograd F(4x4,3x3)"
    assert chosen(7, 512, 512) != "winograd F(4x4,3x3)", "its weights stream from memory"
    assert chosen(56, 64, 64, accuracy="strict") == "direct"
    assert chosen(56, 64, 64, stride=2) == "direct"
    assert chosen(56, 64, 64, kernel=1) == "direct"


def test_the_choice_is_said_with_its_reasons() -> None:
    conv = Convolution(1, 64, 64, (56, 56), (3, 3), (1, 1), (1, 1))
    first, *others = convolution_algorithms(conv, 16, Target("cpu -vector_bits=512 -vector_registers=32"))
    assert (first.rule, first.knobs["tile"]) == ("winograd", 4)
    assert algorithm_text(first).startswith("winograd F(4x4,3x3), error at most ")
    assert "direct" in [other.rule for other in others]
    for one in (first, *others):
        assert one.cost.compute > 0 and one.cost.memory > 0
