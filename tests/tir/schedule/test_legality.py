"""What a step must not believe: programs whose blocks, bindings or claims are not the usual ones keep their meaning."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from minitvm.errors import ScheduleError
from minitvm.reference import check
from minitvm.tir.schedule import Schedule

from .bad_calls.case import loop
from .bad_calls.moving import loop_in_the_body


@pytest.fixture(autouse=True, scope="module")
def _without_verifier() -> Iterator[None]:
    """As for users: the verifier would find some of these programs wrong before any step, or after one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINITVM_VERIFY", "0")
        yield


Step = Callable[[Schedule], Any]


def keeps(func: Any, step: Step) -> Schedule:
    """The schedule after a legal step that kept what the function computes."""
    sch = Schedule(func)
    before = sch.mod
    step(sch)
    verdict = check(before, sch.mod)
    assert verdict, str(verdict)
    return sch


def refused(func: Any, requirement: str, step: Step) -> str:
    """The error of a step that a requirement refuses."""
    sch = Schedule(func)
    with pytest.raises(ScheduleError) as caught:
        step(sch)
    assert f": {requirement} " in str(caught.value).splitlines()[0] + " ", str(caught.value)
    return str(caught.value)


# ---- blocks that use loops by themselves ---------------------------------------------------------------------------


def test_a_loop_in_the_body_is_named() -> None:
    told = refused(loop_in_the_body, "own_iterators", lambda s: s.compute_inline("B"))
    assert "B uses i, a loop around it, by itself" in told


def test_padding_leaves_a_block_that_uses_its_loops_where_it_is() -> None:
    keeps(
        loop_in_the_body,
        lambda s: s.transform_layout("B", ("write", 0), lambda i: (i // 5, i % 5), pad_value=0.0),
    )


def test_loops_in_the_body_follow_a_split() -> None:
    keeps(loop_in_the_body, lambda s: s.split(loop(s, "B"), [None, 5]))
