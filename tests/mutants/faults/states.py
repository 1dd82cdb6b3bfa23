"""Faults in what outlives a run: states that are changed too early, rows that go where they do not belong."""

from functools import partial

from tests.executable import test_bind_size
from tests.link import test_in_place

from ..patch import Faults
from ..siblings import called, remembered
from ..streams import by_hand

IN_PLACE = Faults("states in place", "minitvm.link.in_place", [remembered()])
IN_PLACE.edit(
    "an old state is overwritten that is read later",
    "_Values.may_overwrite",
    "return before and through == 1",
    "return through == 1",
)
IN_PLACE.edit(
    "an old state is overwritten that is returned",
    "_Values.may_overwrite",
    "and memory not in self.returned",
    "",
)
IN_PLACE.edit(
    "who reads a view of a state is overlooked",
    "_Values.__init__",
    "dict.fromkeys(map(self.root, node.inputs))",
    "dict.fromkeys(node.inputs)",
)

IN_PLACE.edit(
    "an update of an update begins a memory of its own",
    "in_place",
    "group = groups.pop(memory)",
    "group = [memory]",
    by=[by_hand("updates", partial(test_in_place.test_what_a_run_computed_is_updated_where_it_lies, "nothing"))],
)

LEFT = Faults("states left", "minitvm.link.graphs", [remembered()])
LEFT.edit(
    "a state is copied from another one that was changed before",
    "leave",
    "if any(_same_memory(other, value) for other, _ in pairs if other is not place):",
    "if False:",
)

CACHED = Faults("caches", "minitvm.topi.cached", [called("caches")])
CACHED.edit("rows are written behind their place", "cache_update", '"int64") + j.astype', '"int64") + 1 + j.astype')
CACHED.edit(
    "rows are written to no slot but the first ones",
    "cache_update",
    "slot = batch if slots is None",
    "slot = batch if True",
)
CACHED.edit("a circle of places ends", "cache_update", 'place % rows if mode == "circular" else place', "place")

BOUND_SIZES = Faults(
    "bound sizes",
    "minitvm.machines.cpu.runtime.program",
    [by_hand("two sizes", test_bind_size.test_what_depends_on_two_sizes_follows_either)],
)
BOUND_SIZES.edit(
    "arguments of two sizes follow the last one alone",
    "BoundProgram._value",
    "for v in late if v not in",
    "for v in late[-1:] if v not in",
)
