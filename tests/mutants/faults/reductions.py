"""Faults in reductions over threads: in what a thread does of one, and in how threads combine."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from minitvm import te
from minitvm.script import from_source
from minitvm.target import Target
from minitvm.tir.nodes import PrimFunc
from minitvm.tir.schedule import Schedule
from minitvm.tir.transform import lower

from ..oracle import Trial, Workload, drawn
from ..patch import Faults


def _scaled(n: int, m: int) -> PrimFunc:
    a = te.placeholder((m, n), "int32", name="A")
    k = te.reduce_axis((0, n), name="k")
    total = te.compute((m,), lambda i: te.sum(a[i, k], axis=k), name="C")
    return te.create_prim_func([a, te.compute((m, 4), lambda i, j: total[i] * 2 + j, name="D")])


def _rows(target: str) -> Workload:
    def body(trial: Trial, draw: Any) -> None:
        threads = draw(st.sampled_from((20, 40, 8, 64, 5)))
        func = _scaled(draw(st.integers(threads + 1, 90)), 2)
        sch = Schedule(func)
        i, k = sch.get_loops("C")
        if draw(st.booleans()):
            sch.decompose_reduction("C", k)
        sch.bind(i, "blockIdx.x")
        sch.bind(sch.split(k, [None, threads])[1], "threadIdx.x")
        trial.same(func, lower(sch.func, Target(target)), level="kernel")

    return drawn(f"sums by threads for {target}", body, 20)


def _everybody() -> Workload:
    """Threads that all use what they have combined."""

    def body(trial: Trial, draw: Any) -> None:
        threads = draw(st.integers(2, 9))
        func = from_source(f"""
@T.prim_func
def main(A: T.Buffer(({threads},), "int32"), B: T.Buffer(({threads},), "int32")):
    R = T.alloc_buffer((1,), "int32", scope="local")
    for t in T.thread_binding({threads}, thread="threadIdx.x"):
        with T.attr(T.comm_reducer(lambda x, y: x + y, [0]), "reduce_scope", T.reinterpret("handle", T.uint64(0))):
            T.tvm_thread_allreduce(T.uint32(1), A[t], t > 0, R[0], t)
        B[t] = R[0] - A[t]
""")
        assert isinstance(func, PrimFunc)
        trial.same(func, lower(func), level="kernel")

    return drawn("all-reductions of texts", body, 10)


TREE, WARPS = _rows("opencl"), _rows("cuda")
SHARES = Faults("lower_thread_reductions", "minitvm.machines.gpu.transform.lower_thread_reductions", [TREE])
SHARES.edit("partial results that start nowhere", "_Lowering.nest", "*(share.start() for share in shares), ", "")
SHARES.edit(
    "a share beyond the end", "_Share.update", "return stmt if is_const(predicate, 1) else", "return stmt if True else"
)
SHARES.edit(
    "all threads write the result", "_Share.finish", "write = tir.If(all_of(alone), ", "write = tir.If(ex.const(True), "
)
COMBINED = Faults("lower_thread_allreduce, a tree", "minitvm.machines.gpu.transform.lower_thread_allreduce", [TREE])
COMBINED.edit("a partner beyond the end", "_AllreduceLowering.by_a_tree", "if team.count % (2 * step):", "if False:")
COMBINED.edit(
    "the last partial is lost",
    "_AllreduceLowering.by_a_tree",
    "me + step, const(team.count)",
    "me + step + 1, const(team.count)",
)
COMBINED.edit("a wrong offset", "_AllreduceLowering.by_a_tree", "at(me + step))", "at(me + 1))")
ALL = Faults(
    "lower_thread_allreduce, all threads", "minitvm.machines.gpu.transform.lower_thread_allreduce", [_everybody()]
)
ALL.edit(
    "no broadcast",
    "_AllreduceLowering.by_a_tree",
    "in zip(own, at(const(0)), strict=True)]",
    "in zip(own, at(me), strict=True)]",
)
ALL.edit(
    "the condition is forgotten",
    "_AllreduceLowering.lowered",
    "if not is_const(stmt.condition, 1) else v",
    "if False else v",
)
SHUFFLED = Faults("lower_thread_allreduce, shuffles", "minitvm.machines.gpu.transform.lower_thread_allreduce", [WARPS])
SHUFFLED.edit("a wrong offset", "_down", "step *= 2", "step *= 4")
SHUFFLED.edit("lanes of no number of two reads beyond the last", "_down", "smaller(lane + step, last)", "lane + step")
SHUFFLED.edit("lanes add themselves", "_down", "if not whole:", "if False:")
SHUFFLED.edit(
    "a mask with a lane more", "_Warps.of", "IntImm((1 << team.count) - 1,", "IntImm((1 << team.count + 1) - 1,"
)
SHUFFLED.edit(
    "the other warps are left out",
    "_AllreduceLowering.by_shuffles",
    "LT(lane, const(count)), total",
    "LT(lane, const(1)), total",
)
