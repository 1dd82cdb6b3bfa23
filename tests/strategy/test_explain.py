"""What `minitvm show --level schedule` says of a choice is what the kernels do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from minitvm import lower, strategy, te, topi
from minitvm.graph import Graph, GraphBuilder
from minitvm.lowering import schedule_function
from minitvm.machines.simd.strategy.conv2d import conv_tile
from minitvm.machines.simd.strategy.explain import explain
from minitvm.machines.simd.strategy.figures import KernelFigures, kernel_figures
from minitvm.strategy import Choice, choice_of
from minitvm.strategy.algorithms import algorithm_name
from minitvm.target import Target
from minitvm.target import machines as kinds
from minitvm.te import create_prim_func
from minitvm.tir.nodes import PrimFunc

CPU = Target("cpu -model=znver3 -ghz=4")


@dataclass(frozen=True)
class Explained:
    """All that is said about a scheduled function."""

    choice: Choice
    kernels: tuple[KernelFigures, ...]
    lines: list[str]


def explained(func: PrimFunc) -> Explained:
    return Explained(choice_of(func), kernel_figures(func, CPU), explain(func, CPU))


def decided(func: PrimFunc) -> Explained:
    return explained(schedule_function(func, CPU))


def convolution_layer(channels: int, size: int, kernel: int = 3) -> Graph:
    b = GraphBuilder("layer")
    x = b.input("x", (1, channels, size, size))
    w = b.constant(np.zeros((channels, channels, kernel, kernel), "float32"), "w")
    return b.build(b.op("nn.conv2d", x, w, padding=(kernel // 2, kernel // 2)))


def of_graph(graph: Graph, part: str, accuracy: str = "fast") -> Explained:
    funcs = lower(graph, target=CPU, stop_at="schedule", accuracy=accuracy)
    return explained(next(func for name, func in funcs.items() if part in name))


def test_every_algorithm_has_its_time_the_chosen_one_first() -> None:
    found = of_graph(convolution_layer(64, 56), "conv2d")
    assert found.choice.rule == "winograd_conv2d_nchwc"
    names = [algorithm_name(one) for one in found.choice.algorithms]
    assert names == ["winograd F(4x4,3x3)", "winograd F(2x2,3x3)", "direct"]
    told = found.lines
    assert told[1].startswith("algorithm   winograd F(4x4,3x3), error at most ") and " ms (" in told[1]
    assert told[2].startswith("instead of") and told[3].startswith("instead of") and told[4].startswith("taken ")
    cycles = [one.cost.cycles for one in found.choice.algorithms]
    assert cycles == sorted(cycles)
    assert f"{cycles[0] / 4e9 * 1e3:.3g} ms" in told[1]


def test_without_winograd_there_is_one() -> None:
    choice = of_graph(convolution_layer(64, 56), "conv2d", accuracy="strict").choice
    assert [one.rule for one in choice.algorithms] == ["direct"] and choice.rule == "conv2d_nchwc"


def test_a_register_tile_is_counted_in_the_kernel() -> None:
    """The 1x1 convolution's tile on 16 registers: what the strategy chose is what the kernel holds."""
    (kernel,) = of_graph(convolution_layer(64, 56, 1), "conv2d").kernels
    pixels, blocks = conv_tile(56, 8, kinds.CPU(vector_registers=16))
    assert kernel.accumulators == pixels * blocks and kernel.lanes == 8
    assert kernel.step_operations == pixels * blocks and kernel.step_loads == pixels + blocks
    assert kernel.flops == 2 * 64 * 64 * 56 * 56


def test_what_was_weighed_is_shown_the_taken_one_first() -> None:
    found = of_graph(convolution_layer(64, 56, 1), "conv2d")
    pixels, blocks = conv_tile(56, 8, kinds.CPU(vector_registers=16))
    knobs = found.choice.weighed[0].knobs
    assert (knobs["pixels"], knobs["blocks"], knobs["in_cache"]) == (pixels, blocks, True)
    cycles = [one.cost.cycles for one in found.choice.weighed]
    assert cycles == sorted(cycles) and found.choice.count > 10
    (taken,) = [line for line in found.lines if line.startswith("taken ")]
    assert taken.startswith(f"taken       pixels={pixels}, blocks={blocks}, in_cache=True, rows={knobs['rows']}: ")
    assert f"{cycles[0] / 4e9 * 1e3:.3g} ms ({cycles[0] / 1e6:.3g} million cycles, " in taken
    assert f"and {found.choice.count - 4} more" in "\n".join(found.lines)
    a, b = te.placeholder((128, 256), name="a"), te.placeholder((256, 64), name="b")
    func = create_prim_func([a, b, topi.matmul(a, b)])
    assert decided(func).choice.weighed[0].knobs == strategy.candidates(func, CPU)[0].knobs


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
    ("dense", "contraction"), ("depthwise", "window_rows"), ("pool", "window_rows"), ("softmax", "rows"),
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
    assert found.choice.rule.startswith(rule) and found.choice.weighed
    told = "\n".join(found.lines)
    for label in ("rule ", "taken ", "instead of ", "predicted ", "work ", "caches "):
        assert label in told


def test_a_rule_that_none_is_says_so() -> None:
    x = te.placeholder((8,), name="x")
    func = create_prim_func([x, topi.relu(x)])
    assert explain(func, CPU)[0] == "rule        none: the loops as written"


def test_open_sizes_are_explained_in_formulas() -> None:
    n = te.var("n")
    a, b = te.placeholder((n, 64), name="a"), te.placeholder((64, 128), name="b")
    found = decided(create_prim_func([a, b, topi.matmul(a, b)]))
    assert any(not kernel.exact for kernel in found.kernels)  # figures know nothing of n
    told = found.lines
    assert any(line.startswith("work        16384*n float operations, ") for line in told)
    assert any(line.startswith("cycles      max(") for line in told)
    assert any(line.startswith("ax1_0       8 times, touches ") for line in told)
    assert all(len(line) < 300 for line in told)
    assert not any(line.startswith("predicted") for line in told)
