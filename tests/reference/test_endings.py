"""A `while`, or an extent read from a buffer, withholds only what reaches it; one that goes on gets other inputs."""

from __future__ import annotations

from typing import Any

import pytest

from minitvm.reference import check, random_inputs
from minitvm.reference.judging.inputs.endings import deciding
from minitvm.reference.meaning import steps
from minitvm.tir.transform.pipeline import lower

from .written import function

ARRAYS = 'N: T.Buffer((4,), "int32"), A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")'


def collatz(value: str, go_on: str = "L[0] != 1", step: str = "3 * L[0] + 1") -> Any:
    """How many steps from N[i] to 1, and a value of A beside."""
    return function(
        f"""
        L = T.alloc_buffer((2,), "int32")
        for i in range(4):
            L[0] = N[i]
            L[1] = 0
            while {go_on}:
                L[0] = T.if_then_else(L[0] % 2 == 0, L[0] // 2, {step})
                L[1] = L[1] + 1
            B[i] = L[1] + {value}
        """,
        ARRAYS,
    )


def counted(value: str, extent: str = "s") -> Any:
    """A loop of as many iterations as an argument says."""
    return function(
        f"""
        for i in range(4):
            B[i] = 0
        for i in range(T.max(0, T.min(4, {extent}))):
            B[i] = {value}
        """,
        ARRAYS + ", s: T.int32",
    )


PAIRS = {
    "a clip beside a while": (collatz("T.min(A[i], 1000)"), collatz("A[i]")),
    "the ends of a dtype": (collatz("T.Select(A[i] + 1 > A[i], 1, 0)"), collatz("1")),
    "a narrowing": (collatz("T.Cast('int32', T.Cast('int8', A[i]))"), collatz("A[i]")),
    "the steps themselves": (collatz("A[i]"), collatz("A[i]", step="L[0] + 1")),
    "a clip in a loop of an argument": (counted("T.min(A[i], 1000)"), counted("A[i]")),
    "a narrowing in a loop of an argument": (counted("T.Cast('int32', T.Cast('int16', A[i]))"), counted("A[i]")),
    "a loop as long as data": (counted("T.min(A[i], 1000)", "N[0]"), counted("A[i]", "N[0]")),
}
EQUAL = {
    "a while": (collatz("T.min(A[i], 1000)"), collatz("T.if_then_else(A[i] > 1000, 1000, A[i])")),
    "a while of other words": (collatz("A[i]"), collatz("A[i]", go_on="not L[0] == 1")),
    "an argument": (counted("T.min(A[i], 1000)"), counted("T.if_then_else(A[i] > 999, 1000, A[i])")),
    "data": (counted("T.max(A[i], -1000)", "N[0]"), counted("T.if_then_else(A[i] < -999, -1000, A[i])", "N[0]")),
}


@pytest.mark.parametrize("name", PAIRS)
def test_what_does_not_reach_it_is_planted(name: str) -> None:
    before, after = PAIRS[name]
    begin = steps.taken()
    assert not check(before, after, shrink=False)
    assert not check(after, before, shrink=False)
    assert steps.taken() - begin < 400_000


@pytest.mark.parametrize("name", EQUAL)
def test_the_same_in_other_words(name: str) -> None:
    before, after = EQUAL[name]
    verdict = check(before, after)
    assert verdict, str(verdict)
    assert "exact" in verdict.ran


def test_inputs_on_which_it_ends_are_found() -> None:
    program = collatz("A[i]")
    assert deciding(program) == {0}
    for seed in range(3):
        assert (random_inputs(program, seed)[0] > 0).all()
    assert deciding(lower(program, None, "main")) == {0}
    assert deciding(counted("A[i]")) == frozenset()
