"""Faults in the compiler path of the accelerator: intrinsics, schedules, passes, tokens, assembly."""

from typing import Any

from minitvm.reference.strategies import accelerator_programs
from tests.machines.scratchpad.transform import test_passes
from tests.machines.vta import test_tokens
from tests.machines.vta.accel_kernels import computed_or_refused
from tests.machines.vta.accel_programs import (
    candidates_fit,
    machine_computes_it,
    passes_keep_the_meaning,
    tokens_matter,
)
from tests.machines.vta.test_emitter import test_storage_that_does_not_fit

from ..oracle import Trial, drawn
from ..patch import Faults
from ..seeded import seeded
from ..streams import by_hand, holds

MACHINE = seeded("random layers on the accelerator", machine_computes_it, 80)
PASSES = seeded("random layers through the accelerator's passes", passes_keep_the_meaning, 20)
TOKENS = seeded("random layers without one token", tokens_matter, 20)
CAPACITY = by_hand("scratchpads that are too small", test_storage_that_does_not_fit)


OPERATIONS = seeded("random operations on registers", computed_or_refused, 60)
FITTING = seeded("candidates on machines of any size", candidates_fit, 60)
BOTH = [MACHINE, PASSES]


def test_pairs_of_loops() -> None:
    for case in test_passes.PAIRS:
        test_passes.test_contexts_are_joined_if_one_module_does_both_and_each_touches_its_own(*case)


CONDITIONS = by_hand(
    "conditions of the accelerator's passes",
    test_passes.test_a_reset_comes_before_what_touches_a_part_of_it,
    test_passes.test_storage_that_an_iteration_reads_from_the_one_before_stays_outside,
    test_passes.test_a_register_has_its_new_name_in_all_that_follows,
    test_passes.test_an_instruction_is_of_the_iterations_at_which_its_guards_hold,
    test_passes.test_loops_that_a_guard_ties_are_not_one_instruction,
    test_pairs_of_loops,
)
_HOME = "minitvm.machines.scratchpad.transform"

INTRINSICS = Faults("accel intrinsics", "minitvm.machines.scratchpad.instruction_set", [*BOTH, TOKENS])
INTRINSICS.edit("weights are loaded by the compute module", "_unit", '("load_inp", "load_wgt")', '("load_inp",)')
INTRINSICS.edit("stores are the compute module's", "_unit", 'if operation == "store":', "if False:")

PLACE = Faults("accel place_scratchpads", f"{_HOME}.place_scratchpads", [CONDITIONS, *BOTH])
PLACE.edit("storage goes into any loop", "_placed", "not exposes(stmt.body, buffer)", "True")
PLACE.edit("the last user alone has the storage", "_placed", "if len(users) == 1:\n            (at,) = users",
           "if users:\n            at = users[-1]")  # fmt: skip

FOLD = Faults("accel fold_nests", f"{_HOME}.fold_nests", [CONDITIONS, *BOTH])
FOLD.edit("the next element of a loop is two steps away", "_folded", "moved: const(1, moved.dtype)",
          "moved: const(2, moved.dtype)")  # fmt: skip
FOLD.edit("loops stand in the other order", "_folded", "for part in reversed(nest):", "for part in nest[1:]:")

REUSE = Faults("accel reuse_registers", f"{_HOME}.reuse_registers", [CONDITIONS, *BOTH, OPERATIONS])
REUSE.edit("a register is not renamed further on", "_in_sequence", "*(_moved(p, result, source) for p in parts[i:])",
           "_moved(parts[i], result, source), *parts[i + 1 :]")  # fmt: skip
REUSE.edit("the other operand's registers are taken", "_operands", "stmt.tiles[0], stmt.tiles[-1]",
           "stmt.tiles[len(stmt.tiles) - 2], stmt.tiles[-1]")  # fmt: skip

JOIN = Faults("accel join_contexts", f"{_HOME}.join_contexts", [CONDITIONS, *BOTH])
JOIN.edit("the second loop's variable is lost", "_joined", "{second.var: first.var}", "{second.var: second.start}")
JOIN.edit(
    "any loops are joined", "_joined", "len(modules) != 1 or None in modules or not _apart(first, second)", "False"
)

FETCH = Faults("accel fetch_order", f"{_HOME}.fetch_order", BOTH)
FETCH.edit("the first iteration is left out", "_InstructionWriter.written_out", "range(start, start + extent)",
           "range(start + (extent > 1), start + extent)")  # fmt: skip
FETCH.edit("a transfer has three loops", "_is_rows", "len(loops) <= 2", "len(loops) <= 3")
FETCH.edit("rows may be apart in a scratchpad", "_is_rows", "if steps[scratchpad] != behind:", "if False:")

COPIES = Faults("accel copies", f"{_HOME}.copies", BOTH)
COPIES.edit("all steps are one", "_index", "total += step * value.value", "total += value.value")

ITERATIONS = Faults("accel iterations", f"{_HOME}.iterations", [CONDITIONS, *BOTH])
ITERATIONS.edit("pieces of a transfer begin at one place", "_moved", "o + start * step", "o")
ITERATIONS.edit("an edge belongs to the frame", "_HOLDS", "GE: lambda a: a >= 0", "GE: lambda a: a > 0")
ITERATIONS.edit("guards are forgotten", "unguarded", "if not nest.guards:", "if True:")
ITERATIONS.edit("a guard on no loop holds", "where", "if not holds(form.const):", "if False:")
ITERATIONS.edit(
    "what is left begins at the first iteration", "unguarded", "(values[0], len(values))", "(0, len(values))"
)
ITERATIONS.edit(
    "what is done begins where it began", "narrowed", "if starts else nest.inner", "if not box else nest.inner"
)

FRAMES = Faults("accel frames", f"{_HOME}.frames", [MACHINE])
FRAMES.edit("rows below are read", "frame_of", "sizes[var] - 1 - inside[-1]", "0")
FRAMES.edit("columns are rows", "frame_of", "for var in (row, column):", "for var in (column, row):")

DELAY = Faults("accel delay_resets", f"{_HOME}.delay_resets", [CONDITIONS, *BOTH])
DELAY.edit("resets stand at the end", "delay_resets", "if _meet(one[1], places)]", "if False]")
DELAY.edit("a reset is due for any register", "_meet", "> 0", "> len(one[b]) - 1")

TOKEN = Faults("accel insert_tokens", f"{_HOME}.insert_tokens", [MACHINE, TOKENS])
TOKEN.edit(
    "loads need not wait for who reads", "_LastTouches.before", "(self.touched if writes else self.wrote)", "self.wrote"
)
TOKEN.edit("who writes is forgotten", "_LastTouches.touch", "if writes:", "if False:")
TOKEN.edit("a wait tells everything before", "_ordered", "ended[at][m])", "ended[-1][m])")
TOKEN.edit("nothing is known by earlier waits", "_ordered", "at > now[module][m]}", "at > -1}")
TOKEN.edit("the end waits for nothing", "_ordered", 'wanted["store"] = stored', "pass")
TOKEN.edit("places count from each buffer's beginning", "_LastTouches.places", "+ self.first[tile.buffer]", "+ 0",
           by=[TOKENS])  # fmt: skip


def _without(_: Trial, draw: Any) -> None:
    program = draw(accelerator_programs())
    holds(lambda: test_tokens.refused_where_needed(program))


NEEDED = Faults("accel tokens", "minitvm.machines.vta.tokens", [
    by_hand("tokens that matter", test_tokens.test_a_token_for_a_store_of_nothing_does_not_matter,
            test_tokens.test_a_token_that_orders_other_instructions, test_tokens.test_what_breaks_is_said),
    drawn("programs without a token", _without, 60),
])  # fmt: skip
NEEDED.edit("who touches an element needs nothing", "_meeting", "len(shared)", "len(shared) > 99")
NEEDED.edit("others need nothing", "tokens", "why or _refused(program, config, queue, push, pop)", "why")

PADS = Faults("accel scratchpads", "minitvm.tir.analysis.scratchpads", [MACHINE, CAPACITY])
PADS.edit("all storage begins at 0", "planned", "first[buffer] = ends[buffer.scope]", "first[buffer] = 0")
PADS.edit("scratchpads have no end", "planned", "if end > depths[scope]:", "if False:")
PADS.edit("strides count numbers", "strided", "s // size for s in steps[:loops]", "s for s in steps[:loops]")

ASSEMBLY = Faults("accel assembly", "minitvm.machines.vta.emitter", [OPERATIONS, MACHINE])
ASSEMBLY.edit("a push goes to the other side", "AccelEmitter.token", '"prev" if here.prev is there else "next"',
              '"next" if here.prev is there else "prev"')  # fmt: skip
ASSEMBLY.edit("pops are lost", "AccelEmitter.add", "replace(instruction, **pops)", "instruction")
ASSEMBLY.edit("factors of the loops change places", "_fields", "(outer_steps[k], inner_steps[k])",
              "(inner_steps[k], outer_steps[k])")  # fmt: skip
ASSEMBLY.edit("micro-ops begin at 0", "AccelEmitter.looped", "[s.first + sum(", "[sum(")
WALK = Faults("accel walk", "minitvm.machines.scratchpad.emitter", [OPERATIONS, MACHINE])
WALK.edit(
    "a frame's rows are read",
    "ElementEmitter.rows",
    "dram.first + above * down + left * across",
    "dram.first + left * across",
)
WALK.edit("loops of any steps are one", "joined", "if all(s == i * inner for", "if all(s >= i * inner for")
ASSEMBLY.edit(
    "a constant is cut to its bits", "_constant", "not -(1 << bits - 1) <= value.value < 1 << bits - 1", "False"
)
ASSEMBLY.edit("a result may lie anywhere", "alu", "replace(others[0], buffer=into.buffer) != into", "False")

ASSEMBLY.edit("a shift to the left is one to the right", "alu", '"shr", -constant', '"shr", constant')
ASSEMBLY.edit("limits may differ", "alu", "limits != [-constant]", "False")
ASSEMBLY.edit("a copy adds to what was there", "copy", "reset=True", "reset=False")
ASSEMBLY.edit("a constant adds to what was there", "fill", "reset=True", "reset=False")
ASSEMBLY.edit("sums are maxima", "accumulate", "name.upper()", '"MAX"')
ASSEMBLY.edit("frames are zeros", "load", "pad_least=least", "pad_least=False")

REGISTERS = Faults("accel registers", "minitvm.machines.vta.strategy.registers", BOTH)
REGISTERS.edit("what is computed for each point is computed once", "_schedule", "point if stage.block in chain.each",
               "tile if stage.block in chain.each", by=[FITTING])  # fmt: skip
REGISTERS.edit("a maximum begins with zero", "_schedule", '"fill_imm" if chain.start else "reset"', '"reset"')
REGISTERS.edit("any frame is of zeros", "_load", 'frame = "_least" if least else "_padded"', 'frame = "_padded"')

LAYERS = Faults("accel schedules", "minitvm.machines.scratchpad.strategy.convolution", BOTH)
LAYERS.edit("limits of any size are one", "clipped", "before.constant == -(stage.constant or 0)", "True")
LAYERS.edit("any step of rows is one", "image_rows", "(rows - 1) * conv.row_step + conv.kernel_rows", "rows",
            by=[FITTING])  # fmt: skip
LAYERS.edit("what is subtracted may come first", "stage_of", 'first, second, op = *value.args, _SHIFTS[value.op]',
            'second, first, op = *value.args, _SHIFTS[value.op]')  # fmt: skip
