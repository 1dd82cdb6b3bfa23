"""Faults in finding blocks, loops and flows, in sampling, and in what a trace replays."""

from tests.compat.tvm.schedule.test_sampling import test_a_loop_around_only_one_of_two_consumers_is_no_place

from ..contracts import flows, samples, traces
from ..patch import Faults
from ..streams import by_hand
from ..workloads import families

SCHEDULE = "minitvm.tir.schedule."
PRIMITIVES = SCHEDULE + "primitives."
FLOWS = [flows(), flows(families("chain", "sequences"))]

BLOCK = Faults("get_block", SCHEDULE + "state", [*FLOWS, traces()])
BLOCK.edit(
    "the last block, whatever its name",
    "ScheduleState.block_named",
    "if len(matches) == 1:\n            return matches[0]",
    "if len(matches) == 1:\n            return list(tree.blocks.values())[-1]",
)
BLOCK.edit(
    "a name that another begins with",
    "ScheduleState.block_named",
    "realize.block.name == name]",
    "realize.block.name <= name][-1:]",
)
LOOPS = Faults("get_loops", PRIMITIVES + "queries", FLOWS)
LOOPS.edit("innermost first", "get_loops", "loops_above(block)", "loops_above(block)[::-1]")
LOOPS.edit("without the outermost", "get_loops", "loops_above(block)", "loops_above(block)[1:]")
CHILDREN = Faults("get_child_blocks", PRIMITIVES + "queries", FLOWS)
CHILDREN.edit("without the last", "get_child_blocks", "blocks_in(block_or_loop)", "blocks_in(block_or_loop)[:-1]")
CHILDREN.edit("in reverse", "get_child_blocks", "blocks_in(block_or_loop)", "blocks_in(block_or_loop)[::-1]")
PRODUCERS = Faults("get_producers", "minitvm.tir.analysis.block_kinds", FLOWS)
PRODUCERS.edit("of the first buffer only", "Scope.producers", "self.read(block)", "set(buffers_read(block.block)[:1])")
PRODUCERS.edit("the first only", "Scope.producers", "buffers_written(b.block))]", "buffers_written(b.block))][:1]")
CONSUMERS = Faults("get_consumers", "minitvm.tir.analysis.block_kinds", FLOWS)
CONSUMERS.edit("who reads the same", "Scope.consumers", "buffers_written(block.block)", "buffers_read(block.block)")
CONSUMERS.edit("the first only", "Scope.consumers", "self.read(b)]", "self.read(b)][:1]")
OUTPUTS = Faults("get_output_blocks", PRIMITIVES + "queries", FLOWS)
OUTPUTS.edit("intermediate blocks too", "get_output_blocks", " if scope.is_output(block)]", "]")
OUTPUTS.edit("the last only", "get_output_blocks", "if scope.is_output(block)]", "if scope.is_output(block)][-1:]")

PERFECT = Faults(
    "sample_perfect_tile", "minitvm.compat.tvm.schedule.primitives.sample", [samples("sample_perfect_tile")]
)
PERFECT.edit("the innermost too large", "sample_perfect_tile", "min(extent, most) + 1", "extent + 1")
PERFECT.edit("factors of the whole once more", "sample_perfect_tile", "extent // last, n - 1", "extent, n - 1")
PERFECT.edit("the decision forgotten", "sample_perfect_tile", "if decision is not None:", "if False:")
PARTITIONED = Faults(
    "sample_partitioned_tile", "minitvm.compat.tvm.schedule.primitives.sample", [samples("sample_partitioned_tile")]
)
PARTITIONED.edit(
    "the inner part's own factors are lost",
    "sample_partitioned_tile",
    "[a * b for a, b in",
    "[a for a, b in",
)
PARTITIONED.edit("the inner part anywhere", "sample_partitioned_tile", "extent // innerpart_factor, n)", "extent, n)")
PARTITIONED.edit("the decision forgotten", "sample_partitioned_tile", "if decision is not None:", "if False:")
CATEGORICAL = Faults(
    "sample_categorical", "minitvm.compat.tvm.schedule.primitives.sample", [samples("sample_categorical")]
)
CATEGORICAL.edit(
    "all alike",
    "sample_categorical",
    "state.random.weighted([float(p) for p in probs])",
    "state.random.below(len(probs))",
)
CATEGORICAL.edit(
    "another candidate than was decided", "sample_categorical", "int(candidates[position])", "int(candidates[0])"
)
CATEGORICAL.edit("the decision forgotten", "sample_categorical", "if decision is None else decision", "")
LOCATION = Faults(
    "sample_compute_location", "minitvm.compat.tvm.schedule.primitives.sample", [samples("sample_compute_location")]
)
LOCATION.edit(
    "loops that are not legal", "locations", 'if _legal(state, "compute_at", arguments):', "if True:",
    by=[by_hand("places", test_a_loop_around_only_one_of_two_consumers_is_no_place)],
)  # fmt: skip
LOCATION.edit(
    "inline where it is not legal", "locations", 'if _legal(state, "compute_inline", {"block": block}):', "if True:"
)
LOCATION.edit("the decision forgotten", "sample_compute_location", "if decision is None else decision", "")

POSTPROC = Faults("enter_postproc", SCHEDULE + "trace", [samples("enter_postproc")])
POSTPROC.edit(
    "what follows the mark stays", "Trace._without_postproc", "return self._insts[:position]", "return self._insts[:]"
)
POSTPROC.edit(
    "what stands before the mark goes",
    "Trace._without_postproc",
    "return self._insts[:position]",
    "return self._insts[position:]",
)

JSON = Faults("trace JSON", SCHEDULE + "trace_json", [traces(), traces("annotate", "cache_read", "split")])
JSON.edit("a decision belongs to the next instruction", "to_json", "enumerate(insts) if", "enumerate(insts, 1) if",
          by=[samples("sample_categorical")])  # fmt: skip
JSON.edit("attributes in reverse", "_row", "in inst.attrs]", "in inst.attrs[::-1]]")
