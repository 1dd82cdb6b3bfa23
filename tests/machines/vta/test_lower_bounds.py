"""What no program can beat, and how near compiled programs come."""

from __future__ import annotations

import pytest

from minitvm.machines.vta.layers import RESNET18, Conv2d
from minitvm.machines.vta.lower_bounds import beside_a_processor, bound
from minitvm.machines.vta.timing import simulate
from minitvm.tools.cli.accel_layers import compiled, machine

VTA = machine("vta", "tsim")


def test_a_bound_by_hand() -> None:
    """2 x 2 results of one block: each takes 9 products of two blocks, and four micro-ops."""
    found = bound(Conv2d(2, 2, 32, 16, 3), VTA.config)
    assert (found.array, found.compute) == (4 * 18, 4 * 22)
    assert found.dram == (2 * 4 * 16 + 18 * 256 + 4 * 16) // 8
    assert (found.cycles, found.name) == (600, "DRAM")


def test_pixels_that_no_result_needs_are_not_read() -> None:
    assert bound(Conv2d(4, 4, 16, 16, 1, 2), VTA.config).dram == (4 * 16 + 256 + 4 * 16) // 8


def test_the_array_alone_is_no_bound_of_c2_and_c4() -> None:
    """Of 40 cycles of a result the array has 36: no program uses more than 0.9 of it, and the first load is before."""
    for name in ("C2", "C4"):
        found = bound(RESNET18[name], VTA.config)
        assert found.array * 10 == found.compute * 9


def test_a_compiled_layer_is_near_its_bound() -> None:
    cycles = simulate(compiled(RESNET18["C11"], VTA), VTA.config).cycles
    least = bound(RESNET18["C11"], VTA.config).cycles
    assert least <= cycles <= least / 0.94


@pytest.mark.full
@pytest.mark.parametrize("memory", ["tsim", "board"])
@pytest.mark.parametrize("name", list(RESNET18))
def test_every_compiled_layer_is_near_its_bound(name: str, memory: str) -> None:
    target = machine("vta", memory)
    cycles = simulate(compiled(RESNET18[name], target), target.config).cycles
    least = bound(RESNET18[name], target.config).cycles
    assert least <= cycles <= least / 0.9


def test_beside_the_processor_of_the_papers() -> None:
    """At the array's full rate of 102.4 GOP/s: 19.2 times the 5.3 GFLOP/s of two Cortex-A9."""
    config = machine("vdla", "tsim").config
    ideal = {name: bound(layer, config).array for name, layer in RESNET18.items()}
    text = beside_a_processor(ideal, RESNET18, config)
    assert "102.4 GOP/s at 200 MHz" in text and "at most 5.3 GFLOP/s: 19.2 times" in text
    assert "as 2.56 GFLOP/s, 48 % of that" in text
