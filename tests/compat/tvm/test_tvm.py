"""A real TVM beside us: programs there and back, traces both ways, and what becomes of refusals, crashes and hangs."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitvm.compat.tvm.bridge import RealTVM, ScheduleStep, StepResult, TVMCrash, TVMRefusal, steps_of
from minitvm.errors import InputError, MissingExtra
from minitvm.expr import Expr, Var, const, first_difference, structural_equal
from minitvm.reference.strategies import exprs, prim_funcs, scheduled
from minitvm.script import ir as I
from minitvm.script import tir as T
from minitvm.tir.nodes import Buffer, BufferStore, IRModule, PrimFunc, with_root
from minitvm.tir.schedule import Schedule, Trace

from .tvm_installed import needs_tvm, real  # noqa: F401 - a fixture

ATTRS = {"global_symbol": "main", "tir.noalias": True}


@T.prim_func
def matmul(A: T.Buffer((8, 4), "float32"), B: T.Buffer((4, 6), "float32"), C: T.Buffer((8, 6), "float32")):
    for i, j, k in T.grid(8, 6, 4):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


# ---- there and back ------------------------------------------------------------------------------------------------


def assert_comes_back(real: RealTVM, func: PrimFunc | IRModule) -> None:  # noqa: F811
    again = real.roundtrip(func)
    if structural_equal(func, again):
        return
    # Declared regions whose ends are long expressions: TVM simplifies `stop - start` when it reads them.
    where = str(first_difference(func, again))
    assert ".reads" in where or ".writes" in where, f"{where}\n{func.script()}\n{again.script()}"
    assert real.equal(func, again), f"{where}\n{func.script()}\n{again.script()}"


@needs_tvm
@settings(max_examples=40)
@given(func=prim_funcs())
def test_programs_come_back(real: RealTVM, func: PrimFunc) -> None:  # noqa: F811
    assert structural_equal(real.roundtrip(func), func)


@needs_tvm
@settings(max_examples=20)
@given(func=prim_funcs(symbolic=True))
def test_symbolic_programs_come_back(real: RealTVM, func: PrimFunc) -> None:  # noqa: F811
    assert structural_equal(real.roundtrip(func), func)


@needs_tvm
@settings(max_examples=40)
@given(pair=scheduled())
def test_scheduled_programs_come_back(real: RealTVM, pair: Any) -> None:  # noqa: F811
    assert_comes_back(real, pair.after)


@pytest.mark.full
@needs_tvm
@settings(max_examples=600)
@given(pair=scheduled(max_steps=8))
def test_much_scheduled_programs_come_back(real: RealTVM, pair: Any) -> None:  # noqa: F811
    assert_comes_back(real, pair.after)


VARIABLES = [Var("i"), Var("j"), Var("x", "float32"), Var("h", "float16"), Var("l", "int64"), Var("u", "uint8")]


@needs_tvm
@settings(max_examples=60)
@given(value=st.sampled_from(["int32", "int64", "float32", "float16", "bool"]).flatmap(
    lambda dtype: exprs([v for v in VARIABLES if v.dtype != "uint8"], dtype, max_depth=4)
))  # fmt: skip
def test_expressions_come_back(real: RealTVM, value: Expr) -> None:  # noqa: F811
    """Also those that TVM would work out while it reads them: `x + 0`, `T.min(i, i)`, `2 < 3`.

    (TVM refuses to build a difference of unsigned constants that is negative, so there are none here.)
    """
    out = Buffer("out", (const(1),), value.dtype)
    func = with_root((out, *VARIABLES), BufferStore(out, value, (const(0),)), ATTRS)
    assert structural_equal(real.roundtrip(func), func)


@needs_tvm
def test_all_statements_come_back(real: RealTVM) -> None:  # noqa: F811
    @I.ir_module
    class Module:
        @T.prim_func
        def main(a: T.handle, b: T.handle, n: T.int32):
            T.func_attr({"tir.noalias": True})
            m = T.int32(is_size_var=True)
            q = T.int64(is_size_var=True)
            A = T.match_buffer(a, (m, 4), "float32", strides=(n, 1))
            B = T.match_buffer(b, (q,), "int64", scope="shared", align=128)
            C = T.alloc_buffer((8, 4), "float16", scope="local")
            for i in T.serial(2, 7, annotations={"x": 1, "y": [1, 2], "z": "s", "w": 1.5}):
                with T.block("B"):
                    vi = T.axis.spatial((2, 7), i)
                    vj = T.axis.opaque(3, 0)
                    vk = T.axis.reduce(T.int64(3), T.int64(0))
                    T.where(i < 5)
                    T.reads(A[vi, 0:4], B[vk])
                    T.writes(C[vi, 0:4])
                    T.block_attr({"x": 1, "k": {"a": 1}})
                    E = T.match_buffer(A[vi, 0:4], (4,), strides=(1,))
                    F = T.alloc_buffer((4,))
                    with T.init():
                        C[vi, vj] = T.float16(0)
                    while C[vi, 0] < T.float16(3):
                        C[vi, 0] = C[vi, 0] + T.float16(1)
                    if vi < 3:
                        C[vi, 1] = T.float16(3)
                    elif vi < 5:
                        C[vi, 1] = T.float16(5)
                    else:
                        x: T.int32 = vi * 3
                        F[0] = E[1]
                        C[vi, 2] = T.Cast("float16", x)
            for i in T.thread_binding(4, thread="threadIdx.x"):
                for j in T.vectorized(4):
                    for k in T.unroll(2):
                        for l in T.parallel(3, 5):
                            T.evaluate(i + j + k + l)
                            T.tvm_storage_sync("shared")

        @T.prim_func(private=True)
        def other(A: T.Buffer((), "float32"), P: T.Buffer((4,), "float32", strides=(1,)), K: T.Buffer((1,), "bool")):
            A[()] = T.exp(P[0]) + T.float32("-inf") * T.float32(1e-30)
            K[0] = T.bool(True) and T.isnan(A[()])

    assert_comes_back(real, Module)


@needs_tvm
def test_dimensions_without_a_parameter_of_their_own(real: RealTVM) -> None:  # noqa: F811
    """TVM prints these as strings in the signature, int64 ones as type variables above the function."""

    @T.prim_func
    def main(a: T.handle, b: T.handle):
        m = T.int32(is_size_var=True)
        q = T.int64(is_size_var=True)
        A = T.match_buffer(a, (m, q))
        B = T.match_buffer(b, (m, q))
        for i, j in T.grid(m, q):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]

    text = real.script(main)
    assert 'TypeVar("q")' in text
    assert '"m"' in text
    assert structural_equal(real.roundtrip(main), main)


@needs_tvm
def test_a_program_that_tvm_refuses(real: RealTVM) -> None:  # noqa: F811
    with pytest.raises(TVMRefusal, match="T.no_such_thing"):
        real.script("@T.prim_func(s_tir=True)\ndef main():\n    T.no_such_thing()")
    assert structural_equal(real.roundtrip(matmul), matmul)  # and goes on


# ---- schedules and traces ------------------------------------------------------------------------------------------

SHARED = ("split", "fuse", "reorder", "unroll", "vectorize", "parallel", "cache_read", "cache_write", "compute_inline",
          "decompose_reduction")  # fmt: skip


@needs_tvm
def test_the_same_steps_give_the_same_program(real: RealTVM) -> None:  # noqa: F811
    sch = Schedule(matmul)
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    outer, inner = sch.split(j, factors=[None, 4])
    sch.reorder(outer, k, inner)
    sch.vectorize(inner)
    sch.parallel(i)
    sch.cache_read(block, 1, "shared")
    sch.decompose_reduction(block, k)
    assert structural_equal(real.schedule(matmul, sch.trace), sch.mod)


@needs_tvm
@settings(max_examples=20)
@given(pair=scheduled(None, *SHARED, max_steps=4))
def test_traces_go_there_and_come_back(real: RealTVM, pair: Any) -> None:  # noqa: F811
    """Our JSON replays over there to what our steps give there; what TVM writes of that replays here, to the same."""
    trace: Trace = pair.schedule.trace
    try:
        stepwise = real.schedule(pair.before, trace)
    except TVMRefusal:
        return  # TVM is stricter at times, and says so at the same step of the JSON
    replayed, json = real.replay(pair.before, trace)
    assert structural_equal(stepwise, replayed)
    again = Schedule(pair.before)
    Trace.apply_json_to_schedule(json, again)
    assert structural_equal(again.mod, pair.schedule.mod)


@needs_tvm
def test_sampled_decisions_go_there_and_come_back(real: RealTVM) -> None:  # noqa: F811
    sch = Schedule(matmul, seed=3)
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    sch.split(i, sch.sample_perfect_tile(i, 2, 8))
    sch.split(j, sch.sample_partitioned_tile(j, 2, 1, 2))
    sch.annotate(block, "chosen", sch.sample_categorical([1, 2, 4], [0.2, 0.3, 0.5]))
    sch.annotate(k, "note", "text")
    sch.storage_align(sch.cache_read(block, 0, "shared"), 0, 0, 8, 1)
    sch.enter_postproc()
    there, json = real.replay(matmul, sch.trace)
    assert json[1] == sch.trace.as_json()[1]
    assert structural_equal(there, real.schedule(matmul, sch.trace))
    again = Schedule(matmul)
    Trace.apply_json_to_schedule(json, again)
    assert structural_equal(again.mod, sch.mod)


@needs_tvm
def test_a_trace_that_tvm_wrote_loads_here(real: RealTVM) -> None:  # noqa: F811
    remote = real.open(matmul)
    text = ""
    for step in (
        ScheduleStep("get_sblock", (), {"name": "C"}, ("b0",)),
        ScheduleStep("get_loops", (), {"block": StepResult("b0")}, ("l1", "l2", "l3")),
        ScheduleStep("split", (), {"loop": StepResult("l1"), "factors": [None, 2]}, ("l4", "l5")),
        ScheduleStep("reorder", (StepResult("l4"), StepResult("l2"), StepResult("l5")), {}, ()),
        ScheduleStep("annotate", (), {"block_or_loop": StepResult("b0"), "ann_key": "note", "ann_val": "text"}, ()),
        ScheduleStep(
            "cache_write", (), {"block": StepResult("b0"), "write_buffer_index": 0, "storage_scope": "local"}, ("b6",)
        ),
        ScheduleStep("reverse_compute_at", (), {"block": StepResult("b6"), "loop": StepResult("l4")}, ()),
    ):
        text = remote.call(step)
    sch = Schedule(matmul)
    Trace.apply_json_to_schedule(remote.trace(), sch)
    assert structural_equal(real.roundtrip(sch.mod), sch.mod)
    assert real.equal(sch.mod, text)


@needs_tvm
def test_a_step_that_tvm_refuses_changes_nothing(real: RealTVM) -> None:  # noqa: F811
    remote = real.open(matmul)
    remote.call(ScheduleStep("get_sblock", (), {"name": "C"}, ("b0",)))
    before = remote.call(ScheduleStep("get_loops", (), {"block": StepResult("b0")}, ("l1", "l2", "l3")))
    with pytest.raises(TVMRefusal, match="ScheduleError"):
        remote.call(ScheduleStep("reverse_compute_inline", (), {"block": StepResult("b0")}, ()))
    assert remote.call(ScheduleStep("get_loops", (), {"block": StepResult("b0")}, ("l4", "l5", "l6"))) == before


@needs_tvm
def test_another_number_of_results_is_told(real: RealTVM) -> None:  # noqa: F811
    remote = real.open(matmul)
    remote.call(ScheduleStep("get_sblock", (), {"name": "C"}, ("b0",)))
    with pytest.raises(InputError, match="get_loops gives another number of results in TVM\n  wanted: 1\n  found:  3"):
        remote.call(ScheduleStep("get_loops", (), {"block": StepResult("b0")}, ("l1",)))


# ---- the process ---------------------------------------------------------------------------------------------------


@needs_tvm
def test_a_crash_is_told_and_survived() -> None:
    with RealTVM() as real:  # noqa: F811
        remote = real.open(matmul)
        with pytest.raises(TVMCrash, match="TVM's process ended with SIGABRT at `crash`") as told:
            real._ask("crash")
        assert told.value.signal == "SIGABRT"
        assert structural_equal(real.roundtrip(matmul), matmul)  # in a new process
        with pytest.raises(TVMCrash, match="went with the process"):
            remote.trace()


@needs_tvm
def test_a_hang_is_told_and_survived() -> None:
    with RealTVM(timeout=20.0) as real:  # noqa: F811
        real._timeout = 0.3
        with pytest.raises(TVMCrash, match="did not answer within 0.3 seconds") as told:
            real._ask("sleep", seconds=30)
        assert told.value.signal == "timeout"
        real._timeout = 20.0
        assert structural_equal(real.roundtrip(matmul), matmul)


def test_an_interpreter_without_tvm_names_the_extra(tmp_path: Any) -> None:
    """-S -E: no site-packages, so there is no TVM, whatever is installed here."""
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S -E "$@"\n')
    bare.chmod(0o755)
    with pytest.raises(MissingExtra, match=r"Apache TVM is not installed: run  pip install 'minitvm\[tvm\]'"):
        RealTVM(python=str(bare))


def test_arguments_that_cannot_be_handed_over_are_refused() -> None:
    from minitvm.compat.tvm.bridge import encoded

    with pytest.raises(InputError, match="cannot be handed to TVM"):
        encoded(object())


def test_steps_print_as_python_for_tvm() -> None:
    sch = Schedule(matmul)
    loops = sch.get_loops(sch.get_block("C"))
    sch.split(loops[0], factors=[None, 2])
    assert [step.python() for step in steps_of(sch.trace)][-1] == (
        "l4, l5 = sch.split(loop=l1, factors=[None, 2], preserve_unit_iters=True, disable_predication=False)"
    )
