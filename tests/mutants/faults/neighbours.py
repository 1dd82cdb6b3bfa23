"""Faults that the tests next to their code once missed: code generation, links, operators, converters, schedules."""

from typing import Any

from hypothesis import strategies as st

from tests.codegen.masked_kernels import run_compiled
from tests.codegen.test_expressions import kernels as kernels_of_expressions
from tests.codegen.test_expressions import plain_alike, special_numbers
from tests.codegen.test_index_width import kernels
from tests.codegen.test_index_width import test_every_step_of_an_index_of_32_bits_fits as every_step_fits
from tests.codegen.test_random_kernels import (
    test_index_expressions_compute_what_the_interpreter_does as index_expressions_alike,
)
from tests.codegen.test_random_kernels import test_loops_of_every_form_run_their_iterations as loops_alike
from tests.executable.test_executable import test_conversions_wrap_as_those_of_numpy as conversions_wrap
from tests.executable.test_loops import levels
from tests.executable.test_loops import test_more_iterations_than_there_is_memory_for_stop_the_run as bounds_stop
from tests.frontends.onnx.random_nodes import difference, random_node
from tests.graph.passes.test_split_pool import mean_the_same, pools
from tests.graph.test_passes import LOOKS_FOR, PASSES
from tests.link.test_bounds import test_bounds_of_positions_are_what_the_cache_has_room_for
from tests.link.test_copies import test_each_kernel_finds_what_it_would_in_one_memory
from tests.lowering.test_updating import test_a_function_that_updates_its_input_means_what_it_did as updates_alike
from tests.lowering.test_updating import test_what_is_updated_is_a_part_of_what_a_function_is
from tests.machines.opencl.opencl_kernels import run_on_device
from tests.te.test_tensors import test_all_values_are_those_of_one_reduction as one_reduction
from tests.tir.schedule.test_partition_and_storage import (
    test_axes_of_storage_align_count_from_either_end as axes_of_storage_align,
)
from tests.tir.schedule.test_partition_and_storage import test_set_scope_takes_views_along
from tests.tir.transform.test_small_programs import test_parallel_loops_of_a_triangle_stay_apart
from tests.topi.conftest import run_operator
from tests.topi.test_lines import test_every_line_is_what_the_definition_says

from ..oracle import Workload, drawn
from ..patch import Faults
from ..seeded import seeded
from ..siblings import as_written
from ..streams import by_hand, holds
from ..workloads import families, graphs


def _drawn(name: str, strategy: st.SearchStrategy[Any], check: Any) -> Workload:
    """A property on 800 draws."""
    return drawn(name, lambda _, draw: (lambda case: holds(lambda: check(case)))(draw(strategy)), 800)


def _looked_for(name: str) -> Workload:
    """Graphs of what a pass looks for."""
    return graphs(PASSES[name], f"{name} of what it looks for", LOOKS_FOR[name])


def _node_alike(family: str, seed: int) -> None:
    assert difference(random_node(family, seed)) == ""


PLACES, POOLS = (
    seeded(f"ONNX nodes, {family}", lambda seed, family=family: _node_alike(family, seed), 60)
    for family in ("places", "pool")
)
VECTORS, BESIDE, REWRITTEN = (
    as_written(families(name), examples=60, shrink=False) for name in ("vectors", "beside", "rewritten")
)
LINES = by_hand("lines", lambda: test_every_line_is_what_the_definition_says(run_operator))
COPIES = by_hand("programs of two memories", test_each_kernel_finds_what_it_would_in_one_memory)
POSITIONS = by_hand("bounds of positions", test_bounds_of_positions_are_what_the_cache_has_room_for)
UPDATES = by_hand(
    "updates in place", lambda: updates_alike("all"), test_what_is_updated_is_a_part_of_what_a_function_is
)

WIDTH = Faults("neighbours: index width", "minitvm.codegen.index_width",
               [_drawn("widths of indices", kernels(), every_step_fits.hypothesis.inner_test)])  # fmt: skip
WIDTH.edit("the end of a loop does not count", "_fits",
           "_fits(node.start + node.extent, analyzer) and _fits(node.body, analyzer)",
           "_fits(node.body, analyzer)")  # fmt: skip

LOOPS = by_hand("loops of every form", lambda: loops_alike(run_compiled), lambda: loops_alike(run_on_device))
ENDS = Faults("neighbours: bounds of loops", "minitvm.codegen.emitter", [LOOPS])
ENDS.edit("a loop ends after as many as it has", "Emitter.bounds", "{self.offset(stmt)}{extent}", "{extent}")
OPENCL = Faults("neighbours: OpenCL loops", "minitvm.machines.opencl.codegen.statements", [LOOPS])
OPENCL.edit("a start that data decide counts for nothing", "_OpenCL.offset", "is_const(stmt.start, 0)",
            "not isinstance(stmt.start, ex.IntImm)")  # fmt: skip
CONVERSIONS = by_hand("large indices", *(lambda run=run: index_expressions_alike(0, run)
                                         for run in (run_compiled, run_on_device)))  # fmt: skip
NARROW = Faults("neighbours: conversions of indices", "minitvm.codegen.spelling", [CONVERSIONS])
NARROW.edit("the least value does not count", "keeps_value", "x.dtype.min <= low and high <= x.dtype.max",
            "high <= x.dtype.max")  # fmt: skip
WIDER = Faults("neighbours: indices", "minitvm.codegen.expressions", [CONVERSIONS])
WIDER.edit("no conversion changes an index", "Expressions.index",
           "is_index(x) and keeps_value(x, self.analyzer)", "is_index(x)")  # fmt: skip

PLAIN = _drawn("expressions in plain Python", kernels_of_expressions(), plain_alike)
ROUNDED = by_hand("special numbers in plain Python", lambda: plain_alike(special_numbers("float32")))
SMALL = Faults("neighbours: rewrites", "minitvm.codegen.decompose", [ROUNDED, PLAIN])
SMALL.edit("a rest has the dividend's sign", "_floored", "e.Select(corrected, rest + x.b, rest)", "rest")
SMALL.edit("a shift by the width is one by zero", "_near", "e.LE(amount, last)", "e.NE(amount, last + 2)")
SMALL.edit("halves are rounded to zero", "_rounded_away", "e.GE(", "e.GT(")

TWINS = Faults("neighbours: copies", "minitvm.link.copies", [COPIES])
TWINS.edit("what a kernel only writes is not fetched", "_Copies.twin", "if not call.first[number]:",
           'if "r" in self.kernels[call.kernel].params[number].access:')  # fmt: skip
TWINS.edit("twins live on behind a loop", "_Copies.of", "if number in ends or isinstance(step, LoopStep):",
           "if isinstance(step, LoopStep):")  # fmt: skip
TWINS.edit("other twins of what was written live on", "_Copies.call", "self.written(item, twin)", "pass")
BOUNDS = Faults("neighbours: bounds", "minitvm.link.bounds", [POSITIONS])
BOUNDS.edit("the least that is subtracted is the most", "_GraphScope.source",
            "(_simple(Sub, 0, added[1]), _simple(Sub, 0, added[0]))",
            "(_simple(Sub, 0, added[0]), _simple(Sub, 0, added[1]))")  # fmt: skip
BOUNDS.edit("a loop counts to its limit", "_scopes", "max(min(ends) - 1, 0)", "max(min(ends), 0)")
UPDATING = Faults("neighbours: updating", "minitvm.lowering.function", [UPDATES])
UPDATING.edit("the input is read later", "updating", "or _touches(rest, source)", "")
UPDATING.edit("a copy of a part", "_is_copy", "is_const(stmt.predicate, 1)\n        and ", "")
UNITS = Faults("neighbours: units", "minitvm.lowering.units", [UPDATES])
UNITS.edit("whichever input it updates", "SharedFunction.__init__", 'self.key + b"in place %d" % updated',
           'self.key + b"in place"')  # fmt: skip

SIZES = Faults("neighbours: conversions of sizes", "minitvm.executable.evaluation",
               [by_hand("conversions of sizes", lambda: conversions_wrap("int8"))])  # fmt: skip
SIZES.edit("the least integer is positive", "_cast", "wrapped >> (dtype.bits - 1)", "wrapped > (1 << dtype.bits - 1)")
SEGMENTS = Faults("neighbours: segments", "minitvm.machines.cpu.runtime.segments",
                  [by_hand("loops in loops", lambda: levels("natively nested", (1,)))])  # fmt: skip
SEGMENTS.edit("steps of inner loops come again", "_Segments.append",
              "at += 1 + (inner.steps if isinstance(inner, Loop) else 0)", "at += 1")  # fmt: skip
REPEATED = Faults("neighbours: loops of Python", "minitvm.runtime.steps",
                  [by_hand("bounds of loops", lambda: bounds_stop(1, True))])  # fmt: skip
REPEATED.edit("one iteration more than there is memory for", "BoundSteps._iterations",
              "done >= most", "done > most")  # fmt: skip

POOL = Faults("neighbours: split_pool", "minitvm.graph.passes.split_pool",
              [_drawn("pools", pools(), mean_the_same)])  # fmt: skip
POOL.edit("padding behind does not count", "_axes", "or before[axis] or after[axis]]", "or before[axis]]")
SIMPLER = Faults("neighbours: simplify", "minitvm.graph.passes.simplify",
                 [_looked_for("simplify")])  # fmt: skip
SIMPLER.edit("backwards is forwards", "_keeps_form", "any(step != 1 for step in", "any(step not in (1, -1) for step in")

CUMULATIVE = Faults("neighbours: running sums", "minitvm.topi.cumulative", [LINES])
CUMULATIVE.edit("nothing is outside of the last part of a row", "_width",
                "dividing >= _TOGETHER // 8 else (_TOGETHER, False)",
                "dividing >= _TOGETHER // 8 else (_TOGETHER, True)")  # fmt: skip
CUMULATIVE.edit("the largest so far begins at 0", "_neutral", "return lowest(dtype)", "return const(0, dtype)")
SCATTER = Faults("neighbours: scatter", "minitvm.topi.scatter", [LINES])
SCATTER.edit("nothing is outside of the last part of a row", "_by_rows",
             "if not isinstance(last, int) or last % width:", "if not isinstance(last, int):")  # fmt: skip
SCATTER.edit("one place behind the end", "_by_rows", "spot < data.shape[at].astype(spot.dtype)",
             "spot <= data.shape[at].astype(spot.dtype)")  # fmt: skip
REVERSED = Faults("neighbours: ReverseSequence", "minitvm.frontends.common.lengths", [PLACES])
REVERSED.edit("one element more is reversed", "reversed_sequences", 'n.op("less", place, size)',
              'n.op("less_equal", place, size)')  # fmt: skip
LP_POOL = Faults("neighbours: LpPool", "minitvm.frontends.onnx.ops.pooling", [POOLS])
LP_POOL.edit("the last window is divided by what it has", "lp_pool", "if windows.ceil_mode:", "if False:")

TWO_REDUCTIONS = by_hand("values of two reductions", lambda: one_reduction("where"), lambda: one_reduction("init"))
REDUCTION = Faults("neighbours: te", "minitvm.te.tensors", [TWO_REDUCTIONS])
REDUCTION.edit("whatever the condition", "_same_reduction", "and ex.structural_equal(a.condition, b.condition)", "")
REDUCTION.edit("whatever the start", "_same_reduction", "and ex.structural_equal(a.init, b.init)", "")
ALIGNED = by_hand("axes and views", lambda: axes_of_storage_align(3), test_set_scope_takes_views_along)
STORAGE = Faults("neighbours: storage", "minitvm.tir.schedule.primitives.storage", [ALIGNED])
STORAGE.edit("a negative axis is the first", "storage_align", "axis %= buffer.ndim", "axis = max(axis, 0)")
STORAGE.edit("views stay where they were", "set_scope", "moved[view] = replace(view, scope=storage_scope)", "pass")

COMPACT = Faults("neighbours: compact_buffers", "minitvm.tir.transform.compact_buffers", [VECTORS])
COMPACT.edit("a vector is as long as its first lane", "_hull", "first[1] + length[1] - 1", "first[1]")
PARALLEL = Faults("neighbours: parallel_loops", "minitvm.tir.transform.parallel_loops", [BESIDE])
PARALLEL.edit("a name moves behind the start that has it", "_sunk", "if not uses(inner.start, [own]):", "if True:")
PARALLEL.edit("triangles are fused", "_fused", "or uses(inner.extent, [outer.var])", "",
              by=[by_hand("triangles", test_parallel_loops_of_a_triangle_stay_apart)])  # fmt: skip
HOIST = Faults("neighbours: hoist_conditions", "minitvm.tir.transform.hoist_conditions", [REWRITTEN])
HOIST.edit("a condition that the loop uses up", "_unswitched", "and _moves(c)", "")
