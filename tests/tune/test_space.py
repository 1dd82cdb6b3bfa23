"""The space of a task: its points are decisions, and each keeps the meaning or is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm import reference, strategy
from minitvm.errors import InputError, ScheduleError
from minitvm.expr import structural_equal
from minitvm.strategy import Decision, candidate_of, decided
from minitvm.tune.space import Space
from tests.fewer import examples

from .programs import product, task

TASK = task(product(9, 20, 6))
SPACE = Space(TASK)


def test_what_rules_yield_is_there_once_the_cheapest_first_sketches_included() -> None:
    decisions = [Decision.of(one) for one in SPACE.yielded]
    assert len(decisions) == len(set(decisions))
    cycles = [one.cost.cycles for one in SPACE.yielded]
    assert cycles == sorted(cycles) and SPACE.cheapest >= cycles[0]
    assert {one.rule for one in SPACE.yielded} == {"contraction", "sketch", "generic"}
    assert SPACE.size >= len(decisions)


@examples(8, 25)
@given(st.integers(0, 1 << 30), st.data())
def test_points_of_the_space_keep_the_meaning_or_are_refused(seed: int, data: st.DataObject) -> None:
    candidate = SPACE.sample(np.random.default_rng(seed))
    assert candidate is not None
    near = list(SPACE.nearby(candidate))
    for other in near:
        changed = [name for name, value in candidate.knobs.items() if other.knobs[name] != value]
        assert len(changed) == 1 and other.rule == candidate.rule
    point = data.draw(st.sampled_from([candidate, *near]))
    decision = Decision.of(point)
    assert Decision.of(candidate_of(TASK.func, TASK.target, decision)) == decision
    try:
        chosen = decided(TASK.func, TASK.target, Decision.from_json(decision.to_json()))
    except ScheduleError:
        return
    verdict = reference.check(TASK.func, chosen.schedule.func, modes=["exact"])
    assert verdict.equal, f"{decision}\n{verdict}"


def test_a_decision_is_carried_out_as_the_candidate_is() -> None:
    for candidate in SPACE.yielded[::7]:
        try:
            own = candidate.schedule(TASK.func)
        except ScheduleError:
            continue
        again = decided(TASK.func, TASK.target, Decision.of(candidate))
        assert again.schedule.func.script() == own.func.script()
        assert again.choice.taken is not None and Decision(again.rule, again.choice.taken.knobs) == Decision.of(
            candidate
        )


@pytest.mark.parametrize(
    ("decision", "message"),
    [
        (Decision("nothing", {}), "nothing: no rule of that name for cpu"),
        (Decision("winograd_conv2d_nchwc", {"rows": 2}), "winograd_conv2d_nchwc: not a rule for this function"),
        (Decision("generic", {"colour": 3}), "generic: other knobs than colour; it has inline, vector_bytes, tasks"),
    ],
)
def test_what_cannot_be_carried_out_any_more_is_refused_with_the_reason(decision: Decision, message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        decided(TASK.func, TASK.target, decision)
    scheduled = strategy.scheduled(TASK.func, TASK.target, decision=decision)
    assert strategy.choice_of(scheduled).refused[0].refused.startswith(message.split(";")[0])
    usual = strategy.scheduled(TASK.func, TASK.target)
    assert structural_equal(scheduled.body, usual.body, map_free_vars=True)
    assert strategy.choice_of(scheduled).taken == strategy.choice_of(usual).taken


def test_knobs_of_another_type_are_refused() -> None:
    known = SPACE.yielded[0]
    wrong = Decision(known.rule, {**known.knobs, "lanes": True})
    with pytest.raises(ScheduleError, match="knob 'lanes' of .*: wanted an integer of at least 1, found True"):
        decided(TASK.func, TASK.target, wrong)
    with pytest.raises(InputError):
        known.with_knobs(lanes=True)


def test_sketches_change_nothing_for_a_build() -> None:
    """Rules for tuning are asked by name alone."""
    offered = {one.rule for one in strategy.candidates(TASK.func, TASK.target)}
    assert offered == {"contraction", "generic"}
    assert strategy.chosen(TASK.func, TASK.target).rule == "contraction"


def test_a_task_of_some_rules_has_only_their_candidates_and_begins_with_the_cheapest() -> None:
    space = Space(replace(TASK, rules=("sketch",)))
    assert {one.rule for one in space.yielded} == {"sketch"} and space.cheapest == space.yielded[0].cost.cycles
    assert space.first == Decision.of(space.yielded[0]) and SPACE.first is None
