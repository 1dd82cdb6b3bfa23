"""Schedules for GPUs: what is chosen differs as the targets do; tiles in shared storage are small, and wait seldom."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

import minitvm
from minitvm import reference, strategy, te, topi
from minitvm.errors import ScheduleError
from minitvm.expr import walk
from minitvm.machines.gpu.strategy.costs import APART, BANKS, gap
from minitvm.machines.simd.topi.blocked import conv2d_nchwc, depthwise_conv2d_nchwc
from minitvm.strategy import Candidate
from minitvm.strategy.candidate import reason
from minitvm.strategy.registry import chosen
from minitvm.target import Target
from minitvm.tir import Schedule
from minitvm.tir.nodes import Allocate, PrimFunc
from minitvm.tir.transform import lower
from tests.strategy.families import _depthwise, _plain_conv, _pool

QUICK = settings(derandomize=True, deadline=None, phases=[Phase.generate])
TARGETS = ("cuda -arch=sm_80", "opencl -device=amd", "opencl -device=mali")


def matmul(m: int, n: int, k: int, batch: tuple[int, ...] = (), **turned: bool) -> PrimFunc:
    a = te.placeholder((*batch, *((k, m) if turned.get("transpose_a") else (m, k))), name="a")
    b = te.placeholder((*batch, *((n, k) if turned.get("transpose_b") else (k, n))), name="b")
    return te.create_prim_func([a, b, topi.relu(topi.matmul(a, b, **turned))])


def convolution(channels: int, image: int, out: int, kernel: int, lanes: int = 4) -> PrimFunc:
    x = te.placeholder((1, channels // lanes, image, image, lanes), name="x")
    w = te.placeholder((out // lanes, channels // lanes, kernel, kernel, lanes, lanes), name="w")
    return te.create_prim_func([x, w, conv2d_nchwc(x, w, padding=kernel // 2)])


def knobs_of(func: PrimFunc, target: str) -> dict[str, Any]:
    taken = chosen(func, Target(target)).choice.taken
    assert taken is not None and taken.rule == "contraction"
    return dict(taken.knobs)


def shares(knobs: Mapping[str, Any]) -> bool:
    """Whether blocks fetch tiles; those of products of matrices always do."""
    return bool(knobs.get("shared", True))


def results_of_a_thread(knobs: Mapping[str, Any]) -> int:
    if "thread_rows" in knobs:
        return int(knobs["thread_rows"] * knobs["thread_columns"])
    return int(knobs["rows"] * knobs["vectors"] * knobs["lanes"])


def threads_of_a_block(knobs: Mapping[str, Any]) -> int:
    if "thread_rows" in knobs:
        return int(knobs["rows"] * knobs["columns"] // results_of_a_thread(knobs))
    return int(knobs["threads"])


def shared_candidate(func: PrimFunc, target: str, **knobs: Any) -> Candidate:
    """The cheapest candidate that shares tiles, with some decisions fixed."""
    every = [one for one in strategy.candidates(func, Target(target)) if one.rule == "contraction"]
    shared = [one for one in every if shares(one.knobs)]
    return next(one for one in shared if all(one.knobs.get(name) == value for name, value in knobs.items()))


OF_64 = {"rows": 32, "columns": 64, "depth": 8, "thread_rows": 4, "thread_columns": 8, "splits": 1}  # threads


def legal(candidates: Iterable[Candidate], func: PrimFunc, count: int) -> list[Schedule]:
    """The schedules of the first so many candidates that are not refused."""
    schedules: list[Schedule] = []
    for one in candidates:
        try:
            schedules.append(one.schedule(func))
        except ScheduleError:
            continue
        if len(schedules) == count:
            break
    return schedules


# -- targets


def test_a_large_product_shares_tiles_where_local_memory_helps() -> None:
    func = matmul(1024, 1024, 1024)
    for target in ("cuda -arch=sm_75", "cuda -arch=sm_90a", "opencl -device=amd", "opencl -device=intel"):
        assert shares(knobs_of(func, target)), target
    for target in ("opencl -device=mali", "opencl -device=adreno"):
        assert not shares(knobs_of(func, target)), target
    assert not shares(knobs_of(matmul(8, 64, 64), "cuda"))  # too little for what a block costs


@pytest.mark.parametrize("func", [matmul(1024, 1024, 1024), convolution(64, 56, 64, 3)], ids=["matmul", "conv2d"])
def test_targets_get_schedules_of_their_own(func: PrimFunc) -> None:
    devices = ("mali", "adreno", "amd", "intel")
    decided = {name: tuple(knobs_of(func, f"opencl -device={name}").values()) for name in devices}
    assert len(set(decided.values())) == len(decided), decided
    assert tuple(knobs_of(func, "cuda -arch=sm_80").values()) not in (decided["mali"], decided["intel"])
    loops = str(chosen(func, Target("opencl -device=pocl")).schedule.func)
    assert "blockIdx.x" in loops and "threadIdx" not in loops and 'scope="shared"' not in loops


def test_registers_and_lanes_of_a_target_decide_the_tile() -> None:
    func = matmul(1024, 1024, 1024)
    small = knobs_of(func, "opencl -device=intel")  # 64 registers a thread
    large = knobs_of(func, "opencl -device=amd")  # 256
    assert results_of_a_thread(small) < results_of_a_thread(large)
    every = strategy.candidates(func, Target("opencl -device=amd"))
    assert max(threads_of_a_block(one.knobs) for one in every) <= 256
    first = next(one for one in strategy.candidates(func, Target("opencl -vector_bits=64")) if "lanes" in one.knobs)
    assert first.knobs["lanes"] == 2


# -- tiles


def lowered(candidate: Candidate, func: PrimFunc, target: str) -> PrimFunc:
    kernel: PrimFunc = lower(candidate.schedule(func).func, Target(target), "main")["main_kernel_0"]
    return kernel


@pytest.mark.parametrize("stages", [1, 2])
def test_a_shared_tile_is_one_piece_of_the_sum_and_threads_wait_seldom(stages: int) -> None:
    func, target = matmul(64, 128, 64), "cuda -arch=sm_80"
    one = shared_candidate(func, target, stages=stages, **OF_64)
    kernel = lowered(one, func, target)
    sizes = {
        n.buffer.name: n.buffer.shape[0].value
        for n in walk(kernel)
        if isinstance(n, Allocate) and "shared" in n.buffer.scope
    }  # type: ignore[attr-defined]
    # 8 steps of 32 rows (lines of 36: no bank twice), and of 64 columns
    assert sizes == {"a_shared": stages * 8 * 36 - 4, "b_shared": stages * 8 * 64}
    (source,) = [k.source for k in minitvm.lower(one.schedule(func).func, target=target, stop_at="executable").kernels]
    assert source.count("cuda.syncthreads()") == 2
    inside = [line for line in source.splitlines() if "syncthreads" in line and line.startswith("        ")]
    assert len(inside) == (1 if stages == 2 else 2)  # of a piece; the first of two versions is filled in front
    assert all(re.match(r" {4}( {4})?cuda", line) for line in source.splitlines() if "syncthreads" in line)


def test_neighbouring_threads_store_to_banks_of_their_own() -> None:
    """What is turned around on the way: 8 neighbours along the sum by 4 rows are 32 threads, a warp, and 32 banks."""
    func, target = matmul(64, 128, 64), "cuda -arch=sm_80"
    one = shared_candidate(func, target, stages=1, **OF_64)
    (kernel,) = minitvm.lower(one.schedule(func).func, target=target, stop_at="executable").kernels
    line = next(text.strip() for text in kernel.source.splitlines() if text.strip().startswith("a_shared["))
    thread = re.search(r"\w*axis0_1\w*", line)
    assert thread is not None
    index = line[len("a_shared[") : line.index("] =")].replace("i32", "")
    names = set(re.findall(r"[a-z_]\w*", index)) - {thread[0]}
    banks = {eval(index, {**dict.fromkeys(names, 0), thread[0]: tx}) % 32 for tx in range(32)}
    assert len(banks) == 32


def test_padding_of_a_convolution_is_computed_where_it_is_fetched() -> None:
    func = convolution(16, 8, 16, 3)
    one = shared_candidate(func, "cuda", stages=1, splits=1)
    assert len(minitvm.lower(one.schedule(func).func, target="cuda", stop_at="executable").kernels) == 1


@pytest.mark.alike("fetch", "turned")
@pytest.mark.parametrize(
    ("fetch", "stages", "turned"), [("behind", 2, False), ("behind", 2, True), ("async", 3, False)]
)
def test_the_next_piece_is_fetched_behind_the_products_or_meanwhile(fetch: str, stages: int, turned: bool) -> None:
    """Padded along all axes; of the columns, a thread has two vectors, and fetches once for both."""
    func, target = matmul(40, 40, 20, transpose_b=turned), "cuda -arch=sm_80"
    tile = {"rows": 32, "columns": 32, "depth": 8, "thread_rows": 4, "thread_columns": 8, "splits": 1}
    schedule = shared_candidate(func, target, **tile, fetch=fetch, stages=stages).schedule(func)
    verdict = reference.check(func, schedule.func, modes=("exact", "shadow"))
    assert verdict, f"{verdict}\n{schedule.func.script()}"
    (kernel,) = minitvm.lower(schedule.func, target=target, stop_at="executable").kernels
    loop = kernel.source[kernel.source.index("    for ax") :]
    if fetch == "async":
        assert "async_copy" in loop and loop.index("async_copy") < loop.index("fma(")
        return
    order = [r"_shared_local_0 = ", r"fma\(", r"_shared_local_0$", r"cuda\.syncthreads"]  # fetched, used, stored
    places = [match.start() for text in order if (match := re.search(text, loop, re.MULTILINE))]
    assert len(places) == len(order) and places == sorted(places)
    assert "stack_f32" not in kernel.source  # all of it in registers


PRODUCTS = [
    lambda: matmul(20, 36, 12),
    lambda: matmul(9, 17, 11, transpose_a=True),
    lambda: matmul(16, 24, 20, transpose_b=True),
    lambda: matmul(8, 16, 8, batch=(2,)),
    lambda: convolution(8, 5, 8, 3),
]


@pytest.mark.parametrize("number", range(len(PRODUCTS)))
def test_shared_tiles_keep_the_meaning(number: int, rng: np.random.Generator) -> None:
    func = PRODUCTS[number]()
    every = [
        one
        for one in strategy.candidates(func, Target("cuda"))
        if one.rule == "contraction" and shares(one.knobs) and threads_of_a_block(one.knobs) <= 64
    ]
    one = every[int(rng.integers(len(every)))]
    verdict = reference.check(func, one.schedule(func).func, modes=["exact"])
    assert verdict.equal, f"{dict(one.knobs)}\n{verdict}"


def test_a_long_sum_of_few_results_is_computed_in_parts() -> None:
    few, many = convolution(256, 14, 256, 3), matmul(1024, 1024, 1024)
    first = next(one for one in strategy.candidates(few, Target("cuda -model=h100")))
    assert first.knobs["splits"] > 1  # 7 x 7 blocks of 32 threads for 132 multiprocessors
    assert next(one for one in strategy.candidates(many, Target("cuda -arch=sm_75"))).knobs["splits"] == 1


LONG_SUMS = [lambda: matmul(9, 17, 64, transpose_b=True), lambda: convolution(64, 3, 8, 1)]


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("number", range(len(LONG_SUMS)))
def test_sums_in_parts_keep_the_meaning(number: int, shared: bool, rng: np.random.Generator) -> None:
    func, target = LONG_SUMS[number](), Target("cuda -model=h100")
    every = [one for one in strategy.candidates(func, target) if one.knobs.get("splits", 1) == 2]
    small = [one for one in every if shares(one.knobs) is shared and threads_of_a_block(one.knobs) in (32, 64)]
    (schedule,) = legal([small[place] for place in rng.permutation(len(small))], func, 1)
    verdict = reference.check(func, schedule.func, modes=["exact"])
    assert verdict.equal, str(verdict)
    kernels = minitvm.lower(schedule.func, target=str(target), stop_at="executable").kernels
    assert len(kernels) >= 2  # the epilogue is computed by the one that adds up


@pytest.mark.full
@pytest.mark.parametrize("target", TARGETS)
def test_many_candidates_keep_the_meaning_or_are_refused(target: str) -> None:
    @given(data=st.data())
    @settings(QUICK, max_examples=15)
    def kept(data: Any) -> None:
        func = data.draw(st.sampled_from([*(make() for make in PRODUCTS)])) if data.draw(st.booleans()) else (
            data.draw(st.sampled_from([_plain_conv, _depthwise, _pool]))(data.draw)
        )  # fmt: skip
        candidates = strategy.candidates(func, Target(target))
        small = [one for one in candidates if int(one.knobs.get("threads", 1)) <= 64]
        assume(small)
        one = data.draw(st.sampled_from(small))
        try:
            schedule = one.schedule(func)
        except ScheduleError as error:
            assert reason(error)
            return
        verdict = reference.check(func, schedule.func, modes=["exact"])
        assert verdict.equal, f"{one.rule} {dict(one.knobs)}\n{verdict}"

    kept()


# -- windows


def pooled() -> PrimFunc:
    x = te.placeholder((1, 3, 9, 9), name="x")
    return te.create_prim_func([x, topi.max_pool2d(x, pool_size=3, strides=2, padding=1)])


def depthwise(blocked: bool = True) -> PrimFunc:
    if blocked:
        x, w = te.placeholder((1, 2, 6, 6, 4), name="x"), te.placeholder((2, 3, 3, 4), name="w")
        return te.create_prim_func([x, w, topi.relu(depthwise_conv2d_nchwc(x, w, padding=1))])
    x, w = te.placeholder((1, 3, 6, 8), name="x"), te.placeholder((3, 1, 3, 3), name="w")
    return te.create_prim_func([x, w, topi.relu(topi.conv2d(x, w, padding=1, groups=3))])


@pytest.mark.parametrize("make", [pooled, depthwise, lambda: depthwise(False)], ids=["pool", "blocked", "plain"])
def test_windows_are_one_kernel(make: Any) -> None:
    func = make()
    for target in ("cuda", "opencl -device=mali"):
        made = chosen(func, Target(target))
        assert made.rule == "windows" and not made.choice.refused
        assert reference.check(func, made.schedule.func, modes=["exact", "shadow"]).equal
        assert len(minitvm.lower(made.schedule.func, target=target, stop_at="executable").kernels) == 1


def test_the_next_line_begins_a_vector_of_banks_further() -> None:
    for line in range(1, 300):
        assert (line + gap(line, APART)) % BANKS == APART
        assert 0 <= gap(line, 3 * APART) < BANKS
        assert gap(line, APART - 1) == 0  # rows that are no whole vectors are read element by element


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("target", ["opencl", "cuda -arch=sm_80"])
def test_a_softmax_of_a_model_is_one_kernel_in_floats_of_every_width(dtype: str, target: str) -> None:
    from onnx import TensorProto, helper

    kind = getattr(TensorProto, {"float32": "FLOAT"}.get(dtype, dtype.upper()))
    values = [helper.make_tensor_value_info(name, kind, [8, 300]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Softmax", ["x"], ["y"], axis=-1)], "g", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    assert len(minitvm.lower(model, target=target, stop_at="executable").kernels) == 1
