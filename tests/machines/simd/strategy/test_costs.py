"""Costs are finite, positive, and larger for more work, fewer registers and slower memory."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minitvm
from minitvm import strategy, te, topi
from minitvm.expr import SizeVar
from minitvm.graph import GraphBuilder
from minitvm.machines.simd.strategy.conv2d import DirectConvolution, conv_tiles, weighted_loads
from minitvm.machines.simd.strategy.model import step_cycles
from minitvm.machines.simd.strategy.panels import PanelPlan, contraction_cost, displaced
from minitvm.machines.simd.strategy.register_tile import chain_cycles
from minitvm.machines.simd.strategy.tiling import RegisterTile, cpu_of, register_tiles
from minitvm.machines.simd.strategy.winograd_plan import WinogradPlan, WinogradShape, winograd_cost
from minitvm.strategy import Cost
from minitvm.strategy.roles import Product
from minitvm.target import Target
from minitvm.target.machines import Cache

QUICK = settings(max_examples=100, derandomize=True, deadline=None)
TARGET = Target("cpu -vector_bits=256 -vector_registers=16 -cores=2")
CPU = cpu_of(TARGET)
extents = st.integers(1, 200)


def positive(cost: Cost) -> bool:
    return math.isfinite(cost.cycles) and cost.compute > 0 and cost.memory >= 0


@given(
    lines=extents, width=extents, blocks=extents, depth=extents, tile=st.tuples(st.integers(1, 40), st.integers(1, 9))
)
@QUICK
def test_a_larger_direct_convolution_costs_more(
    lines: int, width: int, blocks: int, depth: int, tile: tuple[int, int]
) -> None:
    cost = DirectConvolution(lines, width, blocks, depth, 4 * depth * blocks).cost(CPU, *tile)
    more_lines = DirectConvolution(lines + 1, width, blocks, depth, 4 * depth * blocks).cost(CPU, *tile)
    more_depth = DirectConvolution(lines, width, blocks, depth + 1, 4 * (depth + 1) * blocks).cost(CPU, *tile)
    assert positive(cost) and cost.cycles < more_lines.cycles and cost.cycles < more_depth.cycles


@given(width=extents, blocks=extents, pixels=st.integers(1, 40), some=st.integers(1, 9))
@QUICK
def test_the_best_tile_is_not_worse_than_any_other(width: int, blocks: int, pixels: int, some: int) -> None:
    _, best = conv_tiles(width, blocks, CPU)[0]
    if blocks % some == 0 and pixels <= width:
        assert best <= weighted_loads(width, pixels, some, CPU)


@given(results=st.integers(1, 60), kept=st.integers(1, 30))
@QUICK
def test_fewer_registers_never_pay(results: int, kept: int) -> None:
    assert chain_cycles(results, kept, CPU) >= chain_cycles(results, kept + 1, CPU) >= 1 / CPU.fma_ports


@given(
    shape=st.tuples(extents, extents, extents, st.integers(1, 5)), rows=st.integers(1, 16), vectors=st.integers(1, 16),
    pack=st.booleans(), task_rows=extents, is_open=st.booleans(),
)  # fmt: skip
@QUICK
def test_a_larger_contraction_costs_more(
    shape: tuple[int, int, int, int], rows: int, vectors: int, pack: bool, task_rows: int, is_open: bool
) -> None:
    m, n, depth, outside = shape
    plan = PanelPlan(RegisterTile(rows, vectors, 8), task_rows)

    def cost(m: int, n: int, depth: int, outside: int) -> Cost:
        return contraction_cost(Product(m, n, depth, outside, is_open), plan, pack, 4, CPU)

    some = cost(m, n, depth, outside)
    assert positive(some)
    assert some.cycles < cost(m, n, depth + 1, outside).cycles and some.cycles < cost(m, n, depth, outside + 1).cycles
    apart = Product(m, n, depth, outside, is_open, contiguous=False)
    assert not pack or some.cycles < contraction_cost(apart, plan, pack, 4, CPU).cycles


@given(rows=st.integers(1, 400), lines=st.integers(1, 4), pitch=st.integers(1, 200), ways=st.sampled_from((2, 4, 8)))
@QUICK
def test_rows_that_displace_one_another_are_those_of_a_cache(rows: int, lines: int, pitch: int, ways: int) -> None:
    """A cache of 64 sets, of which the line used longest ago goes: which lines are there when rows are read again?"""
    line, sets = 64, 64
    lost = displaced(rows, lines * line, pitch * line, Cache(sets * ways * line, ways, line))
    read = [row * pitch + place for row in range(rows) for place in range(min(lines, pitch))]
    held: list[list[int]] = [[] for _ in range(sets)]
    missing = 0
    for number, address in enumerate((*read, *read)):
        own = held[address % sets]
        missing += number >= len(read) and address not in own
        held[address % sets] = [*(a for a in own if a != address), address][-ways:]
    if lost == 0:
        assert missing == 0
    if lost == 1 and lines <= pitch:
        assert missing > 0 or rows * lines == ways * len({address % sets for address in read})


def test_a_product_whose_rows_displace_one_another_is_packed() -> None:
    """Rows of 2 KB begin at 64 places of a way of 128 KB; rows of 2,000 bytes at all of them."""
    machine = Target("cpu -vector_bits=512 -vector_registers=32 -l2=2097152:16:64:1")
    for n, packed in ((512, True), (500, False)):
        a, b = te.placeholder((64, 2048), name="a"), te.placeholder((2048, n), name="b")
        func = te.create_prim_func([a, b, topi.matmul(a, b)])
        taken = min(strategy.candidates(func, machine), key=lambda candidate: candidate.cost.cycles)
        assert taken.knobs["pack"] is packed, taken.knobs


@given(rows=st.integers(1, 16), vectors=st.integers(1, 16), loads=st.sampled_from((1.0, 1.25, 1.5)))
@QUICK
def test_a_step_waits_for_its_multiply_adds_its_loads_and_its_prefetches(rows: int, vectors: int, loads: float) -> None:
    few = dataclasses.replace(CPU, l1_rate=int(loads * CPU.vector_bytes))
    assert step_cycles(rows, vectors, few) == max(rows * vectors / 2, 4, (rows + vectors) / loads)
    assert step_cycles(rows, vectors, few, streams=True) == max(rows * vectors / 2, 4, (rows + 2 * vectors) / loads)
    assert step_cycles(rows, vectors, few) >= step_cycles(rows, vectors, CPU)


def test_a_machine_with_fewer_loads_gets_tiles_of_more_vectors() -> None:
    """10 rows by 2 vectors: 10 cycles of multiply-adds, and 14 loads and prefetches, which take 11.2."""
    wide = Target("cpu -vector_bits=512 -vector_registers=32 -l1_rate=128")
    narrow = Target("cpu -vector_bits=512 -vector_registers=32 -l1_rate=80")
    usual, other = (register_tiles(100, 688, "float32", machine, streams=True)[0][0] for machine in (wide, narrow))
    loads = [(tile.rows + 2 * tile.vectors) / (tile.rows * tile.vectors) for tile in (usual, other)]
    assert loads[0] >= loads[1] and loads[1] / 1.25 <= 0.5


RATES = ("l2_rate", "l3_rate", "memory_rate")
FUNCTIONS = {
    "elementwise": lambda x: topi.exp(x("x", (512, 4096))),
    "sum": lambda x: topi.sum(x("x", (512, 4096)), axis=(1,)),
    "matvec": lambda x: topi.matmul(x("a", (4096, 2048)), x("b", (2048, 1))),
    "matmul": lambda x: topi.matmul(x("a", (200, 3000)), x("b", (3000, 500))),
    "softmax": lambda x: topi.softmax(x("x", (512, 4096))),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@given(slower=st.fixed_dictionaries({rate: st.floats(1, 50) for rate in RATES}))
@settings(max_examples=20, derandomize=True, deadline=None)
def test_a_machine_whose_caches_are_slower_takes_no_less_time(name: str, slower: dict[str, float]) -> None:
    placed = []

    def placeholder(name: str, shape: tuple[int, ...]) -> te.Tensor:
        placed.append(te.placeholder(shape, name=name))
        return placed[-1]

    result = FUNCTIONS[name](placeholder)
    func = te.create_prim_func([*placed, result])
    rates = {rate: getattr(CPU, rate) / times for rate, times in slower.items()}
    other = Target(TARGET.export() | rates)
    costs = [min(one.cost.cycles for one in strategy.candidates(func, target)) for target in (TARGET, other)]
    assert costs[0] <= costs[1]
    slowest = Target(TARGET.export() | dict.fromkeys(RATES, 0.01))
    assert costs[0] < min(one.cost.cycles for one in strategy.candidates(func, slowest))


@given(
    image=st.tuples(st.integers(1, 30), st.integers(1, 30)), channels=extents, blocks=st.integers(1, 40),
    rows=st.integers(1, 30), pixels=st.integers(1, 30), apart=st.booleans(),
)  # fmt: skip
@QUICK
def test_more_channels_cost_more_in_winograd(
    image: tuple[int, int], channels: int, blocks: int, rows: int, pixels: int, apart: bool
) -> None:
    plan = WinogradPlan(rows, pixels, 1, apart)
    few, many = (
        winograd_cost(WinogradShape(4, 1, image, count, blocks, 8), plan, CPU) for count in (channels, channels + 8)
    )
    assert positive(few) and few.cycles < many.cycles


def test_scalars_and_single_sums_never_look_cheaper() -> None:
    x = te.placeholder((64, 300), name="x")
    func = te.create_prim_func([x, topi.softmax(topi.relu(x))])
    for rule, changed in (("rows", {"vector_bytes", "sums"}), ("generic", {"vector_bytes", "inline", "tasks", "sums"})):
        usual, *others = [one for one in strategy.candidates(func, TARGET) if one.rule == rule]
        assert changed <= {
            name for other in others for name, value in other.knobs.items() if usual.knobs[name] != value
        }
        assert all(other.cost.cycles > usual.cost.cycles for other in others)


def test_sums_and_factors_of_costs() -> None:
    assert Cost(1.0, 2.0) + Cost(3.0) == Cost(4.0, 2.0) == Cost(2.0, 1.0) * 2
    assert Cost(1.5, 2.0).cycles == 3.5


def test_a_narrow_image_of_blocks_that_nothing_divides_is_tiled_over_its_lines() -> None:
    cpu = cpu_of(Target("cpu -vector_bits=512 -vector_registers=32 -cores=2"))
    narrow = DirectConvolution(6, 5, 13, 720, 4 * 720 * 13 * 16)
    tile = next(tile for tile in narrow.tiles(cpu) if "lines" in tile)
    assert tile["blocks"] == 1 and tile["pixels"] == 5 and tile["lines"] > 1
    assert narrow.cost(cpu, **tile).cycles < 0.7 * narrow.cost(cpu, 5, 1).cycles
    assert narrow.tiles(cpu)[0]["blocks"] == 5, "or blocks are left over"
    assert "lines" not in DirectConvolution(56, 56, 4, 576, 4 * 576 * 64).tiles(cpu)[0]
    few = DirectConvolution(2, 8, 1, 64, 4 * 64 * 16)  # of two tasks a tile of both lines would leave one
    assert "lines" not in few.tiles(cpu)[0]


@given(blocks=extents, depth=extents)
@QUICK
def test_what_is_left_of_an_open_row_has_few_micro_kernels(blocks: int, depth: int) -> None:
    """One for each number of pixels: their code grows with the square of a tile's pixels, and so does the build."""
    tiles = DirectConvolution(8, 64, blocks, depth, 4 * depth, is_open=True).tiles(CPU)
    assert tiles and all(t["blocks"] * sum(range(1, t["pixels"] + 1)) <= 60 for t in tiles)


def test_the_source_of_an_open_convolution_is_small() -> None:
    b = GraphBuilder()
    x = b.input("x", (1, 32, SizeVar("h"), SizeVar("w")))
    graph = b.build(b.op("nn.relu", b.op("nn.conv2d", x, b.constant(np.ones((32, 32, 3, 3), "float32")), padding=1)))
    source = "".join(minitvm.lower(graph, TARGET, stop_at="source").values())
    assert 8 <= source.count("= fma(") <= 60
