"""Faults in split, fuse, reorder, the kinds of loops, and the conditions that decide on them."""

from tests.arith.test_dependence import test_the_two_libraries_agree
from tests.tir.schedule.test_mixed_loops import test_parts_of_the_loop_keep_their_order
from tests.tir.schedule.test_quick_answers import (
    test_an_element_touched_twice_is_not_touched_once,
    test_what_is_kept_for_some_loops_is_not_taken_for_others,
)
from tests.tir.transform.test_negative_extents import test_a_product_of_extents_that_does_not_fit_is_refused

from ..patch import Faults
from ..streams import by_hand
from ..workloads import families, schedules

PRIMITIVES = "minitvm.tir.schedule.primitives."
DEPENDENT = families("in_place", "shared_cells", "folds", "triangles", "sequences")

SPLIT = Faults("split", PRIMITIVES + "loops", [schedules("split"), schedules("split", wild=True)])
SPLIT.edit("predicate dropped", "split", "body = guard(body, value < loop.extent)", "pass")
SPLIT.edit(
    "one iteration too many", "split", "guard(body, value < loop.extent)", "guard(body, value < loop.extent + 1)"
)
SPLIT.edit(
    "each loop strides by the extent of the one before",
    "split",
    "zip(variables[1:], extents[1:], strict=True)",
    "zip(variables[1:], extents[:-1], strict=True)",
)
SPLIT.edit("extent rounded down", "_ceil_div", "-(-a.value // b.value)", "max(1, a.value // b.value)")
SPLIT.drop("factors that cover too little", "split", "covers")
SPLIT.drop("a loop that starts elsewhere", "split", "starts_at_zero")

FUSE = Faults("fuse", PRIMITIVES + "loops", [schedules("fuse"), schedules("fuse", of=DEPENDENT, wild=True)])
FUSE.edit("the inner loop's variable not wrapped", "fuse", "extent if k > 0 else rest", "extent if k > 1 else rest")
FUSE.edit("the outer loop runs fastest", "fuse", "reversed(list(enumerate(loops)))", "list(enumerate(loops))")
FUSE.edit("as long as the first two", "fuse", "[loops[0].extent, *counts]", "[loops[0].extent]")
FUSE.drop("an inner loop that depends on the outer", "fuse", "rectangular")
FUSE.drop("loops with others between them", "fuse", "consecutive")
FUSE.drop("a loop that starts elsewhere", "fuse", "starts_at_zero")
FUSE.drop("more iterations than its dtype counts", "fuse", "product_fits",
          by=[by_hand("products", test_a_product_of_extents_that_does_not_fit_is_refused)])  # fmt: skip

REORDER = Faults(
    "reorder",
    PRIMITIVES + "loops",
    [schedules("reorder", of=DEPENDENT, prepare=("split",)), schedules("reorder", of=DEPENDENT, wild=True)],
)
REORDER.drop("against the dependences", "reorder", "keeps_dependences")
REORDER.drop("a loop inside the one that its extent uses", "reorder", "independent_domains")
REORDER.drop("iterators that run in an order of their own", "reorder", "affine_bindings")
REORDER.edit("the outermost loop is lost", "reorder", "for loop in reversed(new)", "for loop in reversed(new[1:])")

KINDS = Faults(
    "parallel",
    PRIMITIVES + "kinds",
    [schedules("parallel"), schedules("parallel", of=DEPENDENT, prepare=("split", "reorder"))],
)
KINDS.drop("a reduction loop", "parallel", "only_spatial")
KINDS.drop("iterations that meet", "parallel", "no_races")
KINDS.drop("bindings that nobody understands", "parallel", "quasi_affine_bindings")
VECTOR = Faults(
    "vectorize",
    PRIMITIVES + "kinds",
    [schedules("vectorize"), schedules("vectorize", of=DEPENDENT, prepare=("split", "reorder"))],
)
VECTOR.drop("a reduction loop", "vectorize", "only_spatial")
VECTOR.drop("iterations that meet", "vectorize", "no_races")
VECTOR.drop("bindings that nobody understands", "vectorize", "quasi_affine_bindings")
UNROLL = Faults("unroll", PRIMITIVES + "kinds", [schedules("unroll"), schedules("unroll", of=DEPENDENT)])
UNROLL.edit("iterations in no order", "unroll", "ForKind.UNROLLED", "ForKind.VECTORIZED")
UNROLL.edit("one iteration less", "unroll", "thread=None)", "thread=None, extent=loop.extent - 1)")
BIND = Faults(
    "bind", PRIMITIVES + "kinds", [schedules("bind"), schedules("bind", of=DEPENDENT, prepare=("split", "reorder"))]
)
BIND.drop("a reduction loop", "bind", "only_spatial")
BIND.drop("iterations that meet", "bind", "no_races")
BIND.drop("bindings that nobody understands", "bind", "quasi_affine_bindings")
BIND.drop("an axis that is taken", "bind", "axis_not_taken")

ORDERS = schedules("reorder", of=families("in_place"), prepare=(), examples=300)
FOLDS = schedules("reorder", of=families("folds", "contraction"), prepare=("split", "split"), examples=300)
MIXED = by_hand("mixed loops", test_parts_of_the_loop_keep_their_order)
DECIDE = Faults("dependences", "minitvm.tir.analysis.dependences", [
    ORDERS,
    schedules("reorder", of=DEPENDENT, prepare=("split",)),
    schedules("parallel", of=DEPENDENT, prepare=("split", "reorder")),
])  # fmt: skip
DECIDE.edit(
    "reads before writes do not count",
    "conflicting_pairs",
    "if a.buffer is b.buffer and (a.is_write or b.is_write)",
    "if a.buffer is b.buffer and a.is_write and b.is_write",
)
DECIDE.edit("an access never meets itself", "conflicting_pairs", "accesses[i:]", "accesses[i + 1 :]")
DECIDE.edit("all updates of a block commute", "commute", " or not is_update(block)", "", by=[FOLDS])
DECIDE.edit("the init of an element may come at any time", "commute", "block.init is None or not _is_mixed(a.stmt)",
            "True", by=[MIXED])  # fmt: skip
DECIDE.edit("neighbours within a step are apart", "_base", "max(int(most), -int(least)) >= step", "False")
DECIDE.edit(
    "the same variable on both sides", "shown_apart", 'fresh = l.var.with_name(l.var.name + "_")', "fresh = l.var"
)
DECIDE.edit(
    "a wrapped index is injective", "injective", "return len(np.unique(table, axis=0)) == len(table)", "return True"
)
DECIDE.edit("what runs in parallel keeps its order", "reordered", "(len(after) - 1,) if parallel else ()", "()")

ONCE = Faults("dependences: elements touched once", "minitvm.tir.analysis.dependences",
              [by_hand("touched once", test_an_element_touched_twice_is_not_touched_once)])  # fmt: skip
ONCE.edit("values out of the domains", "_iterates_once", "analyzer.can_prove(it.dom.start <= value) and", "True or")
ONCE.edit("iterators that loops leave", "_iterates_once", "if not iteration_map(", "if () and not iteration_map(")
ONCE.edit("iterators that no index names", "_indices_tell", "single and named and (", "single and (not named or ")
ONCE.edit("loops for which nothing was shown", "touched_once", "any(running <= others", "any(running or others",
          by=[by_hand("kept for other loops", test_what_is_kept_for_some_loops_is_not_taken_for_others)])  # fmt: skip
ONCE.edit("indices that tell nothing", "_differ", ") is None", ") is not None")

ISL = Faults("dependences (integer sets)", "minitvm.arith.dependence", [
    ORDERS,
    schedules("reorder", of=DEPENDENT, prepare=("split",)),
    schedules("parallel", of=DEPENDENT, prepare=("split", "reorder")),
])  # fmt: skip
ISL.edit(
    "only two writes conflict",
    "find_dependence",
    "not (source.write or sink.write)",
    "not (source.write and sink.write)",
)
SETS = Faults("integer sets", "minitvm.arith.integer_sets",
              [by_hand("two libraries", test_the_two_libraries_agree)])  # fmt: skip
SETS.edit("isl reads a negation as what it negates", "_isl_text", 'f"(not {texts[0]})"', 'f"({texts[0]})"')
SETS.edit("z3 rounds quotients up", "_z3_formula", "a / b,", "-(-a / b),")

STATE = Faults("schedule state", "minitvm.tir.schedule.state", [schedules("split", "fuse"), schedules("compute_at")])
STATE.edit(
    "a loop's range one short",
    "tidy",
    "analyzer.bind(stmt.var, Range(start, shown))",
    "analyzer.bind(stmt.var, Range(start, shown - 1))",
)
