"""Integer reasoning beside enumeration, on questions, boxes and maps of loops that are drawn evenly from seeds."""

from __future__ import annotations

import pytest

from tests.mutants.integers import bindings, boxes, dtypes, questions
from tests.mutants.oracle import Trial, Workload


def _assert_nothing_noticed(workload: Workload) -> None:
    trial = Trial()
    trial.run([workload])
    assert (trial.mode, trial.crashes) == ("", []), trial.text


# A split (`i // 2`) whose loop only the predicate's sum bounds keeps its whole extent.
LIMITED = pytest.mark.xfail(strict=True, reason="a predicate on a sum does not shorten the splits of its loops")


@pytest.mark.parametrize(
    "workload",
    [questions(60), boxes(60), pytest.param(bindings(400), marks=LIMITED), dtypes(60)],
    ids=lambda w: w.name,
)
def test_answers_hold_at_every_point(workload: Workload) -> None:
    _assert_nothing_noticed(workload)


@pytest.mark.full
@pytest.mark.parametrize("workload", [questions(2000), boxes(2000), dtypes(2000)], ids=lambda w: w.name)
def test_many_answers_hold_at_every_point(workload: Workload) -> None:
    _assert_nothing_noticed(workload)
