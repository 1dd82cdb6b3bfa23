"""Convolutions and matrix products written by hand: bit by bit what NumPy has, in all orders, in one context or two."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitvm.errors import InputError
from minitvm.machines.vta.config import AluOptions, Scratchpad, configured, scaled
from minitvm.machines.vta.isa import AluOp, MicroOp, Module
from minitvm.machines.vta.layers import (
    RESNET18,
    TIMES,
    Conv2d,
    best_tile,
    conv2d,
    matmul,
    pack_filters,
    pack_image,
    random_tensors,
    unpack_result,
)
from minitvm.machines.vta.stream import Stream
from minitvm.machines.vta.timing import simulate
from minitvm.machines.vta.verifier import verify
from minitvm.reference import accel

VTA = configured("vta")


def run(layer: Conv2d, config, contexts: int = 2, tile=None, orders: int = 0, seed: int = 0):
    """The result of a layer on the machine, and in NumPy."""
    image, filters = random_tensors(layer, seed)
    program = conv2d(layer, config, contexts=contexts, tile=tile)
    verify(program, config)
    inputs = {"image": pack_image(image, config), "filters": pack_filters(filters, config)}
    outputs = (
        accel.check(program, config, inputs, orders=orders).outputs if orders else accel.run(program, config, inputs)
    )
    return unpack_result(outputs["result"], layer, config), layer.reference(image, filters)


@settings(max_examples=15)
@given(st.data())
def test_any_layer_is_what_numpy_has(data) -> None:
    draw = data.draw
    config = scaled(configured("vta", uop_bytes=1 << 12), 4)
    layer = Conv2d(
        draw(st.integers(2, 7)), draw(st.integers(2, 7)), 4 * draw(st.integers(1, 3)), 4 * draw(st.integers(1, 3)),
        draw(st.sampled_from([1, 3])), draw(st.integers(1, 2)), draw(st.sampled_from([0, 4, 8])),
    )  # fmt: skip
    from minitvm.machines.vta.layers import _Shape

    tile = draw(st.sampled_from(list(_Shape.of(layer, config).tiles(config))))
    found, wanted = run(layer, config, draw(st.sampled_from([1, 2])), tile, orders=7)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("config", [VTA, configured("vdla"), scaled(VTA, 32)], ids=["vta", "vdla", "32x32"])
@pytest.mark.parametrize("name", ["C8", "C11"])
def test_layers_of_resnet18(name: str, config) -> None:
    found, wanted = run(RESNET18[name], config)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.full
@pytest.mark.parametrize("config", [VTA, configured("vdla")], ids=["vta", "vdla"])
@pytest.mark.parametrize("name", RESNET18)
def test_all_layers_of_resnet18_in_all_orders(name: str, config) -> None:
    found, wanted = run(RESNET18[name], config, orders=8)
    np.testing.assert_array_equal(found, wanted)


def test_matrix_products() -> None:
    layer = matmul(20, 64, 32)
    image, filters = random_tensors(layer, 3)
    found, _ = run(layer, VTA, orders=7, seed=3)
    product = image.reshape(64, 20).T.astype(int) @ filters.reshape(32, 64).T.astype(int)
    np.testing.assert_array_equal(found.reshape(32, 20).T, np.clip(product >> 8, -128, 127))


def test_clip_is_one_operation_where_the_machine_has_it() -> None:
    config = configured("vta", options=AluOptions(clip=True))
    layer = Conv2d(6, 6, 16, 16, 3, shift=4)
    found, wanted = run(layer, config)
    np.testing.assert_array_equal(found, np.maximum(wanted, -127))
    plain, clipped = (simulate(conv2d(layer, c), c).spent["compute"]["alu"] for c in (VTA, config))
    assert (plain, clipped) == (3 * 36, 2 * 36)


def test_the_whole_network_is_below_the_best_published_cycles() -> None:
    """The fewest cycles that an array of 256 products can have, and the sum of the layers as they are timed."""
    floor = sum(RESNET18[name].macs * TIMES[name] for name in RESNET18) / 256
    assert round(floor / 1e6, 2) == 6.62
    total = 0
    for name in RESNET18:
        if TIMES[name]:
            total += TIMES[name] * simulate(conv2d(RESNET18[name], VTA), VTA, verified=True).cycles
    assert floor < total < 7.73e6


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        (Conv2d(8, 8, 20, 16, 3), "wanted a batch of 1 and multiples of 16 and 16 channels"),
        (Conv2d(8, 2000, 16, 16, 3), "not even one row of output fits half of vta's scratchpads"),
    ],
)
def test_layers_that_do_not_fit(layer: Conv2d, words: str) -> None:
    with pytest.raises(InputError, match=words):
        best_tile(layer, VTA)


# --- streams --------------------------------------------------------------------------------------------------------


def test_waiting_becomes_as_few_tokens_as_it_takes() -> None:
    s = Stream(VTA, "few")
    x, y = s.buffer("x", "input", Scratchpad.INP, 8), s.buffer("y", "output", Scratchpad.OUT, 8)
    kernel = s.micro_ops([MicroOp(0, 0)])
    assert s.micro_ops([MicroOp(0, 0)]) == kernel, "equal micro-ops are kept once"
    first = s.load(Scratchpad.INP, 0, x)
    second = s.load(Scratchpad.INP, 1, x)
    gemm = s.gemm(kernel, reset=True, after=[first, second])
    s.gemm(kernel, reset=True, after=[first])  # known already
    s.alu(AluOp.ADD, kernel, immediate=1, after=[gemm])  # the same module
    s.store(0, y, after=[gemm])
    pushes = [one.pushes for one in s.program().instructions]
    load, compute, store = Module.LOAD, Module.COMPUTE, Module.STORE
    assert pushes == [(), (), ((load, compute),), ((compute, store),), (), (), ((store, compute),), ()]


def test_what_a_stream_cannot_do() -> None:
    s = Stream(VTA, "bad")
    x, y = s.buffer("x", "input", Scratchpad.INP, 8), s.buffer("y", "output", Scratchpad.OUT, 8)
    stored = s.store(0, y)
    with pytest.raises(InputError, match="load cannot wait for store: they are not neighbours"):
        s.load(Scratchpad.INP, 0, x, after=[stored])
    with pytest.raises(InputError, match="8193 micro-ops; there is room for 8192"):
        s.micro_ops([MicroOp(0, 0)] * 8193)
    with pytest.raises(InputError, match="one context or two, found 3"):
        conv2d(RESNET18["C8"], VTA, contexts=3)
    assert x.address % 64 == y.address % 64 == 0
