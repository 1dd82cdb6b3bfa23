"""Faults in loops of programs: what they carry, what they share, how long their memory lives, who counts."""

from ..patch import Faults
from ..siblings import repeated

BODIES = Faults("bodies of loops", "minitvm.graph.passes.loop_bodies", [repeated()])
BODIES.edit(
    "what reads a carried value is moved in front of the loop",
    "_without_invariants",
    "outer = dict(zip(own_outside(item), outside_inputs(item), strict=True))",
    "outer = dict(zip(body.inputs[1:], item.inputs[2:], strict=True))",
)
BODIES.edit(
    "a value that changes its place counts as one that stays",
    "_read_only",
    "old is new for old, new",
    "new in own_carried(item) for old, new",
)
BODIES.edit(
    "a result of what is carried unchanged becomes another value",
    "_read_only",
    "instead.update(zip(idle(item.outputs[1:]), idle(carried_inputs(item)), strict=True))",
    "instead.update(dict.fromkeys(idle(item.outputs[1:]), item.inputs[2]))",
)

PLACES = Faults("places of carried values", "minitvm.link.in_place", [repeated()])
PLACES.edit(
    "a carried value is overwritten by a function that reads it",
    "written_directly",
    "values.position[reader] < values.position[node]",
    "values.position[reader] <= values.position[node]",
)
PLACES.edit(
    "a carried value is overwritten that another one becomes",
    "written_directly",
    "if before and old not in values.returned:",
    "if before:",
)

LEFT = Faults("ends of iterations", "minitvm.link.graphs", [repeated()])
LEFT.edit(
    "carried values that change places are copied one after the other",
    "leave",
    "if any(_same_memory(other, value) for other, _ in pairs if other is not place):",
    "if False:",
)
LEFT.edit(
    "the condition of an iteration is forgotten",
    "_Linking.loop",
    "moved.append((going, own[graph.outputs[0]]))",
    "pass",
)
TAKEN = Faults("values that a loop takes over", "minitvm.link.levels", [repeated()])
TAKEN.edit("a loop takes over a value that others read", "_taken", "readers[value] == 1 and ", "")

LINKED = Faults("memory of loops", "minitvm.link.linker", [repeated()])
LINKED.edit(
    "what a loop reads lives until its first iteration reads it last", "Linker._plan", "last[slot] = end", "pass"
)

STEPS = Faults("loops of the CPU", "minitvm.machines.cpu.runtime.segments", [repeated(machine=True)])
STEPS.edit(
    "the last step of a body is left out",
    "_Segments.append",
    "while at < number + 1 + step.steps:",
    "while at < number + step.steps:",
)
STEPS.edit(
    "a loop ends behind its first iteration",
    "_Segments.append",
    "rows += [_BARRIER, (LOOP_NEXT, 0, args, head * STEP_WORDS)]",
    "rows += [_BARRIER, (LOOP_NEXT, 0, args, (len(rows) + 2) * STEP_WORDS)]",
)
