"""Faults in what statements may and must touch."""

from tests.tir.analysis.test_effects import (
    test_a_condition_on_a_loop_says_nothing_of_another_loop_with_its_variable as of_another_loop,
)
from tests.tir.analysis.test_kernel_access import test_elements_written

from ..patch import Faults
from ..seeded import COUNTED, EFFECTS, EXPOSED, KERNEL_EFFECTS, PLACES, WHOLE_REGIONS
from ..streams import by_hand

ANALYSIS = "minitvm.tir.analysis."

TOUCH = Faults("effects: touches", ANALYSIS + "touches", [EXPOSED, COUNTED, KERNEL_EFFECTS, EFFECTS])
TOUCH.edit(
    "a guard that keeps out the last element counts as a bound",
    "Touch._cut",
    "nonnegative(beyond - slack.scaled(q))",
    "nonnegative(beyond - slack.scaled(q) + 1)",
)
TOUCH.edit(
    "a loop that may not run counts as one that does",
    "Touch._runs",
    "analyzer.can_prove(loop.extent >= 1):",
    "True:",
)
TOUCH.edit(
    "an equation leaves out nothing",
    "Touch._cut",
    "if not isinstance(condition, ex.LT | ex.LE | ex.GT | ex.GE) or not condition.a.dtype.is_int:\n"
    "            return None",
    "if not isinstance(condition, ex.LT | ex.LE | ex.GT | ex.GE) or not condition.a.dtype.is_int:\n"
    "            return []",
)
TOUCH.edit("a loop goes down as far as it goes up", "stretch", "min(0, reach)", "min(0, -reach)")
TOUCH.edit("the last iteration is left out", "stretch", "(loop.extent.value - 1)", "(loop.extent.value - 2)")
TOUCH.edit("gaps count as touched", "Touch.certain", "if not swept.exact and not (", "if False and not (")
TOUCH.edit("a view begins where its buffer does", "through_view", "r.start + own.start", "own.start")
TOUCH.edit("what data tells is known after all", "Touch.unknown", "uses(r, hidden)", "uses(r, ())")
TOUCH.edit("what data decides is sure", "Touch.unknown", "sure = self.sure and", "sure = self.sure or")

DECLARED = Faults("declared regions", ANALYSIS + "block_regions", [EFFECTS])
DECLARED.edit("the hull is as long as its first part", "_hull", "max(a.value, shift.const + b.value)", "a.value")
DECLARED.edit("the hull starts where its first part does", "_hull", "(r if shift.const < 0 else hull)", "hull")
DECLARED.edit("parts at unknown distances are one", "_hull", "return whole", "continue")

EFFECT = Faults("effects", ANALYSIS + "effects", [EXPOSED, KERNEL_EFFECTS, EFFECTS])
EFFECT.edit("a while runs once", "_effects", "effects(node.body, of).each(Touch.perhaps)", "effects(node.body, of)")
EFFECT.edit(
    "the writes of one branch are certain",
    "_effects",
    "effects(node.then_case, of).each(lambda t: guarded(t, node.condition))",
    "effects(node.then_case, of)",
)
EFFECT.edit(
    "what is looked up does not decide",
    "guarded",
    "if reads_memory(condition)",
    "if False and reads_memory(condition)",
)
EFFECT.edit(
    "what comes later in the text was written before",
    "_in_turn",
    "_behind(e, stores)",
    "_behind(e, [w for p in acting for w in p.writes])",
)
EFFECT.edit("any one side of a box is enough", "holds", "return all(", "return any(")
EFFECT.edit("a condition on loops holds for all of them", "_where_read", "not uses(c, moved)", "True",
            by=[by_hand("loops of one variable", of_another_loop)])  # fmt: skip
EFFECT.edit(
    "a store happens where any read does", "_where_read", "any(ex.structural_equal(c, h) for h in held)", "held"
)
EFFECT.edit("an init runs for each step of a sum", "_block", "t.under(starts)", "t")
EFFECT.edit(
    "loops that stand still for a condition run",
    "_before_all",
    "still = [l for l in shared if l.var not in fixed]",
    "still: list[tir.For] = []",
)
EFFECT.edit("predicates are not asked for", "_realize", "(*node.iter_values, node.predicate)", "node.iter_values")
EFFECT.edit("a view hides what it views", "_block", "of | {match.buffer} if", "of if")
EFFECT.edit(
    "only stores are looked for", "_touched", "tir.BufferLoad | tir.BufferData | tir.BufferRegion", "tir.BufferRegion",
    by=[WHOLE_REGIONS],
)  # fmt: skip
TOUCH.edit(
    "loops that move others do not count", "Touch.elements_at_most", "deciding |= set(ex.free_vars(l.start))", "pass"
)
TOUCH.edit(
    "a vector is one element", "Touch.elements_at_most", "[r.extent for r in self.ranges if r is not None]", "[]"
)
ACCESS = Faults("effects: access of kernels", ANALYSIS + "kernel_access", [COUNTED, KERNEL_EFFECTS])
STORES = [by_hand("elements written", test_elements_written)]
ACCESS.edit("one case of two stores", "_stores", "(stmt.then_case, stmt.else_case)", "(stmt.else_case,)", by=STORES)
ACCESS.edit("a loop stores once", "_stores", "(touch.inside(stmt) for touch in _stores(stmt.body))",
            "_stores(stmt.body)", by=STORES)  # fmt: skip
ACCESS.edit("beyond the end is read too", "_inside", "dim.value)", "1 << 30)")
EFFECT.edit(
    "what an init starts is never read otherwise",
    "_is_updated",
    "w.buffer is read.buffer and _same_place(read, w)",
    "w.buffer is read.buffer",
)

SURELY = Faults("effects: all of a region", ANALYSIS + "surely", [WHOLE_REGIONS])
SURELY.edit(
    "reads behind a store find what was before", "first_reads", "latest[id(read.node)] < earliest", "0 <= earliest"
)
SURELY.edit(
    "a loop that goes on has written nothing yet",
    "_comes_first",
    "return not shared or (None not in read.ranges and structural_equal(read.ranges, write.ranges))",
    "return True",
)
SURELY.edit(
    "the last node of a store stands behind it", "first_reads", "for _ in walk(node)) if", "for _ in walk(node)) - 1 if"
)
SURELY.edit(
    "a load counts where it stands first",
    "first_reads",
    "latest[id(node)] = after",
    "latest.setdefault(id(node), after)",
    by=[PLACES],
)
SURELY.edit(
    "a store counts where it stands last",
    "first_reads",
    "earliest.setdefault(id(node), after)",
    "earliest[id(node)] = after",
    by=[PLACES],
)
SURELY.edit(
    "a call stands where its block declares it",
    "_comes_first",
    "if isinstance(read.node, BufferRegion) is not isinstance(write.node, BufferRegion):",
    "if False:",
)
SURELY.edit(
    "a call reads and writes at once",
    "_comes_first",
    "isinstance(read.node, BufferRegion) is not isinstance(write.node, BufferRegion)",
    "isinstance(read.node, BufferRegion)",
)
SURELY.edit("loops of one access alone count", "_comes_first", "for l in read.loops} &", "for l in read.loops} |")
SURELY.edit(
    "places that only data tell are alike",
    "_comes_first",
    "None not in read.ranges and ",
    "",
    equivalent="all_touched counts no touch of which a range is not known; a touch outside of all loops"
    " has none in common with a write",
)
SURELY.edit("one of several places is enough", "all_touched", "len(places) ==", "len(places) * 2 >=")

TOUCH.edit("loops that decide the place stand still too", "Touch._starts", "if l.var not in deciding:", "if True:")
BINDINGS = Faults("effects: bindings", ANALYSIS + "bindings", [KERNEL_EFFECTS])
BINDINGS.edit(
    "few iterations take all values of a remainder", "_reaches", "if last is None or not", "if last is None and not"
)

SWEPT = Faults("effects: boxes", "minitvm.arith.regions", [KERNEL_EFFECTS, EFFECTS])
SWEPT.edit("a box ends before the last iteration", "swept", "last.start + last.extent - first.start", "last.extent")
