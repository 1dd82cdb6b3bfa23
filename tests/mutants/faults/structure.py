"""Faults in the primitives that take reductions, padding and loops apart, and put them together."""

from tests.tir.schedule.test_reductions import sums_of_nothing
from tests.tir.schedule.test_rfactor import test_rfactor_of_an_imperfect_split

from ..patch import Faults
from ..streams import by_hand
from ..workloads import families, primitive, schedules

PRIMITIVES = "minitvm.tir.schedule.primitives."
DEPENDENT = families("in_place", "sequences", "running", "carried")

RFACTOR = Faults("rfactor", PRIMITIVES + "rfactor", [primitive("rfactor"), primitive("rfactor", wild=True)])
RFACTOR.edit(
    "every part is the first",
    "_combination",
    "_with_axis(e.indices, slot, e.place(axis))",
    "_with_axis(e.indices, loop.start, e.place(axis))",
)
RFACTOR.edit(
    "parts that were never started",
    "_where_started",
    "return all_of(kept)",
    "return all_of([])",
    by=[schedules("rfactor", of=families("contraction", "reduction"), prepare=("split", "split"))],
)
RFACTOR.drop(
    "a loop that binds spatial iterators too",
    "rfactor",
    "binds_only_reduction",
    by=[schedules("rfactor", of=families("contraction"), prepare=("split", "fuse"), wild=True)],
)
RFACTOR.drop("a loop that starts elsewhere", "rfactor", "starts_at_zero")
RFACTOR.drop("a reduction that does not come first", "rfactor", "first_below")
RFACTOR.drop("iterations that add to several sums", "rfactor", "each_point_once")
ROUNDED = ("field", "floats", "bound", "shadow")
PASSES = Faults(
    "reduce_in_passes", PRIMITIVES + "reduce_in_passes", [primitive("reduce_in_passes", modes=ROUNDED, examples=40)]
)
PASSES.edit(
    "weights the wrong way round",
    "reduce_in_passes",
    "relative.weight(score, reference.old)",
    "relative.weight(reference.old, score)",
)
PASSES.edit("what is summed is not weighted", "reduce_in_passes", "else operand * weight", "else operand")
PASSES.edit(
    "sums without the predicate",
    "reduce_in_passes",
    "(l.var for l in element.loops)), block.predicate, old)",
    "(l.var for l in element.loops)), ex.const(True), old)",
)
PASSES.edit(
    "sums that start from the maximum's start",
    "reduce_in_passes",
    "BufferStore(element.buffer, element.init, element.indices)",
    "BufferStore(element.buffer, reference.init, element.indices)",
)
UPDATES = Faults(
    "rows of a reduction", "minitvm.tir.analysis.updates", [by_hand("axes", test_rfactor_of_an_imperfect_split)]
)
UPDATES.edit(
    "the last axis comes before the last",
    "AccumulatedElement.place",
    "places[-1] + 1 if places",
    "places[-1] if places",
)
EPILOGUE = Faults(
    "fuse_reduction_epilogue", "minitvm.compat.tvm.schedule.primitives.epilogue", [primitive("fuse_reduction_epilogue")]
)
EPILOGUE.edit(
    "the addend is lost",
    "fuse_reduction_epilogue",
    "started = BufferStore(store.buffer, start, indices)",
    "started = BufferStore(store.buffer, old.init.value, indices)",
)
EPILOGUE.edit(
    "the addend in the epilogue's iterators",
    "fuse_reduction_epilogue",
    "_start(ex.substitute(addend[1], points) if",
    "_start(addend[1] if",
)
EPILOGUE.drop("an addend that comes later", "fuse_reduction_epilogue", "addend_ready")
PADDING = Faults("decompose_padding", "minitvm.tir.schedule.primitives.padding", [primitive("decompose_padding")])
PADDING.edit("the inside one short", "_bound", "rest // -slope.value + 1)", "rest // -slope.value)")
PADDING.edit(
    "the inside at the start", "_inside_only", "shifted[it.var] = it.var + part.start", "shifted[it.var] = it.var + 0"
)
PADDING.edit(
    "the pad in place of the value", "decompose_padding", "store, value.args[1], inside", "store, value.args[2], inside"
)
PADDING.edit(
    "a bound between two multiples is rounded down", "_bound", "(-rest + (slope.value - 1)) // slope.value",
    "(-rest) // slope.value",
)  # fmt: skip
PADDING.drop("a loop that holds more than the block", "decompose_padding", "only_loops_below")
EINSUM = Faults("pad_einsum", "minitvm.tir.schedule.primitives.pad_einsum", [primitive("pad_einsum")])
EINSUM.edit(
    "a maximum padded with the greatest",
    "_neutral",
    "dtype.min if kind is ex.Max else dtype.max",
    "dtype.max if kind is ex.Max else dtype.min",
)
EINSUM.edit("reads one past the end", "_copy_in", "v < d for v", "v <= d for v")
EINSUM.edit("the padding counts", "_copy_in", "ex.const(pad, source.dtype)", "ex.const(1, source.dtype)")
EINSUM.drop("a buffer of another shape", "pad_einsum", "one_shape_each")
EINSUM.drop("copies of elements without values", "pad_einsum", "copies_have_values")
EINSUM.drop("loops that do not run", "pad_einsum", "iterates", by=[by_hand("sums of nothing", sums_of_nothing)])
ZEROS = Faults("skip_zero_terms", PRIMITIVES + "zero_terms", [primitive("skip_zero_terms")])
ZEROS.edit("terms beyond the last one count", "skip_zero_terms", "if extent % step:", "if False:")
ZEROS.edit("one term too few", "skip_zero_terms", "-(-extent // step)", "max(1, extent // step)")
PATTERNS = Faults("patterns of zeros", "minitvm.tir.analysis.zero_patterns", [primitive("skip_zero_terms")])
PATTERNS.edit("the phase of another tap", "ZeroPattern.first", "-pow(self.times, -1, self.step)", "-self.times")
PATTERNS.edit("any fill is zero", "_or_zero", " and other.value == 0", "")
ROLLING = Faults(
    "rolling_buffer",
    PRIMITIVES + "rolling_buffer",
    [primitive("rolling_buffer"), primitive("rolling_buffer", wild=True)],
)
ROLLING.edit(
    "nothing is computed at first",
    "_roll",
    "roll.loop.var < roll.loop.start + 1",
    "roll.loop.var < roll.loop.start",
)
ROLLING.edit("loops begin at zero", "_roll", "roll.loop.start + 1", "1")
ROLLING.edit("one too few of the new elements", "_roll", "place >= roll.overlap", "place >= roll.overlap + 1")
ROLLING.edit("around a smaller circle", "_wrapped", "r.start % roll.extent", "r.start % (roll.extent - 1)")
ROLLING.drop("elements that several iterations make", "rolling_buffer", "one_point_an_element")
ROLLING.drop("loops against the order of the windows", "rolling_buffer", "loops_in_order")
ROLLING.drop("inputs that change meanwhile", "rolling_buffer", "inputs_stay")
MERGE = Faults(
    "merge",
    PRIMITIVES + "partition",
    [
        primitive("merge"),
        schedules("merge", of=families("chain", "in_place", "sequences"), prepare=()),
        schedules("merge", of=DEPENDENT, wild=True),
    ],
)
MERGE.drop("a consumer before its producer is done", "merge", "keeps_order_of_nests")
MERGE.drop("loops of other lengths", "merge", "same_extents")
MERGE.edit("in the order of the call", "_ordered", "sorted(loops, key=lambda l: tree.order[l])", "loops")
PARTITION = Faults("loop_partition", PRIMITIVES + "partition", [primitive("loop_partition")])
PARTITION.edit("parts that overlap", "_ranges", "start + sum(counts[:k])", "start + sum(counts[: max(0, k - 1)])")
PARTITION.edit("one iteration less", "_copy_of_range", "ex.const(extent, dtype)", "ex.const(max(1, extent - 1), dtype)")
PARTITION.drop("a sum that starts in several parts", "loop_partition", "starts_in_one_part")
PARTITION.edit(
    "a sum that may start in a later part counts as one that does not", "_never_starts", "value > it.dom.start",
    "value >= it.dom.start",
)  # fmt: skip
ITERS = Faults(
    "reorder_block_iter_var", "minitvm.tir.schedule.primitives.block_iters", [primitive("reorder_block_iter_var")]
)
ITERS.edit(
    "values stay in their places",
    "reorder_block_iter_var",
    "iter_values=tuple(block.iter_values[k] for k in new_order)",
    "iter_values=block.iter_values",
)
ITERS.edit(
    "the last value twice",
    "reorder_block_iter_var",
    "tuple(block.iter_values[k] for k in new_order)",
    "tuple(block.iter_values[max(k, 1) if len(new_order) > 1 else k] for k in new_order)",
)
UNIT = Faults(
    "add_unit_loop",
    "minitvm.tir.schedule.primitives.block_iters",
    [primitive("add_unit_loop"), schedules("add_unit_loop", of=families("running", "in_place", "contraction"))],
)
UNIT.edit("two iterations", "add_unit_loop", "const(0), const(1)", "const(0), const(2)")
UNIT.edit("no iteration", "add_unit_loop", "const(0), const(1)", "const(0), const(0)")
