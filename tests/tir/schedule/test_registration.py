"""What follows from a registration: the examples in the docstrings are true, and what is written down is complete."""

from __future__ import annotations

import dataclasses

import pytest

from minitvm.errors import InternalError
from minitvm.tir.schedule import PRIMITIVES, Primitive
from minitvm.tir.schedule.examples import example_of, example_program, verify_example
from minitvm.tir.schedule.registry import transforms
from minitvm.tir.schedule.testing import verify_trace_roundtrip


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
