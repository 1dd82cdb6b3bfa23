"""Whether a scheduled function still means what it did."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import minitvm
from minitvm.compat.tvm.schedule.testing import verify_trace_roundtrip
from minitvm.errors import ScheduleError, Unsupported
from minitvm.expr import structural_equal
from minitvm.reference import check
from minitvm.reference import tir as interpreter
from minitvm.tir import PrimFunc
from minitvm.tir.analysis.threads import thread_reduction
from minitvm.tir.schedule import Schedule
from minitvm.tir.transform import lower
from minitvm.tir.verifier import verify


def same_at_both_levels(before: PrimFunc, after: PrimFunc) -> None:
    """The two functions write the same values, the second as loops and, where lowering takes it, as kernels."""
    for version in (after, *lowered(after)):
        verdict = check(before, version)
        assert verdict, f"{verdict}\n{before.script()}\n{after.script()}"


def lowered(func: PrimFunc) -> Iterator[Any]:
    """The kernels of a function; none where lowering refuses a reduction over threads."""
    try:
        yield lower(func)
    except Unsupported:
        if thread_reduction(func) is None:
            raise


def same_meaning(before: PrimFunc, sch: Schedule) -> None:
    """The scheduled function means what `before` did at both levels, and its trace replays as Python and as JSON."""
    same_at_both_levels(before, sch.func)
    verify_trace_roundtrip(sch, before)


def assert_becomes(before: PrimFunc, sch: Schedule, wanted: PrimFunc) -> None:
    """The scheduled function is the wanted one, and means what `before` did."""
    same_meaning(before, sch)
    named = PrimFunc(wanted.params, wanted.body, before.attrs)
    assert structural_equal(sch.func, named), sch.func.script()


def statements(func: PrimFunc) -> str:
    """The statements of a function as text, without its signature."""
    text = func.script().split("):\n", 1)[1]
    return "\n".join(line for line in text.splitlines() if "func_attr" not in line)


def all_agree(before: PrimFunc, sch: Schedule) -> None:
    """The scheduled function is well formed, replays, and means the same as loops, as kernels and compiled."""
    verify(sch.func)
    same_meaning(before, sch)
    generator = np.random.default_rng(0)
    arrays = [
        generator.integers(0, 4, [d.value for d in b.shape]).astype(b.dtype.numpy)  # type: ignore[attr-defined]
        for b in before.buffers
    ]
    wanted, found = [a.copy() for a in arrays], [a.copy() for a in arrays]
    interpreter.run(before, *wanted)
    minitvm.build(sch.func)(*found)
    for a, b in zip(wanted, found, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.fixture(autouse=True, scope="module")
def without_verifier() -> Iterator[None]:
    """As for users: the verifier would find some of these programs wrong before any step, or after one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINITVM_VERIFY", "0")
        yield


Step = Callable[[Schedule], Any]


def keeps(func: Any, step: Step) -> Schedule:
    """The schedule after a legal step that kept what the function computes."""
    sch = Schedule(func)
    step(sch)
    same_meaning(func, sch)
    return sch


def refused(func: Any, requirement: str, step: Step) -> str:
    """The error of a step that a requirement refuses."""
    sch = Schedule(func)
    with pytest.raises(ScheduleError) as caught:
        step(sch)
    assert f": {requirement} " in str(caught.value).splitlines()[0] + " ", str(caught.value)
    return str(caught.value)
