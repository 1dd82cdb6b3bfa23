"""Faults in the check that accesses are inside their buffers; and accesses outside, which it must notice at build."""

from collections.abc import Callable
from typing import Any

from minitvm import te, topi
from minitvm.lowering.function import size_conditions
from tests.tir.analysis import test_in_bounds

from ..patch import Faults
from ..streams import by_hand

_EXAMPLES = by_hand(
    "accesses",
    test_in_bounds.test_an_access_outside_is_refused_with_an_example,
    test_in_bounds.test_data_that_decide_an_index_are_refused_until_something_keeps_it_inside,
    test_in_bounds.test_a_branch_that_may_change_the_index_says_nothing_afterwards,
    test_in_bounds.test_an_init_says_nothing_of_later_iterations,
    test_in_bounds.test_a_store_through_a_view_changes_what_it_is_a_view_of,
    test_in_bounds.test_what_every_store_keeps_is_known_of_a_load,
    test_in_bounds.test_arguments_that_are_read_first_have_any_contents,
    test_in_bounds.test_conditions_by_hand,
)

WALKED = Faults("accesses", "minitvm.tir.analysis.in_bounds", [_EXAMPLES])
WALKED.edit("the upper bound is not asked for", "_Walk.inside", ", ex.LT(last, dim)):", ",):")
WALKED.edit("the last element counts as one more", "_Walk.fits", "high < extent", "high <= extent")
WALKED.edit(
    "an element keeps its value when it is stored to",
    "_Walk.forget",
    "{other: {} for other in",
    "{other: self.elements.get(other, {}) for other in",
)
WALKED.edit(
    "an init counts for all iterations",
    "_Walk.on_BlockRealize",
    "self.forget(touched_writes(block.init))",
    "",
)
WALKED.edit("a view is a buffer of its own", "_Walk.view", "self.viewed[match.buffer] =", "_ =")

KEPT = Faults("what stores keep", "minitvm.tir.analysis.invariants", [_EXAMPLES])
KEPT.edit("a guess is believed that a store refutes", "invariants", "if not wrong:", "if True:")
KEPT.edit(
    "an argument holds what the function stores", "_written_elsewhere", "b in stored and exposes(func.body, b)", "False"
)

SIZED = Faults("conditions on sizes", "minitvm.tir.analysis.size_conditions", [_EXAMPLES])
SIZED.edit(
    "the last iteration is left out",
    "_Sizes.of_variable",
    "ex.Sub(ex.Add(start_high, extent), self.number(1))",
    "ex.Sub(ex.Add(start_high, extent), self.number(2))",
)
SIZED.edit(
    "an idle loop does not excuse an access", "condition_of", "e for e in different.values() if", "e for e in () if"
)

REFUSED = Faults("accesses outside", "minitvm.lowering.function", [_EXAMPLES])
REFUSED.edit(
    "a condition on sizes is forgotten", "size_conditions", "elif not is_const(condition.inside, 1):", "elif False:"
)
REFUSED.edit(
    "an index of data is let through", "size_conditions", "if not decided or example is not None:", "if False:"
)


def _built(*shape: Any, result: Callable[[Any], Any]) -> Callable[[], None]:
    def test() -> None:
        x = te.placeholder(shape, name="x")
        assert size_conditions(te.create_prim_func([x, result(x)])) == ()

    return test


_HALO = by_hand(
    "halos",
    _built(5, 6, result=lambda x: topi.pad(x, pad_width=((1, 1), (2, 1)), pad_mode="edge")),
    _built(5, 6, result=lambda x: topi.pad(x, pad_width=((1, 1), (2, 1)), pad_mode="reflect")),
)
HALO = Faults("halos", "minitvm.topi.pad", [_HALO])
HALO.edit("an edge is one element further", "pad", "te.maximum(at, 0), extent - 1)", "te.maximum(at, 0), extent)")
HALO.edit("a reflection begins one element later", "pad", "last = 2 * (extent - 1)", "last = 2 * extent")
