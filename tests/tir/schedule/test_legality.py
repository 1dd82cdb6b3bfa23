"""What a step must not believe: programs whose blocks, bindings or claims are not the usual ones keep their meaning."""

from __future__ import annotations

from typing import Any

import pytest

from minitvm.errors import ScheduleError
from minitvm.script import tir as T
from minitvm.tir.schedule import Schedule
from minitvm.tir.schedule import programs as on
from minitvm.tir.schedule.examples import program_of

from . import programs
from .meaning import Step, keeps, refused, same_meaning, without_verifier  # noqa: F401 (a fixture of the module)
from .programs import loop
from .reductions_programs import summed_twice

# ---- blocks that use loops by themselves ---------------------------------------------------------------------------


def test_a_loop_in_the_body_is_named() -> None:
    told = refused(program_of(on.LOOP_IN_THE_BODY), "own_iterators", lambda s: s.compute_inline("B"))
    assert "B uses i, a loop around it, by itself" in told


def test_padding_leaves_a_block_that_uses_its_loops_where_it_is() -> None:
    keeps(
        program_of(on.LOOP_IN_THE_BODY),
        lambda s: s.transform_layout("B", ("write", 0), lambda i: (i // 5, i % 5), pad_value=0.0),
    )


def test_loops_in_the_body_follow_a_split() -> None:
    keeps(program_of(on.LOOP_IN_THE_BODY), lambda s: s.split(loop(s, "B"), [None, 5]))


# ---- sizes that are variables like any other -----------------------------------------------------------------------


@T.prim_func
def scaled(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n, 6))
    B = T.match_buffer(b, (n, 6))
    for i, j in T.grid(n, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[n - 1 - vi, vj] * 2.0


@T.prim_func
def scaled_long(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, T.int64(6)))
    B = T.match_buffer(b, (n, T.int64(6)))
    for i, j in T.grid(n, T.int64(6)):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[n - 1 - vi, vj] * T.float32(2)


@T.prim_func
def scaled_by_parameter(a: T.handle, b: T.handle, n: T.int32):
    A = T.match_buffer(a, (n, 6))
    B = T.match_buffer(b, (n, 6))
    for i, j in T.grid(n, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[n - 1 - vi, vj] * 2.0


STAGES: dict[str, Step] = {
    "cache_read": lambda s: s.cache_read("B", 0, "local"),
    "cache_write": lambda s: s.cache_write("B", 0, "local"),
    "cache_index": lambda s: s.cache_index("B", "local"),
    "reindex read": lambda s: s.reindex("B", ("read", 0)),
    "reindex write": lambda s: s.reindex("B", ("write", 0)),
    "reindex_cache_read": lambda s: s.reindex_cache_read("B", 0, "local", lambda i, j: (j, i)),
    "reindex_cache_write": lambda s: s.reindex_cache_write("B", 0, "local", lambda i, j: (j, i)),
    "read_at": lambda s: s.read_at(loop(s, "B"), "B", 0, "local"),
    "write_at": lambda s: s.write_at(loop(s, "B"), "B", 0, "local"),
}


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("func", [scaled, scaled_long, scaled_by_parameter], ids=lambda f: f.name)
def test_stages_copy_as_many_rows_as_a_size_says(func: Any, stage: str) -> None:
    assert len(keeps(func, STAGES[stage]).state.tree().blocks) == 3  # the stage is there


@T.prim_func
def triangles(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8, 8))
    for i in range(8):
        with T.block("rows"):
            vi = T.axis.spatial(8, i)
            T.reads(A[vi, 0:8], B[vi, 0:8])
            T.writes(C[vi], B[vi, 0:8])
            for j in range(vi + 1):
                with T.block("B"):
                    vj = T.axis.spatial(8, j)
                    B[vi, vj] = A[vi, vj]
            with T.block("C"):
                C[vi] = B[vi, vi]


def test_an_iterator_around_a_block_bounds_a_copy_by_its_domain() -> None:
    sch = Schedule(triangles)
    sch.cache_read("B", 0, "local")  # of vi + 1 elements: at most 8
    same_meaning(triangles, sch)


# ---- statements that decide whether a block runs -------------------------------------------------------------------


@T.prim_func
def most_of_it(A: T.Buffer((16,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((20,))
    for i in range(20):
        if i < 16:
            with T.block("B"):
                vi = T.axis.spatial(20, i)
                B[vi] = A[vi]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi]


@T.prim_func
def some_of_it(A: T.Buffer((16,), "float32"), n: T.int32):
    for i in range(16):
        if i < n:
            with T.block("A"):
                vi = T.axis.spatial(16, i)
                A[vi] = 1.0


def test_a_block_under_a_condition_fills_no_box() -> None:
    told = refused(most_of_it, "fills_its_box", lambda s: s.cache_write("B", 0, "local"))
    assert "block B runs only where i < 16" in told
    refused(some_of_it, "fills_its_box", lambda s: s.cache_write("A", 0, "local"))


def test_what_a_block_under_a_condition_wrote_is_not_copied() -> None:
    refused(most_of_it, "initialised", lambda s: s.cache_read("C", 0, "local"))
    for write in (
        lambda s: s.reindex("B", ("write", 0)),
        lambda s: s.reindex_cache_write("B", 0, "local", lambda i: (i,)),
    ):
        refused(most_of_it, "copies_its_values", write)


def test_a_consumer_under_a_condition_is_not_inlined_into_its_producer() -> None:
    """Inlined, it would run where its producer does, also where the condition keeps it from reading past an end."""

    @T.prim_func
    def half(A: T.Buffer((16,), "float32"), bias: T.Buffer((8,), "float32"), D: T.Buffer((8,), "float32")):
        B = T.alloc_buffer((16,))
        C = T.alloc_buffer((16,))
        for i in range(16):
            with T.block("B"):
                vi = T.axis.spatial(16, i)
                B[vi] = A[vi] * 2.0
        for i in range(16):
            if i < 8:
                with T.block("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = B[vi] + bias[vi]
        for i in range(8):
            with T.block("D"):
                vi = T.axis.spatial(8, i)
                D[vi] = C[vi]

    @T.prim_func
    def perhaps(A: T.Buffer((), "float32"), C: T.Buffer((), "float32"), n: T.int32):
        B = T.alloc_buffer(())
        with T.block("B"):
            B[()] = A[()] * 2.0
        if n > 0:
            with T.block("C"):
                C[()] = B[()] + 1.0

    assert "only where i < 8" in refused(half, "runs_everywhere", lambda s: s.reverse_compute_inline("C"))
    refused(perhaps, "runs_everywhere", lambda s: s.reverse_compute_inline("C"))
    keeps(half, lambda s: s.compute_inline("B"))


# ---- blocks that fill their boxes in other ways than by one iterator a dimension -----------------------------------


@T.prim_func
def rows_of_blocks(A: T.Buffer((8, 6), "float32"), B: T.Buffer((8, 6), "float32")):
    for i in range(8):
        with T.block("outer"):
            vi = T.axis.spatial(8, i)
            for j in range(6):
                with T.block("B"):
                    vj = T.axis.spatial(6, j)
                    B[vi, vj] = A[vi, vj] * 2.0


@T.prim_func
def single(A: T.Buffer((), "float32"), B: T.Buffer((), "float32")):
    with T.block("B"):
        B[()] = A[()] * 2.0


@T.prim_func
def one_or_the_other(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32"), n: T.int32):
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            if vi < n:
                if A[vi] > 0.0:
                    B[vi] = A[vi]
                else:
                    B[vi] = 1.0
            else:
                B[vi] = 0.0


@T.prim_func
def one_or_nothing(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32"), n: T.int32):
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            if vi < n:
                if A[vi] > 0.0:
                    B[vi] = A[vi]
            else:
                B[vi] = 0.0


@pytest.mark.parametrize("func", [rows_of_blocks, single, one_or_the_other], ids=lambda f: f.name)
def test_a_box_that_is_full_is_copied_back(func: Any) -> None:
    keeps(func, lambda s: s.cache_write("B", 0, "local"))


def test_a_branch_without_a_store_leaves_a_gap() -> None:
    refused(one_or_nothing, "fills_its_box", lambda s: s.cache_write("B", 0, "local"))


# ---- what blocks declare -------------------------------------------------------------------------------------------


@T.prim_func
def silent(X: T.Buffer((16,), "float32"), bias: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")):
    P = T.alloc_buffer((16,))
    B = T.alloc_buffer((16,))
    for i in range(16):
        with T.block("P"):
            vi = T.axis.remap("S", [i])
            P[vi] = X[vi] + 1.0
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = bias[vi] * 3.0
    for i in range(16):
        with T.block("C"):
            vi = T.axis.remap("S", [i])
            T.reads(P[vi])
            T.writes(C[vi])
            C[vi] = P[vi] + B[vi]


@T.prim_func
def narrow(A: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")):
    for i in range(8):
        with T.block("C"):
            vi = T.axis.remap("S", [i])
            T.reads(A[vi])
            T.writes(C[vi * 2])
            C[vi * 2] = A[vi]
            C[vi * 2 + 1] = A[vi]


def test_a_read_that_is_not_declared() -> None:
    told = refused(silent, "declares_what_it_touches", lambda s: s.reverse_compute_at("C", loop(s, "P")))
    assert "the block C declares no reads of B" in told


def test_a_write_outside_of_what_is_declared() -> None:
    told = refused(narrow, "declares_what_it_touches", lambda s: s.split(loop(s, "C"), [None, 4]))
    assert "outside of the declared region" in told


@pytest.mark.parametrize("func", [silent, narrow], ids=lambda f: f.name)
def test_what_would_be_refused_is_not_offered(func: Any) -> None:
    assert Schedule(func).space() == []
    assert Schedule(func).draw(lambda n: 0) is None


def test_queries_take_any_program() -> None:
    assert len(Schedule(silent).get_loops("C")) == 1


def test_an_init_that_reads_memory_is_declared_by_both_parts_of_a_sum() -> None:
    @T.prim_func
    def started(X: T.Buffer((8, 4), "float32"), bias: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
        P = T.alloc_buffer((8, 4))
        B = T.alloc_buffer((8,))
        for i, j in T.grid(8, 4):
            with T.block("P"):
                vi, vj = T.axis.remap("SS", [i, j])
                P[vi, vj] = X[vi, vj] + 1.0
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = bias[vi] * 3.0
        for i, k in T.grid(8, 4):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = B[vi]
                C[vi] = C[vi] + P[vi, vk]

    sch = keeps(started, lambda s: s.rfactor(loop(s, "C", 1), 0))
    assert [r.buffer.name for r in sch.get(sch.get_block("C")).reads] == ["C_rf", "B"]

    def before_its_bias(s: Schedule) -> None:
        partial = s.rfactor(loop(s, "C", 1), 0)
        s.reverse_compute_at(partial, loop(s, "P"))
        s.reverse_compute_at("C", loop(s, "P"))

    refused(started, "producers_done", before_its_bias)


# ---- loops that a block does not use -------------------------------------------------------------------------------


def test_loops_inside_one_that_is_not_used_are_reordered() -> None:
    def copied(s: Schedule) -> None:
        stage = s.cache_read("C", 1, "shared")
        s.compute_at(stage, loop(s, "C"))
        x, y = s.get_loops(stage)[-2:]
        s.reorder(y, x)

    keeps(programs.matmul(8, 8, 8), copied)


def test_loops_of_a_block_without_iterators_are_reordered() -> None:
    @T.prim_func
    def doubled(A: T.Buffer((8, 6), "float32"), B: T.Buffer((8, 6), "float32")):
        for i, j in T.grid(8, 6):
            with T.block("B"):
                T.reads(A[i, j])
                T.writes(B[i, j])
                B[i, j] = A[i, j] * 2.0

    keeps(doubled, lambda s: s.reorder(*s.get_loops("B")[::-1]))


def test_a_loop_of_the_chain_that_is_not_used_stays() -> None:
    refused(summed_twice, "affine_bindings", lambda s: s.reorder(*s.get_loops("B")[:0:-1]))


# ---- what else was told wrong --------------------------------------------------------------------------------------


def test_what_rfactor_left_is_not_to_be_factored_again() -> None:
    def bound(s: Schedule) -> None:
        s.rfactor(loop(s, "C", 2), 0)
        s.parallel(s.get_loops("C")[-1])

    told = refused(programs.matmul(8, 8, 8), "only_spatial", bound)
    assert "rfactor(" not in told and "choose a spatial loop, of C or of C_rf" in told
    told = refused(programs.matmul(8, 8, 8), "only_spatial", lambda s: s.parallel(loop(s, "C", 2)))
    assert "rfactor(k, ...)" in told


@pytest.mark.parametrize("keys", [("stage", "order"), ("order", "stage")])
def test_stages_and_order_of_a_pipeline_are_given_in_any_order(keys: tuple[str, str]) -> None:
    values = {"stage": [0, 1], "order": [1, 0]}

    def annotated(s: Schedule) -> None:
        outer, inner = s.split(loop(s, "C", 2), [None, 4])
        i, j = s.get_loops("C")[:2]
        s.reorder(i, outer, j, inner)
        s.compute_at(s.cache_read("C", 0, "shared"), outer)
        for key in keys:
            s.annotate(outer, f"software_pipeline_{key}", values[key])

    sch = keeps(programs.matmul(8, 8, 8), annotated)
    assert sch.get(sch.get_loops("C")[1]).annotations == {f"software_pipeline_{k}": v for k, v in values.items()}


def test_an_order_that_the_stages_do_not_allow_is_refused_when_both_are_there() -> None:
    def annotated(s: Schedule) -> None:
        s.compute_at(s.cache_read("C", 0, "shared"), loop(s, "C", 0))
        s.annotate(loop(s, "C", 0), "software_pipeline_order", [1, 0])
        s.annotate(loop(s, "C", 0), "software_pipeline_stage", [0, 0])

    refused(programs.matmul(8, 8, 8), "keeps_pipelines", annotated)


def test_a_box_whose_corner_a_predicate_leaves_out_is_not_full() -> None:
    """Three elements in a box of 2 x 2: the fourth has no value, and may not be copied."""

    @T.prim_func
    def main(A: T.Buffer((3,), "float32"), B: T.Buffer((3,), "float32")):
        for i, j in T.grid(2, 2):
            with T.block("B"):
                vi = T.axis.spatial(3, i * 2 + j)
                T.where(i * 2 + j < 3)
                B[vi] = A[vi]

    sch = Schedule(main)
    copy = sch.reindex_cache_write("B", 0, "local", lambda vi: (vi // 2, vi % 2))
    with pytest.raises(ScheduleError, match="initialised"):
        sch.cache_read(copy, 0, "local")
