"""`draw_pairs` goes on where a step changes the parameters, and tells a fault there as anywhere else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from minitvm.compat.tvm.schedule.testing import registrations_undone
from minitvm.errors import InternalError
from minitvm.expr import IntImm
from minitvm.reference.strategies import draw_pairs
from minitvm.reference.strategies.pairs import Chain, Judged
from minitvm.tir.nodes import BlockRealize
from minitvm.tir.schedule.primitives import transform_layout
from minitvm.tir.schedule.registry import primitive
from minitvm.tir.schedule.state import ScheduleState


def _register(faulty: bool) -> None:
    @primitive(past="was turned over in")
    def turn_parameter(state: ScheduleState, block: BlockRealize) -> None:
        """Store the parameter that a block writes with its rows and columns exchanged."""
        transform_layout.transform_layout.function(state, block, ("write", 0), lambda i, j: (j, i))
        if faulty:
            state.comparable.update(state.mod.functions)  # as if the caller's arrays had another layout now

    @turn_parameter.space
    def _space(state: ScheduleState) -> Iterator[tuple[Any, ...]]:
        for realize in state.tree().blocks.values():
            for region in realize.block.writes[:1]:
                fixed = all(isinstance(d, IntImm) and d.value > 1 for d in region.buffer.shape)
                if region.buffer in state.tree().func.params and region.buffer.ndim == 2 and fixed:
                    yield (realize,)


@pytest.mark.parametrize("seed", [0, 1])
def test_calls_that_change_parameters_are_judged(seed: int) -> None:
    with registrations_undone():
        _register(faulty=False)
        drawn = draw_pairs("turn_parameter", 20, seed=seed)
    assert drawn.pairs >= 20 and drawn.kernels >= 20


def test_a_fault_in_such_a_call_is_told() -> None:
    with registrations_undone():
        _register(faulty=True)
        with pytest.raises(InternalError, match=r"another meaning after step 1: (.*\n)+.*sch.turn_parameter\("):
            draw_pairs("turn_parameter", 20, seed=0)


def test_a_difference_is_told_though_enough_pairs_come_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """While Hypothesis looks for a smaller program with the difference, it judges many without one."""

    def compare(chain: Chain) -> Judged:
        if len(chain.sch.state.tree().blocks) > 3:
            raise InternalError("another meaning")
        return Judged(True, True)

    monkeypatch.setattr(Chain, "compare", compare)
    with pytest.raises(InternalError, match="another meaning"):
        draw_pairs("split", 60, seed=0)
