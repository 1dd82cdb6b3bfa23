"""The kernels of candidates, through all passes, are right at any size: tails, masks and open extents.

`make test` compares each at a drawn size of each open extent, `make test-full` at all sizes that `check` tries.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

from minitvm import reference, strategy, te, topi
from minitvm.errors import ScheduleError
from minitvm.strategy import choice_of
from minitvm.target import Target
from minitvm.tir.transform import lower

from .families import FAMILIES, GPU_FAMILIES, Family, sizes

QUICK = settings(derandomize=True, deadline=None, phases=[Phase.generate])
LOWERED = [
    family
    for family in FAMILIES
    if family.rule in ("contraction", "depthwise_conv2d_nchwc", "rows", "generic") or family in GPU_FAMILIES
]


def kernels_are_right(family: Family, data: Any, every_size: bool) -> None:
    """The kernels of one candidate, from passes and all."""
    func, target = family.draw(data.draw), Target(data.draw(st.sampled_from(family.targets)))
    candidates = [
        one for one in strategy.candidates(func, target) if one.rule == family.rule and family.among(one.knobs)
    ]
    assume(candidates)
    candidate = data.draw(st.sampled_from(candidates[:4] + candidates[-4:]))
    try:
        schedule = candidate.schedule(func)
    except ScheduleError:
        return
    # In "shadow" a sum without terms is undefined.
    at = {} if every_size else sizes(func, data)
    verdict = reference.check(func, lower(schedule.func, target, "main"), modes=["exact", "shadow"], sizes=at)
    assert verdict.equal, f"{dict(candidate.knobs)}\n{verdict}"


@pytest.mark.parametrize("family", LOWERED, ids=str)
def test_kernels_of_drawn_functions(family: Family) -> None:
    examples = 1 if family in GPU_FAMILIES else 2
    given(data=st.data())(settings(QUICK, max_examples=examples)(lambda data: kernels_are_right(family, data, False)))()


@pytest.mark.full
@pytest.mark.parametrize("family", LOWERED, ids=str)
def test_kernels_of_many_drawn_functions(family: Family) -> None:
    examples = 20 if family in GPU_FAMILIES else 150
    given(data=st.data())(settings(QUICK, max_examples=examples)(lambda data: kernels_are_right(family, data, True)))()


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
