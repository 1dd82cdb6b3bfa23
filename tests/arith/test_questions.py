"""Integer reasoning beside enumeration, on questions, boxes and maps of loops that are drawn evenly from seeds."""

from __future__ import annotations

import pytest

from minitvm.arith import Analyzer
from minitvm.expr import SizeVar, Var
from tests.mutants.integers import bindings, boxes, dtypes, questions
from tests.mutants.oracle import Trial, Workload


def _assert_nothing_noticed(workload: Workload) -> None:
    trial = Trial()
    trial.run([workload])
    assert (trial.mode, trial.crashes) == ("", []), trial.text


@pytest.mark.parametrize(
    "workload",
    [questions(60), boxes(60), bindings(800), dtypes(60)],
    ids=lambda w: w.name,
)
def test_answers_hold_at_every_point(workload: Workload) -> None:
    _assert_nothing_noticed(workload)


@pytest.mark.full
@pytest.mark.parametrize("workload", [questions(2000), boxes(2000), bindings(5000), dtypes(2000)], ids=lambda w: w.name)
def test_many_answers_hold_at_every_point(workload: Workload) -> None:
    _assert_nothing_noticed(workload)


def test_a_divisor_that_is_only_zero_tells_nothing() -> None:
    """Code under facts that exclude each other is never run, and is simplified without an error."""
    x, n = Var("x"), SizeVar("n")
    analyzer = Analyzer({x: (-3, 3)})
    analyzer.bind(n, (0, 0))
    for e in (x // n, x % n):
        assert analyzer.bounds(e) == (None, None), e


def test_a_quotient_of_a_product_of_an_open_extent_is_below_that_extent() -> None:
    """Fused loops over n and 6: the quotient by 6 is an iteration of the first."""
    n, fused = SizeVar("n"), Var("fused")
    analyzer = Analyzer()
    analyzer.bind(fused, n * 6)
    assert analyzer.can_prove(fused // 6 < n)
    assert not analyzer.can_prove(fused // 5 < n) and not analyzer.can_prove(fused // 6 < n - 1)
