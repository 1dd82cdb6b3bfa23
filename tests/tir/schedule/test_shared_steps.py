"""Schedules that share steps are what they would be alone, and a step that was made before is not made again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitvm.errors import ScheduleError
from minitvm.expr import Var
from minitvm.reference.strategies import prim_funcs
from minitvm.tir import IndexMap
from minitvm.tir.schedule import PRIMITIVES, Schedule, shared_steps
from minitvm.tir.schedule.shared_steps import SharedSteps

from . import programs

WITHOUT_FUNCTIONS = (
    "split",
    "fuse",
    "reorder",
    "compute_inline",
    "compute_at",
    "cache_read",
    "unroll",
    "add_unit_loop",
)


def choices(sch: Schedule, numbers: Sequence[int], steps: int) -> Schedule:
    """So many legal calls, chosen by the numbers."""
    place = iter(numbers)
    for _ in range(steps):
        call = sch.draw(lambda n: next(place, 0) % n, *WITHOUT_FUNCTIONS)
        if call is not None:
            sch.apply(call)
    return sch


def seen(sch: Schedule) -> tuple[str, str, int]:
    return str(sch.mod), str(sch.trace), len(sch._history)


@settings(max_examples=25)
@given(func=prim_funcs(), numbers=st.lists(st.integers(0, 50), min_size=6, max_size=6), other=st.integers(0, 50))
def test_schedules_that_share_steps_are_what_they_are_alone(func: Any, numbers: list[int], other: int) -> None:
    steps = SharedSteps(func)
    alone = seen(choices(Schedule(func), numbers, 3))
    first = choices(steps.schedule(), numbers, 3)
    assert seen(first) == alone
    size = steps.size
    again = choices(steps.schedule(), numbers, 3)
    assert seen(again) == alone and again.mod is first.mod and steps.size == size
    changed = [*numbers[:4], other, other]
    assert seen(choices(steps.schedule(), changed, 3)) == seen(choices(Schedule(func), changed, 3))
    assert seen(first) == alone
    while first._history:
        first.undo()
    assert str(first.mod) == str(Schedule(func).mod)


def counted(monkeypatch: pytest.MonkeyPatch, name: str) -> list[str]:
    """Each run of a primitive adds its name."""
    runs: list[str] = []
    usual = PRIMITIVES[name].function

    def run(*arguments: Any, **named: Any) -> Any:
        runs.append(name)
        return usual(*arguments, **named)

    monkeypatch.setattr(PRIMITIVES[name], "function", run)
    return runs


def test_a_step_is_made_once_and_what_differs_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = counted(monkeypatch, "split")
    steps = SharedSteps(programs.matmul())
    for factor in (4, 4, 8, 4):
        sch = steps.schedule()
        i, j, _ = sch.get_loops("C")
        sch.split(i, [None, 2])
        sch.split(j, [None, factor])
    assert len(runs) == 3  # i by 2; j by 4 and by 8


def test_numbers_of_other_kinds_are_other_arguments() -> None:
    assert shared_steps.identity([1, True, 1.0, "1", None]) != shared_steps.identity([1, 1, 1.0, "1", None])
    assert shared_steps.identity([0.0]) != shared_steps.identity([-0.0])
    assert shared_steps.identity([1]) != shared_steps.identity((1,))


def turned(factor: Any, *other: Any) -> Any:
    """A function of indices, made anew by each call."""
    return lambda i, j: (j * factor, i, *other)


def blocked(factor: int) -> Any:
    return lambda *i: [i[0] // factor, i[0] % factor, *i[1:]]


def test_functions_of_the_same_code_and_numbers_are_one_argument() -> None:
    identity = shared_steps.identity
    held = [turned(2), turned(2), turned(3), turned(True), turned(2, 1), lambda i, j: (j * 2, i)]
    assert identity(held[0]) == identity(held[1])
    assert len({identity(one) for one in held}) == len(held) - 1
    default = [lambda i, by=by: i * by for by in (1, 1, 2)]
    assert identity(default[0]) == identity(default[1]) != identity(default[2])
    for known in ([2], Var("n", "int32"), turned):  # what may change is not looked at
        one, other = turned(known), turned(known)
        assert identity(one) == identity(one) != identity(other)
    named = turned(2)
    named.note = 1
    assert identity(named) != identity(held[0])


def test_maps_of_the_same_variables_to_the_same_results_are_one_argument() -> None:
    size = Var("n", "int32")

    def of(change: Any, **options: Any) -> Any:
        return shared_steps.identity(IndexMap.from_func(change, **options))

    alike = [of(lambda i, j: (j, i * 2)), of(lambda i, j: (j, i + i))]
    assert alike[0] == of(lambda i, j: (j, i * 2))
    others = [
        *alike, of(lambda i, k: (k, i * 2)), of(lambda j, i: (j, i * 2)), of(lambda i, j: (j, i * 2, i)),
        of(lambda i, j: (j, i * 2), index_dtype="int64"), of(lambda i, j: (j, i * size)),
        of(lambda i, j: (j, i * Var("n", "int32"))),
        of(lambda i, j: (j, i * 2), inverse_index_map=lambda x, y: (y // 2, x)),
    ]  # fmt: skip
    assert len(set(others)) == len(others)


def test_a_step_with_a_function_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = counted(monkeypatch, "transform_layout")
    steps = SharedSteps(programs.chain())
    alone = []
    for factor in (2, 2, 5):
        shared, fresh = steps.schedule(), Schedule(programs.chain())
        for sch in (shared, fresh):
            sch.transform_layout("B", ("write", 0), blocked(factor))
        alone.append(seen(fresh))
        assert seen(shared) == alone[-1]
    assert len(runs) == 3 + 2 and alone[0] == alone[1] != alone[2]


def test_a_function_has_one_tree() -> None:
    func = programs.matmul()
    assert shared_steps.steps_of(func) is shared_steps.steps_of(func)
    assert shared_steps.steps_of(programs.matmul()) is not shared_steps.steps_of(func)


def test_a_refusal_is_the_same_error_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = SharedSteps(programs.chain())
    errors = []
    for _ in range(2):
        sch = steps.schedule()
        with pytest.raises(ScheduleError) as caught:
            sch.compute_inline("D")
        errors.append((str(caught.value), caught.value.requirement))
        sch.compute_inline("B")
    alone = Schedule(programs.chain())
    alone.compute_inline("B")
    assert errors[0] == errors[1] and errors[0][1] == "not_output" and seen(sch) == seen(alone)


def test_a_list_that_a_caller_changes_is_its_own() -> None:
    steps = SharedSteps(programs.matmul())
    steps.schedule().get_loops("C").clear()
    assert len(steps.schedule().get_loops("C")) == 3


def test_sampling_begins_with_the_same_numbers_and_leaves_with_another_seed() -> None:
    steps = SharedSteps(programs.matmul(), seed=3)

    def sampled(seed: int | None = None) -> list[int]:
        sch = steps.schedule()
        if seed is not None:
            sch.seed(seed)
        return [int(sch.get(v)) for v in sch.sample_perfect_tile(sch.get_loops("C")[0], 2)]

    assert sampled() == sampled()
    assert len({tuple(sampled(1 + 99991 * seed)) for seed in range(12)}) > 1


def test_what_is_not_a_call_ends_the_sharing(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = counted(monkeypatch, "split")
    steps = SharedSteps(programs.matmul())
    for change in (lambda sch, i: sch.remove_rv(i), lambda sch, i: None, lambda sch, i: None):
        sch = steps.schedule()
        i, j, _ = sch.get_loops("C")
        change(sch, i)
        sch.split(j, [None, 4])
    assert len(runs) == 2
    with steps.schedule().all_or_nothing():
        pass
    sch = steps.schedule()
    with pytest.raises(KeyError), sch.all_or_nothing():
        sch.split(sch.get_loops("C")[1], [None, 4])
        raise KeyError
    assert seen(sch) == seen(steps.schedule())
    sch.split(sch.get_loops("C")[1], [None, 4])
    assert len(runs) == 2


def test_what_is_undone_is_undone_in_one_schedule() -> None:
    steps = SharedSteps(programs.matmul())
    one, other = steps.schedule(), steps.schedule()
    for sch in (one, other):
        i, j, _ = sch.get_loops("C")
        sch.split(i, [None, 2])
        sch.split(j, [None, 4])
    one.undo()
    one.undo()
    assert len(other._history) == 2 and len(other.get_loops("C")) == 5 and len(one.get_loops("C")) == 3
    for _ in range(2):  # what comes behind a shared step is no part of it
        third = steps.schedule()
        i, j, _ = third.get_loops("C")
        third.split(i, [None, 2])
        assert len(third._history) == 1
        third.split(j, [None, 8])


def test_the_tree_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_steps, "MOST", 10)
    steps = SharedSteps(programs.matmul())
    for factor in range(2, 14):
        sch = steps.schedule()
        sch.split(sch.get_loops("C")[0], [None, factor])
        assert steps.size <= 10
    assert "step=" not in str(sch.trace) and len(sch.get_loops("C")) == 4
