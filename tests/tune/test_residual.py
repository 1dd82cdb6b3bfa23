"""The residual: what it learns of some candidates it says of others; of nothing it says nothing."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitvm.strategy import Cost
from minitvm.tune.residual import _FARTHEST, FEWEST, MANY, Residual, features

FIGURES = {"slots": 100.0, "loads": 50.0, "stores": 10.0}


def rows(number: int, seed: int) -> tuple[list[dict[str, float]], np.ndarray]:
    """Candidates with random knobs, and the logarithm of a ratio that depends on them smoothly."""
    generator = np.random.default_rng(seed)
    tiles, packs = 2 ** generator.integers(0, 5, number), generator.integers(0, 2, number)
    some = [
        features("r", {"rows": int(t), "pack": bool(p)}, Cost(1e6, 1e5), FIGURES)
        for t, p in zip(tiles, packs, strict=True)
    ]
    return some, 0.2 * np.log2(tiles) - 0.4 * packs + 0.3


@pytest.mark.parametrize("number", range(FEWEST))
def test_of_too_few_points_nothing_is_learned(number: int) -> None:
    residual = Residual()
    some, logs = rows(number, 0)
    residual.fit(some, list(np.exp(logs)))
    assert residual.method == "none"
    assert np.array_equal(residual.predict(rows(5, 1)[0]), np.zeros(5))


@settings(max_examples=20)
@given(st.integers(0, 1000))
def test_a_smooth_residual_is_learned_from_a_dozen_points(seed: int) -> None:
    residual = Residual()
    some, logs = rows(24, seed)
    residual.fit(some, list(np.exp(logs)))
    others, expected = rows(50, seed + 1)
    assert residual.method == "ridge"
    error = np.abs(residual.predict(others) - expected)
    assert error.mean() < 0.15 < np.abs(expected - expected.mean()).mean() + 0.15
    assert error.mean() < 0.5 * np.abs(expected - logs.mean()).mean()


@settings(max_examples=20)
@given(st.floats(0.01, 100.0), st.integers(0, 100))
def test_a_machine_that_is_slower_by_a_factor_moves_all_predictions_by_it(factor: float, seed: int) -> None:
    one, other = Residual(), Residual()
    some, logs = rows(12, seed)
    one.fit(some, list(np.exp(logs)))
    other.fit(some, list(np.exp(logs) * factor))
    asked = rows(6, seed + 1)[0]
    assert np.allclose(other.predict(asked) - one.predict(asked), np.log(factor), atol=1e-6)


def test_far_from_what_was_seen_the_correction_is_bounded() -> None:
    residual = Residual()
    some, logs = rows(12, 0)
    residual.fit(some, list(np.exp(logs)))
    far = features("r", {"rows": 1 << 40, "pack": True}, Cost(1e30), FIGURES)
    assert abs(residual.predict([far])[0] - logs.mean()) <= _FARTHEST + 1e-9


def test_many_points_are_learned_by_trees_where_they_are_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    some, logs = rows(MANY, 3)
    residual = Residual()
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    residual.fit(some, list(np.exp(logs)))
    assert residual.method == "ridge"
    monkeypatch.undo()
    pytest.importorskip("lightgbm")
    residual.fit(some, list(np.exp(logs)))
    assert residual.method == "LightGBM"
    others, expected = rows(50, 4)
    assert np.abs(residual.predict(others) - expected).mean() < 0.05


def test_features_tell_candidates_apart_and_know_figures() -> None:
    one = features("r", {"rows": 8, "order": "xy"}, Cost(100.0, 50.0))
    assert one["r.rows"] == 3.0 and one["r.order=xy"] == 1.0 and one["memory share"] == pytest.approx(1 / 3)
    assert "loads a slot" not in one
    assert features("r", {"rows": 8}, Cost(100.0), FIGURES)["loads a slot"] == pytest.approx(np.log(0.51))
    assert features("r", {}, Cost(0.0))["log cycles"] == 0.0
