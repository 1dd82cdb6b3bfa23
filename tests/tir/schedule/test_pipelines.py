"""Software pipelines, double buffers and virtual threads: what they become, and that they mean the same."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import minitvm
from minitvm import te
from minitvm.compat.tvm.schedule.testing import loop_handles
from minitvm.errors import ScheduleError
from minitvm.expr import SizeVar, replace, rewrite, walk
from minitvm.reference import check
from minitvm.reference.strategies import prim_funcs
from minitvm.reference.strategies.enough import Enough
from minitvm.script import tir as T
from minitvm.tir import Schedule
from minitvm.tir.analysis.software_pipelines import inner_parts
from minitvm.tir.nodes import Allocate, Block, Buffer, For, ForKind, PrimFunc
from minitvm.tir.transform import lower
from minitvm.tir.transform.inject_double_buffer import inject_double_buffer
from minitvm.tir.transform.inject_software_pipeline import inject_software_pipeline

from . import programs
from .meaning import same_at_both_levels, same_meaning
from .pairs import IN_A_TEST
from .pipeline_programs import staged_loops


def staged_matmul(func: PrimFunc) -> tuple[Schedule, Any]:
    """Panels of A and B loaded in a loop over tiles of k; and that loop."""
    sch = Schedule(func)
    i, j, k = sch.get_loops("C")
    k_0, k_1 = sch.split(k, [None, 4])
    sch.reorder(k_0, i, j, k_1)
    for position in (0, 1):
        sch.compute_at(sch.cache_read("C", position, "shared"), k_0)
    return sch, k_0


def shapes(func: PrimFunc, *names: str) -> dict[str, list[str]]:
    """The shapes of the allocated buffers of these names."""
    found = [b for n in walk(func.body) if isinstance(n, Block) for b in n.alloc_buffers]
    found += [n.buffer for n in walk(func.body) if isinstance(n, Allocate)]
    return {b.name: [str(d) for d in b.shape] for b in found if b.name in names}


# ---- software pipelines --------------------------------------------------------------------------------------------


def test_a_pipelined_matmul_loads_one_tile_ahead() -> None:
    func = programs.matmul(k=16)
    sch, k_0 = staged_matmul(func)
    sch.annotate(k_0, "software_pipeline_stage", [0, 0, 1])
    sch.annotate(k_0, "software_pipeline_order", [0, 1, 2])
    same_meaning(func, sch)
    made = inject_software_pipeline(sch.func)
    assert shapes(made, "A_shared", "B_shared") == {"A_shared": ["2", "8", "4"], "B_shared": ["2", "4", "6"]}
    loops = [n for n in walk(made.body) if isinstance(n, For) and n.var.name == "k_0"]
    assert [loop.extent.value for loop in loops] == [3]  # and one tile before it, one after it
    text = made.script()
    assert text.count('T.block("A_shared")') == 2
    assert text.count('T.block("C")') == 2


def test_both_versions_survive_to_the_kernel() -> None:
    sch, k_0 = staged_matmul(programs.matmul(k=16))
    sch.annotate(k_0, "software_pipeline_stage", [0, 0, 1])
    kernels = lower(sch.func)
    sizes = {b: s for _, f in kernels.items() for b, s in shapes(f, "A_shared", "B_shared").items()}
    assert sizes == {"A_shared": ["64"], "B_shared": ["48"]}


def test_three_stages_take_three_versions() -> None:
    func = programs.matmul(k=16)
    sch, k_0 = staged_matmul(func)
    sch.annotate(k_0, "software_pipeline_stage", [0, 1, 2])
    same_meaning(func, sch)
    made = inject_software_pipeline(sch.func)
    assert shapes(made, "A_shared", "B_shared") == {"A_shared": ["3", "8", "4"], "B_shared": ["2", "4", "6"]}


def test_a_reader_that_runs_first_in_its_step_needs_one_version_less() -> None:
    func = programs.matmul(k=16)
    sch, k_0 = staged_matmul(func)
    sch.annotate(k_0, "software_pipeline_stage", [0, 0, 1])
    sch.annotate(k_0, "software_pipeline_order", [1, 2, 0])
    same_meaning(func, sch)
    made = inject_software_pipeline(sch.func)
    assert shapes(made, "A_shared", "B_shared") == {"A_shared": ["8", "4"], "B_shared": ["4", "6"]}


def test_spare_versions_are_what_no_step_reads() -> None:
    func = programs.matmul(k=16)
    for spare, versions in ((1, ["2"]), (2, ["3"]), (0, [])):
        sch, k_0 = staged_matmul(func)
        sch.annotate(k_0, "software_pipeline_stage", [0, 0, 1])
        sch.annotate(k_0, "software_pipeline_order", [1, 2, 0])
        sch.annotate(k_0, "software_pipeline_spare_versions", spare)
        same_meaning(func, sch)
        made = inject_software_pipeline(sch.func)
        assert shapes(made, "A_shared", "B_shared") == {
            "A_shared": [*versions, "8", "4"], "B_shared": [*versions, "4", "6"]
        }  # fmt: skip


@pytest.mark.parametrize("spare", [-1, 5, True, [1]])
def test_a_number_of_spare_versions(spare: Any) -> None:
    sch, k_0 = staged_matmul(programs.matmul(k=16))
    with pytest.raises(ScheduleError, match="software_pipeline_spare_versions: a number from 0 to 4(.|\n)*found"):
        sch.annotate(k_0, "software_pipeline_spare_versions", spare)


def test_a_loop_shorter_than_the_pipeline() -> None:
    func = programs.matmul(k=8)  # two tiles
    sch, k_0 = staged_matmul(func)
    sch.annotate(k_0, "software_pipeline_stage", [0, 2, 4])
    same_meaning(func, sch)


def test_imperfect_tiles() -> None:
    func = programs.matmul(k=15)
    sch, k_0 = staged_matmul(func)
    sch.annotate(k_0, "software_pipeline_stage", [0, 0, 1])
    same_meaning(func, sch)


@pytest.mark.parametrize("size", [1, 3, 4, 5, 17])
def test_a_symbolic_number_of_iterations(size: int) -> None:
    n = SizeVar("n")
    a = te.placeholder((n, 4), name="A")
    b = te.compute((n, 4), lambda i, j: a[i, j] * 2.0, name="B")
    func = te.create_prim_func([a, te.compute((n, 4), lambda i, j: b[i, j] + 1.0, name="C")])
    sch = Schedule(func)
    sch.compute_at("B", sch.get_loops("C")[0])
    sch.annotate(sch.get_loops("C")[0], "software_pipeline_stage", [0, 1])
    for version in (sch.func, lower(sch.func)):
        verdict = check(func, version, sizes={"n": size})
        assert verdict, verdict


@pytest.mark.parametrize("rows", [8, 16384])
def test_a_pipeline_inside_a_parallel_loop(rows: int) -> None:
    """Rows of different iterations stay apart in the panel, be it on the stack or in a workspace."""
    func = programs.matmul(2 * rows, 1, 8)
    sch = Schedule(func)
    i, j, k = sch.get_loops("C")
    i_0, i_1 = sch.split(i, [2, None])
    k_0, k_1 = sch.split(k, [None, 4])
    sch.reorder(i_0, k_0, i_1, j, k_1)
    sch.compute_at(sch.cache_read("C", 0, "shared"), k_0)
    sch.parallel(i_0)
    sch.annotate(k_0, "software_pipeline_stage", [0, 1])
    assert shapes(inject_software_pipeline(sch.func), "A_shared") == {"A_shared": ["2", str(2 * rows), "4"]}
    same_meaning(func, sch)


def test_a_pipeline_inside_a_pipeline() -> None:
    func = programs.matmul(8, 6, 16)
    sch = Schedule(func)
    i, j, k = sch.get_loops("C")
    k_0, k_1, k_2 = sch.split(k, [None, 2, 2])
    sch.reorder(k_0, k_1, i, j, k_2)
    outer = sch.cache_read("C", 0, "shared")
    sch.compute_at(outer, k_0)
    inner = sch.cache_read("C", 0, "local")
    sch.compute_at(inner, k_1)
    sch.annotate(k_1, "software_pipeline_stage", [0, 1])
    sch.annotate(k_0, "software_pipeline_stage", [0, 1])
    same_meaning(func, sch)


@T.prim_func
def in_one_block(A: T.Buffer((16, 4), "float32"), C: T.Buffer((16, 4), "float32")):
    for i in T.serial(16, annotations={"software_pipeline_stage": [0, 1], "software_pipeline_order": [0, 1]}):
        with T.block("both"):
            vi = T.axis.spatial(16, i)
            T.reads(A[vi, 0:4])
            T.writes(C[vi, 0:4])
            B = T.alloc_buffer((1, 4), scope="shared")
            for j in range(4):
                with T.block("load"):
                    vj = T.axis.spatial(4, j)
                    B[0, vj] = A[vi, vj] * 2.0
            for j in range(4):
                with T.block("use"):
                    vj = T.axis.spatial(4, j)
                    C[vi, vj] = B[0, 3 - vj] + 1.0


def test_the_body_may_be_one_block_with_the_statements_inside() -> None:
    """As TVM's own examples are written."""
    plain = in_one_block.with_body(_without_notes(in_one_block.body))
    same_at_both_levels(plain, in_one_block)
    assert shapes(inject_software_pipeline(in_one_block), "B") == {"B": ["2", "1", "4"]}


def _without_notes(stmt: Any) -> Any:
    return rewrite(stmt, lambda n: replace(n, annotations={}) if isinstance(n, For) and n.annotations else None)


def test_lowering_refuses_what_was_annotated_by_hand() -> None:
    sch, k_0 = staged_matmul(programs.matmul(k=16))
    loop = sch.get(k_0)
    wrong = sch.state.tree().rebuild({loop: replace(loop, annotations={"software_pipeline_stage": [1, 0, 0]})})
    with pytest.raises(ScheduleError, match=r"the loop over k_0 in main[\s\S]*A_shared\[0, 0\] is written"):
        lower(wrong)


def test_later_steps_may_not_break_a_pipeline() -> None:
    sch, k_0 = staged_matmul(programs.matmul(k=16))
    sch.annotate(k_0, "software_pipeline_stage", [0, 0, 1])
    before = sch.mod
    with pytest.raises(ScheduleError, match="pipelines_well_formed"):
        sch.compute_inline("A_shared")  # one statement less
    assert sch.mod is before
    sch.unannotate(k_0, "software_pipeline_stage")
    sch.compute_inline("A_shared")


def test_a_pipelined_function_builds_and_runs(rng: np.random.Generator) -> None:
    sch, k_0 = staged_matmul(programs.matmul(16, 16, 32))
    sch.annotate(k_0, "software_pipeline_stage", [0, 0, 1])
    a, b = rng.standard_normal((16, 32), dtype="float32"), rng.standard_normal((32, 16), dtype="float32")
    out = np.empty((16, 16), "float32")
    minitvm.build(sch.func)(a, b, out)
    np.testing.assert_allclose(out, a @ b, rtol=1e-5, atol=1e-5)


# ---- double buffers ------------------------------------------------------------------------------------------------


def test_a_double_buffer_is_filled_one_iteration_ahead() -> None:
    func = programs.matmul(k=16)
    sch, _ = staged_matmul(func)
    sch.annotate("A_shared", "double_buffer_scope", 0)
    same_meaning(func, sch)
    (loop,) = [n for n in walk(inject_double_buffer(sch.func).body) if isinstance(n, For) and n.annotations]
    assert loop.annotations == {"software_pipeline_stage": [0, 1, 1], "software_pipeline_order": [0, 1, 2]}
    made = inject_software_pipeline(inject_double_buffer(sch.func))
    assert shapes(made, "A_shared", "B_shared") == {"A_shared": ["2", "8", "4"], "B_shared": ["4", "6"]}
    assert "double_buffer_scope" not in made.script()


def test_what_a_double_buffer_needs_runs_ahead_with_it() -> None:
    a = te.placeholder((8, 4), name="A")
    b = te.compute((8, 4), lambda i, j: a[i, j] * 2.0, name="B")
    c = te.compute((8, 4), lambda i, j: b[i, j] + 1.0, name="C")
    func = te.create_prim_func([a, te.compute((8, 4), lambda i, j: c[i, j] * 3.0, name="D")])
    sch = Schedule(func)
    row = sch.get_loops("D")[0]
    sch.compute_at("C", row)
    sch.compute_at("B", row)
    sch.annotate("C", "double_buffer_scope", 0)
    same_meaning(func, sch)
    made = inject_double_buffer(sch.func)
    assert [n.annotations["software_pipeline_stage"] for n in walk(made.body) if isinstance(n, For) and n.annotations] \
        == [[0, 0, 1]]  # fmt: skip


def test_a_double_buffer_needs_a_serial_loop() -> None:
    """The unrolled iterations would be gone before one could run ahead: refused, whichever comes second."""
    sch, loop = staged_matmul(programs.matmul(k=16))
    sch.annotate("A_shared", "double_buffer_scope", 0)
    with pytest.raises(ScheduleError, match="pipelines_well_formed"):
        sch.unroll(loop)
    sch.unannotate("A_shared", "double_buffer_scope")
    sch.unroll(loop)
    with pytest.raises(ScheduleError, match="wanted: a serial loop around A_shared"):
        sch.annotate("A_shared", "double_buffer_scope", 0)


def test_in_a_pipeline_a_double_buffer_asks_for_a_second_version() -> None:
    func = programs.matmul(k=16)
    sch, k_0 = staged_matmul(func)
    sch.annotate("A_shared", "double_buffer_scope", 0)
    sch.annotate(k_0, "software_pipeline_stage", [0, 0, 0])
    same_meaning(func, sch)
    made = inject_software_pipeline(inject_double_buffer(sch.func))
    assert shapes(made, "A_shared", "B_shared") == {"A_shared": ["2", "8", "4"], "B_shared": ["4", "6"]}


# ---- virtual threads -----------------------------------------------------------------------------------------------


def test_virtual_threads_are_interleaved() -> None:
    func = programs.matmul(k=16)
    sch = Schedule(func)
    i = sch.get_loops("C")[0]
    i_0, _ = sch.split(i, [2, None])
    sch.bind(i_0, "vthread.x")
    same_meaning(func, sch)
    after: list[PrimFunc] = []
    lower(sch.func, callback=lambda name, _, made: after.append(made) if name == "inject_virtual_thread" else None)
    text = after[0].script()
    assert text.index("for k") < text.rindex("for i_0 in T.unroll(2)")
    assert "vthread" not in text


@T.prim_func
def private_rows(A: T.Buffer((4, 8), "float32"), C: T.Buffer((4, 8), "float32")):
    for i in range(4):
        with T.block("row"):
            vi = T.axis.spatial(4, i)
            T.reads(A[vi, 0:8])
            T.writes(C[vi, 0:8])
            S = T.alloc_buffer((8,))
            for j in range(8):
                with T.block("load"):
                    vj = T.axis.spatial(8, j)
                    S[vj] = A[vi, vj] * 2.0
            for j in range(8):
                with T.block("use"):
                    vj = T.axis.spatial(8, j)
                    C[vi, vj] = S[7 - vj] + 1.0


def test_storage_of_virtual_threads_gets_a_dimension_more() -> None:
    sch = Schedule(private_rows)
    sch.bind(sch.get_loops("row")[0], "vthread")
    same_meaning(private_rows, sch)
    after: list[PrimFunc] = []
    lower(sch.func, callback=lambda name, _, made: after.append(made) if name == "inject_virtual_thread" else None)
    assert shapes(after[0], "S") == {"S": ["4", "8"]}


def test_a_condition_that_differs_between_virtual_threads_stays_around_its_statements() -> None:
    func = programs.matmul(7, 6, 4)
    sch = Schedule(func)
    i_0, _ = sch.split(sch.get_loops("C")[0], [2, None])  # 7 rows are two threads of 4
    sch.bind(i_0, "vthread")
    same_meaning(func, sch)


# ---- properties ----------------------------------------------------------------------------------------------------


def _until_enough(body: Any) -> None:
    """Run a Hypothesis test that counts pairs until there are enough of them."""
    drawn = [0]

    @settings(max_examples=1500, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def pairs(data: Any) -> None:
        drawn[0] += body(data)
        if drawn[0] >= IN_A_TEST:
            raise Enough("there are enough")

    with contextlib.suppress(Enough):
        pairs()
    assert drawn[0] >= IN_A_TEST


def test_random_pipelines_keep_the_meaning() -> None:
    def body(data: Any) -> int:
        func = data.draw(staged_loops())
        sch = Schedule(func)
        loop = sch.get_loops("load")[0]
        count = len(inner_parts(sch.get(loop)))
        stages = data.draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
        if data.draw(st.integers(0, 3)):
            stages.sort()  # mostly what can be legal
        order = data.draw(st.permutations(range(count)))
        try:
            sch.annotate(loop, "software_pipeline_stage", stages)
            if data.draw(st.booleans()):
                sch.annotate(loop, "software_pipeline_order", list(order))
            sch.annotate(loop, "software_pipeline_spare_versions", data.draw(st.integers(0, 2)))
        except ScheduleError:
            if sch.func is func:
                return 0
        same_meaning(func, sch)
        return 1

    _until_enough(body)


def test_random_double_buffers_keep_the_meaning() -> None:
    def body(data: Any) -> int:
        func = data.draw(staged_loops())
        sch = Schedule(func)
        count = 0
        for name in ("load", "compute"):
            with contextlib.suppress(ScheduleError):
                sch.annotate(name, "double_buffer_scope", 0)
                count += 1
        if count:
            same_meaning(func, sch)
        return count

    _until_enough(body)


def test_random_virtual_threads_keep_the_meaning() -> None:
    def body(data: Any) -> int:
        func = data.draw(prim_funcs(min_blocks=2))
        sch = Schedule(func)
        count = 0
        for _ in range(data.draw(st.integers(0, 2))):
            call = sch.draw(lambda n: data.draw(st.integers(0, n - 1)), "split", "compute_at", "fuse", tries=4)
            if call is not None:
                sch.apply(call)
        for loop in loop_handles(sch):
            if data.draw(st.booleans()):
                with contextlib.suppress(ScheduleError):
                    sch.bind(loop, "vthread")
                    count += 1
        if count:
            same_meaning(func, sch)
            stmts = [n for _, kernel in lower(sch.func).items() for n in walk(kernel.body)]
            assert not any(isinstance(n, For) and n.kind == ForKind.THREAD for n in stmts)
        return count

    _until_enough(body)


def test_private_buffers_are_those_of_one_iteration() -> None:
    """What one iteration leaves for the next is no private buffer: it keeps its one version."""

    @T.prim_func
    def windows(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
        S = T.alloc_buffer((9,))
        with T.block("first"):
            S[0] = 0.0
        for i in range(8):
            with T.block("load"):
                vi = T.axis.spatial(8, i)
                S[vi + 1] = A[vi]
            with T.block("use"):
                vi = T.axis.spatial(8, i)
                C[vi] = S[vi] + S[vi + 1]

    sch = Schedule(windows)
    sch.annotate(sch.get_loops("load")[0], "software_pipeline_stage", [0, 1])
    same_meaning(windows, sch)
    made = inject_software_pipeline(sch.func)
    assert shapes(made, "S") == {"S": ["9"]}
    assert isinstance(next(b for n in walk(made.body) if isinstance(n, Block) for b in n.alloc_buffers), Buffer)
