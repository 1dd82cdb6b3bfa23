"""How Winograd convolutions are blocked: plans fit the caches, and every kind of plan computes the convolution."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import minitvm
from minitvm import reference, strategy, te, topi
from minitvm.machines.simd.strategy.algorithms import convolution_algorithms
from minitvm.machines.simd.strategy.conv2d import registers_of
from minitvm.machines.simd.strategy.tiling import cpu_of
from minitvm.machines.simd.strategy.winograd_plan import WinogradShape, winograd_plans
from minitvm.machines.simd.topi.winograd import transformed_weights, winograd_conv2d_nchwc
from minitvm.strategy import Knob
from minitvm.strategy.algorithms import DIRECT, WINOGRAD, Convolution
from minitvm.target import Target

ZEN5 = "cpu -vector_bits=512 -vector_registers=32 -l2=1048576:16:64:1 -l3=33554432:16:64:2"

# image, input channels, output channels, tile
LAYERS = [(224, 64, 64, 4), (56, 64, 64, 4), (56, 256, 256, 4), (28, 512, 512, 4), (13, 48, 192, 4), (7, 512, 512, 2)]


def shape_of(image: int, inner: int, outer: int, tile: int, batch: int = 1) -> WinogradShape:
    side = -(-image // tile)
    return WinogradShape(tile, batch, (side, side), inner, outer // 16, 16)


@pytest.mark.parametrize("layer", LAYERS)
def test_plans_divide_the_image_and_fit(layer: tuple[int, ...]) -> None:
    shape, cpu = shape_of(*layer), cpu_of(Target(ZEN5))
    plans = winograd_plans(shape, cpu)
    assert [cost.cycles for _, cost in plans] == sorted(cost.cycles for _, cost in plans)
    for plan, _ in plans:
        across = shape.image[1]
        assert shape.image[0] % plan.rows == 0
        assert plan.rows * across % plan.pixels == 0 and shape.out_blocks % plan.blocks == 0
        assert plan.pixels * plan.blocks + plan.blocks + 1 <= cpu.vector_registers
        near = 4 * shape.places * plan.rows * across * (shape.in_channels + 16 * plan.blocks)
        assert plan.apart or near <= cpu.l2.size


def test_large_weights_are_read_once_small_ones_for_every_row() -> None:
    cpu = cpu_of(Target(ZEN5))
    assert not winograd_plans(shape_of(56, 64, 64, 4), cpu)[0][0].apart
    assert not winograd_plans(shape_of(224, 64, 64, 4), cpu)[0][0].apart
    assert winograd_plans(shape_of(28, 512, 512, 4), cpu)[0][0].apart
    few, _ = winograd_plans(shape_of(7, 512, 512, 2), cpu)[0]
    assert few.apart and few.pixels * few.blocks >= 14, "its few tiles are one register tile, across rows"


def test_packed_weights_keep_their_panels() -> None:
    shape, cpu = shape_of(28, 128, 96, 4), cpu_of(Target(ZEN5))
    for blocks in (1, 2, 3):
        assert {plan.blocks for plan, _ in winograd_plans(shape, cpu, blocks)} == {blocks}


GRIDS = [
    WinogradShape(4, 1, (None, None), 64, 4, 16),
    WinogradShape(4, 2, (None, 14), 256, 16, 16),
    WinogradShape(4, 1, (5, 5), 64, 4, 16, (2, 2)),
    WinogradShape(2, 1, (2, 31), 512, 32, 16, (3, 3)),
]


@pytest.mark.parametrize("shape", GRIDS, ids=str)
def test_rectangles_of_a_grid_fit_the_stack_in_whole_register_tiles(shape: WinogradShape) -> None:
    cpu = cpu_of(Target(ZEN5))
    plans = winograd_plans(shape, cpu)
    assert plans and [cost.cycles for _, cost in plans] == sorted(cost.cycles for _, cost in plans)
    for plan, _ in plans:
        assert not plan.apart and plan.across % plan.pixels == 0 and shape.out_blocks % plan.blocks == 0
        both = 4 * shape.places * plan.rows * plan.across * (shape.in_channels + 16 * plan.blocks)
        assert both <= min(cpu.l2.size, 960 << 10)
        assert registers_of(plan.pixels, plan.blocks) <= cpu.vector_registers
    (few, _), *_ = plans
    assert few.pixels * few.blocks >= cpu.chains, "the multiply-add units wait for one another"


def test_of_too_many_channels_no_rectangle_fits() -> None:
    cpu = cpu_of(Target(ZEN5))
    assert not winograd_plans(WinogradShape(4, 1, (None, None), 8192, 4, 16), cpu)
    conv = Convolution(1, 8192, 64, (None, None), (3, 3), (1, 1), (1, 1))
    assert {option.rule for option in convolution_algorithms(conv, 16, Target(ZEN5))} == {"direct"}


@pytest.mark.parametrize(
    ("image", "dilation", "chosen"),
    [((None, None), 1, WINOGRAD), ((40, 40), 2, WINOGRAD), ((3, 40), 2, DIRECT), ((None, None), 2, WINOGRAD)],
)
def test_open_and_dilated_images_are_weighed_as_well(
    image: tuple[int | None, int | None], dilation: int, chosen: str
) -> None:
    conv = Convolution(1, 64, 64, image, (3, 3), (1, 1), (dilation, dilation))
    assert convolution_algorithms(conv, 16, Target(ZEN5))[0].rule == chosen
    assert {option.rule for option in convolution_algorithms(conv, 16, Target(ZEN5), "strict")} == {DIRECT}


@pytest.mark.parametrize(
    ("image", "dilation", "knobs"),
    [
        ((None, None), 1, {"rows": 2, "pixels": 2, "across": 4}),
        ((None, 6), 2, {"rows": 1, "pixels": 2, "across": 2}),
        ((9, 12), (2, 1), {"rows": 2, "pixels": 3, "across": 3}),
    ],
)
def test_rectangles_that_stick_out_of_the_image_compute_the_convolution(
    image: tuple[int | None, int | None], dilation: Any, knobs: Mapping[str, Knob]
) -> None:
    sides = [te.size_var(name) if n is None else n for name, n in zip("hw", image, strict=True)]
    x, w = te.placeholder((1, 1, *sides, 4), name="x"), te.placeholder((2, 4, 4, 1, 4, 1, 4), name="w")
    y = winograd_conv2d_nchwc(x, w, tile=2, padding=1, dilation=dilation)
    func = te.create_prim_func([x, w, topi.relu(y)])
    scheduled = strategy.schedule(func, Target("cpu -vector_bits=128 -vector_registers=16"), knobs).func
    kernels = minitvm.lower(scheduled, stop_at="kernel")["main"]
    rng = np.random.default_rng(0)
    for sizes in ((5, 6), (9, 8)) if None in image else (image,):
        height, width = (n or size for n, size in zip(image, sizes, strict=True))
        data = rng.integers(-3, 4, (1, 1, height, width, 4)).astype(np.float32)
        packed = rng.integers(-3, 4, (2, 4, 4, 1, 4, 1, 4)).astype(np.float32)
        rows, columns = (dilation, dilation) if isinstance(dilation, int) else dilation
        wanted = np.zeros((1, 2, height + 2 - 2 * rows, width + 2 - 2 * columns, 4), np.float32)
        found = np.full_like(wanted, np.nan)
        reference.tir.run(func, data, packed, wanted)
        reference.kernel.run(kernels, data, packed, found, sizes={"h": height, "w": width})
        np.testing.assert_array_equal(found, wanted)


def kept_meaning(case: tuple[int, ...], tile: int, panel: int, target: Target) -> Mapping[str, Knob]:
    """The knobs that the rule took, after a check of what it computes on whole numbers."""
    batch, inner, height, width, outer, lanes = case
    rng = np.random.default_rng(0)
    data = rng.integers(-3, 4, (batch, inner, height, width, lanes)).astype(np.float32)
    weight = 4.0 * rng.integers(-3, 4, (outer * lanes, inner * lanes, 3, 3)).astype(np.float32)
    t = tile + 2
    split = transformed_weights(weight, tile).reshape(t, t, outer // panel, panel, lanes, inner, lanes)
    packed = np.ascontiguousarray(split.transpose(2, 0, 1, 5, 6, 3, 4))
    args: list[Any] = [te.placeholder(data.shape, name="data"), te.placeholder(packed.shape, name="weight")]
    made = winograd_conv2d_nchwc(*args, tile=tile, padding=1)
    chosen = strategy.chosen(te.create_prim_func([*args, made]), target)
    assert chosen.rule == "winograd_conv2d_nchwc"
    found = np.full((batch, outer, height, width, lanes), np.nan, np.float32)
    minitvm.build(chosen.schedule.func, threads=2)(data, packed, found)

    plain = np.moveaxis(data, -1, 2).reshape(batch, inner * lanes, height, width)
    seen = np.lib.stride_tricks.sliding_window_view(np.pad(plain, [(0, 0)] * 2 + [(1, 1)] * 2), (3, 3), axis=(2, 3))
    wanted = np.einsum("nchwyx,ocyx->nohw", seen.astype(np.float64), weight.astype(np.float64))
    wanted = np.moveaxis(wanted.reshape(batch, outer, lanes, height, width), 2, -1)
    np.testing.assert_allclose(found, wanted, atol=(0 if tile == 2 else 3e-5) * np.abs(wanted).max())
    return chosen.choice.weighed[0].knobs


@pytest.mark.parametrize(
    ("case", "tile", "panel", "l2", "wanted"),
    [
        ((1, 1, 8, 12, 2, 8), 2, 2, 1 << 20, {"rows": 2, "apart": False}),
        ((2, 2, 9, 13, 4, 8), 4, 2, 1 << 20, {}),  # a batch, and tiles that stand over the image
        ((1, 2, 6, 26, 3, 8), 2, 3, 4 << 10, {"rows": 1, "apart": False}),  # which do not fit
        ((1, 4, 6, 6, 8, 8), 2, 2, 24 << 10, {"apart": True}),
    ],
)
def test_every_kind_of_plan_computes_the_convolution(
    case: tuple[int, ...], tile: int, panel: int, l2: int, wanted: Mapping[str, Knob]
) -> None:
    target = Target(f"cpu -vector_bits=256 -l2={l2}:16:64:1 -l3=33554432:16:64:2")
    assert wanted.items() <= kept_meaning(case, tile, panel, target).items()


def test_the_last_rows_of_tiles_share_the_stack_of_the_others() -> None:
    """They are a branch of their own, whose buffers would not fit beside those of the other one."""
    args = [te.placeholder((1, 4, 54, 222, 16), name="data"), te.placeholder((2, 6, 6, 4, 16, 2, 16), name="weight")]
    func = te.create_prim_func([*args, winograd_conv2d_nchwc(*args, tile=4, padding=1)])
    chosen = strategy.chosen(func, Target(ZEN5))
    knobs = chosen.choice.weighed[0].knobs
    assert chosen.rule == "winograd_conv2d_nchwc" and (knobs["rows"], knobs["apart"]) == (1, False)
    (source,) = minitvm.lower(chosen.schedule.func, ZEN5, stop_at="source").values()
    assert len(re.findall(r"products\w* = stack_f32", source)) == 2, "the last rows are no branch of their own"
    assert len(re.findall(r"tiles\w* = stack_f32", source)) == 1
