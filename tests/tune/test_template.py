"""Templates: a user's own schedule with decisions left open, which the tuner finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm import reference, tir
from minitvm.errors import InputError, ScheduleError
from minitvm.expr import structural_equal
from minitvm.records.database import Database
from minitvm.records.lookup import decisions
from minitvm.strategy import RULES, Candidate, Cost, Decision, candidate_of, decided, rule
from minitvm.strategy.registry import rules_of
from minitvm.target import Target
from minitvm.tir.nodes import PrimFunc
from minitvm.tune import tune_func
from minitvm.tune.prepare import checked
from minitvm.tune.space import Space
from minitvm.tune.template import Template
from minitvm.workers import worker_pool
from tests.fewer import examples

from .programs import SHORT, product

FUNC = product(12, 16, 8)
CPU = Target("cpu -cores=2")


def tiled(sch: tir.Schedule, order: str = "ij", unroll: bool = False) -> None:
    """Tiles of both axes, the sum cut in two; further parameters are knobs."""
    i, j, k = sch.get_loops("C")
    i_0, i_1 = sch.split(i, sch.sample_perfect_tile(i, 2))
    j_0, j_1 = sch.split(j, sch.sample_perfect_tile(j, 2))
    k_0, k_1 = sch.split(k, sch.sample_perfect_tile(k, 2))
    sch.reorder(*((i_0, j_0) if order == "ij" else (j_0, i_0)), k_0, k_1, i_1, j_1)
    if unroll:
        sch.unroll(k_1)
    sch.vectorize(j_1)


def choosing(sch: tir.Schedule) -> None:
    """Every kind of sampling, and a decision that only some runs ask for."""
    i, j, _ = sch.get_loops("C")
    step = sch.sample_categorical([0, 2, 4], [0.2, 0.4, 0.4])
    sch.annotate(i, "step", step)
    if sch.get(step) == 4:
        sch.split(j, sch.sample_partitioned_tile(j, 3, 1, 2))


SPACES: dict[Any, Space] = {}
TEMPLATES = {tiled: Template(FUNC, tiled, {"order": ("ij", "ji")}), choosing: Template(FUNC, choosing)}


@examples(10, 40)
@given(st.sampled_from([tiled, choosing]), st.data())
def test_a_decision_is_one_schedule_which_keeps_the_meaning(function: Any, data: st.DataObject) -> None:
    template = TEMPLATES[function]
    with template.registered("cpu"):
        if function not in SPACES:
            SPACES[function] = Space(template.task(CPU))
        space = SPACES[function]
        candidate = data.draw(st.sampled_from(space.yielded))
        near = list(space.nearby(candidate))
        decision = Decision.of(data.draw(st.sampled_from([candidate, *near])))
        assert Decision.of(candidate_of(FUNC, CPU, decision)) == decision
        try:
            one = decided(FUNC, CPU, Decision.from_json(decision.to_json())).schedule
        except ScheduleError:
            assert candidate.rule == "choosing"  # a tile of two steps that are no divisors together
            return
        other = decided(FUNC, CPU, decision).schedule
    assert structural_equal(one.func, other.func)
    for inst in one.trace.insts:
        if inst.primitive.name == "sample_perfect_tile":
            assert (
                decision.knobs[{12: "tile_i_1", 16: "tile_j_1", 8: "tile_k_1"}[inst.decision[0] * inst.decision[1]]]
                == inst.decision[1]
            )
    assert reference.check(FUNC, one.func, modes=["exact"]).equal


def test_all_that_may_be_decided_is_in_the_space() -> None:
    template = Template(FUNC, tiled, {"order": ("ij", "ji"), "unroll": (True, False)})
    with template.registered("cpu"):
        (values,) = Space(template.task(CPU)).values.values()
    assert values == {
        "order": ["ij", "ji"], "unroll": [False, True], "tile_i_1": [1, 2, 3, 4, 6, 12], "tile_j_1": [1, 2, 4, 8, 16],
        "tile_k_1": [1, 2, 4, 8],
    }  # fmt: skip


def test_knobs_alone_are_all_combinations() -> None:
    def unrolled(sch: tir.Schedule, factor: int, vector: bool) -> None:
        _, j, k = sch.get_loops("C")
        sch.unroll(sch.split(k, [None, factor])[1])
        if vector:
            sch.reorder(k, j)

    template = Template(FUNC, unrolled, {"factor": (1, 2, 8), "vector": (False, True)})
    assert len(template.rule.candidates(FUNC, CPU)) == 6


def test_the_space_is_drawn_once() -> None:
    """The tuner asks for candidates when it begins, and again for each schedule that it makes of one."""
    runs: list[tir.Schedule] = []

    def counted(sch: tir.Schedule) -> None:
        runs.append(sch)
        sch.split(sch.get_loops("C")[0], sch.sample_perfect_tile(sch.get_loops("C")[0], 2))

    template = Template(FUNC, counted)
    with template.registered("cpu"):
        first, *_ = template.rule.candidates(FUNC, CPU)
        drawn = len(runs)
        assert decided(FUNC, CPU, Decision.of(first)).schedule is not None
    assert len(runs) <= drawn + 1  # the schedule itself


def test_a_trace_is_a_template_and_so_is_a_schedule() -> None:
    sch = tir.Schedule(FUNC, seed=3)
    tiled(sch)
    templates = [Template(FUNC, one) for one in (sch, sch.trace, tir.schedule.Trace.from_json(sch.trace.as_json()))]
    assert {template.name for template in templates} == {"trace"}
    assert len({template.task(CPU).key for template in templates}) == 1
    assert len(templates[2].rule.candidates(FUNC, CPU)) > 20


def test_a_template_without_a_module_is_tuned_in_processes(tmp_path: Path) -> None:
    space: dict[str, Any] = {}
    exec(  # as a cell of a notebook: no other process could import it, or read its source
        "def cell(sch, lanes):\n"
        "    i, j, k = sch.get_loops('C')\n"
        "    sch.vectorize(sch.split(j, [None, lanes])[1])\n"
        "    sch.reorder(*sch.get_loops('C')[:2], k, sch.get_loops('C')[2])\n",
        space,
    )
    db = str(tmp_path / "records.db")
    try:
        best = tune_func(
            FUNC, CPU, 120.0, schedule=space["cell"], knobs={"lanes": [2, 4, 8]}, trials=3, db=db, limits=SHORT
        )
    finally:
        worker_pool.shutdown()
    assert [inst.primitive.name for inst in best.trace.insts if inst.primitive.name == "vectorize"] == ["vectorize"]
    with Database.open(db) as database:
        outcomes = {record.rule: record.outcome for record in database.records()}
        assert outcomes["cell"] in ("ok", "paired")
        # A build of the function takes none of them: it does not know the template.
        assert decisions([], CPU, db) == {}
        keys = {record.task for record in database.records()}
    assert len(keys) == 1 and Template(FUNC, space["cell"], {"lanes": [2, 4, 8]}).task(CPU).key in keys
    assert not any(row.name == "cell" for row in rules_of("cpu"))


def test_an_edited_template_begins_anew() -> None:
    def of(lanes: int) -> Any:
        return lambda sch: sch.vectorize(sch.split(sch.get_loops("C")[1], [None, lanes])[1])

    keys = [Template(FUNC, of(lanes)).task(CPU).key for lanes in (2, 4, 4)]
    assert keys[0] != keys[1] == keys[2]
    assert keys[0] != Template(product(12, 16, 4), of(2)).task(CPU).key


def test_a_rule_from_outside_reaches_the_workers() -> None:
    """Workers import the package alone: what others registered is scheduled here."""

    def apply(sch: tir.Schedule, lanes: int) -> None:
        sch.vectorize(sch.split(sch.get_loops("C")[1], [None, lanes])[1])

    def mine(func: PrimFunc, target: Any) -> Any:
        for lanes in (4, 5):
            yield Candidate(knobs={"lanes": lanes}, price=lambda lanes: Cost(1.0), apply=apply)

    rule("cpu", lambda func: func is FUNC, for_tuning=True)(mine)
    try:
        task = Template(FUNC, tiled).task(CPU)
        asked = [Decision("mine", {"lanes": 4}), None, Decision("mine", {"lanes": 7})]
        four, built, seven = checked([(task, one) for one in asked], workers=1)
        assert four.outcome == built.outcome == "ok" and four.code != built.code
        assert built.decision.rule == "contraction" and four.decision == asked[0]
        assert seven.outcome == "ok"  # a tail
        (odd,) = checked([(task, Decision("mine", {"rows": 4}))], workers=1)
        assert (odd.outcome, odd.message) == ("refused", "mine: other knobs than rows; it has lanes")
    finally:
        RULES["cpu"] = [row for row in rules_of("cpu") if row.name != "mine"]
        worker_pool.shutdown()


def nothing_open(sch: tir.Schedule) -> None:
    sch.parallel(sch.get_loops("C")[0])


def never_legal(sch: tir.Schedule) -> None:
    i, _, k = sch.get_loops("C")
    sch.split(i, sch.sample_perfect_tile(i, 2))
    sch.parallel(k)


@pytest.mark.parametrize(
    ("schedule", "knobs", "text"),
    [
        (
            nothing_open, None,
            "nothing_open leaves nothing open, so there is nothing to tune\n"
            "  try:    sch.sample_perfect_tile(loop, n) for factors, or knobs={'name': [values]} for its parameters",
        ),
        (never_legal, None, "never_legal: no decisions give a legal schedule\nparallel("),
        (
            tiled, {"unroll": [0, 4]},
            "knobs: unroll=[0, 4]: wanted truth values, integers from 1 on, or names, of one kind and at least one",
        ),
        (tiled, {"unroll": [True, 4]}, "knobs: unroll=[True, 4]: wanted truth values, integers from 1 on"),
        (tiled, {"order": []}, "knobs: order=[]: wanted truth values"),
        (
            nothing_open, {"lanes": [4]},
            "schedule: nothing_open(sch: 'tir.Schedule') -> 'None' is called with a Schedule and the knobs lanes: "
            "got an unexpected keyword argument 'lanes'",
        ),
        (7, None, "schedule: wanted a function that takes a Schedule, a Trace or a Schedule, found int"),
    ],
)  # fmt: skip
def test_a_template_that_cannot_be_tuned_says_why(schedule: Any, knobs: Any, text: str) -> None:
    with pytest.raises(InputError) as raised:
        list(Template(FUNC, schedule, knobs).rule.candidates(FUNC, CPU))
    assert str(raised.value).startswith(text)


def test_names_of_rules_and_knobs_without_a_template_are_refused() -> None:
    def contraction(sch: tir.Schedule) -> None:
        tiled(sch)

    with pytest.raises(InputError, match="contraction is the name of a rule for cpu; give the schedule another name"):
        tune_func(FUNC, CPU, schedule=contraction)
    with pytest.raises(InputError, match="knobs are parameters of a schedule function: give schedule="):
        tune_func(FUNC, CPU, knobs={"lanes": [4]})
    with pytest.raises(InputError, match="knobs are parameters of a schedule function; a trace has none"):
        tune_func(FUNC, CPU, schedule=tir.Schedule(FUNC), knobs={"lanes": [4]})
