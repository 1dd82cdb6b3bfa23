"""Faults in the machine that is one folder: its meaning, its cycles, its schedules, its assembly, its text."""

from tests.machines.gemmini.programs import hazards_are_tracked, machine_computes_it, passes_keep_the_meaning
from tests.machines.gemmini.test_gemmini import (
    test_a_program_by_hand,
    test_cycles_of_a_program_by_hand,
    test_queues_that_are_full_keep_loads_back,
    test_rows_that_are_apart_are_waited_for,
    test_text_is_read_back,
    test_what_stays_on_the_host,
)

from ..patch import Faults
from ..seeded import seeded
from ..streams import by_hand

LAYERS = seeded("random layers on Gemmini", machine_computes_it, 25)
HAZARDS = seeded("hazards of random layers on Gemmini", hazards_are_tracked, 15)
PASSES = seeded("random layers through Gemmini's passes", passes_keep_the_meaning, 10)
BY_HAND = by_hand("a program of Gemmini by hand", test_a_program_by_hand, test_cycles_of_a_program_by_hand,
                  test_rows_that_are_apart_are_waited_for)  # fmt: skip
QUEUES = by_hand("queues of Gemmini", test_queues_that_are_full_keep_loads_back)
TEXT = by_hand("text of Gemmini", test_text_is_read_back)


def test_limits_of_the_way_out() -> None:
    test_what_stays_on_the_host("results are kept between -128 and 100")
    test_what_stays_on_the_host("it shifts by 40; numbers of 32 bits")


REFUSED = by_hand("what Gemmini refuses", test_limits_of_the_way_out)
_HOME = "minitvm.machines.gemmini"

MEANING = Faults("gemmini meaning", f"{_HOME}.interpreter", [BY_HAND, LAYERS])
MEANING.edit("weights are not transposed", "_Machine.compute", "self.weights.T", "self.weights")
MEANING.edit("a product never adds", "_Machine.compute", "one.add)", "False)")
MEANING.edit("results are not limited from below", "_Machine.step", "np.maximum(sums, self.st.least)", "sums")
MEANING.edit("results wrap", "_Machine.step", "np.minimum(", "np.maximum(")
MEANING.edit("rows of images are dense", "_Machine.compute", "self.ex.stride", "1")
MEANING.edit("all lines are one", "_lines", "* step", "* 0")

CYCLES = Faults("gemmini timing", f"{_HOME}.timing", [HAZARDS, BY_HAND, QUEUES])
CYCLES.edit("who reads a row is not waited for", "hazards", "touched[name, unit][rows]", "wrote[name, unit][rows]")
CYCLES.edit("who writes a row is not waited for", "hazards", "wrote[name, unit][rows].max())", "0 * rows[0] - 1)")
CYCLES.edit("writes are forgotten", "hazards", "wrote[name, one.unit][rows] = number", "pass")
CYCLES.edit("sums are there at once", "_GemminiSimulation.begin", "end += self.config.drain", "end += 0")
CYCLES.edit("products do not wait for weights", "_GemminiSimulation.ready", "(self.weights_in, \"waits for weights\")",
            "(0, \"waits for weights\")")  # fmt: skip
CYCLES.edit("the array has one set of weights", "_GemminiSimulation.ready", "self.last_begin if", "self.free[unit] if")
CYCLES.edit("a transfer ends when it was asked", "_GemminiSimulation.ask", "self.end(move.number, unit, answered)",
            "self.end(move.number, unit, now + 1)")  # fmt: skip
CYCLES.edit("queues are endless", "_GemminiSimulation.send", "after >= 0 and self.ended[after] < 0", "False")
CYCLES.edit("instructions are sent in the order of the kernel", "by_start", "(starts.began[number], number)", "number")
CYCLES.edit("strided rows are dense", "footprints", "one.step[0], stride)", "one.step[0], 1)")
CYCLES.edit("a row takes two cycles", "footprints", "whole * max(config.side, 2)", "2 * whole * max(config.side, 2)")

ASSEMBLY = Faults("gemmini assembly", f"{_HOME}.emitter", [LAYERS])
ASSEMBLY.edit("the first products add", "gemm", "one.step, not fresh)", "one.step, True)")
ASSEMBLY.edit("all products overwrite", "gemm", "emitter.zero[written] = False", "pass")
ASSEMBLY.edit("the last weights are behind the end", "GemminiEmitter.__init__", 'config.side * self.held("wgt")',
              'config.side * (self.held("wgt") - 1)')  # fmt: skip
ASSEMBLY.edit("rows above are not zero", "_frame", "yield 0, above * width, 1", "yield 0, 1, 1")
ASSEMBLY.edit("columns at the right are not zero", "_frame", "if right and rows.y:", "if False:")
ASSEMBLY.edit("a CONFIG is sent once", "GemminiEmitter.add", "self.set.get(type(one)) == one", "type(one) in self.set")
ASSEMBLY.edit("the bias of the first row is that of all", "alu", "inner[1][0] * row", "0")
ASSEMBLY.edit(
    "results of lines are dense in memory", "store", "(rows.stride * side, rows.x)", "(rows.x * side, rows.x)"
)

SCHEDULE = Faults("gemmini schedules", f"{_HOME}.schedule", [LAYERS, PASSES, REFUSED])
SCHEDULE.edit("any limit is the machine's", "misfit", "least not in (-128, 0) or most != 127", "least is None")
SCHEDULE.edit(
    "any shift is the machine's", "misfit", "why := convolution.beyond_shift(conv.stages[-4], 32)", 'why := ""'
)

WORDS = Faults("gemmini text", f"{_HOME}.isa", [TEXT, BY_HAND])
WORDS.edit("a step of lines is lost", "_instruction", 'numbers if key == "step" else numbers[0]',
           '(0, 0) if key == "step" else numbers[0]')  # fmt: skip
