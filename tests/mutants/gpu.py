"""Workloads of schedules for GPUs: tiles in shared storage, held against the interpreter and their own size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitvm import reference, strategy, te, topi
from minitvm.arith import Analyzer
from minitvm.errors import ScheduleError, Unsupported
from minitvm.expr import IntImm, Range, Var, find
from minitvm.machines.cuda.codegen.numba_cuda import generate
from minitvm.machines.cuda.runtime import simulated_warps
from minitvm.machines.cuda.runtime.faults import KernelFault
from minitvm.machines.gpu.strategy.algorithms import convolution_algorithms
from minitvm.machines.gpu.strategy.costs import BlockTile, ThreadTile, residents
from minitvm.machines.gpu.strategy.implicit_gemm import Tile, fetches_of, tile_cost, tiles
from minitvm.machines.gpu.strategy.matrices import MatrixProduct, product_of_matrices
from minitvm.machines.simd.topi.blocked import conv2d_nchwc
from minitvm.machines.simd.topi.winograd import winograd_conv2d_nchwc
from minitvm.strategy.algorithms import Convolution
from minitvm.strategy.blocks import blocks_of, is_reduction
from minitvm.strategy.registry import chosen
from minitvm.target import Target
from minitvm.tir.analysis.bindings import reaches_every_point
from minitvm.tir.nodes import Allocate, PrimFunc
from minitvm.tir.transform import lower
from tests.machines.cuda.runtime.test_warps import lanes_of
from tests.machines.gpu.transform.test_shrink_shared import (
    cut_off,
    handed_on,
    pieces,
    shape_of_shared,
    shrink_shared,
)
from tests.runtime.grids_along import along
from tests.tir.transform.test_separate_allocations import blocks_with_scratch


def _product(m: int, n: int, k: int) -> PrimFunc:
    a, b = te.placeholder((m, k), name="a"), te.placeholder((k, n), name="b")
    return te.create_prim_func([a, b, topi.matmul(a, b)])


def _tiles(m: int, n: int, k: int, **wanted: Any) -> str:
    func = _product(m, n, k)
    every = [one for one in strategy.candidates(func, Target("cuda -model=h100")) if "thread_rows" in one.knobs]
    wanted = {"rows": 16, "columns": 16, "thread_rows": 2, "thread_columns": 4, "depth": 8, **wanted}
    small = [one for one in every if all(one.knobs[name] == value for name, value in wanted.items())]
    assert small
    try:
        schedule = small[0].schedule(func)
    except ScheduleError as error:
        raise AssertionError(str(error)) from error
    verdict = reference.check(func, schedule.func, modes=["exact"])
    assert verdict.equal, str(verdict)
    text = str(schedule.func)
    assert '"shared"' in text and text.count("blockIdx.x") == min(2, wanted["splits"]), text
    return text


def even() -> None:
    _tiles(16, 32, 16, stages=1, splits=1)


def uneven_and_double() -> None:
    _tiles(9, 17, 20, stages=2, splits=1)


def fetched_behind() -> None:
    """Two vectors of a thread, for which it fetches once; what it fetches waits in storage of its own."""
    text = _tiles(20, 40, 20, rows=32, columns=32, thread_rows=4, thread_columns=8, fetch="behind", stages=2, splits=1)
    assert text.count('scope="local"') == 3 and text.count("threadIdx.x") == 1 and "vthread" not in text


def joined_in_parts() -> None:
    """The parts of a sum are added up, of a convolution whose pixels are the rows of a matrix."""
    _tiles(9, 17, 64, stages=1, splits=2)
    x, w = te.placeholder((1, 2, 5, 5, 4), name="x"), te.placeholder((4, 2, 3, 3, 4, 4), name="w")
    func = te.create_prim_func([x, w, conv2d_nchwc(x, w, padding=1)])
    (block,) = [block for block in blocks_of(func) if is_reduction(block)]
    product = product_of_matrices(block)
    assert product is not None and (product.m, product.n, product.k, product.count) == (25, 16, 72, 1)
    assert fetches_of(product) == (4, 4)


def tiles_cost_what_they_take() -> None:
    """Large tiles of large products; parts where results are few, added up at a price; several warps in a block."""
    target = Target("cuda -model=h100")
    square, long, large = _matrices(1024, 1024, 1024), _matrices(64, 128, 512), _matrices(4096, 4096, 4096)

    def cost(product: MatrixProduct, *tile: int) -> float:
        return tile_cost(product, Tile(*tile), (1, 4), target).cycles

    assert 1.5 * cost(square, 128, 128, 16, 8, 8, 4, 2) < cost(square, 32, 32, 16, 8, 8, 4, 2)
    assert cost(square, 128, 128, 16, 8, 8, 4, 2) < cost(square, 128, 128, 16, 8, 8, 1, 2)
    assert cost(large, 128, 128, 16, 8, 8, 2, 2) - cost(large, 128, 128, 16, 8, 8, 1, 2) > 30_000
    assert cost(long, 32, 64, 8, 4, 8, 1, 1) < cost(long, 32, 64, 8, 8, 8, 1, 1)
    assert all(long.k > tile.depth * tile.splits for tile in tiles(long, (1, 4), target) if tile.stages > 1)
    short = _matrices(64, 128, 16)
    assert all(tile.stages == 1 or tile.depth < 16 for tile in tiles(short, (1, 4), target))


def _matrices(m: int, n: int, k: int) -> MatrixProduct:
    (block,) = [block for block in blocks_of(_product(m, n, k)) if is_reduction(block)]
    product = product_of_matrices(block)
    assert product is not None
    return product


def in_parts() -> None:
    """A long sum of few results is computed in parts, as many as there is room for, and a short one is not."""
    target = Target("cuda -model=h100")
    for k, least, most in ((4096, 8, 32), (64, 1, 2)):
        every = strategy.candidates(_product(32, 64, k), target)
        assert least <= next(one for one in every if "row" in one.knobs).knobs["splits"] <= most
    func = _product(4, 8, 64)
    every = [one for one in strategy.candidates(func, target) if one.rule == "contraction"]
    one = next(one for one in every if one.knobs["splits"] == 2 and one.knobs.get("shared") is False)
    try:
        schedule = one.schedule(func)
    except ScheduleError as error:
        raise AssertionError(str(error)) from error
    verdict = reference.check(func, schedule.func, modes=["exact"])
    assert verdict.equal, str(verdict)
    launched = str(schedule.func)
    assert launched.count("blockIdx.x") == 2, "parts, and what adds them up"


def rows_are_held_in_registers() -> None:
    """Of whole vectors of all threads, and few of them; a block then shares what it has one of, and no row."""
    target = Target("cuda -model=h100")
    x, weight, bias = (
        te.placeholder(shape, name=name) for name, shape in (("x", (3, 256)), ("w", (256,)), ("b", (256,)))
    )
    norm = te.create_prim_func([x, weight, bias, topi.layer_norm(x, weight, bias)])
    for func in (te.create_prim_func([x, topi.softmax(x, axis=-1)]), norm):
        held = [one for one in strategy.candidates(func, target) if one.knobs.get("held")]
        assert [one.knobs["threads"] for one in held] == [32, 64] and strategy.candidates(func, target)[0].knobs["held"]
        try:
            schedule = held[0].schedule(func)
        except ScheduleError as error:
            raise AssertionError(str(error)) from error
        verdict = reference.check(func, schedule.func, modes=["exact"])
        assert verdict.equal and str(schedule.func).count("T.reads(x[") == 1, str(verdict)
        (kernel,) = [f for name, f in lower(schedule.func, target, "main").items() if name != "main"]
        storage = [(n.buffer.scope, int(n.buffer.shape[0])) for n in find(kernel.body, Allocate)]  # type: ignore[call-overload]
        assert ("local", 8) in storage and all(size in (1, 8) for _, size in storage), storage
        assert all(size == 1 for scope, size in storage if scope == "shared")
    for length in (252, 8192):  # no whole vectors; too many for registers
        long = te.placeholder((3, length), name="x")
        every = strategy.candidates(te.create_prim_func([long, topi.softmax(long, axis=-1)]), target)
        assert {one.knobs["threads"] for one in every if one.knobs.get("held")} == (
            {256, 512, 1024} if length > 256 else set()
        )


def transformed() -> None:
    """Winograd's algorithm is three kernels, which keep the meaning; it is chosen where that pays and is allowed."""
    x, w = te.placeholder((1, 2, 3, 3, 4), name="x"), te.placeholder((1, 4, 4, 2, 4, 2, 4), name="w")
    func = te.create_prim_func([x, w, winograd_conv2d_nchwc(x, w, tile=2, padding=1)])
    target = Target("cuda -model=h100")
    every = [one for one in strategy.candidates(func, target) if one.rule == "winograd" and "row" in one.knobs]
    wanted = {"shared": True, "double": False, "row": "v_p", "threads": 32}
    one = next(one for one in every if all(one.knobs[name] == value for name, value in wanted.items()))
    try:
        schedule = one.schedule(func)
    except ScheduleError as error:
        raise AssertionError(str(error)) from error
    verdict = reference.check(func, schedule.func, modes=["exact"])
    assert verdict.equal, str(verdict)
    assert len([name for name in lower(schedule.func, target, "main").functions if "kernel" in name]) == 3

    def first(channels: int, dilation: int = 1, accuracy: str = "fast") -> str:
        conv = Convolution(1, channels, channels, (7, 7), (3, 3), (1, 1), (dilation, dilation))
        return convolution_algorithms(conv, 4, target, accuracy)[0].rule

    assert [first(512), first(4), first(512, accuracy="strict")] == ["winograd", "direct", "direct"]
    assert first(512, dilation=2) == "direct"


def shrunk() -> None:
    assert shape_of_shared(shrink_shared(pieces)) == (8,)
    assert shape_of_shared(shrink_shared(cut_off)) == (16,)
    assert shape_of_shared(shrink_shared(handed_on)) == (40,)


def chosen_where_it_helps() -> None:
    func = _product(1024, 1024, 1024)
    for target, shares in (("cuda -arch=sm_80", True), ("opencl -device=amd", True), ("opencl -device=adreno", False)):
        first = next(one for one in strategy.candidates(func, Target(target)) if one.rule == "contraction")
        assert first.knobs.get("shared", True) is shares, target
    assert residents(ThreadTile(8, 2, 4), BlockTile(16, 32, 16, 384, True), Target("cuda -arch=sm_80")) == 1
    assert residents(ThreadTile(1, 1, 4), BlockTile(8, 8, 16, 1024, False), Target("cuda -arch=sm_75")) == 1


def open_extents_have_a_grid() -> None:
    m, n, k = (te.size_var(name) for name in "mnk")
    a, b = te.placeholder((1, m, k), name="a"), te.placeholder((1, k, n), name="b")
    func = te.create_prim_func([a, b, topi.matmul(a, b)])
    made = chosen(func, Target("cuda -arch=sm_80"))
    assert made.rule == "contraction", [one.refused for one in made.choice.refused]
    assert {"blockIdx.x", "blockIdx.y", "blockIdx.z"} <= set(str(made.schedule.func).split('"'))


def axes_are_limited() -> None:
    for axis, most in (("blockIdx.y", 65535), ("threadIdx.z", 64)):
        generate(along(axis, most), Target("cuda"))
        try:
            generate(along(axis, most + 1), Target("cuda"))
        except Unsupported:
            continue
        raise AssertionError(f"{most + 1} iterations along {axis}")


def chosen_tiles_fit() -> None:
    """The lines of a tile that is turned around are longer; the tile of a convolution is one piece of the sum."""
    x, w = te.placeholder((1, 16, 56, 56, 4), name="x"), te.placeholder((16, 16, 3, 3, 4, 4), name="w")
    convolution = te.create_prim_func([x, w, conv2d_nchwc(x, w, padding=1)])
    target = Target("cuda -arch=sm_90")
    for func in (_product(1024, 1024, 1024), convolution):
        made = chosen(func, target)
        assert not made.choice.refused, [one.refused for one in made.choice.refused]
        for name, kernel in lower(made.schedule.func, target).items():
            if kernel.attrs.get("host"):
                continue
            try:
                generate(kernel, target)
            except Unsupported as error:
                raise AssertionError(f"{name}: {error}") from error


def owners_do_not_meet() -> None:
    for scope in ("shared", "local"):
        func = blocks_with_scratch("n", scope)
        verdict = reference.check(func, lower(func), modes=["exact", "shadow"])
        assert verdict.equal, str(verdict)


def all_parts_are_reached() -> None:
    a, b, c = (Var(name, "int32") for name in "abc")
    fused = a * 256 + b * 4 + c
    domains = {v: Range(IntImm(0), IntImm(n)) for v, n in ((a, 3), (b, 64), (c, 4))}
    assert reaches_every_point([fused // 64 % 4, fused // 4 % 16], domains, Analyzer())


def lanes_meet() -> None:
    for name, source in (
        ("warp_shuffle_down", lambda t: t + 3 if t % 8 < 5 else t),
        ("warp_shuffle_xor", lambda t: t ^ 3),
    ):
        assert lanes_of(f"B[t] = {name}({simulated_warps.WHOLE}, A[t], 3, 8)", 64) == [source(t) for t in range(64)]
    odd, even = (f"B[t] = warp_shuffle({mask}, A[t], {by}, 32)" for mask, by in (("0xAAAAAAAA", 5), ("0x55555555", 8)))
    parted = f"if t % 2:\n    {odd}\nelse:\n    {even}"
    assert lanes_of(parted) == [8, 5] * 16
    try:
        lanes_of("if t < 8:\n    B[t] = warp_shuffle_down(0xFF, A[t], 1, 32)")
    except KernelFault as fault:
        assert "does not take part" in str(fault)
    else:
        raise AssertionError("a value from a lane that does not take part")


CHECKS: tuple[Callable[[], None], ...] = (
    rows_are_held_in_registers,
    axes_are_limited, shrunk, chosen_where_it_helps, even, uneven_and_double, owners_do_not_meet,
    open_extents_have_a_grid,
    all_parts_are_reached, chosen_tiles_fit, in_parts, transformed, joined_in_parts, tiles_cost_what_they_take,
    fetched_behind,
)  # fmt: skip
LANES: tuple[Callable[[], None], ...] = (lanes_meet,)
