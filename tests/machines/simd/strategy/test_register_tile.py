"""The micro-kernel schedules of convolutions and dense layers keep the meaning, and keep the tile in registers."""

from __future__ import annotations

import numpy as np
import pytest

import minitvm as tvm
from minitvm import strategy, te, topi
from minitvm.machines.simd.strategy.conv2d import DirectConvolution, conv_tile, conv_tiles
from minitvm.machines.simd.strategy.tiling import cpu_of
from minitvm.machines.simd.topi.blocked import conv2d_nchwc, dense_packed, depthwise_conv2d_nchwc
from minitvm.machines.simd.topi.window_rows import depthwise_conv2d_rows
from minitvm.reference import tir as interpreter
from minitvm.strategy.blocks import largest_divisor
from minitvm.target import CPU, Target

WIDTHS = [128, 256, 512]


def target(bits):
    return Target(f"cpu -vector_bits={bits} -vector_registers={32 if bits == 512 else 16}")


def convolution(lanes, *, image, blocks, kernel, depthwise=False, epilogue=True, **attrs):
    inner, outer = blocks
    x = te.placeholder((1, inner, *image, lanes), name="x")
    bias = te.placeholder((1, outer, 1, 1, lanes), name="bias")
    if depthwise:
        w = te.placeholder((inner, *kernel, lanes), name="w")
        y = depthwise_conv2d_nchwc(x, w, **attrs)
    else:
        w = te.placeholder((outer, inner, *kernel, lanes, lanes), name="w")
        y = conv2d_nchwc(x, w, **attrs)
    if not epilogue:
        return te.create_prim_func([x, w, y])
    residual = te.placeholder(tuple(y.shape), name="residual")
    return te.create_prim_func([x, w, bias, residual, topi.relu(topi.add(topi.add(y, bias), residual))])


def rows(lanes, *, image, blocks, kernel, epilogue=True, **attrs):
    channels, _ = blocks
    x, w = te.placeholder((1, channels, *image), name="x"), te.placeholder((channels, 1, *kernel), name="w")
    y = depthwise_conv2d_rows(x, w, lanes=lanes, **attrs)
    if not epilogue:
        return te.create_prim_func([x, w, y])
    bias, residual = te.placeholder((1, channels, 1, 1), name="bias"), te.placeholder(tuple(y.shape), name="residual")
    return te.create_prim_func([x, w, bias, residual, topi.relu(topi.add(topi.add(y, bias), residual))])


def scheduled(func, machine, name):
    """The schedule by the rule of that name, from its best candidate: a refused step fails here."""
    best = strategy.candidates(func, machine)[0]
    assert best.rule == name
    return best.schedule(func)


def same_meaning(before, after, rng):
    arrays = [rng.integers(-3, 4, [int(d) for d in b.shape]).astype(b.dtype.numpy) for b in before.buffers[:-1]]
    shape = [int(d) for d in before.buffers[-1].shape]
    expected, found = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    interpreter.run(before, *arrays, expected)
    interpreter.run(after, *arrays, found)
    np.testing.assert_array_equal(found, expected)
    compiled = np.zeros(shape, np.float32)
    tvm.build(after, threads=2)(*arrays, compiled)
    np.testing.assert_array_equal(compiled, expected)
    assert np.any(expected)


CASES = [
    {"image": (5, 6), "blocks": (2, 2), "kernel": (3, 3), "padding": 1},
    {"image": (7, 7), "blocks": (1, 4), "kernel": (1, 1)},
    {"image": (9, 5), "blocks": (1, 3), "kernel": (2, 3), "strides": 2, "padding": (0, 1, 1, 1)},
    {"image": (3, 29), "blocks": (1, 4), "kernel": (2, 2)},
    {"image": (6, 13), "blocks": (2, 1), "kernel": (3, 1), "dilation": 2, "epilogue": False},
]


@pytest.mark.alike("bits", "case")
@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("case", CASES)
def test_convolution(rng, bits, case):
    machine = target(bits)
    func = convolution(machine.vector_lanes("float32"), **case)
    same_meaning(func, scheduled(func, machine, "conv2d_nchwc").func, rng)


@pytest.mark.alike("bits", "case")
@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("case", [{**c, "blocks": (c["blocks"][0],) * 2} for c in CASES])
def test_depthwise_convolution(rng, bits, case):
    machine = target(bits)
    func = convolution(machine.vector_lanes("float32"), depthwise=True, **case)
    same_meaning(func, scheduled(func, machine, "depthwise_conv2d_nchwc").func, rng)


# Each case is as wide as vectors on one machine and narrower on the next.
@pytest.mark.alike("bits", "number")
@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("number", range(len(CASES)))
def test_depthwise_convolution_on_rows(rng, bits, number):
    case, narrower = CASES[number], (1, 4)[(number + WIDTHS.index(bits)) % 2]
    machine = target(bits)
    func = rows(max(4, machine.vector_lanes("float32") // narrower), **case)
    same_meaning(func, scheduled(func, machine, "window_rows").func, rng)


@pytest.mark.parametrize("strides", [1, 2])
def test_rows_are_computed_in_registers_from_whole_vectors(strides):
    machine = target(512)
    func = rows(16, image=(14 * strides, 15 * strides), blocks=(2, 2), kernel=(3, 3), padding=1, strides=strides)
    kernel = str(tvm.lower(scheduled(func, machine, "window_rows").func, machine, stop_at="kernel")["main"])
    source = tvm.lower(scheduled(func, machine, "window_rows").func, machine, stop_at="source")["main"]
    assert "gather(" not in source and source.count("= fma(") == 9 * 7
    assert ("Shuffle" in kernel) == (strides == 2)


@pytest.mark.parametrize(("rows", "depth", "blocks"), [(1, 37, 5), (6, 16, 3), (13, 8, 2)])
def test_dense(rng, rows, depth, blocks):
    machine = target(256)
    x, w = te.placeholder((rows, depth), name="x"), te.placeholder((blocks, depth, 8), name="w")
    func = te.create_prim_func([x, w, dense_packed(x, w)])
    same_meaning(func, scheduled(func, machine, "contraction").func, rng)


def test_the_tile_lives_in_registers_and_the_epilogue_reads_it_there():
    machine = target(256)
    func = convolution(8, image=(4, 6), blocks=(2, 2), kernel=(3, 3), padding=1)
    source = tvm.lower(scheduled(func, machine, "conv2d_nchwc").func, machine, stop_at="source")["main"]
    kernel = source[source.index("fma") :]
    assert "stack_" not in source, "accumulators went to memory"
    assert kernel.count("= fma(") == 12, "six pixels by two channel blocks in one step of the reduction"
    assert kernel.count("store(") == 12 and kernel.count("maximum(") == 12


@pytest.mark.parametrize(
    ("width", "blocks", "registers", "tile"),
    [(56, 4, 32, (8, 2)), (14, 16, 32, (7, 2)), (13, 24, 32, (7, 3)), (112, 4, 16, (14, 1)), (1, 10, 32, (1, 5))],
)
def test_tiles(width, blocks, registers, tile):
    assert conv_tile(width, blocks, CPU(vector_registers=registers)) == tile


@pytest.mark.parametrize(("width", "blocks", "tile"), [(56, 8, (8, 2)), (196, 32, (10, 2)), (14, 16, (7, 2))])
def test_a_core_that_loads_less_in_a_cycle_has_tiles_of_more_blocks(width, blocks, tile):
    shape = DirectConvolution(width, width, blocks, 1152, 0)
    cores = [CPU(vector_bits=512, vector_registers=32, l1_rate=rate) for rate in (128, 80)]
    plenty, scarce = (shape.tiles(cpu)[0] for cpu in cores)
    assert (plenty["pixels"], plenty["blocks"]) == tile and "lines" not in plenty
    assert scarce["blocks"] > plenty["blocks"]


@pytest.mark.parametrize(("kernel", "kinds"), [((1, 1), 2), ((3, 3), 1)])
def test_the_image_of_a_kernel_of_one_tap_is_one_line(kernel, kinds):
    """35 pixels are five tiles of seven and more; five lines of seven pixels are one kind of tile."""
    machine = target(512)
    func = convolution(16, image=(5, 7), blocks=(1, 2), kernel=kernel, padding=kernel[0] // 2)
    source = tvm.lower(scheduled(func, machine, "conv2d_nchwc").func, machine, stop_at="source")["main"]
    pixels, blocks = conv_tile(35 if kinds == 2 else 7, 2, cpu_of(machine))
    sizes = {pixels, 35 % pixels} if kinds == 2 else {pixels}
    assert source.count("= fma(") == sum(sizes) * blocks and len(sizes) == kinds


def test_a_tile_with_fewer_chains_than_the_latency_asks_for_costs_in_proportion():
    found = [dict(conv_tiles(8, 8, CPU(fma_latency=cycles, fma_ports=1)))[2, 1] for cycles in (2, 4, 8)]
    assert [cost / found[0] for cost in found] == [1, 2, 4]


def test_largest_divisor():
    assert [largest_divisor(56, limit) for limit in (0, 1, 9, 14, 27, 100)] == [1, 1, 8, 14, 14, 56]


def test_a_residual_is_widened_where_it_is_added(rng):
    """No float32 copy of it is stored."""
    x, w = te.placeholder((1, 2, 6, 7, 16), name="x"), te.placeholder((2, 2, 1, 1, 16, 16), name="w")
    y = conv2d_nchwc(x, w)
    bytes_ = te.placeholder(tuple(y.shape), "uint8", name="residual")
    step = te.placeholder((), name="step")
    widened = te.compute(bytes_.shape, lambda *i: bytes_[i].astype("float32") * step[()], name="widened")
    func = te.create_prim_func([x, w, bytes_, step, topi.add(y, widened)])
    after = scheduled(func, target(512), "conv2d_nchwc").func
    assert "widened" not in after.script()
    same_meaning(func, after, rng)
