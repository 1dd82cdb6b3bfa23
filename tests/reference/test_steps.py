"""Budgets of the oracle are counted in steps: what it tries does not depend on how fast the machine is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minitvm import reference, te
from minitvm.reference.judging import shrink
from minitvm.reference.judging.programs import execute
from minitvm.reference.meaning import steps
from minitvm.reference.meaning.steps import OutOfSteps
from minitvm.tir.transform.pipeline import lower

from .written import function


def copy(n: int) -> Any:
    return function(f"for i in range({n}):\n    B[i] = A[i]",
                    f'A: T.Buffer(({n},), "float32"), B: T.Buffer(({n},), "float32")')  # fmt: skip


def total(n: int) -> Any:
    data, k = te.placeholder((n,), name="A"), te.reduce_axis((0, n), name="k")
    return [data, te.compute((1,), lambda i: te.sum(data[k], axis=k), name="B")]


def cost(program: Any, n: int, out: int, mode: str) -> int:
    before = steps.taken()
    execute(program, [np.zeros(n, np.float32), np.zeros(out, np.float32)], mode=mode)
    return steps.taken() - before


@pytest.mark.parametrize("mode", ["fast", "slow"])
@pytest.mark.parametrize("level", ["te", "loops", "kernels"])
def test_a_run_of_more_iterations_takes_more_steps(mode: str, level: str) -> None:
    def program(n: int) -> Any:
        made = total(n)
        return made if level == "te" else te.create_prim_func(made) if level == "loops" else lower(
            te.create_prim_func(made), None, "total")  # fmt: skip

    few, many = (cost(program(n), n, 1, mode) for n in (256, 2560))
    # A lowered sum may go by vectors of several elements.
    assert many > few + (2560 - 256) // 64


def test_points_of_a_grid_cost_less_than_iterations() -> None:
    assert cost(copy(4096), 4096, 4096, "fast") < cost(copy(4096), 4096, 4096, "slow") // 10


@pytest.mark.parametrize("mode", ["fast", "slow"])
def test_a_budget_ends_a_run(mode: str) -> None:
    args = [np.zeros(4096, np.float32), np.zeros(1, np.float32)]
    func = te.create_prim_func(total(4096))
    with pytest.raises(OutOfSteps), steps.limited(1000):
        execute(func, args, mode=mode)
    with steps.limited(100_000):
        execute(func, args, mode=mode)


def test_an_inner_budget_is_within_the_outer_one() -> None:
    with pytest.raises(OutOfSteps), steps.limited(10), steps.limited(1000):
        steps.spend(11)
    with steps.limited(1000):
        with pytest.raises(OutOfSteps), steps.limited(10):
            steps.spend(11)
        steps.spend(11)


@pytest.mark.parametrize("mode", ["exact", "field"])
def test_shrinking_ends_with_its_budget_and_not_before(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With more steps the counterexample is smaller, and the same each time."""
    wrong = function("B[0] = T.float32(0)\nfor i in range(499):\n    B[0] = B[0] + A[i]",
                     'A: T.Buffer((500,), "float32"), B: T.Buffer((1,), "float32")')  # fmt: skip
    elements: dict[int, int] = {}
    for budget in (2_000, 200_000):
        monkeypatch.setattr(shrink, "STEPS", budget)
        before = steps.taken()
        verdicts = [reference.check(total(500), wrong, modes=mode) for _ in range(2)]
        assert steps.taken() - before < 2 * (budget + 20_000)
        assert str(verdicts[0]) == str(verdicts[1])
        elements[budget] = int(np.count_nonzero(verdicts[0].inputs[0]))
    assert elements[200_000] == 1 < elements[2_000]
