"""Faults in what lowering makes of tiles that stick out: versions for open extents, accumulators without masks."""

from __future__ import annotations

from tests.machines.simd.strategy.test_contraction import a_group_is_packed_once, batches_are_contractions
from tests.machines.simd.transform.test_unswitch_tiles import test_each_number_of_vectors_keeps_the_meaning
from tests.strategy.families import contractions
from tests.tir.transform.test_reuse_workspaces import rows_are_stored

from ..patch import Faults
from ..streams import by_hand
from ..workloads import strategic

TRANSFORM = "minitvm.tir.transform."
CONTRACTIONS = strategic(contractions, "cpu -vector_bits=128 -vector_registers=16 -cores=2", examples=60)
VECTORS = by_hand("open columns", test_each_number_of_vectors_keeps_the_meaning)
STORED = by_hand("rows that are stored", rows_are_stored)

UNSWITCH = Faults("unswitch_tiles", "minitvm.machines.simd.transform.unswitch_tiles", [CONTRACTIONS])
UNSWITCH.edit("a version has one row more", "_limit", "const(count, edge.dtype))", "const(count + 1, edge.dtype))")
UNSWITCH.edit("a version has one row less", "_limit", "const(count, edge.dtype))", "const(count - 1, edge.dtype))")
UNSWITCH.edit(
    "a tile is whole with one row less",
    "_versions",
    "    return If(edge.compare(LT, edge.high), version(body, True), partial)",
    "    return If(edge.compare(LT, edge.high - 1), version(body, True), partial)",
)
UNSWITCH.edit(
    "the versions of two numbers of rows are swapped",
    "_versions",
    "edge.compare(EQ, count)",
    "edge.compare(EQ, edge.high + edge.low + 1 - count)",
)
UNSWITCH.edit(
    "conditions on another extent are taken for the edge's",
    "_inside",
    "form is None or any(form.terms.get(term) != times for term, times in edge.outer.terms.items())",
    "form is None",
)
UNSWITCH.edit(
    "what reads the sums of a part of a tile is left out",
    "_apart",
    "Seq.of(*body.stmts[behind:]) if behind < len(stores) else None",
    "None",
)
UNSWITCH.edit(
    "what reads the sums of a part of a tile writes whole tiles",
    "_versions",
    "version(rest_of_body, None)",
    "version(rest_of_body, True)",
)
UNSWITCH.edit(
    "a version has one vector less", "_narrowed",
    "edge.low + count * edge.lanes", "edge.low + (count - 1) * edge.lanes", by=[VECTORS],
)  # fmt: skip
UNSWITCH.edit("the last vector of a version has no mask", "_narrowed", "limit), condition]", "limit)]", by=[VECTORS])
UNSWITCH.edit(
    "a version is taken with a column more", "_by_vectors",
    "edge.low + count * edge.lanes", "edge.low + count * edge.lanes + 1", by=[VECTORS],
)  # fmt: skip

REUSE = Faults("reuse_workspaces", TRANSFORM + "reuse_workspaces", [STORED])
REUSE.edit("iterations that read what others wrote share elements", "_places", " or exposes(stmt.body, buffer)", "")
REUSE.edit("iterations of a parallel loop share elements", "_reused", "reversed(inside.parallel)", "()")

TAILS = Faults("simplify: tails", TRANSFORM + "simplify", [CONTRACTIONS])
TAILS.edit("a tile has a vector less", "_iterations_that_act", "return high", "return max(1, high - 1)")

UNMASK = Faults("unmask_registers", "minitvm.machines.simd.transform.unmask_registers", [CONTRACTIONS])
UNMASK.edit(
    "slots lie as close as their lanes in use",
    "_layout",
    "end += register.lanes",
    "end += active[register]",
    equivalent="masked loads are zero: a sum leaves what it adds to in its neighbour's lanes as it is",
)
UNMASK.edit("all slots lie at the start", "_layout", "end += register.lanes", "end += 0")
UNMASK.edit(
    "the buffer is an element short",
    "_unmasked",
    "size = sum(register.lanes for register in starts)",
    "size = sum(register.lanes for register in starts) - 1",
)

AXES = [by_hand("batches of matrices", batches_are_contractions), by_hand("groups", a_group_is_packed_once)]
ROLES = Faults("roles of axes", "minitvm.strategy.roles", AXES)
ROLES.edit("rows of a group lie apart", "split_axis", "place // size, place % size", "place % size, place // size")
ROLES.edit("an axis of one element is packed", "Roles.needed", " and not is_const(axis.dom.extent, 1)", "")
ROLES.edit("a batch shares its panels", "Roles.needed", "return any(", "return all(")
