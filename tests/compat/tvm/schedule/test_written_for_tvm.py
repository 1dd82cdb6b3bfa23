"""Steps of schedules that people write for TVM: each keeps the meaning, or is refused by its reason."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitvm import tir
from minitvm.compat.tvm.schedule.testing import verify_trace_roundtrip
from minitvm.errors import ScheduleError
from minitvm.reference import check
from minitvm.script import tir as T
from minitvm.tir.nodes import PrimFunc
from minitvm.tir.schedule import Schedule


def keeps_its_meaning(sch: Schedule, before: PrimFunc) -> None:
    assert check(before, sch.func), sch.trace
    verify_trace_roundtrip(sch, before)


# ---- caches and blocks that read what they write -------------------------------------------------------------------


def own_values(early: bool) -> PrimFunc:
    """A block that declares A as read, of which it has written every element before; or only where not `early`."""

    @T.prim_func
    def func(B: T.Buffer((8, 8), "int32"), C: T.Buffer((8, 8), "int32"), A: T.Buffer((8, 8), "int32")) -> None:
        for i0, j0 in T.grid(2, 2):
            with T.block("scope"):
                i, j = T.axis.remap("SS", [i0, j0])
                T.reads(A[i * 4 : i * 4 + 4, j * 4 : j * 4 + 4])
                T.writes(A[i * 4 : i * 4 + 4, j * 4 : j * 4 + 4], B[i * 4 : i * 4 + 4, j * 4 : j * 4 + 4])
                for x, y in T.grid(4, 4):
                    with T.block("A"):
                        vi, vj = T.axis.spatial(8, i * 4 + x), T.axis.spatial(8, j * 4 + y)
                        A[vi, vj] = A[vi, vj] * 2 if early else vi * 3 + vj
                for x, y in T.grid(4, 4):
                    with T.block("B"):
                        vi, vj = T.axis.spatial(8, i * 4 + x), T.axis.spatial(8, j * 4 + y)
                        B[vi, vj] = A[vi, vj] + 1
        for i, j in T.grid(8, 8):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi, vj] + B[vj, vi]

    return func


@pytest.mark.parametrize("call", ["cache_write", "cache_read"])
def test_a_block_that_reads_its_own_values_is_complete(call: str) -> None:
    func = own_values(early=False)
    sch = Schedule(func)
    getattr(sch, call)("scope", 0, "local")
    keeps_its_meaning(sch, func)


def test_a_block_that_updates_what_it_finds_is_not_complete() -> None:
    sch = Schedule(own_values(early=True))
    with pytest.raises(ScheduleError, match="block scope both reads and writes A"):
        sch.cache_write("scope", 0, "local")
    with pytest.raises(ScheduleError, match="at_most_one_writer"):
        sch.cache_read("scope", 0, "local")


@pytest.mark.parametrize("early", [False, True])
def test_a_copy_for_others_is_made_after_the_update(early: bool) -> None:
    func = own_values(early)
    sch = Schedule(func)
    sch.cache_read("C", 0, "local")
    keeps_its_meaning(sch, func)
    assert not any(r.buffer.name == "A_local" for r in sch.get("scope").reads)


@T.prim_func
def counts_on(A: T.Buffer((4, 8), "int32"), B: T.Buffer((4, 8), "int32")) -> None:
    for t in range(4):
        for i in range(8):
            with T.block("step"):
                vt, vi = T.axis.remap("SS", [t, i])
                A[vt, vi] = A[vt, vi] + vt
        for i in range(8):
            with T.block("B"):
                vt, vi = T.axis.remap("SS", [t, i])
                B[vt, vi] = A[vt, 7 - vi]


def test_a_copy_between_updates_in_one_loop() -> None:
    sch = Schedule(counts_on)
    sch.cache_read("B", 0, "local")
    keeps_its_meaning(sch, counts_on)
    assert sch.get_loops("A_local")[0] == sch.get_loops("step")[0]


# ---- consumers below loops of their producers ----------------------------------------------------------------------


def sums(rows: int, columns: int, value: str = "float32") -> PrimFunc:
    @T.prim_func
    def func(A: T.Buffer((rows, columns), value), D: T.Buffer((rows, columns), value)) -> None:
        C = T.alloc_buffer((rows,), value)
        for i, k in T.grid(rows, columns):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = T.Cast(value, 0)
                C[vi] = C[vi] + A[vi, vk]
        for i, j in T.grid(rows, columns):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = C[vi] - A[vi, vj]

    return func


@settings(max_examples=15)
@given(st.sampled_from([2, 4, 8]), st.sampled_from([0, 1]), st.booleans(), st.booleans())
def test_partial_results_are_combined_where_they_are_computed(
    factor: int, axis: int, threads: bool, inner: bool
) -> None:
    func = sums(4, 16, "int32")
    sch = Schedule(func)
    partial = sch.rfactor(sch.split(sch.get_loops("C")[1], [None, factor])[1], axis)
    i, outer, lane = sch.get_loops(partial)
    sch.reorder(i, lane, outer)
    if threads:
        sch.bind(i, "blockIdx.x")
        sch.bind(lane, "threadIdx.x")
    sch.reverse_compute_at("C", lane if inner else i)
    keeps_its_meaning(sch, func)
    # Below the lane each iteration adds one term; a consumer there would read a part of the sum.
    if inner:
        with pytest.raises(ScheduleError):
            sch.reverse_compute_at("D", lane)


@T.prim_func
def sums_of_overlaps(A: T.Buffer((10,), "int32"), C: T.Buffer((2,), "int32")) -> None:
    B = T.alloc_buffer((10,), "int32")
    for i in range(10):
        with T.block("B"):
            vi = T.axis.spatial(10, i)
            B[vi] = A[vi] * 2
    for j, k in T.grid(2, 5):
        with T.block("C"):
            vj, vk = T.axis.remap("SR", [j, k])
            with T.init():
                C[vj] = 0
            C[vj] = C[vj] + B[vj * 5 + vk]


def test_terms_are_added_once() -> None:
    sch = Schedule(sums_of_overlaps)
    sch.reverse_compute_at("C", sch.get_loops("B")[0])
    keeps_its_meaning(sch, sums_of_overlaps)


@T.prim_func
def windows(A: T.Buffer((8,), "int32"), C: T.Buffer((6,), "int32")) -> None:
    B = T.alloc_buffer((8,), "int32")
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * 2
    for j, k in T.grid(6, 3):
        with T.block("C"):
            vj, vk = T.axis.remap("SR", [j, k])
            with T.init():
                C[vj] = 0
            C[vj] = C[vj] + B[vj + vk]


def test_terms_that_need_several_iterations_stay_together() -> None:
    with pytest.raises(ScheduleError):
        sch = Schedule(windows)
        sch.reverse_compute_at("C", sch.get_loops("B")[0])


def pointwise(rows: int, columns: int) -> PrimFunc:
    @T.prim_func
    def func(A: T.Buffer((rows, columns), "int32"), C: T.Buffer((rows, columns), "int32")) -> None:
        B = T.alloc_buffer((rows, columns), "int32")
        for i, j in T.grid(rows, columns):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * 2
        for i, j in T.grid(rows, columns):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] + 1

    return func


@settings(max_examples=20)
@given(st.integers(1, 5), st.integers(2, 9), st.lists(st.integers(2, 6), min_size=1, max_size=2), st.integers(0, 2))
def test_parts_of_a_fused_loop(rows: int, columns: int, factors: list[int], place: int) -> None:
    """`f // n` and `f % n` of a loop that was cut, with a predicate where the cut leaves a rest."""
    func = pointwise(rows, columns)
    sch = Schedule(func)
    loops = sch.split(sch.fuse(*sch.get_loops("B")), [None, *factors])
    place = min(place, len(loops) - 1)
    try:
        sch.reverse_compute_at("C", loops[place])
    except ScheduleError:
        assert place < len(loops) - 1  # one element an iteration is always found
        return
    keeps_its_meaning(sch, func)


# ---- blocks that nothing reads, loops that run once ----------------------------------------------------------------


@T.prim_func
def with_dead_blocks(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")) -> None:
    B = T.alloc_buffer((8,), "int32")
    D = T.alloc_buffer((8,), "int32")
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] * 2
    for i in range(8):
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = B[vi] * 2
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = A[vi] + 1


@pytest.mark.parametrize("order", [("D", "B"), ("B", "D")])
def test_what_nothing_reads_is_removed(order: tuple[str, str]) -> None:
    sch = Schedule(with_dead_blocks)
    for name in order:
        sch.compute_inline(name)
    keeps_its_meaning(sch, with_dead_blocks)
    assert [b.block.name for b in sch.state.tree().blocks.values()] == ["root", "C"]
    assert tir.root_block(sch.func).alloc_buffers == ()


@pytest.mark.parametrize("axis", [0, 1])
def test_a_loop_of_one_iteration_is_factored(axis: int) -> None:
    func = sums(4, 6, "int32")
    sch = Schedule(func)
    loop = sch.split(sch.get_loops("C")[1], [None, 1], preserve_unit_iters=False)[1]
    partial = sch.rfactor(loop, axis)
    assert sorted(map(int, sch.get(partial).writes[0].buffer.shape)) == [1, 4]
    keeps_its_meaning(sch, func)


def test_a_scope_after_the_threads() -> None:
    """The result of a reduction over threads may move to storage that they share."""
    func = sums(4, 16)
    sch = Schedule(func)
    i, k = sch.get_loops("C")
    sch.bind(i, "blockIdx.x")
    sch.bind(sch.split(k, [None, 8])[1], "threadIdx.x")
    sch.reverse_compute_at("D", i)
    sch.set_scope("C", 0, "shared")
    keeps_its_meaning(sch, func)


# ---- sizes that are plain variables, and other variables in maps ---------------------------------------------------


@T.prim_func
def product(a: T.handle, b: T.handle, c: T.handle) -> None:
    n, k = T.int32(), T.int32()
    A = T.match_buffer(a, (n, k), "int32")
    B = T.match_buffer(b, (n, k), "int32")
    C = T.match_buffer(c, (n, n), "int32")
    for i, j, l in T.grid(n, n, k):
        with T.block("C"):
            vi, vj, vl = T.axis.remap("SSR", [i, j, l])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] = C[vi, vj] + A[vi, vl] * B[vj, vl]


@pytest.mark.parametrize("padding", [[4, 1, 1], [1, 1, 4], [4, 2, 8]])
def test_plain_variables_are_sizes_where_shapes_have_them(padding: list[int]) -> None:
    sch = Schedule(product)
    sch.pad_einsum("C", padding)
    keeps_its_meaning(sch, product)


def test_a_sum_over_a_scalar_may_have_no_terms() -> None:
    @T.prim_func
    def func(A: T.Buffer((7, 8), "int32"), C: T.Buffer((7,), "int32"), n: T.int32) -> None:
        for i, k in T.grid(7, n):
            with T.block("C"):
                vi, vk = T.axis.spatial(7, i), T.axis.reduce(n, k)
                T.where(k < 8)
                with T.init():
                    C[vi] = 0
                C[vi] = C[vi] + A[vi, vk]

    with pytest.raises(ScheduleError):
        Schedule(func).pad_einsum("C", [4, 1])


@T.prim_func
def chain(a: T.handle, c: T.handle, n: T.int32) -> None:
    A = T.match_buffer(a, (n, 8), "int32")
    C = T.match_buffer(c, (n, 8), "int32")
    B = T.alloc_buffer((n, 8), "int32")
    for i, j in T.grid(n, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2
    for i, j in T.grid(n, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, 7 - vj] + 1


@pytest.fixture
def kept_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Traces are not replayed at the end: a map over other variables than its indices has no text to read back."""
    monkeypatch.setattr("minitvm.tir.schedule.schedule.WATCHERS", [])


@pytest.mark.usefixtures("kept_in_memory")
@pytest.mark.parametrize("call", ["transform_layout", "transform_block_layout", "reindex_cache_read"])
def test_a_map_over_a_plain_size(call: str) -> None:
    sch = Schedule(chain)
    n: Any = chain.params[2]
    where: dict[str, tuple[Any, ...]] = {
        "transform_layout": ("B", ("write", 0)),
        "transform_block_layout": ("B",),
        "reindex_cache_read": ("C", 0, "local"),
    }
    getattr(sch, call)(*where[call], lambda i, j: (j * n + i,))
    assert check(chain, sch.func)


@T.prim_func
def rows(A: T.Buffer((4, 8), "int32"), C: T.Buffer((4, 8), "int32")) -> None:
    for i in range(4):
        with T.block("row"):
            vi = T.axis.spatial(4, i)
            T.reads(A[vi, 0:8])
            T.writes(C[vi, 0:8])
            B = T.alloc_buffer((8,), "int32")
            for j in range(8):
                with T.block("B"):
                    vj = T.axis.spatial(8, j)
                    B[vj] = A[vi, vj] * 2
            for j in range(8):
                with T.block("C"):
                    vj = T.axis.spatial(8, j)
                    C[vi, vj] = B[7 - vj] + 1


@pytest.mark.usefixtures("kept_in_memory")
def test_a_map_over_an_iterator_around_the_buffer() -> None:
    sch = Schedule(rows)
    row = sch.get("row").iter_vars[0].var
    sch.transform_layout("B", ("write", 0), lambda j: (j + row * 3) % 8, assume_injective_transform=True)
    assert check(rows, sch.func)
    own = sch.get("B").iter_vars[0].var
    with pytest.raises(ScheduleError, match="uses vj"):
        sch.transform_layout("B", ("write", 0), lambda j: (j + own) % 8, assume_injective_transform=True)
