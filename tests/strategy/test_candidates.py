"""Every candidate of every rule keeps the meaning or is refused with a reason; the cheapest legal one is taken."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from minitvm import reference, script, strategy, te, topi
from minitvm.errors import InputError, ScheduleError
from minitvm.events import Listener, Refusal, listening
from minitvm.machines.simd.topi.blocked import conv2d_nchwc, unblock_axis
from minitvm.strategy import Candidate, Cost, Option, choice_of
from minitvm.strategy.candidate import Unfit, Weighed, cheapest_first, reason
from minitvm.strategy.registry import chosen, rule, rules_of
from minitvm.strategy.report import lines
from minitvm.target import Target
from minitvm.tir import Schedule
from minitvm.tir.nodes import PrimFunc

from .families import FAMILIES, TARGET, Family, sizes

CPU = Target(TARGET)
QUICK = settings(derandomize=True, deadline=None, phases=[Phase.generate])


def legal(candidate: Candidate, func: PrimFunc) -> Schedule | None:
    """The candidate's schedule; None where it is refused, which has to have a reason."""
    try:
        return candidate.schedule(func)
    except ScheduleError as error:
        assert reason(error)
        return None


def kept(family: Family, data: Any, every_size: bool) -> None:
    """The property, for one function of a family: the one taken, and another candidate.

    Each is compared at all sizes of open extents that `check` tries, or at drawn ones.
    """
    func, target = family.draw(data.draw), Target(data.draw(st.sampled_from(family.targets)))
    made = chosen(func, target)
    candidates = [one for one in strategy.candidates(func, target) if one.rule == family.rule]
    cycles = [one.cost.cycles for one in candidates]
    assert cycles == sorted(cycles) and all(math.isfinite(c) and c > 0 for c in cycles)
    assert all(one.cost.compute > 0 and one.cost.memory >= 0 for one in candidates)

    refused = [one for one in made.choice.refused if one.knobs]  # a rule in front may have had no candidates
    assert made.rule == family.rule and made.choice.count == len(candidates)
    assert [dict(one.knobs) for one in refused] == [dict(one.knobs) for one in candidates[: len(refused)]]
    assert all(legal(one, func) is None for one in candidates[: len(refused)])
    assert dict(made.choice.weighed[0].knobs) == dict(candidates[len(refused)].knobs)
    same_meaning(func, made.schedule, candidates[len(refused)], {} if every_size else sizes(func, data))
    others = [one for one in candidates[len(refused) + 1 :] if family.among(one.knobs)]
    if others:
        other = data.draw(st.sampled_from(others))
        schedule = legal(other, func)
        if schedule is not None:
            same_meaning(func, schedule, other, {} if every_size else sizes(func, data))


def same_meaning(func: PrimFunc, schedule: Schedule, candidate: Candidate, sizes: dict[str, int]) -> None:
    # In "shadow" a sum without terms is undefined.
    verdict = reference.check(func, schedule.func, modes=["exact", "shadow"], sizes=sizes)
    assert verdict.equal, f"{candidate.rule} {dict(candidate.knobs)}\n{verdict}"


@pytest.mark.parametrize("family", [f for f in FAMILIES if f.examples], ids=str)
def test_candidates_keep_the_meaning_and_the_cheapest_legal_one_is_taken(family: Family) -> None:
    given(data=st.data())(settings(QUICK, max_examples=family.examples)(lambda data: kept(family, data, False)))()


@pytest.mark.full
@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_many_candidates_keep_the_meaning(family: Family) -> None:
    most = 20 if family.examples else 3
    given(data=st.data())(settings(QUICK, max_examples=most)(lambda data: kept(family, data, True)))()


def product(m: int, n: int, k: int) -> PrimFunc:
    a, b = te.placeholder((m, k), name="a"), te.placeholder((k, n), name="b")
    return te.create_prim_func([a, b, topi.matmul(a, b)])


def test_knobs_are_overridden() -> None:
    func = product(16, 24, 8)
    made = chosen(func, CPU, {"rows": 2, "vectors": 3})
    knobs = made.choice.weighed[0].knobs
    assert (knobs["rows"], knobs["vectors"]) == (2, 3) != (chosen(func, CPU).choice.weighed[0].knobs["rows"], 3)
    assert [step for step in made.schedule.trace.as_python() if "split" in step and "2]" in step]
    assert reference.check(func, strategy.schedule(func, CPU, {"rows": 2, "vectors": 3}).func).equal
    best = strategy.candidates(func, CPU)[0]
    other = best.with_knobs(rows=1)
    assert other.knobs["rows"] == 1 and other.cost.cycles > best.cost.cycles and best.knobs["rows"] != 1
    assert reference.check(func, other.schedule(func).func).equal


@pytest.mark.parametrize(
    ("knobs", "text"),
    [
        ({"rowz": 2}, "contraction has no knob 'rowz': did you mean row or rows?"),
        ({"rows": 0}, "knob 'rows' of contraction: wanted an integer of at least 1, found 0"),
        ({"rows": True}, "knob 'rows' of contraction: wanted an integer of at least 1, found True"),
        ({"pack": 1}, "knob 'pack' of contraction: wanted True or False, found 1"),
    ],
)
def test_wrong_knobs_are_refused(knobs: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError) as error:
        strategy.schedule(product(4, 8, 4), CPU, knobs)
    assert str(error.value) == text


def test_knobs_that_are_not_legal_are_an_error_and_no_other_rule_is_tried() -> None:
    x, w = te.placeholder((1, 1, 3, 3, 4), name="x"), te.placeholder((2, 1, 1, 1, 4, 4), name="w")
    plain = unblock_axis(conv2d_nchwc(x, w, padding=(0, 0, 0, 1)), axis=1, extent=8)
    func = te.create_prim_func([x, w, plain])
    with pytest.raises(ScheduleError, match="no candidate with in_cache=True, rows=2 is legal: conv2d_nchwc: 2 rows"):
        strategy.schedule(func, CPU, {"in_cache": True, "rows": 2})
    with pytest.raises(InputError, match="none fits: rows=2"):
        strategy.schedule(product(2, 2, 2), Target("accel"), {"rows": 2})


class Refusals(Listener):
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.heard: list[Refusal] = []

    def refused(self, refusal: Refusal) -> None:
        self.heard.append(refusal)


@pytest.fixture
def picky() -> Iterator[list[int]]:
    """A rule in front of all others, whose candidates up to a limit are refused."""
    limit, rows = [0], rules_of("cpu")
    before = list(rows)

    @rule("cpu", lambda func: True, first=True)
    def picky(func: PrimFunc, target: Any) -> Iterator[Candidate]:
        def apply(sch: Schedule, number: int) -> None:
            loop = sch.get_loops("T_matmul_NN")[0]
            if number <= limit[0]:
                sch.reorder(loop, loop)

        for number in (3, 1, 2):
            yield Candidate(knobs={"number": number}, price=lambda number: Cost(number, 1.0), apply=apply)

    yield limit
    rows[:] = before


def test_a_refusal_is_kept_and_reported_and_the_next_candidate_is_taken(picky: list[int]) -> None:
    picky[0] = 2
    listener = Refusals()
    made = chosen(product(4, 4, 4), CPU, listeners=[listener])
    assert made.rule == "picky" and [one.knobs["number"] for one in made.choice.weighed] == [3]
    why = "reorder(i, i): distinct_loops; wanted: different loops; found: i twice"
    assert [(one.knobs["number"], one.refused) for one in made.choice.refused] == [(1, why), (2, why)]
    assert listener.heard == [Refusal("picky", {"number": 1}, why), Refusal("picky", {"number": 2}, why)]
    assert f"refused     picky number=1: {why}" in lines(made.choice)


def test_a_fall_to_another_rule_is_reported(picky: list[int]) -> None:
    picky[0] = 3
    listener = Refusals()
    with listening(listener):
        made = chosen(product(4, 4, 4), CPU)
    assert made.rule == "contraction" and len(listener.heard) == len(made.choice.refused) == 3
    chosen(product(4, 4, 4), CPU)
    assert len(listener.heard) == 3, "it listens inside of the block only"


def test_a_rule_without_a_candidate_says_so() -> None:
    before = list(rules_of("cpu"))
    rule("cpu", lambda func: True, first=True)(_nothing)
    try:
        made = chosen(product(4, 4, 4), CPU)
    finally:
        rules_of("cpu")[:] = before
    assert made.rule == "contraction" and made.choice.refused[0].refused == "_nothing: no candidate for these extents"


def test_a_function_that_a_rule_cannot_schedule_is_refused_once() -> None:
    """What no knob changes is not tried with other knobs."""
    before = list(rules_of("cpu"))

    @rule("cpu", lambda func: True, first=True)
    def never(func: PrimFunc, target: Any) -> Iterator[Candidate]:
        def apply(sch: Schedule, number: int) -> None:
            raise Unfit("never: wanted another function")

        for number in (1, 2, 3):
            yield Candidate(knobs={"number": number}, price=lambda number: Cost(number, 1.0), apply=apply)

    try:
        made = chosen(product(4, 4, 4), CPU)
    finally:
        rules_of("cpu")[:] = before
    (refused,) = made.choice.refused
    assert made.rule == "contraction" and not refused.knobs
    assert refused.refused == "never: wanted another function"


def test_a_sum_may_be_read_by_several() -> None:
    a, b = te.placeholder((4, 6), name="a"), te.placeholder((6, 8), name="b")
    c = topi.matmul(a, b)
    func = te.create_prim_func([a, b, c, te.compute((4, 8), lambda i, j: c[i, j] + 1.0, name="first"),
                                te.compute((4, 8), lambda i, j: c[i, j] * 2.0, name="second")])  # fmt: skip
    made = chosen(func, CPU)
    assert made.rule == "contraction" and not made.choice.refused
    assert reference.check(func, made.schedule.func).equal


def _nothing(func: PrimFunc, target: Any) -> list[Candidate]:
    return []


def test_the_record_of_a_choice_prints_and_reads_back(picky: list[int]) -> None:
    picky[0] = 1
    func = strategy.scheduled(product(8, 16, 4), CPU)
    choice = choice_of(func)
    again = choice_of(script.from_source(func.script()))
    assert again == choice and choice.rule == "picky" and choice.refused and choice.count == 3
    assert choice_of(product(2, 2, 2)) == strategy.Choice()


def test_costs_are_written_with_six_digits() -> None:
    option = Option(knobs={"rows": 2, "pack": True}, price=lambda rows, pack: Cost(1234567.89, 0.1))
    assert Weighed.of(option).data == ("", (("rows", 2), ("pack", True)), 1234570.0, 0.1, "")
    assert Weighed.from_data(Weighed.of(option).data).knobs == option.knobs


def test_equal_costs_keep_the_order_of_the_rule() -> None:
    options = [Option(rule=name, knobs={}, price=lambda: Cost(1.0)) for name in "cab"]
    assert [one.rule for one in cheapest_first(options)] == ["c", "a", "b"]
