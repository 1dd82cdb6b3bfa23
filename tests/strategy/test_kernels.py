"""The kernels of candidates, through all passes, are right at every size: tails, masks and open extents."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from minitvm import reference, strategy, te, topi
from minitvm.errors import ScheduleError
from minitvm.strategy import choice_of
from minitvm.target import Target
from minitvm.tir.transform import lower

from .families import FAMILIES, TARGET

CPU = Target(TARGET)
QUICK = settings(derandomize=True, deadline=None, phases=[Phase.generate])
DRAWN = {family.rule: family.draw for family in FAMILIES}
RULES = ["contraction", "depthwise_conv2d_nchwc", "rows", "generic"]


def kernels_are_right(rule: str, data: Any) -> None:
    """The kernels of one candidate, from passes and all."""
    func = DRAWN[rule](data.draw)
    candidates = [one for one in strategy.candidates(func, CPU) if one.rule == rule]
    candidate = data.draw(st.sampled_from(candidates[:4] + candidates[-4:]))
    try:
        schedule = candidate.schedule(func)
    except ScheduleError:
        return
    # In "shadow" a sum without terms is undefined.
    verdict = reference.check(func, lower(schedule.func, CPU, "main"), modes=["exact", "shadow"])
    assert verdict.equal, f"{dict(candidate.knobs)}\n{verdict}"


@pytest.mark.parametrize("rule", RULES)
def test_kernels_of_drawn_functions(rule: str) -> None:
    given(data=st.data())(settings(QUICK, max_examples=3)(lambda data: kernels_are_right(rule, data)))()


@pytest.mark.full
@pytest.mark.parametrize("rule", RULES)
def test_kernels_of_many_drawn_functions(rule: str) -> None:
    given(data=st.data())(settings(QUICK, max_examples=150)(lambda data: kernels_are_right(rule, data)))()


def test_open_sums_and_open_rows_have_the_rules_of_known_ones() -> None:
    m, k, n = (te.size_var(name) for name in "mkn")
    p, x = te.placeholder((6, m, k), name="p"), te.placeholder((6, k, 64), name="x")
    rows = te.placeholder((1, 6, m, n), name="rows")
    for inputs, result, rule in (([p, x], topi.matmul(p, x), "contraction"), ([rows], topi.softmax(rows), "rows")):
        scheduled = strategy.scheduled(te.create_prim_func([*inputs, result]), Target("cpu"))
        choice = choice_of(scheduled)
        assert choice is not None and choice.rule == rule and not choice.refused
        text = scheduled.script()
        assert "T.parallel" in text and ("T.vectorized" in text)
