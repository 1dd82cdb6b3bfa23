"""What won alone has to win in the network: with modules whose time stamps come from a table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from minitvm.executable import Barrier
from minitvm.expr import DType
from minitvm.records.lookup import LEAST
from minitvm.records.record import IN_NETWORK
from minitvm.tune.confirm import arguments, confirm, steps_of
from minitvm.tune.search import Search, sure_gain

from .test_search import begun, without_compiling


@pytest.fixture
def faked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    return without_compiling(monkeypatch)


def step(operator: str) -> Any:
    return SimpleNamespace(operator=operator)


class FakeModule:
    """Operators `first`, `own` and `last`, with a barrier behind each; seconds of each operator by the run."""

    def __init__(self, seconds: dict[str, float], inputs: tuple[Any, ...] = ()) -> None:
        steps = [one for name in ("first", "own", "last") for one in (step(name), Barrier())]
        self.executable, self.seconds, self.runs = SimpleNamespace(steps=steps, inputs=inputs), seconds, 0

    def stamped(self, **inputs: Any) -> Any:
        self.runs += 1
        parts = [self.seconds[name] / 2 for name in ("first", "own", "last") for _ in range(2)]
        ends = np.cumsum([0.0, *parts]) * 1e9
        return SimpleNamespace(times=np.round(ends)[None].astype(np.int64))


def won_alone(folder: Path) -> Search:
    """A search whose best is another one than the untuned program."""
    search = begun(folder)
    while search.best is None or search.best.untuned:
        search.step(6)
    search.task = replace(search.task, operators=("own",))
    return search


UNTUNED = {"first": 1e-3, "own": 2e-3, "last": 1e-3}


@pytest.mark.parametrize(
    ("tuned", "wins"),
    [
        ({"own": 1e-3}, True),
        ({"own": 1.99e-3}, False),  # hardly faster
        ({"own": 3e-3}, False),
        ({"own": 1e-3, "last": 3e-3}, False),  # what it gained another operator lost
        ({"own": 1e-3, "first": 1.5e-3}, True),
    ],
)
def test_what_wins_in_the_network_is_what_a_build_takes(
    faked: Any, tmp_path: Path, tuned: dict[str, float], wins: bool
) -> None:
    search = won_alone(tmp_path)
    assert search.best is not None
    decision = search.best.decision
    modules = {None: FakeModule(UNTUNED), search.database.url: FakeModule({**UNTUNED, **tuned})}
    assert confirm([search], modules.__getitem__) == wins
    best = search.database.best(search.task.key, search.task.target_key)
    assert best is not None and best.caches == IN_NETWORK and best.decision == decision
    assert (best.gain >= LEAST) == wins == (not search.best.untuned)
    assert not wins or best.gain == pytest.approx(2e-3 / tuned["own"], rel=1e-3)
    assert {module.runs for module in modules.values()} == {62}
    again = {None: FakeModule(UNTUNED), search.database.url: FakeModule(UNTUNED)}
    assert confirm([search], again.__getitem__) == 0 and again[None].runs == 0


def test_the_next_session_goes_on_with_what_won_in_the_network(faked: Any, tmp_path: Path) -> None:
    search = won_alone(tmp_path)
    slower = {None: FakeModule(UNTUNED), search.database.url: FakeModule({**UNTUNED, "own": 3e-3})}
    confirm([search], slower.__getitem__)
    again = begun(tmp_path)
    assert again.best is not None and again.best.untuned
    assert all(record.caches != IN_NETWORK for record in again.seen.values())


def test_nothing_is_run_where_a_size_is_open_or_nothing_won(faked: Any, tmp_path: Path) -> None:
    search = won_alone(tmp_path)
    spec = SimpleNamespace(name="x", shape=("n", 3), dtype=DType("float32"))
    module = FakeModule(UNTUNED, (spec,))
    assert confirm([search], lambda url: module) == 0 and module.runs == 0
    assert confirm([begun(tmp_path, db="other.db")], lambda url: pytest.fail("built")) == 0


def test_a_barrier_belongs_to_the_operator_in_front_of_it() -> None:
    executable: Any = SimpleNamespace(steps=[step("a"), Barrier(), step("b"), Barrier(), step("a"), step("c")])
    assert steps_of(executable, {"a": "A", "b": "B"}) == {"A": [0, 1, 4], "B": [2, 3]}


def test_inputs_that_may_be_indices_are_zeros() -> None:
    specs = [
        SimpleNamespace(name="x", shape=(2, 3), dtype=DType("float32")),
        SimpleNamespace(name="i", shape=(4,), dtype=DType("int64")),
    ]
    executable: Any = SimpleNamespace(inputs=specs)
    found = arguments(executable)
    assert found is not None and found["x"].dtype == np.float32 and found["x"].any()
    assert found["i"].dtype == np.int64 and not found["i"].any()


def test_a_gain_is_that_of_the_worse_half_and_of_runs_side_by_side() -> None:
    drifting = [1.0, 2.0, 3.0, 4.0]
    assert sure_gain(drifting, [2 * one for one in drifting]) == 2.0
    assert sure_gain([1.0] * 8, [3.0] * 4 + [1.5] * 4) == 1.5
