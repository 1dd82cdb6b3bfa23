"""Gives the learner's shrinker traces with a culprit and steps that need others, and looks for what is left over."""

from __future__ import annotations

import itertools
from types import ModuleType
from typing import Any

from hypothesis import strategies as st

from lessons.grading import attempt, cases, require
from minitvm import tir
from minitvm.errors import ScheduleError
from minitvm.script import tir as T

Steps = list[int]


Failure = tuple[Steps, dict[int, int], dict[int, int], dict[int, int]]


@st.composite
def failures(draw: Any) -> Failure:
    """Steps, which step needs which one in front of it or behind it, and how many of which are the culprits."""
    kinds = draw(st.integers(1, 5))
    needs = {step: draw(st.integers(0, step - 1)) for step in range(1, kinds) if draw(st.booleans())}
    culprit = draw(st.integers(0, kinds - 1))
    chain, wanted = [culprit], {culprit: draw(st.integers(1, 2))}
    while chain[0] in needs:
        chain.insert(0, needs[chain[0]])
    steps = chain + [culprit] * (wanted[culprit] - 1)
    for step in draw(st.lists(st.integers(0, kinds - 1), max_size=5)):
        place = draw(st.integers(0, len(steps)))
        if step not in needs or needs[step] in steps[:place]:
            steps.insert(place, step)
    opening, closing = kinds, kinds + 1  # a step that only another one finishes
    if draw(st.booleans()):
        place = draw(st.integers(0, len(steps)))
        steps.insert(place, opening)
        steps.insert(draw(st.integers(place + 1, len(steps))), closing)
    return steps, needs, {opening: closing}, wanted


@st.composite
def chains(draw: Any) -> Failure:
    """Distinct steps, each of which can go only after another one, in a drawn order; and a culprit, or none."""
    count = draw(st.integers(0, 7))
    needs, closes = {}, {}
    order = draw(st.permutations(range(count)))
    for goes_first, stays in itertools.pairwise(order):
        (needs if stays < goes_first else closes)[goes_first] = stays
    steps = list(range(count))
    if draw(st.booleans()):
        return steps, needs, closes, {}
    steps.insert(draw(st.integers(0, count)), count)
    return steps, needs, closes, {count: 1}


def still_fails(steps: Steps, needs: dict[int, int], closes: dict[int, int], wanted: dict[int, int]) -> bool:
    """Whether the steps can be replayed and hold the culprits."""
    replays = all(
        (step not in needs or needs[step] in steps[:place]) and (step not in closes or closes[step] in steps[place:])
        for place, step in enumerate(steps)
    )
    return replays and all(steps.count(step) >= count for step, count in wanted.items())


def check(module: ModuleType) -> None:
    """Raises AssertionError with the smallest list of steps for which the answer is wrong."""

    @cases(600, failure=failures() | chains())
    def leaves_out_all_that_can_go(failure: Failure) -> None:
        steps, needs, closes, culprits = failure
        calls = 0

        def fails(some: Steps) -> bool:
            nonlocal calls
            calls += 1
            return still_fails(list(some), needs, closes, culprits)

        rules = [f"{a} needs a {b} in front of it" for a, b in needs.items() if a in steps]
        rules += [f"{a} needs a {b} behind it" for a, b in closes.items() if a in steps]
        rules += [f"it fails with {count} times {step}" for step, count in culprits.items()]
        rules += [] if culprits else ["it fails in any case"]
        case = f"shrink({steps}, fails), where {', '.join(rules)},"
        answer = attempt(case, module.shrink, list(steps), fails)
        require(isinstance(answer, list), f"{case} returned {answer!r}, wanted a list")
        require(is_part(answer, steps), f"{case} returned {answer}, which are not steps of the list in their order")
        require(still_fails(answer, needs, closes, culprits), f"{case} returned {answer}, which does not fail")
        for place in range(len(answer)):
            fewer = answer[:place] + answer[place + 1 :]
            left_over = still_fails(fewer, needs, closes, culprits)
            require(not left_over, f"{case} returned {answer}, and {fewer} fails as well")
        most = len(steps) ** 2 + len(steps) + 1
        require(calls <= most, f"{case} asked {calls} times, wanted at most {most}")

    shrinks_a_trace(module)


def is_part(remaining: Steps, steps: Steps) -> bool:
    """Whether leaving some of `steps` out can produce `remaining`."""
    rest = iter(steps)
    return all(step in rest for step in remaining)


def shrinks_a_trace(module: ModuleType) -> None:
    """The same with real steps: which of them it takes to have four loops."""

    @T.prim_func
    def sums(A: T.Buffer((4, 4), "float32"), B: T.Buffer((4,), "float32")):
        for i, j in T.grid(4, 4):
            with T.block("B"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vj]

    calls = [
        lambda sch: sch.split(sch.get_loops("B")[1], [None, 2]),
        lambda sch: sch.split(sch.get_loops("B")[0], [2, None]),
        lambda sch: sch.reorder(*sch.get_loops("B")[1:3]),
        lambda sch: sch.unroll(sch.get_loops("B")[3]),
        lambda sch: sch.annotate("B", "note", 1),
    ]

    def has_four_loops(steps: Steps) -> bool:
        sch = tir.Schedule(sums)
        try:
            for step in steps:
                calls[step](sch)
        except (ScheduleError, IndexError):
            return False
        return len(sch.get_loops("B")) == 4

    case = "shrink on the steps of a schedule that must have four loops"
    answer = attempt(case, module.shrink, list(range(len(calls))), has_four_loops)
    require(answer == [0, 1], f"{case} returned {answer}, wanted the two splits, [0, 1]")
