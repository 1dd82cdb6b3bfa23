"""What `minitvm show --level schedule` says of a choice is what the kernels do."""

from __future__ import annotations

import numpy as np
import pytest

from minitvm import lower, te, topi
from minitvm.build import schedule_function
from minitvm.graph import Graph, GraphBuilder
from minitvm.strategy import Decision, decision
from minitvm.strategy.text import lines
from minitvm.target import Target, kinds
from minitvm.te import create_prim_func
from minitvm.tir.nodes import PrimFunc

CPU = Target("cpu -model=znver3 -ghz=4")


def decided(func: PrimFunc) -> Decision:
    return decision(schedule_function(func, CPU), CPU)


def convolution_layer(channels: int, size: int, kernel: int = 3) -> Graph:
    b = GraphBuilder("layer")
    x = b.input("x", (1, channels, size, size))
    w = b.constant(np.zeros((channels, channels, kernel, kernel), "float32"), "w")
    return b.build(b.op("nn.conv2d", x, w, padding=(kernel // 2, kernel // 2)))


def of_graph(graph: Graph, part: str, accuracy: str = "fast") -> Decision:
    funcs = lower(graph, target=CPU, stop_at="schedule", accuracy=accuracy)
    return decision(next(func for name, func in funcs.items() if part in name), CPU)


def test_every_algorithm_has_its_time_the_chosen_one_first() -> None:
    found = of_graph(convolution_layer(64, 56), "conv2d")
    assert found.rule == "winograd_conv2d_nchwc"
    assert found.algorithms[0].startswith("chosen: winograd F(4x4,3x3)")
    assert [a.split(" Mcycles")[0].rsplit(" ", 1)[0] for a in found.algorithms[1:]] == ["winograd F(2x2,3x3)", "direct"]
    told = lines(found, CPU)
    assert told[1].startswith("algorithm   winograd F(4x4,3x3) ") and " ms (" in told[1] and "error at most" in told[1]
    assert told[2].startswith("instead of") and told[3].startswith("instead of") and told[4].startswith("tile ")
    cycles = [float(a.split(" Mcycles")[0].rsplit(" ", 1)[1]) for a in found.algorithms]
    assert cycles == sorted(cycles)
    assert f"{cycles[0] * 1e6 / 4e9 * 1e3:.3g} ms" in told[1]


def test_without_winograd_there_is_one() -> None:
    found = of_graph(convolution_layer(64, 56), "conv2d", accuracy="strict")
    assert len(found.algorithms) == 1 and found.rule == "conv2d_nchwc"


def test_a_register_tile_is_counted_in_the_kernel() -> None:
    """The 1x1 convolution's tile on 16 registers: what the strategy chose is what the kernel holds."""
    from minitvm.strategy.cpu.conv2d import conv_tile

    (kernel,) = of_graph(convolution_layer(64, 56, 1), "conv2d").kernels
    pixels, blocks = conv_tile(56, 8, kinds.CPU(vector_registers=16))
    assert kernel.accumulators == pixels * blocks and kernel.lanes == 8
    assert kernel.step_operations == pixels * blocks and kernel.step_loads == pixels + blocks
    assert kernel.flops == 2 * 64 * 64 * 56 * 56


def test_tiles_that_were_weighed_are_told_the_best_first() -> None:
    from minitvm.strategy.cpu.conv2d import conv_tiles
    from minitvm.strategy.cpu.tiling import register_tiles

    told = lines(of_graph(convolution_layer(64, 56, 1), "conv2d"), CPU)
    (pixels, blocks), _ = conv_tiles(56, 8, kinds.CPU(vector_registers=16))[0]
    assert any(line.startswith(f"tile        {pixels} pixels x {blocks} channel blocks, ") for line in told)
    assert sum(line.startswith("instead of") and "pixels x" in line for line in told) == 3
    costs = [cost for _, cost in conv_tiles(56, 8, kinds.CPU(vector_registers=16))]
    assert costs == sorted(costs) and len(costs) > 10
    a, b = te.placeholder((128, 256), name="a"), te.placeholder((256, 64), name="b")
    tile, cycles = register_tiles(128, 64, "float32", CPU)[0]
    assert decided(create_prim_func([a, b, topi.matmul(a, b)])).tiles[0] == (
        f"tile of {tile.rows} rows x {tile.vectors} vectors of 8, {cycles:.4g} cycles a step of k"
    )


def test_footprints_shrink_inwards_and_begin_with_everything() -> None:
    a, b = te.placeholder((128, 256), name="a"), te.placeholder((256, 64), name="b")
    (kernel,) = decided(create_prim_func([a, b, topi.matmul(a, b)])).kernels
    sizes = [loop.nbytes for loop in kernel.loops]
    assert sizes == sorted(sizes, reverse=True) and len(sizes) >= 3
    assert kernel.loops[0].parallel
    assert kernel.nbytes == 4 * (128 * 256 + 256 * 64 + 128 * 64) and sizes[0] >= kernel.nbytes
    assert kernel.cycles == max(kernel.compute_cycles, kernel.memory_cycles)
    # 2 ports of 8 lanes, 92 % of which a micro-kernel reaches
    assert kernel.compute_cycles == pytest.approx(128 * 64 * 256 / 16 / 0.92)


@pytest.mark.parametrize(("op", "rule"), [
    ("dense", "dense_packed"), ("depthwise", "depthwise_conv2d"), ("pool", "generic"), ("softmax", "generic"),
])  # fmt: skip
def test_every_kind_of_operator_is_told_about(op: str, rule: str) -> None:
    b = GraphBuilder("layer")
    if op == "dense":
        x = b.input("x", (4, 64))
        made = b.op("nn.dense", x, b.constant(np.zeros((32, 64), "float32"), "w"))
    elif op == "softmax":
        made = b.op("nn.softmax", b.input("x", (4, 64)), axis=-1)
    else:
        x = b.input("x", (1, 16, 20, 20))
        weight = b.constant(np.zeros((16, 1, 3, 3), "float32"), "w")
        made = b.op("nn.conv2d", x, weight, groups=16, padding=(1, 1))
        if op == "pool":
            made = b.op("nn.max_pool2d", made, pool_size=(2, 2), strides=(2, 2))
    found = of_graph(b.build(made), op)
    assert found.rule.startswith(rule) and found.cycles > 0
    told = "\n".join(lines(found, CPU))
    for label in ("rule ", "predicted ", "work ", "caches "):
        assert label in told


def test_open_dimensions_leave_figures_out() -> None:
    n = te.var("n")
    x = te.placeholder((n, 64), name="x")
    found = decided(create_prim_func([x, topi.relu(x)]))
    assert any(not kernel.exact for kernel in found.kernels)
    assert "at most" in "\n".join(lines(found, CPU))


def test_a_rule_that_none_is_says_so() -> None:
    x = te.placeholder((8,), name="x")
    func = create_prim_func([x, topi.relu(x)])
    assert lines(decision(func, CPU), CPU)[0] == "rule        none: the loops as written"
