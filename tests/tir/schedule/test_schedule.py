"""The schedule itself: handles, traces, undo, registration, and what primitives make of known programs."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import tir
from minitvm.compat.tvm.schedule.testing import verify_trace_roundtrip
from minitvm.errors import ArtifactError, ScheduleError
from minitvm.expr import structural_equal
from minitvm.reference import check
from minitvm.reference import tir as interpreter
from minitvm.script import ir as I
from minitvm.script import tir as T
from minitvm.tir.nodes import BlockRealize, For, ForKind
from minitvm.tir.schedule import PRIMITIVES, Failure, Schedule, Trace, document, primitive, requirement
from minitvm.tir.schedule import programs as on
from minitvm.tir.schedule.examples import program_of
from minitvm.tir.schedule.state import ScheduleState

from . import programs

M = K = N = 256


def test_the_published_program(capsys: pytest.CaptureFixture[str]) -> None:
    """As published for TVM in 2023: it prints its scheduled self and equals A @ B."""

    @tvm.script.ir_module
    class MyMatMulModule:
        @T.prim_func
        def main(A: T.Buffer[(M, K), "float32"], B: T.Buffer[(K, N), "float32"], C: T.Buffer[(M, N), "float32"]):  # noqa: UP037
            T.func_attr({"global_symbol": "main", "tir.noalias": True})
            for i, j, k in T.grid(M, N, K):
                with T.block("C"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    with T.init():
                        C[vi, vj] = 0.0
                    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    sch = tvm.tir.Schedule(MyMatMulModule)
    block_C = sch.get_block("C")
    i, _j, _k = sch.get_loops(block=block_C)
    i0, i1 = sch.split(i, [None, 128])
    sch.bind(i0, "blockIdx.x")
    sch.bind(i1, "threadIdx.x")
    sch.mod.show()
    assert 'for i_0 in T.thread_binding(2, thread="blockIdx.x"):' in capsys.readouterr().out
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, (256, 256)).astype("float32") for _ in range(2))
    c = np.zeros((256, 256), "float32")
    interpreter.run(sch.mod, a, b, c)
    assert np.array_equal(c, a @ b)


def cpu_matmul() -> Schedule:
    """A register-blocked CPU schedule: accumulators in a local buffer, a packed panel of B, an init of its own."""
    sch = Schedule(programs.matmul(100, 64, 32))
    block = sch.get_block("C")
    tile = sch.cache_write(block, 0, "local")
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, [None, 6])
    j0, j1 = sch.split(j, [None, 16])
    k0, k1 = sch.split(k, [None, 4])
    sch.reorder(i0, j0, k0, k1, i1, j1)
    sch.reverse_compute_at(tile, j0)
    panel = sch.cache_read(block, 1, "global")
    sch.compute_at(panel, k0)
    init = sch.decompose_reduction(block, k0)
    sch.vectorize(j1)
    sch.unroll(i1)
    for copied in (tile, init):
        sch.vectorize(sch.get_loops(copied)[-1])
    return sch


def test_a_cpu_matmul_keeps_its_meaning() -> None:
    sch = cpu_matmul()
    verdict = check(programs.matmul(100, 64, 32), sch.func)
    assert verdict, str(verdict)
    assert "C_local[v0, v1]" in sch.func.script()


def test_traces_round_trip() -> None:
    verify_trace_roundtrip(cpu_matmul(), programs.matmul(100, 64, 32))


def test_a_trace_replays_on_another_shape() -> None:
    sch = Schedule(programs.matmul(60, 48, 16))
    cpu_matmul().trace.apply_to_schedule(sch)
    assert check(programs.matmul(60, 48, 16), sch.func)


def test_handles_survive_what_keeps_them_and_say_who_consumed_them() -> None:
    sch = Schedule(programs.matmul())
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, [2, None])
    sch.reorder(j, i0, i1, k)
    assert sch.get(j).var.name == "j"
    assert sch.get_loops(block) == [j, i0, i1, k]
    with pytest.raises(ScheduleError, match="loop i was split into i_0, i_1 at step 3"):
        sch.parallel(i)
    sch.fuse(j, i0)
    with pytest.raises(ScheduleError, match="loop i_0 was fused into j_i_0_fused at step 6"):
        sch.get(i0)


def test_undo_revives_handles() -> None:
    sch = Schedule(programs.matmul())
    i, *_ = sch.get_loops("C")
    before, text = sch.mod, sch.trace.as_python()
    i0, _ = sch.split(i, [2, None])
    sch.undo()
    assert sch.mod is before
    assert sch.trace.as_python() == text
    sch.parallel(i)
    with pytest.raises(ScheduleError, match="not part of this schedule's module"):
        sch.get(i0)


def test_a_refused_call_changes_nothing() -> None:
    sch = Schedule(programs.matmul())
    *_, k = sch.get_loops("C")
    before, length = sch.mod, len(sch.trace)
    with pytest.raises(ScheduleError):
        sch.parallel(k)
    assert sch.mod is before
    assert len(sch.trace) == length


def test_arguments_by_name() -> None:
    sch = Schedule(programs.matmul())
    (loop, *_) = sch.get_loops("C")
    for arguments, told in (
        ({"loop": loop}, r"split: factors is not given; it takes \(loop, factors, "),
        ({"lop": loop}, "split has no parameter 'lop'; did you mean loop"),
    ):
        with pytest.raises(ScheduleError, match=told):
            sch.call("split", arguments)
    assert len(sch.call("split", {"loop": loop, "factors": [2, None]})) == 2  # the others have defaults


def test_a_copy_goes_its_own_way() -> None:
    sch = Schedule(programs.matmul())
    i, j, _ = sch.get_loops("C")
    other = sch.copy()
    other.split(i, [2, None])
    assert sch.get(i).var.name == "i"
    sch.parallel(i)
    assert len(sch.trace) == 3
    assert len(other.trace) == 3
    other.parallel(j)


def test_unknown_names_list_the_nearest() -> None:
    sch = Schedule(programs.chain())
    with pytest.raises(ScheduleError, match="no block 'CC' in function 'main'; did you mean C"):
        sch.get_block("CC")
    with pytest.raises(ScheduleError, match=r"split: loop must be a loop \(a LoopRV\), found 'i'"):
        sch.split("i", [2, None])


@pytest.mark.parametrize(
    "text", ["", "{}", '[[["Nothing", [], [], []]], []]', '[[["Split", ["l0"], [], []]], []]', "[[1]]"]
)
def test_damaged_traces_are_refused(text: str) -> None:
    with pytest.raises(ArtifactError, match="not a saved trace"):
        Trace.apply_json_to_schedule(text, Schedule(programs.matmul()))


def test_relations_between_blocks() -> None:
    sch = Schedule(programs.chain())
    b, c, d = (sch.get_block(name) for name in "BCD")
    assert sch.get_producers(c) == [b]
    assert sch.get_consumers(b) == [c]
    assert sch.get_output_blocks("root") == [d]
    assert sch.get_child_blocks("root") == [b, c, d]


def test_imperfect_splits_guard_their_blocks() -> None:
    sch = Schedule(programs.matmul(10))
    i, *_ = sch.get_loops("C")
    i0, _ = sch.split(i, [None, 4])
    assert sch.get(i0).extent.value == 3
    assert "T.where(i_0 * 4 + i_1 < 10)" in sch.func.script()
    sch.undo()
    sch.split(i, [None, 5])
    assert "T.where" not in sch.func.script()


def test_a_symbolic_extent_splits() -> None:
    func = programs.symbolic_matmul()
    sch = Schedule(func)
    i, j, k = sch.get_loops("C")
    i0, i1 = sch.split(i, [None, 4])
    sch.reorder(i0, j, i1, k)
    sch.parallel(i0)
    assert check(func, sch.func, sizes={"m": 7})


def test_compute_at_computes_the_halo() -> None:
    sch = Schedule(programs.chain(20, 16))
    i, _ = sch.get_loops("C")
    i0, _ = sch.split(i, [None, 4])
    sch.compute_at("B", i0)
    loops = [sch.get(loop) for loop in sch.get_loops("B")]
    assert [loop.extent.value for loop in loops] == [5, 6, 16]
    assert check(programs.chain(20, 16), sch.func)


def test_signatures_stay_tight_after_inlining() -> None:
    sch = Schedule(programs.chain())
    sch.compute_inline("B")
    (read,) = sch.get(sch.get_block("C")).reads
    assert read.buffer.name == "A"
    assert str(read.region[0].extent) == "3"
    assert [b.name for b in sch.get(sch.get_block("root")).alloc_buffers] == ["C"]


def test_cache_read_at_the_root_copies_an_input_whole_as_tvm_does() -> None:
    @T.prim_func
    def part(A: T.Buffer((8, 8), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("B"):
                vi = T.axis.spatial(4, i)
                B[vi] = A[vi + 2, 3]

    sch = Schedule(part)
    copy = sch.cache_read("B", 0, "local")
    assert [sch.get(loop).extent.value for loop in sch.get_loops(copy)] == [8, 8]
    assert check(part, sch.func)
    sch.compute_at(copy, sch.get_loops("B")[0])
    assert [sch.get(loop).extent.value for loop in sch.get_loops(copy)] == [4], "one element each time"
    assert check(part, sch.func)


def test_private_tiles_may_not_be_shared_by_parallel_iterations() -> None:
    sch = cpu_matmul()
    with pytest.raises(ScheduleError, match=r"no_races[\s\S]*B_global\[0, 0\] is written at \(i_0=0"):
        sch.parallel(sch.get_loops("C_update")[0])


def test_verify_runs_every_step() -> None:
    sch = Schedule(programs.chain(), verify=True)
    sch.compute_inline("B")
    sch.reverse_compute_inline("D")
    assert [b.block.name for b in sch.state.tree().blocks.values()] == ["root", "C"]


def test_modules_and_work_on() -> None:
    @I.ir_module
    class Two:
        @T.prim_func
        def first(A: T.Buffer((4,), "float32")):
            for i in range(4):
                with T.block("A"):
                    vi = T.axis.spatial(4, i)
                    A[vi] = 1.0

        @T.prim_func
        def second(A: T.Buffer((4,), "float32")):
            for j in range(4):
                with T.block("A"):
                    vj = T.axis.spatial(4, j)
                    A[vj] = 2.0

    sch = tir.Schedule(Two)
    sch.work_on("second")
    (j,) = sch.get_loops("A")
    assert sch.get(j).var.name == "j"
    (i,) = sch.get_loops(sch.get_block("A", func_name="first"))
    sch.vectorize(i)
    assert sch.get(i).kind == ForKind.VECTORIZED
    assert structural_equal(sch.mod["second"], Two["second"])


def test_one_registration_makes_a_primitive() -> None:
    """Method, trace, document, space, error: all from one function, outside of the package."""

    @requirement
    def short(state: ScheduleState, loop: For) -> Failure | None:
        """extent(loop) <= 8"""
        if getattr(loop.extent, "value", 9) <= 8:
            return None
        return Failure({loop: "too long"}, "at most 8 iterations", str(loop.extent))

    @primitive(aka={"Nobody": "mark_loop"}, requires=[short])
    def mark_short(state: ScheduleState, loop: For, word: str = "short") -> For:
        """Mark a short loop."""
        marked = For(loop.var, loop.start, loop.extent, loop.kind, loop.body, loop.thread, {word: 1})
        state.replace({loop: marked})
        return marked

    @mark_short.space
    def _(state: ScheduleState) -> Any:
        return ((loop,) for loop in state.tree().loops.values())

    try:
        sch = Schedule(programs.matmul(8, 12, 4))
        assert [call.text for call in sch.space("mark_short")] == ["mark_short(i)", "mark_short(k)"]
        i, j, _ = sch.get_loops("C")
        sch.mark_short(i, word="x")
        assert sch.get(i).annotations == {"x": 1}
        verify_trace_roundtrip(sch, programs.matmul(8, 12, 4))
        with pytest.raises(
            ScheduleError, match=r"mark_short\(j\): short +\[step 4 of the trace\][\s\S]*wanted: at most 8"
        ):
            sch.mark_short(j)
        assert "extent(loop) <= 8" in document("mark_short")
        assert "Nobody `mark_loop`" in document("mark_loop")
    finally:
        del PRIMITIVES["mark_short"]
        del Schedule.mark_short


def test_documents_of_all_primitives() -> None:
    for name, registered in PRIMITIVES.items():
        text = document(name)
        assert text.startswith(f"{name}(")
        assert all(f"  {needed.name}: {needed.statement.splitlines()[0]}" in text for needed in registered.requires)
        assert all(needed.statement for needed in registered.requires)


def test_shared_statements_get_keys_of_their_own() -> None:
    """A program put together by hand from one nest twice still has one handle a loop."""
    func = program_of(on.OPAQUE)
    root = func.body
    assert isinstance(root, BlockRealize)
    twice = tir.Seq((root.block.body, root.block.body))
    sch = Schedule(tir.with_root(func.params, twice, func.attrs))
    first, second = sch.get_child_blocks("root")
    assert len({*sch.get_loops(first), *sch.get_loops(second)}) == 4


def test_no_file_is_a_kitchen_sink() -> None:
    """A family of primitives a file, and none of them longer than people read; docstrings do not count."""

    def lines(text: str) -> int:
        documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
        nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, documented) and ast.get_docstring(node)]
        docstrings = [node.body[0] for node in nodes]
        return len(text.splitlines()) - sum((d.end_lineno or d.lineno) - d.lineno + 1 for d in docstrings)

    folder = Path(tir.schedule.__file__).parent
    assert {p.name: n for p in folder.rglob("*.py") if (n := lines(p.read_text())) > 480} == {}


def test_a_removed_handle_is_refused_until_a_query_gives_it_again() -> None:
    sch = Schedule(programs.matmul(), seed=1)
    block = sch.get_block("C")
    loop = sch.get_loops(block)[0]
    tile = sch.sample_categorical([2, 4], [0.5, 0.5])
    for handle, name in ((block, "C"), (loop, "i"), (tile, tile.name)):
        sch.remove_rv(handle)
        with pytest.raises(ScheduleError, match=f"the handle of {name} was removed from the schedule"):
            sch.get(handle)
    with pytest.raises(ScheduleError, match="was removed"):
        sch.unroll(loop)
    with pytest.raises(ScheduleError, match="was removed"):
        sch.remove_rv(loop)
    kept = sch.copy()
    assert sch.get_loops("C")[0] == loop  # a name finds the block as ever
    sch.unroll(loop)
    with pytest.raises(ScheduleError, match="was removed"):
        kept.unroll(loop)
    with pytest.raises(ScheduleError, match="not part of this schedule"):
        sch.remove_rv(Schedule(programs.chain()).get_block("B"))


def test_spaces_offer_no_map_over_an_extent_that_is_a_variable() -> None:
    """Loops of a triangle and symbolic dimensions: `n - 1 - i0` is no map of i0 alone."""

    @T.prim_func
    def triangle(a: T.handle, b: T.handle):
        n = T.int32()
        A, B = T.match_buffer(a, (n, n)), T.match_buffer(b, (n, n))
        for i in range(n):
            for j in range(i + 1):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = A[vi, vj] + 1.0

    for call in Schedule(triangle).space("transform_block_layout"):
        Schedule(triangle).call(call.primitive, call.arguments)
