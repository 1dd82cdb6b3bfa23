"""Faults that programs of ten lines show: loops from anywhere, extents of none, what changes beside a reader."""

import pytest

from tests.tir.transform.test_negative_extents import test_loops_run_as_often_as_they_did
from tests.tir.transform.test_unswitch_repeats import test_both_versions_are_right

from ..patch import Faults
from ..siblings import as_written
from ..streams import by_hand
from ..workloads import families

TRANSFORM = "minitvm.tir.transform."
SHIFTED, EMPTY, BESIDE, THREADS, REWRITTEN, WIDE, LANES, SCRATCH = (
    as_written(families(name), examples=60, shrink=False)
    for name in ("shifted", "empty_inside", "beside", "thread_sums", "rewritten", "wide_init", "lanes", "scratch")
)
CUT, SHARED = (as_written(families(name), examples=150, shrink=False) for name in ("cut", "shared"))
SUMS = [WIDE, LANES, EMPTY, SHIFTED, REWRITTEN]

SIZES = ((37, 37), (37, 1), (1, 37))
REPEATED = by_hand("operands that repeat", lambda: [test_both_versions_are_right(sizes) for sizes in SIZES])
REPEATS = Faults("small: unswitch_repeats", TRANSFORM + "unswitch_repeats", [REPEATED])
REPEATS.edit("the versions change places", "_versions", "with_answer(True), with_answer(False)",
             "with_answer(False), with_answer(True)")  # fmt: skip
REPEATS.edit("the version for equal sizes repeats", "_versions", "if answer else", "if not answer else")

THREAD_SUMS = Faults(
    "small: lower_thread_reductions", "minitvm.machines.gpu.transform.lower_thread_reductions", [THREADS]
)
THREAD_SUMS.edit("the init under no condition of its first step", "_Share.begins",
                 "asked += [ex.substitute(c, starts) for c in conditions if uses(c, set(starts))]", "pass")  # fmt: skip
THREAD_SUMS.edit(
    "the init always runs here",
    "_Share.write",
    "begins if is_const(here, 1) else tir.If(here, begins, goes_on)",
    "begins",
)
THREAD_SUMS.edit(
    "the init never runs here",
    "_Share.write",
    "if reduction.block.init is not None:",
    "if reduction.block.init is None:",
)
THREAD_SUMS.edit(
    "the predicate of the update is lost",
    "_Share.update",
    "stmt if is_const(predicate, 1) else tir.If(predicate, stmt)",
    "stmt",
)
THREAD_SUMS.edit(
    "every thread of the first axis writes",
    "_Share.finish",
    "for loop in self.of.threads]\n        write",
    "for loop in self.of.threads[:1]]\n        write",
)
THREAD_SUMS.edit(
    "one axis of threads combines",
    "_Share.finish",
    "tuple(loop.var for loop in self.of.threads)",
    "tuple(loop.var for loop in self.of.threads[:1])",
)
THREAD_SUMS.edit(
    "partial results start from nothing", "_Share.start", "return _around(loops, body)", "return tir.Seq(())"
)
THREAD_SUMS.edit(
    "the first iterators only decide on the start",
    "_Share.begins",
    "for axis, value in pairs",
    "for axis, value in list(pairs)[:1]",
)

TREE = Faults("small: lower_thread_allreduce", "minitvm.machines.gpu.transform.lower_thread_allreduce", [THREADS])
TREE.edit(
    "a thread beyond the last is added", "_AllreduceLowering.by_a_tree", "if team.count % (2 * step):", "if False:"
)
TREE.edit(
    "one level too few", "_AllreduceLowering.by_a_tree", "while step < team.count:", "while step < team.count // 2:"
)
TREE.edit(
    "a bound for even teams only", "_AllreduceLowering.by_a_tree", "if team.count % (2 * step):", "if team.count % 2:"
)
TREE.edit(
    "the next neighbour in each level",
    "_AllreduceLowering.by_a_tree",
    "stmt.reducer.apply(at(me), at(me + step))",
    "stmt.reducer.apply(at(me), at(me + 1))",
)

INIT = Faults("small: lower_init", TRANSFORM + "lower_init", SUMS)
INIT.edit("a part that is not the first", "init_nest", " or not _begins(node, loops)", "")
INIT.edit("a reduction without a step", "init_nest", " or not runs", "")
INIT.edit(
    "the conditions on rows are lost",
    "init_nest",
    "BlockRealize(node.iter_values, all_of(kept),",
    "BlockRealize(node.iter_values, all_of([]),",
)
INIT.edit(
    "others touch the result",
    "_alone",
    "settled and _touches(loop.body, written) == _touches(block, written)",
    "settled",
)
INIT.edit(
    "the init comes again in each step",
    "_InitLowering.realize",
    "[ex.EQ(axis.var, axis.dom.start) for axis in block.iter_vars if axis.kind == ex.REDUCE]",
    "[]",
)
INIT.edit("what decides on it is written below", "_alone", "settled and _touches", "_touches")


def loops_of_negative_extents_join() -> None:
    for n in (2, 4, 5, 9):
        with pytest.MonkeyPatch.context() as patch:
            test_loops_run_as_often_as_they_did("joined", n, patch)


JOIN = Faults("small: join_parallel_loops", TRANSFORM + "join_parallel_loops", [BESIDE, EMPTY])
JOIN.edit("loops that start elsewhere", "_may_join", "is_const(loop.start, 0) and ", "")
JOIN.edit(
    "a writer of what the first reads", "_apart", "written[0] & read[1] or written[1] & read[0]", "written[0] & read[1]"
)
JOIN.edit("negative extents count", "_joined", "iterations(loop.extent).astype(loop.extent.dtype)", "loop.extent",
          by=[by_hand("loops that are joined", loops_of_negative_extents_join)])  # fmt: skip
JOIN.edit("only the last loop is asked", "_visit", "for earlier in together)", "for earlier in together[-1:])")
JOIN.edit("what both write is apart", "_apart", "is None", "is not None")

VECTOR = Faults(
    "small: vector_reductions", "minitvm.machines.simd.transform.vector_reductions", [LANES, SHIFTED, EMPTY]
)
VECTOR.edit("the tail from 0", "_rewritten", "fold(start + steps * lanes, {})", "fold(steps * lanes, {})")
VECTOR.edit("the main part from 0", "_rewritten", "outer * lanes + start", "outer * lanes")
VECTOR.edit("one lane more of the tail", "_rewritten", "LT(lane, limit)", "LT(lane, limit + 1)")
VECTOR.edit("products from 0", "identity", "const(int(kind is Mul), dtype)", "const(0, dtype)")
VECTOR.edit(
    "maxima from the highest",
    "identity",
    "lowest(dtype) if kind is Max else highest(dtype)",
    "highest(dtype) if kind is Max else lowest(dtype)",
)
VECTOR.edit("the tail is dropped", "_rewritten", "None if is_const(rest, 0) else", "None if True else")

UNROLL = Faults("small: unroll", TRANSFORM + "unroll", [SHIFTED, WIDE, REWRITTEN])
UNROLL.edit("from 0 wherever it starts", "_unroll", "const(first + i, stmt.var.dtype)", "const(i, stmt.var.dtype)")

HOIST = Faults("small: hoist_conditions", TRANSFORM + "hoist_conditions", [WIDE, EMPTY, REWRITTEN, SHIFTED])
HOIST.edit(
    "an init without a first step",
    "_init_first",
    "if count is None or count[0] < 1:",
    "if count is not None and count[0] < 1:",
)

SEPARATE = Faults("small: separate_allocations", TRANSFORM + "separate_allocations", [SCRATCH])
SEPARATE.edit("parts from where a loop starts", "in_own_part", "(loop.var - loop.start)", "loop.var")
SEPARATE.edit("lanes from where a loop starts", "in_own_lane", "(loop.var - loop.start)", "loop.var")
SEPARATE.edit("negative extents count", "widened", "iterations(loop.extent)", "loop.extent")

SHORTEN = Faults("small: shorten_loops", TRANSFORM + "shorten_loops", [CUT])
SHORTEN.edit("an end that moves with the loop", "_bound", "if moves(rest, [var]):", "if False:")
SHORTEN.edit("an end that is rounded down", "_bound", "step - 1 - rest.const", "-rest.const")

BARRIERS = Faults("small: insert_barriers", "minitvm.machines.gpu.transform.insert_barriers", [SHARED])
BARRIERS.edit(
    "the head of the same iteration",
    "_Threads.waits_between",
    "t.at({loop.var: loop.var + 1})",
    "t.at({loop.var: loop.var})",
)
BARRIERS.edit("the tail of a double buffer", "_Threads.waits_between", "places[-1] + 1 :", "places[-1] + 2 :")
BARRIERS.edit(
    "only iterations two apart meet",
    "_Threads.meet_later",
    "start=ex.const(1, ahead.dtype)",
    "start=ex.const(2, ahead.dtype)",
)
BARRIERS.edit(
    "one barrier for iterations two apart",
    "_Threads.one_barrier",
    "start=ex.const(1, shift.dtype)",
    "start=ex.const(2, shift.dtype)",
)
BARRIERS.edit("only the last statement is asked", "_Threads.sequence", "[*earlier, *own]", "own")
