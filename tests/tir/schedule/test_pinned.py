"""Every primitive on small programs with dependences: with all its requirements, and without one of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from minitvm.compat.tvm.schedule.testing import registrations_undone
from minitvm.errors import MinitvmError, ScheduleError
from minitvm.reference import check
from minitvm.reference.strategies import looks_at_dependences, try_pinned
from minitvm.reference.strategies.pinned_programs import PINNED, pinned
from minitvm.tir.schedule import PRIMITIVES, Primitive, Schedule
from minitvm.tir.schedule.registry import transforms
from minitvm.tools.cli.check_primitive import check_primitive

# The requirements without which a primitive changes the meaning of a program where dependences matter. Others of the
# same kind are implied by these, or by what a primitive checks while it works.
LOOKING = (
    "merge.keeps_order_of_nests", "cache_read.at_most_one_writer", "cache_write.only_writer",
    "cache_write.fills_its_box", "compute_at.inputs_settled", "compute_at.complete_or_reduction",
    "compute_at.not_output", "reverse_compute_at.inputs_settled", "reverse_compute_at.complete_or_reduction",
    "compute_inline.complete", "compute_inline.inputs_settled", "parallel.no_races", "vectorize.no_races",
    "bind.no_races", "reorder.keeps_dependences", "decompose_reduction.each_point_once",
    "decompose_reduction.init_finds_its_inputs", "rfactor.first_below", "rfactor.keeps_order",
    "rolling_buffer.inputs_stay", "rolling_buffer.one_point_an_element", "read_at.not_written_below",
    "transform_block_layout.order_of_accesses", "fuse_reduction_epilogue.addend_ready", "reindex.sound_dataflow",
    "reindex_cache_read.at_most_one_writer", "cache_inplace.finds_values",
)  # fmt: skip
# Of primitives with few legal calls, or whose first one shows it; the others in `make test-full`.
QUICK = {
    "compute_at", "reverse_compute_at", "compute_inline", "rolling_buffer", "compute_at.inputs_settled",
    "compute_at.not_output", "reverse_compute_at.inputs_settled", "compute_inline.inputs_settled", "parallel.no_races",
    "reorder.keeps_dependences", "decompose_reduction.each_point_once", "rolling_buffer.inputs_stay",
    "fuse_reduction_epilogue.addend_ready", "cache_inplace.finds_values", "cache_read.at_most_one_writer",
}  # fmt: skip
NO_NEED = {"split", "fuse", "unroll", "add_unit_loop", "storage_align"}  # they keep the order of iterations


@contextmanager
def careless(case: str) -> Iterator[Primitive]:
    """A primitive by an author who never thought of that requirement; its name is `careless`."""
    name, requirement = case.split(".")
    primitive = PRIMITIVES[name]
    requires = tuple(r for r in primitive.requires if r.name != requirement)
    bad_calls = [bad for bad in primitive.bad_calls if bad.requirement.name != requirement]
    assert len(requires) == len(primitive.requires) - 1
    with registrations_undone():
        PRIMITIVES["careless"] = replace(primitive, name="careless", requires=requires, bad_calls=bad_calls)
        yield PRIMITIVES["careless"]


def marked(names: Iterable[str], quick: set[str]) -> list[Any]:
    return [pytest.param(name, marks=[] if name in quick else [pytest.mark.full]) for name in names]


@pytest.mark.parametrize("case", marked(LOOKING, QUICK))
def test_a_primitive_without_its_requirement_is_refused(case: str) -> None:
    with careless(case), pytest.raises(MinitvmError):
        try_pinned("careless")


@pytest.mark.parametrize("seed", [0, 1, 7])
def test_a_seed_does_not_decide(seed: int) -> None:
    with careless("reorder.keeps_dependences") as reorder:
        lines = [(text, right) for text, right in check_primitive(reorder, seed) if text.startswith("order ")]
    ((text, right),) = lines
    assert not right
    assert "the programs differ" in text


@pytest.mark.parametrize("name", marked((p.name for p in transforms() if p.calls), QUICK))
def test_legal_calls_keep_the_meaning(name: str) -> None:
    try_pinned(name)


@pytest.mark.parametrize("name", sorted({case.split(".")[0] for case in LOOKING} | NO_NEED))
def test_who_looks_at_dependences(name: str) -> None:
    assert looks_at_dependences(name) == (name not in NO_NEED)


def test_twins_differ_where_they_say_so() -> None:
    twins = pinned(independent=True)
    assert 20 < len(twins) < len(pinned()) == len(PINNED)
    assert all(str(twins[name]) != str(pinned()[name]) for name in twins)


def test_threads_add_up_only_what_begins_with_its_init() -> None:
    sch = Schedule(pinned()["a sum in reverse"])
    _, k = sch.get_loops("B")
    with pytest.raises(ScheduleError, match=r"a reduction that begins with its init\n.*vk = 3 - k is 3 at first"):
        sch.bind(k, "threadIdx.x")


@pytest.mark.parametrize("name", ["compute_at", "reverse_compute_at"])
def test_a_block_stays_in_its_iteration_of_a_loop_around_both_places(name: str) -> None:
    """`vi` indexes neither S nor the columns that are read: it is the value of the loop i, not all values."""
    sch = Schedule(pinned()["one row of scratch"])
    sch.call(name, {"block": sch.get_block("S"), "loop": sch.get_loops("B")[1]} if name == "compute_at" else
             {"block": sch.get_block("B"), "loop": sch.get_loops("S")[1]})  # fmt: skip
    assert check(pinned()["one row of scratch"], sch.func)
