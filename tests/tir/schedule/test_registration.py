"""What follows from a registration: the examples in the docstrings are true, and what is written down is complete."""

from __future__ import annotations

import dataclasses

import pytest

from minitvm.compat.tvm.schedule.testing import verify_trace_roundtrip
from minitvm.errors import InternalError
from minitvm.expr import const
from minitvm.tir.conditions import is_const
from minitvm.tir.nodes import For
from minitvm.tir.schedule import PRIMITIVES, Failure, Primitive, Schedule, primitive, requirement
from minitvm.tir.schedule.examples import example_of, example_program, verify_example
from minitvm.tir.schedule.registry import Refused, transforms
from minitvm.tir.schedule.state import ScheduleState

from . import programs


@pytest.mark.parametrize("name", [p.name for p in transforms()])
def test_the_docstring_shows_what_happens(name: str) -> None:
    sch = verify_example(name)
    verify_trace_roundtrip(sch, example_program(name))


def _retold(name: str, old: str, new: str) -> Primitive:
    """A primitive whose docstring says something else."""
    known = PRIMITIVES[name]
    text = known.function.__doc__ or ""
    assert old in text

    def function() -> None: ...

    function.__doc__ = text.replace(old, new)
    return dataclasses.replace(known, function=function)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("split", "T.where(i_0 * 32 + i_1 < 100)", "T.where(i_0 * 32 + i_1 < 101)"),  # another condition
        ("split", "\n                T.where(i_0 * 32 + i_1 < 100)", ""),  # none
        ("cache_read", "A_local[vi, vk]", "A_local[vk, vi]"),
        ("cache_read", ', scope="local")', ")"),
        ("reorder", "T.grid(2, 4, 8)", "T.grid(8, 4, 2)"),
        ("rfactor", 'T.axis.remap("SSR"', 'T.axis.remap("SSS"'),
        ("fuse", "i_j_fused // 4", "i_j_fused // 8"),
        ("annotate_buffer_access", "T.reads(A[vi:vi + 2, vj])", "T.reads(A[vi:vi + 3, vj])"),
    ],
)
def test_a_docstring_that_lies_is_caught(name: str, old: str, new: str) -> None:
    with pytest.raises(InternalError, match=f"{name}: .* does not make what its docstring shows\n(.*\n)*[-+]"):
        verify_example(_retold(name, old, new))


def test_half_an_example_is_no_example() -> None:
    with pytest.raises(InternalError, match="split: its docstring shows half an example"):
        example_of(_retold("split", "after:", "afterwards:"))
    with pytest.raises(InternalError, match="get_block: its docstring shows no example"):
        verify_example("get_block")
    assert example_of("get_block") is None


def test_parameters_are_as_large_as_the_indices_ask_for() -> None:
    func = example_program("decompose_padding")
    assert [(b.name, [int(d) for d in b.shape]) for b in func.buffers] == [("A", [12]), ("B", [14])]


def test_what_is_matched_is_found_once() -> None:
    """Requirements and body share one record, looked for only where the requirements before it hold."""
    found = []

    def find(state: ScheduleState, loop: For) -> int:
        found.append(loop)
        return len(found)

    @requirement
    def whole(loop: For) -> Failure | None:
        """the loop starts at 0"""
        return None if is_const(loop.start, 0) else Failure({loop: "here"}, "a loop from 0", str(loop.start))

    @requirement
    def first(match: int) -> Failure | None:
        """it is found once"""
        return None if match == 1 else Failure({}, "one", str(match))

    def body(state: ScheduleState, match: int, loop: For, factor: int = 2) -> int:
        """Return what was matched."""
        return match * factor

    tried = primitive(requires=[whole, first, first], match=find)(body)
    del PRIMITIVES["body"]
    delattr(Schedule, "body")
    sch = Schedule(programs.chain())
    state = ScheduleState(sch.mod, "main")
    loop = next(iter(state.tree().loops.values()))
    assert tried.perform(state, {"loop": loop, "factor": 5}) == 5 and found == [loop]
    with pytest.raises(Refused):
        tried.perform(state, {"loop": dataclasses.replace(loop, start=const(1)), "factor": 5})
    assert found == [loop]
    assert tried.call_signature() == "(loop, factor=2)"
