"""A build takes the decisions that won on its target, and says in one line which of them no longer apply."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import lower, strategy
from minitvm.build import compile_executable
from minitvm.build_options import BuildOptions
from minitvm.errors import ArtifactError
from minitvm.graph import Graph, GraphBuilder
from minitvm.lowering import cache, lower_placed, to_units
from minitvm.records import Record
from minitvm.records.database import Database
from minitvm.records.lookup import decisions
from minitvm.strategy import Decision
from minitvm.target import Target
from minitvm.tune.task import extract

CPU = Target("cpu -cores=2")


def layer() -> Graph:
    b = GraphBuilder("layer")
    x, w = b.input("x", (24, 32)), b.input("w", (32, 48))
    return b.build(b.op("nn.relu", b.op("nn.matmul", x, w)))


def other_decision() -> Decision:
    """One that a build does not take by itself."""
    (task,) = extract(layer(), CPU)
    usual = strategy.chosen(task.func, task.target).choice.taken
    assert usual is not None
    others = [Decision.of(one) for one in strategy.candidates(task.func, task.target)]
    return next(one for one in others if one.rule == "generic" and one.knobs["vector_bytes"] == 1)


def kept(path: Path, decision: Decision, **parts: Any) -> None:
    (task,) = extract(layer(), CPU)
    values = {"target": task.target_key, "outcome": "paired", "seconds": (1e-3,), "baseline": 2e-3, **parts}
    record = Record(
        task=task.key, machine="cpu", name=task.name, rule=decision.rule, knobs=dict(decision.knobs), **values
    )
    with Database.open(path) as database:
        database.add([record])


def scheduled_by(tuned: str | None) -> strategy.Weighed:
    """What the only function of the layer was scheduled by."""
    lowered: list[Any] = []
    original = lower_placed

    def spy(*arguments: Any) -> Any:
        lowered.append(original(*arguments))
        return lowered[-1]

    module = sys.modules["minitvm.lowering"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "lower_placed", spy)
        compile_executable(layer(), CPU, BuildOptions(tuned=tuned))
    (function,) = lowered[-1].values()
    taken = strategy.choice_of(function.host).taken
    assert taken is not None
    return taken


@pytest.mark.parametrize("verify", ["0", "1"])  # with 0 by way of the cache of functions
def test_a_build_takes_what_won(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verify: str) -> None:
    monkeypatch.setenv("MINITVM_VERIFY", verify)
    monkeypatch.setenv("MINITVM_CACHE_DIR", str(tmp_path / "cache"))
    path, decision = tmp_path / "records.db", other_decision()
    usual = scheduled_by(None)
    kept(path, decision)
    assert Decision(usual.rule, usual.knobs) != decision
    for _ in range(2):
        taken = scheduled_by(str(path))
        assert Decision(taken.rule, taken.knobs) == decision
        assert scheduled_by(None) == usual
    monkeypatch.setenv("MINITVM_RECORDS", str(path))
    taken = scheduled_by("auto")
    assert Decision(taken.rule, taken.knobs) == decision


def test_every_level_is_of_what_a_build_takes(tmp_path: Path) -> None:
    place = str(tmp_path / "records.db")
    decision = other_decision()
    kept(tmp_path / "records.db", decision)

    def taken(tuned: str | None) -> Decision:
        (func,) = lower(layer(), CPU, stop_at="schedule", tuned=tuned).values()
        choice = strategy.choice_of(func)
        assert choice.taken is not None
        return Decision(choice.rule, choice.taken.knobs)

    assert taken(place) == decision and taken(None) != decision
    tuned, usual = (lower(layer(), CPU, stop_at="source", tuned=tuned) for tuned in (place, None))
    assert tuned != usual
    built, plain = (lower(layer(), CPU, stop_at="executable", tuned=tuned) for tuned in (place, None))
    assert {kernel.source for kernel in built.kernels} != {kernel.source for kernel in plain.kernels}


def test_its_results_are_those_of_the_untuned_program(tmp_path: Path, rng: np.random.Generator) -> None:
    kept(tmp_path / "records.db", other_decision())
    x, w = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((24, 32), (32, 48)))
    tuned = tvm.build(layer(), target=CPU, tuned=str(tmp_path / "records.db"))
    assert np.array_equal(tuned(x=x, w=w), tvm.build(layer(), target=CPU, tuned=None)(x=x, w=w))


@pytest.mark.parametrize(
    "parts",
    [{"target": "another"}, {"outcome": "ok"}, {"baseline": 1.005e-3}, {"untuned": True}, {"baseline": 0.0}],
    ids=["another target", "measured alone", "hardly faster", "untuned", "without a baseline"],
)
def test_what_did_not_win_here_is_not_taken(tmp_path: Path, parts: dict[str, Any]) -> None:
    kept(tmp_path / "records.db", other_decision(), **parts)
    assert scheduled_by(str(tmp_path / "records.db")) == scheduled_by(None)


def test_a_record_that_no_longer_applies_is_one_warning(tmp_path: Path) -> None:
    kept(tmp_path / "records.db", Decision("a_rule_of_old", {"x": 3}))
    with pytest.warns(RuntimeWarning) as caught:
        taken = scheduled_by(str(tmp_path / "records.db"))
    assert [str(one.message) for one in caught] == [
        "the record of matmul_relu no longer applies: a_rule_of_old: no rule of that name for cpu"
    ]
    assert taken == scheduled_by(None)


def test_lowered_functions_are_kept_apart_by_decision() -> None:
    (unit,) = to_units(tvm.lower(layer(), CPU, stop_at="fused"))
    keys = {cache.key_of(unit.function, CPU, one) for one in (None, other_decision(), Decision("a", {}))}
    assert len(keys) == 3


# -- databases that cannot be read ------------------------------------------------------------------------------------


def test_a_database_that_was_named_raises_its_error_the_users_own_only_warns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "records.db"
    path.write_text("not a database" * 100)
    with pytest.raises(ArtifactError, match="is damaged, or is not a database"):
        tvm.build(layer(), target=CPU, tuned=str(path))
    monkeypatch.setenv("MINITVM_RECORDS", str(path))
    with pytest.warns(RuntimeWarning, match="records of tuning are not used: .* is damaged, or is not a database"):
        tvm.build(layer(), target=CPU)
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    with pytest.warns(RuntimeWarning, match=r"records of tuning are not used: pip install 'minitvm\[tune\]'"):
        tvm.build(layer(), target=CPU)


def test_without_records_nothing_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINITVM_RECORDS", str(tmp_path / "none" / "records.db"))
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        functions = [unit.function for unit in to_units(tvm.lower(layer(), CPU, stop_at="fused"))]
        assert decisions(functions, CPU, "auto") == {} == decisions(functions, CPU, None)
    assert not (tmp_path / "none").exists()
