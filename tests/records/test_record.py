"""Records are data: they come back from text as they were; what is not one is refused with the part that is wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm.errors import InputError
from minitvm.records.record import MEASURED, OUTCOMES, Record, target_key, undisturbed
from minitvm.strategy import Decision
from minitvm.target import Target

from .drawing import decisions, records


@given(records())
def test_a_record_comes_back_from_its_line(record: Record) -> None:
    line = record.to_json()
    assert "\n" not in line
    assert Record.from_json(line) == record
    assert Record.from_json(line).uid == record.uid


@given(records(), records())
def test_two_records_share_a_uid_only_if_they_are_equal(one: Record, other: Record) -> None:
    assert (one.uid == other.uid) == (one == other)


@given(decisions())
def test_a_decision_comes_back_from_its_text_whatever_the_order_of_its_knobs(decision: Decision) -> None:
    assert Decision.from_json(decision.to_json()) == decision
    backwards = Decision(decision.rule, dict(reversed(list(decision.knobs.items()))))
    assert backwards == decision and hash(backwards) == hash(decision)


@given(records())
def test_only_what_was_measured_has_a_time(record: Record) -> None:
    measured = record.outcome in MEASURED and record.seconds
    assert (record.time < float("inf")) == bool(measured)
    assert record.gain == (record.baseline / record.time if measured else 0.0)


@given(records(), st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=20), st.floats(1.0, 10.0))
def test_slower_runs_of_a_disturbed_machine_do_not_count(record: Record, seconds: list[float], factor: float) -> None:
    first, *others = sorted(seconds)
    slowed = replace(record, outcome="ok", seconds=(first, *(one * factor for one in others)))
    assert slowed.time == replace(slowed, seconds=tuple(seconds)).time


@given(records(), st.lists(st.tuples(st.floats(1e-6, 1e-3), st.floats(1.0, 50.0)), min_size=1, max_size=8))
def test_a_machine_that_is_slow_for_a_while_is_slow_for_both_of_two(
    record: Record, runs: list[tuple[float, float]]
) -> None:
    """Candidates beside an untuned program of 1 ms, on a machine that is so many times as slow."""
    every = [
        replace(record, outcome="ok", seconds=(seconds * slower,), baseline=1e-3 * slower) for seconds, slower in runs
    ]
    least = min(slower for _, slower in runs)
    assert undisturbed(every) == pytest.approx([seconds * least for seconds, _ in runs])
    other = replace(record, task="another", outcome="ok", seconds=(1.0,), baseline=1e-9)
    assert undisturbed([*every, other])[:-1] == undisturbed(every)
    unknown = replace(other, baseline=0.0)
    assert undisturbed([unknown]) == [1.0]


def line(**parts: object) -> str:
    import json

    whole = {"task": "t", "target": "k", "machine": "cpu", "name": "n", "rule": "r", **parts}
    return json.dumps({name: value for name, value in whole.items() if value is not None})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not a record: wanted a line of JSON, found '{'"),
        ("[1]", r"not a record: wanted an object, found '\[1\]'"),
        (line(rule=None), "not a record: found no rule"),
        (line(colour=1), "not a record: found colour, which is not a part of one"),
        (line(outcome="fine"), "not a record: outcome 'fine'; wanted one of ok, paired, wrong, crashed, hung, memory"),
        (line(knobs=[1]), r"not a record: not knobs: wanted names with .* found '\[1\]'"),
        (line(knobs={"a": 1.5}), "not a record: not knobs: wanted names with truth values, integers or names"),
        (line(seconds=["x"]), "not a record: could not convert string to float: 'x'"),
    ],
)
def test_what_is_not_a_record_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Record.from_json(text)


@pytest.mark.parametrize("text", ["", "3", '{"rule": "r"}', '{"rule": 1, "knobs": {}}'])
def test_what_is_not_a_decision_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="not a decision: wanted"):
        Decision.from_json(text)


def test_targets_for_which_code_differs_have_other_keys() -> None:
    keys = {target_key(Target(f"cpu -vector_bits={bits} -cores={cores}")) for bits in (128, 256) for cores in (1, 2)}
    assert len(keys) == 4
    assert target_key(Target("cpu -model=znver3 -ghz=3.0")) == target_key(Target("cpu -model=znver3 -ghz=4.0"))
    assert len(OUTCOMES) == len(set(OUTCOMES))
